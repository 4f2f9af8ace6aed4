/** What may break a rule, each with its reason. An entry that is not needed any more fails the test that reads it. */

/** Files above the limit of lines. */
export const LONG_FILES: ReadonlyMap<string, string> = new Map([])

/** Functions above the limit of lines, as `path name`. */
export const LONG_FUNCTIONS: ReadonlyMap<string, string> = new Map([])

/** Files of `src/` that nothing that ships imports. */
export const UNSHIPPED_FILES: ReadonlyMap<string, string> = new Map([
  ['src/core/scheduler.ts', 'the seeded clock and completions of simulations'],
  ['src/core/virtual-clock.ts', 'the virtual version of an interface: tests and simulations pass it in'],
  ['src/schema/headers.ts', 'headers as messages of the table, which the tests compare the hand-written reader of the door with'],
])
