import type { BrokerPorts, FetchedPartition, FetchPartition, FollowedPartitions } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import type { Counter, Metrics } from '../core/counters.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Random } from '../core/random.ts'
import { NO_OFFSET } from '../core/types.ts'
import type { MetadataImage } from '../metadata/types.ts'
import type { FetchRequest } from '../schema/types.generated.ts'

/** What a partition of a session costs in memory beside its topic's name. */
const PARTITION_BYTES = 600
/** A session that nobody used for so long makes room for a new one, as in Kafka; one that is so old for one with more partitions. */
const EVICTED_AFTER_MS = 120_000
const LARGEST_ID = 2 ** 31 - 1

type AskedTopic = FetchRequest['topics'][number]
type AskedPartition = AskedTopic['partitions'][number]

/** One partition of a session: what the client asked for last, and what it was told last. */
export class SessionPartition implements FetchPartition {
  /** Zero where the client names topics. */
  readonly topicId: string
  readonly partition: number
  readonly costBytes: number
  /** Empty while no topic has the id. */
  topic: string
  /** The id belongs to no topic, or its name to another one by now. */
  wrongId: MoonMQError | null = null
  fetchOffset = 0
  maxBytes = 0
  currentLeaderEpoch = -1
  lastFetchedEpoch = -1
  #highWatermark = NO_OFFSET
  #logStartOffset = NO_OFFSET

  constructor(topic: string, topicId: string, partition: number) {
    this.topic = topic
    this.topicId = topicId
    this.partition = partition
    this.costBytes = PARTITION_BYTES + 2 * topic.length
  }

  ask({ fetchOffset, partitionMaxBytes, currentLeaderEpoch, lastFetchedEpoch }: AskedPartition): void {
    this.fetchOffset = fetchOffset
    this.maxBytes = partitionMaxBytes
    this.currentLeaderEpoch = currentLeaderEpoch
    this.lastFetchedEpoch = lastFetchedEpoch
  }

  /** Whether the client has to be told, which it then was. An error is told again each time, and so is what follows it. */
  tells(found: FetchedPartition): boolean {
    const isNew =
      found.highWatermark !== this.#highWatermark ||
      found.logStartOffset !== this.#logStartOffset ||
      (found.read?.sizeBytes ?? 0) > 0 ||
      found.error !== null ||
      found.divergingEpoch !== null
    this.#highWatermark = found.error === null ? found.highWatermark : NO_OFFSET
    this.#logStartOffset = found.logStartOffset
    return isNew
  }
}

/** What a client fetches again and again (KIP-227). Its requests name changes only, and so do the answers. */
export class FetchSession {
  readonly id: number
  /** From version 13 on; the two ways of naming topics do not mix in a session. */
  readonly usesTopicIds: boolean
  /** Of the next request. */
  epoch = 1
  readonly createdMs: number
  lastUsedMs: number
  costBytes = 0
  /** What the broker looks at: all but those whose ids are wrong now. */
  readonly followed: FollowedPartitions
  readonly #topics = new Map<string, Map<number, SessionPartition>>()
  readonly #all = new Set<SessionPartition>()
  readonly #wrong = new Set<SessionPartition>()
  #image: MetadataImage | null = null

  constructor(id: number, usesTopicIds: boolean, followed: FollowedPartitions, nowMs: number) {
    this.id = id
    this.followed = followed
    this.usesTopicIds = usesTopicIds
    this.createdMs = nowMs
    this.lastUsedMs = nowMs
  }

  get size(): number {
    return this.#all.size
  }

