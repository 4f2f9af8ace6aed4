import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { compact } from '../support/compaction.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'

const SETTINGS = { 'offsets.topic.num.partitions': '1', 'offsets.topic.segment.bytes': '2000' }
const GROUPS = 5

async function commit(running: DiskBroker, group: string, offset: number): Promise<void> {
  const offsets = [{ topic: 't', partition: 0, value: { offset, leaderEpoch: 0, metadata: '' } }]
  const request = { group, generation: -1, memberId: '', instanceId: null, offsets, durable: true }
  assert.deepEqual(await running.broker.groups.commit(contextOf(), request), [null])
}

async function committed(running: DiskBroker, group: string): Promise<number | undefined> {
  const found = await running.broker.groups.committed(contextOf(), { group, topics: null })
  return found.find(({ partition }) => partition === 0)?.value?.offset
}

test('the topic of committed offsets is compacted, and a start reads the same from what is left', async () => {
  const running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), SETTINGS)
  await createTopic(running.broker, 't', 1)
  for (let round = 1; round <= 60; round++) for (let group = 0; group < GROUPS; group++) await commit(running, `group-${group}`, round)
  const log = running.data.logs.get({ topic: '__consumer_offsets', partition: 0 })
  assert.ok(log !== undefined)
  const before = log.sizeBytes
  await compact(running.data.logs)
  assert.ok(log.sizeBytes < before / 3, `${before} bytes became ${log.sizeBytes}`)
  await running.close()
  const again = await diskBroker(running.disk, SETTINGS)
  for (let group = 0; group < GROUPS; group++) assert.equal(await committed(again, `group-${group}`), 60)
  await again.close()
})
