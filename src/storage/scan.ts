import { BATCH_HEADER_BYTES } from '../core/limits.ts'
import type { DiskFile } from '../io/disk.ts'
import { AT, type BatchHeader, batchSizeAt, computeBatchCrc, MAGIC } from '../record/batch.ts'
import { type BatchRules, checkBatch, MAX_BATCH_BYTES } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'

const CHUNK_BYTES = 1024 * 1024

export interface ScanRequest {
  readonly from: number
  readonly to: number
  readonly rules: BatchRules
  /** What the index says the first batch ends at; its base offset is not known then. */
  readonly firstLastOffset?: number
  /** Reads on the calling thread: for a few bytes that somebody waits for. */
  readonly readsNow?: boolean
}

export interface ScanResult {
  /** Where the last good batch ends. */
  readonly endPosition: number
  readonly nextOffset: number
  readonly lastEpoch: number
  /** Why the scan ended before `to`. */
  readonly fault: string | null
}

/** `bytes` and `at` are valid during the call only. */
export type OnBatch = (header: BatchHeader, position: number, bytes: Buffer, at: number) => void

/**
 * Walks the batches of a log file from a batch's beginning, checking each one whole, and stops at the first that is not right.
 * Memory: one chunk, or one batch where that is larger. Reads no byte outside [from, to).
 */
export async function scanBatches(file: DiskFile, pool: BufferPool, request: ScanRequest, onBatch: OnBatch): Promise<ScanResult> {
  const chunk = new ChunkReader(file, pool, request.to, request.readsNow)
  let position = request.from
  let { expectedOffset: nextOffset, minEpoch: lastEpoch } = request.rules
  try {
    while (position < request.to) {
      const fault = await ensureBatch(chunk, position, request.to)
      if (fault !== null) return { endPosition: position, nextOffset, lastEpoch, fault }
      const at = chunk.at(position)
      const isIndexed = position === request.from && request.firstLastOffset !== undefined
      const rules = { ...request.rules, expectedOffset: isIndexed ? 0 : nextOffset, minEpoch: lastEpoch }
      const header = checkBatch(chunk.bytes, at, chunk.end, isIndexed ? { ...rules, holesBelow: Number.POSITIVE_INFINITY } : rules)
      if (typeof header === 'string') return { endPosition: position, nextOffset, lastEpoch, fault: header }
      if (isIndexed && header.baseOffset + header.lastOffsetDelta !== request.firstLastOffset) {
        return { endPosition: position, nextOffset, lastEpoch, fault: 'the batch does not end where the index says' }
      }
      onBatch(header, position, chunk.bytes, at)
      position += header.sizeBytes
      nextOffset = header.baseOffset + header.lastOffsetDelta + 1
      lastEpoch = header.leaderEpoch
    }
    return { endPosition: position, nextOffset, lastEpoch, fault: null }
  } finally {
    chunk.release()
  }
}

/** Reads on until the batch at `position` is in memory; returns why it cannot be. */
export async function ensureBatch(chunk: ChunkReader, position: number, to: number): Promise<string | null> {
  const left = to - position
  if (left < BATCH_HEADER_BYTES) return `${left} bytes are left, a batch header has ${BATCH_HEADER_BYTES}`
  await chunk.need(position, BATCH_HEADER_BYTES)
  const size = batchSizeAt(chunk.bytes, chunk.at(position), chunk.end)
  if (size === undefined) return 'the file ended while it was read'
  if (size < BATCH_HEADER_BYTES || size > MAX_BATCH_BYTES) return `a batch cannot have ${size} bytes`
  if (size > left) return `the batch says it has ${size} bytes, ${left} are left`
  await chunk.need(position, size)
  return chunk.end - chunk.at(position) < size ? 'the file ended while it was read' : null
}

/**
 * Where the next whole batch begins behind `from`, or −1: tells a torn tail, which has nothing behind it, from damage in the
 * middle. A batch counts when its header is possible, its offset is not below `minOffset` and its checksum fits.
 */
export async function findBatch(file: DiskFile, pool: BufferPool, range: { from: number; to: number; minOffset: number }): Promise<number> {
  const chunk = new ChunkReader(file, pool, range.to)
  const holesBelow = Number.POSITIVE_INFINITY
  const rules: BatchRules = { expectedOffset: range.minOffset, holesBelow, epochFor: null, minEpoch: -1, maxEpoch: null }
  try {
    let position = range.from
    while (position + BATCH_HEADER_BYTES <= range.to) {
      await chunk.need(position, BATCH_HEADER_BYTES)
      const found = chunk.bytes.indexOf(MAGIC, chunk.at(position) + AT.magic)
      const candidate = found < 0 || found >= chunk.end ? -1 : position + found - AT.magic - chunk.at(position)
      if (candidate < 0) {
        position = Math.max(position + 1, chunk.endPosition - AT.magic)
        continue
      }
      if ((await ensureBatch(chunk, candidate, range.to)) === null) {
        const header = checkBatch(chunk.bytes, chunk.at(candidate), chunk.end, rules)
        if (typeof header !== 'string') return candidate
      }
      position = candidate + 1
    }
    return -1
  } finally {
    chunk.release()
  }
}

/** Whether the bytes at `position` have the length and the checksum of a batch, whatever the fields before the checksum say. */
export async function isWholeBatch(file: DiskFile, pool: BufferPool, position: number, to: number): Promise<boolean> {
  const chunk = new ChunkReader(file, pool, to)
  try {
    if ((await ensureBatch(chunk, position, to)) !== null) return false
    const at = chunk.at(position)
    const sizeBytes = batchSizeAt(chunk.bytes, at, chunk.end) as number
    return computeBatchCrc(chunk.bytes, at, sizeBytes) === chunk.bytes.readUInt32BE(at + AT.crc)
  } finally {
    chunk.release()
  }
}

/** Whether the batch at `position` is whole and satisfies `rules`. */
export async function fitsAt(file: DiskFile, pool: BufferPool, { position, to }: { position: number; to: number }, rules: BatchRules) {
  const chunk = new ChunkReader(file, pool, to)
  try {
    if ((await ensureBatch(chunk, position, to)) !== null) return false
    return typeof checkBatch(chunk.bytes, chunk.at(position), chunk.end, rules) !== 'string'
  } finally {
    chunk.release()
  }
}

/** A window on a file that moves forward. */
export class ChunkReader {
  readonly #file: Pick<DiskFile, 'read' | 'readNow'>
  readonly #pool: BufferPool
  readonly #to: number
  readonly #readsNow: boolean
  bytes: Buffer = Buffer.alloc(0)
  /** Bytes of `bytes` that are filled. */
  end = 0
  #position = 0

  constructor(file: Pick<DiskFile, 'read' | 'readNow'>, pool: BufferPool, to: number, readsNow = false) {
    this.#file = file
    this.#pool = pool
    this.#to = to
    this.#readsNow = readsNow
  }

  get endPosition(): number {
    return this.#position + this.end
  }

  at(position: number): number {
    return position - this.#position
  }

  /** Makes [position, position + size) readable, as far as the file has it. */
  async need(position: number, size: number): Promise<void> {
    if (position >= this.#position && position + size <= this.endPosition) return
    const want = Math.min(Math.max(CHUNK_BYTES, size), this.#to - position)
    if (this.bytes.length < want) {
      this.#pool.give(this.bytes)
      this.bytes = this.#pool.take(want)
    }
    this.#position = position
    const target = this.bytes.subarray(0, want)
    this.end = this.#readsNow ? this.#file.readNow(target, position) : await this.#file.read(target, position)
  }

  release(): void {
    this.#pool.give(this.bytes)
  }
}
