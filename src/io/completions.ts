/**
 * Says when an asynchronous operation of a virtual device ends. A simulation gives one that holds every operation back and lets
 * them end one by one in seeded order; `label` (`datasync /data/orders-0/…log`) is what its trace shows.
 */
export interface Completions {
  arrive(label: string): Promise<void>
}

/** Ends everything at once, in a microtask. */
export const AT_ONCE: Completions = { arrive: () => Promise.resolve() }
