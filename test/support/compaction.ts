import { type Clock, SystemClock, type Timer } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { Codecs } from '../../src/record/compression.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import { RecordCursor } from '../../src/record/record.ts'
import { Cleaner, type CleanerOptions } from '../../src/storage/compaction/cleaner.ts'
import type { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { type RecordedLine, recordingLogger } from './storage.ts'

/** The machine's clock, with a wall time that a test moves. */
export class MovableClock implements Clock {
  readonly #system = new SystemClock()
  wallMs = 1_700_000_000_000

  nowMs(): number {
    return this.wallMs
  }

  monotonicMs(): number {
    return this.#system.monotonicMs()
  }

  setTimer(delayMs: number, fire: () => void, options?: { keepAlive?: boolean }): Timer {
    return this.#system.setTimer(delayMs, fire, options)
  }

  defer(run: () => void): void {
    this.#system.defer(run)
  }
}

/** Small segments, compacted as soon as anything is dirty. */
export const COMPACTED: Partial<LogConfig> = {
  isDeleted: false,
  isCompacted: true,
  segmentBytes: 2000,
  indexIntervalBytes: 100,
  minCleanableDirtyRatio: 0,
}

const OPTIONS: CleanerOptions = { isEnabled: true, keyBudgetBytes: 1024 * 1024, maxBytesPerSecond: Number.POSITIVE_INFINITY }

/** Saves recovery points, without which nothing is touched, and compacts whatever needs it. */
export async function compact(
  manager: LogManager,
  options: Partial<CleanerOptions> & { clock?: Clock; lines?: RecordedLine[]; signal?: AbortSignal } = {},
): Promise<void> {
  for (const log of manager.logs) {
    await log.whenSynced(log.logEndOffset)
    await log.idle()
  }
  await manager.checkpoint()
  const { clock = manager.deps.clock, lines = [], signal = new AbortController().signal, ...rest } = options
  const log = recordingLogger(lines)
  const cleaner = new Cleaner({ logs: manager, clock, log, metrics: NO_METRICS }, () => ({ ...OPTIONS, ...rest }))
  await cleaner.run(signal)
}

export interface KeyedRecord {
  readonly key: string | null
  /** Null: a tombstone. */
  readonly value: string | null
  readonly timestampMs?: number
}

export function keyedBatch(records: readonly KeyedRecord[], options: BatchOptions = {}): Buffer {
  const bytes = (text: string | null) => (text === null ? null : Buffer.from(text))
  return buildBatch(
    records.map(({ key, value, timestampMs = 1_700_000_000_000 }) => ({ key: bytes(key), value: bytes(value), timestampMs })),
    options,
  )
}

/** Appends a batch and returns the offset of its first record. */
export function put(log: PartitionLog, records: readonly KeyedRecord[], options: BatchOptions = {}): number {
  const batch = keyedBatch(records, options)
  return log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 }).baseOffset
}

export function endTransaction(log: PartitionLog, producerId: number, commit: boolean, producerEpoch = 0): number {
  const batch = buildEndTxnMarker({ commit, producerId, producerEpoch, coordinatorEpoch: 0, timestampMs: 1_700_000_000_000 })
  return log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 }).baseOffset
}

/** Begins a new segment, so that everything before may be compacted: the segment is filled with a record of a key of its own. */
export async function roll(log: PartitionLog): Promise<void> {
  const segments = log.segmentCount
  while (log.segmentCount === segments) put(log, [{ key: '-filler-', value: 'x'.repeat(200) }])
  await log.whenSynced(log.logEndOffset)
  await log.idle()
}

export interface StoredBatch {
  readonly baseOffset: number
  readonly lastOffset: number
  readonly attributes: number
  readonly baseTimestampMs: number
  readonly maxTimestampMs: number
  readonly producerId: number
  readonly baseSequence: number
  readonly recordCount: number
  readonly records: readonly {
    readonly offset: number
    readonly key: string | null
    readonly value: string | null
    readonly timestampMs: number
  }[]
}

/** Every batch that a reader gets who begins at `offset`. */
export async function readBatches(log: PartitionLog, offset = log.logStartOffset, maxBytes = 64 * 1024): Promise<StoredBatch[]> {
  const found: StoredBatch[] = []
  for (let next = offset; next < log.highWatermark; ) {
    const read = await log.read({ offset: next, maxBytes, minOneBatch: true, limitOffset: log.highWatermark })
    if (read.sizeBytes === 0) throw new Error(`nothing was read at offset ${next}, below the high watermark ${log.highWatermark}`)
    for (const bytes of read.buffers) {
      for (let at = 0; at < bytes.length; ) {
        const header = readBatchHeader(bytes, at, bytes.length)
        found.push({ ...header, lastOffset: header.baseOffset + header.lastOffsetDelta, records: recordsOf(bytes, at) })
        at += header.sizeBytes
      }
    }
    next = read.nextOffset
    read.release()
  }
  return found
}

export const CODECS = new Codecs({ loader: new NodeLoader() })
for (const codec of [1, 2, 3, 4]) await CODECS.ready(codec)

function recordsOf(bytes: Buffer, at: number): StoredBatch['records'] {
  const header = readBatchHeader(bytes, at, bytes.length)
  const cursor = new RecordCursor(CODECS.inflateRecords(bytes, at, header), header)
  const records = []
  while (cursor.next()) {
    const { offset, timestampMs } = cursor
    records.push({ offset, timestampMs, key: cursor.key()?.toString() ?? null, value: cursor.value()?.toString() ?? null })
  }
  return records
}
