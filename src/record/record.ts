import { MoonMQError } from '../core/errors.ts'
import { AT, ATTRIBUTE, type BatchHeader } from './batch.ts'

/** A header of a record: text name, value as bytes or null. */
export interface RecordHeader {
  readonly key: string
  readonly value: Buffer | null
}

/** A record as a reader sees it. Key, value and header values are views of the batch. */
export interface RecordView {
  readonly offset: number
  readonly timestampMs: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

const NO_HEADERS: readonly RecordHeader[] = []

function invalid(reason: string): MoonMQError {
  return new MoonMQError('INVALID_RECORD', { reason })
}

/** The records part of an uncompressed batch, as a view. */
export function recordsSection(batch: Buffer, position: number, header: BatchHeader): Buffer {
  return batch.subarray(position + AT.records, position + header.sizeBytes)
}

/**
 * Walks the records of one batch without allocating: `next()` moves on, the fields tell what is there, `key()`, `value()` and
 * `headers()` make views on demand. `section` is the records part, inflated. Everything is checked against the record's own length
 * and the section's end; throws INVALID_RECORD.
 */
export class RecordCursor {
  readonly #bytes: Buffer
  readonly #end: number
  readonly #count: number
  readonly #baseOffset: number
  readonly #baseTimestampMs: number
  /** Time of every record under log-append time. */
  readonly #appendTimeMs: number | undefined
  #at: number
  #recordEnd = 0
  #headersAt = 0

  /** Number of records passed. */
  index = -1
  offset = -1
  offsetDelta = -1
  timestampMs = -1
  attributes = 0
  /** Bytes of the record, its length prefix included. */
  sizeBytes = 0
  keyStart = 0
  /** -1 = null. */
  keySize = -1
  valueStart = 0
  /** -1 = null. */
  valueSize = -1
  headerCount = 0

  constructor(section: Buffer, header: BatchHeader, start = 0, end = section.length) {
    this.#bytes = section
    this.#at = start
    this.#end = end
    this.#count = header.recordCount
    this.#baseOffset = header.baseOffset
    this.#baseTimestampMs = header.baseTimestampMs
    this.#appendTimeMs = (header.attributes & ATTRIBUTE.logAppendTime) !== 0 ? header.maxTimestampMs : undefined
  }

