import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode } from '../../../src/core/errors.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import type { Segment } from '../../../src/storage/segment.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, RetentionWorld, SteppedClock } from '../../support/retention.ts'
import { DATA_FOLDER, readAll, store, TOPIC_ID } from '../../support/storage.ts'

const YEAR_MS = 365 * DAY_MS
const US = 1000

/** Stamps that no broker can go by, at the moment when they are written. */
const IMPOSSIBLE: readonly [name: string, stamp: (nowMs: number) => number][] = [
  ['ten years ahead', (nowMs) => nowMs + 10 * YEAR_MS],
  ['a day ahead', (nowMs) => nowMs + DAY_MS],
  ['microseconds', (nowMs) => nowMs * US],
  ['the largest time there is', () => Number.MAX_SAFE_INTEGER],
  ['none', () => -1],
  ['zero', () => 0],
  ['seconds', (nowMs) => Math.floor(nowMs / 1000)],
]

test('segments go when their newest record is older than retention.ms, and not before', async () => {
  const world = await RetentionWorld.open()
  for (let index = 0; index < 4; index++) {
    await world.put()
    await world.clock.advance(30 * MINUTE_MS)
  }
  await world.pass()
  assert.deepEqual([world.log.logStartOffset, world.bases], [2, [2, 3]], 'two hours old and one and a half')
  await world.live(10 * MINUTE_MS)
  assert.deepEqual(world.bases, [3], 'the third is an hour and ten minutes old')
  await assert.rejects(async () => world.log.read({ offset: 2, maxBytes: 100, minOneBatch: true, limitOffset: 4 }), {
    code: 'OFFSET_OUT_OF_RANGE',
  })
  assert.deepEqual(
    world.metrics.samples('moonmq_retention_segments_total').map((sample) => [sample.labels, sample.value]),
    [[{ topic: 't', reason: 'time' }, 3]],
  )
  await world.close()
})

test('an idle log empties, does not roll for ever, and goes on at the same offset after a restart', async () => {
  const world = await RetentionWorld.open()
  for (let index = 0; index < 3; index++) await world.put()
  await world.live(70 * MINUTE_MS)
  assert.deepEqual([world.log.logStartOffset, world.bases, world.log.sizeBytes], [3, [3], 0])
  await world.live(10 * DAY_MS)
  assert.deepEqual(world.bases, [3])
  await world.manager.removed()
  assert.deepEqual(
    (await world.names()).filter((name) => name.endsWith('.log') || name.endsWith('.deleted')),
    ['00000000000000000003.log'],
    'its empty file tells where the log ends',
  )
  await world.close()
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk })
  assert.deepEqual(again.lines, [], 'nothing is missing')
  assert.equal(await again.put(), 3)
  await again.close()
})

test('an active segment rolls after segment.ms without traffic, once', async () => {
  const world = await RetentionWorld.open({ config: { segmentMs: HOUR_MS, retentionMs: -1, segmentBytes: 1 << 20 } })
  await world.put()
  await world.live(HOUR_MS)
  assert.deepEqual(world.bases, [0])
  await world.live(5 * MINUTE_MS)
  assert.deepEqual(world.bases, [0, 1])
  await world.live(10 * HOUR_MS)
  assert.deepEqual(world.bases, [0, 1])
  await world.close()
})

test('jitter takes up to its share off segment.ms, the same share after a restart', async () => {
  const config = { segmentMs: 10 * HOUR_MS, segmentJitterMs: 10 * HOUR_MS, retentionMs: -1, cleanerIntervalMs: 1 }
  const world = await RetentionWorld.open({ config })
  const share = (world.log.segments[0] as Segment).jitterShare
  assert.ok(share > 0 && share < 1)
  await world.put()
  const rollsAfterMs = 10 * HOUR_MS - Math.floor(share * 10 * HOUR_MS)
  await world.clock.advance(rollsAfterMs)
  await world.pass()
  assert.equal(world.bases.length, 1)
  await world.clock.advance(1)
  await world.pass()
  assert.equal(world.bases.length, 2)
  await world.close()
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk, config })
  assert.equal((again.log.segments[0] as Segment).jitterShare, share)
  await again.close()
})

