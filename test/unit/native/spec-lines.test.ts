import { deepEqual, equal, match, ok } from 'node:assert/strict'
import test from 'node:test'
import { deferred } from '../../../src/core/deferred.ts'
import { MAX, MAX_COUNT } from '../../../src/wire/limits.ts'
import type { Message } from '../../../src/wire/messages.ts'
import type { OpName } from '../../../src/wire/opcodes.ts'
import { batchOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

const EMPTY = Buffer.alloc(0)
const x = (length: number) => 'x'.repeat(length)
const bytes = (length: number) => Buffer.alloc(length, 120)

async function door(partitions = 1) {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', partitions)
  return at
}

/** Code of the ERROR that answers, or the name of another answer. */
async function told<N extends OpName>(connection: TestNativeConnection, op: N, message: Message<N>): Promise<unknown> {
  const answer = (await connection.exchange(op, message)).at(-1)
  return answer?.op === 'ERROR' ? answer.message['code'] : answer?.op
}

type Sized = readonly [
  state: 'greeted' | 'authenticated',
  limit: number,
  request: (size: number) => readonly [OpName, object],
  atLimit: unknown,
]

/** Every limit of a string, with what a string of just that length is answered with. */
const STRINGS: Readonly<Record<string, Sized>> = {
  'topic name': ['authenticated', MAX.topic, (size) => ['FETCH', { topic: x(size), group: 'g', maxRecords: 0 }], 5],
  'group id': ['authenticated', MAX.group, (size) => ['DESCRIBE_GROUP', { group: x(size) }], 15],
  'member id': ['authenticated', MAX.member, (size) => ['LEAVE_GROUP', { group: 'g', memberId: x(size) }], 12],
  'client name': ['authenticated', MAX.clientName, (size) => ['IDENTIFY_CLIENT', { name: x(size), version: '' }], 'IDENTIFY_ACK'],
  'client version': ['authenticated', MAX.clientVersion, (size) => ['IDENTIFY_CLIENT', { name: '', version: x(size) }], 'IDENTIFY_ACK'],
  username: ['greeted', MAX.username, (size) => ['AUTH', { username: x(size), password: EMPTY }], 'AUTH_OK'],
  password: ['greeted', MAX.password, (size) => ['AUTH', { username: 'u', password: bytes(size) }], 'AUTH_OK'],
  mechanism: ['greeted', MAX.mechanism, (size) => ['AUTH_SCRAM', { mechanism: x(size), message: '' }], 8],
  'SASL message': ['greeted', MAX.saslMessage, (size) => ['AUTH_SCRAM', { mechanism: 'external', message: x(size) }], 4],
  'producer name': ['authenticated', MAX.producerName, (size) => ['INIT_PRODUCER_ID', { producerName: x(size) }], 'PRODUCER_ID'],
  'nack reason': ['authenticated', MAX.nackReason, (size) => ['NACK', { topic: 't', partition: 0, offset: 0, reason: x(size) }], 8],
  'config key': ['authenticated', MAX.configKey, (size) => ['ALTER_TOPIC_CONFIG', { name: 't', config: new Map([[x(size), 'v']]) }], 17],
  'config value': [
    'authenticated',
    MAX.configValue,
    (size) => ['ALTER_TOPIC_CONFIG', { name: 't', config: new Map([['retention', x(size)]]) }],
    17,
  ],
  key: ['authenticated', MAX.string, (size) => ['PRODUCE', { codec: 0, topic: 't', key: bytes(size), value: EMPTY }], 'PRODUCE_ACK'],
  value: ['authenticated', MAX.string, (size) => ['PRODUCE', { codec: 0, topic: 't', key: EMPTY, value: bytes(size) }], 'PRODUCE_ACK'],
}

test('1.1: a string may be as long as its limit, and is refused with code 1 when it is longer', async () => {
  const at = await door()
  for (const [what, [state, limit, request, atLimit]] of Object.entries(STRINGS)) {
    for (const [size, expected] of [
      [limit, atLimit],
      [limit + 1, 1],
    ] as const) {
      const connection = await at.connect(state)
      const [op, message] = request(size)
      equal(await told(connection, op, message as never), expected, `${what} of ${size} bytes`)
      const closes = expected !== 'AUTH_OK' && state === 'greeted'
      equal(connection.socket.closed, closes, what)
    }
  }
})

test('1, 1.2: counts beyond their limits, and numbers that no offset or producer can have, are refused with code 1', async () => {
  const at = await door()
  const connection = await at.connect()
  const named = { topic: 't', partition: 0, offset: 0 }
  const records = (count: number) => Array.from({ length: count }, () => ({ key: EMPTY, value: EMPTY }))
  const config = (count: number) => new Map(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']))
  const above = 2n ** 63n
  equal(await told(connection, 'FETCH', { topic: 't', group: 'g', maxRecords: 0 }), 'OK')
  equal(await told(connection, 'INIT_PRODUCER_ID', { producerName: 'n' }), 'PRODUCER_ID')
  equal(await told(connection, 'BEGIN_TXN', {}), 'OK')
  const offsets = (count: number) => ({ group: 'g', offsets: Array.from({ length: count }, () => named) })
  const single = { seq: 0, epoch: 0, codec: 0, topic: 't', key: EMPTY, value: EMPTY }
  const cases: readonly (readonly [OpName, object, unknown])[] = [
    ['TXN_OFFSET_COMMIT', offsets(MAX_COUNT.txnOffsets + 1), 1],
    ['TXN_OFFSET_COMMIT', offsets(MAX_COUNT.txnOffsets), 'OK'],
    ['TXN_OFFSET_COMMIT', offsets(0), 'OK'],
    ['TXN_OFFSET_COMMIT', { group: 'g', offsets: [{ ...named, offset: above }] }, 1],
    ['JOIN_GROUP', { group: 'g', memberId: '', topics: [] }, 1],
    ['JOIN_GROUP', { group: 'g', memberId: '', topics: Array(MAX_COUNT.joinTopics + 1).fill('t') }, 1],
    ['JOIN_GROUP', { group: 'g', memberId: '', topics: Array(MAX_COUNT.joinTopics).fill('t') }, 'GROUP_ASSIGNMENT'],
    ['ALTER_TOPIC_CONFIG', { name: 't', config: config(MAX_COUNT.configEntries + 1) }, 1],
    ['ALTER_TOPIC_CONFIG', { name: 't', config: config(MAX_COUNT.configEntries) }, 17],
    ['PRODUCE_BATCH', { flags: 0, codec: 0, topic: 't', records: records(MAX_COUNT.batchRecords + 1) }, 1],
    ['PRODUCE_BATCH', { flags: 0, codec: 0, topic: 't', records: [] }, 1],
    ['PRODUCE_BATCH', { flags: 1, codec: 0, topic: 't', pid: above, baseSeq: 0, epoch: 0, records: records(1) }, 1],
    ['PRODUCE_IDEMPOTENT', { ...single, pid: above }, 1],
    ['PRODUCE_IDEMPOTENT', { ...single, pid: above - 1n }, 8],
    ['COMMIT', { ...named, offset: above }, 1],
    ['NACK', { ...named, offset: above, reason: '' }, 1],
    ['COMMIT', { ...named, partition: -1 }, 1],
    ['NACK', { ...named, partition: 1, reason: '' }, 1],
    ['CREATE_TOPIC', { name: 'u', partitions: 0 }, 1],
    ['CREATE_TOPIC', { name: 'u', partitions: MAX_COUNT.partitions + 1 }, 1],
    ['CREATE_PARTITIONS', { name: 't', total: MAX_COUNT.partitions + 1 }, 21],
    ['LIST_OFFSETS', { topic: 't', mode: 2 }, 1],
  ]
  for (const [op, message, expected] of cases)
    equal(await told(connection, op, message as never), expected, `${op} ${JSON.stringify(expected)}`)
})

/** A frame by its number, which no table of ours need know. */
function frame(opcode: number, payload: Buffer = EMPTY): Buffer {
  const head = Buffer.alloc(21, 0xc1)
  head.writeUInt32BE(17 + payload.length)
  head[4] = opcode
  return Buffer.concat([head, payload])
}

test('2, 3, 4: numbers without a request, and what each state allows', async () => {
  const at = await door()
  for (const [state, code] of [
    ['new', 1],
    ['greeted', 1],
    ['authenticated', 2],
  ] as const) {
    const connection = await at.connect(state)
    for (const opcode of [0x00, 0x09, 0x22, 0x3f, 0x40, 0x50, 0x80, 0x85, 0x86, 0x92, 0xc0, 0xfe, 0xff]) {
      connection.socket.push(frame(opcode))
      const [answer, ...more] = await connection.received()
      deepEqual([answer?.op, answer?.message['code'], more.length], ['ERROR', code, 0], `0x${opcode.toString(16)} in ${state}`)
    }
    equal(connection.socket.closed, false)
    // A farewell has no answer, in any state.
    deepEqual(await connection.exchange('GOODBYE', {}), [])
    equal(connection.socket.closed, true)
  }
  // Who it is may be said any number of times, before and after login; the last word on what it understands counts.
  const connection = await at.connect('greeted')
  const identify = (more: object) => told(connection, 'IDENTIFY_CLIENT', { name: 'n', version: 'v', ...more })
  deepEqual([await identify({}), await identify({ features: 2 })], ['IDENTIFY_ACK', 'IDENTIFY_ACK'])
  equal(await told(connection, 'AUTH', { username: '', password: EMPTY }), 'AUTH_OK')
  deepEqual([await told(connection, 'HELLO', { version: 1 }), await told(connection, 'LIST', { flags: 0 })], [1, 'LISTING'])
  equal(await identify({}), 'IDENTIFY_ACK')
  equal(await told(connection, 'LIST', { flags: 0 }), 2)
  // Payload where there is none to be is not looked at.
  equal(await told(connection, 'INIT_PRODUCER_ID', { producerName: 'n' }), 'PRODUCER_ID')
  connection.socket.push(frame(0x13, Buffer.from('begin')))
  equal((await connection.received())[0]?.op, 'OK')
})

test('6.2, 7: with several things wrong at once, the first in the order of the checks is told', async () => {
  const at = await door()
  const connection = await at.connect()
  const send = async (op: OpName, message: object) => {
    const answer = await connection.call(op, message as never)
    return [answer.message['code'], String(answer.message['message'])] as const
  }
  const record = { key: EMPTY, value: EMPTY }
  for (const request of [record, { records: [record], flags: 0 }]) {
    const op = 'records' in request ? 'PRODUCE_BATCH' : 'PRODUCE'
    match((await send(op, { ...request, codec: 3, topic: 'a/b' }))[1], /codec/)
    deepEqual((await send(op, { ...request, codec: 3, topic: 'a/b' }))[0], 7)
    match((await send(op, { ...request, codec: 0, topic: 'a/b' }))[1], /name/)
    equal((await send(op, { ...request, codec: 0, topic: 'missing' }))[0], 5)
  }
  const wrong = { topic: 'missing', partition: 7, offset: 9, reason: '' }
  for (const op of ['COMMIT', 'NACK'] as const) equal((await send(op, wrong))[0], 8)
  equal(await told(connection, 'FETCH', { topic: 't', group: 'g', maxRecords: 0 }), 'OK')
  for (const op of ['COMMIT', 'NACK'] as const) {
    equal((await send(op, wrong))[0], 5)
    equal((await send(op, { ...wrong, topic: 't' }))[0], 1)
  }
  equal((await send('FETCH', { topic: 'missing', group: 'other', maxRecords: 0 }))[0], 8)
  equal((await send('SUBSCRIBE', { topic: 'missing', group: 'g' }))[0], 8)
  equal((await send('CREATE_TOPIC', { name: '__t', partitions: 0 }))[0], 1)
  equal((await send('CREATE_TOPIC', { name: '__t', partitions: 1 }))[0], 1)
  equal((await send('CREATE_TOPIC', { name: 't', partitions: 1 }))[0], 7)
})

const recordsOf = (frames: readonly Received[]) =>
  frames.flatMap(({ op, message }) => (op === 'RECORD' ? [message] : ((message['records'] ?? []) as Record<string, unknown>[])))

test('7.1: at most 10,000 records, ceil(max / partitions) of each, and unknown flags are ignored', async () => {
  const at = await door(3)
  for (let partition = 0; partition < 3; partition++) await produceOne(at.broker, 't', partition, batchOf(10, { valueBytes: 1 }))
  await createTopic(at.broker, 'many')
  await produceOne(at.broker, 'many', 0, batchOf(10_050, { valueBytes: 1 }))
  const connection = await at.connect()
  const fetch = (topic: string, maxRecords: number, flags: number) =>
    connection.exchange('FETCH', { topic, group: 'g', maxRecords, isolation: 0, flags })
  const shares = recordsOf(await fetch('t', 7, 0xfe))
  deepEqual([0, 1, 2].map((partition) => shares.filter((record) => record['partition'] === partition).length).sort(), [1, 3, 3])
  const single = await fetch('t', 4, 0xfe)
  deepEqual(
    single.map(({ op }) => op),
    ['RECORD', 'RECORD', 'RECORD', 'RECORD', 'OK'],
  )
  const other = await at.connect()
  const all = await other.exchange('FETCH', { topic: 'many', group: 'h', maxRecords: 2 ** 32 - 1, isolation: 0, flags: 0xff })
  deepEqual([all.map(({ op }) => op), recordsOf(all).length], [['RECORD_BATCH', 'OK'], 10_000])
  const rest = await other.exchange('FETCH', { topic: 'many', group: 'h', maxRecords: 2 ** 32 - 1, isolation: 0, flags: 1 })
  equal(recordsOf(rest).length, 50)
  equal(
    await told(other, 'PRODUCE_BATCH', { flags: 0xfe, codec: 0, topic: 't', records: [{ key: EMPTY, value: EMPTY }] }),
    'PRODUCE_BATCH_ACK',
  )
})

test('7.1: partitions with a record that the client cannot read hold up none of the others', async () => {
  const at = await door(3)
  for (const partition of [0, 1]) await produceOne(at.broker, 't', partition, batchOf(1, { valueBytes: 70_000 }))
  await produceOne(at.broker, 't', 2, batchOf(2))
  const connection = await at.connect()
  const fetch = async () => (await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 3 })).map(({ op }) => op)
  deepEqual(await fetch(), ['RECORD', 'OK'])
  deepEqual(await fetch(), ['RECORD', 'OK'])
  deepEqual([await fetch(), await fetch()], [['ERROR'], ['ERROR']])
})

