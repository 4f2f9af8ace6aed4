import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { batchOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type Received, testNativeDoor } from '../../support/native-door.ts'
import { type Malformed, messageOf, nativeVectors, type Vector } from '../../support/native-vectors.ts'

const { vectors, malformed } = nativeVectors()

/** Topics and records that the requests of the vectors find. */
async function prepared(needs: { topic?: false } = {}) {
  const at = await testNativeDoor()
  if (needs.topic !== false) {
    await createTopic(at.broker, 'orders', 4, { 'retention.ms': '86400000', 'cleanup.policy': 'delete' })
    await createTopic(at.broker, 'audit', 2)
    await createTopic(at.broker, 'bin.topic-1_x')
    await createTopic(at.broker, 't')
  }
  return at
}

function vector(name: string): Vector {
  const found = vectors.find((each) => each.name === name)
  if (found === undefined) throw new Error(`no vector ${name}`)
  return found
}

type Expected = readonly [state: 'new' | 'greeted' | 'authenticated', ops: string[], fields?: object, before?: readonly string[]]

/** Who joins, for what only members may do. */
const JOIN = 'join group, two topics, own member id'

/**
 * What a live broker answers to each request of the vectors, after those that are to be sent before: opcodes, and the fields of the last
 * answer that do not depend on the moment.
 */
const ANSWERS: Readonly<Record<string, Expected>> = {
  'hello version 1': ['new', ['WELCOME'], { version: 1 }],
  'hello unsupported version 2': ['new', ['ERROR'], { code: 8 }],
  identify: ['greeted', ['IDENTIFY_ACK'], { name: 'MoonMQ' }],
  'auth plain': ['greeted', ['AUTH_OK'], {}],
  'auth plain utf8 and empty password': ['greeted', ['AUTH_OK'], {}],
  'scram client-first, no channel binding': ['greeted', ['ERROR'], { code: 4 }],
  'external without authorization identity': ['greeted', ['ERROR'], { code: 4 }],
  'heartbeat request from client': ['new', ['HEARTBEAT_RESP']],
  'heartbeat response from client': ['new', []],
  goodbye: ['authenticated', []],
  'produce, no compression': ['authenticated', ['PRODUCE_ACK'], { partition: 1, offset: 0 }],
  'produce, gzip at rest, empty key': ['authenticated', ['PRODUCE_ACK'], { offset: 0 }],
  'produce, snappy at rest, binary value': ['authenticated', ['PRODUCE_ACK'], { partition: 0, offset: 0 }],
  'produce batch, plain': [
    'authenticated',
    ['PRODUCE_BATCH_ACK'],
    {
      acks: [
        { partition: 1, offset: 0 },
        { partition: 0, offset: 0 },
      ],
      errorCode: 0,
      errorMessage: '',
    },
  ],
  'produce batch, idempotent': ['authenticated', ['ERROR'], { code: 10 }],
  'init producer id, empty payload': ['authenticated', ['PRODUCER_ID'], { epoch: 0 }],
  'init producer id, empty name': ['authenticated', ['PRODUCER_ID'], { epoch: 0 }],
  'init producer id, durable name': ['authenticated', ['PRODUCER_ID'], { epoch: 0 }],
  'produce idempotent': ['authenticated', ['ERROR'], { code: 10 }],
  'begin transaction': ['authenticated', ['ERROR'], { code: 51 }],
  'end transaction, commit': ['authenticated', ['ERROR'], { code: 51 }],
  'end transaction, abort': ['authenticated', ['ERROR'], { code: 51 }],
  'transactional offset commit': ['authenticated', ['ERROR'], { code: 51 }],
  'produce batch, gzip, one empty-key record': ['authenticated', ['PRODUCE_BATCH_ACK'], { acks: [{ partition: 0, offset: 0 }] }],
  'fetch, shortest legal form': ['authenticated', ['OK']],
  'fetch, isolation only': ['authenticated', ['OK']],
  'fetch, batched reply, read uncommitted': ['authenticated', ['OK']],
  'fetch, batched reply, read committed': ['authenticated', ['OK']],
  commit: ['authenticated', ['ERROR'], { code: 8 }],
  'create topic': ['authenticated', ['OK']],
  'list topics': ['authenticated', ['TOPIC_LIST'], { names: ['audit', 'bin.topic-1_x', 'orders', 't'] }],
  'list offsets, bounds (mode absent)': ['authenticated', ['OFFSETS']],
  'list offsets, bounds (mode 0 explicit)': ['authenticated', ['OFFSETS']],
  'list offsets, timestamp mode': ['authenticated', ['OFFSETS']],
  'delete topic': ['authenticated', ['OK']],
  'describe topic': [
    'authenticated',
    ['TOPIC_DESCRIPTION'],
    {
      name: 'orders',
      partitions: 4,
      config: new Map([
        ['cleanup_policy', 'delete'],
        ['retention', '86400'],
      ]),
    },
  ],
  'create partitions': ['authenticated', ['OK']],
  'alter topic config': ['authenticated', ['OK']],
  'alter topic config, nothing to change': ['authenticated', ['OK']],
  'list groups': ['authenticated', ['GROUP_LIST'], { groups: [{ group: 'billing', state: 'stable', members: 1 }] }, [JOIN]],
  'describe group': [
    'authenticated',
    ['GROUP_DESCRIPTION'],
    {
      group: 'billing',
      state: 'stable',
      members: [
        {
          memberId: 'm-1',
          assignment: [
            { topic: 'audit', partitions: [0, 1] },
            { topic: 'orders', partitions: [0, 1, 2, 3] },
          ],
        },
      ],
      offsets: [],
    },
    [JOIN],
  ],
  'delete group': ['authenticated', ['ERROR'], { code: 15 }],
  'join group, server picks the member id': [
    'authenticated',
    ['GROUP_ASSIGNMENT'],
    { assignment: [{ topic: 'orders', partitions: [0, 1, 2, 3] }] },
  ],
  [JOIN]: [
    'authenticated',
    ['GROUP_ASSIGNMENT'],
    {
      memberId: 'm-1',
      assignment: [
        { topic: 'audit', partitions: [0, 1] },
        { topic: 'orders', partitions: [0, 1, 2, 3] },
      ],
    },
  ],
  'subscribe, isolation absent': ['authenticated', ['OK']],
  'subscribe, read committed': ['authenticated', ['OK']],
  'nack with reason': ['authenticated', ['ERROR'], { code: 8 }],
  'nack, empty reason': ['authenticated', ['ERROR'], { code: 8 }],
  'group heartbeat': ['authenticated', ['OK'], {}, [JOIN]],
  'leave group': ['authenticated', ['OK'], {}, [JOIN]],
}

