import { type BatchHeader, batchSizeAt, codecOf, readBatchHeader } from '../record/batch.ts'
import type { Codecs } from '../record/compression.ts'
import { RecordCursor } from '../record/record.ts'
import type { Segment } from './segment.ts'
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
  codecs: Codecs,
  timestampMs: number,
  limitOffset: number,
): Promise<TimestampOffset | null> {
  const segment = log.segments.find((each) => reaches(each, timestampMs))
  if (segment === undefined) return null
  let offset = Math.max(log.logStartOffset, startIn(segment, timestampMs))
  while (offset < limitOffset) {
    const read = await log.read({ offset, maxBytes: READ_BYTES, minOneBatch: true, limitOffset })
    try {
      if (read.sizeBytes === 0) return null
      const from = Math.max(log.logStartOffset, 0)
      const found = await searchBatches(read, codecs, (header) => header.maxTimestampMs >= timestampMs, from, timestampMs)
      if (found !== null) return found
      offset = read.nextOffset
    } finally {
      read.release()
    }
  }
  return null
}

/** The first record that has the largest timestamp of the log. */
export async function offsetOfMaxTimestamp(log: SearchableLog, codecs: Codecs, limitOffset: number): Promise<TimestampOffset | null> {
  let best = { timestampMs: -1, lastOffset: -1 }
  for (const segment of log.segments) {
    const max = largest(segment)
    if (max !== null && max.timestampMs > best.timestampMs && max.lastOffset >= log.logStartOffset) best = max
  }
  if (best.timestampMs < 0 || best.lastOffset >= limitOffset) return null
  const read = await log.read({ offset: best.lastOffset, maxBytes: 0, minOneBatch: true, limitOffset })
  try {
    return await searchBatches(read, codecs, () => true, log.logStartOffset, best.timestampMs)
  } finally {
    read.release()
  }
}

/** Null when the time index cannot tell; then the segment is searched. */
function largest(segment: Segment): { readonly timestampMs: number; readonly lastOffset: number } | null {
  try {
    return segment.largestTimestamp()
  } catch {
    return null
  }
}

function reaches(segment: Segment, timestampMs: number): boolean {
  const max = largest(segment)
  return segment.sizeBytes > 0 && (max === null || max.timestampMs >= timestampMs)
}

function startIn(segment: Segment, timestampMs: number): number {
  try {
    const entry = segment.timeIndex.lookup(timestampMs)
    // An entry beyond the segment comes from a damaged index.
    return entry === null || entry.lastOffset >= segment.nextOffset ? segment.baseOffset : entry.lastOffset
  } catch {
    return segment.baseOffset
  }
}

async function searchBatches(
  read: LogRead,
  codecs: Codecs,
  wants: (header: BatchHeader) => boolean,
  fromOffset: number,
  timestampMs: number,
): Promise<TimestampOffset | null> {
  for (const bytes of read.buffers) {
    for (let at = 0; at < bytes.length; at += batchSizeAt(bytes, at, bytes.length) as number) {
      const header = readBatchHeader(bytes, at, bytes.length)
      if (!wants(header)) continue
      const codec = codecOf(header)
      await codecs.ready(codec)
      const cursor = new RecordCursor(codecs.inflateRecords(bytes, at, header), header)
      while (cursor.next()) {
        if (cursor.timestampMs < timestampMs || cursor.offset < fromOffset) continue
        return { offset: cursor.offset, timestampMs: cursor.timestampMs, leaderEpoch: header.leaderEpoch }
      }
    }
  }
  return null
}
