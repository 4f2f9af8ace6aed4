import type { Clock, Timer } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { NO_OFFSET, NO_TIMESTAMP } from '../../core/types.ts'
import type { ProduceOutcome, ProduceTicket } from '../ports.ts'

/** How often overdue requests are looked for. A request is answered at most this late, never early. */
const SWEEP_MS = 100

export function failedOutcome(error: unknown): ProduceOutcome {
  return { error: asMoonMQError(error), baseOffset: NO_OFFSET, logAppendTimeMs: NO_TIMESTAMP, logStartOffset: NO_OFFSET }
}

/** One append of a request that is not durable yet. */
interface Waiting {
  readonly index: number
  readonly durable: Promise<void>
}

/** The appends of one request: outcomes are there, what is left is their durability. */
export class Ticket implements ProduceTicket {
  readonly #deadlines: Deadlines
  readonly #timeoutMs: number
  readonly #outcomes: ProduceOutcome[] = []
  readonly #waiting: Waiting[] = []

  constructor(deadlines: Deadlines, timeoutMs: number) {
    this.#deadlines = deadlines
    this.#timeoutMs = timeoutMs
  }

  done(outcome: ProduceOutcome): void {
    this.#outcomes.push(outcome)
  }

  doneWhen(durable: Promise<void>, outcome: ProduceOutcome): void {
    this.#waiting.push({ index: this.#outcomes.length, durable })
    this.#outcomes.push(outcome)
  }

  settled(): readonly ProduceOutcome[] | Promise<readonly ProduceOutcome[]> {
    if (this.#waiting.length === 0) return this.#outcomes
    return new Promise((resolve) => {
      const pending = new Set(this.#waiting)
      const overdue = this.#deadlines.add(this.#timeoutMs, () => {
        for (const each of pending) {
          this.#outcomes[each.index] = failedOutcome(new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs: this.#timeoutMs }))
        }
        pending.clear()
        resolve(this.#outcomes)
      })
      const settle = (each: Waiting) => {
        if (!pending.delete(each) || pending.size > 0) return
        overdue.cancel()
        resolve(this.#outcomes)
      }
      for (const each of this.#waiting) {
        each.durable.then(
          () => settle(each),
          (error: unknown) => {
            if (pending.has(each)) this.#outcomes[each.index] = failedOutcome(error)
            settle(each)
          },
        )
      }
    })
  }
}

interface Deadline {
  readonly atMs: number
  readonly fire: () => void
}

/** Deadlines of many short waits with one timer among them: a request that is answered in time costs two set operations. */
export class Deadlines {
  readonly #clock: Clock
  readonly #all = new Set<Deadline>()
  #timer: Timer | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(delayMs: number, fire: () => void): { cancel(): void } {
    const deadline = { atMs: this.#clock.monotonicMs() + delayMs, fire }
    this.#all.add(deadline)
    this.#timer ??= this.#clock.setTimer(SWEEP_MS, this.#sweep)
    return { cancel: () => this.#all.delete(deadline) }
  }

  readonly #sweep = () => {
    const nowMs = this.#clock.monotonicMs()
    for (const deadline of this.#all) {
      if (deadline.atMs > nowMs) continue
      this.#all.delete(deadline)
      deadline.fire()
    }
    this.#timer = this.#all.size === 0 ? undefined : this.#clock.setTimer(SWEEP_MS, this.#sweep)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#all.clear()
  }
}
