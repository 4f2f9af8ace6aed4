import { BATCH_HEADER_BYTES } from '../core/limits.ts'
import type { DiskFile } from '../io/disk.ts'
import { AT, type BatchHeader, batchCrcMatches, batchSizeAt } from '../record/batch.ts'
import { type BatchRules, checkHeader, MAX_BATCH_BYTES } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import type { LogRead, ReadRequest } from './types.ts'

/** Where a read of one file begins, and what is known of the batch there. */
export interface ReadStart {
  readonly position: number
  /** Last offset of the first batch by the index, or null: then its base offset is `expectedOffset`. */
  readonly indexedLastOffset: number | null
  readonly expectedOffset: number
}

export interface ColdReadOptions {
  readonly start: ReadStart
  /** Bytes of the file that may be looked at. */
  readonly fileBytes: number
  readonly request: ReadRequest
  readonly holesBelow: number
  readonly epochFor: (offset: number) => number
  /** Bytes read in vain before the batch that is wanted, as a guess. */
  readonly skipBytes: number
}

export type ColdReadResult =
  | { readonly kind: 'read'; readonly read: LogRead; readonly endPosition: number }
  /** No batch of this file reaches the offset: it goes on in the next one, from `nextOffset`. */
  | { readonly kind: 'end'; readonly nextOffset: number }
  | { readonly kind: 'damaged'; readonly position: number; readonly reason: string; readonly isAtStart: boolean }

/** Soft upper bound of one read, so that one request holds no more than this of the pool. */
const MAX_READ_BYTES = 4 * 1024 * 1024

/**
 * A read of whole batches from a file, as steps: `feed` looks at what was read and tells what to read next. So the same code serves
 * bytes that are read at once and bytes that come through the thread pool. Every batch that is returned had its checksum computed and
 * was compared with what is known of its place; a batch that fails is not returned, nor is anything behind it.
 */
export class ColdRead {
  readonly #pool: BufferPool
  readonly #options: ColdReadOptions
  readonly #limit: number
  #position: number
  #nextOffset: number
  #lastEpoch = -1
  #isFirst = true
  #wantBytes: number
  buffer: Buffer
  result: ColdReadResult | null = null

