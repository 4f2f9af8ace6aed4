interface Range {
  first: number
  last: number
}

/** Offsets as ranges in ascending order that do not touch. */
export class OffsetRanges {
  #ranges: Range[] = []

  get isEmpty(): boolean {
    return this.#ranges.length === 0
  }

  get ranges(): readonly Readonly<Range>[] {
    return this.#ranges
  }

  has(offset: number): boolean {
    const range = this.#ranges[this.#place(offset)]
    return range !== undefined && range.first <= offset
  }

  /** The first from this one on that is in no range. */
  firstOutside(offset: number): number {
    const range = this.#ranges[this.#place(offset)]
    return range !== undefined && range.first <= offset ? range.last + 1 : offset
  }

  /** From `first` to `last`, both included. */
  add(first: number, last: number): void {
    const from = this.#place(first - 1)
    let to = from
    const merged = { first, last }
    for (let range = this.#ranges[to]; range !== undefined && range.first <= last + 1; range = this.#ranges[++to]) {
      merged.first = Math.min(merged.first, range.first)
      merged.last = Math.max(merged.last, range.last)
    }
    this.#ranges.splice(from, to - from, merged)
  }

  dropBelow(offset: number): void {
    const place = this.#place(offset)
    if (place > 0) this.#ranges.splice(0, place)
    const [range] = this.#ranges
    if (range !== undefined) range.first = Math.max(range.first, offset)
  }

  /** Of the first range that ends at the offset or behind it. */
  #place(offset: number): number {
    let low = 0
    let high = this.#ranges.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#ranges[middle] as Range).last < offset) low = middle + 1
      else high = middle
    }
    return low
  }
}
