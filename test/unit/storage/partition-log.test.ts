import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appendTo, openHarness, readAll, store } from '../../support/storage.ts'

test('an append gives offsets at once and becomes durable and readable', async () => {
  const { log, manager } = await openHarness()
  const first = appendTo(log, ['a', 'b', 'c'])
  const second = appendTo(log, ['d'])
  assert.deepEqual([first.baseOffset, first.lastOffset, second.baseOffset], [0, 2, 3])
  assert.equal(log.highWatermark, 0)
  await log.whenDurable(4)
  assert.deepEqual([log.highWatermark, log.syncedOffset, log.logEndOffset, log.lastStableOffset], [4, 4, 4, 4])
  assert.deepEqual(await readAll(log), [
    [0, 2],
    [3, 3],
  ])
  await manager.close()
})

test('the start of a log moves up to what is durable and no further', async () => {
  const { log, manager } = await openHarness()
  appendTo(log, ['a', 'b'])
  log.advanceLogStart(2)
  assert.equal(log.logStartOffset, 0)
  await log.whenDurable(2)
  appendTo(log, ['c'])
  log.advanceLogStart(3)
  assert.equal(log.logStartOffset, 2)
  await log.whenDurable(3)
  await manager.close()
})

test('after a clean stop and start everything is there, and appends go on', async () => {
  const one = await openHarness({ config: { segmentBytes: 2000 } })
  for (let index = 0; index < 50; index++) appendTo(one.log, [`value ${index}`, 'x'.repeat(100)])
  await one.log.whenDurable(100)
  assert.ok(one.log.segmentCount > 3)
  await one.manager.close()
  const two = await openHarness({ disk: one.disk.processKilled(), config: { segmentBytes: 2000 } })
  assert.equal(two.manager.wasClean, true)
  assert.deepEqual(two.lines, [])
  assert.equal(two.log.logEndOffset, 100)
  await store(two.log, ['y'])
  const all = await readAll(two.log)
  assert.equal(all.length, 51)
  assert.deepEqual(all[50], [100, 100])
  await two.manager.close()
})

test('after a kill everything durable is there', async () => {
  const one = await openHarness({ config: { segmentBytes: 2000 } })
  for (let index = 0; index < 50; index++) appendTo(one.log, [`value ${index}`, 'x'.repeat(100)])
  await one.log.whenDurable(100)
  const two = await openHarness({ disk: one.disk.processKilled(), config: { segmentBytes: 2000 } })
  assert.equal(two.manager.wasClean, false)
  assert.equal(two.log.logEndOffset, 100)
  assert.equal((await readAll(two.log)).length, 50)
  await two.manager.close()
})
