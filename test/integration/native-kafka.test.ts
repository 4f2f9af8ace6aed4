import { deepEqual, equal } from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import kafkajs from 'kafkajs'
import { connect } from '../../src/client/index.ts'
import type { ClientRecord } from '../../src/client/types.ts'
import { startBroker } from '../../src/server/embedded.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { kafkaClient } from '../support/kafkajs.ts'

const { CompressionTypes } = kafkajs

async function all(source: AsyncIterable<ClientRecord>): Promise<ClientRecord[]> {
  const taken: ClientRecord[] = []
  for await (const record of source) taken.push(record)
  return taken
}

test('what Kafka clients write is read natively: nulls, big values, headers, compressed batches', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic('t')
  const big = Buffer.alloc(300_000, 5)
  const producer = kafkaClient(broker.address, 'writer').producer()
  await producer.connect()
  try {
    await producer.send({
      topic: 't',
      messages: [
        { key: 'k', value: null },
        { value: big, headers: { h: 'x', many: ['1', '2'] } },
      ],
    })
    const zipped = Array.from({ length: 100 }, (_, i) => ({ key: `${i}`, value: `value ${i}` }))
    await producer.send({ topic: 't', compression: CompressionTypes.GZIP, messages: zipped })
  } finally {
    await producer.disconnect()
  }
  const records = await all(client.reader({ topic: 't', maxBytes: 64 * 1024 }))
  equal(records.length, 102)
  deepEqual([records[0]?.key?.toString(), records[0]?.value], ['k', null])
  equal(records[1]?.key, null)
  deepEqual(records[1]?.value, big)
  deepEqual(
    records[1]?.headers.map(({ key, value }) => `${key}=${value?.toString()}`),
    ['h=x', 'many=1', 'many=2'],
  )
  deepEqual(
    records.map((record) => record.offset),
    records.map((_, i) => i),
  )
  equal(records[101]?.value?.toString(), 'value 99')
})

test('what is written natively is read by Kafka clients, and one committed offset serves both', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic('t')
  await using producer = client.producer()
  await producer.sendMany('t', [
    { key: 'a', value: '1', headers: [{ key: 'h', value: 'x' }] },
    { key: null, value: null },
    { key: 'b', value: '2' },
  ])
  const consumer = client.consumer({ group: 'g', topics: ['t'], commit: 'manual' })
  for await (const record of consumer) {
    await consumer.commit(record)
    break
  }
  const kafka = kafkaClient(broker.address, 'reader').consumer({ groupId: 'g' })
  const seen: string[] = []
  await kafka.connect()
  try {
    await kafka.subscribe({ topic: 't', fromBeginning: true })
    await new Promise<void>((resolve, reject) => {
      const eachMessage = async ({ message }: kafkajs.EachMessagePayload) => {
        seen.push(`${message.offset} ${message.key?.toString() ?? '-'}=${message.value?.toString() ?? '-'}`)
        if (seen.length === 2) resolve()
      }
      kafka.run({ eachMessage }).catch(reject)
    })
  } finally {
    await kafka.disconnect()
  }
  deepEqual(seen, ['1 -=-', '2 b=2'])
})

test('a reader outlives its broker: it goes on where it was', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'moonmq-native-'))
  try {
    const first = await startBroker({ dataDir, port: 0 })
    const { port } = first
    await using client = await connect({ address: first.address })
    await client.admin.createTopic('t')
    const producer = client.producer()
    await producer.send('t', { value: 'one' })
    const records = client.reader({ topic: 't', follow: true })[Symbol.asyncIterator]()
    equal((await records.next()).value?.value?.toString(), 'one')
    const next = records.next()
    await first.close()
    await using _second = await startBroker({ dataDir, port })
    deepEqual(await producer.send('t', { value: 'two' }), { partition: 0, offset: 1 })
    equal((await next).value?.value?.toString(), 'two')
    deepEqual(
      (await client.admin.listTopics()).map((topic) => topic.name),
      ['t'],
    )
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
})
