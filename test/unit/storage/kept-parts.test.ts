import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endTransaction, put } from '../../support/compaction.ts'
import { openHarness, readAll, store } from '../../support/storage.ts'

test('an aborted transaction is found at once, behind a roll, and after a stop, by whoever reads its offsets', async () => {
  const config = { segmentBytes: 300, indexIntervalBytes: 0 }
  const { log, manager, disk } = await openHarness({ config })
  const record = { key: 'k', value: 'v'.repeat(60) }
  put(log, [record], { producerId: 7, producerEpoch: 0, baseSequence: 0, transactional: true })
  put(log, [record], { producerId: 8, producerEpoch: 0, baseSequence: 0, transactional: true })
  const end = endTransaction(log, 7, false)
  endTransaction(log, 8, true)
  const expected = [{ producerId: 7, firstOffset: 0 }]
  const found = (from: typeof log) =>
    from.abortedTransactions(0, from.logEndOffset).map(({ producerId, firstOffset }) => ({ producerId, firstOffset }))
  assert.deepEqual(found(log), expected)
  for (let index = 0; index < 6; index++) await store(log, ['x'.repeat(80)])
  assert.ok(log.segmentCount > 2)
  assert.deepEqual(found(log), expected)
  assert.equal(log.abortedTransactions(end + 1, log.logEndOffset).length, 0)
  await manager.close()
  const again = await openHarness({ disk, config })
  assert.deepEqual(found(again.log), expected)
  await again.manager.close()
})

test('wherever the start of a log lies, every segment with a record from there on stays', async () => {
  const config = { segmentBytes: 300, indexIntervalBytes: 0, fileDeleteDelayMs: 0 }
  for (let start = 0; start <= 11; start++) {
    const { log, manager, disk } = await openHarness({ config })
    for (let index = 0; index < 12; index++) await store(log, ['x'.repeat(60)])
    await log.idle()
    log.advanceLogStart(start)
    await manager.saveLogStarts()
    await log.deleteBelow(start)
    await manager.close()
    const again = await openHarness({ disk, config })
    const offsets = (await readAll(again.log, start)).map(([offset]) => offset)
    assert.deepEqual(
      offsets,
      Array.from({ length: 12 - start }, (_, index) => start + index),
      `begins at ${start}`,
    )
    await again.manager.close()
  }
})
