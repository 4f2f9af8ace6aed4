interface Place {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

interface Range {
  readonly topic: string
  readonly partition: number
  readonly first: number
  readonly last: number
}

/** One partition as the consumer has seen it. */
interface Part {
  /** After the highest record that came on this connection; before any did, the first that is to come. */
  next: number
  /** Came and are not done, ascending. */
  readonly open: Set<number>
  /** With the loop: they do not come again while it has them. */
  readonly inHand: Set<number>
  /** Done, and above one that is not. */
  done: Set<number>
}

const PRUNE_AT = 1000

/** What a consumer of a stream was given and has done, so that another connection can go on without giving it anything twice. */
export class PushProgress {
  readonly #topics = new Map<string, Map<number, Part>>()
  #dirty: Place[] = []
  /** What was answered for last may not have got there. */
  isUnsure = false

  /** `new`: for the loop. `held`: the loop has it. `done`: it was done before the connection broke, and is to be answered for again. */
  deliver(topic: string, partition: number, offset: number): 'new' | 'held' | 'done' {
    const part = this.#part(topic, partition, offset)
    part.next = Math.max(part.next, offset + 1)
    if (part.done.has(offset)) {
      this.#dirty.push({ topic, partition, offset })
      return 'done'
    }
    part.open.add(offset)
    return part.inHand.has(offset) ? 'held' : 'new'
  }

  #part(topic: string, partition: number, next: number): Part {
    let parts = this.#topics.get(topic)
    if (parts === undefined) {
      parts = new Map()
      this.#topics.set(topic, parts)
    }
    let part = parts.get(partition)
    if (part === undefined) {
      part = { next, open: new Set(), inHand: new Set(), done: new Set() }
      parts.set(partition, part)
    }
    return part
  }

  /** A partition begins here. */
  begin(topic: string, partition: number, offset: number): void {
    this.#part(topic, partition, offset)
  }

  take({ topic, partition, offset }: Place): void {
    this.#topics.get(topic)?.get(partition)?.inHand.add(offset)
  }

  /** False when it was answered for before. */
  done(place: Place): boolean {
    if (!this.#close(place)) return false
    this.#dirty.push(place)
    return true
  }

  /** The loop gave it up: it may come again. False when it was answered for before. */
  fail({ topic, partition, offset }: Place): boolean {
    return this.#topics.get(topic)?.get(partition)?.inHand.delete(offset) === true
  }

  /** The broker is done with it. */
  settled({ topic, partition, offset }: Place): void {
    const part = this.#topics.get(topic)?.get(partition)
    if (part === undefined) return
    part.open.delete(offset)
    part.done.add(offset)
  }

  #close({ topic, partition, offset }: Place): boolean {
    const part = this.#topics.get(topic)?.get(partition)
    if (part?.inHand.delete(offset) !== true) return false
    part.open.delete(offset)
    part.done.add(offset)
    if (part.done.size > PRUNE_AT) {
      const low = lowOf(part)
      part.done = new Set([...part.done].filter((each) => each >= low))
    }
    return true
  }

  isDirty({ topic, partition, offset }: Place): boolean {
    return this.#dirty.some((each) => each.offset === offset && each.partition === partition && each.topic === topic)
  }

  /** Ranges of neighbouring records that are to be answered for. */
  takeDirty(): Range[] {
    const ranges: { topic: string; partition: number; first: number; last: number }[] = []
    for (const { topic, partition, offset } of this.#dirty) {
      const before = ranges.at(-1)
      if (before?.topic === topic && before.partition === partition && before.last === offset - 1) before.last = offset
      else ranges.push({ topic, partition, first: offset, last: offset })
    }
    this.#dirty = []
    return ranges
  }

  /** Another connection: where each partition goes on. What came and was not taken comes again. */
  restart(): Map<string, { partition: number; offset: number }[]> {
    const positions = new Map<string, { partition: number; offset: number }[]>()
    for (const { topic, partition, offset } of this.positions()) {
      const places = positions.get(topic) ?? []
      places.push({ partition, offset })
      positions.set(topic, places)
    }
    if (this.#dirty.length > 0) this.isUnsure = true
    this.#dirty = []
    for (const parts of this.#topics.values()) {
      for (const part of parts.values()) {
        // What has not come again is not done: nobody may take it for passed meanwhile.
        part.next = lowOf(part)
        part.open.clear()
        for (const held of part.inHand) part.open.add(held)
      }
    }
    return positions
  }

  /** Of every partition, the first record that is not done. */
  positions(): Place[] {
    return [...this.#topics].flatMap(([topic, parts]) => [...parts].map(([partition, part]) => ({ topic, partition, offset: lowOf(part) })))
  }
}

function lowOf({ open, next }: Part): number {
  let low = next
  for (const offset of open) low = Math.min(low, offset)
  return low
}
