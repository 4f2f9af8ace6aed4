import { isCode } from '../core/errors.ts'
import { type BatchHeader, batchSizeAt, lastOffset, readBatchHeader } from '../record/batch.ts'
import type { Inflater } from '../record/inflater.ts'
import type { LargestTimestamp } from './largest-timestamp.ts'
import type { Segment } from './segment.ts'
import type { TimeEntry } from './time-index.ts'
import type { LogRead, ReadRequest, TimestampOffset } from './types.ts'

/** What a search by time looks at of a log. */
export interface SearchableLog {
  readonly segments: readonly Segment[]
  readonly logStartOffset: number
  read(request: ReadRequest): LogRead | Promise<LogRead>
}

const READ_BYTES = 256 * 1024

/**
 * First record at or after `timestampMs` below `limitOffset`. The time indexes tell the segment and where in it to begin; from there
 * batches are read in order, and only one that can hold the record is looked into.
 */
export async function offsetForTimestamp(
  log: SearchableLog,
  inflater: Inflater,
  timestampMs: number,
  limitOffset: number,
): Promise<TimestampOffset | null> {
  const segment = log.segments.find((each) => reaches(each, timestampMs))
  if (segment === undefined) return null
  let entry = startIn(segment, timestampMs)
  let offset = Math.max(log.logStartOffset, entry?.lastOffset ?? segment.baseOffset)
  while (offset < limitOffset) {
    const read = await log.read({ offset, maxBytes: READ_BYTES, minOneBatch: true, limitOffset })
    try {
      if (read.sizeBytes === 0) return null
      if (entry !== null && entry.lastOffset === offset && !fits(entry, read)) {
        segment.onIndexDamage?.('an entry of the time index does not fit its batch')
        offset = Math.max(log.logStartOffset, segment.baseOffset)
        entry = null
        continue
      }
      const wants = (header: BatchHeader) => header.maxTimestampMs >= timestampMs
      const found = await searchBatches(read, inflater, wants, log.logStartOffset, timestampMs)
      if (found !== null) return found
      offset = read.nextOffset
    } finally {
      read.release()
    }
  }
  return null
}

/** The first record that has the largest timestamp of the log. */
export async function offsetOfMaxTimestamp(log: SearchableLog, inflater: Inflater, limitOffset: number): Promise<TimestampOffset | null> {
  let best = { timestampMs: -1, lastOffset: -1 }
  for (const segment of log.segments) {
    const max = segment.largestTimestamp()
    if (max.timestampMs > best.timestampMs && max.lastOffset >= log.logStartOffset) best = max
  }
  if (best.timestampMs < 0 || best.lastOffset >= limitOffset) return null
  const found = await recordAt(log, inflater, limitOffset, best)
  if (found !== null) return found
  // Compaction keeps a batch of a producer without its records, and with its time.
  const largest = await largestOfRecords(log, limitOffset)
  return largest === null ? null : recordAt(log, inflater, limitOffset, largest)
}

async function recordAt(
  log: SearchableLog,
  inflater: Inflater,
  limitOffset: number,
  largest: LargestTimestamp,
): Promise<TimestampOffset | null> {
  const read = await log.read({ offset: largest.lastOffset, maxBytes: 0, minOneBatch: true, limitOffset })
  try {
    return await searchBatches(read, inflater, () => true, log.logStartOffset, largest.timestampMs)
  } finally {
    read.release()
  }
}

/** By the header of every batch that has records. */
async function largestOfRecords(log: SearchableLog, limitOffset: number): Promise<LargestTimestamp | null> {
  let largest: LargestTimestamp | null = null
  for (let offset = log.logStartOffset; offset < limitOffset; ) {
    const read = await log.read({ offset, maxBytes: READ_BYTES, minOneBatch: true, limitOffset })
    try {
      if (read.sizeBytes === 0) break
      for (const bytes of read.buffers) {
        for (let at = 0; at < bytes.length; at += batchSizeAt(bytes, at, bytes.length) as number) {
          const header = readBatchHeader(bytes, at, bytes.length)
          if (header.recordCount === 0 || header.maxTimestampMs <= (largest?.timestampMs ?? -1)) continue
          largest = { timestampMs: header.maxTimestampMs, lastOffset: lastOffset(header) }
        }
      }
      offset = read.nextOffset
    } finally {
      read.release()
    }
  }
  return largest
}

function reaches(segment: Segment, timestampMs: number): boolean {
  return segment.sizeBytes > 0 && segment.largestTimestamp().timestampMs >= timestampMs
}

/** The last entry that is not later: the search begins at its batch. Null when the index does not say: then at the segment's start. */
function startIn(segment: Segment, timestampMs: number): TimeEntry | null {
  try {
    const entry = segment.timeIndex.lookup(timestampMs)
    return entry === null || entry.lastOffset >= segment.nextOffset ? null : entry
  } catch {
    return null
  }
}

/** Whether the first batch that was read is the one that the entry tells of. */
function fits(entry: TimeEntry, read: LogRead): boolean {
  const header = readBatchHeader(read.buffers[0] as Buffer)
  return header.baseOffset + header.lastOffsetDelta === entry.lastOffset && header.maxTimestampMs === entry.timestampMs
}

async function searchBatches(
  read: LogRead,
  inflater: Inflater,
  wants: (header: BatchHeader) => boolean,
  fromOffset: number,
  timestampMs: number,
): Promise<TimestampOffset | null> {
  for (const bytes of read.buffers) {
    for (let at = 0; at < bytes.length; at += batchSizeAt(bytes, at, bytes.length) as number) {
      const header = readBatchHeader(bytes, at, bytes.length)
      if (!wants(header)) continue
      const found = await findIn(inflater, bytes.subarray(at, at + header.sizeBytes), header, timestampMs, fromOffset)
      if (found !== null) return { offset: found.offset, timestampMs: found.timestampMs, leaderEpoch: header.leaderEpoch }
    }
  }
  return null
}

/** A batch that grows beyond every bound is not looked into: the search then ends at its beginning, early but never past a record. */
async function findIn(inflater: Inflater, batch: Buffer, header: BatchHeader, timestampMs: number, fromOffset: number) {
  try {
    return await inflater.find(batch, header, timestampMs, fromOffset)
  } catch (error) {
    if (!isCode(error, 'INFLATED_TOO_LARGE')) throw error
    return { offset: Math.max(header.baseOffset, fromOffset), timestampMs: header.maxTimestampMs }
  }
}
