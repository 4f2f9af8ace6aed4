import { clearTimeout as clearTimer, setImmediate as setMacrotask, setTimeout as startTimer } from 'node:timers'
import { MoonMQError } from './errors.ts'

/** A timer that was started; `cancel()` after it fired does nothing. */
export interface Timer {
  cancel(): void
}

/** The only source of time (DESIGN D6). Wall time is for stamps that people read; waits and leases use monotonic time. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump. */
  nowMs(): number
  /** Milliseconds since some start, with fractions. Never goes back. */
  monotonicMs(): number
  /** Calls `fire` once after `delayMs`, never before. The timer does not keep the process alive unless `keepAlive` is set. */
  setTimer(delayMs: number, fire: () => void, options?: { keepAlive?: boolean }): Timer
  /** Calls `run` in a macrotask of its own, after what is pending now. */
  defer(run: () => void): void
}

const MAX_DELAY_MS = 2 ** 31 - 1

/** The clock of the machine. */
export class SystemClock implements Clock {
  nowMs(): number {
    return Date.now()
  }

  monotonicMs(): number {
    return performance.now()
  }

  setTimer(delayMs: number, fire: () => void, options?: { keepAlive?: boolean }): Timer {
    const dueMs = this.monotonicMs() + delayMs
    // Node counts whole milliseconds from when its loop last looked at the time: on a busy process that is some of them too early.
    const due = () => {
      const leftMs = dueMs - this.monotonicMs()
      if (leftMs > 0) timer = start(leftMs)
      else fire()
    }
    const start = (leftMs: number) => {
      const started = startTimer(due, Math.min(Math.max(0, leftMs), MAX_DELAY_MS))
      if (!options?.keepAlive) started.unref()
      return started
    }
    let timer = start(delayMs)
    return { cancel: () => clearTimer(timer) }
  }

  defer(run: () => void): void {
    setMacrotask(run)
  }
}

/** Waits `delayMs`, or rejects with ABORTED when the signal fires first. Keeps the process alive while it waits. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(new MoonMQError('ABORTED'))
      return
    }
    const onAbort = () => {
      timer.cancel()
      reject(new MoonMQError('ABORTED'))
    }
    const timer = clock.setTimer(
      delayMs,
      () => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      },
      { keepAlive: true },
    )
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** The result of `work`, or REQUEST_TIMED_OUT after `timeoutMs`. The work itself goes on; its late rejection is owned here. */
export function withDeadline<T>(clock: Clock, timeoutMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () => reject(new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs })), { keepAlive: true })
    work.then(
      (value) => {
        timer.cancel()
        resolve(value)
      },
      (error: unknown) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}
