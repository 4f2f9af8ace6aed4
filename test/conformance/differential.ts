import { SeededRandom } from '../../src/core/random.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { RawKafka } from '../support/raw-kafka.ts'

/**
 * Random sequences of what clients do, the same for every broker that runs the same seed: what each step is answered is noted in words that do
 * not depend on ids, times or ports, and two brokers must give the same notes.
 */
export async function observe(address: string, seed: number, steps: number): Promise<string[]> {
  using client = await RawKafka.connect(address)
  const actor = new Actor(client, new SeededRandom(seed), `d${seed}`)
  await actor.ready()
  const notes: string[] = []
  for (let step = 0; step < steps; step++) notes.push(`${step}: ${await actor.step()}`)
  return notes
}

/** Codes of a broker that is not ready for what it was told a moment ago: topics, coordinators and markers follow. */
const NOT_YET: ReadonlySet<number> = new Set([3, 5, 6, 14, 15, 16, 51])
const ATTEMPTS = 200
const PAUSE_MS = 25

interface Producer {
  readonly id: string
  readonly producerId: number
  readonly producerEpoch: number
  /** Of the next batch, by partition. */
  readonly sequences: Map<string, number>
}

class Actor {
  readonly #client: RawKafka
  readonly #random: SeededRandom
  readonly #prefix: string
  /** Partitions of each topic that is there. */
  readonly #topics = new Map<string, number>()
  #serial = 0

  constructor(client: RawKafka, random: SeededRandom, prefix: string) {
    this.#client = client
    this.#random = random
    this.#prefix = prefix
  }

  /** Kafka makes the topic of its transactions when somebody asks for a coordinator. */
  async ready(): Promise<void> {
    for (const keyType of [0, 1]) {
      const ask = { keyType, coordinatorKeys: [0, 1].map((index) => `${this.#prefix}-txn-${index}`) }
      const found = () => this.#client.request('FindCoordinator', 4, ask)
      await this.#lasting(found, ({ coordinators }) => coordinators.some(({ errorCode }) => errorCode !== 0))
    }
  }

  step(): Promise<string> {
    const { topic, partition } = this.#place()
    const acts: readonly (() => Promise<string>)[] = [
      () => this.#createTopic(topic),
      () => this.#createPartitions(topic),
      () => this.#produce(topic, partition),
      () => this.#produce(topic, partition),
      () => this.#produce(topic, partition),
      () => this.#idempotent(topic, partition),
      () => this.#transaction(topic, partition),
      () => this.#transaction(topic, partition),
      () => this.#fetch(topic, partition),
      () => this.#fetch(topic, partition),
      () => this.#fetch(topic, partition),
      () => this.#offsets(topic, partition),
      () => this.#commit(topic, partition),
      () => this.#committed(topic, partition),
      () => this.#deleteRecords(topic, partition),
      () => this.#setting(topic),
      () => (this.#random.below(3) === 0 ? this.#deleteTopic(topic) : this.#offsets(topic, partition)),
    ]
    return (acts[this.#random.below(acts.length)] as () => Promise<string>)()
  }

  #place(): { topic: string; partition: number } {
    const topic = `${this.#prefix}-${this.#random.below(3)}`
    // Now and then a partition that is not there.
    return { topic, partition: this.#random.below((this.#topics.get(topic) ?? 1) + (this.#random.below(8) === 0 ? 1 : 0)) }
  }

  #isThere(topic: string, partition: number): boolean {
    return partition < (this.#topics.get(topic) ?? 0)
  }

  /** Asks until the answer is one that lasts. */
  async #lasting<T>(ask: () => Promise<T>, isEarly: (answer: T) => boolean): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const answer = await ask()
      if (!isEarly(answer) || attempt === ATTEMPTS) return answer
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }

  #code(topic: string, partition: number, ask: () => Promise<number>): Promise<number> {
    return this.#lasting(ask, (code) => NOT_YET.has(code) && (code !== 3 || this.#isThere(topic, partition)))
  }

  async #createTopic(name: string): Promise<string> {
    const numPartitions = 1 + this.#random.below(3)
    const topics = [{ name, numPartitions, replicationFactor: 1, assignments: [], configs: [] }]
    const code = (await this.#client.request('CreateTopics', 5, { topics, timeoutMs: 20_000 })).topics[0]?.errorCode
    if (code === 0) this.#topics.set(name, numPartitions)
    return `create ${name} with ${numPartitions}: ${code}`
  }

  async #createPartitions(name: string): Promise<string> {
    const count = 1 + this.#random.below(5)
    const topics = [{ name, count, assignments: null }]
    const code = (await this.#client.request('CreatePartitions', 3, { topics, timeoutMs: 20_000 })).results[0]?.errorCode
    if (code === 0) this.#topics.set(name, count)
    return `grow ${name} to ${count}: ${code}`
  }

  async #deleteTopic(name: string): Promise<string> {
    const code = (await this.#client.request('DeleteTopics', 5, { topicNames: [name], timeoutMs: 20_000 })).responses[0]?.errorCode
    this.#topics.delete(name)
    const there = async () =>
      (await this.#client.request('Metadata', 9, { topics: [{ name }], allowAutoTopicCreation: false })).topics[0]?.errorCode
    await this.#lasting(there, (seen) => seen !== 3)
    return `delete ${name}: ${code}`
  }

  #records(): { value: string }[] {
    return Array.from({ length: 1 + this.#random.below(4) }, () => ({ value: `v${this.#serial++}` }))
  }

  async #produce(topic: string, partition: number): Promise<string> {
    const records = this.#records()
    let baseOffset = -1
    const code = await this.#code(topic, partition, async () => {
      const answer = await this.#client.produce(topic, partition, records)
      baseOffset = answer.baseOffset
      return answer.errorCode
    })
    return `produce ${records.length} to ${topic}-${partition}: ${code} at ${baseOffset}`
  }

