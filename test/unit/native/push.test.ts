import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { buildBatch } from '../../../src/record/builder.ts'
import type { RecordHeader } from '../../../src/record/record.ts'
import { contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, type TestNativeDoor, testNativeDoor } from '../../support/native-door.ts'
import { nativeVectors } from '../../support/native-vectors.ts'
import { setGroup } from '../../support/share-member.ts'

const ZERO = '0'.repeat(32)

async function setUp(partitions = 1, config: Record<string, string> = {}) {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', partitions, config)
  return at
}

async function fill(at: TestNativeDoor, values: readonly string[], topic = 't', partition = 0, headers: readonly RecordHeader[] = []) {
  const records = values.map((value) => ({ key: Buffer.from('k'), value: Buffer.from(value), timestampMs: 1_700_000_000_123, headers }))
  await produceOne(at.broker, topic, partition, buildBatch(records))
}

const places = (frames: readonly Received[]) =>
  frames.map(({ op, message }) => (op === 'RECORD' ? `${message['topic']}-${message['partition']}@${message['offset']}` : op))

async function subscribed(at: TestNativeDoor, topic = 't', group = 'g'): Promise<TestNativeConnection> {
  const connection = await at.connect()
  equal((await connection.exchange('SUBSCRIBE', { topic, group, isolation: 0 }))[0]?.op, 'OK')
  return connection
}

async function committed(at: TestNativeDoor, topic = 't', group = 'g', partition = 0): Promise<number | undefined> {
  const [found] = await at.broker.groups.committed(contextOf(), { group, topics: [{ topic, partitions: [partition] }] })
  return found?.value?.offset
}

test('SUBSCRIBE: what is there and what comes is pushed with the zero id, one record a frame, and committed once it was written', async () => {
  const at = await setUp()
  await fill(at, ['a', 'b'])
  const connection = await at.connect()
  const frames = await connection.exchange('SUBSCRIBE', { topic: 't', group: 'g' })
  deepEqual(places(frames), ['OK', 't-0@0', 't-0@1'])
  equal(frames[1]?.correlation, ZERO)
  equal(await committed(at), 2)
  await fill(at, ['c'])
  deepEqual(places(await connection.received()), ['t-0@2'])
  equal(await committed(at), 3)
  // Not before it is durable.
  at.logs.at('t', 0).autoSync = false
  const sending = fill(at, ['d'])
  deepEqual(await connection.received(), [])
  at.logs.at('t', 0).sync()
  await sending
  deepEqual(places(await connection.received()), ['t-0@3'])
})

test('SUBSCRIBE adds topics, goes on where the group is, and follows topics that grow or are made again', async () => {
  const at = await setUp()
  await createTopic(at.broker, 'u')
  await fill(at, ['a'], 'u')
  const connection = await subscribed(at)
  deepEqual(places(await connection.exchange('SUBSCRIBE', { topic: 'u', group: 'g', isolation: 0 })), ['OK', 'u-0@0'])
  equal(await connection.error('SUBSCRIBE', { topic: 'missing', group: 'g' }), 5)
  equal(await connection.error('SUBSCRIBE', { topic: '__consumer_offsets', group: 'g' }), 18)
  equal(await connection.error('SUBSCRIBE', { topic: 't', group: 'other' }), 8)
  equal(await connection.error('SUBSCRIBE', { topic: 't', group: 'g', isolation: 1 }), 8)
  equal(await connection.error('FETCH', { topic: 't', group: 'g', maxRecords: 1 }), 8)
  await at.broker.topics.createPartitions(contextOf(), 't', 2)
  await fill(at, ['b'], 't', 1)
  deepEqual(places(await connection.received()), ['t-1@0'])
  await at.broker.topics.delete(contextOf(), 'u')
  await createTopic(at.broker, 'u')
  await fill(at, ['c'], 'u')
  deepEqual(places(await connection.received()), ['u-0@0'])
  const pull = await at.connect()
  equal((await pull.call('FETCH', { topic: 't', group: 'p', maxRecords: 0 })).op, 'OK')
  equal(await pull.error('SUBSCRIBE', { topic: 't', group: 'p' }), 8)
})

