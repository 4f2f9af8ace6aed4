import { deepEqual, equal, rejects } from 'node:assert/strict'
import test from 'node:test'
import { contextOf, createTopic } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

async function door() {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 4)
  return at
}

type Assigned = readonly { topic: string; partitions: readonly number[] }[]

async function join(
  connection: TestNativeConnection,
  memberId = '',
  topics = ['t'],
  group = 'g',
): Promise<[string, Record<string, number[]>]> {
  const answer = await connection.call('JOIN_GROUP', { group, memberId, topics })
  if (answer.op !== 'GROUP_ASSIGNMENT') throw new Error(`${answer.op} ${JSON.stringify(answer.message)}`)
  const assignment = answer.message['assignment'] as Assigned
  return [String(answer.message['memberId']), Object.fromEntries(assignment.map(({ topic, partitions }) => [topic, [...partitions]]))]
}

async function produce(connection: TestNativeConnection, count: number, topic = 't'): Promise<void> {
  const records = Array.from({ length: count }, (_, at) => ({ key: Buffer.from(`k${at}`), value: Buffer.from(`v${at}`) }))
  equal((await connection.call('PRODUCE_BATCH', { flags: 0, codec: 0, topic, records })).op, 'PRODUCE_BATCH_ACK')
}

async function fetch(connection: TestNativeConnection, maxRecords = 1000): Promise<string[]> {
  const frames = await connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords, isolation: 0, flags: 1 })
  const last = frames.at(-1)
  if (last?.op !== 'OK') throw new Error(`${last?.op} ${JSON.stringify(last?.message)}`)
  return frames.flatMap(recordsOf)
}

function recordsOf({ message }: Received): string[] {
  const records = (message['records'] ?? []) as { partition: number; offset: number }[]
  return records.map(({ partition, offset }) => `${partition}/${offset}`)
}

function partitionsOf(records: readonly string[]): number[] {
  return [...new Set(records.map((each) => Number(each.split('/')[0])))].sort()
}

const HEARTBEAT = { group: 'g', memberId: '' }

test('a member is given ranges in the order of ids, and sees a change by joining again', async () => {
  const at = await door()
  const [a, b, c] = [await at.connect(), await at.connect(), await at.connect()]
  deepEqual(await join(b, 'b'), ['b', { t: [0, 1, 2, 3] }])
  deepEqual(await join(a, 'a'), ['a', { t: [0, 1] }])
  deepEqual(await join(b), ['b', { t: [2, 3] }])
  deepEqual(await join(c, 'c'), ['c', { t: [3] }])
  deepEqual(await join(a, 'a'), ['a', { t: [0, 1] }])
  deepEqual(await join(b, ''), ['b', { t: [2] }])
})

test('the broker picks an id of eight digits, and keeps it for the connection', async () => {
  const at = await door()
  const connection = await at.connect()
  const [id] = await join(connection)
  equal(/^[0-9a-f]{8}$/.test(id), true)
  deepEqual(await join(connection), [id, { t: [0, 1, 2, 3] }])
  // Another id on the same connection takes the place of the first.
  deepEqual(await join(connection, 'mine'), ['mine', { t: [0, 1, 2, 3] }])
  const { message } = await connection.call('DESCRIBE_GROUP', { group: 'g' })
  deepEqual(
    (message['members'] as { memberId: string }[]).map(({ memberId }) => memberId),
    ['mine'],
  )
})

test('topics are told in byte order, those without a partition too, and one that is missing is refused', async () => {
  const at = await door()
  await createTopic(at.broker, 'B', 1)
  const [a, b] = [await at.connect(), await at.connect()]
  deepEqual(Object.keys((await join(a, 'a', ['t', 'B']))[1]), ['B', 't'])
  deepEqual(await join(b, 'b', ['t', 'B']), ['b', { B: [], t: [2, 3] }])
  equal(await b.error('JOIN_GROUP', { group: 'g', memberId: '', topics: ['t', 'none'] }), 5)
  equal(await b.error('JOIN_GROUP', { group: 'g', memberId: '', topics: ['__consumer_offsets'] }), 18)
})

test('an id of another live connection is refused, and free again when that has gone', async () => {
  const at = await door()
  const [a, b] = [await at.connect(), await at.connect()]
  await join(a, 'x')
  equal(await b.error('JOIN_GROUP', { group: 'g', memberId: 'x', topics: ['t'] }), 13)
  a.socket.destroy()
  deepEqual(await join(b, 'x'), ['x', { t: [0, 1, 2, 3] }])
})

test('one connection has one group, to read and to join', async () => {
  const at = await door()
  const connection = await at.connect()
  await join(connection)
  equal(await connection.error('JOIN_GROUP', { group: 'other', memberId: '', topics: ['t'] }), 13)
  equal(await connection.error('FETCH', { topic: 't', group: 'other', maxRecords: 1 }), 13)
  const reader = await at.connect()
  await fetch(reader)
  equal(await reader.error('JOIN_GROUP', { group: 'other', memberId: '', topics: ['t'] }), 13)
})

