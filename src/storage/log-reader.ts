import { MoonMQError } from '../core/errors.ts'
import type { TopicPartition } from '../core/types.ts'
import type { BufferPool } from './buffer-pool.ts'
import { ColdRead, type ColdReadResult, emptyRead, type ReadStart, readCold, readColdNow } from './cold-read.ts'
import type { Segment } from './segment.ts'
import type { Tail } from './tail.ts'
import type { LogRead, ReadRequest } from './types.ts'

/** What a reader looks at of a log. */
export interface ReadableLog {
  readonly segments: readonly Segment[]
  readonly tail: Tail
  readonly writtenOffset: number
  /** Changes when bytes that were readable may have gone: a read that was under way starts again. */
  readonly generation: number
  /** Below it compaction may have left holes. */
  readonly holesBelow: number
  readonly indexIntervalBytes: number
  epochFor(offset: number): number
  /** From the beginning, with its checks of the range: for a read that was overtaken by a change of the log. */
  read(request: ReadRequest): LogRead | Promise<LogRead>
}

/** Where an earlier read ended; the next read of the same consumer begins there. */
interface Hint {
  readonly offset: number
  readonly segment: Segment
  readonly position: number
}

const HINTS = 32
/** Reads of at most this size from the newest part of the log happen at once: they are almost surely in the page cache. */
const READ_NOW_MAX_BYTES = 256 * 1024
const LIKELY_CACHED_BYTES = 32 * 1024 * 1024

/** Reads of one log: from memory when the offset is in the tail, else from the segment's file. */
export class LogReader {
  readonly #pool: BufferPool
  readonly #name: TopicPartition
  readonly #log: ReadableLog
  readonly #onIndexDamage: (segment: Segment, reason: string) => void
  readonly #hints: Hint[] = []
  #nextHint = 0

  constructor(
    deps: { pool: BufferPool },
    log: ReadableLog,
    name: TopicPartition,
    onIndexDamage: (segment: Segment, reason: string) => void,
  ) {
    this.#pool = deps.pool
    this.#log = log
    this.#name = name
    this.#onIndexDamage = onIndexDamage
  }

  /** The offset lies within log start..log end; the limit is not above what may be read. */
  read(request: ReadRequest): LogRead | Promise<LogRead> {
    if (request.offset >= request.limitOffset) return emptyRead(request.offset)
    if (request.offset >= this.#log.tail.startOffset) return this.#readTail(request)
    const segments = this.#log.segments
    const first = segments[0]
    if (first !== undefined && request.offset < first.baseOffset) {
      throw this.#damaged(first, 0, `the segments that held offset ${request.offset} are missing, this is the first that is there`)
    }
    return this.#readFrom(segmentIndexFor(segments, request.offset), request, false)
  }

  /** Positions that were remembered may be wrong now. */
  forget(): void {
    this.#hints.length = 0
    this.#nextHint = 0
  }

  #readTail(request: ReadRequest): LogRead {
    const { tail } = this.#log
    const buffers: Buffer[] = []
    let sizeBytes = 0
    let number = tail.find(request.offset)
    const baseOffset = tail.at(number)?.baseOffset ?? request.offset
    let nextOffset = request.offset
    for (;;) {
      const batch = tail.at(number)
      if (batch === undefined || batch.lastOffset >= request.limitOffset) break
      const isTooMuch = sizeBytes + batch.bytes.length > request.maxBytes
      if (isTooMuch && (sizeBytes > 0 || !request.minOneBatch)) break
      buffers.push(batch.bytes)
      sizeBytes += batch.bytes.length
      nextOffset = batch.lastOffset + 1
      number++
    }
    if (buffers.length === 0) return emptyRead(request.offset)
    return { buffers, sizeBytes, baseOffset, nextOffset, release() {} }
  }

