// Flows of @platformatic/kafka against a broker. Runs on a newer Node in a folder of its own, where the client is installed:
// node platformatic-flow.mjs HOST:PORT. No transactions: this client asks for them in a way (AddPartitionsToTxn 5) that Kafka 4.4
// refuses too. Prints one line for each step; exit 1 at the first that fails.
import assert from 'node:assert/strict'
import {
  Admin,
  CompressionAlgorithms,
  Consumer,
  ListOffsetTimestamps,
  MessagesStreamModes,
  Producer,
  stringDeserializers,
  stringSerializers,
} from '@platformatic/kafka'

const address = process.argv[2]
const unique = `platformatic-${process.pid}`
const base = { clientId: 'flow', bootstrapBrokers: [address], retries: 5, timeout: 10_000 }

async function step(name, work) {
  await work()
  console.log(`ok ${name}`)
}

async function take(stream, count) {
  const messages = []
  for await (const message of stream) {
    messages.push(message)
    if (messages.length >= count) break
  }
  return messages
}

const admin = new Admin(base)
const topic = `${unique}-topic`

await step('create and list topics', async () => {
  const created = await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
  assert.equal(created[0].name, topic)
  assert.ok((await admin.listTopics()).includes(topic))
})

await step('metadata has the partitions and their leader', async () => {
  const metadata = await admin.metadata({ topics: [topic] })
  assert.equal(metadata.topics.get(topic).partitionsCount, 3)
})

await step('produce with each codec and acks', async () => {
  for (const compression of Object.values(CompressionAlgorithms)) {
    for (const acks of [-1, 1, 0]) {
      const producer = new Producer({ ...base, serializers: stringSerializers, compression, acks })
      const messages = Array.from({ length: 10 }, (_, i) => ({
        topic,
        partition: i % 3,
        key: `k${i}`,
        value: `${compression} ${acks} ${i} ${'x'.repeat(200)}`,
        headers: { codec: compression },
      }))
      await producer.send({ messages })
      await producer.close()
    }
  }
})

const codecs = Object.values(CompressionAlgorithms).length
const produced = codecs * 3 * 10

await step('an idempotent producer', async () => {
  const producer = new Producer({ ...base, serializers: stringSerializers, idempotent: true, acks: -1 })
  for (let round = 0; round < 5; round++)
    await producer.send({ messages: [{ topic, partition: 0, key: 'i', value: `idempotent ${round}` }] })
  await producer.close()
})

const group = `${unique}-group`

await step('a group reads everything, with headers', async () => {
  const consumer = new Consumer({ ...base, groupId: group, deserializers: stringDeserializers, maxWaitTime: 100 })
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.EARLIEST,
    autocommit: false,
    sessionTimeout: 10_000,
    heartbeatInterval: 500,
  })
  const messages = await take(stream, produced + 5)
  assert.equal(new Set(messages.map((message) => `${message.partition} ${message.offset}`)).size, produced + 5)
  assert.ok(messages.some((message) => message.headers.get('codec') === 'zstd'))
  const last = new Map()
  for (const message of messages) last.set(message.partition, message)
  await consumer.commit({
    offsets: [...last.values()].map((message) => ({ topic, partition: message.partition, offset: message.offset + 1n, leaderEpoch: 0 })),
  })
  await consumer.close(true)
})

await step('the group resumes where it committed', async () => {
  const producer = new Producer({ ...base, serializers: stringSerializers })
  await producer.send({ messages: [{ topic, partition: 1, key: 'late', value: 'after the commit' }] })
  await producer.close()
  const consumer = new Consumer({ ...base, groupId: group, deserializers: stringDeserializers, maxWaitTime: 100 })
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.COMMITTED,
    sessionTimeout: 10_000,
    heartbeatInterval: 500,
  })
  const [message] = await take(stream, 1)
  assert.equal(message.value, 'after the commit')
  await consumer.close(true)
})

await step('two members share the partitions', async () => {
  const members = [0, 1].map(
    () => new Consumer({ ...base, groupId: `${unique}-shared`, deserializers: stringDeserializers, maxWaitTime: 100 }),
  )
  const options = { topics: [topic], mode: MessagesStreamModes.EARLIEST, autocommit: false, sessionTimeout: 10_000, heartbeatInterval: 200 }
  const streams = await Promise.all(members.map((member) => member.consume(options)))
  const seen = new Set()
  const reading = streams.map(async (stream) => {
    for await (const message of stream) {
      seen.add(`${message.partition} ${message.offset}`)
      // The other one may wait for a message that never comes.
      if (seen.size === produced + 6) for (const each of streams) each.destroy()
    }
  })
  // A stream that was destroyed while it was read ends with an error; what was seen is what counts.
  await Promise.allSettled(reading)
  assert.equal(seen.size, produced + 6)
  await Promise.all(members.map((member) => member.close(true)))
})

await step('a group of the new protocol reads everything', async () => {
  const consumer = new Consumer({
    ...base,
    groupId: `${unique}-next`,
    groupProtocol: 'consumer',
    deserializers: stringDeserializers,
    maxWaitTime: 100,
  })
  const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST, autocommit: false })
  const messages = await take(stream, produced + 6)
  assert.equal(new Set(messages.map((message) => `${message.partition} ${message.offset}`)).size, produced + 6)
  await consumer.close(true)
})

await step('offsets by position and by time', async () => {
  const consumer = new Consumer({ ...base, groupId: `${unique}-offsets`, deserializers: stringDeserializers })
  const earliest = await consumer.listOffsets({ topics: [topic], timestamp: ListOffsetTimestamps.EARLIEST })
  const latest = await consumer.listOffsets({ topics: [topic], timestamp: ListOffsetTimestamps.LATEST })
  assert.deepEqual(earliest.get(topic), [0n, 0n, 0n])
  assert.equal(
    latest.get(topic).reduce((sum, offset) => sum + Number(offset), 0),
    produced + 6,
  )
  const byTime = await consumer.listOffsetsWithTimestamps({ topics: [topic], timestamp: 1n })
  assert.equal(byTime.get(topic).get(0).offset, 0n)
  await consumer.close(true)
})

await step('groups are listed, described and deleted', async () => {
  assert.ok((await admin.listGroups()).has(group))
  const described = await admin.describeGroups({ groups: [group] })
  assert.equal(described.get(group).state, 'Empty')
  await admin.deleteGroups({ groups: [group] })
  assert.equal((await admin.listGroups()).has(group), false)
})

await step('partitions are added, configs described, the topic deleted', async () => {
  await admin.createPartitions({ topics: [{ name: topic, count: 5, assignments: null }], validateOnly: false })
  const metadata = await admin.metadata({ topics: [topic], forceUpdate: true })
  assert.equal(metadata.topics.get(topic).partitionsCount, 5)
  const configs = await admin.describeConfigs({
    resources: [{ resourceType: 2, resourceName: topic, configurationKeys: ['retention.ms'] }],
    includeSynonyms: false,
    includeDocumentation: false,
  })
  assert.ok(JSON.stringify(configs, (_, value) => (typeof value === 'bigint' ? String(value) : value)).includes('retention.ms'))
  await admin.deleteTopics({ topics: [topic] })
  assert.equal((await admin.listTopics()).includes(topic), false)
})

await admin.close()
console.log('done')
