import type { Clock } from '../core/clock.ts'
import type { CliContext } from './context.ts'
import { bytesText } from './output.ts'

/** Between two lines: often enough to be believed, seldom enough for a log of a build. */
const TERMINAL_EVERY_MS = 200
const PLAIN_EVERY_MS = 5000

/**
 * Tells on stderr how far a long command is. On a terminal one line is written over; elsewhere, and only when it was asked for by name,
 * a line every few seconds. Standard output stays what the command was called for.
 */
export class ProgressLine {
  readonly #context: CliContext
  readonly #clock: Clock
  readonly #isShown: boolean
  #lastMs = Number.NEGATIVE_INFINITY
  #isOpen = false

  constructor(context: CliContext, clock: Clock, isAskedFor: boolean) {
    this.#context = context
    this.#clock = clock
    this.#isShown = context.errIsTerminal || isAskedFor
  }

  show(what: string, bytesDone: number, bytesTotal: number): void {
    if (!this.#isShown) return
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#lastMs < (this.#context.errIsTerminal ? TERMINAL_EVERY_MS : PLAIN_EVERY_MS)) return
    this.#lastMs = nowMs
    const percent = bytesTotal === 0 ? 100 : Math.floor((bytesDone / bytesTotal) * 100)
    const text = `${percent} % of ${bytesText(bytesTotal)}  ${what}`
    this.#isOpen = this.#context.errIsTerminal
    this.#context.err(this.#isOpen ? `\r\u001b[K${text}` : `${text}\n`)
  }

  /** Takes the line away, so that what follows stands alone. */
  end(): void {
    if (this.#isOpen) this.#context.err('\r\u001b[K')
    this.#isOpen = false
  }
}
