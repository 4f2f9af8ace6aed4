import type { Clock } from '../core/clock.ts'

/** Has bytes that the journal gets before their file. */
export interface LateWriter {
  /** Writes them now. Throws when that fails, and has told whom it concerns. */
  writeLate(): void
}

/** All that may be late at once, of all logs: it is in memory until it is written. */
const MAX_BYTES = 16 * 1024 * 1024
/** Files written in one turn of the event loop: some 300 µs, which an answer waits at most. */
const FILES_IN_A_TURN = 16

/**
 * The writes into files that come after the journal's, of all logs: they run a few at a time, beside the journal's sync and behind the
 * answers that it brings, oldest first. Owns nothing but the order; each writer keeps its bytes.
 */
export class LateWrites {
  readonly #clock: Clock
  readonly #bytes = new Map<LateWriter, number>()
  #total = 0
  #isDue = false

  constructor(deps: { clock: Clock }) {
    this.#clock = deps.clock
  }

  get hasRoom(): boolean {
    return this.#total < MAX_BYTES
  }

  add(writer: LateWriter, bytes: number): void {
    this.#bytes.set(writer, (this.#bytes.get(writer) ?? 0) + bytes)
    this.#total += bytes
  }

  /** The writer has written all, or has stopped. */
  remove(writer: LateWriter): void {
    const bytes = this.#bytes.get(writer)
    if (bytes === undefined) return
    this.#bytes.delete(writer)
    this.#total -= bytes
  }

  start(): void {
    if (this.#isDue || this.#bytes.size === 0) return
    this.#isDue = true
    this.#clock.defer(this.#writeSome)
  }

  readonly #writeSome = (): void => {
    this.#isDue = false
    let left = FILES_IN_A_TURN
    for (const writer of this.#bytes.keys()) {
      if (left-- === 0) break
      try {
        writer.writeLate()
      } catch {
        // Its log failed and said so.
      }
    }
    this.start()
  }
}
