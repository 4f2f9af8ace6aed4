import type { Clock } from '../../core/clock.ts'
import type { Counter, Metrics } from '../../core/counters.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { TopicPartition } from '../../core/types.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { NewRecord } from '../../record/builder.ts'
import type { RequestContext } from '../context.ts'
import type { DeliveryAttempts } from '../dlq/attempts.ts'
import { offsetKey, offsetValue } from '../offsets/offset-records.ts'
import type { StoredOffset } from '../offsets/offset-store.ts'
import type { CommitOffsets, CommittedOffset, GroupPort } from '../ports.ts'
import type { ProducerIdentity } from '../txn-ports.ts'
import type { GroupEntry } from './group-entry.ts'
import type { GroupOptions } from './group-options.ts'
import type { GroupShard } from './group-shard.ts'
import type { GroupTable } from './group-table.ts'

/** Offsets that are stored, or looked up, before others get their turn. */
const OFFSETS_PER_TURN = 1000

type Outcomes = readonly (MoonMQError | null)[]

/** Offsets of groups of any kind: the machine says who may commit, what is stored is the same for all. */
export class GroupOffsets {
  readonly #clock: Clock
  readonly #table: GroupTable
  readonly #image: () => MetadataImage
  readonly #attempts: DeliveryAttempts
  readonly #options: GroupOptions
  readonly #metrics: Metrics
  readonly #committed: { readonly member: Counter; readonly transaction: Counter }

