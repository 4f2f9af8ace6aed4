import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CreateTopic } from '../../../src/broker/ports.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { coordinatorPartition, fnv1a, murmur2 } from '../../../src/core/hash.ts'
import { batchOf, contextOf, createTopic, fakeBroker, produceOne } from '../../support/fake-broker.ts'

function topicOf(name: string, overrides: Partial<CreateTopic> = {}): CreateTopic {
  return { name, partitions: 1, replicationFactor: 1, assignments: new Map(), config: new Map(), ...overrides }
}

const code = (expected: string) => (error: unknown) => error instanceof MoonMQError && error.code === expected

describe('topics: create', () => {
  it('has its logs open when it resolves', async () => {
    const { broker, logs } = await fakeBroker()
    const topic = await broker.topics.create(contextOf(), topicOf('orders', { partitions: 3 }))
    assert.deepEqual(logs.opened, ['orders-0', 'orders-1', 'orders-2'])
    assert.equal(logs.at('orders', 0).topicId, topic.id)
    assert.deepEqual(
      broker.topics.list().map((each) => each.name),
      ['orders'],
    )
    assert.equal(broker.topics.findById(topic.id)?.name, 'orders')
  })

  it('takes num.partitions for -1', async () => {
    const { broker } = await fakeBroker({ settings: new Map([['num.partitions', '4']]) })
    const topic = await broker.topics.create(contextOf(), topicOf('orders', { partitions: -1, replicationFactor: -1 }))
    assert.equal(topic.partitions.length, 4)
  })

  it("O21: names by Kafka's rule, collisions on create and auto-create alike", async () => {
    const { broker, logs } = await fakeBroker()
    const bad = ['', '.', '..', 'a/b', '../../x', 'a\0b', 'caf\u00e9', 'a b', 'x'.repeat(250)]
    for (const name of bad) await assert.rejects(createTopic(broker, name), code('TOPIC_NAME_INVALID'), JSON.stringify(name))
    for (const name of bad) await assert.rejects(broker.topics.ensure(contextOf(), name), code('TOPIC_NAME_INVALID'))
    assert.deepEqual(logs.opened, [])
    await createTopic(broker, 'x'.repeat(249))
    await createTopic(broker, 'a_b')
    await assert.rejects(createTopic(broker, 'a.b'), code('TOPIC_NAME_INVALID'))
    await assert.rejects(broker.topics.ensure(contextOf(), 'a.b'), code('TOPIC_NAME_INVALID'))
    await createTopic(broker, 'Orders')
    await createTopic(broker, 'orders')
  })

  it('refuses what cannot be', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders')
    const cases: [string, CreateTopic][] = [
      ['TOPIC_EXISTS', topicOf('orders')],
      ['PARTITION_COUNT_INVALID', topicOf('a', { partitions: 0 })],
      ['POLICY_VIOLATION', topicOf('a', { partitions: 100_001 })],
      ['REPLICATION_FACTOR_INVALID', topicOf('a', { replicationFactor: 2 })],
      ['REPLICA_ASSIGNMENT_INVALID', topicOf('a', { partitions: -1, replicationFactor: -1, assignments: new Map([[1, [0]]]) })],
      ['REPLICA_ASSIGNMENT_INVALID', topicOf('a', { partitions: -1, replicationFactor: -1, assignments: new Map([[0, [3]]]) })],
      ['CONFIG_INVALID', topicOf('a', { config: new Map([['retention.mss', '1']]) })],
      ['CONFIG_INVALID', topicOf('a', { config: new Map([['retention.ms', 'soon']]) })],
      ['CONFIG_INVALID', topicOf('a', { config: new Map([['compression.type', 'brotli']]) })],
      ['TOPIC_FORBIDDEN', topicOf('__consumer_offsets')],
    ]
    for (const [expected, topic] of cases) await assert.rejects(broker.topics.create(contextOf(), topic), code(expected), expected)
    assert.equal(broker.topics.list().length, 1)
  })

  it('makes nothing when only asked whether it could', async () => {
    const { broker, logs } = await fakeBroker()
    const preview = await broker.topics.create(contextOf(), topicOf('orders', { partitions: 2 }), { validateOnly: true })
    assert.equal(preview.partitions.length, 2)
    assert.deepEqual([broker.topics.list().length, logs.opened.length], [0, 0])
    await createTopic(broker, 'orders')
    await assert.rejects(broker.topics.create(contextOf(), topicOf('orders'), { validateOnly: true }), code('TOPIC_EXISTS'))
  })

  it('auto-creation by many at once makes one topic', async () => {
    const { broker, metadata } = await fakeBroker()
    const before = metadata.changes
    const topics = await Promise.all(Array.from({ length: 5 }, () => broker.topics.ensure(contextOf(), 'orders')))
    assert.equal(new Set(topics.map((each) => each.id)).size, 1)
    assert.equal(metadata.changes - before, 1)
  })

  it('a log that does not open fails the request and is tried again later', async () => {
    const { broker, logs, clock } = await fakeBroker()
    logs.failure = new MoonMQError('STORAGE_FULL', { topic: 'orders', partition: 0 })
    await assert.rejects(createTopic(broker, 'orders'), code('STORAGE_FULL'))
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1))).error?.code, 'STORAGE_FULL')
    logs.failure = undefined
    await clock.advance(2000)
    await produceOne(broker, 'orders', 0, batchOf(1))
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1))).error, null)
  })
})