test('7.1, 7.3: a round stores one offset of each partition; COMMIT moves nothing, and the next round overwrites it', async () => {
  const at = await door(2)
  await createTopic(at.broker, 'other')
  for (const partition of [0, 1]) await produceOne(at.broker, 't', partition, batchOf(10))
  const connection = await at.connect()
  const fetch = (maxRecords: number) => connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords })
  const stored = () => {
    const logs = [...at.logs.logs.values()].filter(({ topic }) => topic === '__consumer_offsets')
    return [logs.reduce((sum, log) => sum + log.batches.length, 0), logs.reduce((sum, log) => sum + log.logEndOffset, 0)]
  }
  equal(recordsOf(await fetch(10)).length, 10)
  const [batches = 0, records = 0] = stored()
  equal(records, 2)
  equal(recordsOf(await fetch(6)).length, 6)
  deepEqual(stored(), [batches + 1, records + 2])
  equal((await fetch(0)).length, 1)
  deepEqual(stored(), [batches + 1, records + 2], 'a round without records stores nothing')
  // Of any topic, once there is a consumer.
  equal(await told(connection, 'COMMIT', { topic: 'other', partition: 0, offset: 0 }), 'OK')
  equal(await told(connection, 'COMMIT', { topic: 't', partition: 0, offset: 1 }), 'OK')
  const offset = async () => {
    const { message } = await connection.call('DESCRIBE_GROUP', { group: 'g' })
    return (message['offsets'] as { topic: string; offset: number }[]).filter(({ topic }) => topic === 't').map((each) => each.offset)
  }
  deepEqual(await offset(), [1, 8])
  equal(recordsOf(await fetch(4)).length, 4)
  deepEqual(await offset(), [10, 10])
  // Pushed rounds likewise.
  const pushed = await at.connect()
  const before = stored()
  const frames = await pushed.exchange('SUBSCRIBE', { topic: 't', group: 'h' })
  equal(recordsOf(frames).length, 20)
  await pushed.received()
  deepEqual(stored(), [(before[0] ?? 0) + 1, (before[1] ?? 0) + 2])
  equal(await told(connection, 'DELETE_TOPIC', { name: 't' }), 'OK')
  deepEqual(await offset(), [], 'the offsets of a topic go with it')
})

