import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import { type Failpoint, NO_FAILPOINT } from '../core/failpoint.ts'
import { MIB } from '../core/limits.ts'
import type { Loader } from '../core/loader.ts'
import type { Logger, LogLevels } from '../core/logger.ts'
import type { Offload } from '../core/offload.ts'
import type { Random } from '../core/random.ts'
import type { Resource } from '../core/types.ts'
import { SHARE_STATE_CONFIG, SHARE_STATE_TOPIC } from '../metadata/config-plans.ts'
import type { Metadata } from '../metadata/types.ts'
import type { BatchCodecs } from '../record/batch-jobs.ts'
import { Inflater } from '../record/inflater.ts'
import { AdminService } from './admin/admin-service.ts'
import { Cluster } from './cluster.ts'
import { DeadLetters } from './dlq/dead-letters.ts'
import { featureLevel, finalizeDefaults } from './features.ts'
import { FetchService } from './fetch/fetch-service.ts'
import { groupOptions } from './groups/group-options.ts'
import { GroupCoordinator } from './groups/group-shell.ts'
import { CONSUMER_OFFSETS, InternalTopic, TRANSACTION_STATE } from './internal-topics.ts'
import type { LogSource } from './log-source.ts'
import { OffsetQueries } from './offset-queries.ts'
import type {
  AdminPort,
  ClusterPort,
  DeletionPort,
  FetchPort,
  GroupPort,
  OffsetPort,
  ProducePort,
  ProducerPort,
  RecordPort,
  RecordPorts,
  TopicPort,
  TransactionPort,
} from './ports.ts'
import { ProduceService } from './produce/produce-service.ts'
import { RecordProducer } from './produce/record-producer.ts'
import { ProducerIds } from './producers/producer-ids.ts'
import { RecordDeletion } from './record-deletion.ts'
import { Records } from './records.ts'
import { BrokerSettings, GroupSettings } from './settings.ts'
import { openShare, shareKind } from './share/open-share.ts'
import type { ShareService } from './share/share-service.ts'
import type { SharePort } from './share-ports.ts'
import { PartitionChooser } from './topics/partitioner.ts'
import { Partitions } from './topics/partitions.ts'
import { TopicService } from './topics/topic-service.ts'
import { TransactionCoordinator } from './txn/coordinator.ts'
import { txnOptions } from './txn/txn-options.ts'

export interface BrokerDeps {
  readonly metadata: Metadata
  readonly logs: LogSource
  readonly codecs: BatchCodecs
  readonly offload: Offload
  readonly loader: Loader
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  /** Absent or null: the log is not the broker's to change. */
  readonly logLevels?: LogLevels | null
  readonly metrics: Metrics
  readonly failpoint?: Failpoint
}

export interface BrokerOptions {
  readonly nodeId: number
  /** Kafka's broker settings that the configuration sets, by dotted name and checked. Defaults do not belong in it. */
  readonly settings: ReadonlyMap<string, string>
  /** What is added to the name of a topic for its dead letters. Default `.dlq`. */
  readonly dlqSuffix?: string
  /** `moonmq.backend` of topics that are made without one. Default segmented. */
  readonly defaultBackend?: string
  /** Bytes appended and not durable yet, of all clients together. Default 256 MiB. */
  readonly maxInflightProduceBytes?: number
  /** Bytes of single records that wait to become a batch, of all clients together. Default 128 MiB. */
  readonly maxQueuedRecordBytes?: number
  /** Fetch requests that wait at the same time. Default 20,000. */
  readonly maxParkedFetches?: number
}

/** Internal topics whose folders are made at the first append to each partition. */
const LAZY_TOPICS: ReadonlySet<string> = new Set([CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_STATE_TOPIC])

/**
 * The broker behind the doors (DESIGN D1): every rule of topics, produce, fetch, offsets, producers and groups once. Owns what is
 * between the metadata log and the partition logs; both are given to it open and closed after it.
 */
export class Broker implements RecordPorts, Resource {
  readonly cluster: ClusterPort
  readonly topics: TopicPort
  readonly produce: ProducePort
  readonly fetch: FetchPort
  readonly offsets: OffsetPort
  readonly deletion: DeletionPort
  readonly producers: ProducerPort
  readonly groups: GroupPort
  readonly share: SharePort
  readonly transactions: TransactionPort
  readonly records: RecordPort
  readonly admin: AdminPort
  /** Settings of groups of every kind, for their coordinators. */
  readonly groupSettings: GroupSettings
  readonly #share: ShareService
  readonly #groups: GroupCoordinator
  readonly #transactions: TransactionCoordinator
  readonly #partitions: Partitions
  readonly #produce: ProduceService
  readonly #fetch: FetchService
  readonly #unsubscribe: () => void

  /** Resolves when the logs of the image are open. A log that does not open is logged and tried again; the others serve. */
  static async open(deps: BrokerDeps, options: BrokerOptions): Promise<Broker> {
    await finalizeDefaults(deps.metadata)
    const broker = new Broker(deps, options)
    broker.#partitions.apply(deps.metadata.image)
    await broker.#partitions.settled()
    return broker
  }

