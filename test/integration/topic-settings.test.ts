import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { Client } from '../../src/client/types.ts'
import { isCode } from '../../src/core/errors.ts'
import { codecOf, readBatchHeader, timestampType } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { startBroker } from '../../src/server/embedded.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { kafkaClient } from '../support/kafkajs.ts'
import { RawKafka } from '../support/raw-kafka.ts'

type Alter = (changes: Record<string, string>) => Promise<void>

/** The two ways to change a setting of topic t. */
const DOORS: Readonly<Record<string, (kafka: RawKafka, native: Client) => Alter>> = {
  Kafka: (kafka) => async (changes) => {
    const configs = Object.entries(changes).map(([name, value]) => ({ name, configOperation: 0, value }))
    const resources = [{ resourceType: 2, resourceName: 't', configs }]
    const { responses } = await kafka.request('IncrementalAlterConfigs', 1, { resources, validateOnly: false })
    deepEqual([responses[0]?.errorCode, responses[0]?.errorMessage], [0, null])
  },
  native: (_kafka, native) => async (set) => void (await native.admin.alterTopicConfig('t', { set })),
}

async function send(kafka: RawKafka, options: BatchOptions & { size?: number; ageMs?: number } = {}) {
  const { size = 10, ageMs = 0, ...batch } = options
  const records = buildBatch([{ key: Buffer.from('k'), value: Buffer.alloc(size, 97), timestampMs: Date.now() - ageMs }], batch)
  const topicData = [{ name: 't', partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', 9, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
  const found = answer.responses[0]?.partitionResponses[0]
  ok(found !== undefined)
  return found
}

async function stored(kafka: RawKafka, offset: number) {
  const partitions = [
    { partition: 0, currentLeaderEpoch: -1, fetchOffset: offset, lastFetchedEpoch: -1, logStartOffset: -1, partitionMaxBytes: 1_000_000 },
  ]
  const base = { replicaId: -1, maxWaitMs: 0, minBytes: 0, maxBytes: 1_000_000, isolationLevel: 0, sessionId: 0, sessionEpoch: -1 }
  const answer = await kafka.request('Fetch', 12, { ...base, topics: [{ topic: 't', partitions }], forgottenTopicsData: [], rackId: '' })
  return readBatchHeader(answer.responses[0]?.partitions[0]?.records ?? Buffer.alloc(0))
}

for (const [name, door] of Object.entries(DOORS)) {
  test(`${name} door: settings take effect on a topic that is used, for both doors`, async () => {
    await using broker = await startTestBroker()
    await using client = await connect({ address: broker.address })
    using kafka = await RawKafka.connect(broker.address)
    await client.admin.createTopic('t')
    const alter = door(kafka, client)
    await using producer = client.producer()
    const value = (size: number) => producer.send('t', { key: 'k', value: Buffer.alloc(size, 97) })

    equal((await send(kafka, { size: 1000 })).errorCode, 0)
    await value(1000)
    await alter({ 'max.message.bytes': '500' })
    equal((await send(kafka, { size: 1000 })).errorCode, 10)
    await rejects(value(1000), (error) => isCode(error, 'RECORD_TOO_LARGE'))
    await alter({ 'max.message.bytes': '1000000' })
    equal((await send(kafka, { size: 1000 })).errorCode, 0)

    await alter({ 'message.timestamp.type': 'LogAppendTime' })
    const stamped = await send(kafka, { ageMs: 1_000_000 })
    ok(stamped.logAppendTimeMs > Date.now() - 60_000)
    equal(timestampType(await stored(kafka, stamped.baseOffset)), 'LogAppendTime')
    await alter({ 'message.timestamp.type': 'CreateTime' })
    equal((await send(kafka)).logAppendTimeMs, -1)

    await alter({ 'message.timestamp.before.max.ms': '60000', 'message.timestamp.after.max.ms': '120000' })
    deepEqual([(await send(kafka, { ageMs: 90_000 })).errorCode, (await send(kafka, { ageMs: -150_000 })).errorCode], [32, 32])
    await alter({ 'message.timestamp.before.max.ms': '120000', 'message.timestamp.after.max.ms': '300000' })
    deepEqual([(await send(kafka, { ageMs: 90_000 })).errorCode, (await send(kafka, { ageMs: -150_000 })).errorCode], [0, 0])

    for (const [type, codec] of [
      ['gzip', 1],
      ['snappy', 2],
      ['lz4', 3],
      ['zstd', 4],
      ['uncompressed', 0],
    ] as const) {
      await alter({ 'compression.type': type })
      equal(codecOf(await stored(kafka, (await send(kafka, { size: 500 })).baseOffset)), codec, type)
      equal(codecOf(await stored(kafka, (await value(500)).offset)), codec, type)
      // Enough to be packed off the event loop.
      equal(codecOf(await stored(kafka, (await value(200_000)).offset)), codec, `${type}, a large record`)
      equal(codecOf(await stored(kafka, (await send(kafka, { size: 200_000 })).baseOffset)), codec, `${type}, a large batch`)
    }
    await alter({ 'compression.type': 'producer' })

    await alter({ 'cleanup.policy': 'compact' })
    await rejects(producer.send('t', { value: 'no key' }), (error) => isCode(error, 'INVALID_RECORD'))
    await alter({ 'cleanup.policy': 'delete' })
    await producer.send('t', { value: 'no key' })

    await alter({ 'min.insync.replicas': '2' })
    equal((await send(kafka)).errorCode, 19)
    await alter({ 'min.insync.replicas': '1' })
    equal((await send(kafka)).errorCode, 0)

    await alter({ 'flush.messages': '1000', 'flush.ms': '60000' })
    equal((await send(kafka)).errorCode, 0)
    await alter({ 'flush.messages': '1' })
    equal((await send(kafka)).errorCode, 0)
    const offsets: number[] = []
    for await (const record of client.reader({ topic: 't' })) offsets.push(record.offset)
    deepEqual(
      offsets,
      offsets.map((_, index) => index),
    )
    ok(offsets.length > 15)
  })

  test(`${name} door: changes survive a restart, and reach what is written after it`, async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'moonmq-settings-'))
    try {
      const first = await startBroker({ dataDir, port: 0 })
      const { port } = first
      {
        await using client = await connect({ address: first.address })
        using kafka = await RawKafka.connect(first.address)
        await client.admin.createTopic('t')
        await door(
          kafka,
          client,
        )({ 'index.interval.bytes': '0', 'segment.bytes': '2000', 'max.message.bytes': '700', 'compression.gzip.level': '9' })
        for (let index = 0; index < 3; index++) equal((await send(kafka, { size: 600 })).errorCode, 0)
      }
      await first.close()
      await using second = await startBroker({ dataDir, port })
      await using client = await connect({ address: second.address })
      using kafka = await RawKafka.connect(second.address)
      const { config } = await client.admin.describeTopic('t')
      deepEqual(Object.fromEntries(config), {
        'compression.gzip.level': '9',
        'index.interval.bytes': '0',
        'max.message.bytes': '700',
        'segment.bytes': '2000',
      })
      equal((await send(kafka, { size: 800 })).errorCode, 10)
      for (let index = 0; index < 3; index++) equal((await send(kafka, { size: 600 })).errorCode, 0)
      const files = await readdir(join(dataDir, 't-0'))
      ok(files.filter((file) => file.endsWith('.log')).length >= 2, `one segment: ${files.join(', ')}`)
      // An entry of eight bytes for each of the first segment's batches but the first, which needs none.
      const index = await stat(join(dataDir, 't-0', '00000000000000000000.index'))
      ok(index.size >= 16, `an index of ${index.size} bytes`)
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  })
}

