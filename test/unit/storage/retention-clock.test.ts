import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RetentionClock } from '../../../src/storage/retention-clock.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../support/retention.ts'

const START = Date.UTC(2026, 10, 29)

test('a clock that runs is believed', () => {
  const clock = new RetentionClock(null, START, 7)
  assert.deepEqual(clock.look(START + HOUR_MS, 7 + HOUR_MS), { nowMs: START + HOUR_MS, steadyMs: HOUR_MS, doubtMs: 0, jumpMs: 0 })
})

test('a jump ahead is made up for at double speed, and told once', () => {
  const clock = new RetentionClock(null, START, 0)
  const jumped = START + HOUR_MS
  assert.deepEqual(clock.look(jumped, 0), { nowMs: START, steadyMs: 0, doubtMs: HOUR_MS, jumpMs: HOUR_MS })
  assert.equal(clock.look(jumped + 10 * MINUTE_MS, 10 * MINUTE_MS).nowMs, START + 20 * MINUTE_MS)
  const after = clock.look(jumped + HOUR_MS, HOUR_MS)
  assert.deepEqual([after.nowMs, after.doubtMs, after.jumpMs], [START + 2 * HOUR_MS, 0, 0])
})

test('ten years ahead for a day age nothing by more than two days', () => {
  const clock = new RetentionClock(null, START, 0)
  for (let hour = 1; hour <= 24; hour++) clock.look(START + 3650 * DAY_MS + hour * HOUR_MS, hour * HOUR_MS)
  assert.equal(clock.look(START + 3650 * DAY_MS + DAY_MS, DAY_MS).nowMs, START + 2 * DAY_MS)
  const back = clock.look(START + DAY_MS, DAY_MS)
  assert.equal(back.nowMs, START + DAY_MS, 'never ahead of the wall clock')
  assert.equal(back.steadyMs, DAY_MS)
})

test('a jump back makes nothing older, and coming back is no jump ahead of what passed', () => {
  const clock = new RetentionClock(null, START, 0)
  assert.equal(clock.look(0, 0).nowMs, 0)
  const returned = clock.look(START + HOUR_MS, HOUR_MS)
  assert.equal(returned.nowMs, START + HOUR_MS)
})

test('a clock that jumps every second gains no more than time that passed', () => {
  const clock = new RetentionClock(null, START, 0)
  for (let second = 1; second <= 3600; second++) {
    const wallMs = START + second * 1000 + (second % 3 === 0 ? 4 : second % 3 === 1 ? 0 : -2) * DAY_MS
    assert.ok(clock.look(wallMs, second * 1000).nowMs <= START + 2 * second * 1000)
  }
})

test('over a restart a day is believed at once, more is not', () => {
  const before = { wallMs: START, believedMs: START, steadyMs: 5 }
  assert.deepEqual(new RetentionClock(before, START + HOUR_MS, 0).look(START + HOUR_MS, 0), {
    nowMs: START + HOUR_MS,
    steadyMs: 5 + HOUR_MS,
    doubtMs: 0,
    jumpMs: 0,
  })
  const later = new RetentionClock(before, START + 3650 * DAY_MS, 0).look(START + 3650 * DAY_MS, 0)
  assert.deepEqual([later.nowMs, later.steadyMs, later.jumpMs], [START + DAY_MS, 5 + DAY_MS, 3649 * DAY_MS])
  const earlier = new RetentionClock(before, 1000, 0).look(1000, 0)
  assert.deepEqual([earlier.nowMs, earlier.steadyMs, earlier.jumpMs], [1000, 5, 1000 - START])
})

test('a start in the wrong decade is not believed by the next one either', () => {
  const wrong = new RetentionClock({ wallMs: START, believedMs: START, steadyMs: 0 }, START + 3650 * DAY_MS, 0)
  const { state } = wrong
  const right = new RetentionClock(state, START + 2 * HOUR_MS, 0).look(START + 2 * HOUR_MS, 0)
  assert.equal(right.nowMs, START + 2 * HOUR_MS)
  const again = new RetentionClock(state, state.wallMs + HOUR_MS, 0).look(state.wallMs + HOUR_MS, 0)
  assert.equal(again.nowMs, START + DAY_MS + HOUR_MS)
})
