import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../../src/core/random.ts'
import { Scheduler } from '../../../src/core/scheduler.ts'

function scheduler(seed = 1, timerOdds = 1_000_000): Scheduler {
  return new Scheduler({ random: new SeededRandom(seed) }, { startMs: 1000, timerOdds })
}

test('what waits ends one by one, in an order that the seed gives', async () => {
  const orderOf = async (seed: number) => {
    const events = scheduler(seed)
    const ended: number[] = []
    for (let each = 0; each < 8; each++) void events.arrive(`event ${each}`).then(() => ended.push(each))
    for (let count = 1; events.step(); count++) {
      await Promise.resolve()
      assert.equal(ended.length, count)
    }
    assert.deepEqual(
      events.trace,
      ended.map((each) => `event ${each}`),
    )
    return ended
  }
  assert.deepEqual(await orderOf(3), await orderOf(3))
  assert.notDeepEqual(await orderOf(3), await orderOf(4))
  assert.deepEqual([...(await orderOf(3))].sort(), [0, 1, 2, 3, 4, 5, 6, 7])
})

test('time moves to a timer when it is taken, in the order of the timers, and not otherwise', () => {
  const events = scheduler()
  const fired: string[] = []
  events.setTimer(20, () => fired.push(`late at ${events.monotonicMs()}`))
  events.setTimer(5, () => fired.push(`first at ${events.monotonicMs()}`))
  events.setTimer(5, () => fired.push('second'))
  events.setTimer(1, () => fired.push('never')).cancel()
  events.defer(() => fired.push(`deferred at ${events.monotonicMs()}`))
  assert.equal(events.step({ timers: false }), true)
  assert.equal(events.step({ timers: false }), false)
  while (events.step());
  assert.deepEqual(fired, ['deferred at 0', 'first at 5', 'second', 'late at 20'])
  assert.equal(events.nowMs(), 1020)
})

test('with other events waiting, a timer is taken now and then', () => {
  const events = scheduler(1, 4)
  let timers = 0
  const again = () => {
    timers++
    events.setTimer(1, again)
  }
  events.setTimer(1, again)
  for (let count = 0; count < 400; count++) {
    events.defer(() => {})
    events.step()
  }
  assert.ok(timers > 50 && timers < 150, `${timers} of 400`)
})

test('what a dead process waited for never ends', async () => {
  const events = scheduler()
  let ended = false
  void events.arrive('write').then(() => {
    ended = true
  })
  events.setTimer(1, () => {
    ended = true
  })
  assert.deepEqual(events.waiting, ['write'])
  events.forget()
  assert.equal(events.step(), false)
  await Promise.resolve()
  assert.equal(ended, false)
})