  private constructor(deps: BrokerDeps, options: BrokerOptions) {
    const { metadata, clock, random, log } = deps
    const { nodeId } = options
    const settings = new BrokerSettings(options.settings)
    const partitions = new Partitions(
      { logs: deps.logs, clock, log, metrics: deps.metrics },
      { nodeId, settings: options.settings, lazyTopics: LAZY_TOPICS },
    )
    const inflater = new Inflater({ codecs: deps.codecs, offload: deps.offload })
    this.#partitions = partitions
    this.#fetch = new FetchService(
      { partitions, clock, metrics: deps.metrics },
      { maxBytes: settings.number('fetch.max.bytes'), maxParked: options.maxParkedFetches ?? 20_000 },
    )
    this.cluster = new Cluster({ metadata }, { nodeId, settings })
    this.topics = new TopicService(
      { metadata, partitions, random, chooser: new PartitionChooser({ clock, random }) },
      { nodeId, settings, ...(options.defaultBackend === undefined ? {} : { defaultBackend: options.defaultBackend }) },
    )
    this.fetch = this.#fetch
    this.offsets = new OffsetQueries({ partitions })
    this.deletion = new RecordDeletion({ partitions, logs: deps.logs })
    this.admin = new AdminService({ metadata, logs: deps.logs, partitions, logLevels: deps.logLevels ?? null })
    this.groupSettings = new GroupSettings({ metadata }, { nodeId, configured: options.settings })
    this.producers = new ProducerIds({ metadata, log }, { nodeId })
    const kind = shareKind(metadata, this.groupSettings, settings)
    this.#groups = GroupCoordinator.open(
      {
        clock,
        random,
        log,
        metrics: deps.metrics,
        metadata,
        offsetsTopic: this.#coordinatorTopic(metadata, settings, CONSUMER_OFFSETS, 'offsets.topic'),
        loader: deps.loader,
        groupSettings: this.groupSettings,
        highWatermark: (topic, partition) => partitions.topic(topic)?.partitions[partition]?.log?.highWatermark,
        kinds: [kind],
      },
      groupOptions(nodeId, settings),
    )
    this.groups = this.#groups
    this.#transactions = new TransactionCoordinator(
      {
        clock,
        random,
        log,
        metrics: deps.metrics,
        failpoint: deps.failpoint ?? NO_FAILPOINT,
        loader: deps.loader,
        stateTopic: this.#coordinatorTopic(metadata, settings, TRANSACTION_STATE, 'transaction.state.log'),
        partitions,
        producers: this.producers,
        commits: this.#groups,
        level: () => featureLevel(metadata.image, 'transaction.version'),
      },
      txnOptions(nodeId, settings),
    )
    this.transactions = this.#transactions
    this.#produce = new ProduceService(
      { partitions, inflater, clock, metrics: deps.metrics, transactions: this.#transactions },
      { maxInflightBytes: options.maxInflightProduceBytes ?? 256 * MIB },
    )
    this.produce = this.#produce
    const producer = new RecordProducer(
      { partitions, clock, topics: this.topics, produce: this.#produce, codecs: deps.codecs, inflater },
      { maxQueuedBytes: options.maxQueuedRecordBytes ?? 128 * MIB, maxBatchBytes: MIB },
    )
    this.records = new Records({ partitions, inflater, log, producer, fetch: this.fetch, groups: this.groups })
    const letters = new DeadLetters(
      {
        ...deps,
        partitions,
        topics: this.topics,
        offsets: this.offsets,
        records: this.records,
        chosenTopic: (group) => this.groupSettings.text(group, 'errors.deadletterqueue.topic.name'),
      },
      { suffix: options.dlqSuffix ?? '.dlq' },
    )
    const share = openShare(
      {
        ...deps,
        partitions,
        letters,
        records: this.records,
        stateTopic: this.#shareTopic(metadata, settings),
        table: this.#groups.table,
        groupSettings: this.groupSettings,
      },
      kind,
      settings,
    )
    this.#share = share.service
    this.share = share.groups
    this.#unsubscribe = metadata.subscribe((_before, after) => partitions.apply(after))
  }

  /** Resolves when the logs of the image are open, or known to fail. */
  settled(): Promise<void> {
    return this.#partitions.settled()
  }

  /** Reads the coordinators' topics: after listening, requests to them meanwhile get COORDINATOR_LOADING. Never rejects. */
  async loadGroups(): Promise<void> {
    await Promise.all([this.#groups.startLoading(), this.#transactions.startLoading(), this.#share.startLoading()])
  }

  #shareTopic(metadata: Metadata, settings: BrokerSettings): InternalTopic {
    return new InternalTopic(
      { metadata, topics: this.topics, partitions: this.#partitions },
      {
        name: SHARE_STATE_TOPIC,
        partitions: settings.number('share.coordinator.state.topic.num.partitions'),
        config: new Map([...SHARE_STATE_CONFIG, ['segment.bytes', settings.text('share.coordinator.state.topic.segment.bytes')]]),
      },
    )
  }

  #coordinatorTopic(metadata: Metadata, settings: BrokerSettings, name: string, prefix: string): InternalTopic {
    return new InternalTopic(
      { metadata, topics: this.topics, partitions: this.#partitions },
      {
        name,
        partitions: settings.number(`${prefix}.num.partitions`),
        config: new Map([
          ['cleanup.policy', 'compact'],
          ['segment.bytes', settings.text(`${prefix}.segment.bytes`)],
        ]),
      },
    )
  }

  /** Answers what waits and lets side effects end. Logs and metadata stay open: whoever gave them closes them. */
  async close(): Promise<void> {
    this.#unsubscribe()
    this.#fetch.close()
    await this.#share.close()
    await this.#transactions.close()
    await this.#groups.close()
    this.#produce.close()
    await this.#partitions.settled()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
