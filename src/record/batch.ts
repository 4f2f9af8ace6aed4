import { crc32c } from '../core/crc32c.ts'
import { MoonMQError } from '../core/errors.ts'
import { readInt64, writeInt64 } from '../core/int64.ts'
import { BATCH_HEADER_BYTES } from '../core/limits.ts'

/**
 * Kafka's record batch, magic 2, as it travels and as it rests (DESIGN D3). Nothing here looks at records: a batch is judged and
 * placed by its first 61 bytes. Base offset, length, leader epoch and magic lie before the checksum, so a broker gives a batch its
 * place in the log without computing it again.
 */

/** Fields of a record batch header, magic 2 (61 bytes). `sizeBytes` is the whole batch: batch length + 12. */
export interface BatchHeader {
  readonly baseOffset: number
  readonly sizeBytes: number
  readonly leaderEpoch: number
  readonly magic: number
  readonly crc: number
  readonly attributes: number
  readonly lastOffsetDelta: number
  readonly baseTimestampMs: number
  readonly maxTimestampMs: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly recordCount: number
}

export const MAGIC = 2
/** Base offset and batch length: what must be read to know how long a batch is. */
export const BATCH_PREFIX_BYTES = 12
export const MAX_SEQUENCE = 2 ** 31 - 1

/** Where the fields of a batch lie. */
export const AT = {
  baseOffset: 0,
  batchLength: 8,
  leaderEpoch: 12,
  magic: 16,
  crc: 17,
  attributes: 21,
  lastOffsetDelta: 23,
  baseTimestamp: 27,
  maxTimestamp: 35,
  producerId: 43,
  producerEpoch: 51,
  baseSequence: 53,
  recordCount: 57,
  records: 61,
} as const

export const ATTRIBUTE = {
  codecMask: 0x07,
  logAppendTime: 0x08,
  transactional: 0x10,
  control: 0x20,
  deleteHorizon: 0x40,
  known: 0x7f,
} as const

export type TimestampType = 'CreateTime' | 'LogAppendTime'

function damaged(reason: string): MoonMQError {
  return new MoonMQError('CORRUPT_BATCH', { reason })
}

/** Bytes of the batch that begins at `position`, from its length field alone; undefined while fewer than 12 bytes are there. */
export function batchSizeAt(bytes: Buffer, position: number, end: number): number | undefined {
  if (end - position < BATCH_PREFIX_BYTES) return undefined
  return bytes.readInt32BE(position + AT.batchLength) + BATCH_PREFIX_BYTES
}

/**
 * Reads the header of the batch at `position`; the whole batch must lie before `end`. Checks what can be told without the
 * checksum: bounds, magic, signs, and that counts can be true. Throws CORRUPT_BATCH.
 */
export function readBatchHeader(bytes: Buffer, position = 0, end = bytes.length): BatchHeader {
  const available = end - position
  if (available < BATCH_HEADER_BYTES) throw damaged(`${available} bytes are left, a header has ${BATCH_HEADER_BYTES}`)
  const sizeBytes = bytes.readInt32BE(position + AT.batchLength) + BATCH_PREFIX_BYTES
  if (sizeBytes < BATCH_HEADER_BYTES) throw damaged(`a batch length of ${sizeBytes - BATCH_PREFIX_BYTES} is below its header`)
  if (sizeBytes > available) throw damaged(`the batch says it has ${sizeBytes} bytes, ${available} are left`)
  const magic = bytes.readInt8(position + AT.magic)
  if (magic !== MAGIC) throw damaged(`magic ${magic} is not ${MAGIC}`)
  const baseOffset = readInt64(bytes, position)
  const leaderEpoch = bytes.readInt32BE(position + AT.leaderEpoch)
  const lastOffsetDelta = bytes.readInt32BE(position + AT.lastOffsetDelta)
  const recordCount = bytes.readInt32BE(position + AT.recordCount)
  if (baseOffset < 0 || baseOffset + lastOffsetDelta > Number.MAX_SAFE_INTEGER) throw damaged(`base offset ${baseOffset} is impossible`)
  if (leaderEpoch < -1) throw damaged(`leader epoch ${leaderEpoch} is impossible`)
  if (lastOffsetDelta < 0) throw damaged(`last offset delta ${lastOffsetDelta} is negative`)
  if (recordCount < 0 || recordCount > lastOffsetDelta + 1) {
    throw damaged(`a record count of ${recordCount} does not fit a last offset delta of ${lastOffsetDelta}`)
  }
  return {
    baseOffset,
    sizeBytes,
    leaderEpoch,
    magic,
    crc: bytes.readUInt32BE(position + AT.crc),
    attributes: bytes.readInt16BE(position + AT.attributes),
    lastOffsetDelta,
    baseTimestampMs: readInt64(bytes, position + AT.baseTimestamp),
    maxTimestampMs: readInt64(bytes, position + AT.maxTimestamp),
    producerId: readInt64(bytes, position + AT.producerId),
    producerEpoch: bytes.readInt16BE(position + AT.producerEpoch),
    baseSequence: bytes.readInt32BE(position + AT.baseSequence),
    recordCount,
  }
}

