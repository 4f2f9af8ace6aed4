import assert from 'node:assert/strict'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { Scheduler } from '../../src/core/scheduler.ts'
import { seedOr } from './lane.ts'

/** Lines of the trace that a failure shows. */
const SHOWN = 40
/** More than any run needs: one that does not end has found something that keeps itself busy. */
const MAX_STEPS = 200_000

const machine = new SystemClock()

/** All that the last event set off has run when it resolves. */
function macrotask(): Promise<void> {
  return new Promise((resolve) => machine.defer(resolve))
}

/** One run of one seed: its scheduler and what is checked after each event. */
export class Simulation {
  readonly random: SeededRandom
  readonly scheduler: Scheduler
  /** Checked after each event; throws. */
  invariant: () => void = () => {}
  #failure: { readonly error: unknown } | null = null

  constructor(seed: number) {
    this.random = new SeededRandom(seed)
    // A stream of its own: what a run draws for its inputs does not depend on how often the scheduler drew.
    this.scheduler = new Scheduler({ random: new SeededRandom(seed ^ 0x5eed) })
  }

  get steps(): number {
    return this.scheduler.trace.length
  }

  /** Something that goes on beside the driver. The run fails when it rejects. */
  spawn(work: () => Promise<void>): void {
    work().catch((error: unknown) => this.fail(error))
  }

  fail(error: unknown): void {
    this.#failure ??= { error }
  }

  /** Waits for the driver to come by: the place where others go first. */
  pause(label: string): Promise<void> {
    return this.scheduler.arrive(label)
  }

  /** Ends one event and checks. False when none waits. */
  async step(options: { readonly timers: boolean } = { timers: true }): Promise<boolean> {
    if (!this.scheduler.step(options)) return false
    await macrotask()
    this.#check()
    return true
  }

  /** At most so many events. */
  async run(count: number): Promise<void> {
    await macrotask()
    for (let done = 0; done < count && (await this.step()); done++) this.#expectProgress()
  }

  /** Drives until `work` has settled. */
  async drive<T>(work: Promise<T>, isOver: () => boolean = () => false): Promise<T | undefined> {
    let isSettled = false
    const settle = () => {
      isSettled = true
    }
    work.then(settle, settle)
    for (;;) {
      await macrotask()
      this.#check()
      if (isSettled) break
      if (isOver()) return undefined
      this.#expectProgress()
      assert.ok(this.scheduler.step(), 'nothing waits any more and the work has not ended')
    }
    return work
  }

  /** Drives until nothing waits but timers. */
  async settle(): Promise<void> {
    await macrotask()
    while (await this.step({ timers: false })) this.#expectProgress()
  }

  #expectProgress(): void {
    assert.ok(this.steps < MAX_STEPS, `no end after ${MAX_STEPS} events`)
  }

  #check(): void {
    if (this.#failure !== null) throw this.#failure.error
    this.invariant()
  }
}

type Body = (simulation: Simulation) => Promise<void>

/** Runs one seed. A failure says which one, how to run it alone, and what happened last. Returns the trace. */
export async function simulate(seed: number, body: Body): Promise<readonly string[]> {
  const simulation = new Simulation(seed)
  try {
    await body(simulation)
  } catch (error) {
    const { trace } = simulation.scheduler
    const last = trace.slice(-SHOWN).map((line, index) => `${Math.max(0, trace.length - SHOWN) + index + 1}. ${line}`)
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error)
    throw new Error(`seed ${seed} failed; MOONMQ_SEED=${seed} runs it alone.\n${reason}\nlast events:\n${last.join('\n')}`, {
      cause: error,
    })
  }
  return simulation.scheduler.trace
}

/** Runs `count` seeds from `first` on, or the one of MOONMQ_SEED. Returns how many events there were. */
export async function simulateSeeds(first: number, count: number, body: Body): Promise<{ readonly runs: number; readonly events: number }> {
  const from = seedOr(first)
  const runs = from === seedOr(first + 1) ? 1 : count
  let events = 0
  for (let seed = from; seed < from + runs; seed++) events += (await simulate(seed, body)).length
  return { runs, events }
}

/** The same seed twice gives the same events in the same order. */
export async function expectSameTrace(seed: number, body: Body): Promise<void> {
  const first = await simulate(seed, body)
  const second = await simulate(seed, body)
  for (const [index, line] of first.entries()) assert.equal(second[index], line, `seed ${seed}: event ${index + 1} differs`)
  assert.equal(second.length, first.length, `seed ${seed}: one run went on`)
}