  constructor(pool: BufferPool, options: ColdReadOptions) {
    const { start, request, fileBytes } = options
    this.#pool = pool
    this.#options = options
    this.#limit = Math.min(Math.max(request.maxBytes, 0), MAX_READ_BYTES)
    this.#position = start.position
    this.#nextOffset = start.expectedOffset
    const want = Math.max(this.#limit + options.skipBytes, BATCH_HEADER_BYTES)
    this.#wantBytes = Math.max(0, Math.min(want, fileBytes - start.position))
    this.buffer = pool.take(this.#wantBytes)
  }

  get position(): number {
    return this.#position
  }

  get target(): Buffer {
    return this.buffer.subarray(0, this.#wantBytes)
  }

  /** `size` bytes from `position` on are in `target`. Sets `result`, or prepares the next read. */
  feed(size: number): void {
    const { fileBytes } = this.#options
    if (size < this.#wantBytes) {
      this.#end({ kind: 'damaged', position: this.#position + size, reason: 'the file is shorter than it was', isAtStart: false })
      return
    }
    let at = 0
    while (size - at >= BATCH_HEADER_BYTES) {
      const batchBytes = batchSizeAt(this.buffer, at, size) as number
      if (batchBytes > size - at && batchBytes <= MAX_BATCH_BYTES && this.#position + at + batchBytes <= fileBytes) break
      const header = this.#check(at, size)
      if (header === null) return
      if (header.baseOffset + header.lastOffsetDelta >= this.#options.request.offset) {
        this.#collect(header, at, size)
        return
      }
      at += header.sizeBytes
    }
    this.#readOn(at, size)
  }

  /** For a read that ends with an error: gives the memory back. */
  abandon(): void {
    this.#pool.give(this.buffer)
  }

  /** Nothing that is wanted was whole in memory: reads on from the first batch that was not looked at. */
  #readOn(at: number, size: number): void {
    const { fileBytes, request } = this.#options
    const rest = fileBytes - this.#position - at
    if (rest === 0) {
      this.#end({ kind: 'end', nextOffset: this.#nextOffset })
      return
    }
    if (rest < BATCH_HEADER_BYTES) {
      const reason = `${rest} bytes are left, a batch header has ${BATCH_HEADER_BYTES}`
      this.#end({ kind: 'damaged', position: this.#position + at, reason, isAtStart: this.#isFirst })
      return
    }
    const whole = batchSizeAt(this.buffer, at, size)
    if (whole !== undefined && whole > this.#limit && !request.minOneBatch && this.#reaches(at, size)) {
      this.#end({ kind: 'read', read: emptyRead(request.offset), endPosition: this.#position + at })
      return
    }
    this.#position += at
    this.#wantBytes = Math.min(Math.max(whole ?? 0, this.#limit, BATCH_HEADER_BYTES), rest)
    if (this.buffer.length < this.#wantBytes) {
      this.#pool.give(this.buffer)
      this.buffer = this.#pool.take(this.#wantBytes)
    }
  }

  /** Whether the batch whose header is at `at` holds the offset asked for; only to spare a read, the header is checked later. */
  #reaches(at: number, size: number): boolean {
    return (
      size - at >= BATCH_HEADER_BYTES && this.#nextOffset + this.buffer.readInt32BE(at + AT.lastOffsetDelta) >= this.#options.request.offset
    )
  }

  /** Takes batches from `at` on, as far as they are whole, below the limit and within the size. */
  #collect(first: BatchHeader, firstAt: number, size: number): void {
    const { request } = this.#options
    let header: BatchHeader | null = first
    let at = firstAt
    let nextOffset = request.offset
    while (header !== null) {
      const next = header.baseOffset + header.lastOffsetDelta + 1
      // What is asked for ends before the limit, so a batch that does not says so by damage, unless its checksum is right.
      if (next > request.limitOffset && (at > firstAt || batchCrcMatches(this.buffer, at, header))) break
      const taken = at - firstAt + header.sizeBytes
      if (taken > this.#limit && (at > firstAt || !request.minOneBatch)) break
      if (!batchCrcMatches(this.buffer, at, header)) {
        // Whole batches before it are good; the next read begins at the damaged one and reports it.
        if (at === firstAt) {
          const reason = 'the checksum does not fit the bytes'
          this.#end({ kind: 'damaged', position: this.#position + at, reason, isAtStart: this.#isFirst })
          return
        }
        break
      }
      at += header.sizeBytes
      nextOffset = next
      header = this.#peek(at, size)
    }
    this.#finish(firstAt, at, first.baseOffset, nextOffset)
  }

  #finish(from: number, to: number, baseOffset: number, nextOffset: number): void {
    const { request } = this.#options
    const endPosition = this.#position + to
    if (to === from) {
      this.#end({ kind: 'read', read: emptyRead(request.offset), endPosition })
      return
    }
    const pool = this.#pool
    const buffer = this.buffer
    let isHeld = true
    const read: LogRead = {
      buffers: [buffer.subarray(from, to)],
      sizeBytes: to - from,
      baseOffset,
      nextOffset,
      release: () => {
        if (isHeld) pool.give(buffer)
        isHeld = false
      },
    }
    this.result = { kind: 'read', read, endPosition }
  }

  /** The header at `at` when the batch is whole and right, else null: the read ends before it. */
  #peek(at: number, size: number): BatchHeader | null {
    const batchBytes = batchSizeAt(this.buffer, at, size)
    if (batchBytes === undefined || batchBytes > size - at) return null
    const header = checkHeader(this.buffer, at, size, this.#rules())
    if (typeof header === 'string') return null
    this.#passed(header)
    return header
  }

  #check(at: number, size: number): BatchHeader | null {
    const { start } = this.#options
    const isIndexed = this.#isFirst && start.indexedLastOffset !== null
    const rules = isIndexed ? { ...this.#rules(), holesBelow: Number.POSITIVE_INFINITY, expectedOffset: 0 } : this.#rules()
    const header = checkHeader(this.buffer, at, size, rules)
    let reason = typeof header === 'string' ? header : null
    if (typeof header !== 'string' && isIndexed && header.baseOffset + header.lastOffsetDelta !== start.indexedLastOffset) {
      reason = `the index says a batch ends at offset ${start.indexedLastOffset}, it ends at ${header.baseOffset + header.lastOffsetDelta}`
    }
    if (reason !== null || typeof header === 'string') {
      this.#end({ kind: 'damaged', position: this.#position + at, reason: reason ?? '', isAtStart: this.#isFirst })
      return null
    }
    this.#passed(header)
    return header
  }

  #passed(header: BatchHeader): void {
    this.#isFirst = false
    this.#lastEpoch = header.leaderEpoch
    this.#nextOffset = header.baseOffset + header.lastOffsetDelta + 1
  }

  #rules(): BatchRules {
    const { holesBelow, epochFor } = this.#options
    return { expectedOffset: this.#nextOffset, holesBelow, epochFor, minEpoch: this.#lastEpoch, maxEpoch: null }
  }

  #end(result: ColdReadResult): void {
    this.#pool.give(this.buffer)
    this.result = result
  }
}

export function emptyRead(offset: number): LogRead {
  return { buffers: [], sizeBytes: 0, baseOffset: offset, nextOffset: offset, release() {} }
}

/** Runs the read without giving up the turn. */
export function readColdNow(file: DiskFile, read: ColdRead): ColdReadResult {
  while (read.result === null) read.feed(file.readNow(read.target, read.position))
  return read.result
}

export async function readCold(file: DiskFile, read: ColdRead): Promise<ColdReadResult> {
  while (read.result === null) read.feed(await file.read(read.target, read.position))
  return read.result
}
