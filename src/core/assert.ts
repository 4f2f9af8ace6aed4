/** Throws when a fact that the code relies on does not hold. For programming errors only, never for input. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${what}`)
}

/** The value, or an error that names what was missing. Stands where an index access cannot fail. */
export function defined<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new Error(`invariant broken: ${what} is missing`)
  return value
}
