import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { FETCH_BATCHED } from '../../../src/wire/opcodes.ts'
import { batchOf, contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

const NO_HEADERS: readonly never[] = []

function record(partition: number, value: string | null, key: string | null = null) {
  const bytes = (text: string | null) => (text === null ? null : Buffer.from(text))
  return { partition, key: bytes(key), value: bytes(value), headers: NO_HEADERS }
}

function read(partitions: readonly { partition: number; start: number; value: number }[], more: object = {}) {
  return { topic: 't', isolation: 0, maxRecords: 100, maxBytes: 1 << 20, maxWaitMs: 0, partitions, ...more }
}

type Part = { partition: number; code: number; errorName?: string; nextOffset: number; highWatermark: number; records: { value: Buffer }[] }

async function parts(connection: TestNativeConnection, message: Parameters<typeof read>[0], more: object = {}): Promise<Part[]> {
  return (await connection.call('READ', read(message, more) as never)).message['partitions'] as Part[]
}

async function extended(partitions = 3) {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', partitions)
  return { at, connection: await at.connect('extended') }
}

test('FETCH: a group, an isolation level and a mode for the whole connection', async () => {
  const { at } = await extended()
  const connection = await at.connect()
  equal(await connection.error('FETCH', { topic: 'missing', group: 'g', maxRecords: 1 }), 5)
  equal((await connection.call('FETCH', { topic: 't', group: 'g', maxRecords: 0 })).op, 'OK')
  equal(await connection.error('FETCH', { topic: 't', group: 'other', maxRecords: 1 }), 8)
  equal(await connection.error('FETCH', { topic: 't', group: 'g', maxRecords: 1, isolation: 1 }), 8)
  equal((await connection.call('FETCH', { topic: 't', group: 'g', maxRecords: 1, isolation: 7 })).op, 'OK')
})

test('FETCH reads all topics that the connection has named, and goes on from what was delivered', async () => {
  const { at } = await extended(1)
  await createTopic(at.broker, 'u')
  const connection = await at.connect()
  for (const topic of ['t', 'u', 't']) {
    await connection.call('PRODUCE', { codec: 0, topic, key: Buffer.alloc(0), value: Buffer.from(topic) })
  }
  const topics = async (topic: string) =>
    (await connection.exchange('FETCH', { topic, group: 'g', maxRecords: 10 })).map((frame) => frame.message['topic'] ?? frame.op)
  deepEqual(await topics('u'), ['u', 'OK'])
  deepEqual(await topics('t'), ['t', 't', 'OK'])
  await connection.call('PRODUCE', { codec: 0, topic: 'u', key: Buffer.alloc(0), value: Buffer.from('again') })
  deepEqual(await topics('t'), ['u', 'OK'])
  const next = await at.connect()
  deepEqual(
    (await next.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10 })).map((frame) => frame.op),
    ['OK'],
  )
})

test('FETCH: records without a time and from before 1970 come with time 0', async () => {
  const { at } = await extended(1)
  for (const timestampMs of [-1, -86_400_000, 5]) await produceOne(at.broker, 't', 0, batchOf(1, { timestampMs }))
  for (const flags of [0, FETCH_BATCHED]) {
    const connection = await at.connect()
    const frames = await connection.exchange('FETCH', { topic: 't', group: `g${flags}`, maxRecords: 10, isolation: 0, flags })
    equal(frames.at(-1)?.op, 'OK')
    const records = frames.flatMap(({ message }) => (message['records'] ?? [message]) as { timestampMs?: number }[])
    deepEqual(
      records.flatMap(({ timestampMs }) => timestampMs ?? []),
      [0, 0, 5],
    )
  }
})

test('LIST_OFFSETS tells all partitions of a topic that has more than version 1 can create', async () => {
  const { at, connection } = await extended(1500)
  const { message } = await connection.call('LIST_OFFSETS', { topic: 't', mode: 1, timestamp: 0 })
  equal((message['entries'] as unknown[]).length, 1500)
  equal((message['forTimes'] as unknown[]).length, 1500)
  equal(at.broker.topics.get('t').partitions.length, 1500)
})

