import type { MoonMQError } from '../core/errors.ts'
import type { IsolationLevel } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { ConfigChange } from '../metadata/config-plans.ts'
import type { MetadataImage, TopicImage } from '../metadata/types.ts'
import type { RecordHeader } from '../record/record.ts'
import type { AbortedTransaction, EpochEnd, LogRead, ProducerEntry, TimestampOffset } from '../storage/types.ts'
import type { RequestContext } from './context.ts'
import type { GroupPort } from './group-ports.ts'
import type { GroupMembership } from './member-ports.ts'
import type { Acks, ProducerSessionPort, RecordContent } from './producer-ports.ts'
import type { SharePort } from './share-ports.ts'
import type { TransactionPort, TransactionSupport } from './txn-ports.ts'

export type * from './group-ports.ts'
export type * from './member-ports.ts'
export type * from './producer-ports.ts'
export type * from './share-ports.ts'
export type * from './txn-ports.ts'
export { TXN_STATES } from './txn-ports.ts'

/**
 * What the doors ask of the broker (DESIGN D1, section 4). Doors translate; every rule is behind these calls. Partition
 * numbers start at 0, a topic is named by its name: a door that was given an id resolves it through `topics`.
 */
export interface BrokerPorts {
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
  readonly admin: AdminPort
}

// ---- cluster --------------------------------------------------------------------------------------------------------------

