import assert from 'node:assert/strict'
import type { RawKafka } from './raw-kafka.ts'
import { TRANSACTIONS_TOPIC, TransactionPromises } from './txn-promises.ts'

const PLAIN = 'plain'
const NUMBERED = 'numbered'
const KEYS = 'keys'
const AGAIN = 'again'
const SHORT = 'short'
const CUT = 'cut'
const GROUP = 'group'
const KEY_COUNT = 5

/** Kafka's codes that these requests may meet. */
const CODE = { none: 0, unknownTopic: 3, loading: 14, coordinatorAway: 15, topicExists: 36, storage: 56 } as const

const SMALL_SEGMENTS = { 'segment.bytes': '1500', 'index.interval.bytes': '200', 'file.delete.delay.ms': '0' }

/**
 * Work on topics of every kind, and what the broker promised by its answers: records of a plain topic, batches of a numbered producer
 * that sends again what it got no answer for, a compacted topic, a topic that is deleted and made again, commits of a group, transactions.
 * `work` stops at the first request that fails, and goes on after it at its next call; `check` compares a broker with the promises.
 */
export class Promises {
  readonly #plain: Map<number, string>[] = [new Map(), new Map()]
  #producerId = -1
  /** Batches that the numbered producer had an answer for; the next one has this sequence, however often it is sent. */
  #numbered = 0
  readonly #keys = Array.from({ length: KEY_COUNT }, () => ({ sent: 0, acked: 0 }))
  /** Written once, so that a compaction that loses a segment loses one of them. */
  readonly #onceKeys = new Set<string>()
  #again = { state: 'gone' as 'gone' | 'creating' | 'there' | 'deleting', life: 0, acked: new Map<number, string>() }
  /** Retention takes all of it again: what stays is where it ends. */
  #shortEnd = 0
  /** Records, and the start that DeleteRecords was asked for and that it answered. */
  readonly #cut = { acked: new Map<number, string>(), askedStart: 0, ackedStart: 0 }
  readonly #commits = { sent: 0, acked: 0 }
  readonly #transactions = new TransactionPromises()
  #turn = 0

  /** Creates what is there from the beginning. Repeats what was not answered. */
  async begin(kafka: RawKafka): Promise<void> {
    await createTopic(kafka, PLAIN, 2, { ...SMALL_SEGMENTS, 'cleanup.policy': 'delete' })
    await createTopic(kafka, NUMBERED, 1, SMALL_SEGMENTS)
    await createTopic(kafka, SHORT, 1, { ...SMALL_SEGMENTS, 'retention.bytes': '0' })
    await createTopic(kafka, CUT, 1, { ...SMALL_SEGMENTS, 'retention.bytes': '-1' })
    await createTopic(kafka, TRANSACTIONS_TOPIC.name, TRANSACTIONS_TOPIC.partitions, SMALL_SEGMENTS)
    await createTopic(kafka, KEYS, 1, { ...SMALL_SEGMENTS, 'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': '0.01' })
  }

  /** `turns` rounds of work. Rejects with what a request met when the broker ended. */
  async work(kafka: RawKafka, turns: number): Promise<void> {
    for (let turn = 0; turn < turns; turn++) {
      this.#turn++
      await this.#producePlain(kafka)
      await this.#produceNumbered(kafka)
      await this.#produceKeys(kafka)
      await this.#commit(kafka)
      await this.#transactions.work(kafka)
      await this.#produceShort(kafka)
      await this.#produceCut(kafka)
      if (this.#turn % 3 === 0) await this.#makeAgain(kafka)
    }
  }

  async #producePlain(kafka: RawKafka): Promise<void> {
    for (const [partition, acked] of this.#plain.entries()) {
      const value = `${this.#turn} of ${partition} ${'.'.repeat(300)}`
      const { errorCode, baseOffset } = await kafka.produce(PLAIN, partition, [{ value }, { value: `${value}!` }])
      if (errorCode !== CODE.none) continue
      acked.set(baseOffset, value)
      acked.set(baseOffset + 1, `${value}!`)
    }
  }

  async #produceNumbered(kafka: RawKafka): Promise<void> {
    if (this.#producerId < 0) {
      const given = await kafka.request('InitProducerId', 4, {
        transactionalId: null,
        transactionTimeoutMs: 60_000,
        producerId: -1,
        producerEpoch: -1,
      })
      if (given.errorCode !== CODE.none) return
      this.#producerId = given.producerId
    }
    const sequence = { producerId: this.#producerId, producerEpoch: 0, baseSequence: this.#numbered }
    const { errorCode } = await kafka.produce(NUMBERED, 0, [{ value: `${this.#numbered}` }], sequence)
    if (errorCode === CODE.none) this.#numbered++
  }

