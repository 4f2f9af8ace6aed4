import { test } from 'node:test'
import { GroupModel } from '../../../support/group-model.ts'
import { byLane, playSeeds } from '../../../support/lane.ts'

const ACTIONS = 150

async function play(seed: number): Promise<void> {
  const model = await GroupModel.open(seed)
  for (let action = 0; action < ACTIONS; action++) {
    await model.act()
    await model.check()
  }
  await model.converge()
}

test('random schedules: one generation and one assignment at a time, offsets never go back, every barrier ends', async () => {
  await playSeeds(byLane({ quick: 10, ci: 250, full: 2500 }), play)
})
