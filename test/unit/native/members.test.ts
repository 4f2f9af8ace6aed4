import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { createTopic } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

/** Members of the extension: they say what they hold, and are told of changes. */

const REBALANCE_MS = 45_000

async function door() {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 4)
  return at
}

function partitionsIn({ op, message }: Received): number[] {
  if (op !== 'MEMBER_STATE') throw new Error(`${op} ${JSON.stringify(message)}`)
  return (message['assignment'] as { partitions: number[] }[]).flatMap(({ partitions }) => partitions)
}

async function join(connection: TestNativeConnection, memberId: string, topics = ['t']): Promise<number[]> {
  return partitionsIn(await connection.call('MEMBER_JOIN', { group: 'g', memberId, rebalanceTimeoutMs: REBALANCE_MS, topics }))
}

async function sync(connection: TestNativeConnection, partitions: number[]): Promise<number[]> {
  return partitionsIn(await connection.call('MEMBER_SYNC', { group: 'g', held: [{ topic: 't', partitions }] }))
}

async function told(connection: TestNativeConnection): Promise<number> {
  const frames = await connection.received()
  for (const { op, correlation } of frames) deepEqual([op, Number(`0x${correlation}`)], ['GROUP_CHANGED', 0])
  return frames.length
}

test('a partition goes over when its owner has said that it let go', async () => {
  const at = await door()
  const [a, b, c] = [await at.connect('extended'), await at.connect('extended'), await at.connect('extended')]
  deepEqual(await join(a, 'a'), [0, 1, 2, 3])
  deepEqual(await join(b, 'b'), [])
  deepEqual([await told(a), await told(b)], [1, 0])
  equal((await c.call('DESCRIBE_GROUP', { group: 'g' })).message['state'], 'completing_rebalance')
  // A heartbeat that still names all of them frees none.
  deepEqual(await sync(a, [0, 1, 2, 3]), [0, 1])
  deepEqual(await sync(b, []), [])
  deepEqual(await sync(a, [0, 1]), [0, 1])
  deepEqual([await told(a), await told(b)], [0, 1])
  deepEqual(await sync(b, []), [2, 3])
  equal((await c.call('DESCRIBE_GROUP', { group: 'g' })).message['state'], 'stable')
})

test('commits are taken for what a member holds, and for nothing else', async () => {
  const at = await door()
  const [a, b] = [await at.connect('extended'), await at.connect('extended')]
  const store = (connection: TestNativeConnection, partition: number) =>
    connection.call('STORE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition, offset: 0 }] })
  await join(a, 'a')
  await join(b, 'b')
  await told(a)
  equal((await store(a, 3)).op, 'OK', 'it has been told to let go, and has not yet')
  await sync(a, [0, 1])
  deepEqual([(await store(a, 3)).message['name'], (await store(a, 3)).message['code']], ['ILLEGAL_GENERATION', 12])
  await told(b)
  equal((await store(b, 3)).message['code'], 12, 'it has not asked yet')
  await sync(b, [])
  equal((await store(b, 3)).op, 'OK')
})

test('who does not let go in time is dropped, and may join again', async () => {
  const at = await door()
  const [a, b] = [await at.connect('extended'), await at.connect('extended')]
  await join(a, 'a')
  await join(b, 'b')
  for (let waitedMs = 0; waitedMs <= REBALANCE_MS + 10_000; waitedMs += 5_000) {
    if ((await a.exchange('GROUP_HEARTBEAT', { group: 'g', memberId: '' })).some(({ op }) => op === 'ERROR')) break
    await b.exchange('GROUP_HEARTBEAT', { group: 'g', memberId: '' })
    await at.clock.advance(5_000)
  }
  equal(await a.error('MEMBER_SYNC', { group: 'g', held: [] }), 12)
  await b.received()
  deepEqual(await sync(b, []), [0, 1, 2, 3])
  deepEqual(await join(a, 'a'), [])
})

test('members that die free their partitions at once, and the others are told', async () => {
  const at = await door()
  const [a, b] = [await at.connect('extended'), await at.connect('extended')]
  await join(a, 'a')
  await join(b, 'b')
  a.socket.destroy()
  equal(await told(b), 1)
  deepEqual(await sync(b, []), [0, 1, 2, 3])
  const grown = await b.exchange('CREATE_PARTITIONS', { name: 't', total: 5 })
  deepEqual(
    grown.map(({ op }) => op),
    ['GROUP_CHANGED', 'OK'],
  )
  deepEqual(await sync(b, [0, 1, 2, 3]), [0, 1, 2, 3, 4])
})

test('members of version 1 and of the extension share a group', async () => {
  const at = await door()
  const [a, b] = [await at.connect('extended'), await at.connect()]
  deepEqual(await join(a, 'a'), [0, 1, 2, 3])
  const joined = await b.call('JOIN_GROUP', { group: 'g', memberId: 'b', topics: ['t'] })
  deepEqual(joined.message['assignment'], [{ topic: 't', partitions: [] }])
  await a.received()
  deepEqual(await sync(a, [0, 1]), [0, 1])
  const again = await b.call('JOIN_GROUP', { group: 'g', memberId: 'b', topics: ['t'] })
  deepEqual(again.message['assignment'], [{ topic: 't', partitions: [2, 3] }])
})

test('groups of every kind are told with their members, positions and ends', async () => {
  const at = await door()
  const [a, b] = [await at.connect('extended'), await at.connect('extended')]
  await join(a, 'a')
  await a.call('SEND', {
    acks: 1,
    codec: 0,
    timeoutMs: 1000,
    topic: 't',
    records: [{ partition: 2, key: null, value: Buffer.from('v'), headers: [] }],
  })
  await a.call('STORE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition: 2, offset: 1 }] })
  deepEqual((await b.call('GROUPS', {})).message['groups'], [{ group: 'g', kind: 'native', state: 'stable', members: 1 }])
  const { message } = await b.call('GROUP', { group: 'g' })
  deepEqual(message['offsets'], [{ topic: 't', partition: 2, offset: 1, end: 1 }])
  deepEqual(message['members'], [
    {
      memberId: 'a',
      instanceId: '',
      clientId: 'test',
      clientHost: '127.0.0.1',
      topics: ['t'],
      assignment: [{ topic: 't', partitions: [0, 1, 2, 3] }],
    },
  ])
  equal(await b.error('DELETE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition: 2 }] }), 16, 'somebody reads it')
  await a.call('LEAVE_GROUP', { group: 'g', memberId: '' })
  equal((await b.call('DELETE_POSITIONS', { group: 'g', offsets: [{ topic: 't', partition: 2 }] })).op, 'OK')
})
