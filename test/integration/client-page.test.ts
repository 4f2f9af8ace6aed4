import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import * as v from 'valibot'
import { connect as connectTo, json, MoonMQError, nullable, TopicFormat, text } from '../../src/client/index.ts'
import type { ClientOptions, ClientRecord } from '../../src/client/types.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { inRoot } from '../support/root.ts'

/** A broker with two orders, a client of it, and what the snippet prints. */
async function setUp() {
  const broker = await startTestBroker()
  const client = await broker.connect()
  for (const topic of ['orders', 'bills', 'audit']) await client.admin.createTopic(topic, { partitions: 1 })
  const headers = [{ key: 'kind', value: 'test' }]
  await client.producer().sendMany('orders', [
    { key: 'a', value: 'first', headers },
    { key: 'a', value: 'second', headers },
  ])
  const lines: string[] = []
  return {
    broker,
    client,
    lines,
    console: {
      log: (...parts: unknown[]) =>
        void lines.push(parts.map((part) => (typeof part === 'object' ? JSON.stringify(part) : String(part))).join(' ')),
    },
    async [Symbol.asyncDispose]() {
      await client.close()
      await broker.close()
    },
  }
}

function matches(lines: readonly string[], expected: readonly (string | RegExp)[]): void {
  assert.equal(lines.length, expected.length, lines.join('\n'))
  for (const [index, line] of lines.entries()) {
    const wanted = expected[index]
    if (wanted instanceof RegExp) assert.match(line, wanted)
    else assert.equal(line, wanted)
  }
}

test('the client page: connecting', async () => {
  await using at = await setUp()
  const { console } = at
  const connect = (options: ClientOptions) => connectTo({ ...options, address: at.broker.address })
  await using client = await connect({ address: ['127.0.0.1:9092', 'standby:9092'], name: 'billing', timeoutMs: 10_000 })
  console.log(client.server.name, client.server.version)
  matches(at.lines, [/^MoonMQ /])
})

test('the client page: a broker in this process', async () => {
  await using at = await setUp()
  const startBroker = (_options: object) => startTestBroker()
  const broker = await startBroker({ port: 0, dataDir: './data' })
  const client = await broker.connect()
  await client.admin.createTopic('orders', { ifNotExists: true })
  await client.close()
  await broker.close()
  matches(at.lines, [])
})

test('the client page: producing', async () => {
  await using at = await setUp()
  const { client, console } = at
  const producer = client.producer({ acks: 'all', lingerMs: 5 })
  const { partition, offset } = await producer.send('orders', {
    key: 'ada',
    value: JSON.stringify({ item: 'lamp' }),
    headers: [{ key: 'trace', value: 'a1' }],
  })
  console.log(partition, offset)
  await producer.sendMany('orders', [
    { key: 'grace', value: Buffer.from([1, 2, 3]) },
    { key: 'ada', value: null },
  ])
  await producer.close()
  matches(at.lines, [/^\d+ \d+$/])
})

test('the client page: transactions', async () => {
  await using at = await setUp()
  const { client, console } = at
  const producer = await client.transactionalProducer('order-biller')
  const bill = await producer.transaction(async (tx) => {
    await tx.send('bills', { key: 'ada', value: '12.50' })
    await tx.sendMany('audit', [{ value: 'billed ada' }, { value: 'told ada' }])
    await tx.commitOffsets('billing', [{ topic: 'orders', partition: 0, offset: 1 }])
    return 'bill 1'
  })
  console.log(bill)
  await producer.close()
  matches(at.lines, ['bill 1'])
})

test('the client page: a reader', async () => {
  await using at = await setUp()
  const { client, console } = at
  for await (const record of client.reader({ topic: 'orders', from: 'earliest' })) {
    console.log(record.partition, record.offset, new Date(record.timestampMs), String(record.key), String(record.value))
    for (const { key, value } of record.headers) console.log(key, String(value))
  }
  matches(at.lines, [/^0 0 .* a first$/, 'kind test', /^0 1 .* a second$/, 'kind test'])
})

