import type { Clock, Timer } from './clock.ts'

interface VirtualTimer {
  readonly atMs: number
  readonly order: number
  readonly fire: () => void
}

/**
 * Time that moves only when told to. Timers fire in order of their time, those of one moment in the order they were set.
 * `defer` queues until the driver calls `runDeferred` or moves the time.
 */
export class VirtualClock implements Clock {
  #wallMs: number
  #monotonicMs = 0
  #order = 0
  readonly #timers = new Set<VirtualTimer>()
  readonly #deferred: (() => void)[] = []

  constructor(startMs = 1_700_000_000_000) {
    this.#wallMs = startMs
  }

  nowMs(): number {
    return this.#wallMs
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const timer = { atMs: this.#monotonicMs + Math.max(0, delayMs), order: this.#order++, fire }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  defer(run: () => void): void {
    this.#deferred.push(run)
  }

  /** Makes the wall clock jump without moving monotonic time, as a corrected machine clock does. */
  jumpWallClock(deltaMs: number): void {
    this.#wallMs += deltaMs
  }

  /** Number of timers that wait: a test's way to see that nothing was left behind. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** When the next timer is due in monotonic time, or null. */
  get nextTimerAtMs(): number | null {
    return this.#next()?.atMs ?? null
  }

  /** Runs what was deferred; returns whether there was anything. */
  runDeferred(): boolean {
    const run = this.#deferred.splice(0)
    for (const each of run) each()
    return run.length > 0
  }

  /** Moves to the next timer and fires it. False when none is left. */
  fireNext(): boolean {
    const timer = this.#next()
    if (timer === undefined) return false
    this.#moveTo(timer.atMs)
    this.#timers.delete(timer)
    timer.fire()
    return true
  }

  /** Moves time on, firing due timers in order and letting promises settle in between. */
  async advance(deltaMs: number): Promise<void> {
    const endMs = this.#monotonicMs + deltaMs
    for (;;) {
      await settle(this)
      const timer = this.#next()
      if (timer === undefined || timer.atMs > endMs) break
      this.fireNext()
    }
    this.#moveTo(endMs)
    await settle(this)
  }

  #moveTo(monotonicMs: number): void {
    if (monotonicMs <= this.#monotonicMs) return
    this.#wallMs += monotonicMs - this.#monotonicMs
    this.#monotonicMs = monotonicMs
  }

  #next(): VirtualTimer | undefined {
    let best: VirtualTimer | undefined
    for (const timer of this.#timers) {
      if (best === undefined || timer.atMs < best.atMs || (timer.atMs === best.atMs && timer.order < best.order)) best = timer
    }
    return best
  }
}

/** Lets pending promise reactions run, deferred work included, as far as they go without time moving. */
async function settle(clock: VirtualClock): Promise<void> {
  let quiet = 0
  while (quiet < 20) {
    await Promise.resolve()
    quiet = clock.runDeferred() ? 0 : quiet + 1
  }
}
