import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import { provenanceOf } from '../../../src/record/dead-letter.ts'
import type { RecordHeader } from '../../../src/record/record.ts'
import { contextOf, createTopic, NOW_MS, produceOne } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, type TestNativeDoor, testNativeDoor } from '../../support/native-door.ts'
import { setGroup } from '../../support/share-member.ts'

async function setUp(partitions = 1, config: Record<string, string> = {}, topic = 't') {
  const at = await testNativeDoor()
  await createTopic(at.broker, topic, partitions, config)
  return at
}

async function fill(
  at: TestNativeDoor,
  values: readonly (string | null)[],
  topic = 't',
  partition = 0,
  headers: readonly RecordHeader[] = [],
) {
  const records = values.map((value) => ({ key: null, value: value === null ? null : Buffer.from(value), timestampMs: NOW_MS, headers }))
  await produceOne(at.broker, topic, partition, buildBatch(records))
}

const ten = () => Array.from({ length: 10 }, (_, at) => `${at}`)

const offsets = (frames: readonly Received[]) => frames.flatMap(({ op, message }) => (op === 'RECORD' ? [Number(message['offset'])] : []))

const fetched = async (connection: TestNativeConnection, topic = 't', group = 'g', maxRecords = 100) =>
  offsets(await connection.exchange('FETCH', { topic, group, maxRecords, isolation: 0 }))

const nack = (offset: number, topic = 't', partition = 0) => ({ topic, partition, offset, reason: 'bad' })

/** Refuses them one by one: the attempts of each, `dead` where it is a dead letter now. */
async function refused(connection: TestNativeConnection, failing: readonly number[], topic = 't'): Promise<(number | string)[]> {
  const answers: (number | string)[] = []
  for (const offset of failing) {
    const { op, message } = (await connection.exchange('NACK', nack(offset, topic)))[0] as Received
    answers.push(op === 'ERROR' ? `code ${message['code']}` : message['deadLettered'] === 1 ? 'dead' : Number(message['attempts']))
  }
  return answers
}

async function committed(at: TestNativeDoor, topic = 't', group = 'g', partition = 0): Promise<number | undefined> {
  const [found] = await at.broker.groups.committed(contextOf(), { group, topics: [{ topic, partitions: [partition] }] })
  return found?.value?.offset
}

async function letters(at: TestNativeDoor, topic = 't.dlq', partition = 0) {
  if (at.broker.topics.find(topic) === undefined) return []
  const request = { topic, partition, offset: 0, isolation: 'read_uncommitted', maxRecords: 1000, maxBytes: 1e6, maxWaitMs: 0 } as const
  const read = await at.broker.records.read(contextOf(), request)
  read.release()
  return read.records.map(({ headers, value }) => ({ from: provenanceOf(headers), value: value === null ? null : String(value) }))
}

const letterOffsets = async (at: TestNativeDoor, topic?: string) => (await letters(at, topic)).map(({ from }) => from?.offset)

for (const [name, failing] of [
  ['in order', [3, 5]],
  ['turned around', [5, 3]],
] as const) {
  test(`NACK of two records of one FETCH, ${name}: the group goes on behind neither before it is dead`, async () => {
    const at = await setUp()
    await fill(at, ten())
    const connection = await at.connect()
    for (const attempts of [1, 2]) {
      deepEqual(await fetched(connection), attempts === 1 ? [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] : [3, 4, 5, 6, 7, 8, 9])
      deepEqual(await refused(connection, failing), [attempts, attempts])
      equal(await committed(at), 3)
    }
    deepEqual(await fetched(connection), [3, 4, 5, 6, 7, 8, 9])
    deepEqual(await refused(connection, failing), ['dead', 'dead'])
    deepEqual((await letterOffsets(at)).sort(), [3, 5])
    deepEqual(await fetched(connection), [])
  })
}

test('NACK: a record that is to come again stays to come while a later one dies, also for the next connection', async () => {
  const at = await setUp()
  await fill(at, ten())
  const first = await at.connect()
  await fetched(first)
  deepEqual(await refused(first, [3, 5, 5]), [1, 1, 2])
  deepEqual(await refused(first, [5]), ['dead'])
  equal(await committed(at), 3)
  first.socket.destroy()
  const second = await at.connect()
  deepEqual(await fetched(second), [3, 4, 5, 6, 7, 8, 9])
  // It comes by again because of the other one, and is refused as often as ever: its letter is there already.
  deepEqual(await refused(second, [5, 5, 5]), [1, 2, 'dead'])
  deepEqual(await letterOffsets(at), [5])
  deepEqual(await refused(second, [3]), [2])
})

