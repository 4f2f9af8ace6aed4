import { MoonMQError } from '../core/errors.ts'
import { writeInt64 } from '../core/int64.ts'
import { AT, ATTRIBUTE, BATCH_PREFIX_BYTES, MAGIC, sealBatch, type TimestampType } from './batch.ts'
import type { RecordHeader } from './record.ts'

/** A record to be put into a batch. */
export interface NewRecord {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly timestampMs: number
  readonly headers?: readonly RecordHeader[]
  /** Where the record stands in the batch when offsets have gaps (compaction); otherwise its index. */
  readonly offsetDelta?: number
}

export interface BatchOptions {
  readonly baseOffset?: number
  readonly leaderEpoch?: number
  readonly timestampType?: TimestampType
  /** The time of the whole batch with LogAppendTime. */
  readonly logAppendTimeMs?: number
  readonly producerId?: number
  readonly producerEpoch?: number
  readonly baseSequence?: number
  readonly transactional?: boolean
  readonly control?: boolean
  /** Stays behind when compaction takes the last records; otherwise that of the last record. */
  readonly lastOffsetDelta?: number
  /** When markers and tombstones may go (KIP-534); takes the place of the base timestamp. */
  readonly deleteHorizonMs?: number
  readonly codec?: number
  /** Compresses the records part; must be given with a codec other than 0. */
  readonly compress?: (codec: number, bytes: Buffer) => Buffer
}

function uvarintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5
}

/** Bytes of a zig-zag varint of 32 bits. */
function varintSize(value: number): number {
  return uvarintSize(((value << 1) ^ (value >> 31)) >>> 0)
}

/** Bytes of a zig-zag varint of 64 bits. Doubling could leave the safe integers, so the lowest bit is set apart. */
export function varlongSize(value: number): number {
  let rest = Math.floor((value < 0 ? -(value + 1) : value) / 64)
  let size = 1
  for (; rest > 0; rest = Math.floor(rest / 128)) size++
  return size
}

