import { writeInt64 } from '../../core/int64.ts'
import { AT, ATTRIBUTE, BATCH_PREFIX_BYTES, type BatchHeader, sealBatch, timestampType } from '../../record/batch.ts'
import { varlongSize, writeVarint, writeVarlong } from '../../record/builder.ts'
import { RecordCursor } from '../../record/record.ts'
import { deleteHorizonOf, isRecordKept, type Survival } from './survivors.ts'

/**
 * Looks at the records of one batch and remembers which ones stay. In steps, since a batch may have a million records and each costs a
 * hash. Throws INVALID_RECORD for bytes that are no records.
 */
export class RecordFilter {
  readonly #section: Buffer
  readonly #header: BatchHeader
  readonly #survival: Survival
  readonly #keepsAll: boolean
  readonly #cursor: RecordCursor
  /** Where the kept records begin in the section, and where they end. */
  readonly starts: number[] = []
  readonly ends: number[] = []
  #at = 0
  maxTimestampMs = -1
  /** A kept record below the end of the map has no value. */
  hasTombstones = false
  /** Of the kept records: what a horizon is subtracted from. */
  minTimestampMs = Number.POSITIVE_INFINITY

  /** `keepsAll`: nothing goes, as in a marker that only gets its horizon. */
  constructor(section: Buffer, header: BatchHeader, survival: Survival, keepsAll = false) {
    this.#keepsAll = keepsAll
    this.#section = section
    this.#header = header
    this.#survival = survival
    this.#cursor = new RecordCursor(section, header)
  }

  /** Judges up to `count` records. False when there are no more. */
  step(count: number): boolean {
    const cursor = this.#cursor
    for (let left = count; left > 0; left--) {
      if (!cursor.next()) return false
      const start = this.#at
      this.#at += cursor.sizeBytes
      if (!this.#keepsAll && !isRecordKept(cursor, cursor.key(), this.#header, this.#survival)) continue
      this.starts.push(start)
      this.ends.push(this.#at)
      if (cursor.timestampMs > this.maxTimestampMs) this.maxTimestampMs = cursor.timestampMs
      if (cursor.timestampMs < this.minTimestampMs) this.minTimestampMs = cursor.timestampMs
      if (cursor.valueSize < 0 && cursor.offset < this.#survival.mapEndOffset) this.hasTombstones = true
    }
    return true
  }

  get keptCount(): number {
    return this.starts.length
  }

  /** The horizon that the batch gets with these records, or null: it has one, or needs none. */
  newHorizon(deleteRetentionMs: number): number | null {
    if (!(this.hasTombstones || this.#keepsAll) || deleteHorizonOf(this.#header) !== null) return null
    return horizonFor(this.#survival.nowMs, deleteRetentionMs, this.minTimestampMs)
  }

  /** The kept records as they are stored in a batch without compression, relative to `horizonMs` when there is a new one. */
  section(horizonMs: number | null): Buffer {
    const shiftMs = horizonMs === null || timestampType(this.#header) === 'LogAppendTime' ? 0 : this.#header.baseTimestampMs - horizonMs
    return shiftMs === 0 ? this.#copied() : this.#shifted(shiftMs)
  }

  #copied(): Buffer {
    const parts: Buffer[] = []
    for (let index = 0; index < this.starts.length; ) {
      const start = this.starts[index] as number
      let end = this.ends[index++] as number
      while (this.starts[index] === end) end = this.ends[index++] as number
      parts.push(this.#section.subarray(start, end))
    }
    return Buffer.concat(parts)
  }

  /** Every time is stored as a difference from the batch's, which changes by `shiftMs`; the rest of each record stays as it is. */
  #shifted(shiftMs: number): Buffer {
    const section = this.#section
    const mostBytes = this.ends.reduce((sum, end, index) => sum + end - (this.starts[index] as number) + 16, 0)
    const bytes = Buffer.allocUnsafe(mostBytes)
    let to = 0
    for (const [index, start] of this.starts.entries()) {
      const time = skipVarint(section, start) + 1
      const rest = skipVarint(section, time)
      const delta = readVarlong(section, time) + shiftMs
      const restBytes = (this.ends[index] as number) - rest
      const size = 1 + varlongSize(delta) + restBytes
      to = writeVarint(bytes, size, to)
      bytes[to++] = section[time - 1] as number
      to = writeVarlong(bytes, delta, to)
      to += section.copy(bytes, to, rest, rest + restBytes)
    }
    return bytes.subarray(0, to)
  }
}

/** When a tombstone that is met now may go; null when records so old cannot be stored beside such a time. */
function horizonFor(nowMs: number, deleteRetentionMs: number, minTimestampMs: number): number | null {
  const horizonMs = Math.min(nowMs + deleteRetentionMs, Number.MAX_SAFE_INTEGER)
  return Number.isSafeInteger(minTimestampMs - horizonMs) ? horizonMs : null
}

function skipVarint(bytes: Buffer, at: number): number {
  let end = at
  while ((bytes[end] as number) >= 0x80) end++
  return end + 1
}

/** A zig-zag varint of up to 64 bits that was checked to be a safe integer. */
function readVarlong(bytes: Buffer, at: number): number {
  let half = 0
  let scale = 0.5
  let sign = 0
  for (let index = at; ; index++) {
    const byte = bytes[index] as number
    if (index === at) sign = byte & 1
    half += (byte & (index === at ? 0x7e : 0x7f)) * scale
    if (byte < 0x80) return sign === 0 ? half : -half - 1
    scale *= 128
  }
}

interface Rebatch {
  readonly recordCount: number
  readonly maxTimestampMs: number
  /** Null: the base time stays. */
  readonly horizonMs: number | null
  /** The records part, compressed with the batch's own codec. */
  readonly packed: Buffer
}

/** A batch with fewer records: its offsets, producer, sequence and leader epoch are those of the original. */
export function rebuildBatch(original: Buffer, at: number, header: BatchHeader, parts: Rebatch): Buffer {
  const batch = Buffer.allocUnsafe(AT.records + parts.packed.length)
  original.copy(batch, 0, at, at + AT.records)
  parts.packed.copy(batch, AT.records)
  batch.writeInt32BE(batch.length - BATCH_PREFIX_BYTES, AT.batchLength)
  batch.writeInt32BE(parts.recordCount, AT.recordCount)
  if (timestampType(header) === 'CreateTime') writeInt64(batch, parts.maxTimestampMs, AT.maxTimestamp)
  if (parts.horizonMs !== null) {
    batch.writeInt16BE(header.attributes | ATTRIBUTE.deleteHorizon, AT.attributes)
    writeInt64(batch, parts.horizonMs, AT.baseTimestamp)
  }
  sealBatch(batch, 0, batch.length)
  return batch
}

/** A batch without records, which keeps offsets and the producer's sequence (Kafka: `DefaultRecordBatch.writeEmptyHeader`). */
export function emptyBatch(original: Buffer, at: number, header: BatchHeader): Buffer {
  const batch = Buffer.allocUnsafe(AT.records)
  original.copy(batch, 0, at, at + AT.records)
  batch.writeInt32BE(batch.length - BATCH_PREFIX_BYTES, AT.batchLength)
  batch.writeInt16BE(header.attributes & ~(ATTRIBUTE.codecMask | ATTRIBUTE.deleteHorizon), AT.attributes)
  batch.writeInt32BE(0, AT.recordCount)
  writeInt64(batch, header.maxTimestampMs, AT.baseTimestamp)
  sealBatch(batch, 0, batch.length)
  return batch
}
