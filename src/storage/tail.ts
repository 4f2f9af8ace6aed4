const NO_BYTES = Buffer.alloc(0)

/** A batch that is still in memory as it was appended. */
export interface TailBatch {
  readonly baseOffset: number
  readonly lastOffset: number
  readonly bytes: Buffer
}

interface TailEntry extends TailBatch {
  bytes: Buffer
  readonly tail: Tail
  /** Not in the memory that all share, or not any more. */
  isGone: boolean
}

/**
 * Memory that the tails of all logs share. When it is used up the batch that was appended longest ago goes, whosever it is.
 * Batches that are not written yet are only here, so they stay; the queue of writes has a bound of its own.
 */
export class TailMemory {
  readonly maxBytes: number
  readonly maxBytesPerLog: number
  /** All entries in order of their append, those that went since among them. */
  #order: TailEntry[] = []
  #first = 0
  #gone = 0
  #bytes = 0

  constructor(options: { maxBytes: number; maxBytesPerLog: number }) {
    this.maxBytes = options.maxBytes
    this.maxBytesPerLog = options.maxBytesPerLog
  }

  get bytes(): number {
    return this.#bytes
  }

  /** For `Tail` only. */
  added(entry: TailEntry): void {
    this.#order.push(entry)
    this.#bytes += entry.bytes.length
    while (this.#bytes > this.maxBytes) {
      const oldest = this.#order[this.#first]
      if (oldest === undefined || oldest === entry || !oldest.tail.dropOldest()) break
    }
  }

  /** For `Tail` only. */
  dropped(entry: TailEntry): void {
    this.#bytes -= entry.bytes.length
    entry.isGone = true
    entry.bytes = NO_BYTES
    this.#gone++
    while (this.#order[this.#first]?.isGone === true) this.#first++
    if (this.#gone >= 1024 && this.#gone * 2 >= this.#order.length) {
      this.#order = this.#order.filter((each) => !each.isGone)
      this.#first = 0
      this.#gone = 0
    }
  }
}

/** The newest batches of one log, the very buffers that were appended. Dense in order, without gaps up to the log's end. */
export class Tail {
  readonly #memory: TailMemory
  #batches: TailEntry[] = []
  #first = 0
  #bytes = 0
  #writtenOffset = 0

  constructor(memory: TailMemory) {
    this.#memory = memory
  }

  /** First offset that is in memory; infinity when none is. */
  get startOffset(): number {
    return this.#batches[this.#first]?.baseOffset ?? Number.POSITIVE_INFINITY
  }

  get bytes(): number {
    return this.#bytes
  }

  push(baseOffset: number, lastOffset: number, bytes: Buffer): void {
    const entry: TailEntry = { baseOffset, lastOffset, bytes, tail: this, isGone: false }
    this.#batches.push(entry)
    this.#bytes += bytes.length
    while (this.#bytes > this.#memory.maxBytesPerLog && this.dropOldest()) {}
    this.#memory.added(entry)
  }

  /** Batches below this offset are in their file and may go. */
  written(offset: number): void {
    this.#writtenOffset = offset
  }

  /** False when there is none that may go. */
  dropOldest(): boolean {
    const oldest = this.#batches[this.#first]
    if (oldest === undefined || oldest.lastOffset >= this.#writtenOffset) return false
    this.#forget(oldest)
    this.#first++
    if (this.#first >= 256 && this.#first * 2 >= this.#batches.length) {
      this.#batches = this.#batches.slice(this.#first)
      this.#first = 0
    }
    return true
  }

  /** Number of the batch that holds `offset` or is the first behind it; only within what is in memory. */
  find(offset: number): number {
    let low = this.#first
    let high = this.#batches.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#batches[middle] as TailEntry).lastOffset < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  at(number: number): TailBatch | undefined {
    return this.#batches[number]
  }

  /**
   * The log failed. What lies below `offset` and is not in the file stays, outside of the memory that all logs share: that goes on
   * dropping what was appended longest ago, and these batches may not go before the log is opened again.
   */
  keepUnwritten(offset: number): void {
    this.clear(offset)
    while (this.dropOldest()) {}
    for (let number = this.#first; number < this.#batches.length; number++) {
      const entry = this.#batches[number] as TailEntry
      this.#batches[number] = { ...entry, isGone: true }
      this.#memory.dropped(entry)
    }
  }

  /** Forgets everything, or what lies at or behind `offset`. */
  clear(offset = 0): void {
    while (this.#batches.length > this.#first) {
      const last = this.#batches[this.#batches.length - 1] as TailEntry
      if (last.lastOffset < offset) return
      this.#batches.pop()
      this.#forget(last)
    }
  }

  #forget(entry: TailEntry): void {
    this.#bytes -= entry.bytes.length
    if (!entry.isGone) this.#memory.dropped(entry)
  }
}