  /** Moves to the next record; false after the last one that the header counts. */
  next(): boolean {
    if (this.index + 1 >= this.#count) return false
    this.index++
    const start = this.#at
    this.#recordEnd = this.#end
    const length = this.#varint('length')
    if (length < 0 || length > this.#end - this.#at)
      throw invalid(this.#where(`a length of ${length} with ${this.#end - this.#at} bytes left`))
    this.#recordEnd = this.#at + length
    this.attributes = this.#byte()
    const timestampDelta = this.#varlong()
    this.offsetDelta = this.#varint('offset delta')
    this.keySize = this.#varint('key length')
    this.keyStart = this.#take(this.keySize, 'key')
    this.valueSize = this.#varint('value length')
    this.valueStart = this.#take(this.valueSize, 'value')
    this.headerCount = this.#varint('header count')
    this.#headersAt = this.#at
    // A header has at least two bytes, so a count that lies is told before anything is taken for it.
    if (this.headerCount < 0 || this.headerCount * 2 > this.#recordEnd - this.#at)
      throw invalid(this.#where(`a header count of ${this.headerCount}`))
    for (let i = 0; i < this.headerCount; i++) {
      const keySize = this.#varint('header key length')
      if (keySize < 0) throw invalid(this.#where('a null header key'))
      this.#take(keySize, 'header key')
      this.#take(this.#varint('header value length'), 'header value')
    }
    if (this.#at !== this.#recordEnd) throw invalid(this.#where(`${this.#recordEnd - this.#at} bytes left over`))
    this.offset = this.#baseOffset + this.offsetDelta
    this.timestampMs = this.#appendTimeMs ?? this.#baseTimestampMs + timestampDelta
    this.sizeBytes = this.#at - start
    return true
  }

  key(): Buffer | null {
    return this.keySize < 0 ? null : this.#bytes.subarray(this.keyStart, this.keyStart + this.keySize)
  }

  value(): Buffer | null {
    return this.valueSize < 0 ? null : this.#bytes.subarray(this.valueStart, this.valueStart + this.valueSize)
  }

  headers(): readonly RecordHeader[] {
    if (this.headerCount === 0) return NO_HEADERS
    const resume = this.#at
    this.#at = this.#headersAt
    const headers: RecordHeader[] = []
    for (let i = 0; i < this.headerCount; i++) {
      const keySize = this.#varint('header key length')
      const keyStart = this.#take(keySize, 'header key')
      const valueSize = this.#varint('header value length')
      const valueStart = this.#take(valueSize, 'header value')
      headers.push({
        key: this.#bytes.toString('utf8', keyStart, keyStart + keySize),
        value: valueSize < 0 ? null : this.#bytes.subarray(valueStart, valueStart + valueSize),
      })
    }
    this.#at = resume
    return headers
  }

  view(): RecordView {
    return { offset: this.offset, timestampMs: this.timestampMs, key: this.key(), value: this.value(), headers: this.headers() }
  }

  /** Bytes after the last record read. */
  get remaining(): number {
    return this.#end - this.#at
  }

  #where(what: string): string {
    return `record ${this.index} has ${what}`
  }

  #byte(): number {
    if (this.#at >= this.#recordEnd) throw invalid(this.#where('too few bytes'))
    return this.#bytes[this.#at++] as number
  }

  /** Moves over `size` bytes, none for null (-1), and returns where they start. */
  #take(size: number, what: string): number {
    const at = this.#at
    if (size < -1 || size > this.#recordEnd - at) throw invalid(this.#where(`a ${what} of ${size} bytes with ${this.#recordEnd - at} left`))
    if (size > 0) this.#at = at + size
    return at
  }

  #varint(what: string): number {
    const first = this.#byte()
    if (first < 0x80) return (first >>> 1) ^ -(first & 1)
    let value = first & 0x7f
    for (let shift = 7; shift < 28; shift += 7) {
      const byte = this.#byte()
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1)
    }
    const last = this.#byte()
    if (last > 0x0f) throw invalid(this.#where(`a ${what} beyond 32 bits`))
    value = (value | (last << 28)) >>> 0
    return (value >>> 1) ^ -(value & 1)
  }

  #varlong(): number {
    let low = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#byte()
      low |= (byte & 0x7f) << shift
      if (byte < 0x80) return (low >>> 1) ^ -(low & 1)
    }
    let high = 0
    let scale = 1
    for (let index = 4; index < 10; index++) {
      const byte = this.#byte()
      if (index === 9 && byte > 1) break
      high += (byte & 0x7f) * scale
      scale *= 128
      if (byte < 0x80) {
        // value = (low + high * 2^28) as zig-zag; low has 28 bits, so its lowest bit is the sign.
        const half = (low >>> 1) + high * 134217728
        const value = (low & 1) === 0 ? half : -half - 1
        if (!Number.isSafeInteger(value)) throw invalid(this.#where('a timestamp beyond 2^53'))
        return value
      }
    }
    throw invalid(this.#where('a timestamp beyond 64 bits'))
  }
}

/** The records of a batch one after another, each as an object of its own. `section` is the records part, inflated. */
export function* readRecords(section: Buffer, header: BatchHeader): Generator<RecordView, void, undefined> {
  const cursor = new RecordCursor(section, header)
  while (cursor.next()) yield cursor.view()
}

export interface RecordsSummary {
  /** Largest timestamp of a record, and the offset of the first one that has it; -1 in an empty batch. */
  readonly maxTimestampMs: number
  readonly offsetOfMaxTimestamp: number
  /** Smallest timestamp of a record that has one; -1 when none has. */
  readonly minTimestampMs: number
}

/**
 * Reads every record of a batch and checks what the header says of them: the count, nothing left over, offsets 0..n-1 for a batch
 * from a producer (`dense`), rising and at most the last offset delta for one that was compacted. Throws INVALID_RECORD.
 */
export function validateRecords(
  section: Buffer,
  header: BatchHeader,
  options: { readonly dense: boolean; readonly keyed?: boolean },
): RecordsSummary {
  const cursor = new RecordCursor(section, header)
  let keyless: number[] | null = null
  let maxTimestampMs = -1
  let offsetOfMaxTimestamp = -1
  let minTimestampMs = -1
  let previousDelta = -1
  while (cursor.next()) {
    const delta = cursor.offsetDelta
    if (options.dense ? delta !== cursor.index : delta <= previousDelta || delta > header.lastOffsetDelta) {
      throw invalid(`record ${cursor.index} has offset delta ${delta}`)
    }
    if (options.keyed === true && cursor.keySize < 0) keyless = noteKeyless(keyless, cursor.index)
    if (!Number.isSafeInteger(cursor.timestampMs)) throw invalid(`record ${cursor.index} has a timestamp beyond 2^53`)
    if (cursor.timestampMs > maxTimestampMs || offsetOfMaxTimestamp < 0) {
      maxTimestampMs = cursor.timestampMs
      offsetOfMaxTimestamp = cursor.offset
    }
    if (cursor.timestampMs !== -1 && (cursor.timestampMs < minTimestampMs || minTimestampMs === -1)) minTimestampMs = cursor.timestampMs
    previousDelta = delta
  }
  if (cursor.remaining !== 0) throw invalid(`${cursor.remaining} bytes are left after the last record`)
  if (options.dense && previousDelta !== header.lastOffsetDelta) {
    throw invalid(`the last record has offset delta ${previousDelta}, the header says ${header.lastOffsetDelta}`)
  }
  if (keyless !== null) throw withoutKey(keyless)
  return { maxTimestampMs, offsetOfMaxTimestamp, minTimestampMs }
}

/** Records that are named one by one when a batch is refused. */
const MAX_NAMED_RECORDS = 100

function noteKeyless(known: number[] | null, index: number): number[] {
  if (known === null) return [index]
  if (known.length < MAX_NAMED_RECORDS) known.push(index)
  return known
}

/** The detail `records` has their places in the batch: a door can tell the producer which of its records are at fault. */
function withoutKey(records: readonly number[]): MoonMQError {
  const reason = `record ${records.join(', ')} has no key; a compacted topic keeps the last record of each key`
  return new MoonMQError('INVALID_RECORD', { reason, records: records.join(',') })
}