test('by bytes the oldest go, and settings that change while it runs count at the next pass', async () => {
  const world = await RetentionWorld.open({ config: { retentionMs: -1 } })
  for (let index = 0; index < 10; index++) await world.put()
  const each = world.log.sizeBytes / 10
  await world.pass()
  assert.equal(world.log.segmentCount, 10)
  world.log.reconfigure({ ...world.log.config, retentionBytes: 3 * each })
  await world.clock.advance(5 * MINUTE_MS)
  await world.pass()
  assert.deepEqual(world.bases, [7, 8, 9])
  world.log.reconfigure({ ...world.log.config, isDeleted: false, isCompacted: true, retentionBytes: 0 })
  await world.live(DAY_MS)
  assert.deepEqual(world.bases, [7, 8, 9], 'a log that is only compacted keeps all')
  world.log.reconfigure({ ...world.log.config, isDeleted: true })
  await world.live(5 * MINUTE_MS)
  assert.deepEqual([world.log.logStartOffset, world.log.sizeBytes], [10, 0], 'compact,delete deletes too')
  await world.close()
})

test('files keep their bytes under another name until file.delete.delay.ms is over', async () => {
  const world = await RetentionWorld.open()
  await world.put()
  await world.put()
  await world.live(65 * MINUTE_MS)
  const removed = (await world.names()).filter((name) => name.endsWith('.deleted'))
  assert.deepEqual(
    removed,
    [0, 1].flatMap((base) => ['index', 'log', 'timeindex'].map((kind) => `0000000000000000000${base}.${kind}.deleted`)),
  )
  assert.ok((world.disk.peek(`${DATA_FOLDER}/t-0/00000000000000000000.log.deleted`)?.length ?? 0) > 100)
  await world.clock.advance(MINUTE_MS)
  assert.deepEqual(
    (await world.names()).filter((name) => name.endsWith('.deleted')),
    [],
  )
  await world.close()
})

test('what waited to be removed at the stop is removed by the next start, and nothing at or above the start', async () => {
  const world = await RetentionWorld.open({ config: { fileDeleteDelayMs: DAY_MS } })
  for (let index = 0; index < 3; index++) await world.put()
  world.log.advanceLogStart(2)
  await world.pass()
  await world.close()
  assert.equal((await world.names()).filter((name) => name.endsWith('.log.deleted')).length, 2)
  const stray = await world.disk.open(`${DATA_FOLDER}/t-0/00000000000000000007.log.deleted`, 'write')
  await stray.close()
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk })
  assert.deepEqual(
    (await again.names()).filter((name) => name.endsWith('.deleted')),
    ['00000000000000000007.log.deleted'],
  )
  assert.deepEqual(again.bases, [2])
  await again.close()
})

