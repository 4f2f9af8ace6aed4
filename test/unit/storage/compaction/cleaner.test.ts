import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../../../src/core/virtual-clock.ts'
import { KeyMap } from '../../../../src/storage/compaction/key-map.ts'
import { Pace } from '../../../../src/storage/compaction/pace.ts'
import { COMPACTED, compact, MovableClock, put, readBatches, roll } from '../../../support/compaction.ts'
import { openHarness, type RecordedLine, TOPIC_ID } from '../../../support/storage.ts'

test('readers in the middle of compactions find every record that is the latest of its key', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED, manager: { tailBytes: 0 } })
  const stays = put(log, [{ key: 'stays', value: '1' }])
  let isOver = false
  let reads = 0
  const reader = async () => {
    while (!isOver) {
      const read = await log.read({ offset: stays, maxBytes: 1 + (reads % 500), minOneBatch: true, limitOffset: log.highWatermark })
      assert.equal(read.baseOffset, stays)
      read.release()
      const batches = await readBatches(log, 0, 700)
      const keys = new Set(batches.flatMap(({ records }) => records.map(({ key }) => key)))
      assert.ok(keys.has('stays'))
      reads++
      await new Promise<void>((resolve) => manager.deps.clock.defer(resolve))
    }
  }
  await log.whenSynced(log.logEndOffset)
  const readers = [reader(), reader(), reader()]
  for (let round = 0; round < 10; round++) {
    for (let record = 0; record < 40; record++) put(log, [{ key: `k${record % 4}`, value: 'x'.repeat(80) }])
    await roll(log)
    await compact(manager)
  }
  isOver = true
  await Promise.all(readers)
  assert.ok(reads > 10, `${reads} reads`)
  assert.ok(log.segmentCount < 12, `${log.segmentCount} segments`)
  await manager.close()
})

test('a log that is damaged is left alone, reported, and does not hold up the others', async () => {
  const clock = new MovableClock()
  const { disk, log, manager } = await openHarness({ clock, config: COMPACTED })
  const other = await manager.open({
    topic: 'other',
    partition: 0,
    topicId: TOPIC_ID.replace(/.$/, 'g'),
    config: log.config,
    maxEpoch: 100,
  })
  for (const each of [log, other]) {
    for (let round = 0; round < 5; round++) put(each, [{ key: 'a', value: `${round}` }])
    await roll(each)
  }
  disk.fail({ operation: 'read', path: '/t-0/', effect: { kind: 'bitFlip', bit: 1000 }, times: 1000 })
  const lines: RecordedLine[] = []
  await compact(manager, { clock, lines })
  assert.deepEqual(lines.map(({ event, fields }) => [event, fields['topic']]).sort(), [
    ['storage.compacted', 'other'],
    ['storage.not_compacted', 't'],
  ])
  assert.equal(log.state, 'online')
  disk.clearFaults()
  await compact(manager, { clock })
  assert.ok(log.compaction.note.cleanedOffset > 0)
  await manager.close()
})

test('a compaction ends soon after the broker stops, and takes away what it wrote', async () => {
  const { disk, log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 50; round++) put(log, [{ key: 'a', value: 'x'.repeat(100) }])
  await roll(log)
  const stop = new AbortController()
  stop.abort()
  await compact(manager, { signal: stop.signal })
  assert.equal(log.compaction.note.cleanedOffset, 0)
  const names = (await disk.list('/data/t-0')).map(({ name }) => name)
  assert.deepEqual(
    names.filter((name) => /cleaned|swap/.test(name)),
    [],
  )
  await manager.close()
})

test('the pace waits for bytes that went too fast, and not for those that did not', async () => {
  const clock = new VirtualClock()
  const pace = new Pace({ clock }, { maxBytesPerSecond: 1000, sliceMs: 5 }, new AbortController().signal)
  let isDone = false
  const moved = pace.moved(500).then(() => {
    isDone = true
  })
  await clock.advance(400)
  assert.equal(isDone, false)
  await clock.advance(100)
  await moved
  assert.equal(isDone, true)
  await clock.advance(10_000)
  await pace.moved(10)
  assert.equal(pace.bytes, 510)
})

test('a key map keeps to its memory and tells keys apart', () => {
  const map = new KeyMap({ maxKeys: 1_000_000, budgetBytes: 24 * 1024 })
  let count = 0
  while (map.put(Buffer.from(`key ${count}`), count)) count++
  assert.ok(count > 300 && count <= 1024, `${count} keys`)
  for (let key = 0; key < count; key++) assert.equal(map.get(Buffer.from(`key ${key}`)), key)
  assert.equal(map.get(Buffer.from(`key ${count}`)), -1)
  assert.equal(map.put(Buffer.from('key 0'), 5000), true)
  assert.equal(map.get(Buffer.from('key 0')), 5000)
  const tiny = new KeyMap({ maxKeys: 10, budgetBytes: 0 })
  assert.equal(tiny.put(Buffer.from('a'), 1), true)
})
