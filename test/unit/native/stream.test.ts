import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { buildBatch } from '../../../src/record/builder.ts'
import type { Message } from '../../../src/wire/messages.ts'
import { contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, type TestNativeDoor, testNativeDoor } from '../../support/native-door.ts'

interface Given {
  readonly topic: string
  readonly partition: number
  readonly records: readonly { offset: number; key: Buffer | null; value: Buffer | null; headers: readonly { key: string }[] }[]
}

const START_EARLIEST = 1
const START_LATEST = 2
const START_COMMITTED = 4

async function setUp(partitions = 1, config: Record<string, string> = {}) {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', partitions, config)
  return at
}

async function fill(at: TestNativeDoor, count: number, topic = 't', partition = 0, bytes = 1) {
  const records = Array.from({ length: count }, () => ({ key: null, value: Buffer.alloc(bytes), timestampMs: 1_700_000_000_000 }))
  await produceOne(at.broker, topic, partition, buildBatch(records))
}

const request = (more: Partial<Message<'STREAM'>> = {}): Message<'STREAM'> => ({
  group: 'g',
  isolation: 0,
  records: 100,
  bytes: 100_000,
  topics: [{ topic: 't', start: START_COMMITTED, value: 0, positions: [] }],
  ...more,
})

const given = (frames: readonly Received[]): string[] =>
  frames.flatMap(({ op, message }) => {
    if (op !== 'STREAMED') return [op]
    const { topic, partition, records } = message as unknown as Given
    return records.map(({ offset }) => `${topic}-${partition}@${offset}`)
  })

const settle = (connection: TestNativeConnection, done: [first: number, last: number][], failed: number[] = [], topic = 't') =>
  connection.exchange('SETTLE', {
    done: done.map(([first, last]) => ({ topic, partition: 0, first, last })),
    failed: failed.map((offset) => ({ topic, partition: 0, offset, reason: 'bad' })),
  })

function fateIn(frames: readonly Received[]) {
  return (frames[0]?.message['failed'] as Message<'SETTLED'>['failed'] | undefined)?.[0]
}

async function committed(at: TestNativeDoor, topic = 't', group = 'g'): Promise<number | undefined> {
  const [found] = await at.broker.groups.committed(contextOf(), { group, topics: [{ topic, partitions: [0] }] })
  return found?.value?.offset
}

test('STREAM: null values and headers, as far as there is credit, and nothing is committed but what is answered for', async () => {
  const at = await setUp()
  const headers = [{ key: 'h', value: null }]
  await produceOne(at.broker, 't', 0, buildBatch([{ key: null, value: null, timestampMs: 1_700_000_000_000, headers }]))
  await fill(at, 9)
  const connection = await at.connect('extended')
  const frames = await connection.exchange('STREAM', request({ records: 4 }))
  deepEqual(given(frames), ['OK', 't-0@0', 't-0@1', 't-0@2', 't-0@3'])
  const [first] = (frames[1]?.message as unknown as Given | undefined)?.records ?? []
  deepEqual([first?.key, first?.value, first?.headers[0]?.key], [null, null, 'h'])
  equal(await committed(at), undefined)
  deepEqual(given(await settle(connection, [[1, 2]])), ['SETTLED'])
  equal(await committed(at), 0, 'the first is not answered for')
  await settle(connection, [[0, 0]])
  equal(await committed(at), 3)
  deepEqual(given(await connection.exchange('CREDIT', { records: 2, bytes: 0 })), ['t-0@4', 't-0@5'])
  await settle(connection, [[3, 100]])
  equal(await committed(at), 6)
  deepEqual(given(await connection.exchange('CREDIT', { records: 0, bytes: 1000 })), [])
  deepEqual(given(await connection.exchange('CREDIT', { records: 50, bytes: 0 })), ['t-0@6', 't-0@7', 't-0@8', 't-0@9'])
  await fill(at, 1)
  deepEqual(given(await connection.received()), ['t-0@10'])
})

test('STREAM: credit in bytes; one record goes beyond it and is owed', async () => {
  const at = await setUp()
  await fill(at, 3, 't', 0, 1000)
  const connection = await at.connect('extended')
  deepEqual(given(await connection.exchange('STREAM', request({ bytes: 500 }))), ['OK', 't-0@0'])
  deepEqual(given(await connection.exchange('CREDIT', { records: 0, bytes: 400 })), [])
  deepEqual(given(await connection.exchange('CREDIT', { records: 0, bytes: 1100 })), ['t-0@1'])
})

