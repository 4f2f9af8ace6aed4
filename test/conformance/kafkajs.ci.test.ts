import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CompressionTypes, Kafka, type KafkaMessage, logLevel } from 'kafkajs'
import { BrokerProcess } from '../support/broker-process.ts'
import { kafkaClient } from '../support/kafkajs.ts'

/** Flows of kafkajs against the broker as a process, across stops and kills. */

const WAIT_MS = 30_000

interface Seen {
  readonly partition: number
  readonly message: KafkaMessage
}

/** Reads a topic as a group until `count` messages came, then leaves. Rejects when they do not come in time. */
async function readAsGroup(kafka: Kafka, groupId: string, topic: string, count: number): Promise<Seen[]> {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10_000, heartbeatInterval: 500, maxWaitTimeInMs: 100 })
  const seen: Seen[] = []
  await consumer.connect()
  try {
    await consumer.subscribe({ topic, fromBeginning: true })
    await new Promise<void>((resolve, reject) => {
      AbortSignal.timeout(WAIT_MS).onabort = () => reject(new Error(`${seen.length} of ${count} messages came`))
      consumer
        .run({
          eachMessage: async ({ partition, message }) => {
            seen.push({ partition, message })
            if (seen.length >= count) resolve()
          },
        })
        .catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
  return seen
}

test('what was acknowledged is read by a group after a kill, in order and once', async () => {
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'flow')
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 3 }] })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let round = 0; round < 10; round++) {
    const messages = Array.from({ length: 20 }, (_, i) => ({
      key: `key-${i % 7}`,
      value: `${round}-${i}`,
      headers: { round: String(round) },
    }))
    await producer.send({
      topic: 'orders',
      acks: -1,
      compression: round % 2 === 0 ? CompressionTypes.None : CompressionTypes.GZIP,
      messages,
    })
  }
  await producer.disconnect()
  await broker.kill()
  await broker.start()
  const seen = await readAsGroup(kafka, 'readers', 'orders', 200)
  assert.equal(new Set(seen.map(({ message }) => String(message.value))).size, 200)
  for (const key of ['key-0', 'key-3', 'key-6']) {
    const values = seen.filter(({ message }) => String(message.key) === key).map(({ message }) => String(message.value))
    const given = Array.from({ length: 10 }, (_, round) => round).flatMap((round) =>
      Array.from({ length: 20 }, (_, i) => i)
        .filter((i) => `key-${i % 7}` === key)
        .map((i) => `${round}-${i}`),
    )
    assert.deepEqual(values, given, `the order of ${key}`)
  }
  assert.equal(String(seen[0]?.message.headers?.round), '0')
  await admin.disconnect()
})

test('a group goes on where it had committed, across a stop and a kill', async () => {
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'flow')
  const producer = kafka.producer()
  const send = async (from: number, count: number) => {
    await producer.send({
      topic: 'letters',
      acks: -1,
      messages: Array.from({ length: count }, (_, i) => ({ value: `letter ${from + i}` })),
    })
  }
  await producer.connect()
  await send(0, 10)
  assert.equal((await readAsGroup(kafka, 'readers', 'letters', 10)).length, 10)
  assert.equal(await broker.stop(), 0)
  await broker.start()
  await send(10, 5)
  assert.deepEqual(
    (await readAsGroup(kafka, 'readers', 'letters', 5)).map(({ message }) => String(message.value)),
    ['letter 10', 'letter 11', 'letter 12', 'letter 13', 'letter 14'],
  )
  await broker.kill()
  await broker.start()
  await send(15, 1)
  assert.deepEqual(
    (await readAsGroup(kafka, 'readers', 'letters', 1)).map(({ message }) => String(message.value)),
    ['letter 15'],
  )
  await producer.disconnect()
})

test('tombstones, empty values, big values and times come back as they were', async () => {
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'flow')
  const producer = kafka.producer()
  await producer.connect()
  const big = Buffer.alloc(900_000, 'b')
  await producer.send({
    topic: 'mixed',
    messages: [
      { key: 'gone', value: null, timestamp: '1700000000000' },
      { key: null, value: '', timestamp: '1700000001000' },
      { key: '', value: big, timestamp: '1700000002000' },
    ],
  })
  await producer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp('mixed', 1_700_000_000_500), [{ partition: 0, offset: '1' }])
  assert.deepEqual(await admin.fetchTopicOffsets('mixed'), [{ partition: 0, offset: '3', high: '3', low: '0' }])
  await admin.disconnect()
  const seen = await readAsGroup(kafka, 'readers', 'mixed', 3)
  assert.deepEqual(
    seen.map(({ message }) => [message.timestamp, message.key?.toString() ?? null, message.value?.length ?? null]),
    [
      ['1700000000000', 'gone', null],
      ['1700000001000', null, 0],
      ['1700000002000', '', 900_000],
    ],
  )
  assert.ok(seen[2]?.message.value?.equals(big))
})

