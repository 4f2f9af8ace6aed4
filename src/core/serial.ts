/** Runs tasks one after another in the order given. The one queue of a stateful class (LAYOUT section 4). */
export class Serial {
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** Tasks that run or wait. */
  get size(): number {
    return this.#waiting
  }

  run<T>(task: () => T | Promise<T>): Promise<T> {
    this.#waiting++
    const result = this.#tail.then(task)
    this.#tail = result.then(this.#done, this.#done)
    return result
  }

  readonly #done = () => {
    this.#waiting--
  }

  /** Resolves when everything queued so far has ended, whatever its outcome. */
  async idle(): Promise<void> {
    while (this.#waiting > 0) await this.#tail
  }
}