test('STREAM begins where it is told, adds topics, and ends them', async () => {
  const at = await setUp(2)
  await createTopic(at.broker, 'u')
  await fill(at, 3)
  await fill(at, 3, 't', 1)
  await fill(at, 3, 'u')
  const connection = await at.connect('extended')
  const topics = [{ topic: 't', start: START_LATEST, value: 0, positions: [{ partition: 1, offset: 2 }] }]
  deepEqual(given(await connection.exchange('STREAM', request({ topics }))), ['OK', 't-1@2'])
  const more = [{ topic: 'u', start: START_EARLIEST, value: 0, positions: [] }]
  deepEqual(given(await connection.exchange('STREAM', request({ topics: more }))), ['OK', 'u-0@0', 'u-0@1', 'u-0@2'])
  equal((await connection.exchange('UNSTREAM', { topics: ['u'] }))[0]?.op, 'OK')
  await fill(at, 1, 'u')
  await fill(at, 1)
  deepEqual(given(await connection.received()), ['t-0@3'])
  await settle(connection, [[0, 9]], [], 'u')
  equal(await committed(at, 'u'), undefined)
  for (const [bad, code] of [
    [request({ group: 'other' }), 8],
    [request({ isolation: 1 }), 8],
    [request({ topics: [{ topic: 'missing', start: 4, value: 0, positions: [] }] }), 5],
    [request({ topics: [{ topic: 't', start: 9, value: 0, positions: [] }] }), 1],
    [request({ topics: [{ topic: 't', start: 4, value: 0, positions: [{ partition: 7, offset: 0 }] }] }), 1],
  ] as const)
    equal(await connection.error('STREAM', bad), code)
  equal(await connection.error('FETCH', { topic: 't', group: 'g', maxRecords: 1 }), 8)
  equal(await connection.error('SUBSCRIBE', { topic: 't', group: 'g' }), 8)
  equal(await connection.error('NACK', { topic: 't', partition: 0, offset: 3, reason: '' }), 8)
  const other = await at.connect('extended')
  equal(await other.error('SETTLE', { done: [], failed: [] }), 8)
  equal(await other.error('CREDIT', { records: 1, bytes: 1 }), 8)
  equal(await (await at.connect()).error('STREAM', request()), 2)
})

test('SETTLE: what failed comes again by itself, at last as a dead letter, and the others are not held up', async () => {
  const at = await setUp()
  await fill(at, 5)
  const connection = await at.connect('extended')
  await connection.exchange('STREAM', request())
  const failing = async () => {
    const frames = await settle(connection, [], [1])
    const fate = fateIn(frames)
    return [fate?.fate, fate?.attempts, fate?.topic, ...given(frames.slice(1))]
  }
  deepEqual(await failing(), [1, 1, '', 't-0@1'])
  await settle(connection, [
    [0, 0],
    [2, 4],
  ])
  equal(await committed(at), 1)
  deepEqual(await failing(), [1, 2, '', 't-0@1'])
  deepEqual(await failing(), [2, 3, 't.dlq'])
  equal(await committed(at), 5)
  const fate = fateIn(await settle(connection, [], [1]))
  deepEqual([fate?.fate, fate?.code, fate?.errorName], [0, 1, 'INVALID_REQUEST'])
})

test('delayed retry: tier by tier after its time, to its own group alone, and to the dead letters at last', async () => {
  const at = await setUp(1, { 'moonmq.retry.delays': '1s, 10s' })
  await fill(at, 2)
  const connection = await at.connect('extended')
  const other = await at.connect('extended')
  deepEqual(given(await connection.exchange('STREAM', request())), ['OK', 't-0@0', 't-0@1'])
  deepEqual(given(await other.exchange('STREAM', request({ group: 'other' }))), ['OK', 't-0@0', 't-0@1'])
  const fail = async (offset: number, topic: string) => {
    const frames = await settle(connection, [], [offset], topic)
    const fate = fateIn(frames)
    return [fate?.fate, fate?.attempts, fate?.topic, ...given(frames.slice(1))]
  }
  deepEqual(await fail(0, 't'), [2, 1, 't.retry.1'])
  await settle(connection, [[1, 1]])
  equal(await committed(at), 2)
  await at.clock.advance(999)
  deepEqual(given(await connection.received()), [])
  await at.clock.advance(1)
  deepEqual(given(await connection.received()), ['t.retry.1-0@0'])
  deepEqual(await fail(0, 't.retry.1'), [2, 2, 't.retry.2'])
  await at.clock.advance(10_000)
  deepEqual(given(await connection.received()), ['t.retry.2-0@0'])
  deepEqual(await fail(0, 't.retry.2'), [2, 3, 't.dlq'])
  deepEqual(given(await other.received()), [])
  const read = await at.broker.records.read(contextOf(), {
    topic: 't.dlq',
    partition: 0,
    offset: 0,
    isolation: 'read_uncommitted',
    maxRecords: 10,
    maxBytes: 1000,
    maxWaitMs: 0,
  })
  const headers = new Map(read.records[0]?.headers.map(({ key, value }) => [key, String(value)]))
  deepEqual(
    ['topic', 'partition', 'offset', 'group', 'attempts', 'reason'].map((name) => headers.get(`moonmq.dlq.${name}`)),
    ['t', '0', '0', 'g', '3', 'bad'],
  )
  ok([...headers.keys()].every((name) => !name.startsWith('moonmq.retry.')))
  read.release()
})