test('the client page: a group', async () => {
  await using at = await setUp()
  const { client, console } = at
  for await (const record of client.consumer({ group: 'billing', topics: ['orders'], endWhenIdle: true })) {
    console.log(String(record.value)) // done, and committed, when the loop asks for the next one
  }
  matches(at.lines, ['first', 'second'])
})

test('the client page: a group, by hand', async () => {
  await using at = await setUp()
  const { client, console } = at
  const consumer = client.consumer({
    group: 'mail',
    topics: ['orders'],
    commit: 'manual',
    onChange: ({ kind, partitions }) => console.log(kind, partitions),
  })
  for await (const record of consumer) {
    await consumer.commit(record) // it and all before it in its partition
    if (record.offset === 1) break
  }
  matches(at.lines, [/^joined /, /^assigned /, /^left /])
})

test('the client page: pushed records', async () => {
  await using at = await setUp()
  const { client } = at
  const orders = client.pushConsumer({ group: 'shipping', topics: ['orders'], isolation: 'read_committed' })
  for await (const order of orders) {
    if (order.value === null) await order.nack('no order in it')
    else await order.ack()
    if (order.offset === 1) break
  }
  matches(at.lines, [])
})

test('the client page: types', async () => {
  await using at = await setUp()
  const { client, console } = at
  await client.producer().send('orders', { value: 'no JSON' })
  const orders = new TopicFormat('orders', { key: text, value: nullable(json(v.object({ item: v.string(), pieces: v.number() }))) })
  await orders.send(client.producer(), { key: 'ada', value: { item: 'lamp', pieces: 1 } })
  await orders.send(client.producer(), { key: 'grace', value: null })

  const onInvalid = ({ offset }: ClientRecord, error: MoonMQError) => console.log(`left out ${offset}: ${error.message}`)
  for await (const { key, value } of orders.read(client.reader({ topic: orders.topic }), { onInvalid })) {
    console.log(key, value?.pieces)
  }
  matches(at.lines, [/^left out 0: .*form/, /^left out 1/, /^left out 2/, 'ada 1', 'grace undefined'])
})

test('the client page: administration', async () => {
  await using at = await setUp()
  const { client, console } = at
  const { admin } = client
  await admin.createTopic('parcels', { partitions: 3, config: { 'retention.ms': '86400000' }, ifNotExists: true })
  await admin.alterTopicConfig('parcels', { set: { 'moonmq.retry.delays': '1s,10s' }, unset: ['retention.ms'] })
  for (const { name, partitions } of await admin.listTopics()) console.log(name, partitions)
  for (const { partition, earliest, latest } of await admin.listOffsets('parcels')) console.log(partition, earliest, latest)
  await admin.storeOffsets('parcel-readers', [{ topic: 'parcels', partition: 0, offset: 0 }])
  for (const { group, members } of await admin.listGroups()) console.log(group, members)
  await admin.deleteTopic('parcels')
  matches(at.lines, ['audit 1', 'bills 1', 'orders 1', 'parcels 3', '0 0 0', '1 0 0', '2 0 0', 'parcel-readers 0'])
})

test('the client page: signals', async () => {
  await using at = await setUp()
  const { client, console } = at
  const stop = new AbortController()
  try {
    for await (const { offset } of client.reader({ topic: 'orders', follow: true, signal: stop.signal })) {
      console.log(offset)
      if (offset === 1) stop.abort() // in a program: a timer, SIGINT, a request that was given up
    }
  } catch (error) {
    if (!(error instanceof MoonMQError) || error.code !== 'ABORTED') throw error
  }
  matches(at.lines, ['0', '1'])
})

test('the client page: errors', async () => {
  await using at = await setUp()
  const { client, console } = at
  try {
    await client.admin.describeTopic('nowhere')
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    console.log(error.code, error.retriable, error.message) // TOPIC_MISSING true topic "nowhere" does not exist
  }
  matches(at.lines, ['TOPIC_MISSING true topic "nowhere" does not exist'])
})