  /** Adds partitions, and changes those that it has. */
  ask(topics: FetchRequest['topics']): void {
    for (const topic of topics) {
      const partitions = this.#partitionsOf(topic)
      for (const asked of topic.partitions) {
        let found = partitions.get(asked.partition)
        if (found === undefined) {
          found = new SessionPartition(this.usesTopicIds ? '' : topic.topic, topic.topicId, asked.partition)
          partitions.set(asked.partition, found)
          this.#all.add(found)
          this.costBytes += found.costBytes
          // Its name is looked up with the next look at the image.
          this.#image = null
        }
        found.ask(asked)
        if (!this.#wrong.has(found)) this.followed.add(found)
      }
    }
  }

  forget(topics: FetchRequest['forgottenTopicsData']): void {
    for (const topic of topics) {
      const key = this.usesTopicIds ? topic.topicId : topic.topic
      const partitions = this.#topics.get(key)
      for (const partition of topic.partitions) this.#forget(partitions, partition)
      if (partitions?.size === 0) this.#topics.delete(key)
    }
  }

  partition(topic: AskedTopic, partition: number): SessionPartition | undefined {
    return this.#topics.get(this.usesTopicIds ? topic.topicId : topic.topic)?.get(partition)
  }

  /** Gives its partitions the names that their ids have now; those whose ids are wrong. */
  refresh(broker: BrokerPorts): ReadonlySet<SessionPartition> {
    const { image } = broker.cluster
    if (!this.usesTopicIds || image === this.#image) return this.#wrong
    this.#image = image
    for (const partition of this.#all) {
      name(partition, broker)
      if (partition.wrongId !== null) {
        this.#wrong.add(partition)
        this.followed.remove(partition)
      } else if (this.#wrong.delete(partition)) this.followed.add(partition)
    }
    return this.#wrong
  }

  nextEpoch(): number {
    this.epoch = this.epoch === LARGEST_ID ? 1 : this.epoch + 1
    return this.epoch
  }

  #partitionsOf({ topic, topicId }: AskedTopic): Map<number, SessionPartition> {
    const key = this.usesTopicIds ? topicId : topic
    let partitions = this.#topics.get(key)
    if (partitions === undefined) {
      partitions = new Map()
      this.#topics.set(key, partitions)
    }
    return partitions
  }

  #forget(partitions: Map<number, SessionPartition> | undefined, partition: number): void {
    const found = partitions?.get(partition)
    if (found === undefined) return
    partitions?.delete(partition)
    this.#all.delete(found)
    this.#wrong.delete(found)
    this.followed.remove(found)
    this.costBytes -= found.costBytes
  }
}

/** A topic that went leaves its name, so that the client is told that it is gone; one that took the name is another one. */
function name(partition: SessionPartition, { topics }: BrokerPorts): void {
  const id = partition.topicId
  if (partition.topic === '') partition.topic = topics.findById(id)?.name ?? ''
  const { topic } = partition
  if (topic === '') partition.wrongId = new MoonMQError('TOPIC_ID_UNKNOWN', { id })
  else if ((topics.find(topic)?.id ?? id) !== id) partition.wrongId = new MoonMQError('TOPIC_ID_INCONSISTENT', { topic, id })
  else partition.wrongId = null
}

export interface FetchSessionsDeps {
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
}

export interface FetchSessionsOptions {
  /** Kafka's `max.incremental.fetch.session.cache.slots`; 0 = there are none. */
  readonly maxSessions: number
  /** Memory of all sessions together. */
  readonly maxBytes: number
}

/**
 * Sessions of all connections, bounded in number and bytes. A client without one sends full fetches, so nothing is lost where there is no
 * room: a new session takes the place of one that is unused, or else that saves less and had its time, and is declined where there is none.
 */
export class FetchSessions {
  readonly #clock: Clock
  readonly #random: Random
  readonly #options: FetchSessionsOptions
  /** Least recently used first. */
  readonly #sessions = new Map<number, FetchSession>()
  readonly #evictions: Counter
  readonly #unobserve: readonly (() => void)[]
  #bytes = 0

  constructor(deps: FetchSessionsDeps, options: FetchSessionsOptions) {
    this.#clock = deps.clock
    this.#random = deps.random
    this.#options = options
    this.#evictions = deps.metrics.counter('moonmq_fetch_session_evictions_total')
    this.#unobserve = [
      deps.metrics.observed('moonmq_fetch_sessions', () => this.#sessions.size),
      deps.metrics.observed('moonmq_fetch_session_bytes', () => this.#bytes),
    ]
  }

  find(id: number): FetchSession | undefined {
    return this.#sessions.get(id)
  }

  /** A new session with the partitions of the request; null when there is no room. */
  create(broker: BrokerPorts, request: FetchRequest, usesTopicIds: boolean): FetchSession | null {
    const nowMs = this.#clock.monotonicMs()
    const session = new FetchSession(this.#newId(), usesTopicIds, broker.fetch.follow(), nowMs)
    session.ask(request.topics)
    if (session.costBytes > this.#options.maxBytes || !this.#makeRoom(session, nowMs)) {
      session.followed.close()
      return null
    }
    this.#sessions.set(session.id, session)
    this.#bytes += session.costBytes
    return session
  }

  /** Changes what a session fetches. False when it had to be given up: its partitions are more than there is memory for. */
  update(session: FetchSession, request: FetchRequest): boolean {
    const before = session.costBytes
    session.ask(request.topics)
    session.forget(request.forgottenTopicsData)
    const nowMs = this.#clock.monotonicMs()
    session.lastUsedMs = nowMs
    this.#sessions.delete(session.id)
    this.#bytes -= before
    if (session.size === 0 || (session.costBytes > before && !this.#makeRoom(session, nowMs))) {
      session.followed.close()
      return false
    }
    this.#sessions.set(session.id, session)
    this.#bytes += session.costBytes
    return true
  }

  remove(id: number): void {
    const session = this.#sessions.get(id)
    if (session === undefined) return
    this.#sessions.delete(id)
    this.#bytes -= session.costBytes
    session.followed.close()
  }

  close(): void {
    for (const stop of this.#unobserve) stop()
    for (const session of this.#sessions.values()) session.followed.close()
  }

  #makeRoom({ costBytes, size }: FetchSession, nowMs: number): boolean {
    while (this.#sessions.size >= this.#options.maxSessions || this.#bytes + costBytes > this.#options.maxBytes) {
      const evicted = this.#evictable(size, nowMs)
      if (evicted === undefined) return false
      this.remove(evicted.id)
      this.#evictions.add(1)
    }
    return true
  }

  /** What makes room for a session of so many partitions: the least recently used one if it is stale, else the smallest of the old ones. */
  #evictable(size: number, nowMs: number): FetchSession | undefined {
    const [oldest] = this.#sessions.values()
    if (oldest === undefined || nowMs - oldest.lastUsedMs > EVICTED_AFTER_MS) return oldest
    let smallest: FetchSession | undefined
    for (const session of this.#sessions.values()) {
      if (nowMs - session.createdMs > EVICTED_AFTER_MS && session.size < (smallest?.size ?? size)) smallest = session
    }
    return smallest
  }

  #newId(): number {
    for (;;) {
      const id = 1 + this.#random.below(LARGEST_ID)
      if (!this.#sessions.has(id)) return id
    }
  }
}
