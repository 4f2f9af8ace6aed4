import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { SystemRandom } from '../../src/core/random.ts'
import { newUuid } from '../../src/core/uuid.ts'
import { kafkaClient } from '../support/kafkajs.ts'

/** Against a broker that runs already, under names of their own that are removed again: `MOONMQ_ADDR=127.0.0.1:9092 npm run test:external`. */
const address = process.env['MOONMQ_ADDR'] ?? ''
const skip = address === '' ? 'MOONMQ_ADDR is not set: say where the broker is, for example MOONMQ_ADDR=127.0.0.1:9092' : false
const unique = (name: string) => `external-${name}-${newUuid(new SystemRandom())}`

test('native door: create, produce, consume, list topics and partitions', { skip }, async () => {
  const topic = unique('native')
  await using client = await connect({ address, name: 'external-test' })
  await client.admin.createTopic(topic, { partitions: 3 })
  try {
    const listed = (await client.admin.listTopics()).find((each) => each.name === topic)
    assert.equal(listed?.partitions, 3)
    assert.deepEqual(
      (await client.admin.describeTopic(topic)).partitions.map((each) => each.partition),
      [0, 1, 2],
    )
    await using producer = client.producer()
    await producer.sendMany(
      topic,
      ['a', 'b', 'c'].map((key) => ({ key, value: `value of ${key}` })),
    )
    const read: string[] = []
    for await (const record of client.reader({ topic })) read.push(`${record.key}=${record.value}`)
    assert.deepEqual(read.sort(), ['a=value of a', 'b=value of b', 'c=value of c'])
  } finally {
    await client.admin.deleteTopic(topic)
  }
})

test('Kafka door: create, produce, consume, list topics and partitions', { skip }, async () => {
  const topic = unique('kafka')
  const kafka = kafkaClient(address, 'external-test')
  const admin = kafka.admin()
  await admin.connect()
  try {
    await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
    assert.ok((await admin.listTopics()).includes(topic))
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.equal(topics[0]?.partitions.length, 2)

    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: [{ key: 'k', value: 'v', headers: { h: 'x' } }] })
    await producer.disconnect()

    const consumer = kafka.consumer({ groupId: unique('group') })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const first = await new Promise<string>((resolve, reject) => {
      consumer
        .run({ eachMessage: async ({ message }) => resolve(`${message.key}=${message.value} ${message.headers?.['h']}`) })
        .catch(reject)
    })
    assert.equal(first, 'k=v x')
    await consumer.disconnect()
  } finally {
    await admin.deleteTopics({ topics: [topic] })
    await admin.disconnect()
  }
})
