import type { Uuid } from '../core/uuid.ts'

/** State of one partition (DESIGN D8). */
export interface PartitionImage {
  readonly partition: number
  readonly leader: number
  readonly leaderEpoch: number
  readonly partitionEpoch: number
  readonly replicas: readonly number[]
  readonly isr: readonly number[]
}

export interface TopicImage {
  readonly name: string
  readonly id: Uuid
  readonly internal: boolean
  /** By partition number, dense from 0. */
  readonly partitions: readonly PartitionImage[]
  /** Only what was set: Kafka's names, and `moonmq.*` for what Kafka lacks (DESIGN D7). */
  readonly config: ReadonlyMap<string, string>
}

export interface BrokerEndPoint {
  readonly name: string
  readonly host: string
  readonly port: number
  /** Kafka's SecurityProtocol: 0 plaintext, 1 TLS, 2 SASL, 3 SASL over TLS. */
  readonly securityProtocol: number
}

export interface BrokerImage {
  readonly id: number
  /** Offset of its registration. */
  readonly epoch: number
  readonly incarnationId: Uuid
  readonly fenced: boolean
  readonly inControlledShutdown: boolean
  readonly rack: string | null
  readonly endPoints: readonly BrokerEndPoint[]
}

/** The fold of the metadata log. Never changed; each change makes a new one that shares what stayed the same. */
export interface MetadataImage {
  readonly clusterId: Uuid
  /** Offset after the last record folded in. */
  readonly nextOffset: number
  readonly topics: ReadonlyMap<string, TopicImage>
  readonly topicsById: ReadonlyMap<Uuid, TopicImage>
  readonly brokers: ReadonlyMap<number, BrokerImage>
  /** Settings of the broker that were set while running: '' = all brokers, else the node id in decimal. */
  readonly brokerConfigs: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Settings of subscriptions to client metrics (resource type 16). */
  readonly telemetryConfigs: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Settings of groups (resource type 32). */
  readonly groupConfigs: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Finalized feature levels; 0 = switched off, absent = never said. */
  readonly features: ReadonlyMap<string, number>
  /** First producer id of the next block. */
  readonly nextProducerId: number
}

/** A record of the metadata log: the name and fields of `kafka/records.json`. */
export interface MetadataRecord {
  readonly name: string
  readonly version: number
  readonly fields: Readonly<Record<string, unknown>>
}

/** A change: what to append, and what to answer once it is committed. Throws a MoonMQError to refuse. */
export interface MetadataChange<T> {
  readonly records: readonly MetadataRecord[]
  readonly result: T
}

/** What `broker` uses of the metadata log; `MetadataLog` implements it. */
export interface Metadata {
  /** Of the log of metadata itself: one more at each start. */
  readonly epoch: number
  readonly image: MetadataImage
  /**
   * Runs `plan` against the committed image, appends its records as one batch and resolves when they are synced and applied.
   * Changes run one after another. `plan` is pure: ids, times and epochs that it needs are passed in by its maker.
   */
  change<T>(plan: (image: MetadataImage) => MetadataChange<T>): Promise<T>
  /** Called after each change with the image before and after. Side effects follow from the difference and may repeat. */
  subscribe(listener: (before: MetadataImage, after: MetadataImage) => void): () => void
}
