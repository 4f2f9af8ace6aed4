import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { ERRORS } from '../../../src/core/errors.ts'
import type { Message } from '../../../src/wire/messages.ts'
import type { OpName } from '../../../src/wire/opcodes.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { FakeSocket } from '../../support/fake-socket.ts'
import { type TestNativeConnection, type TestNativeDoor, testNativeDoor } from '../../support/native-door.ts'

const EMPTY = Buffer.alloc(0)
const GROUP = { group: 'g', memberId: '' }
const RECORD = { codec: 0, topic: 't', key: EMPTY, value: EMPTY }

type Way = (at: TestNativeDoor, connection: TestNativeConnection) => Promise<unknown>

/** A request by which a client of version 1 is given the code, after what must come before it. */
function asked<N extends OpName>(op: N, message: Message<N>, ...before: readonly (readonly [OpName, object])[]): Way {
  return async (_at, connection) => {
    for (const [first, fields] of before) await connection.exchange(first, fields as never)
    return (await connection.exchange(op, message)).at(-1)?.message['code']
  }
}

const NAMED = ['INIT_PRODUCER_ID', { producerName: 'n' }] as const
const NUMBERED = { pid: 1, seq: 0, epoch: 0, ...RECORD }

/** Every code that the broker gives, and one way to get it. */
const WAYS: Readonly<Record<number, Way>> = {
  1: asked('JOIN_GROUP', { ...GROUP, topics: [] }),
  2: async (_at, connection) => {
    connection.socket.push(Buffer.concat([Buffer.from('0000001122', 'hex'), Buffer.alloc(16)]))
    return (await connection.received())[0]?.message['code']
  },
  5: asked('PRODUCE', { ...RECORD, topic: 'missing' }),
  6: async (at) => {
    const socket = new FakeSocket()
    at.door.turnAway(socket)
    return socket.take().readUInt16BE(21)
  },
  7: asked('CREATE_TOPIC', { name: 't', partitions: 1 }),
  8: asked('COMMIT', { topic: 't', partition: 0, offset: 0 }),
  9: async (_at, connection) => {
    connection.socket.push(Buffer.from('7fffffff', 'hex'))
    return (await connection.received())[0]?.message['code']
  },
  10: asked('PRODUCE_IDEMPOTENT', NUMBERED),
  11: asked('PRODUCE_IDEMPOTENT', { ...NUMBERED, seq: 2 ** 31 }, NAMED),
  12: asked('GROUP_HEARTBEAT', GROUP),
  13: asked('JOIN_GROUP', { ...GROUP, topics: ['t'] }, ['FETCH', { topic: 't', group: 'other', maxRecords: 0 }]),
  14: asked('PRODUCE_BATCH', {
    ...{ flags: 1, codec: 0, topic: 't', pid: 1, baseSeq: 0, epoch: 0 },
    records: Array.from({ length: 1025 }, () => ({ key: EMPTY, value: EMPTY })),
  }),
  15: asked('DESCRIBE_GROUP', { group: 'nobody' }),
  16: asked('DELETE_GROUP', { group: 'g' }, ['JOIN_GROUP', { ...GROUP, topics: ['t'] }]),
  17: asked('ALTER_TOPIC_CONFIG', { name: 't', config: new Map([['unknown', '1']]) }),
  18: asked('DELETE_TOPIC', { name: '__cluster_metadata' }),
  21: asked('CREATE_PARTITIONS', { name: 't', total: 1 }),
  50: asked('PRODUCE_IDEMPOTENT', { ...NUMBERED, epoch: 99 }, NAMED),
  51: asked('BEGIN_TXN', {}),
  52: async (at, connection) => {
    const { pid, epoch } = (await connection.call('INIT_PRODUCER_ID', { producerName: 'slow' })).message as { pid: number; epoch: number }
    await connection.exchange('BEGIN_TXN', {})
    await connection.exchange('PRODUCE_IDEMPOTENT', { ...NUMBERED, pid, epoch })
    await at.clock.advance(61_000)
    await connection.received()
    return (await connection.exchange('END_TXN', { commit: 1 })).at(-1)?.message['code']
  },
}

/** They come with authentication and replication. */
const LATER = [4, 19, 20]

test('every code of the table of errors is given to some client, but for those that come later', async () => {
  const codes = new Set(Object.values(ERRORS).map(({ native }) => native))
  deepEqual(
    [...codes].filter((code) => !LATER.includes(code)).sort((a, b) => a - b),
    Object.keys(WAYS).map(Number),
  )
  const at = await testNativeDoor()
  for (const [code, way] of Object.entries(WAYS)) {
    if (at.broker.topics.find('t') === undefined) await createTopic(at.broker, 't')
    const connection = await at.connect()
    equal(await way(at, connection), Number(code), `code ${code}`)
    connection.socket.close()
    await connection.received()
  }
})
