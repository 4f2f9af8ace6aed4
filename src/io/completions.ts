import type { Clock } from '../core/clock.ts'

/**
 * Says when an asynchronous operation of a virtual device ends. A simulation gives one that holds every operation back and lets
 * them end one by one in seeded order; `label` (`datasync /data/orders-0/…log`) is what its trace shows.
 */
export interface Completions {
  arrive(label: string): Promise<void>
}

/** Ends everything at once, in a microtask. */
export const AT_ONCE: Completions = { arrive: () => Promise.resolve() }

/** Ends each operation in a macrotask of its own, so that two sides which keep each other busy leave timers and sockets their turn. */
export function deferring(clock: Clock): Completions {
  return { arrive: () => new Promise((resolve) => clock.defer(resolve)) }
}
