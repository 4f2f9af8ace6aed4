import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { Client, ClientRecord, Reader } from '../../src/client/types.ts'
import { isCode } from '../../src/core/errors.ts'
import { startTestBroker } from '../../src/testing/index.ts'

async function fresh(): Promise<{ client: Client; address: string } & AsyncDisposable> {
  const broker = await startTestBroker()
  const client = await connect({ address: broker.address, name: 'test' })
  return {
    client,
    address: broker.address,
    async [Symbol.asyncDispose]() {
      await client.close()
      await broker.close()
    },
  }
}

async function take(source: AsyncIterable<ClientRecord>, count: number): Promise<ClientRecord[]> {
  const taken: ClientRecord[] = []
  if (count === 0) return taken
  for await (const record of source) {
    taken.push(record)
    if (taken.length === count) break
  }
  return taken
}

async function all(reader: Reader): Promise<ClientRecord[]> {
  const taken: ClientRecord[] = []
  for await (const record of reader) taken.push(record)
  return taken
}

function text(record: ClientRecord): string {
  return `${record.partition}/${record.offset} ${record.key?.toString() ?? '-'}=${record.value?.toString() ?? '-'}`
}

test('the broker says who it is', async () => {
  await using at = await fresh()
  equal(at.client.server.name, 'MoonMQ')
  ok(at.client.server.version.length > 0)
})

test('topics are made, listed, described, grown and deleted', async () => {
  await using at = await fresh()
  const { admin } = at.client
  await admin.createTopic('orders', { partitions: 3, config: { 'retention.ms': '60000' } })
  await admin.createTopic('audit')
  deepEqual(await admin.listTopics(), [
    { name: 'audit', partitions: 1 },
    { name: 'orders', partitions: 3 },
  ])
  const found = await admin.describeTopic('orders')
  equal(found.id.length, 22)
  deepEqual([...found.config], [['retention.ms', '60000']])
  deepEqual(
    found.partitions,
    [0, 1, 2].map((partition) => ({ partition, earliest: 0, highWatermark: 0, lastStableOffset: 0, logEndOffset: 0 })),
  )
  await admin.createPartitions('orders', 5)
  equal((await admin.describeTopic('orders')).partitions.length, 5)
  await rejects(admin.createTopic('orders'), (error) => isCode(error, 'TOPIC_EXISTS'))
  await rejects(admin.createTopic('bad name'), (error) => isCode(error, 'TOPIC_NAME_INVALID'))
  await rejects(admin.createTopic('other', { config: { 'no.such': '1' } }), (error) => isCode(error, 'CONFIG_INVALID'))
  await admin.deleteTopic('orders')
  await rejects(admin.describeTopic('orders'), (error) => isCode(error, 'TOPIC_MISSING'))
})

test('records come back with partition, headers and nulls as they were sent', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t', { partitions: 2 })
  await using producer = at.client.producer()
  const big = Buffer.alloc(200_000, 7)
  const acked = await producer.sendMany('t', [
    {
      partition: 1,
      key: 'a',
      value: '1',
      headers: [
        { key: 'h', value: 'x' },
        { key: 'n', value: null },
      ],
    },
    { partition: 1, key: null, value: null },
    { partition: 0, value: big },
  ])
  deepEqual(acked, [
    { partition: 1, offset: 0 },
    { partition: 1, offset: 1 },
    { partition: 0, offset: 0 },
  ])
  const records = await all(at.client.reader({ topic: 't' }))
  const [first, second] = records.filter((record) => record.partition === 1)
  deepEqual(first?.headers, [
    { key: 'h', value: Buffer.from('x') },
    { key: 'n', value: null },
  ])
  equal(second?.key, null)
  equal(second?.value, null)
  deepEqual(records.find((record) => record.partition === 0)?.value, big)
  ok((first?.timestampMs ?? 0) > 0)
})

test('keys choose the partition by FNV-1a, and a missing one is told', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t', { partitions: 4 })
  await using producer = at.client.producer({ acks: 'all' })
  deepEqual(await producer.send('t', { key: 'k1', value: 'v' }), { partition: 1, offset: 0 })
  deepEqual(await producer.send('t', { key: 'k2', value: 'v' }), { partition: 0, offset: 0 })
  await rejects(producer.send('t', { partition: 4, value: 'v' }), (error) => isCode(error, 'PARTITION_MISSING'))
  await rejects(producer.send('missing', { value: 'v' }), (error) => isCode(error, 'TOPIC_MISSING'))
})

