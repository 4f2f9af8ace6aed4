import type { Clock, Timer } from '../core/clock.ts'
import type { Counter, Metrics } from '../core/counters.ts'
import type { Logger } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'

export interface LoopOptions {
  /** In log lines and in metrics. */
  readonly name: string
  /** Pause between the end of a pass and the next one. Asked each time, so a setting may change while the loop runs. */
  readonly intervalMs: () => number
  /** Before the first pass; the interval unless given. */
  readonly firstMs?: number
  /** One pass. It ends soon after the signal, which says that the broker stops. */
  readonly pass: (signal: AbortSignal) => Promise<void>
}

/** A loop that was started. */
export interface Loop {
  /** Runs a pass as soon as no other one of this loop runs, instead of waiting for its time. */
  soon(): void
}

/**
 * The long-running loops of a broker: each makes passes with pauses between, one pass at a time, until the broker stops. A pass that
 * fails is logged and counted, and the next one comes at its time: nothing that goes wrong in the background ends the loop.
 */
export class Background implements Resource {
  readonly #deps: { readonly clock: Clock; readonly log: Logger; readonly metrics: Metrics }
  readonly #loops = new Set<RunningLoop>()
  readonly #stop = new AbortController()

  constructor(deps: { clock: Clock; log: Logger; metrics: Metrics }) {
    this.#deps = deps
  }

  start(options: LoopOptions): Loop {
    const loop = new RunningLoop(this.#deps, options, this.#stop.signal)
    this.#loops.add(loop)
    return loop
  }

  /** Resolves when no pass runs any more. */
  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.all([...this.#loops].map((loop) => loop.ended()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

class RunningLoop implements Loop {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #failures: Counter
  readonly #options: LoopOptions
  readonly #signal: AbortSignal
  #timer: Timer | null = null
  #running: Promise<void> | null = null
  #isWantedAgain = false

  constructor(deps: { clock: Clock; log: Logger; metrics: Metrics }, options: LoopOptions, signal: AbortSignal) {
    this.#clock = deps.clock
    this.#log = deps.log
    this.#failures = deps.metrics.counter('moonmq_background_failures_total', { loop: options.name })
    this.#options = options
    this.#signal = signal
    this.#wait(options.firstMs ?? options.intervalMs())
  }

  soon(): void {
    if (this.#running !== null) this.#isWantedAgain = true
    else this.#wait(0)
  }

  async ended(): Promise<void> {
    this.#timer?.cancel()
    await this.#running
  }

  #wait(delayMs: number): void {
    this.#timer?.cancel()
    if (this.#signal.aborted) return
    this.#timer = this.#clock.setTimer(delayMs, () => {
      this.#isWantedAgain = false
      this.#running = this.#pass()
    })
  }

  /** Never rejects. */
  async #pass(): Promise<void> {
    try {
      await this.#options.pass(this.#signal)
    } catch (error) {
      this.#report(error)
    }
    this.#running = null
    this.#wait(this.#isWantedAgain ? 0 : this.#options.intervalMs())
  }

  #report(error: unknown): void {
    if (this.#signal.aborted) return
    this.#failures.add()
    const { name } = this.#options
    this.#log.error('background.failed', `${name} failed; it is tried again at its next time`, { loop: name, error })
  }
}
