/** How much work a test may do: set by the runner, `quick` when a test file is run by hand. */
export type LaneSize = 'quick' | 'ci' | 'full' | 'soak'

const SIZES: readonly string[] = ['quick', 'ci', 'full', 'soak']

export function laneSize(): LaneSize {
  const value = process.env.MOONMQ_TEST_LANE ?? 'quick'
  if (!SIZES.includes(value)) throw new Error(`MOONMQ_TEST_LANE=${value} is none of ${SIZES.join(', ')}`)
  return value as LaneSize
}

/** A number by lane: runs, seconds, records. `soak` takes that of `full`. */
export function byLane(sizes: { readonly quick: number; readonly ci: number; readonly full: number }): number {
  const size = laneSize()
  return sizes[size === 'soak' ? 'full' : size]
}

/** The seed of a random test: `MOONMQ_SEED` to replay one, else the one given. Print it in the failure. */
export function seedOr(chosen: number): number {
  const value = process.env.MOONMQ_SEED
  if (value === undefined || value === '') return chosen
  const seed = Number(value)
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`MOONMQ_SEED=${value} is not a whole number from 0 up`)
  return seed
}

/** Plays so many seeds from 1 on, or the one of `MOONMQ_SEED` alone. A failure names the seed that replays it. */
export async function playSeeds(runs: number, play: (seed: number) => Promise<void>): Promise<void> {
  const first = seedOr(1)
  const last = process.env.MOONMQ_SEED ? first : first + runs - 1
  for (let seed = first; seed <= last; seed++) {
    try {
      await play(seed)
    } catch (error) {
      // With its stack where it says more: what broke inside of the broker has no message of its own.
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      throw new Error(`MOONMQ_SEED=${seed} replays: ${text}`, { cause: error })
    }
  }
}

/** How long one fuzz target runs: `MOONMQ_TEST_FUZZ_MS`, else what its share of the lane's time is. */
export function fuzzBudgetMs(share = 1): number {
  const value = process.env.MOONMQ_TEST_FUZZ_MS
  if (value === undefined || value === '') return byLane({ quick: 1_000, ci: 12_000, full: 300_000 }) * share
  const budgetMs = Number(value)
  if (!Number.isFinite(budgetMs) || budgetMs < 0) throw new Error(`MOONMQ_TEST_FUZZ_MS=${value} is no number of milliseconds`)
  return budgetMs
}