test('7.5: while a transaction is open the last stable offset is below the latest', async () => {
  const at = await door()
  await produceOne(at.broker, 't', 0, batchOf(3))
  at.logs.at('t', 0).openTransactionAt = 1
  const { message } = await (await at.connect()).call('LIST_OFFSETS', { topic: 't' })
  deepEqual(message['entries'], [{ partition: 0, earliest: 0, latest: 3, highWatermark: 3, lso: 1, flags: 7 }])
})

test('7.6: whoever closes has left, also while it reads; another id takes the place of the first; a group that cannot be deleted is code 7', async () => {
  const at = await door(2)
  await produceOne(at.broker, 't', 0, batchOf(2))
  const connection = await at.connect()
  const join = async (memberId: string) => {
    const { message } = await connection.call('JOIN_GROUP', { group: 'g', memberId, topics: ['t'] })
    return (message['assignment'] as { partitions: number[] }[]).map(({ partitions }) => partitions)
  }
  deepEqual(await join('first'), [[0, 1]])
  const gate = deferred()
  at.logs.at('t', 0).readGate = gate.promise
  connection.send('FETCH', { topic: 't', group: 'g', maxRecords: 1 })
  deepEqual(await connection.received(), [])
  const other = await at.connect()
  const members = async () => {
    const { message } = await other.call('DESCRIBE_GROUP', { group: 'g' })
    return (message['members'] as { memberId: string }[]).map(({ memberId }) => memberId)
  }
  deepEqual(await members(), ['first'])
  connection.socket.close()
  deepEqual(await members(), [])
  gate.resolve()
  await connection.received()
  equal(await told(other, 'DESCRIBE_GROUP', { group: 'g' }), 15)
  const again = await at.connect()
  at.logs.at('t', 0).readGate = undefined
  for (const memberId of ['a', 'b', '']) equal(await told(again, 'JOIN_GROUP', { group: 'g', memberId, topics: ['t'] }), 'GROUP_ASSIGNMENT')
  deepEqual(await members(), ['b'])
  equal(await told(again, 'FETCH', { topic: 't', group: 'g', maxRecords: 1 }), 'OK')
  equal(await told(other, 'DELETE_GROUP', { group: 'g' }), 16)
  equal(await told(again, 'LEAVE_GROUP', { group: 'g', memberId: 'whatever' }), 'OK')
  for (const log of at.logs.logs.values()) if (log.topic === '__consumer_offsets') log.state = 'failed'
  equal(await told(other, 'DELETE_GROUP', { group: 'g' }), 7)
})

