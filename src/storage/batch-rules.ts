import { isCode } from '../core/errors.ts'
import { MAX_REQUEST_BYTES } from '../core/limits.ts'
import { type BatchHeader, batchCrcMatches, readBatchHeader } from '../record/batch.ts'

/**
 * What a stored batch must satisfy besides its checksum. Base offset, length, leader epoch and magic lie outside the checksum; what
 * is known of their neighbours catches a damaged one (DESIGN section 7).
 */
export interface BatchRules {
  /** Base offset that the next batch must have. */
  readonly expectedOffset: number
  /** Below it compaction may have left holes: batches that are gone, records that are missing in a batch. 0 = nowhere. */
  readonly holesBelow: number
  /** Leader epoch that wrote this offset, null when nothing is known. */
  readonly epochFor: ((offset: number) => number) | null
  /** Epoch of the batch before. */
  readonly minEpoch: number
  /** Epoch of the partition in the metadata log; null when it is not known. */
  readonly maxEpoch: number | null
}

/** Largest batch that can be stored: a request cannot bring a larger one. */
export const MAX_BATCH_BYTES = MAX_REQUEST_BYTES

/** The header of the batch at `at`, or why it cannot be one. Does not compute the checksum. */
export function checkHeader(bytes: Buffer, at: number, end: number, rules: BatchRules): BatchHeader | string {
  const header = tryReadHeader(bytes, at, end)
  if (typeof header === 'string') return header
  const { baseOffset, leaderEpoch, sizeBytes } = header
  const { expectedOffset, holesBelow } = rules
  if (sizeBytes > MAX_BATCH_BYTES) return `a batch of ${sizeBytes} bytes is larger than any request`
  if (baseOffset < expectedOffset || (baseOffset > expectedOffset && baseOffset > holesBelow)) {
    return `the batch says it starts at offset ${baseOffset}, ${expectedOffset} is next`
  }
  // A batch without records stands where a repair took damaged ones out: no producer can send one.
  const hasHoles = header.recordCount === 0 || baseOffset + header.lastOffsetDelta < holesBelow
  if (header.recordCount !== header.lastOffsetDelta + 1 && !hasHoles) {
    return `${header.recordCount} records do not fill ${header.lastOffsetDelta + 1} offsets`
  }
  if (leaderEpoch < rules.minEpoch) return `leader epoch ${leaderEpoch} follows ${rules.minEpoch}`
  if (rules.maxEpoch !== null && leaderEpoch > rules.maxEpoch) {
    return `leader epoch ${leaderEpoch} is above the partition's, ${rules.maxEpoch}`
  }
  if (rules.epochFor !== null) {
    const epoch = rules.epochFor(baseOffset)
    if (leaderEpoch !== epoch) return `the batch says leader epoch ${leaderEpoch}, offset ${baseOffset} was written in ${epoch}`
  }
  return header
}

/** Like `checkHeader`, with the checksum. */
export function checkBatch(bytes: Buffer, at: number, end: number, rules: BatchRules): BatchHeader | string {
  const header = checkHeader(bytes, at, end, rules)
  if (typeof header === 'string') return header
  return batchCrcMatches(bytes, at, header) ? header : 'the checksum does not fit the bytes'
}

function tryReadHeader(bytes: Buffer, at: number, end: number): BatchHeader | string {
  try {
    return readBatchHeader(bytes, at, end)
  } catch (error) {
    if (isCode(error, 'CORRUPT_BATCH')) return String(error.details.reason)
    throw error
  }
}
