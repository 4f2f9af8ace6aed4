import { MoonMQError } from '../../core/errors.ts'
import { BATCH_HEADER_BYTES } from '../../core/limits.ts'
import type { CheckedRecords } from '../../core/offload.ts'
import { NO_TIMESTAMP } from '../../core/types.ts'
import {
  AT,
  ATTRIBUTE,
  BATCH_PREFIX_BYTES,
  type BatchHeader,
  checkNewBatch,
  codecOf,
  computeBatchCrc,
  hasProducer,
  isControl,
  isTransactional,
  MAGIC,
  readBatchHeader,
  setMaxTimestamp,
  withRecords,
} from '../../record/batch.ts'
import type { CheckOptions } from '../../record/inflater.ts'
import type { TopicSettings } from '../topics/topic-settings.ts'

/** Attribute bits that have a meaning in a batch from a producer, allowed or not; the delete horizon belongs to compaction. */
const KNOWN_ATTRIBUTES = ATTRIBUTE.codecMask | ATTRIBUTE.logAppendTime | ATTRIBUTE.transactional | ATTRIBUTE.control

function invalid(reason: string): MoonMQError {
  return new MoonMQError('INVALID_RECORD', { reason })
}

/** Size, format and checksum: what is checked before a field is believed. */
function checkEnvelope(batch: Buffer, settings: TopicSettings): void {
  if (batch.length <= AT.magic) throw invalid(`${batch.length} bytes are no record batch`)
  const magic = batch.readInt8(AT.magic)
  if (magic === 0 || magic === 1) throw invalid(`record format ${magic} is not supported; send format ${MAGIC}`)
  if (magic !== MAGIC) throw new MoonMQError('CORRUPT_BATCH', { reason: `magic ${magic} is no record format` })
  if (batch.length < BATCH_HEADER_BYTES) throw invalid(`${batch.length} bytes are no record batch`)
  const sizeBytes = batch.readInt32BE(AT.batchLength) + BATCH_PREFIX_BYTES
  if (sizeBytes > batch.length) throw invalid(`the batch says it has ${sizeBytes} bytes, ${batch.length} were sent`)
  if (sizeBytes < BATCH_HEADER_BYTES) throw new MoonMQError('CORRUPT_BATCH', { reason: `a size of ${sizeBytes} bytes is below its header` })
  if (sizeBytes < batch.length) throw invalid(`${batch.length - sizeBytes} bytes follow the batch; send exactly one a partition`)
  const limit = settings.log.maxMessageBytes
  if (sizeBytes > limit) throw new MoonMQError('RECORD_TOO_LARGE', { size: sizeBytes, limit })
  if (computeBatchCrc(batch, 0, sizeBytes) !== batch.readUInt32BE(AT.crc)) {
    throw new MoonMQError('CORRUPT_BATCH', { reason: 'its checksum does not fit its bytes' })
  }
}

/**
 * The header of a batch from a producer, after everything that can be told without its records. Throws RECORD_TOO_LARGE,
 * CORRUPT_BATCH, INVALID_RECORD, UNSUPPORTED_COMPRESSION, INVALID_TIMESTAMP.
 */
export function checkHeader(batch: Buffer, settings: TopicSettings): BatchHeader {
  checkEnvelope(batch, settings)
  // The checksum is right, so a count that does not fit is what the producer meant: Kafka calls that invalid, not damaged.
  const lastOffsetDelta = batch.readInt32BE(AT.lastOffsetDelta)
  const recordCount = batch.readInt32BE(AT.recordCount)
  if (recordCount < 1 || recordCount !== lastOffsetDelta + 1) {
    throw invalid(`${recordCount} records do not fit a last offset delta of ${lastOffsetDelta}`)
  }
  const header = readBatchHeader(batch)
  checkNewBatch(header)
  if (header.baseOffset !== 0) throw invalid(`the base offset of a new batch is 0, not ${header.baseOffset}`)
  if ((header.attributes & ~KNOWN_ATTRIBUTES) !== 0) throw invalid(`unknown attribute bits 0x${(header.attributes & 0xffff).toString(16)}`)
  if (isControl(header)) throw invalid('control batches are written by the broker alone')
  if (isTransactional(header) && !hasProducer(header)) throw invalid('a transactional batch needs a producer id')
  if ((header.attributes & ATTRIBUTE.logAppendTime) !== 0) {
    throw new MoonMQError('INVALID_TIMESTAMP', { timestamp: header.maxTimestampMs, reason: 'a producer cannot set log append time' })
  }
  return header
}

