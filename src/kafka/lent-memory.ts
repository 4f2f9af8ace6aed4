/**
 * Record bytes that answers hold until their sockets took them, over all connections of the door. Readers that do not read would
 * otherwise hold a whole fetch each. It only lowers what the next fetch may read and never refuses one: the first batch of an
 * answer always goes out, so everyone gets on.
 */
export class LentMemory {
  readonly #limitBytes: number
  #lentBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get lentBytes(): number {
    return this.#lentBytes
  }

  /** How much the next answer may hold: at most a quarter of what is left. */
  get allowanceBytes(): number {
    return Math.max(1, Math.floor((this.#limitBytes - this.#lentBytes) / 4))
  }

  lend(bytes: number): void {
    this.#lentBytes += bytes
  }

  giveBack(bytes: number): void {
    this.#lentBytes -= bytes
  }
}
