import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { batchOf, contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'

/** The truthful answers of a single broker: codes are those that Kafka 4.4 with one node gave to the same questions. */
async function setup() {
  const door = await testDoor()
  await createTopic(door.broker, 't', 2)
  return { ...door, client: door.connect() }
}

describe('DescribeLogDirs', () => {
  it('tells the folder, its volume and what each partition takes; what is not here is left out', async () => {
    const { client, broker, logs } = await setup()
    await produceOne(broker, 't', 1, batchOf(3))
    await createTopic(broker, 'quick', 1, { 'moonmq.storage': 'memory' })
    const ask = async (version: number, topics: { topic: string; partitions: number[] }[] | null) => {
      const { errorCode, results } = await client.call('DescribeLogDirs', version, { topics })
      assert.equal(errorCode, 0)
      const [folder] = results
      const sizes = folder?.topics.flatMap(({ name, partitions }) =>
        partitions.map((each) => `${name}-${each.partitionIndex} ${each.partitionSize}`),
      )
      return [folder?.logDir, folder?.totalBytes, folder?.usableBytes, sizes]
    }
    const size = logs.at('t', 1).sizeBytes
    assert.ok(size > 0)
    assert.deepEqual(await ask(5, null), ['/data', 1000, 600, ['t-0 0', `t-1 ${size}`]])
    assert.deepEqual(await ask(1, null), ['/data', -1, -1, ['t-0 0', `t-1 ${size}`]])
    const named = [
      { topic: 't', partitions: [1, 9] },
      { topic: 'none', partitions: [0] },
      { topic: 't', partitions: [1] },
    ]
    assert.deepEqual(await ask(4, named), ['/data', 1000, 600, [`t-1 ${size}`]])
    assert.deepEqual(await ask(4, []), ['/data', 1000, 600, []])
  })
})

describe('AlterReplicaLogDirs', () => {
  it('naming the one folder is done, another one is not there', async () => {
    const { client } = await setup()
    const { results } = await client.call('AlterReplicaLogDirs', 2, {
      dirs: [
        {
          path: '/data',
          topics: [
            { name: 't', partitions: [0, 9] },
            { name: 'none', partitions: [0] },
          ],
        },
        { path: '/other', topics: [{ name: 't', partitions: [1] }] },
      ],
    })
    const codes = results.flatMap(({ topicName, partitions }) =>
      partitions.map((each) => `${topicName}-${each.partitionIndex} ${each.errorCode}`),
    )
    assert.deepEqual(codes, ['t-0 0', 't-9 3', 't-1 57', 'none-0 3'])
  })
})

describe('ElectLeaders', () => {
  for (const version of [0, 1, 2]) {
    it(`version ${version}: no election is needed`, async () => {
      const { client } = await setup()
      const { errorCode, replicaElectionResults } = await client.call('ElectLeaders', version, {
        topicPartitions: [
          { topic: 't', partitions: [0, 9] },
          { topic: 'none', partitions: [0] },
        ],
      })
      assert.equal(errorCode, 0)
      const codes = replicaElectionResults.flatMap(({ topic, partitionResult }) =>
        partitionResult.map((each) => `${topic}-${each.partitionId} ${each.errorCode}`),
      )
      assert.deepEqual(codes, ['t-0 84', 't-9 3', 'none-0 3'])
    })
  }

  it('null = every partition that needs one; an unknown type is refused', async () => {
    const { client } = await setup()
    const ask = async (electionType: number, topicPartitions: { topic: string; partitions: number[] }[] | null) => {
      const answer = await client.call('ElectLeaders', 2, { electionType, topicPartitions })
      return [
        answer.errorCode,
        answer.replicaElectionResults.flatMap(({ partitionResult }) => partitionResult.map((each) => each.errorCode)),
      ]
    }
    assert.deepEqual(await ask(0, null), [0, []])
    assert.deepEqual(await ask(1, [{ topic: 't', partitions: [1] }]), [0, [84]])
    assert.deepEqual(await ask(2, [{ topic: 't', partitions: [1] }]), [42, [42]])
    assert.deepEqual(await ask(2, null), [42, []])
    assert.deepEqual(await ask(2, []), [0, []])
  })
})

describe('partition reassignments', () => {
  it('to this broker are done, to others refused, and there is none to cancel or to list', async () => {
    const { client } = await setup()
    const ask = async (name: string, partitionIndex: number, replicas: number[] | null) => {
      const { errorCode, responses } = await client.call('AlterPartitionReassignments', 1, {
        topics: [{ name, partitions: [{ partitionIndex, replicas }] }],
      })
      assert.equal(errorCode, 0)
      return responses[0]?.partitions[0]?.errorCode
    }
    assert.equal(await ask('t', 0, [0]), 0)
    for (const replicas of [[5], [0, 5], [0, 0], [], [-1]]) assert.equal(await ask('t', 0, replicas), 39)
    assert.equal(await ask('t', 0, null), 85)
    assert.equal(await ask('t', 9, [0]), 3)
    assert.equal(await ask('none', 0, null), 3)
    const list = await client.call('ListPartitionReassignments', 0, { topics: null })
    assert.deepEqual([list.errorCode, list.topics], [0, []])
  })
})

describe('DescribeQuorum', () => {
  it('this broker is the one voter, and all of the log is committed', async () => {
    const { client, metadata } = await setup()
    const answer = await client.call('DescribeQuorum', 2, {
      topics: [{ topicName: '__cluster_metadata', partitions: [{ partitionIndex: 0 }] }],
    })
    const partition = answer.topics[0]?.partitions[0]
    const end = metadata.image.nextOffset
    assert.deepEqual(
      [answer.errorCode, partition?.errorCode, partition?.leaderId, partition?.leaderEpoch, partition?.highWatermark],
      [0, 0, 0, 1, end],
    )
    assert.deepEqual(
      partition?.currentVoters.map(({ replicaId, logEndOffset }) => [replicaId, logEndOffset]),
      [[0, end]],
    )
    assert.deepEqual(answer.nodes, [{ nodeId: 0, listeners: [{ name: 'main', host: '127.0.0.1', port: 9092 }] }])
  })

  it('anything else is no log of a quorum', async () => {
    const { client } = await setup()
    const codes = async (topics: { topicName: string; partitions: { partitionIndex: number }[] }[]) =>
      (await client.call('DescribeQuorum', 2, { topics })).topics.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))
    assert.deepEqual(await codes([]), [])
    assert.deepEqual(await codes([{ topicName: 't', partitions: [{ partitionIndex: 0 }] }]), [3])
    assert.deepEqual(await codes([{ topicName: '__cluster_metadata', partitions: [{ partitionIndex: 0 }, { partitionIndex: 1 }] }]), [3, 3])
  })
})

