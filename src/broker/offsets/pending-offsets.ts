import type { OffsetEntry } from './offset-store.ts'

interface Pending extends OffsetEntry {
  /** Place in the log among all pending offsets: of two transactions the later commit stands, whichever ends first. */
  readonly order: number
}

/** The offsets of one transaction in one group, by topic and partition. */
type OfGroup = Map<string, Pending>

function keyOf(topic: string, partition: number): string {
  return `${topic}-${partition}`
}

/** Offsets that wait for the end of a transaction, of all groups of one partition of `__consumer_offsets` (KIP-447). */
export class PendingOffsets {
  readonly #producers = new Map<number, Map<string, OfGroup>>()
  /** Transactions that each group waits for. */
  readonly #groups = new Map<string, Set<number>>()
  #lastOrder = 0

  add(producerId: number, group: string, { topic, partition, value }: OffsetEntry): void {
    let groups = this.#producers.get(producerId)
    if (groups === undefined) {
      groups = new Map()
      this.#producers.set(producerId, groups)
    }
    let offsets = groups.get(group)
    if (offsets === undefined) {
      offsets = new Map()
      groups.set(group, offsets)
    }
    offsets.set(keyOf(topic, partition), { topic, partition, value, order: ++this.#lastOrder })
    let producers = this.#groups.get(group)
    if (producers === undefined) {
      producers = new Set()
      this.#groups.set(group, producers)
    }
    producers.add(producerId)
  }

  has(group: string): boolean {
    return this.#groups.has(group)
  }

  isPending(group: string, topic: string, partition: number): boolean {
    const key = keyOf(topic, partition)
    for (const producerId of this.#groups.get(group) ?? []) if (this.#producers.get(producerId)?.get(group)?.has(key)) return true
    return false
  }

  /** Something that was stored later takes their place: the end of their transaction changes nothing for this partition. */
  overtake(group: string, topic: string, partition: number, order = Number.POSITIVE_INFINITY): void {
    const key = keyOf(topic, partition)
    for (const producerId of [...(this.#groups.get(group) ?? [])]) {
      const offsets = this.#producers.get(producerId)?.get(group)
      const pending = offsets?.get(key)
      if (offsets === undefined || pending === undefined || pending.order >= order) continue
      offsets.delete(key)
      if (offsets.size === 0) this.#forget(producerId, group)
    }
  }

  /** Every offset that waits in the group. */
  ofGroup(group: string): OffsetEntry[] {
    return [...(this.#groups.get(group) ?? [])].flatMap((producerId) => [...(this.#producers.get(producerId)?.get(group)?.values() ?? [])])
  }

  #forget(producerId: number, group: string): void {
    const groups = this.#producers.get(producerId)
    groups?.delete(group)
    if (groups?.size === 0) this.#producers.delete(producerId)
    const producers = this.#groups.get(group)
    producers?.delete(producerId)
    if (producers?.size === 0) this.#groups.delete(group)
  }

  /** The transaction is over: what waited for it, by group; what it leaves behind of earlier transactions in the same places goes. */
  end(producerId: number, committed: boolean): ReadonlyMap<string, readonly OffsetEntry[]> {
    const ended = new Map<string, readonly OffsetEntry[]>()
    for (const [group, offsets] of [...(this.#producers.get(producerId) ?? [])]) {
      const all = [...offsets.values()]
      ended.set(group, all)
      this.#forget(producerId, group)
      if (committed) for (const { topic, partition, order } of all) this.overtake(group, topic, partition, order)
    }
    return ended
  }

  clear(): void {
    this.#producers.clear()
    this.#groups.clear()
  }
}