test('NACK over SUBSCRIBE: several of what was pushed, sent together, all come again', async () => {
  const at = await setUp()
  await fill(at, ten())
  const connection = await at.connect()
  await connection.exchange('SUBSCRIBE', { topic: 't', group: 'g', isolation: 0 })
  for (const dies of [false, false, true]) {
    for (const offset of [7, 2, 4]) connection.send('NACK', nack(offset))
    const frames = await connection.received()
    const answers = frames.filter(({ op }) => op === 'NACK_ACK').map(({ message }) => message['deadLettered'] === 1)
    deepEqual(answers, [dies, dies, dies])
    deepEqual([...new Set(offsets(frames))].sort(), dies ? [] : [2, 3, 4, 5, 6, 7, 8, 9])
  }
  deepEqual((await letterOffsets(at)).sort(), [2, 4, 7])
})

test('NACK while a round is on its way: the commit of that round does not undo it', async () => {
  const at = await setUp()
  await fill(at, ten())
  const connection = await at.connect()
  await connection.exchange('SUBSCRIBE', { topic: 't', group: 'g', isolation: 0 })
  connection.socket.holding = true
  await fill(at, ten())
  await connection.received()
  connection.send('NACK', nack(4))
  await connection.received()
  connection.socket.drain()
  connection.socket.holding = true
  // The round with 10 to 19 was taken by now; the one that begins at 4 was not.
  deepEqual(offsets(await connection.received())[0], 4)
  equal(await committed(at), 4)
})

test('NACK and COMMIT of a partition that a member has lost, or of one that has lapsed, are refused and change nothing', async () => {
  const at = await setUp(2)
  await fill(at, ten(), 't', 1)
  const [a, b] = [await at.connect(), await at.connect()]
  const join = (connection: TestNativeConnection, memberId: string) =>
    connection.call('JOIN_GROUP', { group: 'g', memberId, topics: ['t'] })
  await join(a, 'a')
  deepEqual(await fetched(a), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  await join(b, 'b')
  await fill(at, ten(), 't', 1)
  equal((await fetched(b)).length, 10)
  equal(await a.error('NACK', nack(3, 't', 1)), 12)
  equal(await a.error('COMMIT', { topic: 't', partition: 1, offset: 4 }), 12)
  equal(await committed(at, 't', 'g', 1), 20)
  equal((await b.call('NACK', nack(13, 't', 1))).op, 'NACK_ACK')
  equal((await b.call('COMMIT', { topic: 't', partition: 1, offset: 14 })).op, 'OK')
  for (let i = 0; i < 5; i++) {
    b.send('HEARTBEAT_RESP', {})
    await at.clock.advance(10_000)
  }
  await b.received()
  equal(await b.error('NACK', nack(13, 't', 1)), 12)
  equal(await committed(at, 't', 'g', 1), 14)
})

test('NACK of a control record, and of an aborted one for who reads committed, is code 7', async () => {
  const at = await setUp()
  const log = at.logs.at('t', 0)
  const put = (bytes: Buffer) => log.append(bytes, readBatchHeader(bytes), { leaderEpoch: 0 })
  const options: BatchOptions = { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 0 }
  put(buildBatch([{ key: null, value: Buffer.from('aborted'), timestampMs: NOW_MS }], options))
  put(buildEndTxnMarker({ commit: false, producerId: 1, producerEpoch: 0, coordinatorEpoch: 0, timestampMs: NOW_MS }))
  log.aborted = [{ producerId: 1, firstOffset: 0 }]
  await fill(at, ['a'])
  const reading = async (isolation: number) => {
    const connection = await at.connect()
    await connection.exchange('FETCH', { topic: 't', group: `${isolation}`, maxRecords: 10, isolation })
    return connection
  }
  const [all, decided] = [await reading(0), await reading(1)]
  deepEqual(await refused(all, [1, 0]), ['code 7', 1])
  deepEqual(await refused(decided, [1, 0, 2]), ['code 7', 'code 7', 1])
  equal(await committed(at, 't', '1'), 2)
})

test('NACK whose dead letter cannot be written: code 7, the record comes again, and a repeat moves it', async () => {
  const at = await setUp()
  await fill(at, ten())
  const connection = await at.connect()
  await fetched(connection)
  await createTopic(at.broker, 't.dlq')
  at.logs.at('t.dlq', 0).state = 'failed'
  deepEqual(await refused(connection, [3, 3]), [1, 2])
  for (let again = 0; again < 2; again++) {
    deepEqual(await fetched(connection), [3, 4, 5, 6, 7, 8, 9])
    deepEqual(await refused(connection, [3]), ['code 7'])
    equal(await committed(at), 3)
  }
  deepEqual(await fetched(connection), [3, 4, 5, 6, 7, 8, 9])
  at.logs.at('t.dlq', 0).state = 'online'
  deepEqual(await refused(connection, [3]), ['dead'])
  deepEqual(
    (await letters(at)).map(({ from }) => [from?.offset, from?.attempts]),
    [[3, 5]],
  )
  equal(await committed(at), 4)
})

test('a dead letter of an earlier topic of that name, or of an earlier life of the group, is not taken for this one', async () => {
  const at = await setUp()
  const connection = await at.connect()
  const dies = async (group: string) => {
    await fetched(connection, 't', group)
    await refused(connection, [0, 0])
    // The letter may be there or not, as far as the retry knows.
    at.logs.at('t.dlq', 0).state = 'failed'
    deepEqual(await refused(connection, [0]), ['code 7'])
    at.logs.at('t.dlq', 0).state = 'online'
    deepEqual(await refused(connection, [0]), ['dead'])
  }
  await createTopic(at.broker, 't.dlq')
  await fill(at, ['first'])
  await dies('g')
  await at.broker.topics.delete(contextOf(), 't')
  await createTopic(at.broker, 't')
  await at.clock.advance(1000)
  const batch = buildBatch([{ key: null, value: Buffer.from('second'), timestampMs: NOW_MS + 5 }])
  await produceOne(at.broker, 't', 0, batch)
  await dies('g')
  // Read again from the beginning.
  await connection.call('COMMIT', { topic: 't', partition: 0, offset: 1 })
  await at.clock.advance(1000)
  const other = await at.connect()
  await other.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 0, isolation: 0 })
  await other.call('COMMIT', { topic: 't', partition: 0, offset: 0 })
  connection.socket.destroy()
  const again = await at.connect()
  await fetched(again)
  await refused(again, [0, 0])
  at.logs.at('t.dlq', 0).state = 'failed'
  deepEqual(await refused(again, [0]), ['code 7'])
  at.logs.at('t.dlq', 0).state = 'online'
  deepEqual(await refused(again, [0]), ['dead'])
  deepEqual(
    (await letters(at)).map(({ value }) => value),
    ['first', 'second', 'second'],
  )
})

