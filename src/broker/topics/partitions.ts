import type { Clock } from '../../core/clock.ts'
import type { Counter, Metrics } from '../../core/counters.ts'
import { isCode, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { Semaphore } from '../../core/semaphore.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { MetadataImage, PartitionImage, TopicImage } from '../../metadata/types.ts'
import type { Log } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { LogSource } from '../log-source.ts'
import type { OfflinePartition } from '../ports.ts'
import { brokerSettingsInForce } from '../settings.ts'
import { resolveTopicSettings, type TopicSettings } from './topic-settings.ts'

/** A log that could not be opened is tried again by a request, first after this long, then twice as long each time. */
const FIRST_RETRY_MS = 1000
const MAX_RETRY_MS = 60_000
const NONE_OFFLINE: ReadonlyMap<number, OfflinePartition> = new Map()
/** Logs opened at the same time, by all topics together. */
const OPEN_AT_ONCE = 32

/** One partition as the broker serves it. `log` is undefined until it is open. */
export interface ServedPartition {
  readonly topic: ServedTopic
  readonly partition: number
  image: PartitionImage
  log: Log | undefined
  failure: MoonMQError | undefined
  /** Times that opening failed in a row, and from when on (monotonic) it is tried again. */
  failures: number
  retryAtMs: number
}

export interface TopicCounters {
  readonly records: Counter
  readonly batches: Counter
  readonly bytes: Counter
  readonly idempotent: Counter
  readonly duplicates: Counter
  readonly fetchedBytes: Counter
  /** Of consumers that are given single records. */
  readonly fetchedRecords: Counter
}

/** One topic as the broker serves it: the image, its settings resolved once, and its partitions. */
export interface ServedTopic {
  readonly name: string
  readonly id: Uuid
  readonly internal: boolean
  image: TopicImage
  settings: TopicSettings
  readonly partitions: ServedPartition[]
  readonly counters: TopicCounters
  /** Settles when the logs of its partitions are open. */
  opened: Promise<void>
  /** Set when the image no longer has it: whoever holds on to it must look it up again. */
  removed: boolean
}

export interface PartitionsDeps {
  readonly logs: LogSource
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
}

export interface PartitionsOptions {
  readonly nodeId: number
  /** Broker settings that the configuration set, by Kafka's dotted names. */
  readonly settings: ReadonlyMap<string, string>
  /** Topics whose logs are opened by whoever appends first. */
  readonly lazyTopics: ReadonlySet<string>
}

/**
 * What the broker serves, following the metadata image (DESIGN D7): look-ups change in the same turn as the image, opening and
 * deleting logs follow. Logs open side by side; only those of a name whose former topic is still being deleted wait for that. Repeating
 * a difference does nothing, so a crash in between is repaired by the next start.
 */
export class Partitions {
  readonly #logs: LogSource
  readonly #clock: Clock
  readonly #log: Logger
  readonly #metrics: Metrics
  readonly #options: PartitionsOptions
  readonly #topics = new Map<string, ServedTopic>()
  readonly #slots = new Semaphore(OPEN_AT_ONCE)
  readonly #opening = new Map<ServedPartition, Promise<Log>>()
  /** By topic name: settles when the folders of all topics that had the name before are out of the way. Never rejects. */
  readonly #deleting = new Map<string, Promise<void>>()
  readonly #changeListeners = new Set<() => void>()
  readonly #removalListeners = new Set<(topic: ServedTopic) => void>()
  #image: MetadataImage | undefined
  #brokerConfigs: MetadataImage['brokerConfigs'] | undefined
  /** In force: those set while running, for this broker or for all, before those of the configuration. */
  #brokerSettings: ReadonlyMap<string, string>

  constructor(deps: PartitionsDeps, options: PartitionsOptions) {
    this.#logs = deps.logs
    this.#clock = deps.clock
    this.#log = deps.log
    this.#metrics = deps.metrics
    this.#options = options
    this.#brokerSettings = options.settings
  }

  topic(name: string): ServedTopic | undefined {
    return this.#topics.get(name)
  }

  /** Throws TOPIC_MISSING, PARTITION_MISSING. */
  partition(name: string, partition: number): ServedPartition {
    const topic = this.#topics.get(name)
    if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
    const found = topic.partitions[partition]
    if (found === undefined) throw new MoonMQError('PARTITION_MISSING', { topic: name, partition })
    return found
  }

  /** The partition with its log, for a client: internal topics are the broker's own. */
  forClient(context: RequestContext, name: string, partition: number): ServedPartition & { log: Log } {
    const found = this.partition(name, partition)
    if (found.topic.internal && context.protocol !== 'internal') throw new MoonMQError('TOPIC_FORBIDDEN', { topic: name })
    if (found.failure !== undefined) this.#retry(found)
    return withLog(found)
  }

  /** Asked for by every look at the metadata: it makes nothing while all is well. */
  offline(name: string): ReadonlyMap<number, OfflinePartition> {
    let found: Map<number, OfflinePartition> | null = null
    for (const { partition, log, failure } of this.#topics.get(name)?.partitions ?? []) {
      if (log === undefined ? failure === undefined : log.state === 'online') continue
      const reason = log === undefined ? failure : log.refusal
      if (reason === undefined || reason === null) continue
      found ??= new Map()
      found.set(partition, { partition, reason, isReadable: log !== undefined && log.state === 'failed' })
    }
    return found ?? NONE_OFFLINE
  }

  /** Called in the turn in which a topic left the image. Returns how to stop. */
  onRemoved(listener: (topic: ServedTopic) => void): () => void {
    this.#removalListeners.add(listener)
    return () => this.#removalListeners.delete(listener)
  }

  /** Called when there may be more to read: another image was taken over, or a log was opened. Returns how to stop. */
  onChanged(listener: () => void): () => void {
    this.#changeListeners.add(listener)
    return () => this.#changeListeners.delete(listener)
  }

  /** Resolves when every effect of the images applied so far has happened. */
  async settled(): Promise<void> {
    while (this.#opening.size > 0 || this.#deleting.size > 0) {
      await Promise.allSettled([...this.#opening.values(), ...this.#deleting.values()])
    }
  }

  /** Takes over the image. Logs that it asks for open after this turn (`whenOpen`), those that it lost go out of the way. */
  apply(image: MetadataImage): void {
    if (image === this.#image) return
    this.#image = image
    if (image.brokerConfigs !== this.#brokerConfigs) {
      this.#brokerConfigs = image.brokerConfigs
      this.#brokerSettings = brokerSettingsInForce(image, this.#options.nodeId, this.#options.settings)
      for (const topic of this.#topics.values()) this.#configure(topic)
    }
    const removed: ServedTopic[] = []
    for (const topic of this.#topics.values()) {
      if (image.topics.get(topic.name)?.id !== topic.id) removed.push(topic)
    }
    for (const topic of removed) this.#remove(topic)
    for (const next of image.topics.values()) {
      const topic = this.#topics.get(next.name)
      if (topic === undefined) this.#add(next)
      else if (topic.image !== next) this.#update(topic, next)
    }
    this.#changed()
  }

  #changed(): void {
    for (const listener of [...this.#changeListeners]) listener()
  }

  /** Resolves when the logs of the topic are open, at once when it is gone. Throws what kept one from opening. */
  whenOpen(name: string, id: Uuid): Promise<void> {
    const topic = this.#topics.get(name)
    return topic !== undefined && topic.id === id ? topic.opened : Promise.resolve()
  }

  #retry(partition: ServedPartition): void {
    // Damage stays: what is on disk must be looked at by a person.
    if (isCode(partition.failure, 'DATA_DAMAGED') || this.#opening.has(partition) || this.#clock.monotonicMs() < partition.retryAtMs) return
    // The failure is kept in the partition and was logged.
    this.openLog(partition).catch(() => {})
  }

  /** The log of a partition whose topic is lazy, if somebody made it before. */
  async existingLog(partition: ServedPartition): Promise<Log | undefined> {
    if (partition.log !== undefined) return partition.log
    const isThere = await this.#logs.exists({ topic: partition.topic.name, partition: partition.partition })
    return isThere || partition.log !== undefined ? this.openLog(partition) : undefined
  }

  /** The log of a partition, opened or made when it is not open yet. Several at once share the work. */
  openLog(partition: ServedPartition): Promise<Log> {
    if (partition.log !== undefined) return Promise.resolve(partition.log)
    const pending = this.#opening.get(partition)
    if (pending !== undefined) return pending
    const opening = this.#open(partition).finally(() => this.#opening.delete(partition))
    this.#opening.set(partition, opening)
    return opening
  }

  #add(image: TopicImage): void {
    const topic: ServedTopic = {
      name: image.name,
      id: image.id,
      internal: image.internal,
      image,
      settings: this.#resolve(image),
      partitions: [],
      counters: this.#counters(image.name),
      opened: Promise.resolve(),
      removed: false,
    }
    this.#topics.set(topic.name, topic)
    this.#grow(topic)
  }

  #update(topic: ServedTopic, image: TopicImage): void {
    const before = topic.image
    topic.image = image
    for (const served of topic.partitions) served.image = image.partitions[served.partition] ?? served.image
    if (before.config !== image.config) this.#configure(topic)
    this.#grow(topic)
  }

  #counters(topic: string): TopicCounters {
    const counter = (name: string) => this.#metrics.counter(`moonmq_${name}`, { topic })
    return {
      records: counter('produce_records_total'),
      batches: counter('produce_batches_total'),
      bytes: counter('produce_bytes_total'),
      idempotent: counter('idempotent_produce_total'),
      duplicates: counter('duplicate_batches_total'),
      fetchedBytes: counter('fetch_bytes_total'),
      fetchedRecords: counter('fetch_records_total'),
    }
  }

  /** Gauges of a partition that is served; they go with its topic. */
  #observe(partition: ServedPartition, log: Log): void {
    const labels = { topic: partition.topic.name, partition: String(partition.partition) }
    this.#metrics.observed('moonmq_partition_log_bytes', () => log.sizeBytes, labels)
    this.#metrics.observed('moonmq_partition_in_sync_replicas', () => partition.image.isr.length, labels)
  }

  #resolve(image: TopicImage): TopicSettings {
    const settings = resolveTopicSettings(image.config, this.#brokerSettings)
    // What the broker keeps for its clients is durable when they are answered, whatever the settings say (DESIGN D5).
    return image.internal ? { ...settings, log: { ...settings.log, flushMessages: 1 } } : settings
  }

  #configure(topic: ServedTopic): void {
    topic.settings = this.#resolve(topic.image)
    for (const partition of topic.partitions) partition.log?.reconfigure(topic.settings.log)
  }

  #grow(topic: ServedTopic): void {
    const fresh: ServedPartition[] = []
    for (const image of topic.image.partitions.slice(topic.partitions.length)) {
      const log = this.#logs.get({ topic: topic.name, partition: image.partition })
      const known = log !== undefined && log.topicId === topic.id ? log : undefined
      const served: ServedPartition = {
        topic,
        partition: image.partition,
        image,
        log: known,
        failure: undefined,
        failures: 0,
        retryAtMs: 0,
      }
      topic.partitions.push(served)
      if (known === undefined) fresh.push(served)
      else {
        known.reconfigure(topic.settings.log)
        this.#observe(served, known)
      }
    }
    if (fresh.length === 0 || this.#options.lazyTopics.has(topic.name)) return
    topic.opened = this.#openAll(topic.opened, fresh)
    // Whoever waits gets the failure; when nobody does, it stays in the partition and in the log.
    topic.opened.catch(() => {})
  }

  async #openAll(before: Promise<void>, partitions: readonly ServedPartition[]): Promise<void> {
    const results = await Promise.allSettled([before, ...partitions.map((each) => this.openLog(each))])
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  async #open(partition: ServedPartition): Promise<Log> {
    const { topic } = partition
    try {
      if (!topic.removed) await this.#deleting.get(topic.name)
      const log = await this.#slots.run(() => this.#openNow(partition))
      // The settings may have changed while the files were opened.
      if (log.config !== topic.settings.log) log.reconfigure(topic.settings.log)
      partition.log = log
      partition.failure = undefined
      partition.failures = 0
      if (!topic.removed) this.#observe(partition, log)
      this.#changed()
      return log
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      partition.retryAtMs = this.#clock.monotonicMs() + Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** partition.failures++)
      partition.failure =
        error instanceof MoonMQError
          ? error
          : new MoonMQError('STORAGE_FAILED', { topic: topic.name, partition: partition.partition, reason }, error)
      if (topic.removed) throw partition.failure
      this.#log.error('partition.open_failed', `${topic.name}-${partition.partition} could not be opened: ${reason}`, {
        topic: topic.name,
        partition: partition.partition,
      })
      throw partition.failure
    }
  }

  async #openNow(partition: ServedPartition): Promise<Log> {
    const { topic } = partition
    if (topic.removed) throw new MoonMQError('TOPIC_MISSING', { topic: topic.name })
    return this.#logs.open({
      topic: topic.name,
      partition: partition.partition,
      topicId: topic.id,
      config: topic.settings.log,
      leaderEpoch: partition.image.leaderEpoch,
      inMemory: topic.settings.inMemory,
    })
  }

  #remove(topic: ServedTopic): void {
    topic.removed = true
    this.#topics.delete(topic.name)
    this.#metrics.forget({ topic: topic.name })
    for (const listener of this.#removalListeners) listener(topic)
    const deleting = this.#deleteLogs(topic, this.#deleting.get(topic.name)).finally(() => {
      if (this.#deleting.get(topic.name) === deleting) this.#deleting.delete(topic.name)
    })
    this.#deleting.set(topic.name, deleting)
  }

  /** After the topics that had the name before, and after what was being opened: a log is never deleted while it opens. */
  async #deleteLogs(topic: ServedTopic, before: Promise<void> | undefined): Promise<void> {
    await before
    await Promise.allSettled(topic.partitions.map((each) => this.#opening.get(each)))
    await Promise.all(topic.partitions.map((each) => this.#slots.run(() => this.#deleteLog(each))))
  }

  async #deleteLog(partition: ServedPartition): Promise<void> {
    const { topic } = partition
    if (partition.log === undefined && this.#options.lazyTopics.has(topic.name)) return
    try {
      await this.#logs.delete({ topic: topic.name, partition: partition.partition }, topic.id)
    } catch (error) {
      // The record of the deletion is durable: the next start finds a folder that the image does not have and sets it aside.
      this.#log.error('partition.delete_failed', `${topic.name}-${partition.partition} could not be removed: ${String(error)}`, {
        topic: topic.name,
        partition: partition.partition,
      })
    } finally {
      partition.log = undefined
    }
  }
}

/** Throws a retriable STORAGE_FAILED while the log is not open. */
export function withLog(partition: ServedPartition): ServedPartition & { log: Log } {
  if (partition.log !== undefined) return partition as ServedPartition & { log: Log }
  if (partition.failure !== undefined) throw partition.failure
  throw new MoonMQError('STORAGE_FAILED', {
    topic: partition.topic.name,
    partition: partition.partition,
    reason: 'its log is still being opened',
  })
}

/** The leader epoch in force: the image's, or a later one after the log was reopened by recovery (DESIGN D5). */
export function leaderEpochOf(partition: ServedPartition & { log: Log }): number {
  return Math.max(partition.image.leaderEpoch, partition.log.leaderEpoch)
}
