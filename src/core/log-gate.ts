import type { Clock } from './clock.ts'

/**
 * Lets a bounded number of lines a second through, so that strangers cannot fill a disk with log lines about themselves. What was
 * held back is counted and told with the next line that passes.
 */
export class LogGate {
  readonly #clock: Clock
  readonly #perSecond: number
  #windowStartMs = Number.NEGATIVE_INFINITY
  #passed = 0
  #heldBack = 0

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock
    this.#perSecond = perSecond
  }

  /** Null: leave the line out. Else what to add to its text: nothing, or how many were left out before it. */
  pass(): string | null {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#windowStartMs >= 1000) {
      this.#windowStartMs = nowMs
      this.#passed = 0
    }
    if (this.#passed >= this.#perSecond) {
      this.#heldBack++
      return null
    }
    this.#passed++
    if (this.#heldBack === 0) return ''
    const note = ` (${this.#heldBack} similar lines were left out before this one)`
    this.#heldBack = 0
    return note
  }
}
