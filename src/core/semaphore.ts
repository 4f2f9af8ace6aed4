/** At most `permits` holders at once; the rest wait in order. */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(permits: number) {
    this.#free = permits
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    await this.#acquire()
    try {
      return await task()
    } finally {
      this.#release()
    }
  }

  #acquire(): Promise<void> | undefined {
    if (this.#free > 0) {
      this.#free--
      return undefined
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free++
    else next()
  }
}
