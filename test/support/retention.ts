import { type Failpoint, NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { MetricsRegistry } from '../../src/obs/metrics.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { Retention } from '../../src/storage/retention-pass.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'
import { DATA_FOLDER, type RecordedLine, recordingLogger, store, TOPIC_ID } from './storage.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export interface RetentionWorldOptions {
  readonly clock?: VirtualClock
  readonly disk?: MemoryDisk
  readonly config?: Partial<LogConfig>
  readonly failpoint?: Failpoint
  readonly boot?: string
  readonly maxSegments?: number
}

/** Virtual time for timers and stamps; what is deferred comes with the next turn of the real event loop. */
export class SteppedClock extends VirtualClock {
  override defer(run: () => void): void {
    setImmediate(run)
  }
}

let nextPid = 40_000

/** One partition with retention over it, on virtual time and a memory disk: what a broker has of both. */
export class RetentionWorld {
  readonly clock: VirtualClock
  readonly disk: MemoryDisk
  readonly manager: LogManager
  readonly log: PartitionLog
  readonly retention: Retention
  readonly metrics: MetricsRegistry
  readonly lines: RecordedLine[]

  private constructor(parts: {
    clock: VirtualClock
    disk: MemoryDisk
    manager: LogManager
    log: PartitionLog
    retention: Retention
    metrics: MetricsRegistry
    lines: RecordedLine[]
  }) {
    this.clock = parts.clock
    this.disk = parts.disk
    this.manager = parts.manager
    this.log = parts.log
    this.retention = parts.retention
    this.metrics = parts.metrics
    this.lines = parts.lines
  }

  static async open(options: RetentionWorldOptions = {}): Promise<RetentionWorld> {
    const clock = options.clock ?? new SteppedClock()
    const disk = options.disk ?? new MemoryDisk({ clock })
    const lines: RecordedLine[] = []
    const log = recordingLogger(lines)
    const metrics = new MetricsRegistry()
    const failpoint = options.failpoint ?? NO_FAILPOINT
    const pid = nextPid++
    const host = new FixedHost({ pid, bootId: options.boot ?? 'boot-1', processes: new Map([[pid, '1']]) })
    const manager = await LogManager.open(
      { disk, clock, log, host, metrics, failpoint },
      // Checkpoints come when a test asks for one.
      { dataFolder: DATA_FOLDER, checkpointIntervalMs: 1000 * DAY_MS },
    )
    const partition = await manager.open({
      topic: 't',
      partition: 0,
      topicId: TOPIC_ID,
      config: { ...LOG_CONFIG, segmentBytes: 200, retentionMs: HOUR_MS, fileDeleteDelayMs: MINUTE_MS, ...options.config },
      maxEpoch: 100,
    })
    const retention = await Retention.open(
      { disk, clock, log, metrics, failpoint, logs: manager },
      {
        dataFolder: DATA_FOLDER,
        intervalMs: () => 5 * MINUTE_MS,
        ...(options.maxSegments === undefined ? {} : { maxSegments: options.maxSegments }),
      },
    )
    return new RetentionWorld({ clock, disk, manager, log: partition, retention, metrics, lines })
  }

  /** Time passes, with a pass of retention every five minutes. */
  async live(forMs: number): Promise<void> {
    for (let leftMs = forMs; leftMs > 0; leftMs -= 5 * MINUTE_MS) {
      await this.clock.advance(Math.min(leftMs, 5 * MINUTE_MS))
      await this.pass()
    }
  }

  async pass(): Promise<void> {
    await this.retention.pass(new AbortController().signal)
  }

  /** Stores one record; two do not fit one segment unless the test chose larger ones. */
  async put(value = 'v'.repeat(100), timestampMs = this.clock.nowMs()): Promise<number> {
    return (await store(this.log, [value], { timestampMs })).lastOffset
  }

  async close(): Promise<void> {
    await this.retention.close()
    await this.manager.close()
  }

  /** Names in the folder of the partition. */
  async names(): Promise<string[]> {
    return (await this.disk.list(`${DATA_FOLDER}/t-0`)).map((entry) => entry.name)
  }

  get bases(): number[] {
    return this.log.segments.map((segment) => segment.baseOffset)
  }
}
