import type { BrokerSettings } from '../broker/settings.ts'
import type { Clock } from '../core/clock.ts'
import { type Metrics, NO_METRICS } from '../core/counters.ts'
import { MIB } from '../core/limits.ts'
import type { Logger } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'
import { MemoryDisk } from '../io/memory-disk.ts'
import type { Codecs } from '../record/compression.ts'
import { LogManager } from '../storage/log-manager.ts'
import { DEFAULT_PRODUCER_STATE, type ProducerStateOptions } from '../storage/producer-state.ts'
import { Retention } from '../storage/retention-pass.ts'
import type { Machine } from './machine.ts'

const FOLDER = '/memory-topics'
/** What indexes, snapshots and checkpoints may still take when records get no more room. */
const RESERVE_BYTES = 64 * MIB
/** Newest batches kept a second time, so that readers of the end need no checksum. */
const TAIL_BYTES = 8 * MIB
const TAIL_BYTES_PER_LOG = MIB
/** The disk's are counted; these would say that a disk works. */
const OF_THE_DISK: ReadonlySet<string> = new Set(['moonmq_fsync_total', 'moonmq_fsync_duration_seconds', 'moonmq_append_queue_bytes'])
/** Between two calls for retention while producers are turned away. */
const ASK_AGAIN_MS = 250

export interface MemoryLogsDeps {
  readonly machine: Machine
  readonly log: Logger
  readonly metrics: Metrics
  readonly codecs: Codecs
}

export interface MemoryLogsOptions {
  /** Of all memory topics together. */
  readonly maxBytes: number
  readonly settings: BrokerSettings
}

/**
 * The logs of topics with `moonmq.storage=memory`: the same logs, on a disk in memory. Bounded before memory is taken: an append that does not
 * fit is refused with STORAGE_FULL, and retention is asked to make room for when it comes again. Nothing of it survives the process.
 */
export class MemoryLogs implements Resource {
  readonly logs: LogManager
  readonly retention: Retention

  private constructor(logs: LogManager, retention: Retention) {
    this.logs = logs
    this.retention = retention
  }

  static async open(deps: MemoryLogsDeps, { maxBytes, settings }: MemoryLogsOptions): Promise<MemoryLogs> {
    const { machine, log, codecs } = deps
    const { clock, host, failpoint } = machine
    const metrics = withoutDisk(deps.metrics)
    const disk = new MemoryDisk({ clock }, { capacityBytes: maxBytes + RESERVE_BYTES, tracksDurability: false })
    const budget = new MemoryBudget({ clock, disk }, { maxBytes })
    const logs = await LogManager.open(
      { disk, clock, log, host, metrics, codecs },
      {
        dataFolder: FOLDER,
        tailBytes: TAIL_BYTES,
        tailBytesPerLog: TAIL_BYTES_PER_LOG,
        producers: producerRules(settings),
        // Nothing is gained by syncing less, and a journal would take memory.
        groupCommit: { journalFrom: 0 },
        hasRoom: (bytes) => budget.hasRoom(bytes),
        removesAtOnce: true,
      },
    )
    budget.onFull = () => logs.onDiskFull?.()
    const intervalMs = settings.number('log.retention.check.interval.ms')
    const retention = await Retention.open(
      { disk, clock, log, metrics, failpoint, logs },
      { dataFolder: FOLDER, intervalMs: () => intervalMs, tellsJumps: false },
    )
    return new MemoryLogs(logs, retention)
  }

  close(): Promise<void> {
    return this.logs.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** How long logs remember producers, asked for at each look. */
export function producerRules(settings: BrokerSettings): ProducerStateOptions {
  return {
    ...DEFAULT_PRODUCER_STATE,
    get expirationMs() {
      return settings.number('producer.id.expiration.ms')
    },
  }
}

/** How much memory the topics may still take. Counts what was appended and is not on the disk yet until it surely is. */
class MemoryBudget {
  readonly #clock: Clock
  readonly #disk: MemoryDisk
  readonly #maxBytes: number
  /** Appended in this turn of the event loop, and in the one before: written by the end of the next. */
  #newBytes = 0
  #olderBytes = 0
  #isTurnDue = false
  #askedAtMs = Number.NEGATIVE_INFINITY
  onFull: (() => void) | null = null

  constructor(deps: { clock: Clock; disk: MemoryDisk }, options: { maxBytes: number }) {
    this.#clock = deps.clock
    this.#disk = deps.disk
    this.#maxBytes = options.maxBytes
  }

  hasRoom(bytes: number): boolean {
    if (this.#disk.usedBytes + this.#olderBytes + this.#newBytes + bytes > this.#maxBytes) {
      this.#ask()
      return false
    }
    this.#newBytes += bytes
    if (!this.#isTurnDue) {
      this.#isTurnDue = true
      this.#clock.defer(this.#turn)
    }
    return true
  }

  readonly #turn = (): void => {
    this.#olderBytes = this.#newBytes
    this.#newBytes = 0
    this.#isTurnDue = this.#olderBytes > 0
    if (this.#isTurnDue) this.#clock.defer(this.#turn)
  }

  #ask(): void {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#askedAtMs < ASK_AGAIN_MS) return
    this.#askedAtMs = nowMs
    this.onFull?.()
  }
}

function withoutDisk(metrics: Metrics): Metrics {
  const of = (name: string) => (OF_THE_DISK.has(name) ? NO_METRICS : metrics)
  return {
    counter: (name, labels) => of(name).counter(name, labels),
    gauge: (name, labels) => of(name).gauge(name, labels),
    histogram: (name, labels) => of(name).histogram(name, labels),
    observed: (name, read, labels) => of(name).observed(name, read, labels),
    forget: (labels) => metrics.forget(labels),
  }
}
