import { MIB } from '../core/limits.ts'
import type { Resource } from '../core/types.ts'
import { Inflater } from '../record/inflater.ts'
import { AdminService } from './admin/admin-service.ts'
import type { BrokerDeps } from './broker-deps.ts'
import { Cluster } from './cluster.ts'
import { LAZY_TOPICS, openCoordinators } from './coordinators.ts'
import { openLetters } from './dlq/open-letters.ts'
import { finalizeDefaults } from './features.ts'
import { FetchService } from './fetch/fetch-service.ts'
import type { GroupCoordinator } from './groups/group-shell.ts'
import { OffsetQueries } from './offset-queries.ts'
import type {
  AdminPort,
  ClusterPort,
  DeletionPort,
  GroupPort,
  OffsetPort,
  ProducePort,
  ProducerPort,
  ProducerSessionPort,
  RecordPort,
  RecordPorts,
  RedrivePort,
  TopicPort,
  TransactionPort,
} from './ports.ts'
import { BatchPacker } from './produce/batch-packer.ts'
import { ProduceService } from './produce/produce-service.ts'
import { RecordProducer } from './produce/record-producer.ts'
import { ProducerIds } from './producers/producer-ids.ts'
import { ProducerSessions } from './producers/producer-sessions.ts'
import { RecordDeletion } from './record-deletion.ts'
import { Records } from './records.ts'
import { BrokerSettings, GroupSettings } from './settings.ts'
import { openShare } from './share/open-share.ts'
import type { ShareService } from './share/share-service.ts'
import type { SharePort } from './share-ports.ts'
import { PartitionChooser } from './topics/partitioner.ts'
import { Partitions } from './topics/partitions.ts'
import { TopicService } from './topics/topic-service.ts'
import type { TransactionCoordinator } from './txn/coordinator.ts'
import { DEFAULT_NAME_EXPIRY, type NameExpiry } from './txn/txn-options.ts'

export interface BrokerOptions {
  readonly nodeId: number
  /** Kafka's broker settings that the configuration sets, by dotted name and checked. Defaults do not belong in it. */
  readonly settings: ReadonlyMap<string, string>
  /** What is added to the name of a topic for its dead letters. Default `.dlq`. */
  readonly dlqSuffix?: string
  /** NACKs after which a record becomes a dead letter. Default 3. */
  readonly maxDeliveries?: number
  /** Dead letters that go back in one transaction. Default 8 MiB. */
  readonly redriveSliceBytes?: number
  /** `moonmq.backend` of topics that are made without one. Default segmented. */
  readonly defaultBackend?: string
  /** When native producer names that nobody uses are forgotten. Default after a day. */
  readonly producerNames?: NameExpiry
  /** Bytes appended and not durable yet, of all clients together. Default 256 MiB. */
  readonly maxInflightProduceBytes?: number
  /** Bytes of single records that wait to become a batch, of all clients together. Default 128 MiB. */
  readonly maxQueuedRecordBytes?: number
  /** Fetch requests that wait at the same time. Default 20,000. */
  readonly maxParkedFetches?: number
}

/**
 * The broker behind the doors (DESIGN D1): every rule of topics, produce, fetch, offsets, producers and groups once. Owns what is
 * between the metadata log and the partition logs; both are given to it open and closed after it.
 */
export class Broker implements RecordPorts, Resource {
  readonly cluster: ClusterPort
  readonly topics: TopicPort
  readonly produce: ProducePort
  readonly fetch: FetchService
  readonly offsets: OffsetPort
  readonly deletion: DeletionPort
  readonly producers: ProducerPort
  readonly groups: GroupPort
  readonly share: SharePort
  readonly transactions: TransactionPort
  readonly records: RecordPort
  readonly producerSessions: ProducerSessionPort
  readonly redrives: RedrivePort
  readonly admin: AdminPort
  /** Settings of groups of every kind, for their coordinators. */
  readonly groupSettings: GroupSettings
  readonly #share: ShareService
  readonly #groups: GroupCoordinator
  readonly #transactions: TransactionCoordinator
  readonly #partitions: Partitions
  readonly #produce: ProduceService
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
    const { metadata, clock, random, log, logs, metrics } = deps
    const { nodeId, settings: configured } = options
    const settings = new BrokerSettings(configured).follow(() => metadata.image, nodeId)
    const partitions = new Partitions({ logs, clock, log, metrics }, { nodeId, settings: configured, lazyTopics: LAZY_TOPICS })
    const inflater = new Inflater({ codecs: deps.codecs, offload: deps.offload })
    this.#partitions = partitions
    this.fetch = new FetchService(
      { partitions, clock, metrics },
      { maxBytes: settings.number('fetch.max.bytes'), maxParked: options.maxParkedFetches ?? 20_000 },
    )
    this.cluster = new Cluster({ metadata }, { nodeId, settings })
    this.topics = new TopicService(
      { metadata, partitions, random, chooser: new PartitionChooser({ clock, random }) },
      { nodeId, settings, ...(options.defaultBackend === undefined ? {} : { defaultBackend: options.defaultBackend }) },
    )
    this.offsets = new OffsetQueries({ partitions })
    this.deletion = new RecordDeletion({ partitions, logs })
    this.admin = new AdminService({ metadata, logs, partitions, logLevels: deps.logLevels ?? null })
    this.groupSettings = new GroupSettings({ metadata, broker: settings })
    this.producers = new ProducerIds({ metadata, log }, { nodeId })
    const coordinators = openCoordinators(
      { ...deps, partitions, topics: this.topics, producers: this.producers, groupSettings: this.groupSettings },
      { nodeId, settings, names: options.producerNames ?? DEFAULT_NAME_EXPIRY },
    )
    this.#groups = coordinators.groups
    this.groups = this.#groups
    this.#transactions = coordinators.transactions
    this.transactions = this.#transactions
    this.#produce = new ProduceService(
      { partitions, inflater, clock, metrics, transactions: this.#transactions },
      { maxInflightBytes: options.maxInflightProduceBytes ?? 256 * MIB },
    )
    this.produce = this.#produce
    const packer = new BatchPacker({ codecs: deps.codecs, inflater })
    const producer = new RecordProducer(
      { partitions, clock, topics: this.topics, produce: this.#produce, packer },
      { maxQueuedBytes: options.maxQueuedRecordBytes ?? 128 * MIB, maxBatchBytes: MIB },
    )
    this.producerSessions = new ProducerSessions(
      { clock, log, topics: this.topics, producers: this.producers, transactions: this.#transactions },
      { partitions, clock, topics: this.topics, produce: this.#produce, packer },
    )
    this.records = new Records({ partitions, inflater, log, clock, producer, fetch: this.fetch, groups: this.groups, nacks: () => nacks })
    const { topics, offsets, records, groups, groupSettings, producerSessions } = this
    const { attempts, table } = this.#groups
    const { letters, nacks, redrives } = openLetters(
      { ...deps, partitions, topics, offsets, records, groups, groupSettings, producerSessions, attempts },
      options,
    )
    this.redrives = redrives
    const share = openShare(
      { ...deps, partitions, letters, records, stateTopic: coordinators.shareTopic, table, groupSettings },
      coordinators.shareKind,
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

  /** Answers what waits and lets side effects end. Logs and metadata stay open: whoever gave them closes them. */
  async close(): Promise<void> {
    this.#unsubscribe()
    this.fetch.close()
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
