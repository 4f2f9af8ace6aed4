import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ageOf, EARLIEST_MS, isPlausibleTime, MAX_AHEAD_MS } from '../../../src/storage/record-age.ts'
import { planRetention, type RetainedSegment } from '../../../src/storage/retention.ts'

const KEEP = { isDeleted: true, retentionBytes: -1 }

/** Segments of ten records and 100 bytes each; the first `expired` of them are too old. */
function logOf(count: number, expired = 0, sizeBytes = 100): RetainedSegment[] {
  return Array.from({ length: count }, (_, index) => ({
    baseOffset: index * 10,
    nextOffset: index * 10 + 10,
    sizeBytes,
    isExpired: index < expired,
  }))
}

test('whole segments go from the front, up to the first that is young enough', () => {
  const segments = logOf(5, 2)
  assert.deepEqual(planRetention({ logStartOffset: 0, highWatermark: 50, segments }, KEEP), {
    logStartOffset: 20,
    segments: { time: 2, bytes: 0, start: 0 },
    sizeBytes: 200,
    rolls: false,
  })
  assert.equal(planRetention({ logStartOffset: 0, highWatermark: 50, segments: logOf(5) }, KEEP), null)
})

test('an old segment behind a young one waits for it', () => {
  const segments = logOf(3).map((each, index) => ({ ...each, isExpired: index === 1 }))
  assert.equal(planRetention({ logStartOffset: 0, highWatermark: 30, segments }, KEEP), null)
})

test('by bytes a segment goes only when what is left is not below the limit', () => {
  const segments = logOf(5)
  const plan = (retentionBytes: number) =>
    planRetention({ logStartOffset: 0, highWatermark: 50, segments }, { isDeleted: true, retentionBytes })?.segments.bytes ?? 0
  assert.deepEqual([500, 401, 400, 399, 300, 1, 0].map(plan), [0, 0, 1, 1, 2, 4, 5])
})

test('without the policy delete only what lies below the start goes', () => {
  const log = { logStartOffset: 25, highWatermark: 50, segments: logOf(5, 5) }
  const config = { isDeleted: false, retentionBytes: 0 }
  assert.deepEqual(planRetention(log, config), {
    logStartOffset: 25,
    segments: { time: 0, bytes: 0, start: 2 },
    sizeBytes: 200,
    rolls: false,
  })
})

test('nothing at or above the high watermark goes, whatever asks for it', () => {
  const log = { logStartOffset: 0, highWatermark: 19, segments: logOf(5, 5) }
  assert.equal(planRetention(log, { isDeleted: true, retentionBytes: 0 })?.logStartOffset, 10)
})

test('the active segment goes too when all is old, but not an empty one', () => {
  const full = { logStartOffset: 0, highWatermark: 30, segments: logOf(3, 3) }
  assert.deepEqual([planRetention(full, KEEP)?.logStartOffset, planRetention(full, KEEP)?.rolls], [30, true])
  const empty = { baseOffset: 30, nextOffset: 30, sizeBytes: 0, isExpired: false }
  const plan = planRetention({ ...full, segments: [...full.segments, empty] }, KEEP)
  assert.deepEqual([plan?.logStartOffset, plan?.rolls], [30, false])
  assert.equal(planRetention({ logStartOffset: 30, highWatermark: 30, segments: [empty] }, KEEP), null, 'an empty log does not roll')
})

test('what goes by time alone has a bound of its own', () => {
  const segments = logOf(9, 8)
  const plan = planRetention({ logStartOffset: 0, highWatermark: 90, segments }, { isDeleted: true, retentionBytes: 600 }, 1)
  assert.deepEqual(plan?.segments, { time: 1, bytes: 3, start: 0 })
})

const NOW = Date.UTC(2026, 10, 29)

test('a time is plausible from 2000 up to an hour ahead', () => {
  const plausible = (timestampMs: number) => isPlausibleTime(timestampMs, NOW)
  assert.deepEqual([EARLIEST_MS, NOW, NOW + MAX_AHEAD_MS].map(plausible), [true, true, true])
  const impossible = [-1, -5, 0, 1, NOW / 1000, EARLIEST_MS - 1, NOW + MAX_AHEAD_MS + 1, NOW * 1000, Number.MAX_SAFE_INTEGER]
  assert.deepEqual(
    impossible.map(plausible),
    impossible.map(() => false),
  )
})

test('the age of a record is by its own time, unless that is impossible', () => {
  const age = (largestMs: number, appendedMs: number) => ageOf({ largestMs, appendedMs }, NOW)
  assert.equal(age(NOW - 1000, NOW - 10), 1000, 'old records that were copied in a moment ago are old')
  assert.equal(age(NOW - 10, NOW - 10 * MAX_AHEAD_MS), 9 * MAX_AHEAD_MS, 'a time that was in the future when it came is cut')
  for (const impossible of [-1, 0, NOW * 1000, NOW + 10 * 365 * 86_400_000]) assert.equal(age(impossible, NOW - 50), 50)
  assert.equal(age(-1, NOW * 2), null, 'nothing is known')
  assert.equal(age(NOW - 7, 0), 7)
})