/** What is looked at in the records of a batch, and how they are stored. */
export function checkOptions(header: BatchHeader, settings: TopicSettings, maxBytes: number): CheckOptions {
  const { compression, isCompacted: keyed, maxRecordBytes } = settings
  const to = compression !== null && compression.codec !== codecOf(header) ? compression : null
  return codecOf(header) === 0 ? { keyed, to, maxBytes } : { keyed, to, maxBytes, maxRecordBytes }
}

/**
 * With `moonmq.record.validation=header`: what the header says of the records of a compressed batch that can be stored as it came. Null:
 * the records must be looked at.
 */
export function trustedRecords(header: BatchHeader, settings: TopicSettings, options: CheckOptions): CheckedRecords | null {
  if (!settings.trustsCompressed || codecOf(header) === 0 || options.keyed || options.to !== null) return null
  const { baseTimestampMs, maxTimestampMs } = header
  return { minTimestampMs: Math.min(baseTimestampMs, maxTimestampMs), maxTimestampMs, records: null }
}

/** What a batch was found to be, and the codec of `checked.records` where it is compressed anew. */
export interface FoundBatch {
  readonly header: BatchHeader
  readonly checked: CheckedRecords
  readonly compression: TopicSettings['compression']
}

export interface SettledBatch {
  readonly batch: Buffer
  readonly header: BatchHeader
}

/**
 * The batch as it is stored: by the codec that the topic had when its records were looked at, with the largest time of its records where
 * the producer put another one (DESIGN D3), each with a new checksum. Throws INVALID_TIMESTAMP, RECORD_TOO_LARGE.
 */
export function settleBatch(sent: Buffer, found: FoundBatch, settings: TopicSettings, nowMs: number): SettledBatch {
  const { log } = settings
  const { checked, compression } = found
  const { records, maxTimestampMs } = checked
  // The log stamps the batch itself and computes the checksum then.
  const isAppendTime = log.timestampType === 'LogAppendTime'
  if (!isAppendTime) checkTimes(checked.minTimestampMs, maxTimestampMs, settings, nowMs)
  const { batch, header } =
    records === null || compression === null
      ? { batch: sent, header: found.header }
      : withRecords(sent, found.header, records, compression.codec)
  if (header.sizeBytes > log.maxMessageBytes)
    throw new MoonMQError('RECORD_TOO_LARGE', { size: header.sizeBytes, limit: log.maxMessageBytes })
  if (isAppendTime || maxTimestampMs === header.maxTimestampMs) return { batch, header }
  return { batch, header: setMaxTimestamp(batch, 0, header, 'CreateTime', maxTimestampMs) }
}

/** Throws INVALID_TIMESTAMP for a record too far from the broker's clock; -1 is no time. */
export function checkTimes(minTimestampMs: number, maxTimestampMs: number, settings: TopicSettings, nowMs: number): void {
  if (maxTimestampMs !== NO_TIMESTAMP && maxTimestampMs - nowMs > settings.timestampAfterMaxMs) {
    const reason = `it is more than message.timestamp.after.max.ms=${settings.timestampAfterMaxMs} ahead of the broker`
    throw new MoonMQError('INVALID_TIMESTAMP', { timestamp: maxTimestampMs, reason })
  }
  if (minTimestampMs !== NO_TIMESTAMP && nowMs - minTimestampMs > settings.timestampBeforeMaxMs) {
    const reason = `it is more than message.timestamp.before.max.ms=${settings.timestampBeforeMaxMs} behind the broker`
    throw new MoonMQError('INVALID_TIMESTAMP', { timestamp: minTimestampMs, reason })
  }
}