test('SUBSCRIBE: nothing is read for a client that does not read, others go on, and it gets the rest when it does', async () => {
  const at = await testNativeDoor({ maxPendingBytes: 80_000 })
  await createTopic(at.broker, 't')
  const connection = await subscribed(at)
  connection.socket.holding = true
  const reads = () => at.logs.at('t', 0).reads
  for (let i = 0; i < 40; i++) await fill(at, ['x'.repeat(1000)])
  await connection.received()
  ok(connection.socket.queuedBytes <= 25_000, `${connection.socket.queuedBytes} bytes are queued`)
  const before = reads()
  await fill(at, ['y'])
  await connection.received()
  equal(reads(), before)
  const held = await committed(at)
  ok(held === undefined || held === 0, 'what was not taken is not committed')
  await subscribed(at, 't', 'other')
  equal(await committed(at, 't', 'other'), 41)
  let pushed = 0
  for (let i = 0; i < 50 && pushed < 41; i++) {
    connection.socket.drain()
    pushed = (await committed(at)) ?? 0
    await connection.received()
  }
  equal(await committed(at), 41)
})

test('SUBSCRIBE: what cannot be read ends the connection with the reason and the zero id', async () => {
  const at = await setUp()
  const connection = await subscribed(at)
  await fill(at, ['ok', 'x'.repeat(70_000)])
  const frames = await connection.received()
  deepEqual(places(frames), ['t-0@0', 'ERROR'])
  equal(frames[1]?.correlation, ZERO)
  equal(frames[1]?.message['code'], 7)
  ok(String(frames[1]?.message['message']).includes('offset 1 of t-0'))
  ok(connection.socket.closed)
})

test('NACK: the record and what follows comes again, until it is a dead letter; answers come before what is read anew', async () => {
  const at = await setUp()
  await fill(at, ['a', 'bad', 'c'])
  const connection = await subscribed(at)
  await connection.received()
  const nack = () => connection.exchange('NACK', { topic: 't', partition: 0, offset: 1, reason: 'schema mismatch' })
  for (const attempts of [1, 2]) {
    const frames = await nack()
    deepEqual(places(frames), ['NACK_ACK', 't-0@1', 't-0@2'])
    deepEqual({ ...frames[0]?.message }, { deadLettered: 0, attempts, dlqTopic: '' })
    equal(await committed(at), 3)
  }
  const [dead, ...more] = await nack()
  deepEqual({ ...dead?.message }, { deadLettered: 1, attempts: 3, dlqTopic: 't.dlq' })
  deepEqual(more, [])
  equal(await committed(at), 2)
  equal(at.logs.at('t.dlq', 0).logEndOffset, 1)
  // Its counter is gone: it would be given as often again.
  equal((await nack())[0]?.message['attempts'], 1)
})

test('NACK: a group that has a number of deliveries of its own is given that many', async () => {
  const at = await setUp()
  await setGroup(at.broker, 'g', { 'share.delivery.count.limit': '2' })
  await fill(at, ['a'])
  for (const [group, dies] of [
    ['g', 2],
    ['other', 3],
  ] as const) {
    const connection = await subscribed(at, 't', group)
    for (let attempt = 1; attempt <= dies; attempt++) {
      const [ack] = await connection.exchange('NACK', { topic: 't', partition: 0, offset: 0, reason: '' })
      deepEqual([ack?.message['attempts'], ack?.message['dlqTopic'] !== ''], [attempt, attempt === dies], `${group} ${attempt}`)
    }
  }
})

test('NACK: a version-1 client reads the envelope byte for byte, others key, value and headers', async () => {
  const at = await setUp()
  await createTopic(at.broker, 'orders', 2)
  await fill(at, ['x'], 'orders', 1)
  const [sample] = nativeVectors().auxiliary.dlqEnvelope
  const headers = (fields: Record<string, string>) =>
    Object.entries(fields).map(([key, value]) => ({ key: `moonmq.dlq.${key}`, value: Buffer.from(value) }))
  const letter = { topic: 'orders', partition: '0', offset: '41', timestamp: '1700000000123', group: 'billing', attempts: '3' }
  await createTopic(at.broker, 'orders.dlq')
  await fill(at, ['hello'], 'orders.dlq', 0, headers({ ...letter, reason: 'schema mismatch', at: '1' }))
  const old = await subscribed(at, 'orders.dlq')
  await fill(at, ['hello'], 'orders.dlq', 0, headers({ ...letter, reason: 'schema mismatch', at: '1' }))
  const [pushed] = await old.received()
  equal((pushed?.message['value'] as Buffer | undefined)?.toString('hex'), sample?.valueHex)
  const extended = await at.connect('extended')
  const [plain] = await extended.exchange('FETCH', { topic: 'orders.dlq', group: 'e', maxRecords: 1, isolation: 0 })
  equal(String(plain?.message['value']), 'hello')
  // A long value takes the room of the reason; where not even that is enough, it is refused by its offset.
  await fill(at, ['v'.repeat(65_450)], 'orders.dlq', 0, headers({ ...letter, reason: 'r'.repeat(500), at: '1' }))
  const [full] = await old.received()
  equal((full?.message['value'] as Buffer | undefined)?.length, 65_536)
  await fill(at, ['v'.repeat(65_536)], 'orders.dlq', 0, headers({ ...letter, reason: '', at: '1' }))
  deepEqual(places(await old.received()), ['ERROR'])
})

