import { isCode } from '../core/errors.ts'
import { readInt64 } from '../core/int64.ts'
import { BATCH_HEADER_BYTES } from '../core/limits.ts'
import type { DiskFile } from '../io/disk.ts'
import { AT, batchSizeAt } from '../record/batch.ts'
import type { CachedFile } from './handles.ts'
import type { OffsetIndex } from './offset-index.ts'
import type { TimeIndex } from './time-index.ts'

/** A segment as far as it is looked at here. */
export interface IndexedFile {
  readonly baseOffset: number
  readonly writtenBytes: number
  readonly log: CachedFile
  readonly index: OffsetIndex
  readonly timeIndex: TimeIndex
}

export interface LargestTimestamp {
  readonly timestampMs: number
  /** Last offset of the batch that has it. */
  readonly lastOffset: number
}

/**
 * The largest timestamp of a segment that was found on disk: what the last entry of its time index says, if the batch that the entry
 * names agrees, else what the headers of all its batches say. `isDamaged` tells that the time index was wrong. Reads headers only, at
 * once: a few for a good index.
 */
export function findLargestTimestamp(segment: IndexedFile): { readonly largest: LargestTimestamp; readonly isDamaged: boolean } {
  const entry = lastEntry(segment)
  if (entry !== undefined) {
    const from = entry === null ? 0 : indexedPosition(segment, entry.lastOffset)
    const found = from === null ? null : walkHeaders(segment, from, entry?.lastOffset ?? segment.baseOffset)
    if (entry === null && (found === null || found.last.timestampMs < 0)) return { largest: nothing(segment), isDamaged: false }
    if (entry !== null && found?.last.lastOffset === entry.lastOffset && found.last.timestampMs === entry.timestampMs) {
      return { largest: entry, isDamaged: false }
    }
  }
  return { largest: walkHeaders(segment, 0, Number.MAX_SAFE_INTEGER)?.largest ?? nothing(segment), isDamaged: true }
}

function nothing(segment: IndexedFile): LargestTimestamp {
  return { timestampMs: -1, lastOffset: segment.baseOffset }
}

/** Null: there is none. Undefined: the file cannot be read as an index. */
function lastEntry(segment: IndexedFile): LargestTimestamp | null | undefined {
  try {
    return segment.timeIndex.last()
  } catch (error) {
    if (isCode(error, 'CORRUPT_RECORDS') || !isCode(error, 'CLOSED')) return undefined
    throw error
  }
}

function indexedPosition(segment: IndexedFile, offset: number): number | null {
  try {
    const position = segment.index.lookup(offset)?.position ?? 0
    return position < segment.writtenBytes ? position : null
  } catch {
    return null
  }
}

/** Walks batch headers from `position` to the one that ends at or behind `untilOffset`. Null when there is none. */
function walkHeaders(
  segment: IndexedFile,
  position: number,
  untilOffset: number,
): { readonly last: LargestTimestamp; readonly largest: LargestTimestamp } | null {
  const header = Buffer.alloc(BATCH_HEADER_BYTES)
  let last: LargestTimestamp | null = null
  let largest = nothing(segment)
  const file = segment.log.acquire()
  try {
    for (let at = position; at < segment.writtenBytes; ) {
      const size = sizeAt(file, header, at)
      if (size === null) break
      last = {
        timestampMs: readInt64(header, AT.maxTimestamp),
        lastOffset: readInt64(header, AT.baseOffset) + header.readInt32BE(AT.lastOffsetDelta),
      }
      if (last.timestampMs > largest.timestampMs) largest = last
      if (last.lastOffset >= untilOffset) break
      at += size
    }
  } finally {
    segment.log.release()
  }
  return last === null ? null : { last, largest }
}

function sizeAt(file: DiskFile, header: Buffer, position: number): number | null {
  if (file.readNow(header, position) < header.length) return null
  const size = batchSizeAt(header, 0, header.length) ?? 0
  return size < BATCH_HEADER_BYTES ? null : size
}
