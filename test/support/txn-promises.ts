import assert from 'node:assert/strict'
import { buildBatch } from '../../src/record/builder.ts'
import type { RawKafka } from './raw-kafka.ts'
import { committedRecords } from './transactions.ts'

const TOPIC = 'whole'
const ID = 'whole'
const PARTITIONS = [0, 1]
const TIMEOUT_MS = 60_000
/** Kafka's codes that pass: coordinator loading or away, a transaction that is being ended. */
const PASSING: ReadonlySet<number> = new Set([14, 15, 51])

interface Session {
  readonly producerId: number
  readonly producerEpoch: number
  sequence: number
}

/** Transactions that write their number into two partitions, and what was promised of each: committed, aborted or nothing yet. */
export class TransactionPromises {
  #session: Session | null = null
  #number = 0
  readonly #committed = new Set<number>()
  readonly #aborted = new Set<number>()

  /** Every fourth is aborted. What fails leaves the transaction to the next session. */
  async work(kafka: RawKafka): Promise<void> {
    const session = this.#session ?? (await ask(kafka))
    this.#session = null
    if (session === null) return
    const number = ++this.#number
    const owner = { transactionalId: ID, producerId: session.producerId, producerEpoch: session.producerEpoch }
    const added = await kafka.request('AddPartitionsToTxn', 3, {
      v3AndBelowTransactionalId: ID,
      v3AndBelowProducerId: owner.producerId,
      v3AndBelowProducerEpoch: owner.producerEpoch,
      v3AndBelowTopics: [{ name: TOPIC, partitions: PARTITIONS }],
    })
    const codes = added.resultsByTopicV3AndBelow.flatMap(({ resultsByPartition }) =>
      resultsByPartition.map((each) => each.partitionErrorCode),
    )
    if (codes.some((code) => code !== 0)) return
    if (!(await this.#produce(kafka, session, `${number}`))) return
    const isCommit = number % 4 !== 0
    const { errorCode } = await kafka.request('EndTxn', 3, { ...owner, committed: isCommit })
    if (errorCode !== 0) return
    ;(isCommit ? this.#committed : this.#aborted).add(number)
    this.#session = session
  }

  async #produce(kafka: RawKafka, session: Session, value: string): Promise<boolean> {
    const { producerId, producerEpoch, sequence: baseSequence } = session
    const record = { key: null, value: Buffer.from(value), timestampMs: Date.now() }
    const partitionData = PARTITIONS.map((index) => ({
      index,
      records: buildBatch([record], { producerId, producerEpoch, baseSequence, transactional: true }),
    }))
    const topicData = [{ name: TOPIC, partitionData }]
    const answer = await kafka.request('Produce', 9, { transactionalId: ID, acks: -1, timeoutMs: 30_000, topicData })
    session.sequence++
    return answer.responses.every(({ partitionResponses }) => partitionResponses.every(({ errorCode }) => errorCode === 0))
  }

  /** All of a transaction is read, or nothing; what was promised of it holds. */
  async check(kafka: RawKafka): Promise<void> {
    this.#session = null
    while (this.#session === null) this.#session = await ask(kafka)
    const read = await Promise.all(PARTITIONS.map((partition) => readCommitted(kafka, partition)))
    const [numbers = []] = read
    for (const [partition, each] of read.entries()) {
      assert.deepEqual(each, numbers, `a transaction is read in partition 0 of ${TOPIC} and not in ${partition}, or the other way round`)
    }
    assert.equal(new Set(numbers).size, numbers.length, `a transaction stands twice in ${TOPIC}`)
    const seen = new Set(numbers)
    for (const number of this.#committed) assert.ok(seen.has(number), `transaction ${number} was committed and is not read`)
    for (const number of this.#aborted) assert.ok(!seen.has(number), `transaction ${number} was aborted and is read`)
  }
}

/** Whoever had the id before is fenced, and its open transaction aborted. Null when the coordinator is not ready for that. */
async function ask(kafka: RawKafka): Promise<Session | null> {
  const request = { transactionalId: ID, transactionTimeoutMs: TIMEOUT_MS, producerId: -1, producerEpoch: -1 }
  const { errorCode, producerId, producerEpoch } = await kafka.request('InitProducerId', 4, request)
  if (PASSING.has(errorCode)) return null
  assert.equal(errorCode, 0, 'the answer to InitProducerId')
  return { producerId, producerEpoch, sequence: 0 }
}

/** Waits until no transaction is open in the partition. */
async function readCommitted(kafka: RawKafka, partition: number): Promise<number[]> {
  const numbers: number[] = []
  for (let next = 0; ; ) {
    const { data, errorCode, highWatermark } = await kafka.fetchBytes(TOPIC, partition, next, 1)
    assert.equal(errorCode, 0, `the answer to a fetch of ${TOPIC}-${partition}`)
    const { records, nextOffset } = committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], next)
    for (const { value } of records) numbers.push(Number(value))
    next = nextOffset
    if (next >= highWatermark) return numbers
  }
}

export const TRANSACTIONS_TOPIC = { name: TOPIC, partitions: PARTITIONS.length }
