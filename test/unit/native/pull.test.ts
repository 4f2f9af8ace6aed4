import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { createTopic } from '../../support/fake-broker.ts'
import { type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

interface Pulled {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly { key: string; value: Buffer | null }[]
}

const LARGE = Buffer.alloc(200_000, 'x')
const RECORDS = [
  { partition: 0, key: null, value: Buffer.from('plain'), headers: [] },
  {
    partition: 0,
    key: Buffer.from('k'),
    value: null,
    headers: [
      { key: 'h', value: Buffer.from('1') },
      { key: 'h', value: null },
    ],
  },
  { partition: 1, key: Buffer.alloc(0), value: LARGE, headers: [] },
]

async function setUp() {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 2)
  const connection = await at.connect('extended')
  await connection.call('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: RECORDS })
  return { at, connection }
}

async function pull(connection: TestNativeConnection, more: object = {}): Promise<readonly Pulled[]> {
  const message = { topic: 't', group: 'g', isolation: 1, maxRecords: 100, maxBytes: 0, ...more }
  return (await connection.call('PULL', message)).message['records'] as readonly Pulled[]
}

test('PULL gives a group what it has not read: headers, nulls, large values; what was given counts as read', async () => {
  const { at, connection } = await setUp()
  const got = await pull(connection)
  deepEqual(
    got.map(({ topic, partition, offset, key, value, headers }) => ({ topic, partition, offset, key, value, headers })),
    RECORDS.map((record, index) => ({ topic: 't', offset: [0, 1, 0][index], ...record })),
  )
  deepEqual(await pull(connection), [])
  deepEqual(await pull(await at.connect('extended')), [])
  equal((await pull(await at.connect('extended'), { group: 'other' })).length, 3)
  // Version 1 does not know it.
  equal(await (await at.connect()).error('PULL', { topic: 't', group: 'g', isolation: 1, maxRecords: 1, maxBytes: 0 }), 2)
})

test('PULL keeps to its bytes, and gives one record at least', async () => {
  const { connection } = await setUp()
  const sizes: number[] = []
  for (let got = await pull(connection, { maxBytes: 1 }); got.length > 0; got = await pull(connection, { maxBytes: 1 }))
    sizes.push(got.length)
  deepEqual(sizes, [1, 1, 1])
})

test('NACK and COMMIT go with PULL as they do with FETCH', async () => {
  const { at, connection } = await setUp()
  equal(await connection.error('NACK', { topic: 't', partition: 0, offset: 0, reason: '' }), 8)
  await pull(connection)
  for (const attempts of [1, 2]) {
    const { message } = await connection.call('NACK', { topic: 't', partition: 0, offset: 0, reason: 'no' })
    deepEqual([message['deadLettered'], message['attempts']], [0, attempts])
    deepEqual(
      (await pull(connection)).map(({ partition, offset }) => [partition, offset]),
      [
        [0, 0],
        [0, 1],
      ],
    )
  }
  equal((await connection.call('NACK', { topic: 't', partition: 0, offset: 0, reason: 'no' })).message['deadLettered'], 1)
  await connection.call('COMMIT', { topic: 't', partition: 1, offset: 0 })
  deepEqual(
    (await pull(await at.connect('extended'))).map(({ partition, offset }) => [partition, offset]),
    [
      [0, 1],
      [1, 0],
    ],
  )
})

test('a connection reads by PULL or by another way, and as one group with one isolation level', async () => {
  const { at, connection } = await setUp()
  const other = { topic: 't', group: 'g', isolation: 1, maxRecords: 1, maxBytes: 0 }
  equal(await connection.error('PULL', { ...other, topic: 'missing' }), 5)
  await pull(connection, { maxRecords: 1 })
  for (const wrong of [{ group: 'x' }, { isolation: 0 }]) equal(await connection.error('PULL', { ...other, ...wrong }), 8)
  equal(await connection.error('FETCH', { topic: 't', group: 'g', maxRecords: 1, isolation: 1 }), 8)
  equal(await connection.error('SUBSCRIBE', { topic: 't', group: 'g', isolation: 1 }), 8)
  const stream = { group: 'g', isolation: 1, records: 0, bytes: 0, topics: [{ topic: 't', start: 4, value: 0, positions: [] }] }
  equal(await connection.error('STREAM', stream), 8)
  const fetching = await at.connect('extended')
  await fetching.call('FETCH', { topic: 't', group: 'g', maxRecords: 0, isolation: 1 })
  equal(await fetching.error('PULL', other), 8)
  const pushed = await at.connect('extended')
  await pushed.call('STREAM', stream)
  equal(await pushed.error('PULL', other), 8)
})

test('PULL of a member gives its share, and in no other group', async () => {
  const { at, connection } = await setUp()
  const member = await at.connect('extended')
  await connection.call('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t'] })
  await member.call('JOIN_GROUP', { group: 'g', memberId: 'b', topics: ['t'] })
  await connection.call('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t'] })
  const shares = [await pull(connection), await pull(member)]
  deepEqual(
    shares.map((records) => records.map(({ partition }) => partition)),
    [[0, 0], [1]],
  )
  equal(await connection.error('PULL', { topic: 't', group: 'x', isolation: 1, maxRecords: 1, maxBytes: 0 }), 8)
})
