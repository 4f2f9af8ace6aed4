import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { diskBroker } from '../support/disk-broker.ts'
import { batchOf, contextOf, createTopic, produceOne } from '../support/fake-broker.ts'

const IN_MEMORY = { 'moonmq.storage': 'memory' }
const MIB = 1024 * 1024

function fetchAt(broker: Awaited<ReturnType<typeof diskBroker>>['broker'], fetchOffset: number) {
  return broker.fetch.fetch(contextOf(), {
    partitions: [{ topic: 'm', partition: 0, fetchOffset, maxBytes: 10 * MIB, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }],
    isolation: 'read_uncommitted',
    maxWaitMs: 0,
    minBytes: 0,
    maxBytes: 10 * MIB,
  })
}

describe('memory topics', () => {
  it('take and give records, and leave nothing in the data folder', async () => {
    const { broker, disk, close } = await diskBroker(new MemoryDisk({ clock: new SystemClock() }))
    await createTopic(broker, 'm', 2, IN_MEMORY)
    await createTopic(broker, 'd', 1)
    await produceOne(broker, 'd', 0, batchOf(1))
    for (let count = 0; count < 5; count++) assert.equal((await produceOne(broker, 'm', 0, batchOf(2))).error, null)
    assert.equal((await produceOne(broker, 'm', 1, batchOf(2))).baseOffset, 0)
    const fetched = await fetchAt(broker, 4)
    assert.deepEqual([fetched.partitions[0]?.error, fetched.partitions[0]?.read?.nextOffset], [null, 10])
    fetched.release()
    const names = (await disk.list('/data')).map((entry) => entry.name)
    assert.deepEqual(
      names.filter((name) => /^[md]-/.test(name)),
      ['d-0'],
    )
    assert.equal(await broker.deletion.deleteBefore(contextOf(), 'm', 0, 3), 3)
    assert.equal(broker.offsets.bounds(contextOf(), 'm', 0).earliest, 3)
    await broker.topics.delete(contextOf(), 'm')
    await createTopic(broker, 'm', 1, IN_MEMORY)
    assert.equal(broker.offsets.bounds(contextOf(), 'm', 0).logEndOffset, 0)
    await close()
  })

  it('begin anew after a stop in order, in a higher leader epoch, and old offsets are out of range', async () => {
    const disk = new MemoryDisk({ clock: new SystemClock() })
    const first = await diskBroker(disk)
    await createTopic(first.broker, 'm', 1, IN_MEMORY)
    await createTopic(first.broker, 'd', 1)
    for (let count = 0; count < 5; count++) await produceOne(first.broker, 'm', 0, batchOf(2))
    await produceOne(first.broker, 'd', 0, batchOf(2))
    const epochs = (broker: typeof first.broker) => ['m', 'd'].map((topic) => broker.topics.get(topic).partitions[0]?.leaderEpoch ?? -1)
    const [mBefore = -1, dBefore] = epochs(first.broker)
    await first.close()
    const { broker, close } = await diskBroker(disk)
    assert.deepEqual(epochs(broker), [mBefore + 1, dBefore], 'only of what is gone')
    const { earliest, logEndOffset, leaderEpoch } = broker.offsets.bounds(contextOf(), 'm', 0)
    assert.deepEqual([earliest, logEndOffset, leaderEpoch], [0, 0, mBefore + 1])
    assert.equal((await fetchAt(broker, 10)).partitions[0]?.error?.code, 'OFFSET_OUT_OF_RANGE')
    assert.equal((await produceOne(broker, 'm', 0, batchOf(1))).baseOffset, 0)
    assert.equal(
      broker.offsets.endOfEpoch(contextOf(), 'm', 0, -1, mBefore).endOffset,
      0,
      'a client of the old epoch learns where it ended',
    )
    assert.equal(broker.offsets.bounds(contextOf(), 'd', 0).logEndOffset, 2)
    await close()
  })

  it('are refused beyond the bound before memory is taken, and go on when there is room again', async () => {
    const { broker, data, close } = await diskBroker(new MemoryDisk({ clock: new SystemClock() }))
    let asked = 0
    data.memory.logs.onDiskFull = () => {
      asked++
      data.memory.retention.hurry()
    }
    await createTopic(broker, 'm', 1, { ...IN_MEMORY, 'segment.bytes': String(MIB), 'retention.bytes': String(4 * MIB) })
    await createTopic(broker, 'other', 1, IN_MEMORY)
    const send = (topic: string) => produceOne(broker, topic, 0, batchOf(1, { valueBytes: 500_000 }))
    let stored = 0
    while ((await send('m')).error === null) stored++
    assert.ok(stored >= 25 && stored <= 33, `${stored} of half a megabyte fit 16 MiB`)
    assert.equal((await send('m')).error?.code, 'STORAGE_FULL')
    assert.equal((await send('other')).error?.code, 'STORAGE_FULL', 'one bound for all')
    const together = await Promise.all(Array.from({ length: 50 }, () => send('other')))
    assert.deepEqual([...new Set(together.map((each) => each.error?.code))], ['STORAGE_FULL'])
    assert.ok(asked > 0)
    await data.memory.retention.pass(new AbortController().signal)
    assert.equal((await send('other')).error, null, 'retention made room')
    assert.equal(broker.offsets.bounds(contextOf(), 'm', 0).logEndOffset, stored, 'nothing that was refused was kept')
    await broker.topics.delete(contextOf(), 'm')
    const more = await Promise.all(Array.from({ length: 10 }, () => send('other')))
    assert.deepEqual([...new Set(more.map((each) => each.error))], [null])
    await close()
  })

  it('many appends in one turn of the loop are counted before they are written', async () => {
    const { broker, data, close } = await diskBroker(new MemoryDisk({ clock: new SystemClock() }))
    await createTopic(broker, 'm', 80, IN_MEMORY)
    const sent = await Promise.all(
      Array.from({ length: 400 }, (_, index) => produceOne(broker, 'm', index % 80, batchOf(1, { valueBytes: 200_000 }))),
    )
    const stored = sent.filter((each) => each.error === null).length
    assert.ok(stored > 40 && stored <= 84, `${stored} of 0.2 MB each fit 16 MiB`)
    const { disk } = data.memory.logs.deps
    const names = (await disk.list('/memory-topics')).map((entry) => entry.name)
    assert.deepEqual(
      names.filter((name) => name.includes('journal')),
      [],
      'no journal takes memory',
    )
    await close()
  })
})
