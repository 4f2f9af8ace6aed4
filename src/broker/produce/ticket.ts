import type { Clock, Timer } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { NO_OFFSET, NO_TIMESTAMP } from '../../core/types.ts'
import type { ProduceOutcome, ProduceTicket } from '../ports.ts'

/** How often overdue requests are looked for. A request is answered at most this late, never early. */
const SWEEP_MS = 100

export function failedOutcome(error: unknown): ProduceOutcome {
  return { error: asMoonMQError(error), baseOffset: NO_OFFSET, logAppendTimeMs: NO_TIMESTAMP, logStartOffset: NO_OFFSET }
}

/** What is told when its deadline has passed. */
interface Overdue {
  /** Monotonic. */
  readonly deadlineMs: number
  expire(): void
}

/** The appends of one request: outcomes are there, what is left is the durability of some of them. */
export class Ticket implements ProduceTicket {
  readonly timeoutMs: number
  readonly #deadlines: Deadlines
  readonly #outcomes: ProduceOutcome[] = []
  /** Whether the outcome at the same place waits for its append to be durable. */
  readonly #waits: boolean[] = []
  #open = 0
  #resolve: ((outcomes: readonly ProduceOutcome[]) => void) | undefined
  /** Set by the first wait, for the append or for its durability. */
  deadlineMs = 0

  constructor(deadlines: Deadlines, timeoutMs: number) {
    this.#deadlines = deadlines
    this.timeoutMs = timeoutMs
  }

  done(outcome: ProduceOutcome): void {
    this.#outcomes.push(outcome)
    this.#waits.push(false)
  }

  /** Returns the place to report to with `landed` or `failed`. */
  pending(outcome: ProduceOutcome): number {
    this.#open++
    this.#waits.push(true)
    return this.#outcomes.push(outcome) - 1
  }

  landed(place: number): void {
    // Answered as overdue already.
    if (this.#waits[place] !== true) return
    this.#waits[place] = false
    if (--this.#open > 0 || this.#resolve === undefined) return
    this.#deadlines.remove(this)
    this.#resolve(this.#outcomes)
  }

  failed(place: number, error: unknown): void {
    if (this.#waits[place] === true) this.#outcomes[place] = failedOutcome(error)
    this.landed(place)
  }

  settled(): readonly ProduceOutcome[] | Promise<readonly ProduceOutcome[]> {
    if (this.#open === 0) return this.#outcomes
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#deadlines.add(this)
    })
  }

  overdue(): MoonMQError {
    return new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs: this.timeoutMs })
  }

  /** Answers what is not durable in time with REQUEST_TIMED_OUT. Its records stay, and become durable later. */
  expire(): void {
    const overdue = failedOutcome(this.overdue())
    for (const [place, waits] of this.#waits.entries()) {
      if (!waits) continue
      this.#waits[place] = false
      this.#outcomes[place] = overdue
    }
    this.#open = 0
    this.#resolve?.(this.#outcomes)
  }
}

/** The deadlines of many short waits with one timer among them: a request that is answered in time costs two set operations. */
export class Deadlines {
  readonly #clock: Clock
  readonly #waits = new Set<Overdue>()
  #timer: Timer | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(ticket: Ticket): void {
    this.#begin(ticket)
    this.#add(ticket)
  }

  remove(ticket: Ticket): void {
    this.#waits.delete(ticket)
  }

  /** Resolves to whether `ready` came before the request was overdue, which counts from its first wait on. Holds nothing of it afterwards. */
  inTime(ready: Promise<void>, ticket: Ticket): Promise<boolean> {
    this.#begin(ticket)
    return new Promise((resolve) => {
      const wait = { deadlineMs: ticket.deadlineMs, expire: () => resolve(false) }
      this.#add(wait)
      // Owned: it never rejects.
      void ready.then(() => {
        this.#waits.delete(wait)
        resolve(true)
      })
    })
  }

  /** The same for what may fail: rejects with what it rejects with. */
  inTimeOrFailed(ready: Promise<void>, ticket: Ticket): Promise<boolean> {
    let failure: { readonly error: unknown } | null = null
    const settled = ready.catch((error: unknown) => {
      failure = { error }
    })
    return this.inTime(settled, ticket).then((inTime) => {
      if (failure !== null) throw failure.error
      return inTime
    })
  }

  #begin(ticket: Ticket): void {
    if (ticket.deadlineMs === 0) ticket.deadlineMs = this.#clock.monotonicMs() + ticket.timeoutMs
  }

  #add(wait: Overdue): void {
    this.#waits.add(wait)
    this.#timer ??= this.#clock.setTimer(SWEEP_MS, this.#sweep)
  }

  readonly #sweep = () => {
    const nowMs = this.#clock.monotonicMs()
    for (const wait of this.#waits) {
      if (wait.deadlineMs > nowMs) continue
      this.#waits.delete(wait)
      wait.expire()
    }
    this.#timer = this.#waits.size === 0 ? undefined : this.#clock.setTimer(SWEEP_MS, this.#sweep)
  }

  /** Answers everybody who still waits. */
  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    for (const wait of this.#waits) wait.expire()
    this.#waits.clear()
  }
}
