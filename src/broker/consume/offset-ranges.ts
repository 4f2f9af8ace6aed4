/** Offsets of one partition, neighbours together, so that a client may hold any number of them. They are added in ascending order. */
export class OffsetRanges {
  readonly #firsts: number[] = []
  readonly #lasts: number[] = []

  /** Of neighbours: what the memory goes by. */
  get ranges(): number {
    return this.#firsts.length
  }

  get first(): number | undefined {
    return this.#firsts[0]
  }

  /** The first besides this one. */
  firstBut(offset: number): number | undefined {
    if (this.#firsts[0] !== offset) return this.#firsts[0]
    return (this.#lasts[0] as number) > offset ? offset + 1 : this.#firsts[1]
  }

  has(offset: number): boolean {
    const at = this.#at(offset)
    return at < this.#firsts.length && (this.#firsts[at] as number) <= offset
  }

  /** One that is higher than all others. */
  add(offset: number): void {
    const end = this.#lasts.length - 1
    if (this.#lasts[end] === offset - 1) {
      this.#lasts[end] = offset
      return
    }
    this.#firsts.push(offset)
    this.#lasts.push(offset)
  }

  /** From the first to the last, both included; those that are not there are passed over. */
  delete(first: number, last: number = first): void {
    const at = this.#at(first)
    let to = at
    while (to < this.#firsts.length && (this.#firsts[to] as number) <= last) to++
    if (to === at) return
    const firsts: number[] = []
    const lasts: number[] = []
    const [low, high] = [this.#firsts[at] as number, this.#lasts[to - 1] as number]
    if (low < first) {
      firsts.push(low)
      lasts.push(first - 1)
    }
    if (high > last) {
      firsts.push(last + 1)
      lasts.push(high)
    }
    this.#firsts.splice(at, to - at, ...firsts)
    this.#lasts.splice(at, to - at, ...lasts)
  }

  /** The first range that does not end before the offset. */
  #at(offset: number): number {
    let low = 0
    let high = this.#lasts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#lasts[middle] as number) < offset) low = middle + 1
      else high = middle
    }
    return low
  }
}