test('topics, partitions, settings and groups are administered', async () => {
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'flow')
  const admin = kafka.admin()
  await admin.connect()
  const configEntries = [{ name: 'retention.ms', value: '60000' }]
  assert.equal(await admin.createTopics({ topics: [{ topic: 'first', numPartitions: 2, configEntries }] }), true)
  assert.equal(await admin.createTopics({ topics: [{ topic: 'first' }] }), false)
  await admin.createPartitions({ topicPartitions: [{ topic: 'first', count: 4 }] })
  assert.equal((await admin.fetchTopicMetadata({ topics: ['first'] })).topics[0]?.partitions.length, 4)
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: 'first', configNames: ['retention.ms'] }],
  })
  assert.equal(resources[0]?.configEntries[0]?.configValue, '60000')
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'first', messages: [{ value: 'v' }] })
  await producer.disconnect()
  await readAsGroup(kafka, 'readers', 'first', 1)
  assert.deepEqual(
    (await admin.listGroups()).groups.map(({ groupId }) => groupId),
    ['readers'],
  )
  assert.equal((await admin.describeGroups(['readers'])).groups[0]?.state, 'Empty')
  await admin.deleteGroups(['readers'])
  assert.deepEqual((await admin.listGroups()).groups, [])
  await admin.deleteTopics({ topics: ['first'] })
  assert.equal((await admin.listTopics()).includes('first'), false)
  await broker.kill()
  await broker.start()
  assert.equal((await admin.listTopics()).includes('first'), false, 'a deleted topic stays deleted')
  await admin.disconnect()
})

const COORDINATOR_LOAD_IN_PROGRESS = 14

test('a transaction moves records and the offsets of its source together, or neither', async () => {
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'flow')
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'source', messages: Array.from({ length: 6 }, (_, i) => ({ partition: 0, value: `record ${i}` })) })
  await producer.disconnect()
  const mover = kafka.producer({ transactionalId: 'mover', idempotent: true, maxInFlightRequests: 1 })
  await mover.connect()
  const move = async (from: number, to: number, end: 'commit' | 'abort') => {
    const transaction = await mover.transaction()
    const messages = Array.from({ length: to - from }, (_, i) => ({ value: `${end} ${from + i}` }))
    await transaction.send({ topic: 'target', messages })
    const partitions = [{ partition: 0, offset: String(to) }]
    await transaction.sendOffsets({ consumerGroupId: 'movers', topics: [{ topic: 'source', partitions }] })
    await transaction[end]()
  }
  const admin = kafka.admin()
  await admin.connect()
  const committed = async () => {
    for (;;) {
      try {
        return (await admin.fetchOffsets({ groupId: 'movers', topics: ['source'] }))[0]?.partitions[0]?.offset
      } catch (error) {
        // The client's admin does not ask again by itself while a broker that was just started reads its groups.
        if ((error as { code?: unknown }).code !== COORDINATOR_LOAD_IN_PROGRESS) throw error
      }
    }
  }
  await move(0, 2, 'commit')
  await move(2, 4, 'abort')
  assert.equal(await committed(), '2', 'what was aborted is not committed')
  await broker.kill()
  await broker.start()
  assert.equal(await committed(), '2', 'what was committed stays')
  await move(2, 6, 'commit')
  assert.equal(await committed(), '6')
  await mover.disconnect()
  await admin.disconnect()
  assert.deepEqual(
    (await readAsGroup(kafka, 'readers', 'target', 6)).map(({ message }) => String(message.value)),
    [0, 1, 2, 3, 4, 5].map((i) => `commit ${i}`),
  )
})

test('a second broker on the same folder is refused', async () => {
  await using broker = await BrokerProcess.start()
  await assert.rejects(
    BrokerProcess.start({ args: ['--data', broker.dataDir] }),
    (error) => error instanceof Error && error.message.includes(String(broker.pid)),
  )
  const kafka = new Kafka({ clientId: 'flow', brokers: [broker.address], logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  assert.equal((await admin.describeCluster()).brokers.length, 1)
  await admin.disconnect()
})
