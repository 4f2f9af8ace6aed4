import type { RecordHeader } from '../../record/record.ts'
import type { FailedDeliveries } from '../group-ports.ts'

interface Counter extends FailedDeliveries {
  readonly place: string
  readonly offset: number
}

/** Header of an offset commit: `offset:count:since` of every record of the partition that failed, apart by commas; with `:1` where it was moved. */
const HEADER = 'moonmq.nack.attempts'
/** Counters of all groups together; beyond it the one that was not touched for longest goes. */
const MAX_COUNTERS = 4096
const MAX_COUNT = 65_535
/** Times are as short as they can be. */
const SINCE_RADIX = 36

/**
 * How often records were refused by their groups (DESIGN D11). The commits of a group carry the counters of their partition, so they are as
 * durable as the offsets; this is what the latest commit of each partition says.
 */
export class DeliveryAttempts {
  readonly #places = new Map<string, Map<number, Counter>>()
  /** The stalest first. */
  readonly #all = new Set<Counter>()

  get size(): number {
    return this.#all.size
  }

  /** Undefined for a record that never failed. */
  find(group: string, topic: string, partition: number, offset: number): FailedDeliveries | undefined {
    if (this.#all.size === 0) return undefined
    return this.#places.get(placeOf(group, topic, partition))?.get(offset)
  }

  /** From now on. */
  set(group: string, topic: string, partition: number, offset: number, failed: FailedDeliveries): void {
    this.#set(placeOf(group, topic, partition), offset, failed)
  }

  #set(place: string, offset: number, { count, sinceMs, moved }: FailedDeliveries): void {
    const known = this.#places.get(place)?.get(offset)
    if (known !== undefined) this.#remove(known)
    const counter: Counter = { place, offset, count: Math.min(count, MAX_COUNT), sinceMs, moved }
    let counters = this.#places.get(place)
    if (counters === undefined) {
      counters = new Map()
      this.#places.set(place, counters)
    }
    counters.set(offset, counter)
    this.#all.add(counter)
    for (const stalest of this.#all) {
      if (this.#all.size <= MAX_COUNTERS) return
      this.#remove(stalest)
    }
  }

  /** The group is done with everything below. */
  prune(group: string, topic: string, partition: number, belowOffset: number): void {
    if (this.#all.size === 0) return
    for (const counter of [...(this.#places.get(placeOf(group, topic, partition))?.values() ?? [])]) {
      if (counter.offset < belowOffset) this.#remove(counter)
    }
  }

  /** What the next commit of the partition carries; undefined: nothing. */
  headers(group: string, topic: string, partition: number): readonly RecordHeader[] | undefined {
    if (this.#all.size === 0) return undefined
    const counters = this.#places.get(placeOf(group, topic, partition))
    if (counters === undefined) return undefined
    const text = [...counters.values()].map(textOf).join(',')
    return [{ key: HEADER, value: Buffer.from(text) }]
  }

  /** What a commit that was read carried takes the place of what was known; null for one that takes the offset away. */
  restore(group: string, topic: string, partition: number, headers: readonly RecordHeader[] | null): void {
    if (this.#all.size > 0) this.prune(group, topic, partition, Number.POSITIVE_INFINITY)
    const text = headers?.find(({ key }) => key === HEADER)?.value?.toString()
    if (text === undefined || text === '') return
    const place = placeOf(group, topic, partition)
    for (const each of text.split(',')) {
      const [offsetText, countText, sinceText = '0', movedText] = each.split(':')
      const [offset, count, sinceMs] = [Number(offsetText), Number(countText), Number.parseInt(sinceText, SINCE_RADIX)]
      const isWhole = Number.isSafeInteger(offset) && Number.isSafeInteger(count) && Number.isSafeInteger(sinceMs)
      if (isWhole) this.#set(place, offset, { count, sinceMs, moved: movedText === '1' })
    }
  }

  #remove(counter: Counter): void {
    this.#all.delete(counter)
    const counters = this.#places.get(counter.place)
    counters?.delete(counter.offset)
    if (counters?.size === 0) this.#places.delete(counter.place)
  }
}

function textOf({ offset, count, sinceMs, moved }: Counter): string {
  return `${offset}:${count}:${Math.trunc(sinceMs).toString(SINCE_RADIX)}${moved ? ':1' : ''}`
}

function placeOf(group: string, topic: string, partition: number): string {
  return `${topic}-${partition}/${group}`
}
