import type { Clock } from './clock.ts'
import { MoonMQError } from './errors.ts'

/** How long work over many items goes on before others get their turn. */
const TURN_MS = 10
/** Items that are begun together when nothing else is said. */
const WIDTH = 64

/** Tells work that is done piece by piece when others should get their turn. */
export class Turn {
  readonly #clock: Clock
  #begunMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#begunMs = clock.monotonicMs()
  }

  get isOver(): boolean {
    return this.#clock.monotonicMs() - this.#begunMs >= TURN_MS
  }

  /** Everybody else first; then the next turn begins. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => this.#clock.defer(resolve))
    this.#begunMs = this.#clock.monotonicMs()
  }
}

/**
 * Calls `each` for every item, `width` of them at a time, and gives way to other work whenever a turn is over: one request may name a
 * hundred thousand things, and nobody else should wait for all of them. Results are in the order of the items. Rejects with the first
 * failure; items after it are not begun.
 */
export async function inTurns<T, R>(
  clock: Clock,
  items: readonly T[],
  each: (item: T, index: number) => R | Promise<R>,
  width: number = WIDTH,
): Promise<R[]> {
  const results: R[] = []
  let begunMs = clock.monotonicMs()
  for (let from = 0; from < items.length; from += width) {
    const part = items.slice(from, from + width).map((item, index) => each(item, from + index))
    for (const result of await Promise.all(part)) results.push(result)
    if (from + width >= items.length || clock.monotonicMs() - begunMs < TURN_MS) continue
    await new Promise<void>((resolve) => clock.defer(resolve))
    begunMs = clock.monotonicMs()
  }
  return results
}

/** Runs work that pauses by itself, and gives way to other work at every pause. Rejects with what it throws, and with ABORTED once `isGone` says so. */
export async function inSteps<T>(clock: Clock, work: Generator<undefined, T, undefined>, isGone: () => boolean = () => false): Promise<T> {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    await new Promise<void>((resolve) => clock.defer(resolve))
    if (isGone()) throw new MoonMQError('ABORTED')
  }
}
