interface Waiting {
  readonly bytes: number
  readonly begin: () => void
}

/**
 * Requests of megabytes that name very much, over all connections of the door. One becomes a hundred times its bytes in objects, so only
 * so many bytes of them are served together; the others wait for their turn, in their order. One is always served, whatever its size.
 */
export class LargeRequests {
  readonly #limitBytes: number
  readonly #waiting: Waiting[] = []
  #servedBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Null when it may begin, which takes its place; else a promise of that. */
  enter(bytes: number): Promise<void> | null {
    if (this.#waiting.length === 0 && this.#fits(bytes)) {
      this.#servedBytes += bytes
      return null
    }
    return new Promise((resolve) => this.#waiting.push({ bytes, begin: resolve }))
  }

  /** Gives its place back. */
  leave(bytes: number): void {
    this.#servedBytes -= bytes
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#servedBytes += next.bytes
      next.begin()
    }
  }

  #fits(bytes: number): boolean {
    return this.#servedBytes === 0 || this.#servedBytes + bytes <= this.#limitBytes
  }
}
