import { randomBytes, randomFillSync } from 'node:crypto'

/** The only source of randomness (DESIGN D6). */
export interface Random {
  bytes(size: number): Buffer
  /** A whole number from 0 up to, and without, `limit`. */
  below(limit: number): number
  /** A fraction from 0 up to, and without, 1. */
  fraction(): number
}

/** Randomness of the machine, fit for keys and ids. */
export class SystemRandom implements Random {
  readonly #pool = Buffer.alloc(4096)
  #used = 4096

  bytes(size: number): Buffer {
    return randomBytes(size)
  }

  below(limit: number): number {
    return Math.floor(this.fraction() * limit)
  }

  fraction(): number {
    if (this.#used + 8 > this.#pool.length) {
      randomFillSync(this.#pool)
      this.#used = 0
    }
    const high = this.#pool.readUInt32BE(this.#used) >>> 5
    const low = this.#pool.readUInt32BE(this.#used + 4) >>> 6
    this.#used += 8
    return (high * 67108864 + low) / 9007199254740992
  }
}

/** The same numbers for the same seed, on every machine (mulberry32). For tests and simulation only. */
export class SeededRandom implements Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return (t ^ (t >>> 14)) >>> 0
  }

  bytes(size: number): Buffer {
    const out = Buffer.alloc(size)
    for (let i = 0; i < size; i++) out[i] = this.#next() & 0xff
    return out
  }

  below(limit: number): number {
    return Math.floor(this.fraction() * limit)
  }

  fraction(): number {
    return this.#next() / 4294967296
  }
}