  async #produceKeys(kafka: RawKafka): Promise<void> {
    const key = this.#turn % KEY_COUNT
    const state = this.#keys[key] as { sent: number; acked: number }
    const value = ++state.sent
    const once = `once ${this.#turn}`
    const records = [
      { key: `k${key}`, value: `${value} ${'.'.repeat(200)}` },
      { key: once, value: '1' },
    ]
    const { errorCode } = await kafka.produce(KEYS, 0, records)
    if (errorCode !== CODE.none) return
    state.acked = value
    this.#onceKeys.add(once)
  }

  async #commit(kafka: RawKafka): Promise<void> {
    const committedOffset = ++this.#commits.sent
    const topics = [{ name: PLAIN, partitions: [{ partitionIndex: 0, committedOffset, committedLeaderEpoch: -1, committedMetadata: '' }] }]
    const answer = await kafka.request('OffsetCommit', 8, {
      groupId: GROUP,
      generationIdOrMemberEpoch: -1,
      memberId: '',
      groupInstanceId: null,
      topics,
    })
    if (answer.topics[0]?.partitions[0]?.errorCode === CODE.none) this.#commits.acked = committedOffset
  }

  async #produceShort(kafka: RawKafka): Promise<void> {
    const { errorCode, baseOffset } = await kafka.produce(SHORT, 0, [{ value: `${this.#turn} ${'.'.repeat(200)}` }])
    if (errorCode === CODE.none) this.#shortEnd = baseOffset + 1
  }

  async #produceCut(kafka: RawKafka): Promise<void> {
    const cut = this.#cut
    const value = `${this.#turn} ${'.'.repeat(400)}`
    const { errorCode, baseOffset } = await kafka.produce(CUT, 0, [{ value }])
    if (errorCode !== CODE.none) return
    cut.acked.set(baseOffset, value)
    cut.askedStart = Math.max(0, baseOffset - 3)
    const partitions = [{ partitionIndex: 0, offset: cut.askedStart }]
    const answer = await kafka.request('DeleteRecords', 2, { topics: [{ name: CUT, partitions }], timeoutMs: 30_000 })
    const { errorCode: code = -1, lowWatermark = -1 } = answer.topics[0]?.partitions[0] ?? {}
    if (code === CODE.none) cut.ackedStart = lowWatermark
  }

  async #makeAgain(kafka: RawKafka): Promise<void> {
    const again = this.#again
    if (again.state !== 'gone') {
      again.state = 'deleting'
      const answer = await kafka.request('DeleteTopics', 5, { topicNames: [AGAIN], timeoutMs: 30_000 })
      const code = answer.responses[0]?.errorCode ?? -1
      if (code !== CODE.none && code !== CODE.unknownTopic) return
      again.state = 'gone'
    }
    again.state = 'creating'
    again.life++
    again.acked.clear()
    if ((await createTopic(kafka, AGAIN, 2, SMALL_SEGMENTS)) === CODE.storage) return
    again.state = 'there'
    const { errorCode, baseOffset } = await kafka.produce(AGAIN, 0, [{ value: `life ${again.life}` }])
    if (errorCode === CODE.none) again.acked.set(baseOffset, `life ${again.life}`)
  }

  /** Batches that were acknowledged so far, of all topics: it grows again once a fault is over. */
  get acknowledged(): number {
    return this.#plain.reduce((sum, acked) => sum + acked.size, 0) + this.#numbered + this.#commits.acked
  }

  get acknowledgedCommits(): number {
    return this.#commits.acked
  }

  /** Somebody else deleted the topic that is made again. */
  deletedAgain(): void {
    this.#again.state = 'gone'
  }

  /** Throws naming what was promised and is not there. With `hasOffline` partitions may be offline, and are read all the same; on a disk that `isFull` records may be refused. */
  async check(
    kafka: RawKafka,
    { hasOffline = false, isFull = hasOffline }: { hasOffline?: boolean; isFull?: boolean } = {},
  ): Promise<void> {
    const known = await topicsOf(kafka, hasOffline)
    for (const [partition, acked] of this.#plain.entries()) {
      const read = new Map((await kafka.readAll(PLAIN, partition)).map(({ offset, value }) => [offset, value]))
      for (const [offset, value] of acked) assert.equal(read.get(offset), value, `${PLAIN}-${partition} at ${offset}`)
      assert.equal(new Set(read.values()).size, read.size, `a record of ${PLAIN}-${partition} stands twice`)
    }
    const numbers = (await kafka.readAll(NUMBERED, 0)).map(({ value }) => Number(value))
    assert.ok(
      numbers.length === this.#numbered || numbers.length === this.#numbered + 1,
      `${numbers.length} of ${this.#numbered} numbered batches`,
    )
    assert.deepEqual(numbers, [...numbers.keys()], 'numbered batches stand in their order, once')
    await this.#checkKeys(kafka)
    if (!hasOffline && !isFull) await this.#transactions.check(kafka)
    // Its folder may wait for space.
    if (!hasOffline) await this.#checkAgain(kafka, known.has(AGAIN))
    await this.#checkShort(kafka, isFull)
    await this.#checkCut(kafka)
    const committed = await committedOffset(kafka)
    if (committed === null && hasOffline) return
    assert.ok(committed !== null, 'the coordinator answers')
    const { acked, sent } = this.#commits
    assert.ok(committed >= acked && committed <= sent, `committed ${committed}, promised ${acked}, sent ${sent}`)
  }

  async #checkShort(kafka: RawKafka, isFull: boolean): Promise<void> {
    const { errorCode, baseOffset } = await kafka.produce(SHORT, 0, [{ value: 'after' }])
    if (isFull && errorCode === CODE.storage) return
    assert.equal(errorCode, CODE.none)
    assert.ok(baseOffset >= this.#shortEnd, `${SHORT} goes on at ${baseOffset}, it ended at ${this.#shortEnd}`)
    this.#shortEnd = baseOffset + 1
  }

  async #checkCut(kafka: RawKafka): Promise<void> {
    const { acked, askedStart, ackedStart } = this.#cut
    const read = new Map((await kafka.readAll(CUT, 0)).map(({ offset, value }) => [offset, value]))
    for (const offset of read.keys()) assert.ok(offset >= ackedStart, `${CUT} shows offset ${offset}, deleted up to ${ackedStart}`)
    for (const [offset, value] of acked) {
      if (offset >= askedStart) assert.equal(read.get(offset), value, `${CUT} at ${offset}`)
    }
  }

  async #checkKeys(kafka: RawKafka): Promise<void> {
    const latest = new Map<string, number>()
    for (const { key, value } of await kafka.readAll(KEYS, 0)) {
      const number = Number(value?.split(' ')[0])
      assert.ok(number > (latest.get(key ?? '') ?? 0), `${key} goes from ${latest.get(key ?? '')} to ${number}`)
      latest.set(key ?? '', number)
    }
    for (const once of this.#onceKeys) assert.ok(latest.has(once), `${KEYS} has no record of the key "${once}"`)
    for (const [index, { sent, acked }] of this.#keys.entries()) {
      const number = latest.get(`k${index}`) ?? 0
      assert.ok(number >= acked && number <= sent, `k${index} is ${number}, promised ${acked}, sent ${sent}`)
    }
  }

  async #checkAgain(kafka: RawKafka, isThere: boolean): Promise<void> {
    const { state, life, acked } = this.#again
    if (state === 'there' || state === 'gone') assert.equal(isThere, state === 'there', `${AGAIN} is ${state}`)
    if (!isThere) return
    const read = new Map((await kafka.readAll(AGAIN, 0)).map(({ offset, value }) => [offset, value]))
    for (const value of read.values()) assert.equal(value, `life ${life}`, `${AGAIN} shows a record of a topic that was deleted`)
    for (const [offset, value] of acked) assert.equal(read.get(offset), value, `${AGAIN} at ${offset}`)
  }
}

