import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { appendTo, openHarness } from '../../support/storage.ts'

test('a checkpoint forgets producers that were silent for a day, and no other', async () => {
  const clock = new VirtualClock()
  const { manager, log } = await openHarness({ clock, disk: new MemoryDisk({ clock }) })
  appendTo(log, ['x'], { producerId: 1, producerEpoch: 0, baseSequence: 0 })
  await clock.advance(80_000_000)
  appendTo(log, ['x'], { producerId: 2, producerEpoch: 0, baseSequence: 0 })
  await clock.advance(10_000_000)
  await manager.checkpoint()
  assert.deepEqual(
    [...log.producers()].map((entry) => entry.producerId),
    [2],
  )
  const closing = manager.close()
  await clock.advance(1000)
  await closing
})