test('members share the records, and go on where the former owner stopped', async () => {
  const at = await door()
  const [a, b] = [await at.connect(), await at.connect()]
  await produce(a, 40)
  await join(a, 'a')
  const first = await fetch(a, 8)
  await join(b, 'b')
  const more = await fetch(a)
  const rest = await fetch(b)
  deepEqual(partitionsOf(more), [0, 1])
  deepEqual(partitionsOf(rest), [2, 3])
  equal(new Set([...first, ...more, ...rest]).size, 40)
  equal(first.length + more.length + rest.length, 40)
  // Back to one member: it reads on where the other one was, not where it was itself.
  await produce(a, 40)
  await fetch(b)
  equal((await b.call('LEAVE_GROUP', HEARTBEAT)).op, 'OK')
  equal((await fetch(a)).length + 40, 40 + (await ofPartitions(at.broker, [0, 1])))
})

async function ofPartitions(broker: Awaited<ReturnType<typeof door>>['broker'], partitions: readonly number[]): Promise<number> {
  let count = 0
  for (const partition of partitions) count += broker.offsets.bounds(contextOf(), 't', partition).logEndOffset / 2
  return count
}

test('a member that is not heard of for 30 s is dropped by the next sweep; FETCH, COMMIT and heartbeats are told so', async () => {
  const at = await door()
  const [a, b] = [await at.connect(), await at.connect()]
  await produce(a, 8)
  await join(a, 'a')
  await fetch(a)
  await at.clock.advance(5_000)
  await join(b, 'b')
  for (let second = 0; second < 24; second++) {
    await at.clock.advance(1_000)
    await a.call('HEARTBEAT_REQ', {})
    equal((await b.call('GROUP_HEARTBEAT', HEARTBEAT)).op, 'OK')
    await fetch(a)
  }
  await at.clock.advance(12_000)
  equal(await a.error('FETCH', { topic: 't', group: 'g', maxRecords: 1 }), 12)
  equal(await a.error('COMMIT', { topic: 't', partition: 0, offset: 1 }), 12)
  equal(await a.error('GROUP_HEARTBEAT', HEARTBEAT), 12)
  deepEqual(await join(b, 'b'), ['b', { t: [0, 1, 2, 3] }])
  deepEqual(await join(a, 'a'), ['a', { t: [0, 1] }])
  deepEqual(await fetch(a), [])
})

test('a heartbeat of another group, or of a connection that joined none, is refused', async () => {
  const at = await door()
  const connection = await at.connect()
  equal(await connection.error('GROUP_HEARTBEAT', HEARTBEAT), 12)
  await join(connection, 'a')
  equal(await connection.error('GROUP_HEARTBEAT', { group: 'h', memberId: 'a' }), 12)
  equal(await connection.error('LEAVE_GROUP', { group: 'h', memberId: 'a' }), 12)
  equal((await connection.call('GROUP_HEARTBEAT', { group: 'g', memberId: 'whoever' })).op, 'OK')
  equal((await connection.call('LEAVE_GROUP', { group: 'g', memberId: 'whoever' })).op, 'OK')
  equal(await connection.error('LEAVE_GROUP', HEARTBEAT), 12)
})

test('topics that grow or go are assigned anew at once', async () => {
  const at = await door()
  const [a, b] = [await at.connect(), await at.connect()]
  await join(a, 'a')
  await join(b, 'b')
  equal((await a.call('CREATE_PARTITIONS', { name: 't', total: 6 })).op, 'OK')
  deepEqual(await join(a), ['a', { t: [0, 1, 2] }])
  await at.broker.topics.delete(contextOf(), 't')
  const { message } = await a.call('DESCRIBE_GROUP', { group: 'g' })
  deepEqual(message['members'], [
    { memberId: 'a', assignment: [] },
    { memberId: 'b', assignment: [] },
  ])
  await createTopic(at.broker, 't', 2)
  deepEqual(await join(b), ['b', { t: [1] }])
})

test('after LEAVE_GROUP a connection reads all partitions again', async () => {
  const at = await door()
  const [a, b] = [await at.connect(), await at.connect()]
  await join(a, 'a')
  await join(b, 'b')
  await produce(a, 40)
  deepEqual(partitionsOf(await fetch(a)), [0, 1])
  await a.call('LEAVE_GROUP', HEARTBEAT)
  deepEqual(partitionsOf(await fetch(a)), [2, 3])
})

test('groups are listed, described and deleted by the words of the protocol', async () => {
  const at = await door()
  const connection = await at.connect()
  await produce(connection, 8)
  await join(connection, 'a')
  await fetch(connection)
  const list = async () => (await connection.call('LIST_GROUPS', {})).message['groups']
  deepEqual(await list(), [{ group: 'g', state: 'stable', members: 1 }])
  equal(await connection.error('DELETE_GROUP', { group: 'g' }), 16)
  equal(await connection.error('DELETE_GROUP', { group: 'none' }), 15)
  equal(await connection.error('DESCRIBE_GROUP', { group: 'none' }), 15)
  const { message } = await connection.call('DESCRIBE_GROUP', { group: 'g' })
  equal(message['state'], 'stable')
  deepEqual(message['members'], [{ memberId: 'a', assignment: [{ topic: 't', partitions: [0, 1, 2, 3] }] }])
  equal((message['offsets'] as object[]).length, 4)
  await connection.call('LEAVE_GROUP', HEARTBEAT)
  deepEqual(await list(), [{ group: 'g', state: 'empty', members: 0 }])
  equal((await connection.call('DELETE_GROUP', { group: 'g' })).op, 'OK')
  deepEqual(await list(), [])
})

