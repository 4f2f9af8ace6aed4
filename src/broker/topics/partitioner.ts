import type { Clock } from '../../core/clock.ts'
import { fnv1a, murmur2 } from '../../core/hash.ts'
import type { Random } from '../../core/random.ts'
import type { TopicImage } from '../../metadata/types.ts'
import type { Partitioner } from './topic-settings.ts'

/** A record without a key stays with the last one's partition for so many records or so long, whichever ends first (docs/PROTOCOL.md). */
const STICKY_RECORDS = 16
const STICKY_MS = 10

interface Sticky {
  readonly topicId: string
  partition: number
  partitions: number
  records: number
  untilMs: number
}

/** Chooses partitions where the broker does: native and HTTP doors. Kafka clients choose for themselves. */
export class PartitionChooser {
  readonly #clock: Clock
  readonly #random: Random
  readonly #sticky = new Map<string, Sticky>()

  constructor(deps: { clock: Clock; random: Random }) {
    this.#clock = deps.clock
    this.#random = deps.random
  }

  choose(topic: TopicImage, partitioner: Partitioner, key: Buffer | null): number {
    const count = topic.partitions.length
    if (key === null || key.length === 0) return this.#stick(topic, count)
    return partitioner === 'murmur2' ? (murmur2(key) & 0x7fffffff) % count : fnv1a(key) % count
  }

  forget(topic: string): void {
    this.#sticky.delete(topic)
  }

  #stick(topic: TopicImage, count: number): number {
    if (count === 1) return 0
    const nowMs = this.#clock.monotonicMs()
    let sticky = this.#sticky.get(topic.name)
    if (sticky === undefined || sticky.topicId !== topic.id) {
      sticky = { topicId: topic.id, partition: this.#random.below(count), partitions: count, records: 0, untilMs: nowMs + STICKY_MS }
      this.#sticky.set(topic.name, sticky)
    } else if (sticky.records >= STICKY_RECORDS || nowMs >= sticky.untilMs || sticky.partitions !== count) {
      // In turn rather than at random: with few records the spread is even too.
      sticky.partition = (sticky.partition + 1) % count
      sticky.partitions = count
      sticky.records = 0
      sticky.untilMs = nowMs + STICKY_MS
    }
    sticky.records++
    return sticky.partition
  }
}