test('the client page: README, the client', async () => {
  await using at = await setUp()
  const { console } = at
  const connect = (options: ClientOptions) => connectTo({ ...options, address: at.broker.address })
  const client = await connect({ address: '127.0.0.1:9092' })
  await client.admin.createTopic('orders', { partitions: 3, ifNotExists: true })
  const { partition, offset } = await client.producer().send('orders', { key: 'moon', value: 'hi' })
  console.log(`stored in partition ${partition} at ${offset}`)

  for await (const record of client.reader({ topic: 'orders' })) console.log(record.offset, String(record.value))
  for await (const record of client.consumer({ group: 'billing', topics: ['orders'], endWhenIdle: true })) {
    console.log(String(record.value)) // committed when the loop asks for the next one
  }
  await client.close()
  matches(at.lines, ['stored in partition 0 at 2', '0 first', '1 second', '2 hi', 'first', 'second', 'hi'])
})

test('the client page: README, types', async () => {
  await using at = await setUp()
  const { console } = at
  const connect = (options: ClientOptions) => connectTo({ ...options, address: at.broker.address })
  const client = await connect({ address: '127.0.0.1:9092' })
  const parcels = new TopicFormat('parcels', { key: text, value: json(v.object({ item: v.string(), pieces: v.number() })) })
  await client.admin.createTopic(parcels.topic, { ifNotExists: true })
  await parcels.send(client.producer(), { key: 'ada', value: { item: 'lamp', pieces: 1 } })
  for await (const { value } of parcels.read(client.reader({ topic: parcels.topic }))) console.log(value.pieces)
  await client.close()
  matches(at.lines, ['1'])
})

test('the client page: README, a broker in this process', async () => {
  await using at = await setUp()
  const startBroker = (_options: object) => startTestBroker()
  const broker = await startBroker({ port: 0 }) // any free port; 9092 when nothing is said
  const client = await broker.connect()
  await client.close()
  await broker.close() // until then it holds its data folder and the process
  matches(at.lines, [])
})

test('the client page: dead letters', async () => {
  await using at = await setUp()
  const { client } = at
  let calls = 0
  const bill = async ({ offset }: ClientRecord) => {
    // Three failures make a dead letter.
    if (++calls === 4) void client.close()
    if (offset === 0) throw new Error('no')
  }
  for await (const order of client.pushConsumer({ group: 'billing', topics: ['orders'] })) {
    try {
      await bill(order)
    } catch (error) {
      await order.nack(String(error))
    }
  }
  matches(at.lines, [])
})

// ---- the pages ----------------------------------------------------------------------------------------------------------------

const SOURCE = readFileSync(inRoot('test/integration/client-page.test.ts'), 'utf8')

/** Lines of code without their indentation; imports are this file's own. */
function plain(code: string): string {
  const lines = code.split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '' && !line.startsWith('import ')).join('\n')
}

for (const [page, isOurs] of [
  ['docs/CLIENT.md', () => true],
  ['docs/DLQ.md', () => true],
  ['README.md', (code: string) => code.includes('moonmq') && !code.includes('kafkajs')],
] as const) {
  test(`every snippet of ${page} is code that was run here`, () => {
    const source = plain(SOURCE)
    const blocks = [...readFileSync(inRoot(page), 'utf8').matchAll(/^```(?:ts|js)\n(.*?)^```/gms)]
      .map(([, code = '']) => code)
      .filter(isOurs)
    assert.ok(blocks.length > 0)
    for (const block of blocks) assert.ok(source.includes(plain(block)), `${page} shows what no test runs:\n${block}`)
  })
}

test('the client page names every option and method', () => {
  const page = readFileSync(inRoot('docs/CLIENT.md'), 'utf8')
  const types = readFileSync(inRoot('src/client/types.ts'), 'utf8')
  let count = 0
  for (const [, name = '', members = ''] of types.matchAll(/^export interface (\w+).*?\{\n(.*?)^\}/gms)) {
    if (!/Options$|^(RecordToSend|ClientRecord|Transaction|TransactionalProducer|Producer|Consumer|PushedRecord|Admin|Client)$/.test(name))
      continue
    for (const [, member = ''] of members.matchAll(/^ {2}(?:readonly )?(\w+)[?]?[:(<]/gm)) {
      count++
      assert.match(page, new RegExp(`\\b${member}\\b`), `${name}.${member} is not in docs/CLIENT.md`)
    }
  }
  assert.ok(count > 80, `${count}`)
})
