import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import kafkajs from 'kafkajs'
import { type LiveKafka, liveKafka } from '../support/live-kafka.ts'

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs

function clientOf(live: LiveKafka): kafkajs.Kafka {
  return new Kafka({ clientId: 'it', brokers: [live.address], logLevel: logLevel.NOTHING, retry: { retries: 2, initialRetryTime: 20 } })
}

function problems(live: LiveKafka): string[] {
  return live.log.lines.filter(({ level }) => level === 'warn' || level === 'error').map(({ event, text }) => `${event}: ${text}`)
}

describe('kafkajs against the door', () => {
  it('creates, lists, grows, describes and deletes topics', async () => {
    await using live = await liveKafka()
    const admin = clientOf(live).admin()
    await admin.connect()
    try {
      assert.equal(await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 3 }] }), true)
      assert.equal(await admin.createTopics({ topics: [{ topic: 'orders' }] }), false)
      assert.deepEqual(await admin.listTopics(), ['orders'])
      await admin.createPartitions({ topicPartitions: [{ topic: 'orders', count: 5 }] })
      const { topics } = await admin.fetchTopicMetadata({ topics: ['orders'] })
      assert.equal(topics[0]?.partitions.length, 5)
      const cluster = await admin.describeCluster()
      assert.deepEqual(cluster.brokers, [{ nodeId: 0, host: '127.0.0.1', port: live.port }])
      assert.equal(cluster.controller, 0)
      const { resources } = await admin.describeConfigs({
        includeSynonyms: true,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: 'orders', configNames: ['retention.ms'] }],
      })
      assert.deepEqual(
        resources[0]?.configEntries.map((entry) => entry.configName),
        ['retention.ms'],
      )
      await admin.deleteTopics({ topics: ['orders'] })
      assert.deepEqual(await admin.listTopics(), [])
    } finally {
      await admin.disconnect()
    }
    assert.deepEqual(problems(live), [])
  })

  it('deletes records, and a consumer begins behind them', async () => {
    await using live = await liveKafka()
    const kafka = clientOf(live)
    const [admin, producer, consumer] = [kafka.admin(), kafka.producer(), kafka.consumer({ groupId: 'after' })]
    await Promise.all([admin.connect(), producer.connect(), consumer.connect()])
    try {
      await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 1 }] })
      for (let index = 0; index < 10; index++) await producer.send({ topic: 'orders', messages: [{ value: `${index}` }] })
      // This client knows the leaders of a topic only after it asked for something of it.
      await admin.fetchTopicOffsets('orders')
      await admin.deleteTopicRecords({ topic: 'orders', partitions: [{ partition: 0, offset: '7' }] })
      const [offsets] = await admin.fetchTopicOffsets('orders')
      assert.deepEqual([offsets?.low, offsets?.high], ['7', '10'])
      await consumer.subscribe({ topic: 'orders', fromBeginning: true })
      const seen: string[] = []
      await new Promise<void>((resolve, reject) => {
        consumer
          .run({
            eachMessage: async ({ message }) => {
              seen.push(`${message.offset}=${message.value}`)
              if (seen.length === 3) resolve()
            },
          })
          .catch(reject)
      })
      assert.deepEqual(seen, ['7=7', '8=8', '9=9'])
      await assert.rejects(admin.deleteTopicRecords({ topic: 'orders', partitions: [{ partition: 0, offset: '11' }] }))
    } finally {
      await Promise.all([admin.disconnect(), producer.disconnect(), consumer.disconnect()])
    }
  })

  it('produces with every acks value and creates the topic on the way', async () => {
    await using live = await liveKafka()
    const kafka = clientOf(live)
    const producer = kafka.producer()
    const admin = kafka.admin()
    await producer.connect()
    await admin.connect()
    try {
      for (const acks of [-1, 1, 0]) {
        await producer.send({ topic: 'auto', acks, messages: [{ key: 'k', value: 'v', headers: { h: 'x' } }, { value: null }] })
      }
      // The answer to this request comes after the append of the one that has none.
      const [offsets] = await admin.fetchTopicOffsets('auto')
      assert.equal(offsets?.high, '6')
      assert.equal(offsets?.low, '0')
      assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp('auto', Date.now() + 60_000), [{ partition: 0, offset: '6' }])
    } finally {
      await producer.disconnect()
      await admin.disconnect()
    }
    assert.deepEqual(problems(live), [])
  })

  it('stores each record of an idempotent producer once, with requests in flight', async () => {
    await using live = await liveKafka()
    const producer = clientOf(live).producer({ idempotent: true, maxInFlightRequests: 5 })
    await producer.connect()
    try {
      const sends = Array.from({ length: 20 }, (_, i) => producer.send({ topic: 'once', messages: [{ value: String(i) }] }))
      // The client hands sends of one turn to its connection in an order of its own; each must have an offset of its own.
      const offsets = (await Promise.all(sends)).map(([sent]) => Number(sent?.baseOffset)).sort((left, right) => left - right)
      assert.deepEqual(
        offsets,
        Array.from({ length: 20 }, (_, i) => i),
      )
    } finally {
      await producer.disconnect()
    }
    assert.deepEqual(problems(live), [])
  })
})