test('kafkajs: alterConfigs, with what it validates only, and describeConfigs', async () => {
  await using broker = await startTestBroker()
  const admin = kafkaClient(broker.address, 'admin').admin()
  await admin.connect()
  try {
    await admin.createTopics({ topics: [{ topic: 't' }] })
    const change = (value: string) => ({ type: 2 as const, name: 't', configEntries: [{ name: 'retention.ms', value }] })
    const found = async () => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: 't', configNames: ['retention.ms'] }],
      })
      return resources[0]?.configEntries[0]?.configValue
    }
    await admin.alterConfigs({ validateOnly: true, resources: [change('1000')] })
    equal(await found(), '604800000')
    await admin.alterConfigs({ validateOnly: false, resources: [change('1000')] })
    equal(await found(), '1000')
    await rejects(admin.alterConfigs({ validateOnly: false, resources: [change('soon')] }), /INVALID_CONFIG|config/i)
  } finally {
    await admin.disconnect()
  }
})

test('server.storageBackend is the backend of topics that are made without one', async () => {
  await using broker = await startTestBroker({ config: { server: { storageBackend: 'commitlog' } } })
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic('t', { config: { 'retention.bytes': '1000000' } })
  const settings = new Map((await client.admin.describeTopicConfig('t')).map((each) => [each.name, each]))
  const shown = ['moonmq.backend', 'index.interval.bytes', 'retention.ms', 'retention.bytes', 'segment.ms'].map((name) => {
    const { value, source, fixed } = settings.get(name) ?? { value: '', source: '', fixed: false }
    return [name, value, source, fixed]
  })
  deepEqual(shown, [
    ['moonmq.backend', 'commitlog', 'topic', true],
    ['index.interval.bytes', '0', 'backend', false],
    ['retention.ms', '-1', 'backend', false],
    ['retention.bytes', '1000000', 'topic', false],
    ['segment.ms', '604800000', 'default', false],
  ])
  await rejects(client.admin.alterTopicConfig('t', { set: { backend: 'segmented' } }), (error) => isCode(error, 'CONFIG_INVALID'))
})