test('the commit of a delivery does not wait for its sync, COMMIT does', async () => {
  const { at } = await extended(1)
  const connection = await at.connect()
  await connection.call('PRODUCE', { codec: 0, topic: 't', key: Buffer.alloc(0), value: Buffer.from('1') })
  // The first commit makes the topic of the offsets.
  await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10 })
  const offsets = [...at.logs.logs.values()].filter((log) => log.topic === '__consumer_offsets')
  equal(offsets.length > 0, true)
  for (const log of offsets) log.autoSync = false
  await connection.call('PRODUCE', { codec: 0, topic: 't', key: Buffer.alloc(0), value: Buffer.from('2') })
  deepEqual(
    (await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10 })).map((frame) => frame.op),
    ['RECORD', 'OK'],
  )
  const id = connection.send('COMMIT', { topic: 't', partition: 0, offset: 1 })
  deepEqual(await connection.received(), [])
  for (const log of offsets) log.sync()
  deepEqual(
    (await connection.received()).map((frame) => [frame.correlation, frame.op]),
    [[id, 'OK']],
  )
})

test('COMMIT: what is wrong with it', async () => {
  const { at } = await extended()
  const connection = await at.connect()
  equal(await connection.error('COMMIT', { topic: 't', partition: 0, offset: 0 }), 8)
  await connection.call('FETCH', { topic: 't', group: 'g', maxRecords: 0 })
  equal(await connection.error('COMMIT', { topic: 'missing', partition: 0, offset: 0 }), 5)
  equal(await connection.error('COMMIT', { topic: 't', partition: 3, offset: 0 }), 1)
  // A zero on the wire.
  equal(await connection.error('COMMIT', { topic: 't', partition: -1, offset: 0 }), 1)
  equal(await connection.error('COMMIT', { topic: 't', partition: 0, offset: 1 }), 1)
  equal(await connection.error('COMMIT', { topic: 't', partition: 0, offset: 2n ** 63n }), 1)
  equal((await connection.call('COMMIT', { topic: 't', partition: 2, offset: 0 })).op, 'OK')
})

test('a value that version 1 cannot carry is refused by its offset, not skipped', async () => {
  const { at, connection } = await extended(1)
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'x'.repeat(70_000))] })
  const old = await at.connect()
  for (let round = 0; round < 2; round++) {
    const answer = await old.call('FETCH', { topic: 't', group: 'g', maxRecords: 10 })
    equal(answer.message['code'], 7)
    equal(String(answer.message['message']).includes('offset 0 of t-0'), true)
  }
  equal((await parts(connection, [{ partition: 0, start: 1, value: 0 }]))[0]?.records[0]?.value.length, 70_000)
})

