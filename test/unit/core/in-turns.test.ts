import { deepEqual, equal, rejects } from 'node:assert/strict'
import test from 'node:test'
import { MoonMQError } from '../../../src/core/errors.ts'
import { inTurns } from '../../../src/core/in-turns.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'

/** Its time goes on by one millisecond with every look at it. */
class BusyClock extends VirtualClock {
  looks = 0
  turns = 0

  override monotonicMs(): number {
    return ++this.looks
  }

  override defer(run: () => void): void {
    this.turns++
    setImmediate(run)
  }
}

test('results are in the order of the items, and no more than the width are under way', async () => {
  const items = Array.from({ length: 10 }, (_, i) => i)
  let open = 0
  let most = 0
  const each = async (item: number) => {
    most = Math.max(most, ++open)
    for (let i = item; i < 10; i++) await Promise.resolve()
    open--
    return item * 2
  }
  deepEqual(
    await inTurns(new VirtualClock(), items, each, 3),
    items.map((item) => item * 2),
  )
  equal(most, 3)
  deepEqual(await inTurns(new VirtualClock(), [], each), [])
})

test('others get their turn when the time is up, and a macrotask of theirs runs meanwhile', async () => {
  const clock = new BusyClock()
  let others = 0
  const other = () => {
    others++
    if (others < 1000) setImmediate(other)
  }
  setImmediate(other)
  await inTurns(clock, new Array<number>(100).fill(0), () => 1, 1)
  equal(clock.turns, 9)
  equal(others >= 9, true)
  others = 1000
})

test('the first failure ends it: what comes after is not begun', async () => {
  const begun: number[] = []
  const each = (item: number) => {
    begun.push(item)
    if (item === 2) throw new MoonMQError('ABORTED')
    return item
  }
  await rejects(inTurns(new VirtualClock(), [1, 2, 3], each, 1), { code: 'ABORTED' })
  deepEqual(begun, [1, 2])
})
