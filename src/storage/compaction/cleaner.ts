import type { Clock } from '../../core/clock.ts'
import type { Counter, Histogram, Metrics } from '../../core/counters.ts'
import { isCode, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { partitionFolderName } from '../files.ts'
import type { PartitionLog } from '../partition-log.ts'
import { type Dirtiness, dirtinessOf } from './dirty.ts'
import { Pace } from './pace.ts'
import { compactOnce, type PassResult } from './pass.ts'

export interface CleanerDeps {
  readonly logs: { readonly logs: Iterable<PartitionLog> }
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
}

/** May change while the broker runs, so they are asked for at each pass. */
export interface CleanerOptions {
  readonly isEnabled: boolean
  /** Memory for the keys of a pass. */
  readonly keyBudgetBytes: number
  readonly maxBytesPerSecond: number
}

/** Longest time that compaction computes in one turn of the event loop. */
const SLICE_MS = 4
/** A log that could not be compacted is tried again after this long, then after twice as long each time. */
const FIRST_RETRY_MS = 60_000
const MAX_RETRY_MS = 3_600_000

interface Uncleanable {
  readonly failures: number
  readonly retryAtMs: number
}

/**
 * Compacts the logs of a broker, the dirtiest first, one at a time: so the memory for keys and the bytes in a second are bounds for all
 * together. A log that fails is left alone for a while and does not hold up the others.
 */
export class Cleaner {
  readonly #deps: CleanerDeps
  readonly #options: () => CleanerOptions
  readonly #uncleanable = new Map<PartitionLog, Uncleanable>()
  /** By log: monotonic time of the last pass. */
  readonly #lastPassMs = new WeakMap<PartitionLog, number>()
  readonly #passes: Counter
  readonly #failures: Counter
  readonly #read: Counter
  readonly #freed: Counter
  readonly #removed: Counter
  readonly #seconds: Histogram
  #maxDirtyRatio = 0

  constructor(deps: CleanerDeps, options: () => CleanerOptions) {
    const { metrics } = deps
    this.#deps = deps
    this.#options = options
    this.#passes = metrics.counter('moonmq_compaction_passes_total')
    this.#failures = metrics.counter('moonmq_compaction_failures_total')
    this.#read = metrics.counter('moonmq_compaction_io_bytes_total')
    this.#freed = metrics.counter('moonmq_compaction_freed_bytes_total')
    this.#removed = metrics.counter('moonmq_compaction_removed_records_total')
    this.#seconds = metrics.histogram('moonmq_compaction_seconds')
    metrics.observed('moonmq_compaction_uncleanable_partitions', () => this.#uncleanable.size)
    metrics.observed('moonmq_compaction_max_dirty_ratio', () => this.#maxDirtyRatio)
  }

  /** Compacts until no log needs it. Ends soon after the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const { isEnabled } = this.#options()
      const next = isEnabled ? this.#dirtiest() : null
      if (next === null || signal.aborted) return
      await this.#compact(next.log, next.dirtiness, signal)
    }
  }

  #dirtiest(): { log: PartitionLog; dirtiness: Dirtiness } | null {
    const { clock } = this.#deps
    const nowMs = clock.nowMs()
    const monotonicMs = clock.monotonicMs()
    const open = new Set<PartitionLog>()
    let found: { log: PartitionLog; dirtiness: Dirtiness } | null = null
    this.#maxDirtyRatio = 0
    for (const log of this.#deps.logs.logs) {
      if (!log.config.isCompacted || log.state !== 'online') continue
      open.add(log)
      const lastMs = this.#lastPassMs.get(log) ?? Number.NEGATIVE_INFINITY
      if (monotonicMs - lastMs < log.config.cleanerIntervalMs) continue
      if ((this.#uncleanable.get(log)?.retryAtMs ?? 0) > monotonicMs) continue
      const dirtiness = this.#look(log, nowMs)
      if (dirtiness === null) continue
      this.#maxDirtyRatio = Math.max(this.#maxDirtyRatio, dirtiness.dirtyRatio)
      if (dirtiness.reason !== null && dirtiness.dirtyRatio >= (found?.dirtiness.dirtyRatio ?? 0)) found = { log, dirtiness }
    }
    for (const log of this.#uncleanable.keys()) if (!open.has(log)) this.#uncleanable.delete(log)
    return found
  }

  /** A look may read the first bytes of a segment, and so fail. */
  #look(log: PartitionLog, nowMs: number): Dirtiness | null {
    try {
      return dirtinessOf(
        {
          segments: log.segments.map((segment) => ({
            baseOffset: segment.baseOffset,
            sizeBytes: segment.sizeBytes,
            isFinished: segment.isFinished,
            largestTimestampMs: () => segment.largestTimestamp().timestampMs,
            firstTimestampMs: () => segment.rollBaseTimestampMs,
          })),
          logStartOffset: log.logStartOffset,
          lastStableOffset: log.lastStableOffset,
          highWatermark: log.highWatermark,
          savedRecoveryPoint: log.compaction.savedRecoveryPoint,
          note: log.compaction.note,
          config: log.config,
        },
        nowMs,
      )
    } catch (error) {
      this.#failed(log, error)
      return null
    }
  }

  async #compact(log: PartitionLog, dirtiness: Dirtiness, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps
    const startedMs = clock.monotonicMs()
    this.#lastPassMs.set(log, startedMs)
    const { keyBudgetBytes, maxBytesPerSecond } = this.#options()
    const pace = new Pace({ clock }, { maxBytesPerSecond, sliceMs: SLICE_MS }, signal)
    const { disk, handles, pool, inflater } = log.compaction.deps
    const results: PassResult[] = []
    try {
      let { fromOffset } = dirtiness
      do {
        const pass = await compactOnce({ disk, clock, handles, pool, inflater, pace }, log, {
          fromOffset,
          toOffset: dirtiness.toOffset,
          keyBudgetBytes,
        })
        results.push(pass)
        fromOffset = pass.cleanedOffset
      } while (fromOffset < dirtiness.toOffset)
      this.#uncleanable.delete(log)
    } catch (error) {
      if (signal.aborted) return
      this.#failed(log, error)
    } finally {
      this.#read.add(pace.bytes)
    }
    if (results.length > 0) this.#report(log, dirtiness, results, clock.monotonicMs() - startedMs)
  }

  #report(log: PartitionLog, dirtiness: Dirtiness, results: readonly PassResult[], durationMs: number): void {
    const first = results[0] as PassResult
    const last = results[results.length - 1] as PassResult
    this.#passes.add(results.length)
    this.#seconds.observe(durationMs / 1000)
    this.#freed.add(
      Math.max(
        0,
        results.reduce((sum, each) => sum + each.bytesBefore - each.bytesAfter, 0),
      ),
    )
    this.#removed.add(results.reduce((sum, each) => sum + each.recordsBefore - each.recordsAfter, 0))
    const name = partitionFolderName(log)
    this.#deps.log.info('storage.compacted', `${name} was compacted up to offset ${last.cleanedOffset}`, {
      topic: log.topic,
      partition: log.partition,
      reason: dirtiness.reason ?? '',
      dirtyRatio: Math.round(dirtiness.dirtyRatio * 1000) / 1000,
      uncleanableBytes: dirtiness.uncleanableBytes,
      passes: results.length,
      keys: results.reduce((sum, each) => sum + each.keys, 0),
      recordsBefore: first.recordsBefore,
      recordsAfter: last.recordsAfter,
      bytesBefore: first.bytesBefore,
      bytesAfter: last.bytesAfter,
      segmentsBefore: first.segmentsBefore,
      segmentsAfter: last.segmentsAfter,
      durationMs: Math.round(durationMs),
    })
  }

  /** A log that was closed, cut or deleted meanwhile is no failure; the next look sees what it has become. */
  #failed(log: PartitionLog, error: unknown): void {
    const isChange = isCode(error, 'CLOSED')
    const failures = (this.#uncleanable.get(log)?.failures ?? 0) + (isChange ? 0 : 1)
    const delayMs = isChange ? FIRST_RETRY_MS / 10 : Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1))
    const retryAtMs = this.#deps.clock.monotonicMs() + delayMs
    if (isChange) {
      this.#lastPassMs.set(log, this.#deps.clock.monotonicMs())
      if (failures === 0) return
    }
    this.#uncleanable.set(log, { failures, retryAtMs })
    if (isChange) return
    this.#failures.add()
    const name = partitionFolderName(log)
    const text = `${name} could not be compacted; its records stay as they are, and it is tried again`
    const fields = { topic: log.topic, partition: log.partition, retryInMs: delayMs, error }
    if (error instanceof MoonMQError && !error.retriable) this.#deps.log.error('storage.not_compacted', text, fields)
    else this.#deps.log.warn('storage.not_compacted', text, fields)
  }
}
