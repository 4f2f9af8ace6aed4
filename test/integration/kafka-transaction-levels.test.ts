import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

const BUSY = 51
const TRANSACTION_VERSION = 'transaction.version'
/** Versions of Produce, TxnOffsetCommit and EndTxn: what a client knows. */
const CLIENTS = { first: [9, 3, 3], abortable: [11, 4, 4], bumping: [12, 5, 5] } as const
type Client = keyof typeof CLIENTS

interface Owner {
  readonly transactionalId: string
  readonly producerId: number
  readonly producerEpoch: number
}

async function setLevel(kafka: RawKafka, level: number): Promise<void> {
  const featureUpdates = [{ feature: TRANSACTION_VERSION, maxVersionLevel: level, upgradeType: 2 }]
  const answer = await kafka.request('UpdateFeatures', 1, { timeoutMs: 10_000, validateOnly: false, featureUpdates })
  assert.equal(answer.errorCode, 0)
}

async function levelOf(kafka: RawKafka): Promise<number | undefined> {
  const answer = await kafka.request('ApiVersions', 4, { clientSoftwareName: 'test', clientSoftwareVersion: '1' })
  return answer.finalizedFeatures.find(({ name }) => name === TRANSACTION_VERSION)?.maxVersionLevel
}

/** Asks until nothing of the id is being ended. */
async function begin(kafka: RawKafka, transactionalId: string, expected?: Owner): Promise<{ owner: Owner; code: number }> {
  const { producerId = -1, producerEpoch = -1 } = expected ?? {}
  for (;;) {
    const body = { transactionalId, transactionTimeoutMs: 60_000, producerId, producerEpoch }
    const given = await kafka.request('InitProducerId', 4, body)
    const owner = { transactionalId, producerId: given.producerId, producerEpoch: given.producerEpoch }
    if (given.errorCode !== BUSY) return { owner, code: given.errorCode }
  }
}

async function add(kafka: RawKafka, owner: Owner): Promise<void> {
  const answer = await kafka.request('AddPartitionsToTxn', 3, {
    v3AndBelowTransactionalId: owner.transactionalId,
    v3AndBelowProducerId: owner.producerId,
    v3AndBelowProducerEpoch: owner.producerEpoch,
    v3AndBelowTopics: [{ name: 't', partitions: [0] }],
  })
  assert.equal(answer.resultsByTopicV3AndBelow[0]?.resultsByPartition[0]?.partitionErrorCode, 0)
  assert.equal((await kafka.request('AddOffsetsToTxn', 3, { ...owner, groupId: 'g' })).errorCode, 0)
}

