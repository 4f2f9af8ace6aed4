import { MoonMQError } from '../../core/errors.ts'
import type { Disk } from '../../io/disk.ts'
import { type BatchHeader, lastOffset } from '../../record/batch.ts'
import type { HandleCache } from '../handles.ts'
import type { CompletedTransaction } from '../producer-state.ts'
import { Segment } from '../segment.ts'
import type { Pace } from './pace.ts'
import { CLEANED_SUFFIX, removeCleaned } from './swap.ts'

export interface CleanedSegmentDeps {
  readonly disk: Disk
  readonly handles: HandleCache
  readonly pace: Pace
}

export interface CleanedSegmentOptions {
  readonly folder: string
  /** The segments whose place it takes; their batches come in order. */
  readonly old: readonly Segment[]
  readonly endOffset: number
  readonly indexIntervalBytes: number
  readonly createdMs: number
}

const BUFFER_BYTES = 1024 * 1024
const INDEX_FLUSH_BYTES = 64 * 1024
const MAX_SEGMENT_BYTES = 0x7fffffff

/**
 * Writes one compacted segment with its indexes under `….cleaned`. While a single old segment stays as it is nothing is written: the first
 * batch that changes makes the file, and what came before is copied then. So a pass over a part that is clean already only reads it.
 */
export class CleanedSegment {
  readonly segment: Segment
  readonly #deps: CleanedSegmentDeps
  readonly #options: CleanedSegmentOptions
  readonly #buffer: Buffer[] = []
  #bufferBytes = 0
  #position = 0
  readonly #aborted: CompletedTransaction[] = []
  /** Where batches still are as they were, so that they need not be written; null once the file was begun. */
  #source: Segment | null
  #isBegun = false

  constructor(deps: CleanedSegmentDeps, options: CleanedSegmentOptions) {
    const { folder, old, createdMs } = options
    const first = old[0] as Segment
    this.#deps = deps
    this.#options = options
    this.#source = old.length === 1 ? first : null
    this.segment = Segment.create(deps, { folder, baseOffset: first.baseOffset, createdMs, suffix: CLEANED_SUFFIX })
  }

  /** A batch that stays as it is. */
  async keep(header: BatchHeader, bytes: Buffer, at: number): Promise<void> {
    if (this.#source === null) await this.#begin()
    this.#accept(header)
    if (this.#source === null) await this.#write(Buffer.from(bytes.subarray(at, at + header.sizeBytes)))
  }

  /** A batch that takes the place of one that was changed; owned from here on. */
  async replace(header: BatchHeader, batch: Buffer): Promise<void> {
    await this.#begin()
    this.#accept(header)
    await this.#write(batch)
  }

  /** A batch went. */
  drop(): Promise<void> {
    return this.#begin()
  }

  aborted(transaction: CompletedTransaction): void {
    this.#aborted.push(transaction)
  }

  /** Makes it durable, but for its names. False when nothing changed: then there is no file. */
  async finish(): Promise<boolean> {
    const { segment } = this
    if (this.#source !== null) return false
    await this.#begin()
    await this.#flush()
    await this.#makeTxnIndex()
    segment.finishTimeIndex()
    const file = segment.log.acquire()
    try {
      await file.datasync()
    } finally {
      segment.log.release()
    }
    await segment.syncIndexes()
    segment.appendedMs = await this.#appendedMs()
    segment.nextOffset = this.#options.endOffset
    segment.writtenBytes = segment.sizeBytes
    segment.writtenOffset = segment.nextOffset
    segment.syncedOffset = segment.nextOffset
    segment.areNamesDurable = true
    segment.isFinished = true
    return true
  }

  #accept(header: BatchHeader): void {
    const { segment } = this
    const { indexIntervalBytes, old } = this.#options
    if (segment.sizeBytes + header.sizeBytes > MAX_SEGMENT_BYTES) {
      const path = old[0]?.log.path ?? ''
      throw new MoonMQError('INTERNAL', { reason: `compacted, ${path} would be larger than a segment can be` })
    }
    const addsIndexEntry = indexIntervalBytes === 0 || segment.bytesSinceIndexEntry > indexIntervalBytes
    const plan = { baseOffset: header.baseOffset, lastOffset: lastOffset(header), roll: null, position: segment.sizeBytes, addsIndexEntry }
    segment.accept(plan, header)
  }

  /** Makes the file and copies into it what stayed so far. */
  async #begin(): Promise<void> {
    if (this.#isBegun) return
    this.#isBegun = true
    const { segment } = this
    await removeCleaned(this.#deps.disk, this.#options.folder, segment.baseOffset)
    const source = this.#source
    if (source === null) return
    this.#source = null
    for (let position = 0; position < segment.sizeBytes; ) {
      const part = Buffer.allocUnsafe(Math.min(BUFFER_BYTES, segment.sizeBytes - position))
      const file = source.log.acquire()
      try {
        const size = await file.read(part, position)
        if (size < part.length)
          throw new MoonMQError('CORRUPT_RECORDS', { file: file.path, position, reason: 'the file is shorter than it was' })
      } finally {
        source.log.release()
      }
      position += part.length
      await this.#write(part)
    }
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#buffer.push(bytes)
    this.#bufferBytes += bytes.length
    if (this.#bufferBytes >= BUFFER_BYTES) await this.#flush()
  }

  async #flush(): Promise<void> {
    const { segment } = this
    const file = segment.log.acquire()
    try {
      if (this.#bufferBytes > 0) await file.write(this.#buffer, this.#position)
    } finally {
      segment.log.release()
    }
    this.#position += this.#bufferBytes
    const bytes = this.#bufferBytes
    this.#buffer.length = 0
    this.#bufferBytes = 0
    segment.flushIndexesFrom(INDEX_FLUSH_BYTES)
    await this.#deps.pace.moved(bytes)
  }

  /** Retention asks when the newest of its records came, not when the file was written. */
  async #appendedMs(): Promise<number | null> {
    const { old } = this.#options
    const last = old[old.length - 1] as Segment
    return last.appendedMs ?? (await this.#deps.disk.stat(last.log.path))?.modifiedMs ?? null
  }

  /** Where the first old segment has such an index a new one takes its place, if only an empty one. */
  async #makeTxnIndex(): Promise<void> {
    const { segment } = this
    for (const each of this.#aborted) segment.txnIndex.append(each)
    const { disk } = this.#deps
    const old = this.#options.old[0]
    if (this.#aborted.length > 0 || old === undefined || (await disk.stat(old.txnIndex.path)) === null) return
    const file = await disk.open(segment.txnIndex.path, 'write')
    try {
      await file.datasync()
    } finally {
      await file.close()
    }
  }
}