/** What the group's latest commit of the partition carries. */
async function counters(at: TestNativeDoor): Promise<string> {
  let found = ''
  for (const { partition } of at.broker.topics.get('__consumer_offsets').partitions) {
    if (at.logs.get({ topic: '__consumer_offsets', partition }) === undefined) continue
    const request = { topic: '__consumer_offsets', partition, offset: 0, isolation: 'read_uncommitted', maxWaitMs: 0 } as const
    const read = await at.broker.records.read(contextOf({ protocol: 'internal' }), { ...request, maxRecords: 10_000, maxBytes: 1e7 })
    for (const { headers } of read.records) found = headers[0]?.value?.toString() ?? ''
    read.release()
  }
  return found
}

test('counters of records that went well after all go, also for a client that never commits', async () => {
  const at = await setUp()
  const connection = await at.connect()
  let longest = 0
  for (let round = 0; round < 40; round++) {
    await fill(at, ['a', 'bad', 'b', 'bad'])
    const [first = 0] = await fetched(connection)
    deepEqual(await refused(connection, [first + 1, first + 3]), [1, 1])
    await fetched(connection)
    longest = Math.max(longest, (await counters(at)).length)
  }
  ok(longest < 8 * 40, `${longest} bytes of counters in one commit`)
  // One round behind it still counts on.
  deepEqual(await refused(connection, [157]), [2])
})

test('eviction: a counter that 4,096 others came after is gone, and the group lives on', async () => {
  const at = await setUp(16)
  await fill(at, ['a'])
  const connection = await at.connect()
  await fetched(connection)
  deepEqual(await refused(connection, [0, 0]), [1, 2])
  const attempts = { count: 1, sinceMs: NOW_MS, moved: false }
  for (let round = 0; round < 16; round++) {
    const some = Array.from({ length: 256 }, (_, at) => ({
      topic: 't',
      partition: at % 16,
      value: { offset: 0, leaderEpoch: -1, metadata: '' },
      attempts: { offset: 256 * round + at, ...attempts },
    }))
    const request = { group: 'flood', generation: -1, memberId: '', instanceId: null, offsets: some, durable: true }
    const committing = at.broker.groups.commit(contextOf({ protocol: 'native' }), request)
    await at.clock.advance(0)
    deepEqual([...new Set(await committing)], [null])
  }
  deepEqual(await refused(connection, [0, 0, 0]), [1, 2, 'dead'])
})

test('dead letters: a topic with fewer partitions takes them by number modulo its count', async () => {
  const at = await setUp(5)
  await createTopic(at.broker, 't.dlq', 2)
  await fill(at, ['a'], 't', 4)
  await fill(at, ['b'], 't', 3)
  const connection = await at.connect()
  await fetched(connection)
  for (const partition of [4, 4, 4, 3, 3, 3]) await connection.exchange('NACK', nack(0, 't', partition))
  deepEqual(
    [await letters(at, 't.dlq', 0), await letters(at, 't.dlq', 1)].map((some) => some.map(({ from, value }) => [from?.partition, value])),
    [[[4, 'a']], [[3, 'b']]],
  )
})

