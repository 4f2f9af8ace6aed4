import { test } from 'node:test'
import { byLane, playSeeds } from '../support/lane.ts'
import { NativeGroupModel } from '../support/native-group-model.ts'

const ACTIONS = 120

test('a group of native members: each partition has one owner, who reads on where the group is', async () => {
  await playSeeds(byLane({ quick: 3, ci: 40, full: 2000 }), async (seed) => {
    const model = await NativeGroupModel.open(seed)
    for (let action = 0; action < ACTIONS; action++) {
      await model.act()
      await model.check()
    }
    await model.converge()
  })
})