for (const [name, stamp] of IMPOSSIBLE) {
  test(`O13: a record stamped with ${name} goes in time, and so do the segments behind it`, async () => {
    const world = await RetentionWorld.open({ config: { segmentBytes: 300 } })
    await world.put('early', stamp(world.clock.nowMs()))
    for (let index = 0; index < 5; index++) await world.put()
    await world.live(55 * MINUTE_MS)
    assert.equal(world.log.logStartOffset, 0, 'not early')
    await world.live(15 * MINUTE_MS)
    assert.deepEqual([world.log.logStartOffset, world.log.sizeBytes], [6, 0])
    await world.close()
  })

  test(`O13: one record stamped with ${name} in traffic that goes on does not keep its segment for ever`, async () => {
    const world = await RetentionWorld.open({ config: { segmentBytes: 1 << 30, segmentMs: 2 * HOUR_MS } })
    await world.put('poison', stamp(world.clock.nowMs()))
    for (let index = 0; index < 40; index++) {
      await world.put()
      await world.live(10 * MINUTE_MS)
    }
    assert.ok(world.log.logStartOffset > 0, 'it is gone after segment.ms and retention.ms')
    const first = (await readAll(world.log))[0]?.[0] ?? 0
    assert.ok(first > 0)
    await world.close()
  })

  test(`O13: a segment stamped with ${name} is as old after restarts and with a file that was copied`, async () => {
    let world = await RetentionWorld.open()
    await world.put('v'.repeat(100), stamp(world.clock.nowMs()))
    await world.put('v'.repeat(100), stamp(world.clock.nowMs()))
    await world.live(40 * MINUTE_MS)
    await world.close()
    for (const path of ['00000000000000000000.log', '00000000000000000001.log']) {
      const copy = await world.disk.open(`${DATA_FOLDER}/t-0/copy`, 'write')
      await copy.write([world.disk.peek(`${DATA_FOLDER}/t-0/${path}`) as Buffer], 0)
      await copy.datasync()
      await copy.close()
      await world.disk.rename(`${DATA_FOLDER}/t-0/copy`, `${DATA_FOLDER}/t-0/${path}`)
    }
    world = await RetentionWorld.open({ clock: world.clock, disk: world.disk })
    await world.live(15 * MINUTE_MS)
    assert.equal(world.log.logStartOffset, 0)
    await world.live(15 * MINUTE_MS)
    assert.equal(world.log.logStartOffset, 2)
    await world.close()
  })
}

test('O13: records with LogAppendTime are stamped by the broker, whatever they carry', async () => {
  const world = await RetentionWorld.open({ config: { timestampType: 'LogAppendTime' } })
  for (const [, stamp] of IMPOSSIBLE) await world.put('v'.repeat(100), stamp(world.clock.nowMs()))
  await world.live(55 * MINUTE_MS)
  assert.equal(world.log.logStartOffset, 0)
  await world.live(10 * MINUTE_MS)
  assert.equal(world.log.logStartOffset, IMPOSSIBLE.length)
  await world.close()
})

for (const [name, jumpMs] of [
  ['an hour ahead', HOUR_MS],
  ['ten years ahead', 10 * YEAR_MS],
  ['back to 1970', -1_700_000_000_000],
] as const) {
  test(`K1: a clock that jumps ${name} deletes nothing at once, and is reported`, async () => {
    const world = await RetentionWorld.open({ config: { retentionMs: 12 * HOUR_MS } })
    for (let index = 0; index < 20; index++) await world.put()
    await world.pass()
    world.clock.jumpWallClock(jumpMs)
    await world.live(10 * MINUTE_MS)
    assert.equal(world.log.logStartOffset, 0)
    assert.equal(world.lines.filter((line) => line.event === 'retention.clock_jumped').length, 1)
    world.clock.jumpWallClock(-jumpMs)
    await world.live(10 * HOUR_MS)
    assert.equal(world.log.logStartOffset, 0, 'it came back, nothing is twelve hours old')
    await world.live(3 * HOUR_MS)
    assert.equal(world.log.logStartOffset, 20)
    await world.close()
  })
}

test('a clock that stays ten years ahead lets data go one segment a pass, from half its time on', async () => {
  const world = await RetentionWorld.open({ config: { retentionMs: 12 * HOUR_MS } })
  for (let index = 0; index < 20; index++) await world.put()
  world.clock.jumpWallClock(10 * YEAR_MS)
  await world.live(5 * HOUR_MS + 55 * MINUTE_MS)
  assert.equal(world.log.logStartOffset, 0)
  await world.live(15 * MINUTE_MS)
  assert.ok(world.log.logStartOffset <= 3)
  await world.close()
})

test('what is written while the clock is ten years ahead goes in its time after the clock is right', async () => {
  const world = await RetentionWorld.open()
  world.clock.jumpWallClock(10 * YEAR_MS)
  await world.put()
  await world.pass()
  world.clock.jumpWallClock(-10 * YEAR_MS)
  await world.live(55 * MINUTE_MS)
  assert.equal(world.log.logStartOffset, 0)
  await world.live(15 * MINUTE_MS)
  assert.equal(world.log.logStartOffset, 1)
  await world.close()
})

