interface Waiter {
  readonly offset: number
  readonly promise: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

const REACHED = Promise.resolve()
const NOBODY: Waiter[] = []

/** Who waits for an offset to be reached, first come first served. Requests for the same offset share one promise. */
export class OffsetWaiters {
  #waiters: Waiter[] = NOBODY
  #first = 0

  get size(): number {
    return this.#waiters.length - this.#first
  }

  /** `reachedOffset` is where things stand now. */
  wait(offset: number, reachedOffset: number): Promise<void> {
    if (offset <= reachedOffset) return REACHED
    let at = this.#waiters.length
    while (at > this.#first && (this.#waiters[at - 1] as Waiter).offset > offset) at--
    const same = this.#waiters[at - 1]
    if (at > this.#first && same !== undefined && same.offset === offset) return same.promise
    let resolve!: () => void
    let reject!: (error: unknown) => void
    const promise = new Promise<void>((onResolve, onReject) => {
      resolve = onResolve
      reject = onReject
    })
    const waiter = { offset, promise, resolve, reject }
    // Made for one, since most are alone; an empty array that grows is made for many.
    if (at === 0 && this.size === 0) this.#waiters = [waiter]
    else if (at === this.#waiters.length) this.#waiters.push(waiter)
    else this.#waiters.splice(at, 0, waiter)
    return promise
  }

  reached(offset: number): void {
    while (this.#first < this.#waiters.length) {
      const waiter = this.#waiters[this.#first] as Waiter
      if (waiter.offset > offset) break
      this.#first++
      waiter.resolve()
    }
    if (this.#first === this.#waiters.length) {
      this.#waiters = NOBODY
      this.#first = 0
    } else if (this.#first >= 1024) {
      this.#waiters = this.#waiters.slice(this.#first)
      this.#first = 0
    }
  }

  fail(error: unknown): void {
    const waiters = this.#waiters.slice(this.#first)
    this.#waiters = NOBODY
    this.#first = 0
    for (const waiter of waiters) {
      // One that went away still owns a promise; its rejection is told to those who wait, and to nobody else.
      waiter.promise.catch(() => {})
      waiter.reject(error)
    }
  }
}