test('SETTLE: what could not be stored was refused all the same, and comes again after a while', async () => {
  const at = await setUp()
  await createTopic(at.broker, 't.dlq')
  await fill(at, 3)
  const connection = await at.connect('extended')
  await connection.exchange('STREAM', request())
  for (let attempt = 1; attempt < 3; attempt++) await settle(connection, [], [1])
  at.logs.at('t.dlq', 0).state = 'failed'
  const frames = await settle(connection, [[0, 0]], [1])
  deepEqual([fateIn(frames)?.fate, fateIn(frames)?.code, ...given(frames.slice(1))], [0, 7])
  await settle(connection, [[2, 2]])
  equal(await committed(at), 1)
  await at.clock.advance(999)
  deepEqual(given(await connection.received()), [])
  at.logs.at('t.dlq', 0).state = 'online'
  await at.clock.advance(1)
  deepEqual(given(await connection.received()), ['t-0@1'])
  equal(fateIn(await settle(connection, [], [1]))?.fate, 2)
  equal(await committed(at), 3)
  await at.clock.advance(10_000)
  deepEqual(given(await connection.received()), [])
})

test('SETTLE: a letter of a record that comes by again on the next connection is not written twice', async () => {
  const at = await setUp()
  await fill(at, 3)
  for (let life = 0; life < 2; life++) {
    const connection = await at.connect('extended')
    await connection.exchange('STREAM', request())
    for (let attempt = 1; attempt <= 3; attempt++) equal(fateIn(await settle(connection, [], [1]))?.attempts, attempt)
    equal(await committed(at), 0, 'the first is not answered for')
    connection.socket.destroy()
  }
  equal(at.logs.at('t.dlq', 0).logEndOffset, 1)
})

test("SETTLE: what was given before a partition was with another member is nobody's to answer for", async () => {
  const at = await setUp(2)
  await fill(at, 5, 't', 1)
  await createTopic(at.broker, 'u')
  const join = (connection: TestNativeConnection, memberId: string) =>
    connection.exchange('JOIN_GROUP', { group: 'g', memberId, topics: ['t'] })
  const [a, b] = [await at.connect('extended'), await at.connect('extended')]
  await join(a, 'a')
  equal(given(await a.exchange('STREAM', request())).length, 6)
  await join(b, 'b')
  await a.received()
  equal(given(await b.exchange('STREAM', request())).length, 6)
  await b.exchange('SETTLE', { done: [{ topic: 't', partition: 1, first: 0, last: 4 }], failed: [] })
  b.socket.destroy()
  await b.received()
  await fill(at, 1, 't', 1)
  deepEqual(given(await a.received()), ['t-1@5'])
  const offset = async () => {
    const [found] = await at.broker.groups.committed(contextOf(), { group: 'g', topics: [{ topic: 't', partitions: [1] }] })
    return found?.value?.offset
  }
  equal(await offset(), 5)
  await a.exchange('SETTLE', {
    done: [{ topic: 't', partition: 1, first: 5, last: 5 }],
    failed: [{ topic: 't', partition: 1, offset: 3, reason: '' }],
  })
  equal(await offset(), 6)
})

test('STREAM: a group that is not the joined one is refused, and so is everything of a request in which one topic is', async () => {
  const at = await setUp()
  await createTopic(at.broker, 'u')
  await fill(at, 1)
  await fill(at, 1, 'u')
  const connection = await at.connect('extended')
  await connection.exchange('JOIN_GROUP', { group: 'other', memberId: '', topics: ['t'] })
  equal(await connection.error('STREAM', request()), 13)
  await connection.exchange('LEAVE_GROUP', { group: 'other', memberId: '' })
  deepEqual(given(await connection.exchange('STREAM', request())), ['OK', 't-0@0'])
  const topic = (name: string) => ({ topic: name, start: START_EARLIEST, value: 0, positions: [] })
  equal(await connection.error('STREAM', request({ topics: [topic('t'), topic('u'), topic('missing')] })), 5)
  await fill(at, 1, 'u')
  deepEqual(given(await connection.received()), [])
  equal((await settle(connection, [[0, 0]]))[0]?.op, 'SETTLED')
  equal(await committed(at), 1)
})

test('STREAM of a member begins where it is told in what is its own', async () => {
  const at = await setUp(2)
  await fill(at, 3)
  const connection = await at.connect('extended')
  await connection.exchange('JOIN_GROUP', { group: 'g', memberId: '', topics: ['t'] })
  const topics = [{ topic: 't', start: START_LATEST, value: 0, positions: [{ partition: 0, offset: 2 }] }]
  deepEqual(given(await connection.exchange('STREAM', request({ topics }))), ['OK', 't-0@2'])
})

test('SETTLE: more failures than one request may carry', async () => {
  const at = await setUp()
  const connection = await at.connect('extended')
  await connection.exchange('STREAM', request())
  const failed = Array.from({ length: 257 }, (_, offset) => offset)
  equal((await settle(connection, [], failed))[0]?.message['code'], 1)
})
