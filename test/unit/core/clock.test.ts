import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'

/** Time stands still for it; `looked` when a timer has looked whether it is due. */
class StandingClock extends SystemClock {
  atMs = 0
  readonly looked: Promise<void>
  #looks = 0
  #onLook: () => void = () => {}

  constructor() {
    super()
    this.looked = new Promise((resolve) => {
      this.#onLook = resolve
    })
  }

  override monotonicMs(): number {
    if (++this.#looks === 3) this.#onLook()
    return this.atMs
  }
}

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

  it('does not call who cancelled while it waited for the rest', async () => {
    const clock = new StandingClock()
    let fired = 0
    const timer = clock.setTimer(1, () => fired++, { keepAlive: true })
    await clock.looked
    timer.cancel()
    clock.atMs = 10
    await new Promise<void>((fire) => new SystemClock().setTimer(5, fire, { keepAlive: true }))
    assert.equal(fired, 0)
  })
})
