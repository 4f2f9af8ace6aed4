import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ZERO_UUID } from '../../../src/core/uuid.ts'
import { batchOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'

const plain = (name: string, more: object = {}) => ({ name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [], ...more })

async function setup(...topics: string[]) {
  const door = await testDoor()
  for (const topic of topics) await createTopic(door.broker, topic)
  return { ...door, client: door.connect() }
}

describe('CreateTopics', () => {
  it('gives each topic an outcome of its own, with its id and settings', async () => {
    const { client, broker } = await setup('there')
    const { topics } = await client.call('CreateTopics', 7, {
      timeoutMs: 1000,
      topics: [
        plain('new', { numPartitions: 3, configs: [{ name: 'retention.ms', value: '60000' }] }),
        plain('there'),
        plain('a/b'),
        plain('many', { numPartitions: 0 }),
        plain('far', { replicationFactor: 3 }),
        plain('odd', { configs: [{ name: 'no.such.setting', value: '1' }] }),
        plain('defaults', { numPartitions: -1, replicationFactor: -1 }),
      ],
    })
    assert.deepEqual(
      topics.map(({ name, errorCode }) => [name, errorCode]),
      [
        ['new', 0],
        ['there', 36],
        ['a/b', 17],
        ['many', 37],
        ['far', 38],
        ['odd', 40],
        ['defaults', 0],
      ],
    )
    const [made, there] = topics
    assert.equal(made?.topicId, broker.topics.get('new').id)
    assert.deepEqual([made?.numPartitions, made?.replicationFactor], [3, 1])
    const retention = made?.configs?.find(({ name }) => name === 'retention.ms')
    assert.deepEqual([retention?.value, retention?.configSource], ['60000', 1])
    assert.match(there?.errorMessage ?? '', /already exists/)
    assert.equal(there?.topicId, ZERO_UUID)
  })

  it('refuses a topic or partition that is named twice; of a setting the last value is meant', async () => {
    const { client, broker } = await setup()
    const assignment = (partitionIndex: number) => ({ partitionIndex, brokerIds: [0] })
    const { topics } = await client.call('CreateTopics', 5, {
      timeoutMs: 1000,
      topics: [
        plain('twice'),
        plain('twice'),
        plain('assigned', { numPartitions: -1, replicationFactor: -1, assignments: [assignment(0), assignment(0)] }),
        plain('both', { numPartitions: 2, replicationFactor: -1, assignments: [assignment(0)] }),
        plain('set', { configs: ['1', '2'].map((value) => ({ name: 'retention.ms', value })) }),
        plain('right', { numPartitions: -1, replicationFactor: -1, assignments: [assignment(1), assignment(0)] }),
      ],
    })
    assert.deepEqual(
      topics.map(({ name, errorCode }) => [name, errorCode]),
      [
        ['twice', 42],
        ['assigned', 39],
        ['both', 42],
        ['set', 0],
        ['right', 0],
      ],
    )
    assert.deepEqual(
      broker.topics.list().map(({ name, partitions }) => [name, partitions.length]),
      [
        ['right', 2],
        ['set', 1],
      ],
    )
  })

  it('validates without making anything', async () => {
    const { client, broker } = await setup()
    const { topics } = await client.call('CreateTopics', 7, { timeoutMs: 1000, validateOnly: true, topics: [plain('t'), plain('..')] })
    assert.deepEqual(
      topics.map(({ errorCode }) => errorCode),
      [0, 17],
    )
    assert.equal(broker.topics.list().length, 0)
  })

  it('makes no more than 10,000 partitions at once, by whatever says how many', async () => {
    const { client, broker } = await setup()
    const ask = async (
      ...topics: (Omit<ReturnType<typeof plain>, 'assignments'> & { assignments: { partitionIndex: number; brokerIds: number[] }[] })[]
    ) => {
      const answer = await client.call('CreateTopics', 7, { timeoutMs: 1000, validateOnly: true, topics })
      return answer.topics.map(({ errorCode }) => errorCode)
    }
    const wide = (name: string, numPartitions: number) => ({ ...plain(name), numPartitions })
    assert.deepEqual(await ask(wide('a', 9_999), wide('b', -1)), [0, 0])
    assert.deepEqual(await ask(wide('a', 10_000), wide('b', -1)), [44, 44])
    const assignments = [0, 1].map((partitionIndex) => ({ partitionIndex, brokerIds: [0] }))
    assert.deepEqual(await ask(wide('a', 9_999), { ...plain('b'), numPartitions: -1, assignments }), [44, 44])
    await createTopic(broker, 't', 2)
    const grow = async (count: number) => {
      const answer = await client.call('CreatePartitions', 3, {
        timeoutMs: 1000,
        validateOnly: true,
        topics: [{ name: 't', count, assignments: null }],
      })
      return answer.results[0]?.errorCode
    }
    assert.deepEqual([await grow(10_002), await grow(10_003)], [0, 44])
  })

  it('answers REQUEST_TIMED_OUT in time when the creation takes longer', async () => {
    const { client, metadata, clock } = await setup()
    metadata.change = () => new Promise(() => {})
    const answer = client.call('CreateTopics', 5, { timeoutMs: 500, topics: [plain('slow')] })
    await clock.advance(500)
    assert.equal((await answer).topics[0]?.errorCode, 7)
  })
})

describe('DeleteTopics', () => {
  it('by name, by id, each on its own', async () => {
    const { client, broker } = await setup('a', 'b', 'c')
    const idOf = (name: string) => broker.topics.get(name).id
    const byName = await client.call('DeleteTopics', 3, { topicNames: ['a', 'missing', '__consumer_offsets'], timeoutMs: 1000 })
    assert.deepEqual(byName.responses.map(({ name, errorCode }) => [name, errorCode]).slice(0, 2), [
      ['a', 0],
      ['missing', 3],
    ])
    const topics = [
      { topicId: idOf('b'), name: null },
      { topicId: 'AAAAAAAAAAAAAAAAAAAAEA', name: null },
      { topicId: idOf('c'), name: 'c' },
      { topicId: ZERO_UUID, name: null },
      { topicId: ZERO_UUID, name: 'c' },
    ]
    const { responses } = await client.call('DeleteTopics', 6, { topics, timeoutMs: 1000 })
    assert.deepEqual(
      responses.map(({ name, errorCode }) => [name, errorCode]),
      [
        ['b', 0],
        [null, 100],
        ['c', 42],
        [null, 42],
        ['c', 0],
      ],
    )
    assert.deepEqual(broker.topics.list(), [])
  })
})

describe('CreatePartitions', () => {
  it('grows, validates, and refuses what cannot be', async () => {
    const { client, broker } = await setup('a', 'b')
    const call = async (name: string, count: number, assignments: { brokerIds: number[] }[] | null = null, validateOnly = false) => {
      const { results } = await client.call('CreatePartitions', 3, {
        timeoutMs: 1000,
        validateOnly,
        topics: [{ name, count, assignments }],
      })
      return results[0]?.errorCode
    }
    assert.equal(await call('a', 3, null, true), 0)
    assert.equal(broker.topics.get('a').partitions.length, 1)
    assert.equal(await call('a', 3), 0)
    assert.equal(await call('a', 3), 37)
    assert.equal(await call('a', 2), 37)
    assert.equal(await call('missing', 2), 3)
    assert.equal(await call('a', 5, [{ brokerIds: [0] }]), 39, 'one assignment for two partitions')
    assert.equal(await call('a', 4, [{ brokerIds: [7] }]), 39)
    assert.equal(await call('a', 4, [{ brokerIds: [0] }]), 0)
    assert.equal(broker.topics.get('a').partitions.length, 4)
    const twice = { name: 'b', count: 2, assignments: null }
    const { results } = await client.call('CreatePartitions', 3, { timeoutMs: 1000, topics: [twice, twice] })
    assert.deepEqual(
      results.map(({ errorCode }) => errorCode),
      [42],
    )
  })
})

it('CreateTopics: null is no value of a setting', async () => {
  const { client } = await setup()
  const configs = [{ name: 'retention.ms', value: null }]
  const topics = [{ name: 'n', numPartitions: 1, replicationFactor: 1, assignments: [], configs }]
  const answer = await client.call('CreateTopics', 7, { topics, timeoutMs: 1000, validateOnly: true })
  assert.equal(answer.topics[0]?.errorCode, 40)
})

describe('DescribeConfigs', () => {
  it('topics and this broker, others refused', async () => {
    const { client } = await setup('t')
    const resource = (resourceType: number, resourceName: string) => ({ resourceType, resourceName, configurationKeys: null })
    const { results } = await client.call('DescribeConfigs', 4, {
      includeSynonyms: true,
      includeDocumentation: true,
      resources: [resource(2, 't'), resource(4, '0'), resource(2, 'missing'), resource(4, '1'), resource(8, '1'), resource(4, '')],
    })
    assert.deepEqual(
      results.map(({ resourceType, resourceName, errorCode }) => [resourceType, resourceName, errorCode]),
      [
        [2, 't', 0],
        [4, '0', 0],
        [2, 'missing', 3],
        [4, '1', 42],
        [8, '1', 42],
        [4, '', 0],
      ],
    )
    const retention = results[0]?.configs.find(({ name }) => name === 'retention.ms')
    assert.equal(retention?.configType, 5)
    assert.ok((retention?.documentation ?? '').length > 10)
    assert.ok(results[1]?.configs.some(({ name }) => name === 'num.partitions'))
    const reached = results[1]?.configs.find(({ name }) => name === 'advertised.listeners')
    assert.deepEqual([reached?.value, reached?.configSource, reached?.readOnly], ['PLAINTEXT://127.0.0.1:9092', 4, true])
    assert.equal(results[1]?.configs.find(({ name }) => name === 'node.id')?.value, '0')
    const without = await client.call('DescribeConfigs', 3, { resources: [resource(2, 't')] })
    assert.ok(without.results[0]?.configs.every(({ documentation, synonyms }) => documentation === null && synonyms.length === 0))
  })
})

describe('DescribeConfigs of a resource that is named again and again', () => {
  it('one answer, with all the keys that were asked for', async () => {
    const { client } = await setup('t')
    const ask = async (...keys: (string[] | null)[]) => {
      const resources = keys.map((configurationKeys) => ({ resourceType: 2, resourceName: 't', configurationKeys }))
      const { results } = await client.call('DescribeConfigs', 4, { resources })
      return results.map(({ configs }) => configs.map(({ name }) => name))
    }
    assert.deepEqual(await ask(['segment.ms'], ['retention.ms', 'segment.ms']), [['retention.ms', 'segment.ms']])
    const all = await ask(null)
    assert.deepEqual(await ask(['segment.ms'], null, ['retention.ms']), all)
    assert.deepEqual(await ask([]), all, 'no key is every key')
    assert.deepEqual(await ask(...Array.from({ length: 1000 }, () => null)), all)
  })
})

describe('DescribeTopicPartitions', () => {
  it('in pages that join into the whole', async () => {
    const { client, broker } = await setup('a', 'c')
    await createTopic(broker, 'b', 5)
    const seen: [string | null, number][] = []
    let cursor: { topicName: string; partitionIndex: number } | null = null
    for (let pages = 1; ; pages++) {
      const answer: Awaited<ReturnType<typeof client.call<'DescribeTopicPartitions'>>> = await client.call('DescribeTopicPartitions', 0, {
        topics: [],
        responsePartitionLimit: 2,
        cursor,
      })
      for (const { name, partitions } of answer.topics) for (const { partitionIndex } of partitions) seen.push([name, partitionIndex])
      cursor = answer.nextCursor
      if (cursor === null) break
      assert.ok(pages < 10)
    }
    assert.deepEqual(seen, [['a', 0], ...[0, 1, 2, 3, 4].map((index): [string, number] => ['b', index]), ['c', 0]])
  })

  it('a limit of nothing, a cursor behind the end and a missing topic', async () => {
    const { client } = await setup('a')
    const call = (topics: string[], responsePartitionLimit: number, cursor: { topicName: string; partitionIndex: number } | null) =>
      client.call('DescribeTopicPartitions', 0, { topics: topics.map((name) => ({ name })), responsePartitionLimit, cursor })
    assert.equal((await call(['a'], 0, null)).topics[0]?.partitions.length, 1)
    assert.equal((await call(['a'], 10, { topicName: 'a', partitionIndex: 9 })).topics[0]?.partitions.length, 0)
    assert.equal(
      (await call(['a'], 10, { topicName: 'z', partitionIndex: 0 })).topics[0]?.errorCode,
      42,
      'a cursor at a topic that is not asked for',
    )
    assert.equal((await call([], 10, { topicName: 'z', partitionIndex: 0 })).topics.length, 0)
    assert.equal((await call(['missing'], 10, null)).topics[0]?.errorCode, 3)
    assert.equal((await call(['a'], 10, { topicName: 'a', partitionIndex: -1 })).topics[0]?.errorCode, 42)
  })
})

describe('InitProducerId', () => {
  it('gives fresh ids; an empty transactional id is error 42', async () => {
    const { client } = await setup()
    const call = (transactionalId: string | null) => client.call('InitProducerId', 4, { transactionalId, transactionTimeoutMs: 1000 })
    const [first, second] = [await call(null), await call(null)]
    assert.deepEqual([first.errorCode, first.producerEpoch, second.errorCode], [0, 0, 0])
    assert.notEqual(first.producerId, second.producerId)
    assert.deepEqual([(await call('')).errorCode, (await call('')).producerId], [42, -1])
  })
})

describe('Metadata', () => {
  it('creates a named topic where request and setting allow it, and names what it cannot', async () => {
    const { client, broker } = await setup()
    const call = async (version: number, name: string, allowAutoTopicCreation = true) => {
      const body = { topics: [{ topicId: ZERO_UUID, name }], ...(version < 4 ? {} : { allowAutoTopicCreation }) }
      return (await client.call('Metadata', version, body)).topics[0]?.errorCode
    }
    assert.equal(await call(4, 'no', false), 3)
    assert.equal(await call(12, 'no', false), 3)
    assert.equal(await call(1, 'old'), 0)
    assert.equal(await call(12, 'new'), 0)
    for (const bad of ['', '.', '..', 'a/b', '../../x', 'a\0b', 'ü', 'x'.repeat(250)])
      assert.equal(await call(12, bad), 17, JSON.stringify(bad))
    assert.equal(await call(12, 'x'.repeat(249)), 0)
    assert.deepEqual(
      broker.topics.list().map(({ name }) => name.length),
      [3, 3, 249],
    )
  })

  it('answers a topic once, and authorized operations only when asked', async () => {
    const { client } = await setup('t')
    const topics = [1, 2, 3].map(() => ({ topicId: ZERO_UUID, name: 't' }))
    const plainAnswer = await client.call('Metadata', 9, { topics })
    assert.equal(plainAnswer.topics.length, 1)
    assert.equal(plainAnswer.topics[0]?.topicAuthorizedOperations, -2147483648)
    const asked = await client.call('Metadata', 9, {
      topics,
      includeTopicAuthorizedOperations: true,
      includeClusterAuthorizedOperations: true,
    })
    assert.equal(asked.topics[0]?.topicAuthorizedOperations, 0xdf8)
    assert.equal(asked.clusterAuthorizedOperations, 0x1fa0)
  })
})

describe('OffsetForLeaderEpoch', () => {
  it('the end of an epoch, errors of each partition', async () => {
    const { client, broker } = await setup('t')
    await produceOne(broker, 't', 0, batchOf(3))
    const partitions = [
      { partition: 0, currentLeaderEpoch: -1, leaderEpoch: 0 },
      { partition: 0, currentLeaderEpoch: 9, leaderEpoch: 0 },
      { partition: 5, currentLeaderEpoch: -1, leaderEpoch: 0 },
    ]
    const { topics } = await client.call('OffsetForLeaderEpoch', 4, { replicaId: -2, topics: [{ topic: 't', partitions }] })
    assert.deepEqual(
      topics[0]?.partitions.map(({ errorCode, endOffset }) => [errorCode, endOffset]),
      [
        [0, 3],
        [75, -1],
        [3, -1],
      ],
    )
  })
})