export async function createTopic(
  kafka: RawKafka,
  name: string,
  numPartitions: number,
  config: Readonly<Record<string, string>>,
): Promise<number> {
  const configs = Object.entries(config).map(([name, value]) => ({ name, value }))
  const answer = await kafka.request('CreateTopics', 7, {
    topics: [{ name, numPartitions, replicationFactor: 1, assignments: [], configs }],
    timeoutMs: 30_000,
    validateOnly: false,
  })
  const { errorCode = -1, errorMessage } = answer.topics[0] ?? {}
  const isExpected = errorCode === CODE.none || errorCode === CODE.topicExists || errorCode === CODE.storage
  if (!isExpected) throw new Error(`${name} was not created: ${errorCode} ${errorMessage}`)
  return errorCode
}

/** 0 when there is none, null while its log is offline. Asks again while the offsets are read after a start. */
async function committedOffset(kafka: RawKafka): Promise<number | null> {
  for (;;) {
    const found = await kafka.request('OffsetFetch', 7, {
      groupId: GROUP,
      topics: [{ name: PLAIN, partitionIndexes: [0] }],
      requireStable: false,
    })
    if (found.errorCode === CODE.loading) continue
    if (found.errorCode === CODE.coordinatorAway) return null
    assert.equal(found.errorCode, CODE.none, 'the answer to an offset fetch')
    return Math.max(0, found.topics[0]?.partitions[0]?.committedOffset ?? -1)
  }
}

/** Names of all topics; throws when a partition is offline. */
async function topicsOf(kafka: RawKafka, hasOffline: boolean): Promise<Set<string>> {
  const { topics } = await kafka.request('Metadata', 12, { topics: null, allowAutoTopicCreation: false })
  for (const { name, partitions } of topics) {
    for (const { partitionIndex, errorCode } of hasOffline ? [] : partitions)
      assert.equal(errorCode, CODE.none, `${name}-${partitionIndex} in the metadata`)
  }
  return new Set(topics.map(({ name }) => name ?? ''))
}
