import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openHarness, readAll, store } from '../../support/storage.ts'

test('a consumer that reads old records neither enters nor evicts the memory of the newest ones', async () => {
  const { log, manager, disk } = await openHarness({
    manager: { tailBytes: 20_000, tailBytesPerLog: 10_000 },
    config: { segmentBytes: 20_000 },
  })
  for (let count = 0; count < 200; count++) await store(log, ['x'.repeat(500)])
  const other = await manager.open({ topic: 'u', partition: 0, topicId: 'AAAAAAAAQACAAAAAAAAAAg', config: log.config, maxEpoch: 100 })
  for (let count = 0; count < 5; count++) await store(other, ['y'.repeat(500)])
  const before = { start: log.tail.startOffset, bytes: log.tail.bytes, other: other.tail.bytes, all: manager.deps.tailMemory.bytes }
  assert.ok(before.start > 100 && before.start < 200)
  for (let round = 0; round < 3; round++) assert.equal((await readAll(log, 0, 4000, before.start)).length, before.start)
  const after = { start: log.tail.startOffset, bytes: log.tail.bytes, other: other.tail.bytes, all: manager.deps.tailMemory.bytes }
  assert.deepEqual(after, before)
  // The newest are served from memory at once, whatever was read before.
  disk.resetCounters()
  const read = log.read({ offset: before.start, maxBytes: 100_000, minOneBatch: true, limitOffset: log.highWatermark })
  assert.ok(!(read instanceof Promise))
  assert.equal(read.nextOffset, 200)
  assert.equal(disk.counters('.log').reads, 0)
  read.release()
  await manager.close()
})
