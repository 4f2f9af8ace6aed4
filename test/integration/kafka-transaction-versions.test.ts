import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { buildBatch } from '../../src/record/builder.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { committedRecords } from '../support/transactions.ts'

interface Owner {
  readonly transactionalId: string
  readonly producerId: number
  readonly producerEpoch: number
}

async function begin(kafka: RawKafka, transactionalId: string, version = 4): Promise<Owner> {
  const given = await kafka.request('InitProducerId', version, {
    transactionalId,
    transactionTimeoutMs: 60_000,
    ...(version < 3 ? {} : { producerId: -1, producerEpoch: -1 }),
  })
  assert.equal(given.errorCode, 0)
  return { transactionalId, producerId: given.producerId, producerEpoch: given.producerEpoch }
}

async function add(kafka: RawKafka, owner: Owner, partitions: readonly number[], version: number): Promise<number[]> {
  const topics = [{ name: 't', partitions }]
  if (version < 4) {
    const { resultsByTopicV3AndBelow } = await kafka.request('AddPartitionsToTxn', version, {
      v3AndBelowTransactionalId: owner.transactionalId,
      v3AndBelowProducerId: owner.producerId,
      v3AndBelowProducerEpoch: owner.producerEpoch,
      v3AndBelowTopics: topics,
    })
    return resultsByTopicV3AndBelow.flatMap((topic) => topic.resultsByPartition.map((each) => each.partitionErrorCode))
  }
  const answer = await kafka.request('AddPartitionsToTxn', version, { transactions: [{ ...owner, verifyOnly: false, topics }] })
  return answer.resultsByTransaction.flatMap(({ topicResults }) =>
    topicResults.flatMap((topic) => topic.resultsByPartition.map((each) => each.partitionErrorCode)),
  )
}

async function verify(kafka: RawKafka, owner: Owner, ...partitions: number[]): Promise<number[]> {
  const topics = [{ name: 't', partitions }]
  const answer = await kafka.request('AddPartitionsToTxn', 4, { transactions: [{ ...owner, verifyOnly: true, topics }] })
  return answer.resultsByTransaction[0]?.topicResults[0]?.resultsByPartition.map((each) => each.partitionErrorCode) ?? []
}

async function produce(kafka: RawKafka, owner: Owner, sequence: number, version: number): Promise<number | undefined> {
  const { producerId, producerEpoch, transactionalId } = owner
  const options = { producerId, producerEpoch, baseSequence: sequence, transactional: true }
  const records = buildBatch([{ key: null, value: Buffer.from(`${sequence}`), timestampMs: Date.now() }], options)
  const topicData = [{ name: 't', partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', version, { transactionalId, acks: -1, timeoutMs: 10_000, topicData })
  return answer.responses[0]?.partitionResponses[0]?.errorCode
}

async function commitOffset(kafka: RawKafka, owner: Owner, version: number, member: object = {}): Promise<number | undefined> {
  const partition = { partitionIndex: 0, committedOffset: 7, committedMetadata: '', ...(version < 2 ? {} : { committedLeaderEpoch: -1 }) }
  const answer = await kafka.request('TxnOffsetCommit', version, {
    ...owner,
    groupId: 'g',
    topics: [{ name: 't', partitions: [partition] }],
    ...member,
  })
  return answer.topics[0]?.partitions[0]?.errorCode
}

async function offset(kafka: RawKafka, requireStable: boolean): Promise<[number | undefined, number | undefined]> {
  const topics = [{ name: 't', partitionIndexes: [0] }]
  const found = await kafka.request('OffsetFetch', 7, { groupId: 'g', topics, requireStable })
  const partition = found.topics[0]?.partitions[0]
  return [partition?.errorCode, partition?.committedOffset]
}

async function committed(kafka: RawKafka): Promise<string[]> {
  for (;;) {
    const { data, highWatermark } = await kafka.fetchBytes('t', 0, 0, 1)
    if (data.lastStableOffset < highWatermark) continue
    return committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], 0).records.map(({ value }) => value)
  }
}