  constructor(
    deps: { clock: Clock; table: GroupTable; image: () => MetadataImage; attempts: DeliveryAttempts; metrics: Metrics },
    options: GroupOptions,
  ) {
    this.#metrics = deps.metrics
    this.#committed = {
      member: deps.metrics.counter('moonmq_offsets_committed_total', { via: 'member' }),
      transaction: deps.metrics.counter('moonmq_offsets_committed_total', { via: 'transaction' }),
    }
    this.#clock = deps.clock
    this.#table = deps.table
    this.#image = deps.image
    this.#attempts = deps.attempts
    this.#options = options
  }

  commit(context: RequestContext, request: CommitOffsets): Promise<readonly (MoonMQError | null)[]> {
    return this.#inParts(request, (part) => this.#commitPart(context, part))
  }

  /**
   * Offsets beyond what one turn takes are stored by themselves, with others' requests in between: whoever may not commit any more by then is
   * refused for those. What was stored before stands, as after a crash in between.
   */
  async #inParts(request: CommitOffsets, store: (part: CommitOffsets) => Promise<Outcomes>): Promise<Outcomes> {
    const { offsets } = request
    if (offsets.length <= OFFSETS_PER_TURN) return store(request)
    const outcomes: (MoonMQError | null)[] = []
    for (let from = 0; from < offsets.length; from += OFFSETS_PER_TURN) {
      for (const outcome of await store({ ...request, offsets: offsets.slice(from, from + OFFSETS_PER_TURN) })) outcomes.push(outcome)
      await new Promise<void>((resolve) => this.#clock.defer(resolve))
    }
    return outcomes
  }

  async #commitPart({ protocol }: RequestContext, request: CommitOffsets): Promise<Outcomes> {
    // What is not there is said before anybody asks who commits, as in Kafka.
    const missing = request.offsets.map((each) => this.#missing(each))
    if (missing.length > 0 && missing.every((each) => each !== null)) return missing
    try {
      const shard = await this.#table.writable(request.group, true)
      const entry = this.#committer(shard, request, protocol === 'native')
      const outcomes = this.#store(shard, entry, request, null)
      if (request.durable) await shard.whenDurable(entry)
      return outcomes
    } catch (error) {
      const refused = this.#refused(request, error)
      return missing.map((each, at) => each ?? refused[at] ?? null)
    }
  }

  #missing({ topic, partition }: TopicPartition): MoonMQError | null {
    const image = this.#image().topics.get(topic)
    if (image === undefined) return new MoonMQError('TOPIC_MISSING', { topic })
    return image.partitions[partition] === undefined ? new MoonMQError('PARTITION_MISSING', { topic, partition }) : null
  }

  /**
   * Stores offsets that wait for the end of a transaction (KIP-447). `admit` is asked in the turn of the append: undefined lets it pass, a
   * promise is waited for and asked again. Always durable when it resolves.
   */
  commitPending(
    context: RequestContext,
    producer: ProducerIdentity,
    request: CommitOffsets,
    admit: () => Promise<void> | undefined,
  ): Promise<readonly (MoonMQError | null)[]> {
    return this.#inParts(request, (part) => this.#pendingPart(context, producer, part, admit))
  }

  async #pendingPart(
    { protocol }: RequestContext,
    producer: ProducerIdentity,
    request: CommitOffsets,
    admit: () => Promise<void> | undefined,
  ): Promise<Outcomes> {
    try {
      for (;;) {
        const shard = await this.#table.writable(request.group)
        const admitted = admit()
        if (admitted !== undefined) {
          await admitted
          continue
        }
        const entry = this.#committer(shard, request, protocol === 'native', true)
        const outcomes = this.#store(shard, entry, request, producer)
        await shard.whenDurable(entry)
        return outcomes
      }
    } catch (error) {
      return this.#refused(request, error)
    }
  }

  #refused({ offsets }: CommitOffsets, error: unknown): MoonMQError[] {
    const refusal = asMoonMQError(error)
    if (refusal.code === 'INTERNAL') throw refusal
    this.#metrics.counter('moonmq_offset_commits_refused_total', { error: refusal.code }).add()
    return offsets.map(() => refusal)
  }

  /** The group that may store what the request says. Throws what refuses it. */
  #committer(shard: GroupShard, request: CommitOffsets, isNative: boolean, transactional = false): GroupEntry {
    const { group, generation, memberId, instanceId, offsets, understandsEpochs = true } = request
    const entry = shard.groups.get(group)
    if (entry === undefined) {
      if (generation >= 0)
        throw understandsEpochs && !transactional
          ? new MoonMQError('GROUP_MISSING', { group })
          : new MoonMQError('ILLEGAL_GENERATION', { group, generation })
      return this.#table.create(shard, group)
    }
    // A producer that says nothing of membership is fenced by its own epoch alone.
    if (transactional && generation === -1 && memberId === '' && instanceId === null) return entry
    const claim = { memberId, instanceId, epoch: generation, offsets, understandsEpochs, isNative }
    const refusal = entry.machine.refuseCommit(claim, this.#clock.monotonicMs())
    // What a member has read before a rebalance, its transaction may still commit.
    const isTolerated = transactional && refusal?.code === 'REBALANCE_IN_PROGRESS'
    // TxnOffsetCommit has one word for an epoch of any kind that is over.
    if (transactional && refusal?.code === 'STALE_MEMBER_EPOCH') throw new MoonMQError('ILLEGAL_GENERATION', { group, generation }, refusal)
    if (refusal !== null && !isTolerated) throw refusal
    return entry
  }

  #store(shard: GroupShard, entry: GroupEntry, request: CommitOffsets, producer: ProducerIdentity | null): (MoonMQError | null)[] {
    const nowMs = this.#clock.nowMs()
    const records: NewRecord[] = []
    const accepted: { topic: string; partition: number; value: StoredOffset }[] = []
    const outcomes = request.offsets.map(({ topic, partition, value, attempts, answeredBelow }) => {
      const image = this.#image().topics.get(topic)
      if (image?.partitions[partition] === undefined) return this.#missing({ topic, partition })
      const size = Buffer.byteLength(value.metadata)
      const limit = this.#options.offsetMetadataMaxBytes
      if (size > limit) return new MoonMQError('OFFSET_METADATA_TOO_LARGE', { size, limit })
      // As on Kafka one below 0 is kept: kafkajs resets a group with -1 and -2, and takes them for no offset at all, as every client does.
      if (!Number.isSafeInteger(value.offset)) {
        return new MoonMQError('INVALID_REQUEST', { reason: `${value.offset} is not an offset that a consumer can continue from` })
      }
      const { offset, leaderEpoch, metadata } = value
      const stored: StoredOffset = { offset, leaderEpoch, metadata, commitTimestampMs: nowMs, topicId: image.id }
      if (producer === null) {
        if (attempts !== undefined) this.#attempts.set(request.group, topic, partition, attempts.offset, attempts)
        const below = answeredBelow ?? (request.durable && attempts === undefined ? offset : 0)
        if (below > 0) this.#attempts.prune(request.group, topic, partition, below)
      }
      const headers = producer === null ? this.#attempts.headers(request.group, topic, partition) : undefined
      const record = { key: offsetKey(request.group, topic, partition), value: offsetValue(stored), timestampMs: nowMs }
      records.push(headers === undefined ? record : { ...record, headers })
      accepted.push({ topic, partition, value: stored })
      return null
    })
    if (records.length > 0 && producer !== null) {
      shard.appendPending(entry, records, producer)
      for (const offset of accepted) shard.pending.add(producer.producerId, request.group, offset)
    } else if (records.length > 0) {
      shard.append(entry, records)
      for (const { topic, partition, value } of accepted) {
        entry.offsets.set(topic, partition, value)
        shard.pending.overtake(request.group, topic, partition)
      }
    }
    this.#committed[producer === null ? 'member' : 'transaction'].add(accepted.length)
    // A group that was made for a commit of which nothing was stored, and a member that was heard from.
    shard.settle(entry)
    return outcomes
  }

  /** What a member subscribes to stays; groups of members that are no consumers must be empty (KIP-496). */
  async deleteOffsets(
    _context: RequestContext,
    { group, offsets }: Parameters<GroupPort['deleteOffsets']>[1],
  ): Promise<readonly (MoonMQError | null)[]> {
    const { topics } = this.#image()
    const missing = await inTurns(this.#clock, offsets, ({ topic, partition }) =>
      topics.get(topic)?.partitions[partition] === undefined ? new MoonMQError('PARTITION_MISSING', { topic, partition }) : null,
    )
    const shard = await this.#table.writable(group)
    // As Kafka, which does not look for the group when none of the topics is there.
    if (offsets.length > 0 && !offsets.some(({ topic }) => topics.has(topic))) return missing
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MISSING', { group })
    const { machine } = entry
    if (machine.kind === 'share') throw new MoonMQError('GROUP_KIND', { group, kind: 'consumer' })
    if (machine.state !== 'Empty' && machine.protocolType !== 'consumer') throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    const subscribed = machine.subscribedTopics()
    const gone: TopicPartition[] = []
    const outcomes = offsets.map(({ topic, partition }, at) => {
      const refusal = missing[at] ?? null
      if (refusal !== null) return refusal
      if (subscribed === null || subscribed.has(topic)) return new MoonMQError('GROUP_SUBSCRIBED_TO_TOPIC', { group, topic })
      // One that waits for the end of a transaction goes as well, and does not come back with that.
      if (entry.offsets.get(topic, partition) !== undefined || shard.pending.isPending(group, topic, partition)) {
        gone.push({ topic, partition })
      }
      return null
    })
    // As on Kafka, the group is there until the next look for expired offsets, for who deletes its offsets and then the group.
    shard.deleteOffsets(entry, gone, 'somebody asked for it', { keepsGroup: true })
    shard.checkReady(group)
    await shard.whenDurable(entry)
    return outcomes
  }

  async committed(_context: RequestContext, request: Parameters<GroupPort['committed']>[1]): Promise<readonly CommittedOffset[]> {
    const { group, topics, memberId = null, memberEpoch = -1 } = request
    const pending = this.#table.ready(group, true).groups.get(group)
    // Nobody reads an offset that a power cut can take back, nor one older than what was stored before the question.
    if (pending !== undefined) await this.#table.ready(group, true).whenDurable(pending)
    const shard = this.#table.ready(group, true)
    const entry = shard.groups.get(group)
    const refusal = entry?.machine.refuseFetch?.(memberId, memberEpoch) ?? null
    if (refusal !== null) throw refusal
    const offsets = entry?.offsets
    const isHeldBack = (topic: string, partition: number) =>
      request.requireStable === true && shard.pending.isPending(group, topic, partition)
    const found: CommittedOffset[] = []
    for (const { topic, partition } of topics === null ? (offsets?.entries() ?? []) : flatten(topics)) {
      if (found.length > 0 && found.length % OFFSETS_PER_TURN === 0) {
        await new Promise<void>((resolve) => this.#clock.defer(resolve))
        this.#table.ready(group, true)
      }
      if (isHeldBack(topic, partition)) found.push({ topic, partition, value: null, unstable: true })
      else found.push({ topic, partition, value: offsets?.get(topic, partition) ?? null })
    }
    return found
  }
}

function* flatten(topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[]): IterableIterator<TopicPartition> {
  for (const { topic, partitions } of topics) for (const partition of partitions) yield { topic, partition }
}
