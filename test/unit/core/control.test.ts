import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Backoff } from '../../../src/core/backoff.ts'
import { sleep, withDeadline } from '../../../src/core/clock.ts'
import { deferred } from '../../../src/core/deferred.ts'
import { asMoonMQError, ERRORS, isCode, MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom, SystemRandom } from '../../../src/core/random.ts'
import { Semaphore } from '../../../src/core/semaphore.ts'
import { Serial } from '../../../src/core/serial.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'

test('virtual clock: timers fire in order of time, then of setting; a jump of the wall clock moves none', async () => {
  const clock = new VirtualClock(1000)
  const fired: string[] = []
  clock.setTimer(20, () => fired.push('late'))
  clock.setTimer(10, () => fired.push('first'))
  clock.setTimer(10, () => fired.push('second'))
  clock.setTimer(15, () => fired.push('never')).cancel()
  clock.jumpWallClock(1_000_000)
  await clock.advance(9)
  assert.deepEqual(fired, [])
  await clock.advance(100)
  assert.deepEqual(fired, ['first', 'second', 'late'])
  assert.equal(clock.monotonicMs(), 109)
  assert.equal(clock.nowMs(), 1_001_109)
  assert.equal(clock.pendingTimers, 0)
})

test('sleep: ends by time or by its signal, and leaves no timer behind', async () => {
  const clock = new VirtualClock()
  const slept = sleep(clock, 50)
  await clock.advance(50)
  await slept
  const stop = new AbortController()
  const stopped = sleep(clock, 50, stop.signal)
  stop.abort()
  await assert.rejects(stopped, (error) => isCode(error, 'ABORTED'))
  await assert.rejects(sleep(clock, 1, AbortSignal.abort()), (error) => isCode(error, 'ABORTED'))
  assert.equal(clock.pendingTimers, 0)
})

test('withDeadline: the result in time, else REQUEST_TIMED_OUT', async () => {
  const clock = new VirtualClock()
  assert.equal(await withDeadline(clock, 10, Promise.resolve(7)), 7)
  const never = deferred<number>()
  const late = withDeadline(clock, 10, never.promise)
  const refused = assert.rejects(late, (error) => isCode(error, 'REQUEST_TIMED_OUT'))
  await clock.advance(10)
  await refused
  never.reject(new Error('owned'))
  assert.equal(clock.pendingTimers, 0)
})

test('serial: one at a time, in order, past failures', async () => {
  const serial = new Serial()
  const order: number[] = []
  const gate = deferred()
  const first = serial.run(async () => {
    await gate.promise
    order.push(1)
    throw new Error('first fails')
  })
  const second = serial.run(() => order.push(2))
  assert.equal(serial.size, 2)
  gate.resolve()
  await assert.rejects(first, /first fails/)
  await second
  await serial.idle()
  assert.deepEqual(order, [1, 2])
  assert.equal(serial.size, 0)
})

test('semaphore: never more holders than permits, waiting ones go in order', async () => {
  const semaphore = new Semaphore(2)
  const gates = Array.from({ length: 5 }, () => deferred())
  const started: number[] = []
  let held = 0
  let most = 0
  const all = gates.map((gate, index) =>
    semaphore.run(async () => {
      started.push(index)
      most = Math.max(most, ++held)
      await gate.promise
      held--
    }),
  )
  for (const gate of gates) {
    gate.resolve()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(all)
  assert.equal(most, 2)
  assert.deepEqual(started, [0, 1, 2, 3, 4])
})

test('backoff: doubles up to its limit, within a fifth', () => {
  const backoff = new Backoff(new SeededRandom(3), { initialMs: 10, maxMs: 100 })
  const expected = [10, 20, 40, 80, 100, 100]
  for (const base of expected) {
    const wait = backoff.nextMs()
    assert.ok(wait >= base * 0.8 && wait <= base * 1.2, `${wait} for ${base}`)
  }
  backoff.reset()
  assert.ok(backoff.nextMs() <= 12)
})

test('random: a seed repeats itself, fractions stay below 1', () => {
  const a = new SeededRandom(42)
  const b = new SeededRandom(42)
  assert.deepEqual(a.bytes(100), b.bytes(100))
  const system = new SystemRandom()
  for (let i = 0; i < 2000; i++) {
    const value = system.below(7)
    assert.ok(Number.isInteger(value) && value >= 0 && value < 7)
  }
})

test('errors: the text is filled from the details, unknown ones become INTERNAL with their cause', () => {
  const error = new MoonMQError('TOPIC_MISSING', { topic: 'orders' })
  assert.equal(error.message, 'topic "orders" does not exist')
  assert.equal(error.retriable, true)
  assert.equal(error.row, ERRORS.TOPIC_MISSING)
  const cause = new Error('broken pipe')
  const wrapped = asMoonMQError(cause)
  assert.equal(wrapped.code, 'INTERNAL')
  assert.equal(wrapped.cause, cause)
  assert.equal(asMoonMQError(error), error)
  // As `await using` reports it when closing fails as well; not every Node has the class.
  const closing = Object.assign(new Error('suppressed'), { name: 'SuppressedError', error: new Error('closing'), suppressed: error })
  assert.equal(asMoonMQError(Object.assign(new Error('twice'), { name: 'SuppressedError', suppressed: closing })), error)
})

test('errors: every row has codes the two protocols define, and a message', () => {
  const native = new Set([1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 50, 51, 52])
  for (const [name, row] of Object.entries(ERRORS)) {
    assert.ok(native.has(row.native), `${name}: native ${row.native}`)
    assert.ok(Number.isInteger(row.kafka) && row.kafka >= -1 && row.kafka <= 133, `${name}: kafka ${row.kafka}`)
    assert.ok(row.http >= 400 && row.http < 600, `${name}: http ${row.http}`)
    assert.ok(row.message.length > 4, name)
  }
})
