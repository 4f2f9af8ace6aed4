import { MoonMQError } from '../core/errors.ts'
import { SeededRandom } from '../core/random.ts'

/** How often each fault happens, from 0 to 1. */
export interface ChaosRates {
  /** The record is not sent. */
  readonly drop: number
  /** It waits before it is sent. */
  readonly delay: number
  /** It is sent a second time once it is acknowledged. */
  readonly duplicate: number
  /** It is sent behind the next one. */
  readonly reorder: number
  /** One bit of its value is another. */
  readonly corrupt: number
  /** The connection breaks after the broker has stored it and before the acknowledgement arrives. */
  readonly disconnect: number
}

export const FAULTS = ['drop', 'delay', 'duplicate', 'reorder', 'corrupt', 'disconnect'] as const
export type Fault = (typeof FAULTS)[number]

export interface ChaosOptions {
  readonly seed: number
  readonly rates: Partial<ChaosRates>
  /** Longest delay. Default 50. */
  readonly maxDelayMs?: number
}

/** What happens to one record. */
export interface Decision {
  readonly faults: ReadonlySet<Fault>
  readonly delayMs: number
  /** Which bit is turned, as a fraction of all bits of the value. */
  readonly bit: number
}

const DEFAULT_MAX_DELAY_MS = 50
const NO_CHAOS: ChaosRates = { drop: 0, delay: 0, duplicate: 0, reorder: 0, corrupt: 0, disconnect: 0 }

/**
 * Decides for one record after another. The same seed decides the same, and the rate of one fault changes nothing about the others:
 * as many numbers are drawn for every record.
 */
export class ChaosPlan {
  readonly #random: SeededRandom
  readonly #rates: ChaosRates
  readonly #maxDelayMs: number

  /** Throws INVALID_REQUEST for a rate that is none. */
  constructor({ seed, rates, maxDelayMs = DEFAULT_MAX_DELAY_MS }: ChaosOptions) {
    this.#random = new SeededRandom(seed)
    this.#rates = { ...NO_CHAOS, ...rates }
    this.#maxDelayMs = maxDelayMs
    for (const fault of FAULTS) {
      const rate = this.#rates[fault]
      if (!(rate >= 0 && rate <= 1))
        throw new MoonMQError('INVALID_REQUEST', { reason: `the rate of ${fault} is ${rate}, not from 0 to 1` })
    }
  }

  next(): Decision {
    const drawn = FAULTS.filter((fault) => this.#random.fraction() < this.#rates[fault])
    const delayMs = Math.ceil(this.#random.fraction() * this.#maxDelayMs)
    const bit = this.#random.fraction()
    // What is not sent has no other fate.
    const faults = new Set<Fault>(drawn.includes('drop') ? ['drop'] : drawn)
    return { faults, delayMs: faults.has('delay') ? delayMs : 0, bit }
  }
}
