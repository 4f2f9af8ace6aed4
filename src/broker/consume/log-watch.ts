import type { Clock, Timer } from '../../core/clock.ts'
import type { Log } from '../../storage/types.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'

/** Tells one reader when its logs have more, or what it reads has changed. Owns its watchers of logs and one timer until it is stopped. */
export class LogWatch {
  readonly #partitions: Partitions
  readonly #clock: Clock
  readonly #logs = new Map<Log, () => void>()
  #wake: (() => void) | null = null
  #timer: Timer | null = null
  #timerAtMs = Number.POSITIVE_INFINITY

  constructor(deps: { readonly partitions: Partitions; readonly clock: Clock }) {
    this.#partitions = deps.partitions
    this.#clock = deps.clock
  }

  /** Nothing is watched before it; returns how to stop. */
  start(wake: () => void): () => void {
    this.#wake = wake
    const stop = this.#partitions.onChanged(() => this.wake())
    return () => {
      stop()
      this.#wake = null
      this.follow([])
      this.#timer?.cancel()
      this.#timer = null
      this.#timerAtMs = Number.POSITIVE_INFINITY
    }
  }

  wake(): void {
    this.#wake?.()
  }

  /** From now on these partitions are watched and no others. */
  follow(partitions: readonly ServedPartition[]): void {
    if (this.#wake === null && this.#logs.size === 0) return
    const wanted = new Set<Log>()
    if (this.#wake !== null) for (const { log } of partitions) if (log !== undefined) wanted.add(log)
    for (const [log, stop] of this.#logs) {
      if (wanted.has(log)) continue
      stop()
      this.#logs.delete(log)
    }
    for (const log of wanted)
      if (!this.#logs.has(log))
        this.#logs.set(
          log,
          log.watch(() => this.wake()),
        )
  }

  /** Wakes at this wall time too; the earliest of several counts. */
  at(nowOrLaterMs: number): void {
    if (this.#wake === null || nowOrLaterMs >= this.#timerAtMs) return
    this.#timer?.cancel()
    this.#timerAtMs = nowOrLaterMs
    this.#timer = this.#clock.setTimer(Math.max(1, Math.ceil(nowOrLaterMs - this.#clock.nowMs())), () => {
      this.#timer = null
      this.#timerAtMs = Number.POSITIVE_INFINITY
      this.wake()
    })
  }
}
