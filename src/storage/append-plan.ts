import type { BatchHeader } from '../record/batch.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from './offset-index.ts'
import { MAX_AHEAD_MS } from './record-age.ts'
import { TIME_INDEX_ENTRY_BYTES } from './time-index.ts'
import type { LogConfig } from './types.ts'

/** Why a segment is closed and the next one begun. */
export type RollReason = 'size' | 'time' | 'index-full' | 'offset-range'

/** What a plan looks at of the active segment. */
export interface SegmentShape {
  readonly baseOffset: number
  /** Bytes given to it so far, whether written yet or not. */
  readonly sizeBytes: number
  readonly indexEntries: number
  readonly timeIndexEntries: number
  readonly bytesSinceIndexEntry: number
  /** Largest timestamp of the first batch, or null: the time from which its age in record time is measured. */
  readonly rollBaseTimestampMs: number | null
  readonly createdMs: number
  /** 0 up to 1: its part of `segment.jitter.ms`. */
  readonly jitterShare: number
}

export interface AppendPlan {
  readonly baseOffset: number
  readonly lastOffset: number
  /** Null: the batch goes to the active segment. */
  readonly roll: RollReason | null
  /** Where the batch begins in its segment. */
  readonly position: number
  readonly addsIndexEntry: boolean
}

const MAX_RELATIVE_OFFSET = 0x7fffffff
/** Positions are 32 bits, signed in Kafka. */
const MAX_SEGMENT_BYTES = 0x7fffffff

/**
 * Where the next batch goes: pure, so every rule of rolling and indexing is tested without a disk. The rules are Kafka's
 * (`LogSegment.shouldRoll`, `LogSegment.append`), but that an interval of 0 indexes every batch, the first one too.
 */
export function planAppend(shape: SegmentShape, nextOffset: number, header: BatchHeader, config: LogConfig, nowMs: number): AppendPlan {
  const lastOffset = nextOffset + header.lastOffsetDelta
  const roll = rollReason(shape, nextOffset, lastOffset, header, config, nowMs)
  const sinceEntry = roll === null ? shape.bytesSinceIndexEntry : 0
  return {
    baseOffset: nextOffset,
    lastOffset,
    roll,
    position: roll === null ? shape.sizeBytes : 0,
    addsIndexEntry: config.indexIntervalBytes === 0 || sinceEntry > config.indexIntervalBytes,
  }
}

function rollReason(
  shape: SegmentShape,
  nextOffset: number,
  lastOffset: number,
  header: BatchHeader,
  config: LogConfig,
  nowMs: number,
): RollReason | null {
  // An empty segment takes any batch unless its base is too far below: it came from a truncation.
  const isEmpty = shape.sizeBytes === 0
  if (lastOffset - shape.baseOffset > MAX_RELATIVE_OFFSET) return isEmpty && nextOffset === shape.baseOffset ? null : 'offset-range'
  if (isEmpty) return null
  if (shape.sizeBytes + header.sizeBytes > Math.min(config.segmentBytes, MAX_SEGMENT_BYTES)) return 'size'
  if (ageMs(shape, header.maxTimestampMs, nowMs) > rollAfterMs(shape, config)) return 'time'
  if (isIndexFull(shape, config)) return 'index-full'
  return null
}

/** How old a segment may become, its jitter taken off. */
export function rollAfterMs({ jitterShare }: Pick<SegmentShape, 'jitterShare'>, { segmentMs, segmentJitterMs }: LogConfig): number {
  return segmentMs - Math.floor(jitterShare * Math.min(segmentJitterMs, segmentMs))
}

/**
 * Age in record time where records have times, so that a replayed topic rolls as the original did. A time that lies in the future is
 * none: one such record must neither roll each segment nor keep one from rolling.
 */
function ageMs(shape: SegmentShape, maxTimestampMs: number, nowMs: number): number {
  const base = shape.rollBaseTimestampMs
  const latestMs = nowMs + MAX_AHEAD_MS
  return base === null || base > latestMs || maxTimestampMs > latestMs ? nowMs - shape.createdMs : maxTimestampMs - base
}

/** The time index keeps one place for the entry that closing adds. */
function isIndexFull(shape: SegmentShape, config: LogConfig): boolean {
  return (
    shape.indexEntries >= Math.max(1, Math.floor(config.indexMaxBytes / OFFSET_INDEX_ENTRY_BYTES)) ||
    shape.timeIndexEntries >= Math.max(1, Math.floor(config.indexMaxBytes / TIME_INDEX_ENTRY_BYTES) - 1)
  )
}