test('1.2, 9: long answers are cut where a client of version 1 could not read more', async () => {
  const at = await testNativeDoor({ maxListTopics: 3 })
  for (const name of ['d', 'b', 'a', 'c']) await createTopic(at.broker, name)
  const connection = await at.connect()
  deepEqual((await connection.call('LIST_TOPICS', {})).message['names'], ['a', 'b', 'c'])

  const { topics, groups } = at.broker
  const image = topics.get('a')
  topics.get = () => ({
    ...image,
    config: new Map(Array.from({ length: 70 }, (_, index) => [`key-${String(index).padStart(2, '0')}`, 'v'])),
  })
  const { config } = (await connection.call('DESCRIBE_TOPIC', { name: 'a' })).message as { config: Map<string, string> }
  deepEqual([config.size, [...config.keys()].at(-1)], [MAX_COUNT.configEntries, 'key-63'])

  const names = Array.from({ length: 5000 }, (_, index) => `g${String(index).padStart(4, '0')}`)
  groups.list = async () => ({
    groups: names.map((group) => ({ group, kind: 'native' as const, state: 'Empty', protocolType: '', members: 0 })),
    loading: false,
  })
  const listed = (await connection.call('LIST_GROUPS', {})).message['groups'] as { group: string }[]
  deepEqual([listed.length, listed.at(-1)?.group], [MAX_COUNT.groups, 'g4095'])

  const partitions = Array.from({ length: 1100 }, (_, partition) => partition)
  const member = (memberId: string, count: number) => ({
    memberId,
    instanceId: null,
    clientId: '',
    clientHost: '',
    topics: [],
    assignment: Array.from({ length: count }, (_, index) => ({ topic: `t${index}`, partitions: index === 0 ? partitions : [] })),
  })
  groups.inspect = async () => ({
    group: 'g',
    kind: 'native' as const,
    state: 'Stable',
    epoch: 1,
    members: Array.from({ length: 300 }, (_, index) => member(`m${String(index).padStart(3, '0')}`, index === 0 ? 300 : 0)),
    offsets: partitions.map((partition) => ({ topic: 't', partition, offset: 1 })),
  })
  const { message } = await connection.call('DESCRIBE_GROUP', { group: 'g' })
  const members = message['members'] as { memberId: string; assignment: { partitions: number[] }[] }[]
  deepEqual(
    [members.length, members[0]?.assignment.length, members[0]?.assignment[0]?.partitions.length, (message['offsets'] as object[]).length],
    [MAX_COUNT.members, MAX_COUNT.memberTopics, MAX_COUNT.partitions, MAX_COUNT.groupOffsets],
  )
})