test('NACK: checks in order; never what was not given; never from a dead-letter topic', async () => {
  const at = await setUp()
  const nack = (offset: number, topic = 't', partition = 0) => ({ topic, partition, offset, reason: '' })
  const fresh = await at.connect()
  equal(await fresh.error('NACK', nack(0, 'missing')), 8)
  await fill(at, ['a', 'b', 'c'])
  await at.connect().then((other) => other.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 1 }))
  await fresh.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 1 })
  equal(await fresh.error('NACK', nack(0, 'missing')), 5)
  equal(await fresh.error('NACK', nack(0, 't', 9)), 1)
  equal(await fresh.error('NACK', nack(0)), 1, 'another connection was given it')
  equal(await fresh.error('NACK', nack(2)), 1, 'nobody was given it')
  equal((await fresh.call('NACK', nack(1))).op, 'NACK_ACK')
  await createTopic(at.broker, 't.dlq')
  await fill(at, ['d'], 't.dlq')
  const dead = await subscribed(at, 't.dlq', 'again')
  await fill(at, ['e'], 't.dlq')
  await dead.received()
  for (let attempt = 1; attempt < 6; attempt++) {
    const frames = await dead.exchange('NACK', nack(1, 't.dlq'))
    deepEqual({ ...frames[0]?.message }, { deadLettered: 0, attempts: attempt, dlqTopic: '' })
  }
  equal(at.broker.topics.find('t.dlq.dlq'), undefined)
})

test('NACK during a round: what was read before it is neither handed on after it nor stored', async () => {
  const at = await setUp()
  await fill(at, ['a', 'b', 'c'])
  const connection = await at.connect()
  await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 0 })
  await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 2 })
  equal(await committed(at), 2)
  const push = await subscribed(at)
  push.socket.holding = true
  await fill(at, ['d'])
  await push.received()
  push.send('NACK', { topic: 't', partition: 0, offset: 2, reason: '' })
  await push.received()
  equal(await committed(at), 2)
  push.socket.drain()
  const frames = places(await push.received())
  deepEqual(frames.slice(-2), ['t-0@2', 't-0@3'])
  equal(await committed(at), 4)
})

test('SUBSCRIBE of a member: what is granted to it alone, from the moment that it is; a lapsed one is told and closed', async () => {
  const at = await setUp(2)
  const join = (connection: TestNativeConnection, memberId: string) =>
    connection.exchange('JOIN_GROUP', { group: 'g', memberId, topics: ['t'] })
  const first = await subscribed(at)
  equal((await join(first, 'a'))[0]?.op, 'GROUP_ASSIGNMENT')
  await fill(at, ['a'], 't', 1)
  deepEqual(places(await first.received()), ['t-1@0'])
  const second = await subscribed(at)
  await join(second, 'b')
  await fill(at, ['b'], 't', 1)
  await fill(at, ['c'], 't', 0)
  deepEqual(places(await first.received()), ['t-0@0'])
  deepEqual(places(await second.received()), ['t-1@1'])
  second.socket.holding = true
  await fill(at, ['d'], 't', 1)
  await second.received()
  second.socket.close()
  // What was lost with the connection is the other's now, from where the group is.
  deepEqual(places(await first.received()), ['t-1@2'])
  for (let i = 0; i < 5; i++) {
    first.send('HEARTBEAT_RESP', {})
    await at.clock.advance(10_000)
  }
  const frames = await first.received()
  deepEqual([frames.at(-1)?.op, frames.at(-1)?.message['code']], ['ERROR', 12])
})
