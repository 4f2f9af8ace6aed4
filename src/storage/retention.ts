import type { LogConfig } from './types.ts'

/** Why segments go: their records are too old, the log is too large, or its start was moved above them. */
export type RetentionReason = 'time' | 'bytes' | 'start'

export interface RetainedSegment {
  readonly baseOffset: number
  /** Offset after its last record. */
  readonly nextOffset: number
  readonly sizeBytes: number
  /** Whether its newest record is older than `retention.ms`. Looked at for segments that nothing else takes. */
  readonly isExpired: boolean
}

export interface RetainedLog {
  readonly logStartOffset: number
  /** Nothing at or above it goes: a consumer may not have been able to see it yet. */
  readonly highWatermark: number
  /** Oldest first; the last one takes appends. */
  readonly segments: readonly RetainedSegment[]
}

export interface RetentionPlan {
  /** Where the log is to begin. */
  readonly logStartOffset: number
  /** Whole segments that go, and why; one that goes for two reasons counts for the first of them. */
  readonly segments: Readonly<Record<RetentionReason, number>>
  readonly sizeBytes: number
  /** The active segment goes too: a new one must be begun before. */
  readonly rolls: boolean
}

/**
 * Which of the oldest segments go: pure. Whole segments, from the front, up to the first one that has to stay; by Kafka's rules
 * (`UnifiedLog.deleteOldSegments`): first what lies below the log's start, then by size as long as the log without the segment is not
 * below `retention.bytes`, then by time. `maxByTime` bounds how many go by time alone. Null: nothing goes.
 */
export function planRetention(
  log: RetainedLog,
  config: Pick<LogConfig, 'isDeleted' | 'retentionBytes'>,
  maxByTime: number = Number.POSITIVE_INFINITY,
): RetentionPlan | null {
  const segments = { time: 0, bytes: 0, start: 0 }
  let excess = excessBytes(log, config)
  let sizeBytes = 0
  let logStartOffset = log.logStartOffset
  let gone = 0
  for (const segment of log.segments) {
    const reason = reasonFor(log, segment, config, excess)
    if (reason === null || (reason === 'time' && segments.time >= maxByTime)) break
    segments[reason]++
    gone++
    excess -= segment.sizeBytes
    sizeBytes += segment.sizeBytes
    logStartOffset = Math.max(logStartOffset, segment.nextOffset)
  }
  if (gone === 0) return null
  return { logStartOffset, segments, sizeBytes, rolls: gone === log.segments.length }
}

function excessBytes(log: RetainedLog, { isDeleted, retentionBytes }: Pick<LogConfig, 'isDeleted' | 'retentionBytes'>): number {
  if (!isDeleted || retentionBytes < 0) return Number.NEGATIVE_INFINITY
  return log.segments.reduce((sum, each) => sum + each.sizeBytes, 0) - retentionBytes
}

function reasonFor(
  log: RetainedLog,
  segment: RetainedSegment,
  config: Pick<LogConfig, 'isDeleted' | 'retentionBytes'>,
  excess: number,
): RetentionReason | null {
  const isActive = segment === log.segments[log.segments.length - 1]
  if (segment.nextOffset > log.highWatermark || (isActive && segment.sizeBytes === 0)) return null
  if (segment.nextOffset <= log.logStartOffset) return 'start'
  if (excess >= segment.sizeBytes) return 'bytes'
  return config.isDeleted && segment.isExpired ? 'time' : null
}