test('dead letters: room that the source was given later is given to their topic, but not to one that a group has named', async () => {
  const at = await setUp(1, { 'max.message.bytes': '500' })
  await createTopic(at.broker, 'bin', 1, { 'max.message.bytes': '600' })
  await setGroup(at.broker, 'named', { 'errors.deadletterqueue.topic.name': 'bin' })
  await fill(at, ['small'])
  const connection = await at.connect()
  await fetched(connection)
  deepEqual(await refused(connection, [0, 0, 0]), [1, 2, 'dead'])
  await at.broker.topics.alterConfig(contextOf(), {
    name: 't',
    changes: [{ name: 'max.message.bytes', operation: 'set', value: '50000' }],
  })
  await fill(at, ['x'.repeat(30_000)])
  await fetched(connection)
  deepEqual(await refused(connection, [1, 1, 1]), [1, 2, 'dead'])
  equal((await letters(at))[1]?.value?.length, 30_000)
  const named = await at.connect()
  await fetched(named, 't', 'named')
  deepEqual(await refused(named, [1, 1, 1]), [1, 2, 'code 7'])
})

test('dead letters: a letter of a null value is an envelope with an empty one for version 1', async () => {
  const at = await setUp()
  await fill(at, [null])
  const connection = await at.connect()
  await fetched(connection)
  deepEqual(await refused(connection, [0, 0, 0]), [1, 2, 'dead'])
  deepEqual(await letters(at), [{ from: (await letters(at))[0]?.from, value: null }])
  const [record] = await (await at.connect()).exchange('FETCH', { topic: 't.dlq', group: 'other', maxRecords: 1, isolation: 0 })
  const envelope = record?.message['value'] as Buffer
  deepEqual([envelope[0], envelope.readUInt32BE(envelope.length - 4)], [1, 0])
})

test('dead letters: what is in a topic that a group has named for them stays there, whichever group refuses it', async () => {
  const at = await setUp()
  await setGroup(at.broker, 'g', { 'errors.deadletterqueue.topic.name': 'bin' })
  await fill(at, ['a'])
  const connection = await at.connect()
  await fetched(connection)
  deepEqual(await refused(connection, [0, 0, 0]), [1, 2, 'dead'])
  const other = await at.connect()
  deepEqual(await fetched(other, 'bin', 'other'), [0])
  deepEqual(await refused(other, [0, 0, 0, 0], 'bin'), [1, 2, 3, 4])
  equal(at.broker.topics.find('bin.dlq'), undefined)
  // An ordinary record of that topic dies as any other does.
  await fill(at, ['b'], 'bin')
  await fetched(other, 'bin', 'other')
  deepEqual(await refused(other, [1, 1, 1], 'bin'), [1, 2, 'dead'])
})

test('a retry topic: version 1 is told that the record comes again, and a member that names it too is given it once', async () => {
  const at = await setUp(1, { 'moonmq.retry.delays': '1s' })
  await fill(at, ['a'])
  const connection = await at.connect()
  await connection.call('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t'] })
  await fetched(connection)
  const waits = await connection.exchange('NACK', nack(0))
  deepEqual({ ...waits[0]?.message }, { deadLettered: 0, attempts: 1, dlqTopic: '' })
  equal((await connection.call('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t', 't.retry.1'] })).op, 'GROUP_ASSIGNMENT')
  await fetched(connection, 't.retry.1')
  await at.clock.advance(1000)
  deepEqual(await fetched(connection), [0])
  deepEqual(await fetched(connection), [])
  const dead = await connection.exchange('NACK', nack(0, 't.retry.1'))
  deepEqual({ ...dead[0]?.message }, { deadLettered: 1, attempts: 2, dlqTopic: 't.dlq' })
})

test('a delivery commit that is refused is told once, not for every partition and FETCH', async () => {
  const at = await setUp(4)
  for (let partition = 0; partition < 4; partition++) await fill(at, ten(), 't', partition)
  const connection = await at.connect()
  await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 0, isolation: 0 })
  const protocols = [{ name: 'range', metadata: Buffer.alloc(0) }]
  const times = { sessionTimeoutMs: 30_000, rebalanceTimeoutMs: 30_000, requireKnownMemberId: false, supportsSkippingAssignment: false }
  const join = { group: 'g', memberId: '', instanceId: null, protocolType: 'consumer', protocols, ...times, reason: null }
  const joining = at.broker.groups.join(contextOf(), join)
  await at.clock.advance(5000)
  await joining
  for (let round = 0; round < 5; round++) equal((await fetched(connection, 't', 'g', 4)).length, 4)
  equal(at.log.lines.filter(({ event }) => event === 'consumer.commit_failed').length, 1)
})
