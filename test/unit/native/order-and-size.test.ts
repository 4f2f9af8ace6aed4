import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import { MoonMQError } from '../../../src/core/errors.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../../src/wire/frame.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

/** What the log of a partition holds, in its order. */
async function stored(connection: TestNativeConnection, topic = 't', group = 'stored'): Promise<string[]> {
  const frames = await connection.exchange('FETCH', { topic, group, maxRecords: 100 })
  return frames.flatMap(({ message }) => message['value']?.toString() ?? [])
}

const bytes = (text: string) => Buffer.from(text)

test('what is sent with a number does not overtake what was sent before it without one', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  const connection = await at.connect('extended')
  const { pid, epoch } = (await connection.call('INIT_PRODUCER_ID', {})).message as { pid: number; epoch: number }
  const plain = (value: string) => connection.send('PRODUCE', { codec: 0, topic: 't', key: bytes(''), value: bytes(value) })
  const numbered = (seq: number, value: string) =>
    connection.send('PRODUCE_IDEMPOTENT', { pid, seq, epoch, codec: 0, topic: 't', key: bytes(''), value: bytes(value) })
  const batch = (flags: number, seq: number, value: string) => {
    const records = [{ key: bytes(''), value: bytes(value) }]
    return connection.send('PRODUCE_BATCH', { flags, codec: 0, topic: 't', pid, baseSeq: seq, epoch, records })
  }
  const record = { key: null, value: bytes('send'), headers: [] }
  const ids = [
    plain('a'),
    numbered(0, 'b'),
    plain('c'),
    batch(1, 1, 'd'),
    batch(0, 0, 'e'),
    numbered(2, 'f'),
    connection.send('SEND', { acks: 1, codec: 0, timeoutMs: 1000, topic: 't', records: [{ ...record, partition: 0 }] }),
    batch(1, 3, 'g'),
  ]
  const answers = []
  for (let turn = 0; turn < 20 && answers.length < ids.length; turn++) answers.push(...(await connection.received()))
  deepEqual(
    answers.map(({ correlation, op }) => [correlation, op === 'ERROR']),
    ids.map((id) => [id, false]),
  )
  deepEqual(await stored(connection), ['a', 'b', 'c', 'd', 'e', 'f', 'send', 'g'])
})

test('many requests of one chunk whose answers are long are all answered, never more at a time than may be pending', async () => {
  const at = await testNativeDoor({ maxPendingBytes: 100_000 })
  for (let i = 0; i < 40; i++) await createTopic(at.broker, `topic-${i}`.padEnd(240, 'x'))
  const connection = await at.connect()
  const frames = Array.from({ length: 50 }, () => encodeFrame('LIST_TOPICS', ZERO_CORRELATION, {}))
  connection.socket.push(Buffer.concat(frames))
  equal((await connection.received()).length, 50)
  equal(connection.socket.destroyed, false)
})

test('acknowledgements that are longer than their batches do not pile up beyond what may be pending', async () => {
  const at = await testNativeDoor({ maxPendingBytes: 40_000 })
  await createTopic(at.broker, 't')
  at.logs.at('t', 0).autoSync = false
  const connection = await at.connect()
  const records = Array.from({ length: 300 }, () => ({ key: bytes(''), value: bytes('') }))
  for (let i = 0; i < 20; i++) connection.send('PRODUCE_BATCH', { flags: 0, codec: 0, topic: 't', records })
  let answered = 0
  for (let turn = 0; turn < 50 && answered < 20; turn++) {
    answered += (await connection.received()).length
    at.logs.at('t', 0).sync()
  }
  deepEqual([answered, connection.socket.destroyed], [20, false])
})

/** Behind a record that is refused late nothing of its batch is written, wherever it would go. */
const REFUSED_LATE: readonly (readonly [what: string, codec: number, partitions: number, config: Record<string, string>])[] = [
  ['one partition', 0, 1, {}],
  ['the rest goes to another partition, which does not wait', 0, 2, {}],
  ['stored compressed', 1, 2, {}],
  ['compressed by the topic', 0, 2, { 'compression.type': 'gzip' }],
]

for (const [what, codec, partitions, config] of REFUSED_LATE) {
  test(`PRODUCE_BATCH, a record beyond max.message.bytes: ${what}`, async () => {
    const at = await testNativeDoor()
    await createTopic(at.broker, 't', partitions, { 'max.message.bytes': '1000', ...config })
    const connection = await at.connect()
    // Keys of both partitions; the large one is between records of the other.
    const record = (key: string, size: number) => ({ key: bytes(key), value: Buffer.alloc(size, key) })
    const records = [record('a', 10), record('b', 10), record('c', 5000), record('a', 11), record('b', 11)]
    const { message } = await connection.call('PRODUCE_BATCH', { flags: 0, codec, topic: 't', records })
    deepEqual([(message['acks'] as unknown[]).length, message['errorCode']], [2, 7])
    deepEqual((await stored(connection)).sort(), ['a'.repeat(10), 'b'.repeat(10)])
    const first = await at.connect()
    equal(await first.error('PRODUCE_BATCH', { flags: 0, codec, topic: 't', records: records.slice(2) }), 7)
    equal((await stored(connection)).length, 0)
  })
}