test('a start with a clock ten years ahead deletes nothing that is not a day old, and one segment a pass of that', async () => {
  const world = await RetentionWorld.open({ config: { retentionMs: 3 * DAY_MS } })
  for (let index = 0; index < 20; index++) await world.put()
  await world.live(HOUR_MS)
  await world.close()
  world.clock.jumpWallClock(10 * YEAR_MS)
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk, config: { retentionMs: 3 * DAY_MS } })
  await again.live(10 * HOUR_MS)
  assert.equal(again.log.logStartOffset, 0)
  assert.equal(again.lines.filter((line) => line.event === 'retention.clock_jumped').length, 1)
  await again.close()
})

test('a note that is damaged or missing costs nothing but time', async () => {
  const world = await RetentionWorld.open()
  await world.put('v'.repeat(100), -1)
  await world.put()
  await world.live(40 * MINUTE_MS)
  await world.close()
  world.disk.corrupt(`${DATA_FOLDER}/moonmq-retention-clock`, 12)
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk })
  assert.equal(again.lines.filter((line) => line.event === 'retention.note_damaged').length, 1)
  await again.live(HOUR_MS + 10 * MINUTE_MS)
  assert.equal(again.log.logStartOffset, 2)
  await again.close()
})

test('a pass stops at its budget and says that there is more', async () => {
  const world = await RetentionWorld.open({ maxSegments: 1 })
  const other = await world.manager.open({ ...world.log, topic: 'u', config: world.log.config, maxEpoch: 100 })
  for (const log of [world.log, other]) await store(log, ['x'], { timestampMs: world.clock.nowMs() })
  await world.clock.advance(2 * HOUR_MS)
  await world.pass()
  assert.deepEqual([world.log.logStartOffset, other.logStartOffset], [1, 0])
  assert.equal(world.retention.nextDelayMs(), 1000)
  await world.pass()
  assert.deepEqual([world.log.logStartOffset, other.logStartOffset], [1, 1])
  assert.equal(world.retention.nextDelayMs(), 5000)
  await world.close()
})

test('after a start the times of segments are read a part at a time', async () => {
  const ids = ['A', 'g', 'w'].map((end) => TOPIC_ID.slice(0, -1) + end)
  const openAll = (world: RetentionWorld) =>
    Promise.all(
      ids.map((topicId) => world.manager.open({ topic: `of${topicId}`, partition: 0, topicId, config: world.log.config, maxEpoch: 100 })),
    )
  const world = await RetentionWorld.open()
  for (const log of await openAll(world)) {
    for (let count = 0; count < 2; count++) await store(log, ['v'.repeat(100)], { timestampMs: world.clock.nowMs() })
  }
  await world.close()
  const again = await RetentionWorld.open({ clock: world.clock, disk: world.disk, maxSegments: 2 })
  const logs = await openAll(again)
  const known = () => logs.filter((log) => log.segments[0]?.maxTimestamp !== null).length
  assert.equal(known(), 0, 'a start reads none')
  await again.pass()
  assert.deepEqual([known(), again.retention.nextDelayMs()], [2, 1000])
  await again.pass()
  assert.deepEqual([known(), again.retention.nextDelayMs()], [3, 5000])
  await again.close()
})

test('a topic with an interval of its own is looked at in that interval', async () => {
  const world = await RetentionWorld.open({ config: { cleanerIntervalMs: 10_000, retentionMs: 1000 } })
  await world.pass()
  assert.equal(world.retention.nextDelayMs(), 5000)
  await world.put()
  await world.clock.advance(9_999)
  await world.pass()
  assert.equal(world.log.logStartOffset, 0)
  await world.clock.advance(1)
  await world.pass()
  assert.equal(world.log.logStartOffset, 1)
  await world.close()
})

