import type { Random } from './random.ts'

/** Waits that double from `initialMs` to `maxMs`, each varied by up to a fifth so that many clients do not return at once. */
export class Backoff {
  readonly #random: Random
  readonly #initialMs: number
  readonly #maxMs: number
  #attempts = 0

  constructor(random: Random, options: { initialMs: number; maxMs: number }) {
    this.#random = random
    this.#initialMs = options.initialMs
    this.#maxMs = options.maxMs
  }

  get attempts(): number {
    return this.#attempts
  }

  nextMs(): number {
    const base = Math.min(this.#maxMs, this.#initialMs * 2 ** this.#attempts)
    this.#attempts++
    return base * (0.8 + 0.4 * this.#random.fraction())
  }

  reset(): void {
    this.#attempts = 0
  }
}
