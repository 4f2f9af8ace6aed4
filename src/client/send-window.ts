import { type Deferred, deferred } from '../core/deferred.ts'
import type { MoonMQError } from '../core/errors.ts'

/** Bounds what is sent and not acknowledged, lets others wait in order, and knows when everything up to a moment is done. */
export class SendWindow {
  readonly #maxBytes: number
  /** Sends that wait for room, in order. */
  readonly #queue: { readonly bytes: number; readonly go: Deferred<void> }[] = []
  /** Sends by the flush that will wait for them. */
  readonly #open = new Map<number, number>()
  #flushes: { readonly generation: number; readonly done: Deferred<void> }[] = []
  #generation = 0
  #pendingBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Somebody waits for everything that was sent: nothing more is to wait for company. */
  get isFlushing(): boolean {
    return this.#flushes.length > 0
  }

  /** Starts when there is room, at once if there is. Settles as what was started does, or as `instead` when that is rejected before. */
  async run<T>(bytes: number, start: () => Promise<T>, instead?: Promise<T>): Promise<T> {
    const generation = this.#generation
    this.#opened(generation)
    try {
      if (this.#queue.length > 0 || (this.#pendingBytes > 0 && this.#pendingBytes + bytes > this.#maxBytes)) {
        const waiting = { bytes, go: deferred() }
        this.#queue.push(waiting)
        await (instead === undefined ? waiting.go.promise : this.#turnOf(waiting, instead))
      } else this.#pendingBytes += bytes
      try {
        return await start()
      } finally {
        this.#pendingBytes -= bytes
        this.#admit()
      }
    } finally {
      this.#settled(generation)
    }
  }

  async #turnOf(waiting: { readonly bytes: number; readonly go: Deferred<void> }, instead: Promise<unknown>): Promise<void> {
    try {
      await Promise.race([waiting.go.promise, instead])
    } catch (error) {
      const place = this.#queue.indexOf(waiting)
      if (place >= 0) this.#queue.splice(place, 1)
      else this.#pendingBytes -= waiting.bytes
      this.#admit()
      throw error
    }
  }

  /** Whoever waits for room is told so instead. */
  fail(error: MoonMQError): void {
    for (const { go } of this.#queue.splice(0)) go.reject(error)
  }

  /** Resolves when everything that was started or waits so far has settled. `hurry` sends what gathers. */
  async flush(hurry: () => void): Promise<void> {
    const generation = this.#generation++
    const done = deferred()
    if (this.#isOpen(generation)) this.#flushes.push({ generation, done })
    else done.resolve()
    hurry()
    await done.promise
  }

  /** Lets those in that there is room for; one always fits when nothing is pending. */
  #admit(): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      if (this.#pendingBytes > 0 && this.#pendingBytes + first.bytes > this.#maxBytes) return
      this.#queue.shift()
      this.#pendingBytes += first.bytes
      first.go.resolve()
    }
  }

  #opened(generation: number): void {
    this.#open.set(generation, (this.#open.get(generation) ?? 0) + 1)
  }

  #settled(generation: number): void {
    const left = (this.#open.get(generation) ?? 1) - 1
    if (left > 0) {
      this.#open.set(generation, left)
      return
    }
    this.#open.delete(generation)
    this.#flushes = this.#flushes.filter((flush) => {
      if (this.#isOpen(flush.generation)) return true
      flush.done.resolve()
      return false
    })
  }

  #isOpen(upTo: number): boolean {
    for (const generation of this.#open.keys()) if (generation <= upTo) return true
    return false
  }
}
