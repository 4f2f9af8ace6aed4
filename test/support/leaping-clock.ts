import { type Clock, SystemClock, type Timer } from '../../src/core/clock.ts'

interface LeapingTimer {
  readonly atMs: number
  readonly fire: () => void
  timer: Timer
}

/** The machine's clock, which a test may put forward: what would have come meanwhile comes at once. */
export class LeapingClock implements Clock {
  readonly #system = new SystemClock()
  readonly #timers = new Set<LeapingTimer>()
  #leaptMs = 0

  nowMs(): number {
    return this.#system.nowMs() + this.#leaptMs
  }

  monotonicMs(): number {
    return this.#system.monotonicMs() + this.#leaptMs
  }

  setTimer(delayMs: number, fire: () => void, options?: { keepAlive?: boolean }): Timer {
    const atMs = this.monotonicMs() + Math.max(0, delayMs)
    const run = () => {
      if (this.#timers.delete(entry)) fire()
    }
    const entry: LeapingTimer = { atMs, fire: run, timer: this.#system.setTimer(delayMs, run, options) }
    this.#timers.add(entry)
    return {
      cancel: () => {
        this.#timers.delete(entry)
        entry.timer.cancel()
      },
    }
  }

  defer(run: () => void): void {
    this.#system.defer(run)
  }

  leap(deltaMs: number): void {
    this.#leaptMs += deltaMs
    const nowMs = this.monotonicMs()
    for (const entry of [...this.#timers].sort((a, b) => a.atMs - b.atMs)) {
      if (!this.#timers.has(entry)) continue
      entry.timer.cancel()
      if (entry.atMs <= nowMs) entry.fire()
      else entry.timer = this.#system.setTimer(entry.atMs - nowMs, entry.fire)
    }
  }
}
