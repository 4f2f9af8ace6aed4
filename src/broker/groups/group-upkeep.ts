import type { Clock, Timer } from '../../core/clock.ts'
import type { Counter, Metrics } from '../../core/counters.ts'
import type { Metadata, MetadataImage } from '../../metadata/types.ts'
import { expiredOffsets } from './expiry.ts'
import type { GroupOptions } from './group-options.ts'
import type { GroupTable } from './group-table.ts'
import { NativeGroup } from './native/native-group.ts'

/** What happens to groups by itself: topics go, offsets get old. */
export class GroupUpkeep {
  readonly #clock: Clock
  readonly #table: GroupTable
  readonly #options: GroupOptions
  readonly #expired: Counter
  readonly #unsubscribe: () => void
  #sweepTimer: Timer | null = null

  constructor(deps: { clock: Clock; table: GroupTable; metadata: Metadata; metrics: Metrics }, options: GroupOptions) {
    this.#clock = deps.clock
    this.#table = deps.table
    this.#options = options
    this.#expired = deps.metrics.counter('moonmq_offsets_expired_total')
    this.#unsubscribe = deps.metadata.subscribe((before, after) => this.#onMetadata(before, after))
  }

  start(): void {
    this.#armSweep()
  }

  #onMetadata(before: MetadataImage, after: MetadataImage): void {
    if (before.topicsById === after.topicsById) return
    this.#assignAnew()
    for (const [id, topic] of before.topicsById) {
      if (after.topicsById.has(id)) continue
      for (const shard of this.#table.shards) {
        for (const entry of [...shard.groups.values()]) {
          const gone = entry.offsets.ofTopic(topic.name)
          if (gone.length > 0) shard.deleteOffsets(entry, gone, `topic "${topic.name}" was deleted`)
        }
      }
    }
  }

  /** Native members are given what is new at once. */
  #assignAnew(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const shard of this.#table.shards) {
      for (const entry of [...shard.groups.values()]) {
        if (!(entry.machine instanceof NativeGroup) || entry.machine.memberCount === 0) continue
        entry.machine.topicsChanged(nowMs)
        shard.settle(entry)
      }
    }
  }

  #armSweep(): void {
    if (this.#table.isClosed) return
    this.#sweepTimer = this.#clock.setTimer(this.#options.retentionCheckIntervalMs, () => {
      this.#expireOffsets(0)
      this.#armSweep()
    })
  }

  /** One shard a turn, so that a million offsets do not hold up requests. */
  #expireOffsets(from: number): void {
    const shard = this.#table.shards[from]
    if (shard === undefined || this.#table.isClosed) return
    const nowMs = this.#clock.nowMs()
    for (const entry of [...shard.groups.values()]) {
      const expired = expiredOffsets(entry.machine, entry.stateChangedAtMs, entry.offsets.all(), nowMs, this.#options.offsetsRetentionMs)
      if (expired.length > 0) this.#expired.add(expired.length)
      // A group that was left by its members and never committed goes here too.
      shard.deleteOffsets(entry, expired, 'their retention is over')
    }
    this.#clock.defer(() => this.#expireOffsets(from + 1))
  }

  stop(): void {
    this.#unsubscribe()
    this.#sweepTimer?.cancel()
  }
}
