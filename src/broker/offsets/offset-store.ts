import type { Uuid } from '../../core/uuid.ts'
import type { OffsetAndMetadata } from '../ports.ts'

/** A committed offset with what decides how long it lives: when it was committed, and of which topic of that name. */
export interface StoredOffset extends OffsetAndMetadata {
  readonly commitTimestampMs: number
  /** All zero in records that were written without it. */
  readonly topicId: Uuid
}

export interface OffsetEntry {
  readonly topic: string
  readonly partition: number
  readonly value: StoredOffset
}

/** Is told which partitions have an offset; the number itself is asked for. */
export interface OffsetWatcher {
  added(topic: string, partition: number, committed: () => number): void
  removed(topic: string, partition: number): void
}

/** The committed offsets of one group: the fold of its records in `__consumer_offsets`. The latest wins, whatever its number. */
export class OffsetStore {
  readonly #topics = new Map<string, Map<number, StoredOffset>>()
  #size = 0
  #watcher: OffsetWatcher | null = null

  get size(): number {
    return this.#size
  }

  get(topic: string, partition: number): StoredOffset | undefined {
    return this.#topics.get(topic)?.get(partition)
  }

  set(topic: string, partition: number, value: StoredOffset): void {
    let partitions = this.#topics.get(topic)
    if (partitions === undefined) {
      partitions = new Map()
      this.#topics.set(topic, partitions)
    }
    const isNew = !partitions.has(partition)
    partitions.set(partition, value)
    if (!isNew) return
    this.#size++
    this.#tell(topic, partition)
  }

  delete(topic: string, partition: number): void {
    const partitions = this.#topics.get(topic)
    if (!partitions?.delete(partition)) return
    this.#size--
    if (partitions.size === 0) this.#topics.delete(topic)
    this.#watcher?.removed(topic, partition)
  }

  /** From now on `watcher` knows every partition that has an offset; null ends it, and takes all of them away from it. */
  watch(watcher: OffsetWatcher | null): void {
    const former = this.#watcher
    this.#watcher = watcher
    for (const [topic, partitions] of this.#topics) {
      for (const partition of partitions.keys()) {
        former?.removed(topic, partition)
        this.#tell(topic, partition)
      }
    }
  }

  #tell(topic: string, partition: number): void {
    this.#watcher?.added(topic, partition, () => Math.max(0, this.get(topic, partition)?.offset ?? 0))
  }

  /** In no order. */
  *all(): Generator<OffsetEntry> {
    for (const [topic, partitions] of this.#topics) for (const [partition, value] of partitions) yield { topic, partition, value }
  }

  /** Ordered by topic and partition. */
  entries(): OffsetEntry[] {
    const topics = [...this.#topics].sort(([left], [right]) => (left < right ? -1 : 1))
    return topics.flatMap(([topic, partitions]) =>
      [...partitions].sort(([left], [right]) => left - right).map(([partition, value]) => ({ topic, partition, value })),
    )
  }

  /** The offsets of one topic, in no order. */
  ofTopic(topic: string): OffsetEntry[] {
    return [...(this.#topics.get(topic) ?? [])].map(([partition, value]) => ({ topic, partition, value }))
  }
}