export function writeVarint(bytes: Buffer, value: number, position: number): number {
  let rest = ((value << 1) ^ (value >> 31)) >>> 0
  let at = position
  while (rest >= 0x80) {
    bytes[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  bytes[at++] = rest
  return at
}

export function writeVarlong(bytes: Buffer, value: number, position: number): number {
  const half = value < 0 ? -(value + 1) : value
  let group = (half % 64) * 2 + (value < 0 ? 1 : 0)
  let rest = Math.floor(half / 64)
  let at = position
  for (; rest > 0; rest = Math.floor(rest / 128)) {
    bytes[at++] = group | 0x80
    group = rest % 128
  }
  bytes[at++] = group
  return at
}

/** Bytes of a record after its length prefix. */
function bodySize(record: NewRecord, timestampDelta: number, offsetDelta: number): number {
  const keySize = record.key === null ? 0 : record.key.length
  const valueSize = record.value === null ? 0 : record.value.length
  let size = 1 + varlongSize(timestampDelta) + varintSize(offsetDelta)
  size += varintSize(record.key === null ? -1 : keySize) + keySize
  size += varintSize(record.value === null ? -1 : valueSize) + valueSize
  const headers = record.headers
  if (headers === undefined || headers.length === 0) return size + 1
  size += varintSize(headers.length)
  for (const header of headers) {
    const nameSize = Buffer.byteLength(header.key)
    size += varintSize(nameSize) + nameSize
    size += header.value === null ? 1 : varintSize(header.value.length) + header.value.length
  }
  return size
}

function writeBytes(bytes: Buffer, value: Buffer | null, position: number): number {
  if (value === null) return writeVarint(bytes, -1, position)
  const at = writeVarint(bytes, value.length, position)
  bytes.set(value, at)
  return at + value.length
}

function writeRecord(
  bytes: Buffer,
  position: number,
  size: number,
  record: NewRecord,
  timestampDelta: number,
  offsetDelta: number,
): number {
  let at = writeVarint(bytes, size, position)
  bytes[at++] = 0
  at = writeVarlong(bytes, timestampDelta, at)
  at = writeVarint(bytes, offsetDelta, at)
  at = writeBytes(bytes, record.key, at)
  at = writeBytes(bytes, record.value, at)
  const headers = record.headers
  if (headers === undefined || headers.length === 0) return writeVarint(bytes, 0, at)
  at = writeVarint(bytes, headers.length, at)
  for (const header of headers) {
    at = writeVarint(bytes, Buffer.byteLength(header.key), at)
    at += bytes.write(header.key, at)
    at = writeBytes(bytes, header.value, at)
  }
  return at
}

function attributesOf(options: BatchOptions): number {
  let attributes = options.codec ?? 0
  if (options.timestampType === 'LogAppendTime') attributes |= ATTRIBUTE.logAppendTime
  if (options.transactional) attributes |= ATTRIBUTE.transactional
  if (options.control) attributes |= ATTRIBUTE.control
  if (options.deleteHorizonMs !== undefined) attributes |= ATTRIBUTE.deleteHorizon
  return attributes
}

/**
 * One batch of these records, sealed with its checksum. The size is added up first, so every byte is written once into the buffer
 * that is returned (twice when compressed). Timestamps are safe integers; offsets come from `baseOffset` and the index.
 */
export function buildBatch(records: readonly NewRecord[], options: BatchOptions = {}): Buffer {
  const first = records[0]
  const baseTimestampMs = options.deleteHorizonMs ?? first?.timestampMs ?? -1
  let maxTimestampMs = -1
  let lastDelta = 0
  let recordsBytes = 0
  const sizes = new Array<number>(records.length)
  for (let i = 0; i < records.length; i++) {
    const record = records[i] as NewRecord
    if (!Number.isSafeInteger(record.timestampMs))
      throw new MoonMQError('INVALID_TIMESTAMP', { timestamp: record.timestampMs, reason: 'it is beyond 2^53' })
    if (!Number.isSafeInteger(record.timestampMs - baseTimestampMs)) {
      throw new MoonMQError('INVALID_TIMESTAMP', { timestamp: record.timestampMs, reason: `it is too far from ${baseTimestampMs}` })
    }
    lastDelta = record.offsetDelta ?? i
    const size = bodySize(record, record.timestampMs - baseTimestampMs, lastDelta)
    sizes[i] = size
    recordsBytes += varintSize(size) + size
    if (i === 0 || record.timestampMs > maxTimestampMs) maxTimestampMs = record.timestampMs
  }
  const batch = Buffer.allocUnsafe(AT.records + recordsBytes)
  let at: number = AT.records
  for (let i = 0; i < records.length; i++) {
    const record = records[i] as NewRecord
    at = writeRecord(batch, at, sizes[i] as number, record, record.timestampMs - baseTimestampMs, record.offsetDelta ?? i)
  }
  return finishBatch(batch, options, {
    count: records.length,
    lastOffsetDelta: options.lastOffsetDelta ?? lastDelta,
    baseTimestampMs,
    maxTimestampMs: options.logAppendTimeMs ?? maxTimestampMs,
  })
}

interface BatchFacts {
  readonly count: number
  readonly lastOffsetDelta: number
  readonly baseTimestampMs: number
  readonly maxTimestampMs: number
}

/** Compresses the records part when asked, writes the header and seals. */
function finishBatch(plain: Buffer, options: BatchOptions, facts: BatchFacts): Buffer {
  let batch = plain
  const codec = options.codec ?? 0
  if (codec !== 0) {
    if (options.compress === undefined) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    const packed = options.compress(codec, plain.subarray(AT.records))
    batch = Buffer.allocUnsafe(AT.records + packed.length)
    batch.set(packed, AT.records)
  }
  writeInt64(batch, options.baseOffset ?? 0, AT.baseOffset)
  batch.writeInt32BE(batch.length - BATCH_PREFIX_BYTES, AT.batchLength)
  batch.writeInt32BE(options.leaderEpoch ?? -1, AT.leaderEpoch)
  batch.writeInt8(MAGIC, AT.magic)
  batch.writeInt16BE(attributesOf(options), AT.attributes)
  batch.writeInt32BE(facts.lastOffsetDelta, AT.lastOffsetDelta)
  writeInt64(batch, facts.baseTimestampMs, AT.baseTimestamp)
  writeInt64(batch, facts.maxTimestampMs, AT.maxTimestamp)
  writeInt64(batch, options.producerId ?? -1, AT.producerId)
  batch.writeInt16BE(options.producerEpoch ?? -1, AT.producerEpoch)
  batch.writeInt32BE(options.baseSequence ?? -1, AT.baseSequence)
  batch.writeInt32BE(facts.count, AT.recordCount)
  sealBatch(batch, 0, batch.length)
  return batch
}