  #readFrom(index: number, request: ReadRequest, ignoreIndex: boolean): LogRead | Promise<LogRead> {
    const segments = this.#log.segments
    let at = index
    let scanAll = ignoreIndex
    for (;;) {
      const segment = segments[at]
      if (segment === undefined) return emptyRead(request.offset)
      const start = this.#start(segment, request.offset, scanAll)
      const read = this.#coldRead(segment, start, request)
      const wantsNow = read.target.length <= READ_NOW_MAX_BYTES && this.#isLikelyCached(at, read.position)
      if (!wantsNow) return this.#readLater(at, segment, start, read, request)
      const outcome = this.#conclude(at, segment, start, this.#runNow(segment, read), request)
      if (outcome.kind === 'read') return outcome.read
      at = outcome.index
      scanAll = outcome.ignoreIndex
    }
  }

  async #readLater(index: number, segment: Segment, start: ReadStart, read: ColdRead, request: ReadRequest): Promise<LogRead> {
    const { generation } = this.#log
    const result = await this.#runLater(segment, read)
    if (this.#log.generation !== generation) {
      if (result.kind === 'read') result.read.release()
      return this.#log.read(request)
    }
    const outcome = this.#conclude(index, segment, start, result, request)
    if (outcome.kind === 'read') return outcome.read
    return this.#readFrom(outcome.index, request, outcome.ignoreIndex)
  }

  #runNow(segment: Segment, read: ColdRead): ColdReadResult {
    try {
      const file = segment.log.acquire()
      try {
        return readColdNow(file, read)
      } finally {
        segment.log.release()
      }
    } catch (error) {
      read.abandon()
      throw this.#readFailed(error)
    }
  }

  async #runLater(segment: Segment, read: ColdRead): Promise<ColdReadResult> {
    try {
      const file = segment.log.acquire()
      try {
        return await readCold(file, read)
      } finally {
        segment.log.release()
      }
    } catch (error) {
      read.abandon()
      throw this.#readFailed(error)
    }
  }

  #conclude(
    index: number,
    segment: Segment,
    start: ReadStart,
    result: ColdReadResult,
    request: ReadRequest,
  ): { kind: 'read'; read: LogRead } | { kind: 'again'; index: number; ignoreIndex: boolean } {
    const { segments } = this.#log
    if (result.kind === 'read') {
      if (result.read.sizeBytes > 0) this.#remember({ offset: result.read.nextOffset, segment, position: result.endPosition })
      return { kind: 'read', read: result.read }
    }
    if (result.kind === 'end') {
      const next = segments[index + 1]
      if (next === undefined) return { kind: 'read', read: emptyRead(request.offset) }
      if (result.nextOffset !== next.baseOffset && next.baseOffset > this.#log.holesBelow) {
        throw this.#damaged(
          segment,
          segment.writtenBytes,
          `the file ends at offset ${result.nextOffset}, the next one starts at ${next.baseOffset}`,
        )
      }
      return { kind: 'again', index: index + 1, ignoreIndex: false }
    }
    // An index that leads astray has no checksum to blame: the log's own bytes decide, read from the beginning.
    if (result.isAtStart && start.indexedLastOffset !== null) {
      this.#onIndexDamage(segment, result.reason)
      return { kind: 'again', index, ignoreIndex: true }
    }
    throw this.#damaged(segment, result.position, result.reason)
  }

  #coldRead(segment: Segment, start: ReadStart, request: ReadRequest): ColdRead {
    const log = this.#log
    return new ColdRead(this.#pool, {
      start,
      fileBytes: segment.writtenBytes,
      request: { ...request, limitOffset: Math.min(request.limitOffset, log.writtenOffset) },
      holesBelow: log.holesBelow,
      epochFor: (offset) => log.epochFor(offset),
      skipBytes: start.indexedLastOffset === null && start.expectedOffset === request.offset ? 0 : Math.min(log.indexIntervalBytes, 65536),
    })
  }

  #start(segment: Segment, offset: number, ignoreIndex: boolean): ReadStart {
    const fromBase: ReadStart = { position: 0, indexedLastOffset: null, expectedOffset: segment.baseOffset }
    if (ignoreIndex || offset <= segment.baseOffset) return fromBase
    for (const hint of this.#hints) {
      if (hint.offset === offset && hint.segment === segment)
        return { position: hint.position, indexedLastOffset: null, expectedOffset: offset }
    }
    const entry = this.#lookup(segment, offset)
    if (entry === null) return fromBase
    return { position: entry.position, indexedLastOffset: entry.lastOffset, expectedOffset: offset }
  }

  #lookup(segment: Segment, offset: number): { lastOffset: number; position: number } | null {
    try {
      const entry = segment.index.lookup(offset)
      if (entry === null || (entry.position < segment.writtenBytes && entry.lastOffset < segment.nextOffset)) return entry
      this.#onIndexDamage(segment, `an entry points to byte ${entry.position} of ${segment.writtenBytes}`)
    } catch (error) {
      this.#onIndexDamage(segment, String(error))
    }
    return null
  }

  #isLikelyCached(index: number, position: number): boolean {
    const { segments } = this.#log
    let behind = -position
    for (let at = segments.length - 1; at >= index && behind < LIKELY_CACHED_BYTES; at--) behind += (segments[at] as Segment).sizeBytes
    return behind < LIKELY_CACHED_BYTES
  }

  #remember(hint: Hint): void {
    this.#hints[this.#nextHint] = hint
    this.#nextHint = (this.#nextHint + 1) % HINTS
  }

  #damaged(segment: Segment, position: number, reason: string): MoonMQError {
    return new MoonMQError('CORRUPT_RECORDS', { file: segment.log.path, position, reason })
  }

  #readFailed(error: unknown): MoonMQError {
    const isOurs = error instanceof MoonMQError
    if (isOurs && error.code !== 'CLOSED') return error
    const { topic, partition } = this.#name
    return new MoonMQError('STORAGE_FAILED', { topic, partition, reason: isOurs ? 'the log is being opened again' : String(error) }, error)
  }
}

/** The segment that holds `offset`: the last one whose base is at or below it. */
export function segmentIndexFor(segments: readonly Segment[], offset: number): number {
  let low = 0
  let high = segments.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((segments[middle] as Segment).baseOffset <= offset) low = middle + 1
    else high = middle
  }
  return Math.max(0, low - 1)
}
