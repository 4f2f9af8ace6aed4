import { test } from 'node:test'
import { byLane, seedOr } from '../support/lane.ts'
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
  const runs = byLane({ quick: 25, ci: 250, full: 5000 })
  const first = seedOr(1)
  const last = process.env.MOONMQ_SEED ? first : first + runs - 1
  for (let seed = first; seed <= last; seed++) {
    try {
      await play(seed)
    } catch (error) {
      throw new Error(`MOONMQ_SEED=${seed} replays: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
    }
  }
})