describe('transactions by version', () => {
  for (const version of [0, 1, 2, 3]) {
    it(`the first flow in version ${version} of every request`, async () => {
      await using broker = await startTestBroker()
      using kafka = await RawKafka.connect(broker.address)
      await createTopic(kafka, 't', 1, {})
      const owner = await begin(kafka, 'tx', version)
      assert.deepEqual(await add(kafka, owner, [0], version), [0])
      assert.equal(await produce(kafka, owner, 0, 3), 0)
      assert.equal((await kafka.request('AddOffsetsToTxn', version, { ...owner, groupId: 'g' })).errorCode, 0)
      assert.equal(await commitOffset(kafka, owner, version), 0)
      assert.deepEqual(await offset(kafka, true), [88, -1])
      assert.deepEqual(await offset(kafka, false), [0, -1])
      assert.equal((await kafka.request('EndTxn', version, { ...owner, committed: true })).errorCode, 0)
      assert.deepEqual(await committed(kafka), ['0'])
      // The marker in the offsets topic may come a little later than the one in the topic.
      let found = await offset(kafka, true)
      while (found[0] === 88) found = await offset(kafka, true)
      assert.deepEqual(found, [0, 7])
      // Old versions know a producer that was fenced by its epoch alone.
      await begin(kafka, 'tx')
      const code = version < 2 ? 47 : 90
      assert.deepEqual(await add(kafka, owner, [0], version), [code])
      assert.equal((await kafka.request('EndTxn', version, { ...owner, committed: true })).errorCode, code)
    })
  }

  it('the second flow: nothing is added by hand, and each end gives another epoch', async () => {
    await using broker = await startTestBroker()
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 't', 1, {})
    let owner = await begin(kafka, 'tx', 5)
    for (let round = 0; round < 3; round++) {
      assert.equal(await produce(kafka, owner, 0, 12), 0)
      assert.equal(await commitOffset(kafka, owner, 5), 0)
      const ended = await kafka.request('EndTxn', 5, { ...owner, committed: round !== 1 })
      assert.deepEqual([ended.errorCode, ended.producerId, ended.producerEpoch], [0, owner.producerId, owner.producerEpoch + 1])
      owner = { ...owner, producerEpoch: ended.producerEpoch }
    }
    assert.deepEqual(await committed(kafka), ['0', '0'])
  })

  it('what is not part of the transaction is refused by a code that the version knows', async () => {
    await using broker = await startTestBroker()
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 't', 1, {})
    const owner = await begin(kafka, 'tx')
    assert.deepEqual([await produce(kafka, owner, 0, 10), await produce(kafka, owner, 0, 11)], [48, 120])
    assert.deepEqual([await commitOffset(kafka, owner, 3), await commitOffset(kafka, owner, 4)], [48, 120])
    assert.deepEqual(await verify(kafka, owner, 0), [120])
    assert.deepEqual(await add(kafka, owner, [0, 9], 4), [55, 3])
    assert.deepEqual(await add(kafka, owner, [0], 5), [0])
    assert.deepEqual(await verify(kafka, owner, 0), [0])
    // As in Kafka 4.4, which takes these versions from any client.
    assert.deepEqual(await verify(kafka, owner, 0, 7), [55, 3])
    assert.equal(await produce(kafka, { ...owner, producerEpoch: 5 }, 0, 10), 47)
    assert.equal(await produce(kafka, { ...owner, producerId: owner.producerId + 1 }, 0, 10), 49)
    // A member that the group does not know.
    const member = { generationIdOrMemberEpoch: 1, memberId: 'gone', groupInstanceId: null }
    assert.equal((await kafka.request('AddOffsetsToTxn', 3, { ...owner, groupId: 'g' })).errorCode, 0)
    assert.equal(await commitOffset(kafka, owner, 3, member), 22)
    for (const transactionTimeoutMs of [0, 900_001]) {
      const refused = await kafka.request('InitProducerId', 4, {
        transactionalId: 'x',
        transactionTimeoutMs,
        producerId: -1,
        producerEpoch: -1,
      })
      assert.equal(refused.errorCode, 50)
    }
  })

  it('an offset that waits for the end of its transaction is deleted like any other, and does not come back', async () => {
    await using broker = await startTestBroker()
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 't', 1, {})
    const owner = await begin(kafka, 'tx', 5)
    assert.equal(await commitOffset(kafka, owner, 5), 0)
    assert.deepEqual(await offset(kafka, true), [88, -1])
    const topics = [{ name: 't', partitions: [{ partitionIndex: 0 }] }]
    const deleted = await kafka.request('OffsetDelete', 0, { groupId: 'g', topics })
    assert.deepEqual([deleted.errorCode, deleted.topics[0]?.partitions[0]?.errorCode], [0, 0])
    assert.deepEqual(await offset(kafka, true), [0, -1])
    assert.equal((await kafka.request('EndTxn', 5, { ...owner, committed: true })).errorCode, 0)
    // Answered when the markers are written.
    const next = await begin(kafka, 'tx', 5)
    assert.equal(next.producerEpoch, 2)
    assert.deepEqual(await offset(kafka, true), [0, -1])
  })

  it('are listed, described and ended in one partition', async () => {
    await using broker = await startTestBroker()
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 't', 1, {})
    const owner = await begin(kafka, 'open-1')
    await begin(kafka, 'empty-1')
    await add(kafka, owner, [0], 3)
    await produce(kafka, owner, 0, 9)
    const list = async (filter: {
      stateFilters?: string[]
      producerIdFilters?: number[]
      durationFilter?: number
      transactionalIdPattern?: string
    }) => {
      const request = { stateFilters: [], producerIdFilters: [], durationFilter: -1, transactionalIdPattern: null, ...filter }
      const answer = await kafka.request('ListTransactions', 2, request)
      return [answer.errorCode, answer.unknownStateFilters.join(), ...answer.transactionStates.map((each) => each.transactionalId).sort()]
    }
    assert.deepEqual(await list({}), [0, '', 'empty-1', 'open-1'])
    assert.deepEqual(await list({ stateFilters: ['Ongoing', 'Wrong'] }), [0, 'Wrong', 'open-1'])
    assert.deepEqual(await list({ stateFilters: ['Wrong'] }), [0, 'Wrong'])
    assert.deepEqual(await list({ producerIdFilters: [owner.producerId] }), [0, '', 'open-1'])
    assert.deepEqual(await list({ durationFilter: 3_600_000 }), [0, ''])
    assert.deepEqual(await list({ transactionalIdPattern: 'em.*' }), [0, '', 'empty-1'])
    assert.deepEqual(await list({ transactionalIdPattern: '(' }), [128, ''])
    const described = await kafka.request('DescribeTransactions', 0, { transactionalIds: ['open-1', 'none'] })
    const [open, none] = described.transactionStates
    assert.deepEqual([open?.errorCode, open?.transactionState, open?.topics], [0, 'Ongoing', [{ topic: 't', partitions: [0] }]])
    assert.equal(none?.errorCode, 105)
    const producers = await kafka.request('DescribeProducers', 0, { topics: [{ name: 't', partitionIndexes: [0, 4] }] })
    const [known, missing] = producers.topics[0]?.partitions ?? []
    assert.deepEqual([known?.activeProducers[0]?.producerId, known?.activeProducers[0]?.currentTxnStartOffset], [owner.producerId, 0])
    assert.equal(missing?.errorCode, 3)
    const marker = { ...owner, transactionResult: false, coordinatorEpoch: 0, topics: [{ name: 't', partitionIndexes: [0, 4] }] }
    const written = await kafka.request('WriteTxnMarkers', 1, { markers: [marker] })
    assert.deepEqual(
      written.markers[0]?.topics[0]?.partitions.map(({ errorCode }) => errorCode),
      [0, 3],
    )
    assert.deepEqual(await committed(kafka), [])
  })
})