test('a reader starts where it is told', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t')
  await using producer = at.client.producer()
  for (let i = 0; i < 10; i++) await producer.send('t', { value: String(i) })
  const { reader } = at.client
  const read = async (from: Parameters<typeof reader>[0]['from']) =>
    (await all(at.client.reader({ topic: 't', ...(from === undefined ? {} : { from }) }))).map((record) => record.offset)
  deepEqual(await read('earliest'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  deepEqual(await read('latest'), [])
  deepEqual(await read({ offset: 7 }), [7, 8, 9])
  const [fifth] = (await all(at.client.reader({ topic: 't', from: { offset: 5 } }))) as [ClientRecord]
  ok((await read({ timestampMs: fifth.timestampMs }))[0] !== undefined)
  deepEqual(await read({ timestampMs: fifth.timestampMs + 3_600_000 }), [])
  await rejects(read({ offset: 11 }), (error) => isCode(error, 'OFFSET_OUT_OF_RANGE'))
})

test('a reader that follows gets what comes, from every partition', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t', { partitions: 3 })
  await using producer = at.client.producer()
  await producer.send('t', { partition: 2, value: 'before' })
  const reader = at.client.reader({ topic: 't', follow: true })
  const taking = take(reader, 4)
  for (const partition of [0, 1, 2]) await producer.send('t', { partition, value: `after ${partition}` })
  deepEqual((await taking).map(text).sort(), ['0/0 -=after 0', '1/0 -=after 1', '2/0 -=before', '2/1 -=after 2'])
})

test('a consumer goes on where its group stopped', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t')
  await using producer = at.client.producer()
  await producer.sendMany(
    't',
    Array.from({ length: 10 }, (_, i) => ({ value: String(i) })),
  )
  const first = await take(at.client.consumer({ group: 'g', topics: ['t'] }), 4)
  deepEqual(
    first.map((record) => record.offset),
    [0, 1, 2, 3],
  )
  // The loop never asked for the record after the fourth, so it does not count as done.
  const second = await take(at.client.consumer({ group: 'g', topics: ['t'], commit: 'manual' }), 7)
  deepEqual(
    second.map((record) => record.offset),
    [3, 4, 5, 6, 7, 8, 9],
  )
  const third = at.client.consumer({ group: 'g', topics: ['t'], commit: 'manual' })
  await third.commit(second[5] as ClientRecord)
  deepEqual(
    (await take(third, 1)).map((record) => record.offset),
    [9],
  )
})

test('a signal ends whoever waits, and closing ends the loop quietly', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t')
  const abort = new AbortController()
  const waiting = take(at.client.reader({ topic: 't', follow: true, signal: abort.signal }), 1)
  abort.abort()
  await rejects(waiting, (error) => isCode(error, 'ABORTED'))
  const reader = at.client.reader({ topic: 't', follow: true })
  const loop = take(reader, 1)
  await reader.close()
  deepEqual(await loop, [])
})

test('many records through a small bound of pending bytes', async () => {
  await using at = await fresh()
  await at.client.admin.createTopic('t', { partitions: 3 })
  await using producer = at.client.producer({ maxPendingBytes: 64 * 1024, batchBytes: 16 * 1024 })
  const count = 5_000
  const sends = Array.from({ length: count }, (_, i) => producer.send('t', { key: `k${i % 50}`, value: `${i}`.padEnd(100) }))
  await producer.flush()
  await Promise.all(sends)
  const records = await all(at.client.reader({ topic: 't', maxBytes: 50_000 }))
  equal(records.length, count)
  const last = new Map<string, number>()
  for (const record of records) {
    const key = record.key?.toString() ?? ''
    const n = Number(record.value?.toString())
    ok(n > (last.get(key) ?? -1), `${key}: ${n} after ${last.get(key)}`)
    last.set(key, n)
  }
})

test('groups are listed and described with their lag; offsets are set and forgotten while nobody reads', async () => {
  await using at = await fresh()
  const { admin } = at.client
  await admin.createTopic('t', { partitions: 2 })
  await using producer = at.client.producer()
  for (const value of ['a', 'b', 'c']) await producer.send('t', { partition: 1, value })
  await admin.storeOffsets('g', [{ topic: 't', partition: 1, offset: 2 }])
  const consumer = at.client.consumer({ group: 'g', memberId: 'm', topics: ['t'], commit: 'manual' })
  const [first] = await takeOpen(consumer)
  equal(first?.offset, 2)
  deepEqual(await admin.listGroups(), [{ group: 'g', kind: 'native', state: 'stable', members: 1 }])
  const found = await admin.describeGroup('g')
  deepEqual(found.offsets, [{ topic: 't', partition: 1, offset: 2, end: 3 }])
  deepEqual(
    found.members.map(({ memberId, clientId, assignment }) => ({ memberId, clientId, assignment })),
    [{ memberId: 'm', clientId: 'test', assignment: [{ topic: 't', partitions: [0, 1] }] }],
  )
  await rejects(admin.storeOffsets('g', [{ topic: 't', partition: 1, offset: 0 }]), (error) => isCode(error, 'GROUP_NOT_EMPTY'))
  await rejects(admin.deleteGroup('g'), (error) => isCode(error, 'GROUP_NOT_EMPTY'))
  await consumer.close()
  await admin.deleteOffsets('g', [{ topic: 't', partition: 1 }])
  deepEqual((await admin.committedOffsets('g', ['t']))[0]?.offsets, [-1, -1])
})

/** The first record, with the loop left open. */
async function takeOpen(source: AsyncIterable<ClientRecord>): Promise<ClientRecord[]> {
  const { value, done } = await source[Symbol.asyncIterator]().next()
  return done === true ? [] : [value]
}