/** The checksum of a batch as its bytes are now: CRC-32C from the attributes to the end. */
export function computeBatchCrc(bytes: Buffer, position: number, sizeBytes: number): number {
  return crc32c(bytes, position + AT.attributes, position + sizeBytes)
}

export function batchCrcMatches(bytes: Buffer, position: number, header: BatchHeader): boolean {
  return computeBatchCrc(bytes, position, header.sizeBytes) === header.crc
}

/** Throws CORRUPT_BATCH unless the checksum fits the bytes. */
export function verifyBatchCrc(bytes: Buffer, position: number, header: BatchHeader): void {
  const computed = computeBatchCrc(bytes, position, header.sizeBytes)
  if (computed !== header.crc) throw damaged(`checksum ${hex(header.crc)} is stored, ${hex(computed)} is computed`)
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0')
}

/** Gives a batch its place in the log, in the bytes themselves. Both fields lie before the checksum. */
export function assignBatch(bytes: Buffer, position: number, baseOffset: number, leaderEpoch: number): void {
  writeInt64(bytes, baseOffset, position)
  bytes.writeInt32BE(leaderEpoch, position + AT.leaderEpoch)
}

/**
 * Sets the timestamp type and the max timestamp and computes the checksum again, unless both are right already. With LogAppendTime
 * every record of the batch has the max timestamp (KIP-32). Returns the header as it is now.
 */
export function setMaxTimestamp(
  bytes: Buffer,
  position: number,
  header: BatchHeader,
  type: TimestampType,
  timestampMs: number,
): BatchHeader {
  const attributes = type === 'LogAppendTime' ? header.attributes | ATTRIBUTE.logAppendTime : header.attributes & ~ATTRIBUTE.logAppendTime
  if (attributes === header.attributes && timestampMs === header.maxTimestampMs) return header
  bytes.writeInt16BE(attributes, position + AT.attributes)
  writeInt64(bytes, timestampMs, position + AT.maxTimestamp)
  const crc = sealBatch(bytes, position, header.sizeBytes)
  return { ...header, attributes, maxTimestampMs: timestampMs, crc }
}

/** Log-append time: the broker's clock in place of the producer's. */
export function setLogAppendTime(bytes: Buffer, position: number, header: BatchHeader, nowMs: number): BatchHeader {
  return setMaxTimestamp(bytes, position, header, 'LogAppendTime', nowMs)
}

/** Computes the checksum and writes it; the last step of whoever changed or made a batch. */
export function sealBatch(bytes: Buffer, position: number, sizeBytes: number): number {
  const crc = computeBatchCrc(bytes, position, sizeBytes)
  bytes.writeUInt32BE(crc, position + AT.crc)
  return crc
}

/** Whose batch it is, with which sequence; a new checksum. */
export function setProducer(
  bytes: Buffer,
  header: BatchHeader,
  producer: Pick<BatchHeader, 'producerId' | 'producerEpoch' | 'baseSequence'> & { readonly transactional: boolean },
): BatchHeader {
  const { producerId, producerEpoch, baseSequence, transactional } = producer
  const attributes = transactional ? header.attributes | ATTRIBUTE.transactional : header.attributes
  bytes.writeInt16BE(attributes, AT.attributes)
  writeInt64(bytes, producerId, AT.producerId)
  bytes.writeInt16BE(producerEpoch, AT.producerEpoch)
  bytes.writeInt32BE(baseSequence, AT.baseSequence)
  const crc = sealBatch(bytes, 0, header.sizeBytes)
  return { ...header, attributes, producerId, producerEpoch, baseSequence, crc }
}

