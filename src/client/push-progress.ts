import { OffsetRanges } from './offset-ranges.ts'

/** In one SETTLE. */
const MAX_RANGES = 10_000

/** One partition as a consumer of a stream has seen it. */
export class PushPart {
  readonly topic: string
  readonly partition: number
  /** It belongs to somebody else: what was given of it counts no more. */
  isGone = false
  /** It is to be let go: nothing more of it is taken, and what is done is stored at the end. */
  isRevoked = false
  /** The broker has stored that everything below is done; −1: nothing is. */
  stored = -1
  /** After the highest record that came on this connection; before any did, the first that is to come. */
  next: number
  /** Came and are not done, each with the end of the one before: there is no record between the two. */
  readonly #open = new Map<number, number>()
  /** Offsets of `open` as they came, ascending; those before `#head` are done. */
  #order: number[] = []
  #head = 0
  /** With the loop: they do not come again while it has them. */
  readonly #inHand = new Set<number>()
  /** Given up by the loop: they come again. */
  readonly #failed = new Set<number>()
  /** Done, and not known to be below what the broker has stored. */
  readonly #done = new OffsetRanges()
  /** Done, and to be answered for. */
  #dirty = new OffsetRanges()

  constructor(topic: string, partition: number, next: number) {
    this.topic = topic
    this.partition = partition
    this.next = next
  }

  get isInHand(): boolean {
    return this.#inHand.size > 0
  }

  get isDirty(): boolean {
    return !this.#dirty.isEmpty
  }

  /** The first record that is not done. */
  get low(): number {
    while (this.#head < this.#order.length && !this.#open.has(this.#order[this.#head] as number)) this.#head++
    if (this.#head > 1000 && this.#head * 2 > this.#order.length) {
      this.#order = this.#order.slice(this.#head)
      this.#head = 0
    }
    return this.#order[this.#head] ?? this.#done.firstOutside(this.next)
  }

  /** `new`: for the loop. `held`: the loop has it or will. `done`: it was done before, and is to be answered for again. */
  deliver(offset: number): 'new' | 'held' | 'done' {
    // Nothing that is stored comes again but of a topic that was made anew.
    if (offset < this.stored && !this.#open.has(offset) && !this.#inHand.has(offset)) this.#beginAnew(offset)
    const before = Math.min(this.next, offset)
    this.next = Math.max(this.next, offset + 1)
    if (this.#done.has(offset)) {
      this.#dirty.add(offset, offset)
      return 'done'
    }
    if (!this.#open.has(offset)) {
      this.#open.set(offset, before)
      this.#order.push(offset)
      return this.#inHand.has(offset) ? 'held' : 'new'
    }
    return this.#failed.delete(offset) ? 'new' : 'held'
  }

  #beginAnew(offset: number): void {
    this.restart()
    this.#inHand.clear()
    this.#done.dropBelow(Number.POSITIVE_INFINITY)
    this.stored = -1
    this.next = offset
  }

  take(offset: number): void {
    this.#inHand.add(offset)
  }

  /** False when it was answered for before. */
  done(offset: number): boolean {
    if (!this.#inHand.delete(offset)) return false
    const first = this.#close(offset)
    this.#dirty.add(first, offset)
    return true
  }

  #close(offset: number): number {
    const first = this.#open.get(offset) ?? offset
    this.#open.delete(offset)
    this.#done.add(first, offset)
    return first
  }

  /** The loop gave it up: it may come again. False when it was answered for before. */
  fail(offset: number): boolean {
    if (!this.#inHand.delete(offset)) return false
    this.#failed.add(offset)
    return true
  }

  /** The broker is done with it. */
  settled(offset: number): void {
    this.#failed.delete(offset)
    this.#close(offset)
  }

  /** Everything below is stored. */
  storedTo(offset: number): void {
    this.stored = Math.max(this.stored, offset)
    this.#done.dropBelow(this.stored)
  }

  isDirtyAt(offset: number): boolean {
    return this.#dirty.has(offset)
  }

  dirtyAgain(first: number, last: number): void {
    this.#dirty.add(first, last)
  }

  takeDirty(): OffsetRanges {
    const dirty = this.#dirty
    this.#dirty = new OffsetRanges()
    return dirty
  }

  /** What came and was not taken comes again, and nobody may take it for passed meanwhile. */
  restart(): void {
    this.next = this.low
    this.#open.clear()
    this.#order = []
    this.#head = 0
    this.#failed.clear()
    this.#dirty = new OffsetRanges()
  }
}

export interface DoneRange {
  readonly part: PushPart
  readonly first: number
  readonly last: number
}

/** What a consumer of a stream was given and has done, so that another connection can go on without giving it anything twice. */
export class PushProgress {
  readonly #topics = new Map<string, Map<number, PushPart>>()
  /** What was answered for last may not have got there. */
  isUnsure = false

  /** Of the partition that a record came from, or that begins here. */
  part(topic: string, partition: number, next: number): PushPart {
    let parts = this.#topics.get(topic)
    if (parts === undefined) {
      parts = new Map()
      this.#topics.set(topic, parts)
    }
    let part = parts.get(partition)
    if (part === undefined) {
      part = new PushPart(topic, partition, next)
      parts.set(partition, part)
    }
    return part
  }

  get parts(): readonly PushPart[] {
    return [...this.#topics.values()].flatMap((parts) => [...parts.values()])
  }

  /** A partition of a topic with those that hold its records between two tries: who has the one has the others. */
  family(topic: string, partition: number): readonly PushPart[] {
    const isTier = (name: string) => name.startsWith(`${topic}.retry.`) && /^\d+$/.test(name.slice(topic.length + '.retry.'.length))
    return this.parts.filter((part) => part.partition === partition && (part.topic === topic || isTier(part.topic)))
  }

  drop(part: PushPart): void {
    part.isGone = true
    this.#topics.get(part.topic)?.delete(part.partition)
  }

  /** What is to be answered for, as much as one request takes; without partitions that are let go, whose end is stored as a whole. */
  takeDirty(): DoneRange[] {
    const ranges: DoneRange[] = []
    for (const part of this.parts) {
      if (!part.isDirty || part.isRevoked) continue
      for (const { first, last } of part.takeDirty().ranges) {
        if (ranges.length < MAX_RANGES) ranges.push({ part, first, last })
        else part.dirtyAgain(first, last)
      }
    }
    return ranges
  }

  /** Another connection: each partition goes on at its first record that is not done. */
  restart(): void {
    for (const part of this.parts) {
      if (part.isDirty) this.isUnsure = true
      part.restart()
    }
  }
}
