import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { fuzzBudgetMs, seedOr } from './lane.ts'

/** Something that must take any input: with a value, or with an error that it is meant to give. */
export interface FuzzTarget<T> {
  readonly name: string
  readonly make: (random: SeededRandom) => T
  /** Throws for what must not happen too: a value that cannot be true, memory beyond a bound. */
  readonly run: (input: T) => unknown
  /** Errors that are an answer. Any error of ours but INTERNAL unless given. */
  readonly isExpected?: (error: unknown) => boolean
  readonly show: (input: T) => string
  /** Of the time that a target of its own would have. */
  readonly share?: number
}

/** Below this many rounds a slow machine has tried nothing. */
const LEAST_ROUNDS = 200
const FIRST_SEED = 20_261_129

export interface FuzzResult {
  readonly rounds: number
  /** How many inputs were taken all the same. */
  readonly accepted: number
}

/**
 * Gives a target one input after another until its time is over. Each round has a seed of its own, which a failure names:
 * MOONMQ_SEED begins with it.
 */
export async function fuzz<T>(target: FuzzTarget<T>, budgetMs = fuzzBudgetMs(target.share)): Promise<FuzzResult> {
  const { make, run, show, isExpected = isOurs } = target
  const endMs = performance.now() + budgetMs
  const first = seedOr(FIRST_SEED)
  let accepted = 0
  let rounds = 0
  for (; rounds < LEAST_ROUNDS || performance.now() < endMs; rounds++) {
    const input = make(new SeededRandom(first + rounds))
    try {
      await run(input)
      accepted++
    } catch (error) {
      if (isExpected(error)) continue
      const reason = error instanceof Error ? (error.stack ?? error.message) : String(error)
      const seed = first + rounds
      throw new Error(`${target.name}: seed ${seed}, MOONMQ_SEED=${seed} begins with it.\n${reason}\ninput: ${show(input)}`, {
        cause: error,
      })
    }
  }
  return { rounds, accepted }
}

function isOurs(error: unknown): boolean {
  return error instanceof MoonMQError && error.code !== 'INTERNAL'
}

const EDGES = [0, 1, -1, 127, 255, 32_767, 2 ** 31 - 1, -(2 ** 31)]

/** A copy of `seed` changed in a few places: bits, numbers at their edges, cuts, insertions, repeats, runs of zeros or ones. */
export function mutateBytes(random: SeededRandom, seed: Buffer): Buffer {
  let bytes = Buffer.from(seed)
  for (let times = 1 + random.below(4); times > 0; times--) {
    const at = random.below(bytes.length + 1)
    const kind = random.below(6)
    if (kind === 0 && at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
    else if (kind === 1 && at + 4 <= bytes.length) bytes.writeInt32BE(EDGES[random.below(EDGES.length)] ?? 0, at)
    else if (kind === 2) bytes = bytes.subarray(0, at)
    else if (kind === 3) bytes = Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(20)), bytes.subarray(at)])
    else if (kind === 4) bytes = Buffer.concat([bytes, bytes.subarray(at)])
    else if (at + 8 <= bytes.length) bytes.fill(random.below(2) * 255, at, at + 8)
  }
  return Buffer.from(bytes)
}

export function pick<T>(random: SeededRandom, from: readonly T[]): T {
  return from[random.below(from.length)] as T
}