for (const [name, [state, ops, fields = {}, before = []]] of Object.entries(ANSWERS)) {
  test(`${name}: a live broker answers`, async () => {
    const at = await prepared(name === 'create topic' ? { topic: false } : {})
    const connection = await at.connect(state)
    for (const each of before) {
      connection.socket.push(Buffer.from(vector(each).frameHex, 'hex'))
      await connection.received()
    }
    const request = vector(name)
    connection.socket.push(Buffer.from(request.frameHex, 'hex'))
    const answers = await connection.received()
    deepEqual(
      answers.map((answer) => answer.op),
      ops,
    )
    for (const answer of answers) equal(answer.correlation, request.correlationIdHex)
    const last = answers.at(-1)
    for (const [field, value] of Object.entries(fields)) deepEqual(last?.message[field], value, field)
  })
}

const FETCHED = 'fetch, batched reply, read uncommitted'
const REFUSED = 'nack with reason'
const given = Array(2).fill(FETCHED) as string[]

/** The same where records are there: vectors one after another, with the answers to the last one. */
const WITH_RECORDS: readonly (readonly [steps: readonly string[], ops: readonly string[], fields: object])[] = [
  [[FETCHED], ['RECORD_BATCH', 'OK'], {}],
  [['fetch, shortest legal form'], [...Array(3).fill('RECORD'), 'OK'], {}],
  [[...given, 'commit'], ['OK'], {}],
  [[...given, REFUSED], ['NACK_ACK'], { deadLettered: 0, attempts: 1, dlqTopic: '' }],
  [[...given, 'nack, empty reason'], ['NACK_ACK'], { deadLettered: 0, attempts: 1, dlqTopic: '' }],
  [[...given, REFUSED, FETCHED, REFUSED], ['NACK_ACK'], { deadLettered: 0, attempts: 2, dlqTopic: '' }],
  [[...given, REFUSED, FETCHED, REFUSED, FETCHED, REFUSED], ['NACK_ACK'], { deadLettered: 1, attempts: 3, dlqTopic: 'orders.dlq' }],
  [['subscribe, isolation absent'], ['OK', ...Array(50).fill('RECORD')], { topic: 'orders', partition: 0, offset: 49 }],
  [['subscribe, read committed'], ['OK', ...Array(50).fill('RECORD')], { topic: 'orders', partition: 0, offset: 49 }],
  [['list offsets, timestamp mode'], ['OFFSETS'], {}],
]

test('FETCH, SUBSCRIBE, COMMIT and NACK of the vectors where records are there', async () => {
  for (const [steps, ops, fields] of WITH_RECORDS) {
    const at = await prepared()
    await produceOne(at.broker, 'orders', 0, batchOf(50))
    const connection = await at.connect()
    let answers: Received[] = []
    for (const step of steps) {
      connection.socket.push(Buffer.from(vector(step).frameHex, 'hex'))
      answers = await connection.received()
    }
    const what = steps.join(', ')
    deepEqual(
      answers.map(({ op }) => op),
      ops,
      what,
    )
    const isPushed = ops[0] === 'OK' && ops.length > 1
    for (const [index, { correlation }] of answers.entries()) {
      equal(correlation, isPushed && index > 0 ? '0'.repeat(32) : vector(steps.at(-1) ?? '').correlationIdHex, what)
    }
    for (const [field, value] of Object.entries(fields)) deepEqual(answers.at(-1)?.message[field], value, `${what}: ${field}`)
  }
})