export interface AdvertisedBroker {
  readonly id: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface ClusterPort {
  readonly nodeId: number
  readonly clusterId: Uuid
  readonly image: MetadataImage
  /** Kafka's broker settings that are in force, by dotted name. */
  readonly settings: ReadonlyMap<string, string>
  /** Every feature with the level in force. */
  readonly features: readonly FeatureLevel[]
}

/** A switch of the whole cluster (KIP-584). */
export interface FeatureLevel {
  readonly name: string
  /** Levels that this broker can run at. */
  readonly min: number
  readonly max: number
  /** 0 = switched off. */
  readonly level: number
}

// ---- administration --------------------------------------------------------------------------------------------------------

export interface FeatureUpdate {
  readonly name: string
  readonly level: number
  readonly kind: 'upgrade' | 'downgrade' | 'unknown'
}

/** The folder of the logs and its volume; infinite where there is no limit. */
export interface LogFolder {
  readonly path: string
  readonly freeBytes: number
  readonly totalBytes: number
}

export interface PartitionSize {
  readonly partition: number
  readonly sizeBytes: number
}

export interface AdminPort {
  /** Of the log of metadata. */
  readonly metadataEpoch: number
  readonly folder: string
  /** Level by logger, in Kafka's words. Empty when the log is not the broker's own. */
  readonly logLevels: ReadonlyMap<string, string>
  /** All or none, durable when it resolves. Throws FEATURE_UPDATE_REFUSED. */
  updateFeatures(context: RequestContext, updates: readonly FeatureUpdate[], options?: { validateOnly?: boolean }): Promise<void>
  describeFolder(context: RequestContext): Promise<LogFolder>
  /** Of a topic's partitions whose logs are in the folder. */
  sizes(context: RequestContext, topic: string): readonly PartitionSize[]
  /** Until the broker stops. Throws CONFIG_INVALID. */
  setLogLevel(context: RequestContext, logger: string, level: string, options?: { validateOnly?: boolean }): void
}

// ---- topics ---------------------------------------------------------------------------------------------------------------

export interface CreateTopic {
  readonly name: string
  /** −1 = the broker's `num.partitions`. */
  readonly partitions: number
  /** −1 = the default. */
  readonly replicationFactor: number
  /** Replicas by partition; empty = the broker chooses. */
  readonly assignments: ReadonlyMap<number, readonly number[]>
  readonly config: ReadonlyMap<string, string | null>
}

export interface ConfigValue {
  readonly name: string
  readonly value: string | null
  /** Kafka's ConfigSource: 1 topic, 2 dynamic broker, 3 dynamic default broker, 4 static broker, 5 default, 6 logger, 8 group. */
  readonly source: number
  readonly readOnly: boolean
  readonly sensitive: boolean
  /** Kafka's ConfigType: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password. */
  readonly type: number
  readonly documentation: string
  readonly synonyms: readonly { readonly name: string; readonly value: string | null; readonly source: number }[]
}

/** A change of the settings of one topic, broker or group. */
export interface AlterConfig {
  readonly name: string
  /** One after another: the last one of a name wins. */
  readonly changes: readonly ConfigChange[]
  /** What is not among the changes goes back to its default. Default false. */
  readonly replace?: boolean
  /** Only says whether it could be done. Default false. */
  readonly validateOnly?: boolean
}

/** A partition that takes no records at the moment. */
export interface OfflinePartition {
  readonly partition: number
  readonly reason: MoonMQError
  /** What was acknowledged can be read meanwhile. */
  readonly isReadable: boolean
}

export interface TopicPort {
  /** Throws TOPIC_MISSING. */
  get(name: string): TopicImage
  find(name: string): TopicImage | undefined
  findById(id: Uuid): TopicImage | undefined
  /** Sorted by name. */
  list(): readonly TopicImage[]
  /** Partitions whose log failed or could not be opened, by number; empty while all is well. */
  offline(topic: TopicImage): ReadonlyMap<number, OfflinePartition>
  /** Checks and creates; the log folders exist when it resolves. With `validateOnly` nothing is made. */
  create(context: RequestContext, topic: CreateTopic, options?: { validateOnly?: boolean }): Promise<TopicImage>
  /** Creates with defaults unless it exists: Kafka's auto-creation. */
  ensure(context: RequestContext, name: string): Promise<TopicImage>
  delete(context: RequestContext, name: string): Promise<TopicImage>
  createPartitions(context: RequestContext, name: string, total: number, options?: { validateOnly?: boolean }): Promise<TopicImage>
  /**
   * Changes settings, all or none; the logs have them when it resolves. The answer is the names of those that changed. Throws
   * TOPIC_MISSING, CONFIG_INVALID, and for native clients TOPIC_FORBIDDEN.
   */
  alterConfig(context: RequestContext, change: AlterConfig): Promise<readonly string[]>
  /** The same for settings of this broker, or of all with the name ''. Throws INVALID_REQUEST for what a restart needs. */
  alterBrokerConfig(context: RequestContext, change: AlterConfig): Promise<readonly string[]>
  /** The same for settings of a group. Throws INVALID_REQUEST without a name, CONFIG_INVALID. */
  alterGroupConfig(context: RequestContext, change: AlterConfig): Promise<readonly string[]>
  /** The same for a subscription to client metrics. Throws INVALID_REQUEST. */
  alterTelemetryConfig(context: RequestContext, change: AlterConfig): Promise<readonly string[]>
  /** Every topic setting with its value and where it comes from. */
  describeConfig(context: RequestContext, name: string): readonly ConfigValue[]
  /** Every broker setting likewise. */
  describeBrokerConfig(context: RequestContext): readonly ConfigValue[]
  /** Every group setting likewise; the group need not exist. */
  describeGroupConfig(context: RequestContext, group: string): readonly ConfigValue[]
  /** Every setting of a subscription to client metrics likewise; none when there is no such subscription. */
  describeTelemetryConfig(context: RequestContext, name: string): readonly ConfigValue[]
  /** The partition for a key by the topic's `moonmq.partitioner`, or a sticky one when the key is null or empty. */
  partitionFor(topic: TopicImage, key: Buffer | null): number
}

// ---- produce --------------------------------------------------------------------------------------------------------------

export interface ProducePartition {
  readonly topic: string
  readonly partition: number
  /** Exactly one record batch. The broker owns the bytes from here on and changes them in place. */
  readonly batch: Buffer
}

export interface ProduceRequest {
  readonly acks: Acks
  readonly timeoutMs: number
  readonly transactionalId: string | null
  /** What the client of a transaction can take. Default `verify`. */
  readonly support?: TransactionSupport
  readonly partitions: readonly ProducePartition[]
}

export interface ProduceOutcome {
  readonly error: MoonMQError | null
  /** −1 with an error. */
  readonly baseOffset: number
  readonly logAppendTimeMs: number
  readonly logStartOffset: number
}

/** The appends are done and ordered; what is left is waiting for durability. */
export interface ProduceTicket {
  /** In the order of the request. Never rejects: a failure is in the outcome. Already settled for acks none. */
  settled(): readonly ProduceOutcome[] | Promise<readonly ProduceOutcome[]>
}

export interface ProducePort {
  /**
   * Step 4 and 5 of DESIGN section 4. Returns at once unless a codec must be loaded or inflated off the loop. There is no await
   * between a sequence check and its offset assignment.
   */
  append(context: RequestContext, request: ProduceRequest): ProduceTicket | Promise<ProduceTicket>
}

// ---- fetch ----------------------------------------------------------------------------------------------------------------

export interface FetchPartition {
  readonly topic: string
  readonly partition: number
  readonly fetchOffset: number
  readonly maxBytes: number
  /** −1 = do not check. */
  readonly currentLeaderEpoch: number
  readonly lastFetchedEpoch: number
}

export interface FetchRequest {
  readonly partitions: readonly FetchPartition[]
  readonly isolation: IsolationLevel
  readonly maxWaitMs: number
  readonly minBytes: number
  readonly maxBytes: number
}

export interface FetchedPartition {
  readonly topic: string
  readonly partition: number
  readonly error: MoonMQError | null
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly logStartOffset: number
  /** For read committed only, else null. */
  readonly aborted: readonly AbortedTransaction[] | null
  readonly divergingEpoch: EpochEnd | null
  readonly read: LogRead | null
}

export interface Fetched {
  /** In the order of the request. */
  readonly partitions: readonly FetchedPartition[]
  /** Gives back the memory of every read: after the bytes were handed to the socket. */
  release(): void
}

/** Partitions that are fetched again and again, by the objects that ask for them, which may change between two requests. */
export interface FollowedPartitions {
  /** Also when what is asked of one has changed. */
  add(partition: FetchPartition): void
  remove(partition: FetchPartition): void
  /** Ends a request that waits. */
  close(): void
}

export interface FetchedFollowed extends Fetched {
  /** What was asked for, one for each of `partitions`. */
  readonly asked: readonly FetchPartition[]
}

export interface FetchPort {
  /** Waits up to `maxWaitMs` for `minBytes`; ends at once on an error, new data, deletion, shutdown or when the signal fires. */
  fetch(context: RequestContext, request: FetchRequest): Promise<Fetched>
  follow(): FollowedPartitions
  /** The same for those of its partitions that may have something new; others are not in the answer. */
  fetchFollowed(context: RequestContext, followed: FollowedPartitions, request: Omit<FetchRequest, 'partitions'>): Promise<FetchedFollowed>
}

// ---- offsets --------------------------------------------------------------------------------------------------------------

export interface PartitionOffsets {
  readonly partition: number
  readonly earliest: number
  /** Next offset to be written. */
  readonly logEndOffset: number
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly leaderEpoch: number
}

export type ProducerDescription = ProducerEntry

export interface OffsetPort {
  bounds(context: RequestContext, topic: string, partition: number): PartitionOffsets
  /** First record at or after the time that a reader of this isolation can see; null when there is none. */
  forTimestamp(
    context: RequestContext,
    topic: string,
    partition: number,
    timestampMs: number,
    isolation: IsolationLevel,
  ): Promise<TimestampOffset | null>
  /** The idempotent and transactional producers that a partition knows of. */
  producers(context: RequestContext, topic: string, partition: number): readonly ProducerDescription[]
  ofMaxTimestamp(context: RequestContext, topic: string, partition: number): Promise<TimestampOffset | null>
  /** KIP-101; throws LEADER_EPOCH_FENCED and LEADER_EPOCH_UNKNOWN. */
  endOfEpoch(context: RequestContext, topic: string, partition: number, currentLeaderEpoch: number, leaderEpoch: number): EpochEnd
}

// ---- deletion -------------------------------------------------------------------------------------------------------------

export interface DeletionPort {
  /**
   * Deletes every record before `offset`; −1 = all that consumers can see. Durable when it resolves, with the partition's new start. Throws
   * POLICY_VIOLATION where `cleanup.policy` has no delete, OFFSET_OUT_OF_RANGE beyond the high watermark.
   */
  deleteBefore(context: RequestContext, topic: string, partition: number, offset: number): Promise<number>
}

// ---- producers ------------------------------------------------------------------------------------------------------------

export interface ProducerPort {
  /** A fresh producer id with epoch 0, from the block that the metadata log records. */
  newProducerId(context: RequestContext): Promise<{ readonly producerId: number; readonly producerEpoch: number }>
}

// ---- records --------------------------------------------------------------------------------------------------------------

/**
 * For the doors that speak of single records rather than batches: native and HTTP. What the Kafka door leaves to its clients (choosing
 * partitions, making batches, inflating, skipping control and aborted records) is done here.
 */
export interface RecordPort {
  /** One outcome a record, in order. Records of one call and one partition keep their order. Never rejects for a single record. */
  produce(context: RequestContext, records: readonly OutgoingRecord[], options: RecordProduceOptions): Promise<readonly RecordOutcome[]>
  /** Reads one partition without a group. Throws what the partition is refused with, OFFSET_OUT_OF_RANGE included. */
  read(context: RequestContext, request: ReadRecordsRequest): Promise<RecordsRead>
  /** The same for many partitions of a topic, waiting on all of them at once; what a partition is refused with is in its part. */
  readTopic(context: RequestContext, request: ReadTopicRequest): Promise<TopicRead>
  openConsumer(context: RequestContext, options: ConsumerOptions): RecordConsumer
  /** A consumer whose records are answered for one by one. */
  openStream(context: RequestContext, options: ConsumerOptions): RecordStream
}

export interface OutgoingRecord extends RecordContent {
  readonly topic: string
  /** Null: by the hash of the key, or the broker's choice when the key is null or empty. */
  readonly partition: number | null
}

export interface RecordProduceOptions {
  readonly acks: Acks
  /** How the batch is stored: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. */
  readonly codec: number
  readonly timeoutMs: number
  /** After a record that is refused none of the later ones is taken: for a client that is told of a prefix and sends the rest again. */
  readonly stopAtRefusal?: boolean
}

export interface RecordOutcome {
  readonly error: MoonMQError | null
  /** −1 when none was chosen. */
  readonly partition: number
  /** −1 with an error. */
  readonly offset: number
}

/** A record as a reader gets it. Key, value and headers are views that are valid until the answer's `release()`. */
export interface DeliveredRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly timestampMs: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

export interface ReadRecordsRequest {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly isolation: IsolationLevel
  readonly maxRecords: number
  readonly maxBytes: number
  readonly maxWaitMs: number
}

export interface RecordsRead {
  readonly records: readonly DeliveredRecord[]
  /** Where to go on: after the last record, or past what is hidden from the reader. */
  readonly nextOffset: number
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly logStartOffset: number
  release(): void
}

/** What a client can be given. Absent: no limit. */
export interface RecordLimits {
  /** Largest key or value; larger ones are VALUE_TOO_LARGE_FOR_CLIENT. */
  readonly maxPartBytes?: number
  /** What a record takes on its way to the client, by which limits of bytes count. Absent: what it takes in the log. */
  readonly recordBytes?: (record: DeliveredRecord) => number
  /** Largest of those; larger ones are VALUE_TOO_LARGE_FOR_CLIENT. */
  readonly maxRecordBytes?: number
}

export interface ReadTopicRequest extends RecordLimits {
  readonly topic: string
  readonly partitions: readonly { readonly partition: number; readonly offset: number }[]
  readonly isolation: IsolationLevel
  readonly maxRecords: number
  readonly maxBytes: number
  readonly maxWaitMs: number
}

export interface PartitionRecords {
  readonly partition: number
  readonly error: MoonMQError | null
  readonly records: readonly DeliveredRecord[]
  /** Where to go on; the offset asked for with an error. */
  readonly nextOffset: number
  /** −1 where the partition is not known. */
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly logStartOffset: number
}

export interface TopicRead {
  /** In the order of the request. */
  readonly partitions: readonly PartitionRecords[]
  release(): void
}

export interface ConsumerOptions extends RecordLimits {
  readonly group: string
  readonly isolation: IsolationLevel
  /** The place in a group of whoever reads, null while there is none: a member is given the partitions that are granted to it alone. */
  readonly membership?: () => GroupMembership | null
  /** Dead letters come as the envelopes of version 1 of the native protocol. Default false. */
  readonly withEnvelopes?: boolean
}

/** What a group commits when a record that failed is delivered again, and when it is done with. Everything below is answered for. */
export interface NackPlaces {
  readonly again: number
  readonly done: number
}

/** What became of a record that a consumer refused; durable. */
export interface HeldNack {
  /** `again`: it is delivered again. `later`: from the retry topic `topic`. `moved`: it is in the dead-letter topic `topic`, or nowhere where that is empty. */
  readonly kind: 'again' | 'later' | 'moved'
  /** Deliveries that have failed by now. */
  readonly attempts: number
  readonly topic: string
  /** Moves the position and lets the partition be read on: in the turn in which the answer takes its place before what is read then. */
  settle(): void
}

/** Records of one poll. The owner releases it when they were handed on. */
export interface ConsumerRound {
  readonly records: readonly DeliveredRecord[]
  /** A position went on, though perhaps past nothing that is shown. */
  readonly isMoved: boolean
  /**
   * Stores the positions after the last delivered records, once a partition. Resolves after the append, not after its sync; what a
   * partition is refused with is logged only (docs/PROTOCOL.md). `roundsBehind`: so many rounds before this one may still be with the client,
   * default 1; what was given before them and was not refused since is taken for done.
   */
  commit(roundsBehind?: number): Promise<void>
  /** What was read could not be handed on: the next poll finds it again. Instead of `commit`. */
  giveBack(): void
  release(): void
}

/** One consumer of a connection (docs/PROTOCOL.md): a group id, an isolation level, a set of topics that grows, and positions. */
export interface RecordConsumer {
  readonly group: string
  readonly isolation: IsolationLevel
  readonly topics: readonly string[]
  /** Throws TOPIC_MISSING, TOPIC_FORBIDDEN. */
  addTopic(topic: string): void
  /**
   * Reads all topics of the set, at most ceil(maxRecords / partitions) from each partition. Never waits for records. `onGiven` is called with
   * the records in the turn in which the positions move past them.
   */
  poll(maxRecords: number, maxBytes: number, onGiven?: (records: readonly DeliveredRecord[]) => void): Promise<ConsumerRound>
  /** Position of a partition, or undefined before its first poll. Another object: the partition was begun anew, by this client or after another had it. */
  position(topic: string, partition: number): { readonly offset: number } | undefined
  /** What was read of it and not handed on yet is not stored any more. */
  removeTopic(topic: string): void
  /** Where a partition begins instead of at the group's offset. */
  begin(topic: string, partition: number, offset: number): void
  /** Finds where the group is in every partition of the set, so that what refuses it is thrown here and not by a poll. */
  prepare(): Promise<void>
  /**
   * The record failed (DESIGN D11). Its partition is not read until `settle` was called. `places`: somebody else looks after positions, and
   * says what the group commits; absent: the position goes back to the record, or past it. Throws INVALID_REQUEST for what was not given.
   */
  nack(topic: string, partition: number, offset: number, reason: string, places?: NackPlaces): Promise<HeldNack>
  /** Stores positions for the group, as its member where it is one. Durable when it resolves; throws the first refusal. */
  store(positions: readonly { readonly topic: string; readonly partition: number; readonly offset: number }[]): Promise<void>
  /** Calls `wake` when a poll may find more than the one before. One at a time. Returns how to stop. */
  watch(wake: () => void): () => void
  /** It is called at this wall time too. */
  wakeAt(timeMs: number): void
}

/** Neighbouring records of a partition that a client is done with. */
export interface SettledRange {
  readonly topic: string
  readonly partition: number
  readonly first: number
  readonly last: number
}

/**
 * A consumer whose client answers for each record (docs/PROTOCOL.md): the group's offset is before the first that is not answered for.
 * What failed is delivered again by itself. Nothing is committed but by `settle`.
 */
export interface RecordStream {
  readonly consumer: RecordConsumer
  /** Records that failed first, then new ones. The caller releases it. */
  next(maxRecords: number, maxBytes: number): Promise<StreamRound>
  /** Positions are durable when it resolves. Offsets that are not with the client are passed over. */
  done(ranges: readonly SettledRange[]): Promise<void>
  /** The record failed; what became of it is durable. Throws INVALID_REQUEST for one that is not with the client. */
  failed(topic: string, partition: number, offset: number, reason: string): Promise<Pick<HeldNack, 'kind' | 'attempts' | 'topic'>>
  removeTopic(topic: string): void
}

export interface StreamRound {
  readonly records: readonly DeliveredRecord[]
  /** Another one may find more. */
  readonly isMore: boolean
  release(): void
}

/** Of the offsets of one request: sent back now, sent back before, and not there or of a topic that is gone. */
export interface Redriven {
  readonly redriven: number
  readonly already: number
  readonly missing: number
}

export interface RedrivePort {
  /** Sends dead letters back to their topics, all of them or none. Durable when it resolves. A letter goes back once. */
  redrive(context: RequestContext, topic: string, partition: number, offsets: readonly number[]): Promise<Redriven>
}

/** The broker with the records on top: what `native` and `http` are given. */
export interface RecordPorts extends BrokerPorts {
  readonly records: RecordPort
  readonly producerSessions: ProducerSessionPort
  readonly redrives: RedrivePort
}
