import { test } from 'node:test'
import { byLane, playSeeds } from '../support/lane.ts'
import { MixedGroups } from '../support/mixed-groups.ts'

const ACTIONS = 160

async function play(seed: number): Promise<void> {
  const group = await MixedGroups.open(seed)
  for (let action = 0; action < ACTIONS; action++) {
    await group.act()
    await group.check()
  }
  await group.converge()
}

test('a group of both protocols: no partition has two owners, no commit is lost, and it always comes to rest', async () => {
  await playSeeds(byLane({ quick: 10, ci: 150, full: 5000 }), play)
})