async function produce(kafka: RawKafka, owner: Owner, version: number): Promise<number | undefined> {
  const { producerId, producerEpoch, transactionalId } = owner
  const options = { producerId, producerEpoch, baseSequence: 0, transactional: true }
  const records = buildBatch([{ key: null, value: Buffer.from('v'), timestampMs: Date.now() }], options)
  const topicData = [{ name: 't', partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', version, { transactionalId, acks: -1, timeoutMs: 10_000, topicData })
  return answer.responses[0]?.partitionResponses[0]?.errorCode
}

async function commitOffset(kafka: RawKafka, owner: Owner, version: number): Promise<number | undefined> {
  const partitions = [{ partitionIndex: 0, committedOffset: 7, committedLeaderEpoch: -1, committedMetadata: '' }]
  const body = { ...owner, groupId: 'g', generationIdOrMemberEpoch: -1, memberId: '', groupInstanceId: null }
  const answer = await kafka.request('TxnOffsetCommit', version, { ...body, topics: [{ name: 't', partitions }] })
  return answer.topics[0]?.partitions[0]?.errorCode
}

/** Codes of a produce, a commit of offsets and the end; epoch after the end. */
async function flow(kafka: RawKafka, client: Client, isAdded: boolean): Promise<[...(number | undefined)[]]> {
  const [produceVersion, commitVersion, endVersion] = CLIENTS[client]
  const { owner } = await begin(kafka, `${client}-${isAdded}`)
  if (isAdded) await add(kafka, owner)
  const codes = [await produce(kafka, owner, produceVersion), await commitOffset(kafka, owner, commitVersion)]
  const end = () => kafka.request('EndTxn', endVersion, { ...owner, committed: true })
  let ended = await end()
  while (ended.errorCode === BUSY) ended = await end()
  const first = owner.producerEpoch
  return [...codes, ended.errorCode, ended.errorCode === 0 && ended.producerEpoch >= 0 ? ended.producerEpoch - first : 0]
}

/** Epochs of all batches of the partition. */
async function epochs(kafka: RawKafka): Promise<number[]> {
  const { records } = (await kafka.fetchBytes('t', 0, 0, 0)).data
  const bytes = records ?? Buffer.alloc(0)
  const seen: number[] = []
  for (let at = 0; at < bytes.length; ) {
    const header = readBatchHeader(bytes, at)
    seen.push(header.producerEpoch)
    at += header.sizeBytes
  }
  return seen
}

// Every number here is what Apache Kafka 4.4 answers.
describe('transaction.version', () => {
  for (const level of [0, 1, 2]) {
    it(`${level}: what each client may do`, async () => {
      await using broker = await startTestBroker()
      using kafka = await RawKafka.connect(broker.address)
      await createTopic(kafka, 't', 1, {})
      if (level < 2) await setLevel(kafka, level)
      assert.equal(await levelOf(kafka), level === 0 ? undefined : level)
      const results: Record<string, unknown> = {}
      for (const client of Object.keys(CLIENTS) as Client[]) {
        for (const isAdded of [true, false]) results[`${client} ${isAdded ? 'added' : 'bare'}`] = await flow(kafka, client, isAdded)
      }
      const isWritten = level > 0
      assert.deepEqual(results, {
        'first added': [0, 0, 0, 0],
        'first bare': [48, 48, 48, 0],
        'abortable added': [0, 0, 0, 0],
        'abortable bare': [120, 120, 48, 0],
        'bumping added': isWritten ? [0, 0, 0, 1] : [0, 0, 35, 0],
        // Kafka cannot write what level 0 has no fields for, and its transactional id is stuck from then on.
        'bumping bare': isWritten ? [0, 0, 0, 1] : [35, 35, 35, 0],
      })
    })

    it(`${level}: a producer whose transaction the broker aborted`, async () => {
      await using broker = await startTestBroker()
      using kafka = await RawKafka.connect(broker.address)
      await createTopic(kafka, 't', 1, {})
      if (level < 2) await setLevel(kafka, level)
      const { owner } = await begin(kafka, 'tx')
      await add(kafka, owner)
      assert.equal(await produce(kafka, owner, 9), 0)
      const again = await begin(kafka, 'tx', owner)
      assert.deepEqual([again.code, again.owner.producerEpoch], level === 2 ? [0, 1] : [90, -1])
      assert.deepEqual(await epochs(kafka), [0, 1])
      const other = await begin(kafka, 'tx')
      assert.deepEqual([other.code, other.owner.producerEpoch], [0, 2])
      assert.equal((await begin(kafka, 'tx', owner)).code, 90)
      assert.equal((await kafka.request('EndTxn', 4, { ...owner, committed: false })).errorCode, 90)
    })
  }

  it('0 after 2: what is open is ended by who began it', async () => {
    await using broker = await startTestBroker()
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 't', 1, {})
    const { owner } = await begin(kafka, 'tx')
    assert.equal(await produce(kafka, owner, 12), 0)
    await setLevel(kafka, 0)
    assert.equal((await kafka.request('EndTxn', 5, { ...owner, committed: true })).errorCode, 35)
    assert.equal((await kafka.request('EndTxn', 4, { ...owner, committed: true })).errorCode, 0)
    const next = await begin(kafka, 'tx')
    assert.equal(next.code, 0)
    assert.deepEqual(await epochs(kafka), [0, 0])
  })
})
