import type { LogConfig } from '../types.ts'
import type { CompactionNote } from './note.ts'

/** A segment as far as it matters for what is to be compacted. Functions: the answer may take a look at the disk. */
export interface SegmentFacts {
  readonly baseOffset: number
  readonly sizeBytes: number
  /** All of it is durable, with its indexes. */
  readonly isFinished: boolean
  /** Of all records; −1 when none has a time. */
  readonly largestTimestampMs: () => number
  /** Of the first batch; null when it has none. */
  readonly firstTimestampMs: () => number | null
}

export interface LogFacts {
  /** The last one is active. */
  readonly segments: readonly SegmentFacts[]
  readonly logStartOffset: number
  readonly lastStableOffset: number
  readonly highWatermark: number
  readonly savedRecoveryPoint: number
  readonly note: CompactionNote
  readonly config: Pick<LogConfig, 'minCleanableDirtyRatio' | 'minCompactionLagMs' | 'maxCompactionLagMs'>
}

/** Why a log is compacted now: enough of it is dirty, a record waited for too long, or a tombstone's time is over. */
export type CompactionReason = 'ratio' | 'lag' | 'horizon'

export interface Dirtiness {
  /** Compacted so far. */
  readonly fromOffset: number
  /** Closed segments below it may be compacted; `fromOffset` when there is nothing new. */
  readonly toOffset: number
  readonly cleanBytes: number
  readonly dirtyBytes: number
  /** Closed or not, what may not be touched yet. */
  readonly uncleanableBytes: number
  readonly dirtyRatio: number
  /** Null: nothing is to be done. */
  readonly reason: CompactionReason | null
}

/**
 * How dirty a log is and whether it is compacted now (Kafka: `LogCleanerManager.cleanableOffsets`). Only segments that lie wholly below
 * the last stable offset, the high watermark and the saved recovery point are touched, never the active one, and none with a record
 * younger than `min.compaction.lag.ms`.
 */
export function dirtinessOf(facts: LogFacts, nowMs: number): Dirtiness {
  const { segments, note, config } = facts
  const fromOffset = Math.max(facts.logStartOffset, note.cleanedOffset)
  const cleanable = cleanableCount(facts, fromOffset, nowMs)
  const toOffset = cleanable === 0 ? fromOffset : Math.max(fromOffset, segments[cleanable]?.baseOffset ?? fromOffset)
  let cleanBytes = 0
  let dirtyBytes = 0
  let uncleanableBytes = 0
  let isLagging = false
  for (const [index, segment] of segments.entries()) {
    const isClean = (segments[index + 1]?.baseOffset ?? Number.POSITIVE_INFINITY) <= fromOffset
    if (isClean) cleanBytes += segment.sizeBytes
    else if (index >= cleanable) uncleanableBytes += segment.sizeBytes
    else {
      dirtyBytes += segment.sizeBytes
      isLagging ||= isOlderThan(segment, nowMs - config.maxCompactionLagMs)
    }
  }
  const dirtyRatio = dirtyBytes === 0 ? 0 : dirtyBytes / (cleanBytes + dirtyBytes)
  const isHorizonOver = cleanable > 0 && note.nextHorizonMs >= 0 && note.nextHorizonMs <= nowMs
  let reason: CompactionReason | null = null
  if (dirtyBytes > 0 && dirtyRatio > config.minCleanableDirtyRatio) reason = 'ratio'
  else if (isLagging) reason = 'lag'
  else if (isHorizonOver) reason = 'horizon'
  return { fromOffset, toOffset, cleanBytes, dirtyBytes, uncleanableBytes, dirtyRatio, reason }
}

/** How many segments from the first on may be compacted. */
function cleanableCount(facts: LogFacts, fromOffset: number, nowMs: number): number {
  const { segments, lastStableOffset, highWatermark, savedRecoveryPoint } = facts
  const { minCompactionLagMs } = facts.config
  const limit = Math.min(lastStableOffset, highWatermark, savedRecoveryPoint)
  let count = 0
  for (; count < segments.length - 1; count++) {
    const segment = segments[count] as SegmentFacts
    const endOffset = (segments[count + 1] as SegmentFacts).baseOffset
    if (!segment.isFinished || endOffset > limit) break
    const isNew = endOffset > fromOffset
    if (isNew && minCompactionLagMs > 0 && segment.largestTimestampMs() > nowMs - minCompactionLagMs) break
  }
  return count
}

function isOlderThan(segment: SegmentFacts, timestampMs: number): boolean {
  if (timestampMs <= 0) return false
  const first = segment.firstTimestampMs()
  return first !== null && first < timestampMs
}