  async #newProducer(id: string | null): Promise<Producer | number> {
    const body = { transactionalId: id, transactionTimeoutMs: 60_000, producerId: -1, producerEpoch: -1 }
    const answer = await this.#lasting(
      () => this.#client.request('InitProducerId', 3, body),
      ({ errorCode }) => NOT_YET.has(errorCode),
    )
    if (answer.errorCode !== 0) return answer.errorCode
    const { producerId, producerEpoch } = answer
    return { id: id ?? '', producerId, producerEpoch, sequences: new Map() }
  }

  async #append(producer: Producer, topic: string, partition: number, sequence: number): Promise<string> {
    const records = this.#records().map(({ value }) => ({ key: null, value: Buffer.from(value), timestampMs: Date.now() }))
    const { producerId, producerEpoch, id } = producer
    const isTransactional = id !== ''
    const batch = buildBatch(records, { producerId, producerEpoch, baseSequence: sequence, transactional: isTransactional })
    let baseOffset = -1
    const code = await this.#code(topic, partition, async () => {
      const topicData = [{ name: topic, partitionData: [{ index: partition, records: Buffer.from(batch) }] }]
      const transactionalId = isTransactional ? id : null
      const answer = await this.#client.request('Produce', 9, { transactionalId, acks: -1, timeoutMs: 20_000, topicData })
      const outcome = answer.responses[0]?.partitionResponses[0]
      baseOffset = outcome?.baseOffset ?? -1
      return outcome?.errorCode ?? -1
    })
    if (code === 0) producer.sequences.set(`${topic}-${partition}`, sequence + records.length)
    return `${records.length} from ${sequence}: ${code} at ${baseOffset}`
  }

  /** Batches in order, a resend of the last one, a gap. */
  async #idempotent(topic: string, partition: number): Promise<string> {
    const producer = await this.#newProducer(null)
    if (typeof producer === 'number') throw new Error(`no producer: ${producer}`)
    const seen: string[] = []
    for (let count = 1 + this.#random.below(3); count > 0; count--) {
      const next = producer.sequences.get(`${topic}-${partition}`) ?? 0
      seen.push(await this.#append(producer, topic, partition, next + (this.#random.below(4) === 0 ? 7 : 0)))
    }
    return `idempotent to ${topic}-${partition}: ${seen.join('; ')}`
  }

  async #transaction(topic: string, partition: number): Promise<string> {
    const id = `${this.#prefix}-txn-${this.#random.below(2)}`
    const producer = await this.#newProducer(id)
    if (typeof producer === 'number') throw new Error(`no producer for ${id}: ${producer}`)
    const { producerId, producerEpoch } = producer
    const identity = { v3AndBelowTransactionalId: id, v3AndBelowProducerId: producerId, v3AndBelowProducerEpoch: producerEpoch }
    const added = await this.#code(topic, partition, async () => {
      const v3AndBelowTopics = [{ name: topic, partitions: [partition] }]
      const answer = await this.#client.request('AddPartitionsToTxn', 3, { ...identity, v3AndBelowTopics })
      return answer.resultsByTopicV3AndBelow[0]?.resultsByPartition[0]?.partitionErrorCode ?? -1
    })
    const wrote = added === 0 ? await this.#append(producer, topic, partition, 0) : 'nothing'
    const committed = this.#random.below(2) === 0
    const end = { transactionalId: id, producerId, producerEpoch, committed }
    const ended = (
      await this.#lasting(
        () => this.#client.request('EndTxn', 3, end),
        ({ errorCode }) => NOT_YET.has(errorCode),
      )
    ).errorCode
    // The markers follow the answer.
    if (added === 0)
      await this.#lasting(
        () => this.#bounds(topic, partition),
        ([all, stable]) => all !== stable,
      )
    return `transaction ${id} on ${topic}-${partition}: ${added}, ${wrote}, ${committed ? 'commit' : 'abort'} ${ended}`
  }

  async #bounds(topic: string, partition: number): Promise<readonly [string, string, string]> {
    const at = async (isolationLevel: number, timestamp: number) => {
      const topics = [{ name: topic, partitions: [{ partitionIndex: partition, currentLeaderEpoch: -1, timestamp }] }]
      const answer = await this.#client.request('ListOffsets', 5, { replicaId: -1, isolationLevel, topics })
      const found = answer.topics[0]?.partitions[0]
      return `${found?.errorCode} ${found?.offset}`
    }
    return [await at(0, -1), await at(1, -1), await at(0, -2)]
  }

  async #offsets(topic: string, partition: number): Promise<string> {
    await this.#code(topic, partition, async () => Number((await this.#bounds(topic, partition))[0].split(' ')[0]))
    return `ends of ${topic}-${partition}: ${(await this.#bounds(topic, partition)).join(', ')}`
  }

  async #fetch(topic: string, partition: number): Promise<string> {
    const isolationLevel = this.#random.below(2)
    const fetchOffset = this.#random.below(12)
    const position = {
      partition,
      currentLeaderEpoch: -1,
      fetchOffset,
      lastFetchedEpoch: -1,
      logStartOffset: -1,
      partitionMaxBytes: 1_000_000,
    }
    const body = {
      replicaId: -1,
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 1_000_000,
      isolationLevel,
      sessionId: 0,
      sessionEpoch: -1,
      rackId: '',
    }
    let seen = ''
    await this.#code(topic, partition, async () => {
      const answer = await this.#client.request('Fetch', 11, {
        ...body,
        topics: [{ topic, partitions: [position] }],
        forgottenTopicsData: [],
      })
      const found = answer.responses[0]?.partitions[0]
      const aborted = (found?.abortedTransactions ?? []).map(({ firstOffset }) => firstOffset)
      seen = `${found?.errorCode}, to ${found?.highWatermark}, stable ${found?.lastStableOffset}, from ${found?.logStartOffset}, ${batches(found?.records ?? Buffer.alloc(0))}, aborted ${aborted.join(' ')}`
      return found?.errorCode ?? -1
    })
    return `fetch ${topic}-${partition} from ${fetchOffset}, isolation ${isolationLevel}: ${seen}`
  }

  async #commit(name: string, partitionIndex: number): Promise<string> {
    const committedOffset = this.#random.below(20)
    const partitions = [{ partitionIndex, committedOffset, committedLeaderEpoch: -1, committedMetadata: `m${committedOffset}` }]
    const body = {
      groupId: `${this.#prefix}-group`,
      generationIdOrMemberEpoch: -1,
      memberId: '',
      groupInstanceId: null,
      topics: [{ name, partitions }],
    }
    const code = await this.#code(name, partitionIndex, async () => {
      const { topics } = await this.#client.request('OffsetCommit', 7, body)
      return topics[0]?.partitions[0]?.errorCode ?? -1
    })
    return `commit ${committedOffset} of ${name}-${partitionIndex}: ${code}`
  }

  async #committed(name: string, partition: number): Promise<string> {
    const body = { groupId: `${this.#prefix}-group`, topics: [{ name, partitionIndexes: [partition] }], requireStable: false }
    const answer = await this.#lasting(
      () => this.#client.request('OffsetFetch', 7, body),
      ({ errorCode }) => NOT_YET.has(errorCode),
    )
    const found = answer.topics[0]?.partitions[0]
    return `committed of ${name}-${partition}: ${answer.errorCode}, ${found?.errorCode}, ${found?.committedOffset} ${found?.metadata}`
  }

  async #deleteRecords(name: string, partitionIndex: number): Promise<string> {
    const offset = this.#random.below(6)
    let mark = -1
    const code = await this.#code(name, partitionIndex, async () => {
      const topics = [{ name, partitions: [{ partitionIndex, offset }] }]
      const found = (await this.#client.request('DeleteRecords', 1, { topics, timeoutMs: 20_000 })).topics[0]?.partitions[0]
      mark = found?.lowWatermark ?? -1
      return found?.errorCode ?? -1
    })
    return `delete records of ${name}-${partitionIndex} before ${offset}: ${code}, ${mark}`
  }

  async #setting(topic: string): Promise<string> {
    const value = ['100000', '-1', 'soon', '-2'][this.#random.below(4)] as string
    const resource = { resourceType: 2, resourceName: topic }
    const configs = [{ name: 'retention.bytes', configOperation: this.#random.below(2), value }]
    const set = await this.#client.request('IncrementalAlterConfigs', 1, { resources: [{ ...resource, configs }], validateOnly: false })
    const ask = { resources: [{ ...resource, configurationKeys: ['retention.bytes'] }] }
    const expected = () => this.#client.request('DescribeConfigs', 4, ask)
    // Settings reach the broker that tells them a moment after they are stored.
    await new Promise((resolve) => setTimeout(resolve, 4 * PAUSE_MS))
    const told = (await expected()).results[0]
    return `retention.bytes of ${topic} ${configs[0]?.configOperation} ${value}: ${set.responses[0]?.errorCode}, ${told?.errorCode} ${told?.configs[0]?.value} ${told?.configs[0]?.configSource}`
  }
}

/** First and last offset of each batch, and whether it is a marker. */
function batches(bytes: Buffer): string {
  const seen: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const header = readBatchHeader(bytes, at, bytes.length)
    seen.push(`${header.baseOffset}-${header.baseOffset + header.lastOffsetDelta}${(header.attributes & 0x20) === 0 ? '' : ' marker'}`)
    at += header.sizeBytes
  }
  return `[${seen.join(', ')}]`
}
