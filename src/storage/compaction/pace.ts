import { type Clock, sleep } from '../../core/clock.ts'

export interface PaceOptions {
  /** Bytes read and written together; Infinity = no limit. */
  readonly maxBytesPerSecond: number
  /** Longest time that compaction computes without going back to the event loop. */
  readonly sliceMs: number
}

/** A pause shorter than this is not worth a timer. */
const MIN_PAUSE_MS = 20

/** How fast compaction goes: bytes in a second on the disk, and milliseconds in a turn of the event loop. */
export class Pace {
  readonly #clock: Clock
  readonly #options: PaceOptions
  readonly #signal: AbortSignal
  #turnBeganMs: number
  /** When the bytes so far may have been done. */
  #dueMs: number
  bytes = 0

  constructor(deps: { clock: Clock }, options: PaceOptions, signal: AbortSignal) {
    this.#clock = deps.clock
    this.#options = options
    this.#signal = signal
    this.#turnBeganMs = deps.clock.monotonicMs()
    this.#dueMs = this.#turnBeganMs
  }

  /** The turn was long enough: `rest` is due. */
  get isSliceOver(): boolean {
    return this.#clock.monotonicMs() - this.#turnBeganMs >= this.#options.sliceMs
  }

  /** Lets others run. Throws ABORTED when the broker stops. */
  async rest(): Promise<void> {
    this.#signal.throwIfAborted()
    await new Promise<void>((resolve) => this.#clock.defer(resolve))
    this.#turnBeganMs = this.#clock.monotonicMs()
  }

  /** So many bytes went to or came from the disk: waits when that was too fast. Throws ABORTED when the broker stops. */
  async moved(bytes: number): Promise<void> {
    this.#signal.throwIfAborted()
    this.bytes += bytes
    const now = this.#clock.monotonicMs()
    this.#dueMs = Math.max(this.#dueMs, now - MIN_PAUSE_MS) + (bytes / this.#options.maxBytesPerSecond) * 1000
    if (this.#dueMs - now >= MIN_PAUSE_MS) await sleep(this.#clock, this.#dueMs - now, this.#signal)
    this.#turnBeganMs = this.#clock.monotonicMs()
  }
}
