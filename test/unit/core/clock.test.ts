import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'

describe('the clock of the machine', () => {
  it('calls nobody before the time, in a process that was busy while the timer was set, too', async () => {
    const clock = new SystemClock()
    const startMs = clock.monotonicMs()
    while (clock.monotonicMs() < startMs + 12) {}
    for (const delayMs of [8, 1.5]) {
      const setAtMs = clock.monotonicMs()
      await new Promise<void>((fire) => clock.setTimer(delayMs, fire, { keepAlive: true }))
      const waitedMs = clock.monotonicMs() - setAtMs
      assert.ok(waitedMs >= delayMs, `${waitedMs} of ${delayMs} ms`)
    }
  })

  it('does not call who cancelled while there was time left', async () => {
    const clock = new SystemClock()
    const startMs = clock.monotonicMs()
    while (clock.monotonicMs() < startMs + 12) {}
    let fired = 0
    const timers = [8, 9].map((delayMs) => clock.setTimer(delayMs, () => fired++))
    await new Promise<void>((resolve) => clock.defer(() => clock.defer(resolve)))
    for (const timer of timers) timer.cancel()
    await new Promise<void>((fire) => clock.setTimer(20, fire, { keepAlive: true }))
    assert.equal(fired, 0)
  })
})