/** The batch with its records stored anew by another codec; `records` is what the codec made of them. The header is the new one's. */
export function withRecords(batch: Buffer, header: BatchHeader, records: Buffer, codec: number): { batch: Buffer; header: BatchHeader } {
  const sizeBytes = BATCH_HEADER_BYTES + records.length
  const bytes = Buffer.allocUnsafe(sizeBytes)
  batch.copy(bytes, 0, 0, BATCH_HEADER_BYTES)
  records.copy(bytes, BATCH_HEADER_BYTES)
  const attributes = (header.attributes & ~ATTRIBUTE.codecMask) | codec
  bytes.writeInt32BE(sizeBytes - BATCH_PREFIX_BYTES, AT.batchLength)
  bytes.writeInt16BE(attributes, AT.attributes)
  const crc = sealBatch(bytes, 0, sizeBytes)
  return { batch: bytes, header: { ...header, sizeBytes, attributes, crc } }
}

export function lastOffset(header: BatchHeader): number {
  return header.baseOffset + header.lastOffsetDelta
}

/** The offset after the batch. Never base + count: compaction leaves gaps. */
export function nextOffset(header: BatchHeader): number {
  return header.baseOffset + header.lastOffsetDelta + 1
}

/** Codec number 0-7; 5-7 name none. */
export function codecOf(header: BatchHeader): number {
  return header.attributes & ATTRIBUTE.codecMask
}

export function isTransactional(header: BatchHeader): boolean {
  return (header.attributes & ATTRIBUTE.transactional) !== 0
}

export function isControl(header: BatchHeader): boolean {
  return (header.attributes & ATTRIBUTE.control) !== 0
}

export function timestampType(header: BatchHeader): TimestampType {
  return (header.attributes & ATTRIBUTE.logAppendTime) !== 0 ? 'LogAppendTime' : 'CreateTime'
}

export function hasProducer(header: BatchHeader): boolean {
  return header.producerId >= 0
}

/** The sequence of the last record, or -1; sequences go from 2^31-1 to 0. */
export function lastSequence(header: BatchHeader): number {
  return header.baseSequence < 0 ? -1 : addSequence(header.baseSequence, header.lastOffsetDelta)
}

/** `sequence` moved on by `count`, with the wrap from 2^31-1 to 0. */
export function addSequence(sequence: number, count: number): number {
  return (sequence + count) % (MAX_SEQUENCE + 1)
}

/**
 * What a batch from a producer must satisfy beyond its shape (KIP-98): dense offsets, known attributes, an identity that is whole, and
 * times that are safe integers. Throws INVALID_RECORD, UNSUPPORTED_COMPRESSION or INVALID_TIMESTAMP. Records are not looked at.
 */
export function checkNewBatch(header: BatchHeader): void {
  const invalid = (reason: string) => new MoonMQError('INVALID_RECORD', { reason })
  if (header.recordCount === 0) throw invalid('a batch needs at least one record')
  if (header.recordCount !== header.lastOffsetDelta + 1) {
    throw invalid(`${header.recordCount} records do not fit a last offset delta of ${header.lastOffsetDelta}`)
  }
  if (codecOf(header) > 4) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec: codecOf(header) })
  for (const timestamp of [header.baseTimestampMs, header.maxTimestampMs]) {
    if (!Number.isSafeInteger(timestamp)) throw new MoonMQError('INVALID_TIMESTAMP', { timestamp, reason: 'it is beyond 2^53' })
  }
  if (!Number.isSafeInteger(header.producerId) || header.producerId < -1) throw invalid(`producer id ${header.producerId} is impossible`)
  if (header.producerId >= 0 && header.producerEpoch < 0) throw invalid('a producer id needs an epoch')
  if (header.producerId >= 0 && header.baseSequence < 0 && !isControl(header)) throw invalid('a producer id needs a sequence')
  if (header.producerId < 0 && isTransactional(header)) throw invalid('a transactional batch needs a producer id')
}