test('an interval that a topic gets while the next pass is minutes away is kept at once', async () => {
  const world = await RetentionWorld.open({ config: { retentionMs: 1000 } })
  await world.pass()
  const pauseMs = world.retention.nextDelayMs()
  await world.put()
  world.log.reconfigure({ ...world.log.config, cleanerIntervalMs: 2000 })
  await world.clock.advance(pauseMs)
  await world.pass()
  assert.equal(world.log.logStartOffset, 1)
  assert.equal(world.retention.nextDelayMs(), 2000)
  await world.close()
})

test('K1: append time stands still while the clock is set back by up to an hour, and follows it when it is set back by more', async () => {
  const world = await RetentionWorld.open({ config: { timestampType: 'LogAppendTime', segmentBytes: 1 << 20 } })
  const put = async () => (await store(world.log, ['x'], { timestampMs: 5 })).logAppendTimeMs
  const firstMs = await put()
  world.clock.jumpWallClock(-HOUR_MS)
  assert.equal(await put(), firstMs)
  await world.clock.advance(HOUR_MS + 7)
  assert.equal(await put(), firstMs + 7)
  world.clock.jumpWallClock(10 * YEAR_MS)
  await put()
  world.clock.jumpWallClock(-10 * YEAR_MS)
  assert.equal(await put(), firstMs + 7, 'ten years are no correction')
  await world.close()
})

test('a disk that is full for producers has room again once retention took what may go', async () => {
  const clock = new SteppedClock()
  const disk = new MemoryDisk({ clock }, { capacityBytes: 6 * 1024 * 1024 })
  const world = await RetentionWorld.open({ clock, disk, config: { segmentBytes: 300_000, retentionMs: -1 } })
  world.manager.nextLeaderEpoch = async () => world.log.leaderEpoch + 1
  let asked = 0
  world.manager.onDiskFull = () => {
    asked++
    world.retention.hurry()
  }
  const big = 'x'.repeat(100_000)
  let stored = 0
  try {
    for (; stored < 1000; stored++) await world.put(big)
  } catch (error) {
    assert.ok(isCode(error, 'STORAGE_FULL'), String(error))
  }
  assert.equal(asked, 1)
  assert.ok(stored > 40 && stored < 70, String(stored))
  await world.pass()
  assert.equal(world.log.logStartOffset, 0, 'nothing may go yet')
  world.log.reconfigure({ ...world.log.config, retentionBytes: 1_000_000 })
  world.retention.hurry()
  await world.pass()
  assert.ok(world.log.logStartOffset > 0)
  for (let turn = 0; turn < 100 && world.log.state !== 'online'; turn++) {
    await world.clock.advance(1000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.equal(world.log.state, 'online')
  assert.equal((await store(world.log, [big], { epoch: 5 })).baseOffset, stored)
  assert.equal((await readAll(world.log)).length, stored + 1 - world.log.logStartOffset)
  await world.close()
})

test('a reader under way when its segment goes gets good records or OFFSET_OUT_OF_RANGE', async () => {
  const world = await RetentionWorld.open({ config: { segmentBytes: 2_000_000 } })
  for (let index = 0; index < 4; index++) await world.put('x'.repeat(900_000))
  await world.log.idle()
  await world.clock.advance(2 * HOUR_MS)
  const reads = [0, 1, 2, 3].map(async (offset) => {
    try {
      const read = await world.log.read({ offset, maxBytes: 1_000_000, minOneBatch: true, limitOffset: 4 })
      assert.ok(read.baseOffset === offset && read.sizeBytes > 900_000)
      read.release()
      return 'read'
    } catch (error) {
      assert.ok(isCode(error, 'OFFSET_OUT_OF_RANGE'), String(error))
      return 'out of range'
    }
  })
  await Promise.all([world.pass(), ...reads])
  await world.pass()
  assert.equal(world.log.logStartOffset, 4)
  await world.close()
})