describe('UpdateFeatures', () => {
  const update = (feature: string, maxVersionLevel: number, upgradeType = 1) => ({ feature, maxVersionLevel, upgradeType })

  it('moves levels, all of a request or none, and downwards only when asked to', async () => {
    const { client, metadata } = await setup()
    const ask = async (updates: ReturnType<typeof update>[], validateOnly = false) =>
      (await client.call('UpdateFeatures', 2, { featureUpdates: updates, validateOnly })).errorCode
    const level = () => metadata.image.features.get('group.version')
    assert.equal(await ask([update('group.version', 0)]), 95)
    assert.equal(await ask([update('group.version', 0, 2)], true), 0)
    assert.equal(level(), 1)
    assert.equal(await ask([update('group.version', 0, 2), update('none', 1)]), 95)
    assert.equal(level(), 1)
    assert.equal(await ask([update('group.version', 0, 2)]), 0)
    assert.equal(level(), 0)
    assert.equal(await ask([update('group.version', 1)]), 0)
    for (const [feature, wanted, type] of [
      ['group.version', 2, 1],
      ['group.version', -1, 3],
      ['group.version', 1, 0],
      ['group.version', 1, 9],
      ['metadata.version', 8, 1],
      ['', 1, 1],
    ] as const) {
      assert.equal(await ask([update(feature, wanted, type)]), 95, `${feature} ${wanted} ${type}`)
    }
    assert.equal(await ask([]), 0)
    assert.equal(level(), 1)
  })

  it('version 0 says with a flag that it goes down; until version 1 an answer names each feature', async () => {
    const { client } = await setup()
    const old = await client.call('UpdateFeatures', 0, {
      featureUpdates: [{ feature: 'share.version', maxVersionLevel: 1, allowDowngrade: false }],
    })
    assert.deepEqual([old.errorCode, old.results], [95, []])
    const done = await client.call('UpdateFeatures', 0, {
      featureUpdates: [{ feature: 'share.version', maxVersionLevel: 1, allowDowngrade: true }],
    })
    assert.deepEqual(done.results, [{ feature: 'share.version', errorCode: 0, errorMessage: null }])
    assert.deepEqual((await client.call('UpdateFeatures', 2, { featureUpdates: [update('share.version', 2)] })).results, [])
  })
})

describe('ListConfigResources', () => {
  it('lists what has settings, by type; version 0 knows client metrics only', async () => {
    const { client, broker } = await setup()
    await broker.topics.alterGroupConfig(contextOf(), {
      name: 'g',
      changes: [{ name: 'share.auto.offset.reset', operation: 'set', value: 'earliest' }],
    })
    const list = async (version: number, resourceTypes: number[]) => {
      const { errorCode, configResources } = await client.call('ListConfigResources', version, version === 0 ? {} : { resourceTypes })
      return errorCode === 0 ? configResources.map(({ resourceName, resourceType }) => `${resourceType} ${resourceName}`) : errorCode
    }
    assert.deepEqual(await list(1, []), ['32 g', '8 0', '4 0', '2 t'])
    assert.deepEqual(await list(1, [2, 32, 2]), ['32 g', '2 t'])
    assert.deepEqual(await list(1, [16]), [])
    assert.deepEqual(await list(0, []), [])
    assert.equal(await list(1, [1]), 35)
    await broker.topics.alterGroupConfig(contextOf(), {
      name: 'g',
      changes: [{ name: 'share.auto.offset.reset', operation: 'delete', value: '' }],
    })
    assert.deepEqual(await list(1, [32]), [])
  })
})