test('internal topics are refused, and missing ones named', async () => {
  const { at, connection } = await extended()
  await connection.exchange('STORE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition: 0, offset: 0 }] })
  const name = '__consumer_offsets'
  equal(at.broker.topics.find(name)?.internal, true)
  const produced = { codec: 0, topic: name, key: Buffer.alloc(0), value: Buffer.alloc(0) }
  equal(await connection.error('PRODUCE', produced), 18)
  equal(await connection.error('FETCH', { topic: name, group: 'g', maxRecords: 1 }), 18)
  equal(await connection.error('DELETE_TOPIC', { name }), 18)
  equal(await connection.error('CREATE_PARTITIONS', { name, total: 100 }), 18)
  equal(await connection.error('READ', { ...read([{ partition: 0, start: 1, value: 0 }]), topic: name } as never), 18)
  equal(await connection.error('CREATE_TOPIC', { name: '__mine', partitions: 1 }), 1)
  equal(await connection.error('CREATE_TOPIC', { name: '-dash', partitions: 1 }), 7)
  equal(await connection.error('CREATE_PARTITIONS', { name: 't', total: 3 }), 21)
  equal(await connection.error('CREATE_PARTITIONS', { name: 't', total: 2000 }), 21)
  equal(await connection.error('PRODUCE', { ...produced, topic: 'a/b' }), 7)
  equal(await connection.error('PRODUCE', { ...produced, topic: 'missing' }), 5)
  equal(await connection.error('PRODUCE', { ...produced, topic: 'missing', codec: 3 }), 7)
  const listed = await connection.call('LIST', { flags: 0 })
  deepEqual(
    (listed.message['topics'] as { name: string }[]).map((topic) => topic.name),
    ['t'],
  )
  const every = await connection.call('LIST', { flags: 1 })
  deepEqual(
    (every.message['topics'] as { name: string }[]).map((topic) => topic.name),
    [name, 't'],
  )
})

test('every name that begins with "__" is the broker\'s own for version 1, whether it exists or not', async () => {
  const { at, connection } = await extended()
  await createTopic(at.broker, '__made-through-kafka')
  const old = await at.connect()
  const value = { key: Buffer.alloc(0), value: Buffer.alloc(0) }
  for (const name of ['__made-through-kafka', '__not-there']) {
    const numbered = { flags: 1, codec: 0, topic: name, pid: 1, baseSeq: 0, epoch: 0, records: [value] }
    const { pid } = (await old.call('INIT_PRODUCER_ID', {})).message
    deepEqual(
      [
        await old.error('PRODUCE', { codec: 0, topic: name, ...value }),
        await old.error('PRODUCE_BATCH', { flags: 0, codec: 0, topic: name, records: [value] }),
        await old.error('PRODUCE_BATCH', { ...numbered, pid: Number(pid) }),
        await old.error('PRODUCE_IDEMPOTENT', { pid: Number(pid), seq: 0, epoch: 0, codec: 0, topic: name, ...value }),
        await old.error('FETCH', { topic: name, group: 'g', maxRecords: 1 }),
        await old.error('SUBSCRIBE', { topic: name, group: 'g' }),
        await old.error('DELETE_TOPIC', { name }),
        await old.error('ALTER_TOPIC_CONFIG', { name, config: new Map() }),
        await old.error('CREATE_PARTITIONS', { name, total: 9 }),
      ],
      Array(9).fill(18),
    )
  }
  deepEqual((await old.call('LIST_TOPICS', {})).message['names'], ['t'])
  equal((await old.call('DESCRIBE_TOPIC', { name: '__made-through-kafka' })).op, 'TOPIC_DESCRIPTION')
  // Who manages the broker reaches what Kafka's clients made.
  equal((await connection.call('CREATE_PARTITIONS', { name: '__made-through-kafka', total: 2 })).op, 'OK')
  equal((await connection.call('DELETE_TOPIC', { name: '__made-through-kafka' })).op, 'OK')
})

test('SEND: each record has its result, errors are told once', async () => {
  const { connection } = await extended()
  const records = [record(2, 'a'), record(7, 'b'), record(2, null), record(9, 'c'), record(7, 'd')]
  const { message } = await connection.call('SEND', { acks: 2, codec: 0, timeoutMs: 1000, topic: 't', records })
  deepEqual(message['results'], [
    { partition: 2, offset: 0, error: 0 },
    { partition: 7, offset: -1, error: 1 },
    { partition: 2, offset: 1, error: 0 },
    { partition: 9, offset: -1, error: 2 },
    { partition: 7, offset: -1, error: 1 },
  ])
  deepEqual(
    (message['errors'] as { name: string }[]).map((error) => error.name),
    ['PARTITION_MISSING', 'PARTITION_MISSING'],
  )
  equal(await connection.error('SEND', { acks: 3, codec: 0, timeoutMs: 1, topic: 't', records }), 1)
  equal(await connection.error('SEND', { acks: 1, codec: 5, timeoutMs: 1, topic: 't', records }), 7)
})

test('SEND with acks none is answered before the sync, with no offset', async () => {
  const { at, connection } = await extended()
  at.logs.at('t', 0).autoSync = false
  const sent = await connection.call('SEND', { acks: 0, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'a')] })
  deepEqual(sent.message['results'], [{ partition: 0, offset: -1, error: 0 }])
  connection.send('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'b')] })
  deepEqual(await connection.received(), [])
  at.logs.at('t', 0).sync()
  deepEqual((await connection.received())[0]?.message['results'], [{ partition: 0, offset: 1, error: 0 }])
})

test('READ waits on all its partitions at once, until one of them has something', async () => {
  const { at, connection } = await extended()
  const everywhere = [0, 1, 2].map((partition) => ({ partition, start: 2, value: 0 }))
  connection.send('READ', read(everywhere, { maxWaitMs: 1000 }) as never)
  deepEqual(await connection.received(), [])
  const other = await at.connect('extended')
  await other.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(1, 'x')] })
  const [answer] = await connection.received()
  deepEqual(
    ((answer?.message['partitions'] ?? []) as Part[]).map((part) => [part.partition, part.nextOffset, part.records.length]),
    [
      [0, 0, 0],
      [1, 1, 1],
      [2, 0, 0],
    ],
  )
  connection.send('READ', read([{ partition: 0, start: 0, value: 0 }], { maxWaitMs: 1000 }) as never)
  await connection.received()
  await at.clock.advance(1000)
  equal((await connection.received())[0]?.op, 'READ_RESULT')
})

test('READ: a refused partition says why, the others are served at once', async () => {
  const { connection } = await extended()
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'a'), record(1, 'b')] })
  const found = await parts(
    connection,
    [
      { partition: 5, start: 1, value: 0 },
      { partition: 0, start: 0, value: 9 },
      { partition: 1, start: 1, value: 0 },
      { partition: 2, start: 9, value: 0 },
    ],
    { maxWaitMs: 60_000 },
  )
  deepEqual(
    found.map((part) => [part.partition, part.errorName ?? part.records.length]),
    [
      [5, 'PARTITION_MISSING'],
      [0, 'OFFSET_OUT_OF_RANGE'],
      [1, 1],
      [2, 'INVALID_REQUEST'],
    ],
  )
})