test('PRODUCE_BATCH: what is still queued when a log fails is not written behind it', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 1, { 'max.message.bytes': '4000' })
  const log = at.logs.at('t', 0)
  const connection = await at.connect()
  // Three batches: the first fails to become durable, the others were not begun.
  log.autoSync = false
  await connection.exchange('PRODUCE', { codec: 0, topic: 't', key: bytes('k'), value: bytes('first') })
  const records = Array.from({ length: 9 }, () => ({ key: bytes('k'), value: Buffer.alloc(1000) }))
  connection.send('PRODUCE_BATCH', { flags: 0, codec: 0, topic: 't', records })
  await connection.received()
  equal(log.logEndOffset, 1)
  const append = log.append.bind(log)
  let appends = 0
  log.append = (...request) => {
    if (++appends === 1) throw new MoonMQError('STORAGE_FULL', { topic: 't', partition: 0 })
    return append(...request)
  }
  log.sync()
  const answers = await connection.received()
  deepEqual(
    answers.map(({ op, message }) => [op, message['code']]),
    [
      ['PRODUCE_ACK', undefined],
      ['ERROR', 7],
    ],
  )
  deepEqual([appends, log.logEndOffset], [1, 1])
})

test('LIST_OFFSETS: a partition that cannot be served hides none of the others; when none can, the request fails', async () => {
  const at = await testNativeDoor()
  const open = at.logs.open.bind(at.logs)
  const damaged = new Set([1])
  at.logs.open = async (request) => {
    if (damaged.has(request.partition)) throw new MoonMQError('DATA_DAMAGED', { what: 'a test', reason: 'a test', repair: '' })
    return await open(request)
  }
  await rejects(createTopic(at.broker, 't', 4))
  const connection = await at.connect()
  await connection.call('PRODUCE_BATCH', {
    flags: 0,
    codec: 0,
    topic: 't',
    records: ['a', 'b', 'c', 'd', 'e'].map((key) => ({ key: bytes(key), value: bytes(key) })),
  })
  at.logs.at('t', 2).offsetForTimestamp = async () => {
    throw new MoonMQError('CORRUPT_RECORDS', { file: 'f', position: 1, reason: 'a test' })
  }
  const told = async (mode: object) => (await connection.call('LIST_OFFSETS', { topic: 't', ...mode })).message
  const flags = (list: unknown) => (list as { partition: number; flags: number }[]).map((each) => [each.partition, each.flags])
  const all = [0, 1, 2, 3]
  deepEqual(
    flags((await told({}))['entries']),
    all.map((partition) => [partition, partition === 1 ? 0 : 7]),
  )
  const timed = await told({ mode: 1, timestamp: 0 })
  deepEqual(
    flags(timed['entries']),
    all.map((partition) => [partition, partition === 1 || partition === 2 ? 0 : 7]),
  )
  equal((timed['forTimes'] as unknown[]).length, 4)
  for (const partition of [0, 3]) at.logs.at('t', partition).offsetForTimestamp = at.logs.at('t', 2).offsetForTimestamp
  equal(await connection.error('LIST_OFFSETS', { topic: 't', mode: 1, timestamp: 0 }), 7)
})

test('an answer that no frame can hold is refused, and lists come in pages', async () => {
  const at = await testNativeDoor({ maxListTopics: 1_000_000, maxPendingBytes: 1 << 30 })
  const connection = await at.connect('extended')
  const { topics } = at.broker
  await createTopic(at.broker, 't')
  const image = topics.get('t')
  const names = Array.from({ length: 260 }, (_, index) => `${String(index).padStart(6, '0')}${'x'.repeat(65_000)}`)
  topics.list = () => names.map((name) => ({ ...image, name }))
  equal(await connection.error('LIST_TOPICS', {}), 7)
  const seen: string[] = []
  let pages = 0
  for (let more = true; more; pages++) {
    const { message } = await connection.call('LIST', { flags: 0, after: seen.at(-1) })
    for (const { name } of message['topics'] as { name: string }[]) seen.push(name)
    more = message['more'] === 1
  }
  deepEqual([pages, seen.length, seen.at(-1)], [3, names.length, names.at(-1)])
  equal((await connection.call('HEARTBEAT_REQ', {})).op, 'HEARTBEAT_RESP')
  ok(!connection.socket.closed)
})