/** Their answers come with authentication. */
const ELSEWHERE = new Set<string>(['AUTH_SCRAM', 'AUTH_SCRAM_FINAL'])

test('every request of the vectors is sent to a live broker', () => {
  const requests = vectors.filter(({ direction, op }) => direction === 'client-to-server' && !ELSEWHERE.has(op))
  deepEqual(
    requests.filter(({ name }) => ANSWERS[name] === undefined).map(({ name }) => name),
    [],
  )
})

test('records, bounds and lists are answered with the fields of the vectors', async () => {
  const at = await prepared()
  const connection = await at.connect()
  for (const each of [vector('produce, no compression'), vector('produce batch, plain')]) {
    connection.socket.push(Buffer.from(each.frameHex, 'hex'))
    await connection.received()
  }
  const fetched = await connection.exchange('FETCH', { topic: 'orders', group: 'g', maxRecords: 2, isolation: 0, flags: 0 })
  deepEqual(
    fetched.map((frame) => frame.op),
    ['RECORD', 'RECORD', 'OK'],
  )
  deepEqual(Object.keys(fetched[0]?.message ?? {}), Object.keys(messageOf(vector('record, pulled'))))
  const batched = await connection.exchange('FETCH', { topic: 'orders', group: 'g', maxRecords: 10, isolation: 0, flags: 1 })
  deepEqual(
    batched.map((frame) => frame.op),
    ['RECORD_BATCH', 'OK'],
  )
  const nothing = await connection.exchange('FETCH', { topic: 'orders', group: 'g', maxRecords: 10, isolation: 0, flags: 1 })
  deepEqual(
    nothing.map((frame) => frame.op),
    ['OK'],
  )
  const bounds = await connection.call('LIST_OFFSETS', { topic: 'orders' })
  deepEqual((bounds.message['entries'] as object[])[1], { partition: 1, earliest: 0, latest: 2, highWatermark: 2, lso: 2, flags: 7 })
  const found = await connection.call('LIST_OFFSETS', { topic: 'orders', mode: 1, timestamp: 1 })
  deepEqual((found.message['forTimes'] as object[])[1], { partition: 1, offset: 0, flags: 1 })
  const late = await connection.call('LIST_OFFSETS', { topic: 'orders', mode: 1, timestamp: 2n ** 63n })
  deepEqual((late.message['forTimes'] as object[])[1], { partition: 1, offset: 2, flags: 0 })
})

test('producers and transactions: the vectors one after another on one connection', async () => {
  const at = await prepared()
  const connection = await at.connect()
  const push = async (name: string) => {
    connection.socket.push(Buffer.from(vector(name).frameHex, 'hex'))
    const [answer] = await connection.received()
    return answer?.op === 'ERROR' ? answer.message['code'] : answer?.op
  }
  equal(await push('init producer id, empty name'), 'PRODUCER_ID')
  // The vectors say producer id 7, which this connection does not have.
  equal(await push('produce idempotent'), 8)
  equal(await push('produce batch, idempotent'), 8)
  equal(await push('begin transaction'), 51)
  equal(await push('init producer id, durable name'), 'PRODUCER_ID')
  equal(await push('begin transaction'), 'OK')
  equal(await push('begin transaction'), 51)
  equal(await push('transactional offset commit'), 'OK')
  equal(await push('end transaction, commit'), 'OK')
  equal(await push('begin transaction'), 'OK')
  equal(await push('end transaction, abort'), 'OK')
  equal(await push('transactional offset commit'), 51)
})

function stateOf(input: Malformed): 'new' | 'greeted' | 'authenticated' {
  return input.state === 'any' ? 'authenticated' : input.state
}

for (const input of malformed) {
  test(`malformed: ${input.name}`, async () => {
    const at = await prepared()
    const connection = await at.connect(stateOf(input))
    connection.socket.push(Buffer.from(input.frameHex, 'hex'))
    const answers = await connection.received()
    equal(answers.length, 1)
    equal(answers[0]?.op, 'ERROR')
    equal(answers[0]?.message['code'], input.expectErrorCode)
    ok(String(answers[0]?.message['message']).length > 0)
    equal(answers[0]?.message['name'], undefined, 'a client of version 1 is told no names')
    equal(connection.socket.closed, input.connectionCloses)
    if (input.connectionCloses) return
    // The connection lives on.
    deepEqual(
      (await connection.exchange('HEARTBEAT_REQ', {})).map((frame) => frame.op),
      ['HEARTBEAT_RESP'],
    )
  })
}
