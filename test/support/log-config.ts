import type { LogConfig } from '../../src/storage/types.ts'

/** Settings of a log that a test changes only where it means to. */
export const LOG_CONFIG: LogConfig = {
  segmentBytes: 1024 * 1024,
  segmentMs: 604_800_000,
  segmentJitterMs: 0,
  indexIntervalBytes: 4096,
  indexMaxBytes: 10 * 1024 * 1024,
  flushMessages: 1,
  flushMs: Number.MAX_SAFE_INTEGER,
  maxMessageBytes: 1024 * 1024,
  timestampType: 'CreateTime',
  isDeleted: true,
  isCompacted: false,
  retentionMs: -1,
  retentionBytes: -1,
  fileDeleteDelayMs: 60_000,
  deleteRetentionMs: 86_400_000,
  minCleanableDirtyRatio: 0.5,
  minCompactionLagMs: 0,
  maxCompactionLagMs: Number.MAX_SAFE_INTEGER,
  cleanerIntervalMs: 0,
}
