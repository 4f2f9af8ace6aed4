import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ZERO_UUID } from '../../../src/core/uuid.ts'
import { batchOf, contextOf, createTopic, NOW_MS, produceOne } from '../../support/fake-broker.ts'
import { settle } from '../../support/fake-socket.ts'
import { type TestConnection, type TestDoor, testDoor } from '../../support/kafka-door.ts'
import { rawRequest, requestFrame } from '../../support/kafka-frames.ts'

async function doorWith(...topics: string[]): Promise<TestDoor> {
  const door = await testDoor()
  for (const topic of topics) await createTopic(door.broker, topic)
  return door
}

async function fill(door: TestDoor, topic: string, batches: number): Promise<void> {
  for (let i = 0; i < batches; i++) await produceOne(door.broker, topic, 0, batchOf(1))
}

const produceBody = (topic: string, records: Buffer | null, acks = 1) => ({
  acks,
  timeoutMs: 1000,
  topicData: [{ name: topic, partitionData: [{ index: 0, records }] }],
})

const fetchBody = (topic: string, fetchOffset = 0, more: object = {}) => ({
  maxWaitMs: 0,
  minBytes: 1,
  maxBytes: 1_000_000,
  topics: [{ topic, partitions: [{ partition: 0, fetchOffset, partitionMaxBytes: 1_000_000, currentLeaderEpoch: -1, ...more }] }],
})

const describeTrap = (number: number, title: string, body: () => void) => describe(`trap ${number}: ${title}`, body)