test('READ keeps to its limits and goes on where it stopped', async () => {
  const { connection } = await extended(1)
  const records = Array.from({ length: 20 }, (_, i) => record(0, `${i}`.padEnd(100)))
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records })
  const [some] = await parts(connection, [{ partition: 0, start: 1, value: 0 }], { maxRecords: 7 })
  deepEqual([some?.records.length, some?.nextOffset, some?.highWatermark], [7, 7, 20])
  const [few] = await parts(connection, [{ partition: 0, start: 0, value: 7 }], { maxBytes: 350 })
  equal((few?.records.length ?? 0) < 4 && (few?.records.length ?? 0) > 0, true)
  equal(few?.nextOffset, 7 + (few?.records.length ?? 0))
})

test('positions of a group are stored and found again', async () => {
  const { connection } = await extended()
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'a'), record(2, 'b')] })
  const get = async () => (await connection.call('GET_POSITIONS', { group: 'g', topics: ['t'] })).message['topics']
  deepEqual(await get(), [{ topic: 't', offsets: [-1, -1, -1] }])
  const stored = {
    group: 'g',
    offsets: [
      { topic: 't', partition: 2, offset: 1 },
      { topic: 't', partition: 0, offset: 0 },
    ],
  }
  equal((await connection.call('STORE_POSITIONS', stored)).op, 'OK')
  deepEqual(await get(), [{ topic: 't', offsets: [0, -1, 1] }])
  equal(await connection.error('STORE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition: 0, offset: 2 }] }), 1)
  equal(await connection.error('STORE_POSITIONS', { group: '', offsets: stored.offsets }), 1)
  equal(await connection.error('GET_POSITIONS', { group: 'g', topics: ['missing'] }), 5)
})

test('an offset below 0, as Kafka clients store it to reset a group, is no position', async () => {
  const { at, connection } = await extended(1)
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [record(0, 'a')] })
  const value = { offset: -2, leaderEpoch: -1, metadata: '' }
  const commit = { group: 'g', generation: -1, memberId: '', instanceId: null, durable: true }
  deepEqual(await at.broker.groups.commit(contextOf(), { ...commit, offsets: [{ topic: 't', partition: 0, value }] }), [null])
  deepEqual((await connection.call('GET_POSITIONS', { group: 'g', topics: ['t'] })).message['topics'], [{ topic: 't', offsets: [-1] }])
  const reader = await at.connect()
  deepEqual(
    (await reader.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10 })).map((frame) => frame.op),
    ['RECORD', 'OK'],
  )
})

test('READ: small batches that inflate to much do not make a large answer', async () => {
  const { at, connection } = await extended(8)
  const big = Buffer.alloc(60_000, 120)
  for (let partition = 0; partition < 8; partition++) {
    const records = [{ key: null, value: big, partition, headers: NO_HEADERS }]
    await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records })
  }
  equal(at.logs.at('t', 7).logEndOffset, 1)
  const everywhere = Array.from({ length: 8 }, (_, partition) => ({ partition, start: 1, value: 0 }))
  let found = await parts(connection, everywhere, { maxBytes: 100_000 })
  equal(found.filter((part) => part.records.length > 0).length, 1)
  const seen = new Set<number>()
  for (let round = 0; round < 20 && seen.size < 8; round++) {
    for (const part of found) for (const _ of part.records) seen.add(part.partition)
    const next = found.map((part) => ({ partition: part.partition, start: 0, value: part.nextOffset }))
    found = await parts(connection, next, { maxBytes: 100_000 })
  }
  equal(seen.size, 8)
})

test('READ: a partition that is named twice is refused, before anything is read', async () => {
  const { connection } = await extended()
  const twice = [0, 1, 0].map((partition) => ({ partition, start: 1, value: 0 }))
  equal(await connection.error('READ', read(twice) as never), 1)
})

test('PRODUCE_BATCH: behind a record that is refused nothing is written, so that the rest can be sent again', async () => {
  const { at, connection } = await extended(1)
  await connection.call('CREATE', { name: 'c', partitions: 1, config: new Map([['cleanup.policy', 'compact']]) })
  const records = ['a', '', 'b'].map((key) => ({ key: Buffer.from(key), value: Buffer.from('v') }))
  const { message } = await connection.call('PRODUCE_BATCH', { flags: 0, codec: 0, topic: 'c', records })
  deepEqual([message['acks'], message['errorCode']], [[{ partition: 0, offset: 0 }], 7])
  equal(at.logs.at('c', 0).logEndOffset, 1)
})