test('1024 groups have members; another one is refused until one is left', async () => {
  const at = await door()
  const connections: TestNativeConnection[] = []
  for (let number = 0; number < 1024; number++) {
    const connection = await at.connect()
    await join(connection, '', ['t'], `g${number}`)
    connections.push(connection)
  }
  const late = await at.connect()
  equal(await late.error('JOIN_GROUP', { group: 'late', memberId: '', topics: ['t'] }), 6)
  await connections[7]?.call('LEAVE_GROUP', { group: 'g7', memberId: '' })
  deepEqual(Object.keys((await join(late, 'x', ['t'], 'late'))[1]), ['t'])
})

test('pushed records follow the assignment: a change wakes the push', async () => {
  const at = await door()
  const [a, b, writer] = [await at.connect(), await at.connect(), await at.connect()]
  await produce(writer, 40)
  await join(a, 'a')
  await join(b, 'b')
  const subscribe = (connection: TestNativeConnection) => connection.exchange('SUBSCRIBE', { topic: 't', group: 'g', isolation: 0 })
  const pushed = async (connection: TestNativeConnection) => {
    await at.clock.advance(100)
    return (await connection.received()).filter(({ op }) => op === 'RECORD').map(({ message }) => Number(message['partition']))
  }
  const first = (await subscribe(a)).filter(({ op }) => op === 'RECORD').map(({ message }) => Number(message['partition']))
  const toA = [...first, ...(await pushed(a))]
  deepEqual([...new Set(toA)].sort(), [0, 1])
  a.send('LEAVE_GROUP', HEARTBEAT)
  // It reads all partitions again, on its own account.
  deepEqual([...new Set(await pushed(a))].sort(), [2, 3])
})

test('members of Kafka and of the native protocol do not mix, and each sees the groups of the other', async () => {
  const at = await door()
  const kafka = contextOf()
  const joinAsKafka = (group: string) =>
    at.broker.groups.join(kafka, {
      group,
      memberId: '',
      instanceId: null,
      protocolType: 'consumer',
      protocols: [{ name: 'range', metadata: Buffer.from([0, 0, 0, 0, 0, 1, 0, 1, 116, 255, 255, 255, 255]) }],
      sessionTimeoutMs: 10_000,
      rebalanceTimeoutMs: 10_000,
      requireKnownMemberId: false,
      supportsSkippingAssignment: false,
      reason: null,
    })
  const native = await at.connect()
  await join(native, 'a')
  equal((await joinAsKafka('g')).error?.code, 'INCONSISTENT_GROUP_PROTOCOL')
  await rejects(
    at.broker.groups.consumerHeartbeat(kafka, {
      group: 'g',
      memberId: 'k',
      idIsClients: true,
      memberEpoch: 0,
      instanceId: null,
      rackId: null,
      rebalanceTimeoutMs: 10_000,
      subscribedTopics: ['t'],
      subscribedRegex: null,
      assignor: null,
      owned: [],
    }),
    { code: 'INCONSISTENT_GROUP_PROTOCOL' },
  )
  const refused = await at.broker.groups.commit(kafka, {
    group: 'g',
    generation: -1,
    memberId: '',
    instanceId: null,
    durable: true,
    offsets: [{ topic: 't', partition: 0, value: { offset: 0, leaderEpoch: -1, metadata: '' } }],
  })
  equal(refused[0]?.code, 'GROUP_MEMBER_UNKNOWN', 'a tool of Kafka moves no offsets under members')
  // As a consumer of the classic protocol: version 0 of what such members say.
  const [shown] = await at.broker.groups.describe(kafka, ['g'])
  deepEqual([shown?.state, shown?.protocolType, shown?.protocol], ['Stable', 'consumer', 'range'])
  deepEqual(shown?.members[0]?.assignment.toString('hex'), `0000000000010001740000000400000000000000010000000200000003ffffffff`)

  const joined = joinAsKafka('k')
  await at.clock.advance(0)
  equal((await joined).error, null)
  equal(await (await at.connect()).error('JOIN_GROUP', { group: 'k', memberId: '', topics: ['t'] }), 13)
  const { message } = await native.call('DESCRIBE_GROUP', { group: 'k' })
  equal(message['state'], 'completing_rebalance')
  equal((message['members'] as object[]).length, 1)
  // Whoever is empty takes any members.
  await native.call('LEAVE_GROUP', HEARTBEAT)
  const taken = joinAsKafka('g')
  await at.clock.advance(0)
  equal((await taken).error, null)
})
