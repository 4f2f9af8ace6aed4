import type { Clock, Timer } from './clock.ts'
import type { Random } from './random.ts'

interface Event {
  readonly label: string
  readonly run: () => void
}

interface ScheduledTimer extends Event {
  readonly atMs: number
  readonly order: number
}

export interface SchedulerOptions {
  readonly startMs?: number
  /** While other events wait, one pick in so many lets time move to the next timer instead. */
  readonly timerOdds?: number
}

/**
 * One queue for everything that ends later than the current turn (DESIGN D6): it is the clock of a simulation, and the completions of
 * its disk, network, offload and loader. A driver takes one event after another in an order drawn from the seed, each in a macrotask of
 * its own, so that everything the event set off has run before the next one ends. The same seed gives the same order.
 *
 * Time stands still but for timers: when one is taken, time moves to it. Timers keep their order among themselves; everything else ends in
 * any order, as disks and networks do.
 */
export class Scheduler implements Clock {
  readonly #random: Random
  readonly #timerOdds: number
  #events: Event[] = []
  #timers: ScheduledTimer[] = []
  #wallMs: number
  #monotonicMs = 0
  #order = 0
  /** What ended, in order. */
  readonly trace: string[] = []

  constructor(deps: { random: Random }, options: SchedulerOptions = {}) {
    this.#random = deps.random
    this.#wallMs = options.startMs ?? 1_700_000_000_000
    this.#timerOdds = options.timerOdds ?? 16
  }

  nowMs(): number {
    return this.#wallMs
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const atMs = this.#monotonicMs + Math.max(0, delayMs)
    const timer = { label: 'timer', run: fire, atMs, order: this.#order++ }
    this.#timers.push(timer)
    return {
      cancel: () => {
        const at = this.#timers.indexOf(timer)
        if (at >= 0) this.#timers.splice(at, 1)
      },
    }
  }

  defer(run: () => void): void {
    this.#events.push({ label: 'deferred', run })
  }

  /** Resolves when the driver takes this event. `label` is what the trace shows. */
  arrive(label: string): Promise<void> {
    return new Promise((resolve) => this.#events.push({ label, run: resolve }))
  }

  /** What waits and is no timer. */
  get waiting(): readonly string[] {
    return this.#events.map((event) => event.label)
  }

  /** Takes one event. Without `timers`, time stands still. False when there is nothing to take. */
  step(options: { readonly timers: boolean } = { timers: true }): boolean {
    const timer = options.timers ? this.#nextTimer() : undefined
    const takesTimer = timer !== undefined && (this.#events.length === 0 || this.#random.below(this.#timerOdds) === 0)
    if (takesTimer) {
      this.#timers.splice(this.#timers.indexOf(timer), 1)
      this.#wallMs += timer.atMs - this.#monotonicMs
      this.#monotonicMs = timer.atMs
      this.#take(timer, ` at ${timer.atMs}`)
      return true
    }
    const [event] = this.#events.splice(this.#random.below(this.#events.length), 1)
    if (event === undefined) return false
    this.#take(event, '')
    return true
  }

  /** Drops everything that waits, as when the process that waits for it dies. Nothing of it ever ends; time stays. */
  forget(): void {
    this.#events = []
    this.#timers = []
  }

  #take(event: Event, note: string): void {
    this.trace.push(event.label + note)
    event.run()
  }

  #nextTimer(): ScheduledTimer | undefined {
    let next: ScheduledTimer | undefined
    for (const timer of this.#timers) {
      if (next === undefined || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order)) next = timer
    }
    return next
  }
}