test('8: any byte but 0 commits; what is in a transaction and what is not', async () => {
  const at = await door()
  const connection = await at.connect()
  const who = (await connection.call('INIT_PRODUCER_ID', { producerName: 'n' })).message as { pid: number; epoch: number }
  equal(await told(connection, 'BEGIN_TXN', {}), 'OK')
  const record = (value: string) => ({ codec: 0, topic: 't', key: EMPTY, value: Buffer.from(value) })
  equal(await told(connection, 'PRODUCE_IDEMPOTENT', { ...who, seq: 0, ...record('in') }), 'PRODUCE_ACK')
  equal(await told(connection, 'PRODUCE', record('beside')), 'PRODUCE_ACK')
  equal(await told(connection, 'END_TXN', { commit: 255 }), 'OK')
  equal(await told(connection, 'END_TXN', { commit: 0 }), 51)
  ok(at.logs.at('t', 0).logEndOffset === 3, 'the marker has an offset')
  const reader = await at.connect()
  const frames = await reader.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10, isolation: 1 })
  deepEqual(
    recordsOf(frames).map((each) => [each['offset'], String(each['value'])]),
    [
      [0, 'in'],
      [1, 'beside'],
    ],
  )
})

test('8: after code 7 the end of a transaction is decided: the other way is code 51', async () => {
  const at = await door()
  const connection = await at.connect()
  const who = (await connection.call('INIT_PRODUCER_ID', { producerName: 'n' })).message as { pid: number; epoch: number }
  equal(await told(connection, 'BEGIN_TXN', {}), 'OK')
  const record = { ...who, seq: 0, codec: 0, topic: 't', key: EMPTY, value: EMPTY }
  equal(await told(connection, 'PRODUCE_IDEMPOTENT', record), 'PRODUCE_ACK')
  const log = at.logs.at('t', 0)
  log.state = 'failed'
  const end = async (commit: number) => {
    connection.send('END_TXN', { commit })
    for (let turn = 0; turn < 100; turn++) {
      const answer = (await connection.received()).find(({ op }) => op !== 'HEARTBEAT_REQ')
      if (answer !== undefined) return answer.op === 'ERROR' ? answer.message['code'] : answer.op
      await at.clock.advance(1_000)
      if (turn % 20 === 0) connection.send('HEARTBEAT_RESP', {})
    }
    return 'no answer'
  }
  equal(await end(1), 7)
  equal(await end(0), 51)
  equal(log.logEndOffset, 1)
})
