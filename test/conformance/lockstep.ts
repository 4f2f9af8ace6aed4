import assert from 'node:assert/strict'

/** What clients do with one broker, a step at a time; two of the same seed on two brokers are compared. */
export interface Actor extends Disposable {
  /** Takes the next step: what was answered, in words that do not depend on ids, times or ports. */
  step(): Promise<string>
  /** Resolves when the broker has done what the steps so far asked for; what it shows of that. */
  shown(): Promise<string>
  /** Requests that are not answered yet, sorted. */
  waiting(): string
  /** What came for such requests since this was asked last, sorted. */
  answered(): string[]
}

/** For requests that both brokers leave waiting: so often the same in a row is taken for an end. */
const QUIET = 2
const ATTEMPTS = 300
const PAUSE_MS = 20
const CONTEXT = 12

/** Plays both step by step; the first difference, with what came before it, or null. */
export async function firstDifference(here: Actor, there: Actor, steps: number): Promise<string | null> {
  const seen: string[] = []
  for (let step = 0; step < steps; step++) {
    const [mine, theirs] = await Promise.all([taken(here), taken(there)])
    const [shownHere, shownThere] = await settle(here, there)
    const [noteHere, noteThere] = [
      [mine, ...here.answered(), shownHere].join('\n      '),
      [theirs, ...there.answered(), shownThere].join('\n      '),
    ]
    if (noteHere !== noteThere || here.waiting() !== there.waiting()) {
      return [
        `before:\n${seen.slice(-CONTEXT).join('\n')}`,
        `MoonMQ ${step}: ${noteHere}\n      waiting: ${here.waiting()}`,
        `Kafka  ${step}: ${noteThere}\n      waiting: ${there.waiting()}`,
      ].join('\n')
    }
    seen.push(`${step}: ${noteHere}`)
  }
  return null
}

/** A connection that is closed is an answer, too. */
async function taken(actor: Actor): Promise<string> {
  try {
    return await actor.step()
  } catch (error) {
    return `failed: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Until both wait for the same and show the same, or long enough that they never will. */
async function settle(here: Actor, there: Actor): Promise<readonly [string, string]> {
  let quiet = 0
  for (let attempt = 1; ; attempt++) {
    const shown = await Promise.all([here.shown(), there.shown()])
    quiet = here.waiting() === there.waiting() && shown[0] === shown[1] ? quiet + 1 : 0
    if (quiet === QUIET || attempt === ATTEMPTS) return shown
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

/** Every seed, and all that differ at the end: one difference must not hide another. */
export async function playAll(seeds: readonly number[], play: (seed: number) => Promise<string | null>): Promise<void> {
  const found: string[] = []
  for (const seed of seeds) {
    const difference = await play(seed)
    if (difference !== null) found.push(`MOONMQ_SEED=${seed}\n${difference}`)
  }
  assert.equal(found.length, 0, `${found.length} of ${seeds.length} sequences differ\n${found.join('\n\n')}`)
}

/** Codes of a coordinator that is not ready for what it was told a moment ago. */
const NOT_YET: ReadonlySet<number> = new Set([14, 15, 16])

/** Asks until the answer is one that lasts. */
export async function lasting<T>(ask: () => Promise<T>, isEarly: (answer: T) => boolean): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const answer = await ask()
    if (!isEarly(answer) || attempt === ATTEMPTS) return answer
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

export function isLoading(code: number): boolean {
  return NOT_YET.has(code)
}
