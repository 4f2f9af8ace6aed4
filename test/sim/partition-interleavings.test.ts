import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byLane, seedOr } from '../support/lane.ts'
import type { WorldOptions } from '../support/partition-actors.ts'
import { partitionLife } from '../support/partition-lives.ts'
import { expectSameTrace, type Simulation, simulate, simulateSeeds } from '../support/simulation.ts'

/**
 * Appends, reads, rolls, upkeep, truncation, deletion and shutdown of one partition meet at every await that ends in the disk, the clock
 * or the loader: a seed says which of what waits ends next, one event per macrotask, and after each the offsets, the high watermark,
 * the last stable offset and all that was acknowledged are compared with a model.
 */
const COUNT = byLane({ quick: 12, ci: 200, full: 10_000 })
const BUSY: WorldOptions = { lives: 2, events: 400, hasFaults: false, hasDeletions: true, hasTruncations: true }

for (const [name, first, options] of [
  ['of one partition', 50_000, BUSY],
  ['with a disk that fails', 70_000, { ...BUSY, hasFaults: true }],
] as const) {
  test(`${COUNT} interleavings ${name}`, async (t) => {
    const sum = { starts: 0, appends: 0, acknowledged: 0, reads: 0, cuts: 0, reopened: 0 }
    const life = partitionLife(options, (counts) => {
      for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += counts[key]
    })
    const { runs, events } = await simulateSeeds(first, COUNT, life)
    t.diagnostic(`${runs} runs, ${events} events: ${JSON.stringify(sum)}`)
    assert.ok(sum.appends > runs && (sum.reads > runs || runs === 1))
    assert.ok(!options.hasFaults || sum.reopened > 0 || runs === 1)
  })
}

test('the same seed gives the same events in the same order', async () => {
  for (let seed = seedOr(60_000), last = seed + 5; seed < last; seed++) await expectSameTrace(seed, partitionLife(BUSY))
})

test('another seed gives another order', async () => {
  const traces = [await simulate(1, partitionLife(BUSY)), await simulate(2, partitionLife(BUSY))]
  assert.notDeepEqual(traces[0], traces[1])
})

/** Two tellers of one account who look before they add: wrong in some orders only. */
async function race(sim: Simulation): Promise<void> {
  let balance = 0
  const deposit = async () => {
    const before = balance
    await sim.pause('teller')
    balance = before + 1
  }
  const both = Promise.all([1, 2].map((teller) => sim.pause(`door ${teller}`).then(deposit)))
  await sim.drive(both)
  assert.equal(balance, 2)
}

test('planted: a race is found, and its seed finds it again', async () => {
  const failed: number[] = []
  for (let seed = 0; seed < 20; seed++) await simulate(seed, race).catch(() => failed.push(seed))
  assert.ok(failed.length > 0 && failed.length < 20, `${failed.length} of 20 orders showed it`)
  const [seed] = failed
  await assert.rejects(simulate(seed as number, race), new RegExp(`MOONMQ_SEED=${seed} runs it alone`))
})

test('planted: work that waits for nothing is an error, not a test that hangs', async () => {
  await assert.rejects(
    simulate(1, (sim) => sim.drive(new Promise<void>(() => {}))),
    /nothing waits any more/,
  )
})

test('planted: an invariant that breaks is seen at the event that broke it', async () => {
  const broken = simulate(1, async (sim) => {
    let offset = 0
    sim.invariant = () => assert.ok(offset < 3, 'the offset is too far')
    await sim.drive(
      (async () => {
        for (; offset < 10; offset++) await sim.pause(`step ${offset}`)
      })(),
    )
  })
  await assert.rejects(broken, (error: Error) => /too far/.test(error.message) && /3\. step 2\s*$/.test(error.message))
})