describe('topics: logs that do not open', () => {
  const attempts = async (failure: MoonMQError) => {
    const { broker, logs, clock } = await fakeBroker()
    let opened = 0
    logs.open = async () => {
      opened++
      throw failure
    }
    await assert.rejects(createTopic(broker, 'orders'))
    for (let i = 0; i < 20; i++) {
      await produceOne(broker, 'orders', 0, batchOf(1))
      await clock.advance(1000)
    }
    return opened
  }

  it('are tried again less and less often', async () => {
    assert.equal(await attempts(new MoonMQError('STORAGE_FULL', { topic: 'orders', partition: 0 })), 5)
  })

  it('are left alone when they are damaged', async () => {
    assert.equal(await attempts(new MoonMQError('DATA_DAMAGED', { path: '/data/orders-0', reason: 'the folder is missing' })), 1)
  })
})

describe('topics: change and delete', () => {
  it('grows, and never shrinks', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders', 2)
    assert.equal((await broker.topics.createPartitions(contextOf(), 'orders', 4)).partitions.length, 4)
    assert.deepEqual(logs.opened.slice(2), ['orders-2', 'orders-3'])
    await assert.rejects(broker.topics.createPartitions(contextOf(), 'orders', 100_001), code('POLICY_VIOLATION'))
    for (const total of [4, 3, 0]) {
      await assert.rejects(broker.topics.createPartitions(contextOf(), 'orders', total), code('PARTITION_COUNT_INVALID'))
    }
    await assert.rejects(broker.topics.createPartitions(contextOf(), 'missing', 2), code('TOPIC_MISSING'))
    const before = broker.topics.get('orders').partitions.length
    await broker.topics.createPartitions(contextOf(), 'orders', 9, { validateOnly: true })
    assert.equal(broker.topics.get('orders').partitions.length, before)
  })

  it('O20: a topic made again has a new id and nothing of the old one', async () => {
    const { broker, logs } = await fakeBroker()
    const old = await createTopic(broker, 'orders')
    const idempotent = () => batchOf(1, { producerId: 5, producerEpoch: 0, baseSequence: 3 })
    await produceOne(broker, 'orders', 0, idempotent())
    await broker.topics.delete(contextOf(), 'orders')
    const made = await createTopic(broker, 'orders')
    assert.notEqual(made.id, old.id)
    assert.deepEqual(logs.deleted, ['orders-0'])
    assert.equal(broker.topics.findById(old.id), undefined)
    assert.equal((await produceOne(broker, 'orders', 0, idempotent())).baseOffset, 0)
    const request = { topic: 'orders', partition: 0, fetchOffset: 10, maxBytes: 1, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }
    const fetched = await broker.fetch.fetch(contextOf(), {
      partitions: [request],
      isolation: 'read_uncommitted',
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 1,
    })
    assert.equal(fetched.partitions[0]?.error?.code, 'OFFSET_OUT_OF_RANGE')
  })

  it("deletes only what is there and not what is the broker's own", async () => {
    const { broker } = await fakeBroker()
    await assert.rejects(broker.topics.delete(contextOf(), 'missing'), code('TOPIC_MISSING'))
    await assert.rejects(broker.topics.delete(contextOf(), '__consumer_offsets'), code('TOPIC_FORBIDDEN'))
  })

  it('the offsets topic gets a folder for a partition at its first commit', async () => {
    const { broker, logs } = await fakeBroker()
    await broker.loadGroups()
    const value = { offset: 3, leaderEpoch: -1, metadata: '' }
    await createTopic(broker, 'orders')
    const commit = (group: string) =>
      broker.groups.commit(contextOf(), {
        group,
        generation: -1,
        memberId: '',
        instanceId: null,
        offsets: [{ topic: 'orders', partition: 0, value }],
        durable: true,
      })
    assert.deepEqual(await Promise.all([commit('a'), commit('a'), commit('b')]), [[null], [null], [null]])
    const expected = ['a', 'b'].map((group) => `__consumer_offsets-${coordinatorPartition(group, 50)}`)
    assert.deepEqual(logs.opened.filter((name) => name !== 'orders-0').sort(), expected.sort())
    assert.equal(broker.topics.get('__consumer_offsets').config.get('cleanup.policy'), 'compact')
    assert.equal(broker.topics.get('__consumer_offsets').partitions.length, 50)
    const committed = await broker.groups.committed(contextOf(), { group: 'a', topics: null })
    assert.equal(committed[0]?.value?.offset, 3)
  })
})

