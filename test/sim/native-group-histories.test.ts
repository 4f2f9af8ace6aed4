import { test } from 'node:test'
import { byLane, playSeeds } from '../support/lane.ts'
import { NativeGroupModel } from '../support/native-group-model.ts'
import { StreamModel } from '../support/stream-model.ts'

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

test('a stream: the group is before the first that is not answered for, what failed comes again, each dead record has one letter', async () => {
  await playSeeds(byLane({ quick: 2, ci: 20, full: 1000 }), async (seed) => {
    const model = await StreamModel.open(seed)
    for (let action = 0; action < ACTIONS; action++) {
      await model.act()
      await model.check()
    }
    await model.converge()
  })
})