describeTrap(1, 'ApiVersions in an unknown version (O22)', () => {
  it('is answered in the layout of version 0 with error 35 and the whole offer; the connection stays open', async () => {
    const { connect, door } = await testDoor()
    const client = connect()
    for (let version = 0; version <= 127; version++) {
      client.push(
        version <= 5
          ? requestFrame('ApiVersions', version, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
          : rawRequest(18, version),
      )
      await settle()
      const [frame] = client.frames()
      assert.ok(frame, `version ${version}`)
      assert.equal(frame.readInt16BE(4), version <= 5 ? 0 : 35)
      if (version <= 5) continue
      assert.equal(frame.readInt32BE(6), door.dispatch.offer.length)
      assert.equal(frame.length, 10 + 6 * door.dispatch.offer.length)
      assert.notEqual(frame.subarray(10).indexOf(Buffer.from([0, 18, 0, 0, 0, 5])), -1, 'the entry of ApiVersions itself')
    }
    assert.equal(client.socket.closed, false)
  })

  it('reads nothing of the body', async () => {
    const client = (await testDoor()).connect()
    client.push(rawRequest(18, 99, Buffer.from('ff'.repeat(40), 'hex')))
    assert.equal(client.frames()[0]?.readInt16BE(4), 35)
  })
})

describeTrap(2, 'other unsupported versions and keys', () => {
  for (const [what, key, version] of [
    ['Fetch 3', 1, 3],
    ['Metadata 99', 3, 99],
    ['key 999', 999, 0],
    ['Produce 0', 0, 0],
    ['Produce 2', 0, 2],
    ['SaslHandshake, which is not served', 17, 1],
  ] as const) {
    it(`${what} closes the connection without an answer`, async () => {
      const { connect } = await testDoor()
      const other = connect()
      const client = connect()
      client.push(rawRequest(key, version, Buffer.alloc(40)))
      assert.equal(client.socket.closed, true)
      assert.deepEqual(client.frames(), [])
      assert.equal(other.socket.closed, false)
    })
  }
})

describeTrap(3, 'offered but not served', () => {
  it('Produce is offered from 0', async () => {
    const client = (await testDoor()).connect()
    const { apiKeys } = await client.call('ApiVersions', 0, {})
    assert.deepEqual(apiKeys[0], { apiKey: 0, minVersion: 0, maxVersion: 13 })
    assert.deepEqual(
      apiKeys.map(({ apiKey }) => apiKey),
      apiKeys.map(({ apiKey }) => apiKey).sort((left, right) => left - right),
    )
  })
})

describeTrap(4, 'ApiVersions 3 and up', () => {
  const call = (client: TestConnection, version: number, more: object) =>
    client.call('ApiVersions', version, { clientSoftwareName: 'client-1.0', clientSoftwareVersion: '4.4.0', ...more })

  it('names outside of the pattern are error 42', async () => {
    const client = (await testDoor()).connect()
    for (const name of ['', '-a', 'a-', 'a b', 'ü', 'a\n']) {
      assert.equal((await call(client, 3, { clientSoftwareName: name })).errorCode, 42, JSON.stringify(name))
      assert.equal((await call(client, 3, { clientSoftwareVersion: name })).errorCode, 42, JSON.stringify(name))
    }
    assert.equal((await call(client, 3, {})).errorCode, 0)
  })

  it('a client that expects another cluster or node is told to bootstrap again', async () => {
    const { connect, broker } = await testDoor()
    const client = connect()
    for (const [clusterId, nodeId, code] of [
      ['another', 0, 129],
      [broker.cluster.clusterId, 7, 129],
      ['another', -1, 42],
      [null, 0, 42],
    ] as const) {
      assert.equal((await call(client, 5, { clusterId, nodeId })).errorCode, code)
    }
    assert.equal((await call(client, 5, { clusterId: broker.cluster.clusterId, nodeId: 0 })).errorCode, 0)
  })

  it('features are told with their levels, from 0 only to clients that read it; one that is switched off is not finalized (trap 14)', async () => {
    const door = await testDoor()
    const features = new Map([...door.metadata.image.features, ['transaction.version', 0]] as const)
    door.metadata.image = { ...door.metadata.image, features, nextOffset: 8 }
    const old = await call(door.connect(), 3, {})
    assert.deepEqual(old.supportedFeatures, [{ name: 'metadata.version', minVersion: 7, maxVersion: 7 }])
    const answer = await call(door.connect(), 4, {})
    assert.deepEqual(
      answer.supportedFeatures.map(({ name, minVersion, maxVersion }) => `${name} ${minVersion}-${maxVersion}`),
      ['group.version 0-1', 'kraft.version 0-1', 'metadata.version 7-7', 'share.version 0-2', 'transaction.version 0-2'],
    )
    assert.deepEqual(
      answer.finalizedFeatures.map(({ name, maxVersionLevel }) => `${name} ${maxVersionLevel}`),
      ['group.version 1', 'metadata.version 7', 'share.version 2'],
    )
    assert.equal(answer.finalizedFeaturesEpoch, 7)
  })
})

describeTrap(5, 'null is not empty', () => {
  it('Metadata: null topics = all, empty = none; in version 0 empty = all', async () => {
    const client = (await doorWith('a', 'b')).connect()
    assert.equal((await client.call('Metadata', 0, { topics: [] })).topics.length, 2)
    assert.equal((await client.call('Metadata', 1, { topics: [] })).topics.length, 0)
    assert.equal((await client.call('Metadata', 1, { topics: null })).topics.length, 2)
    assert.equal((await client.call('Metadata', 13, { topics: null })).topics.length, 2)
  })

  it('DescribeConfigs: null keys = all, and so are no keys, as on Kafka', async () => {
    const client = (await doorWith('a')).connect()
    const count = async (configurationKeys: string[] | null) => {
      const { results } = await client.call('DescribeConfigs', 4, {
        resources: [{ resourceType: 2, resourceName: 'a', configurationKeys }],
      })
      return results[0]?.configs.length
    }
    assert.ok(Number(await count(null)) > 10)
    assert.equal(await count([]), await count(null))
    assert.equal(await count(['retention.ms', 'no.such.key']), 1)
  })
})

describeTrap(6, 'topic ids', () => {
  it('a stale id is error 100 of the partition, and a topic made again has another id', async () => {
    const door = await doorWith('t')
    const client = door.connect()
    const idOf = async () => (await client.call('Metadata', 12, { topics: [{ topicId: ZERO_UUID, name: 't' }] })).topics[0]?.topicId ?? ''
    const before = await idOf()
    await fill(door, 't', 3)
    await client.call('DeleteTopics', 6, { topics: [{ name: null, topicId: before }], timeoutMs: 1000 })
    await createTopic(door.broker, 't')
    const after = await idOf()
    assert.notEqual(after, before)
    assert.notEqual(after, ZERO_UUID)

    const fetchId = (topicId: string, fetchOffset: number) =>
      client.call('Fetch', 13, {
        maxWaitMs: 60_000,
        minBytes: 1,
        topics: [{ topicId, partitions: [{ partition: 0, fetchOffset, partitionMaxBytes: 1000 }] }],
      })
    const stale = (await fetchId(before, 0)).responses[0]
    assert.equal(stale?.topicId, before)
    assert.equal(stale?.partitions[0]?.errorCode, 100)
    assert.equal(stale?.partitions[0]?.records?.length, 0, 'not a byte of the old data')
    // An offset of the topic before is out of range in the new one, not silence.
    assert.equal((await fetchId(after, 3)).responses[0]?.partitions[0]?.errorCode, 1)

    const produceId = async (topicId: string) => {
      const topicData = [{ topicId, partitionData: [{ index: 0, records: batchOf(1) }] }]
      return (await client.call('Produce', 13, { acks: -1, timeoutMs: 1000, topicData })).responses[0]?.partitionResponses[0]
    }
    assert.equal((await produceId(before))?.errorCode, 100)
    assert.deepEqual([(await produceId(after))?.errorCode, (await produceId(after))?.baseOffset], [0, 1])
    assert.equal((await client.call('Metadata', 12, { topics: [{ topicId: before, name: null }] })).topics[0]?.errorCode, 100)
    assert.equal(client.socket.closed, false)
  })

  it('known and unknown ids in one request keep their places', async () => {
    const door = await doorWith('a', 'b')
    const [a, b] = door.broker.topics.list()
    assert.ok(a && b)
    await fill(door, 'b', 2)
    const part = (partition: number) => ({ partition, fetchOffset: 0, partitionMaxBytes: 10_000 })
    const topics = [a.id, 'BBBBBBBBBBBBBBBBBBBBBA', b.id].map((topicId) => ({ topicId, partitions: [part(0), part(1)] }))
    const { responses } = await door.connect().call('Fetch', 17, { maxWaitMs: 60_000, minBytes: 1, maxBytes: 10_000, topics })
    assert.deepEqual(
      responses.map(({ topicId, partitions }) => [topicId, partitions.map(({ errorCode }) => errorCode)]),
      [
        [a.id, [0, 3]],
        ['BBBBBBBBBBBBBBBBBBBBBA', [100, 100]],
        [b.id, [0, 3]],
      ],
    )
    assert.equal(responses[2]?.partitions[0]?.highWatermark, 2)
  })
})

describeTrap(7, 'fetch sessions', () => {
  it('id 0 and epoch 0 open one, epoch -1 closes it, a wrong id is 70 and a wrong epoch 71, each without topics', async () => {
    const door = await doorWith('t')
    await fill(door, 't', 1)
    const client = door.connect()
    const call = async (sessionId: number, sessionEpoch: number) => {
      const answer = await client.call('Fetch', 12, { ...fetchBody('t'), maxWaitMs: 0, sessionId, sessionEpoch })
      return { ...answer, seen: [answer.errorCode, answer.sessionId, answer.responses.length] as const }
    }
    assert.deepEqual((await call(0, -1)).seen, [0, 0, 1])
    const { sessionId } = await call(0, 0)
    assert.ok(sessionId > 0)
    assert.deepEqual((await call(sessionId, 1)).seen, [0, sessionId, 1])
    assert.deepEqual((await call(sessionId, 1)).seen, [71, 0, 0])
    assert.deepEqual((await call(sessionId, -2)).seen, [71, 0, 0])
    assert.deepEqual((await call(sessionId, 2)).seen, [0, sessionId, 1])
    for (const wrong of [0, sessionId - 1]) assert.deepEqual((await call(wrong, 1)).seen, [70, 0, 0])
    assert.deepEqual((await call(sessionId, -1)).seen, [0, 0, 1])
    assert.deepEqual((await call(sessionId, 3)).seen, [70, 0, 0])
  })

  it('forgotten topics of a full fetch mean nothing', async () => {
    const client = (await doorWith('t')).connect()
    const answer = await client.call('Fetch', 11, {
      ...fetchBody('t'),
      sessionEpoch: 0,
      forgottenTopicsData: [{ topic: 't', partitions: [0] }],
    })
    assert.equal(answer.responses.length, 1)
  })
})

describeTrap(8, 'at least one batch', () => {
  it('the first batch is sent whole whatever the limits say, and its memory is given back', async () => {
    const door = await doorWith('t')
    const batch = batchOf(1, { valueBytes: 50_000 })
    await produceOne(door.broker, 't', 0, batch)
    const client = door.connect()
    const body = { ...fetchBody('t', 0, { partitionMaxBytes: 1 }), maxBytes: 1 }
    for (const version of [4, 7, 11, 12]) {
      const { responses } = await client.call('Fetch', version, body)
      assert.equal(responses[0]?.partitions[0]?.records?.length, batch.length)
    }
    assert.equal(door.logs.at('t', 0).unreleased, 0)
  })
})

describeTrap(9, 'a fetch offset inside a batch', () => {
  it('returns the whole batch', async () => {
    const door = await doorWith('t')
    const batch = batchOf(10)
    await produceOne(door.broker, 't', 0, batch)
    const { responses } = await door.connect().call('Fetch', 12, fetchBody('t', 7))
    assert.equal(responses[0]?.partitions[0]?.records?.length, batch.length)
    assert.equal(responses[0]?.partitions[0]?.highWatermark, 10)
  })
})

describeTrap(11, 'leader epochs', () => {
  it('-1 is not checked; lower is fenced, higher is unknown', async () => {
    const door = await doorWith('t')
    await fill(door, 't', 1)
    const current = door.broker.offsets.bounds(contextOf(), 't', 0).leaderEpoch
    const client = door.connect()
    const fetched = async (currentLeaderEpoch: number) =>
      (await client.call('Fetch', 12, fetchBody('t', 0, { currentLeaderEpoch }))).responses[0]?.partitions[0]?.errorCode
    const listed = async (currentLeaderEpoch: number) => {
      const topics = [{ name: 't', partitions: [{ partitionIndex: 0, currentLeaderEpoch, timestamp: -1 }] }]
      return (await client.call('ListOffsets', 5, { topics })).topics[0]?.partitions[0]?.errorCode
    }
    assert.deepEqual([await fetched(-1), await fetched(current), await fetched(current + 1)], [0, 0, 75])
    assert.deepEqual([await listed(-1), await listed(current), await listed(current + 1)], [0, 0, 75])
  })
})

describeTrap(12, 'acks 0', () => {
  it('has no answer', async () => {
    const door = await doorWith('t')
    const client = door.connect()
    client.push(requestFrame('Produce', 7, produceBody('t', batchOf(1), 0), { correlationId: 1 }))
    client.push(requestFrame('Metadata', 1, { topics: [] }, { correlationId: 2 }))
    await settle()
    assert.deepEqual(
      client.frames().map((frame) => frame.readInt32BE(0)),
      [2],
    )
    assert.equal(door.logs.at('t', 0).logEndOffset, 1)
  })

  it('closes the connection on an error', async () => {
    for (const body of [produceBody('missing', batchOf(1), 0), produceBody('t', null, 0), produceBody('t', Buffer.alloc(70), 0)]) {
      const client = (await doorWith('t')).connect()
      client.push(requestFrame('Produce', 7, body))
      await settle()
      assert.deepEqual(client.frames(), [])
      assert.equal(client.socket.closed, true)
    }
  })
})

describe('Produce', () => {
  it('answers each partition on its own, in the order of the request', async () => {
    const door = await doorWith('a', 'b')
    const topicData = [
      {
        name: 'b',
        partitionData: [
          { index: 9, records: batchOf(1) },
          { index: 0, records: batchOf(2) },
        ],
      },
      { name: 'missing', partitionData: [{ index: 0, records: batchOf(1) }] },
      { name: 'a', partitionData: [{ index: 0, records: null }] },
    ]
    const answer = await door.connect().call('Produce', 9, { acks: -1, timeoutMs: 1000, topicData })
    assert.deepEqual(
      answer.responses.map(({ name, partitionResponses }) => [name, partitionResponses.map(({ index, errorCode }) => [index, errorCode])]),
      [
        [
          'b',
          [
            [9, 3],
            [0, 0],
          ],
        ],
        ['missing', [[0, 3]]],
        ['a', [[0, 87]]],
      ],
    )
    assert.match(answer.responses[1]?.partitionResponses[0]?.errorMessage ?? '', /missing/)
  })

  it('acks other than 0, 1 and -1 are error 21', async () => {
    const client = (await doorWith('t')).connect()
    for (const acks of [2, -2, 127]) {
      const answer = await client.call('Produce', 7, produceBody('t', batchOf(1), acks))
      assert.equal(answer.responses[0]?.partitionResponses[0]?.errorCode, 21)
    }
  })

  it('is answered only when durable, and lets the next one be appended meanwhile (trap 13, 19)', async () => {
    const door = await doorWith('t')
    const log = door.logs.at('t', 0)
    log.autoSync = false
    const client = door.connect()
    for (let sequence = 0; sequence < 5; sequence++) {
      const batch = batchOf(1, { producerId: 5, producerEpoch: 0, baseSequence: sequence })
      client.push(requestFrame('Produce', 7, produceBody('t', batch, -1), { correlationId: sequence }))
    }
    await settle()
    assert.equal(log.logEndOffset, 5)
    assert.deepEqual(client.frames(), [])
    log.sync()
    await settle()
    assert.deepEqual(
      client.frames().map((frame) => frame.readInt32BE(0)),
      [0, 1, 2, 3, 4],
    )
  })

  it('hands the bytes of the frame to the log without a copy', async () => {
    const door = await doorWith('t')
    const batch = batchOf(1, { valueBytes: 5000 })
    const frame = requestFrame('Produce', 7, produceBody('t', batch, 1))
    const client = door.connect()
    await client.call('Produce', 7, produceBody('t', batch, 1))
    const stored = door.logs.at('t', 0).batches[0]?.bytes
    assert.equal(stored?.length, batch.length)
    assert.ok((stored?.buffer.byteLength ?? 0) >= frame.length, 'a view of the whole frame')
  })
})

describeTrap(15, 'ListOffsets', () => {
  const at = async (client: TestConnection, version: number, timestamp: number, isolationLevel = 0) => {
    const topics = [{ name: 't', partitions: [{ partitionIndex: 0, currentLeaderEpoch: -1, timestamp }] }]
    const answer = await client.call('ListOffsets', version, { replicaId: -1, isolationLevel, topics, timeoutMs: 1000 })
    const partition = answer.topics[0]?.partitions[0]
    return [partition?.errorCode, partition?.offset, partition?.timestamp]
  }

  it('special timestamps, each from its version on', async () => {
    const door = await doorWith('t')
    await produceOne(door.broker, 't', 0, batchOf(3, { timestampMs: NOW_MS - 1000 }))
    await produceOne(door.broker, 't', 0, batchOf(3, { timestampMs: NOW_MS - 500 }))
    door.logs.at('t', 0).openTransactionAt = 3
    const client = door.connect()
    for (const version of [1, 4, 7, 11]) {
      assert.deepEqual(await at(client, version, -1), [0, 6, -1])
      assert.deepEqual(await at(client, version, -2), [0, 0, -1])
      assert.deepEqual(await at(client, version, NOW_MS - 600), [0, 3, NOW_MS - 500])
      assert.deepEqual(await at(client, version, NOW_MS + 1), [0, -1, -1], 'a time past the end')
      assert.deepEqual(await at(client, version, -3), version >= 7 ? [0, 5, NOW_MS - 500] : [35, -1, -1])
      assert.deepEqual(await at(client, version, -4), version >= 8 ? [0, 0, -1] : [35, -1, -1])
      assert.deepEqual(await at(client, version, -5), version >= 9 ? [0, -1, -1] : [35, -1, -1])
      assert.deepEqual(await at(client, version, -6), version >= 11 ? [0, -1, -1] : [35, -1, -1])
      assert.deepEqual(await at(client, version, -7), [35, -1, -1])
    }
    assert.deepEqual(await at(client, 2, -1, 1), [0, 3, -1], 'read committed: the last stable offset')
  })

  it('a partition asked for twice is error 42', async () => {
    const client = (await doorWith('t')).connect()
    const partition = { partitionIndex: 0, currentLeaderEpoch: -1, timestamp: -1 }
    const answer = await client.call('ListOffsets', 1, { topics: [{ name: 't', partitions: [partition, partition] }] })
    assert.deepEqual(
      answer.topics[0]?.partitions.map(({ errorCode }) => errorCode),
      [42],
    )
  })
})

describeTrap(18, 'advertised address', () => {
  it('is the listener setting, and unset the address that the client reached', async () => {
    const { connect } = await testDoor()
    const brokers = async (client: TestConnection) => (await client.call('Metadata', 1, { topics: [] })).brokers
    const node = { nodeId: 0, rack: null }
    assert.deepEqual(await brokers(connect({ advertised: { host: 'broker.example', port: 19092 } })), [
      { ...node, host: 'broker.example', port: 19092 },
    ])
    assert.deepEqual(await brokers(connect({ local: { host: '10.1.2.3', port: 9092 } })), [{ ...node, host: '10.1.2.3', port: 9092 }])
    assert.deepEqual(await brokers(connect({ local: { host: '::ffff:10.1.2.3', port: 9092 } })), [
      { ...node, host: '10.1.2.3', port: 9092 },
    ])
    const cluster = await connect({ local: { host: '::1', port: 9 } }).call('DescribeCluster', 2, { endpointType: 1 })
    assert.deepEqual(cluster.brokers, [{ brokerId: 0, host: '::1', port: 9, rack: null, isFenced: false }])
  })
})

describe('Fetch for readers that do not read', () => {
  it('what answers hold lowers what the next may read, to one batch, and is given back', async () => {
    const door = await testDoor({ door: { maxLentBytes: 4000 } })
    await createTopic(door.broker, 't')
    for (let i = 0; i < 20; i++) await produceOne(door.broker, 't', 0, batchOf(1, { valueBytes: 200 }))
    const size = door.logs.at('t', 0).batches[0]?.bytes.length ?? 0
    const held = (client: TestConnection) => Math.round(client.socket.take().length / size)
    const clients = Array.from({ length: 30 }, () => door.connect())
    const batches: number[] = []
    for (const client of clients) {
      client.socket.holding = true
      client.push(requestFrame('Fetch', 11, fetchBody('t')))
      await settle()
      batches.push(held(client))
    }
    assert.equal(batches[0], Math.floor(1000 / size))
    assert.equal(batches.at(-1), 1)
    for (const client of clients) client.socket.drain()
    const again = door.connect()
    again.push(requestFrame('Fetch', 11, fetchBody('t')))
    await settle()
    assert.equal(held(again), batches[0])
    assert.equal(door.logs.at('t', 0).unreleased, 0)
  })
})

describe('Fetch that waits', () => {
  it('ends when data comes', async () => {
    const door = await doorWith('t')
    const client = door.connect()
    client.push(requestFrame('Fetch', 11, { ...fetchBody('t'), maxWaitMs: 60_000 }))
    await settle()
    assert.deepEqual(client.frames(), [])
    await fill(door, 't', 1)
    await settle()
    assert.equal(client.frames().length, 1)
  })

  it('ends after its time, and when the connection goes', async () => {
    const door = await doorWith('t')
    const client = door.connect()
    client.push(requestFrame('Fetch', 11, { ...fetchBody('t'), maxWaitMs: 500 }))
    await door.clock.advance(500)
    assert.equal(client.frames().length, 1)
    client.push(requestFrame('Fetch', 11, { ...fetchBody('t'), maxWaitMs: 500_000 }))
    await settle()
    const watched = door.logs.at('t', 0).watchers
    client.socket.close()
    await settle()
    assert.ok(door.logs.at('t', 0).watchers <= watched)
    assert.equal(door.clock.pendingTimers, 0)
  })

  it('a fetch of a follower is refused', async () => {
    const client = (await doorWith('t')).connect()
    for (const version of [4, 12]) {
      const answer = await client.call('Fetch', version, { ...fetchBody('t'), replicaId: 1 })
      assert.deepEqual([answer.errorCode, answer.responses[0]?.partitions[0]?.errorCode], [0, 6])
    }
  })
})
