import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byLane } from '../support/lane.ts'
import { partitionLife } from '../support/partition-lives.ts'
import { simulateSeeds } from '../support/simulation.ts'

/**
 * Recovery as a property. A partition lives through processes that are stopped in order, killed, or lose power at any event, start and
 * stop included; a power cut keeps any subset of what was not synced, drops names, tears a write. After each start everything that
 * was acknowledged is there, once and at its place, and nothing that was cut comes back; after each stop in order the indexes are
 * what a full scan gives.
 */
const COUNT = byLane({ quick: 100, ci: 1_000, full: 40_000 })

test(`${COUNT} histories with power cuts`, async (t) => {
  const sum = { starts: 0, appends: 0, acknowledged: 0, reads: 0, cuts: 0, reopened: 0 }
  const add = (counts: typeof sum) => {
    for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += counts[key]
  }
  const options = { lives: 2, events: 80, hasFaults: false, hasDeletions: false, hasTruncations: false }
  const { runs, events } = await simulateSeeds(1, COUNT, partitionLife(options, add))
  t.diagnostic(`${runs} histories, ${events} events: ${JSON.stringify(sum)}`)
  assert.ok(runs === 1 || (sum.acknowledged > runs && sum.cuts > runs / 2))
})