describe('topics: settings and partitions', () => {
  it('resolves topic before broker before default, and says where from', async () => {
    const { broker, logs } = await fakeBroker({
      settings: new Map([
        ['log.segment.bytes', '1000000'],
        ['log.roll.hours', '2'],
      ]),
    })
    await createTopic(broker, 'orders', 1, { 'segment.bytes': '5000', 'moonmq.partitioner': 'murmur2' })
    const { config } = logs.at('orders', 0)
    assert.deepEqual([config.segmentBytes, config.segmentMs, config.indexIntervalBytes], [5000, 7_200_000, 4096])
    const described = new Map(broker.topics.describeConfig(contextOf(), 'orders').map((each) => [each.name, each]))
    assert.deepEqual([described.get('segment.bytes')?.value, described.get('segment.bytes')?.source], ['5000', 1])
    assert.deepEqual([described.get('segment.ms')?.value, described.get('segment.ms')?.source], ['7200000', 4])
    assert.deepEqual([described.get('index.interval.bytes')?.value, described.get('index.interval.bytes')?.source], ['4096', 5])
    assert.deepEqual(
      described.get('segment.bytes')?.synonyms.map((each) => each.source),
      [1, 4, 5],
    )
    const settings = new Map(broker.topics.describeBrokerConfig(contextOf()).map((each) => [each.name, each]))
    assert.deepEqual([settings.get('log.segment.bytes')?.value, settings.get('log.segment.bytes')?.source], ['1000000', 4])
    assert.throws(() => broker.topics.describeConfig(contextOf(), 'missing'), code('TOPIC_MISSING'))
  })

  it('keys by the hash of the topic, records without a key stay together', async () => {
    const { broker, clock } = await fakeBroker()
    const fnv = await createTopic(broker, 'a', 7)
    const murmur = await createTopic(broker, 'b', 7, { 'moonmq.partitioner': 'murmur2' })
    const key = Buffer.from('customer-42')
    assert.equal(broker.topics.partitionFor(fnv, key), fnv1a(key) % 7)
    assert.equal(broker.topics.partitionFor(murmur, key), (murmur2(key) & 0x7fffffff) % 7)
    const sixteen = new Set(Array.from({ length: 16 }, () => broker.topics.partitionFor(fnv, null)))
    assert.equal(sixteen.size, 1)
    const next = broker.topics.partitionFor(fnv, Buffer.alloc(0))
    assert.ok(!sixteen.has(next))
    await clock.advance(11)
    assert.notEqual(broker.topics.partitionFor(fnv, null), next)
  })
})
