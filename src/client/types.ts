import type { Clock } from '../core/clock.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import type { IsolationLevel, Resource } from '../core/types.ts'
import type { Net, NetAddress } from '../io/net.ts'

/** When the broker answers a produce: at once, after its sync, or after every in-sync replica has the record. */
export type ProduceAcks = 'none' | 'leader' | 'all'

export interface ClientOptions {
  /** `host:port`, or the two apart; of a list the first that can be reached. A broker that is not the leader may name another one. */
  readonly address: string | NetAddress | readonly (string | NetAddress)[]
  /** Who logs in; the default is nobody in particular. */
  readonly username?: string
  readonly password?: string
  /** Shown in the broker's log and group listings. */
  readonly name?: string
  /** Time to connect and log in, and for each request unless it says otherwise. Default 30,000. */
  readonly timeoutMs?: number
  /** Ends everything that the client waits for. */
  readonly signal?: AbortSignal
  readonly log?: Logger
  /** What an embedded broker or a test passes in; the machine's own by default. */
  readonly net?: Net
  readonly clock?: Clock
  readonly random?: Random
}

export interface RecordHeader {
  readonly key: string
  readonly value: Buffer | null
}

/** A record as it is read. Partition numbers start at 0. */
export interface ClientRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly timestampMs: number
  readonly key: Buffer | null
  /** Null: a tombstone. */
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

/** What is closed in order: it waits for what is under way, which a signal cuts short: that is then rejected, and its outcome is not known. */
export interface Closable extends Resource {
  close(control?: RequestControl): Promise<void>
}

/** Text is sent as UTF-8. */
export type Bytes = string | Uint8Array

export interface RecordToSend {
  readonly key?: Bytes | null
  readonly value: Bytes | null
  readonly headers?: readonly { readonly key: string; readonly value: Bytes | null }[]
  /** Chosen by the broker from the key when absent. */
  readonly partition?: number
}

export interface Acked {
  readonly partition: number
  /** −1 with acks none. */
  readonly offset: number
}

export interface ProducerOptions {
  /** Default `leader`. */
  readonly acks?: ProduceAcks
  /** How long a record may wait for others. Default 0: what is sent within one turn of the loop travels together. */
  readonly lingerMs?: number
  /** A batch is sent when it reaches this. Default 128 KiB. */
  readonly batchBytes?: number
  /** Records that are sent and not acknowledged yet; `send` waits above it. Default 16 MiB. */
  readonly maxPendingBytes?: number
  /**
   * What was sent and not acknowledged is sent again, also over a lost connection and a restart of the broker, and stored once. Default
   * true; never with acks `none`, nor with a broker that speaks version 1 of the protocol alone.
   */
  readonly idempotent?: boolean
  /** How long an idempotent producer tries before `send` is rejected. Default 120,000. */
  readonly deliveryTimeoutMs?: number
  /** Ends the producer: every `send` that is not acknowledged is rejected with ABORTED. What was sent by then may be stored all the same. */
  readonly signal?: AbortSignal
}

export interface TransactionalProducerOptions extends Omit<ProducerOptions, 'acks' | 'idempotent'> {
  /** How long a transaction may be open before the broker aborts it. Default 60,000. */
  readonly transactionTimeoutMs?: number
  /** As that of every transaction, and of opening the name. */
  readonly signal?: AbortSignal
}

/** What belongs to one transaction: all of it is seen, or nothing. */
export interface Transaction {
  send(topic: string, record: RecordToSend): Promise<Acked>
  sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]>
  /** Offsets of the next records to read; the group has them when the transaction is committed. */
  commitOffsets(group: string, offsets: readonly TransactionOffset[]): Promise<void>
  /** Fires when the transaction cannot be committed any more. */
  readonly signal: AbortSignal
}

export interface TransactionOffset {
  readonly topic: string
  readonly partition: number
  /** Of the next record to read. */
  readonly offset: number
}

/** The producer of a name, which one client has at a time: whoever opens it next fences this one. */
export interface TransactionalProducer extends Closable {
  readonly name: string
  /**
   * Runs the body in a transaction and commits it when the body returns, aborts it when it throws. Resolves to what the body returned
   * when the commit is durable. Transactions run one after another. Rejects with what the body threw, or with why it could not be
   * committed: `retriable` says that the body may run again, PRODUCER_FENCED that another client has the name. A signal aborts the transaction:
   * ABORTED, and nothing of it is ever seen. Only one that fires when the commit was asked for already ends in TRANSACTION_OUTCOME_UNKNOWN.
   */
  transaction<T>(body: (transaction: Transaction) => Promise<T>, options?: { readonly signal?: AbortSignal }): Promise<T>
}

export interface Producer extends Closable {
  /**
   * Resolves when the record is acknowledged. Records of one call order and partition keep their order. A signal gives the record up: one that
   * has not left is not sent, one that has may be stored all the same. Either way `send` is rejected with ABORTED.
   */
  send(topic: string, record: RecordToSend, control?: RequestControl): Promise<Acked>
  sendMany(topic: string, records: readonly RecordToSend[], control?: RequestControl): Promise<readonly Acked[]>
  /** Resolves when everything sent so far is acknowledged or rejected. A signal only ends the waiting. */
  flush(control?: RequestControl): Promise<void>
}

/** Where a reader begins in each partition. */
export type StartPosition = 'earliest' | 'latest' | { readonly offset: number } | { readonly timestampMs: number }

export interface ReaderOptions {
  readonly topic: string
  /** All partitions when absent. */
  readonly partitions?: readonly number[]
  /** Default `earliest`. */
  readonly from?: StartPosition
  /** Offsets of single partitions, before `from`. */
  readonly positions?: ReadonlyMap<number, number>
  /** Goes on waiting for new records instead of ending at the high watermark found at the start. Default false. */
  readonly follow?: boolean
  /** Default `read_uncommitted`, as in Kafka: records of open and aborted transactions are read too. */
  readonly isolation?: IsolationLevel
  /** Largest answer. Default 1 MiB. */
  readonly maxBytes?: number
  readonly signal?: AbortSignal
}

/** As of a reader that does not follow; how much of an answer each may have depends on how many they are. */
export interface PartitionReadersOptions extends Omit<ReaderOptions, 'partitions' | 'follow' | 'maxBytes'> {
  readonly partitions: readonly number[]
}

/** Reads without a group: nothing is committed. Order holds within a partition. */
export interface Reader extends Closable, AsyncIterable<ClientRecord> {}

export interface ConsumerOptions {
  readonly group: string
  readonly topics: readonly string[]
  /** Records of one request. Default 500. */
  readonly maxRecords?: number
  /** Default `read_uncommitted`, as in Kafka: records of open and aborted transactions are read too. */
  readonly isolation?: IsolationLevel
  /** `after`: a record is committed once the loop asks for the next one. `manual`: only `commit` commits. Default `after`. */
  readonly commit?: 'after' | 'manual'
  /** Its id in the group, of no other member: partitions are dealt in the order of ids. The broker chooses one when absent. */
  readonly memberId?: string
  /** How long the others of the group wait for a partition that this consumer is to let go of, before it is dropped. Default 60,000. */
  readonly rebalanceTimeoutMs?: number
  /** Hears of what happens to the consumer in its group. A partition is let go when this has resolved: for those who commit by hand. */
  readonly onChange?: (change: GroupChange) => void | Promise<void>
  /** Pause between requests when there was nothing. Default 100. */
  readonly idleMs?: number
  /** Ends the iteration at the first request that brings nothing, instead of waiting for more. Default false. */
  readonly endWhenIdle?: boolean
  readonly signal?: AbortSignal
}

/** A partition comes by `assigned` and goes by `revoked`, after what was done of it is committed, or by `lost`, when that is too late. */
export interface GroupChange {
  readonly kind: 'joined' | 'assigned' | 'revoked' | 'lost' | 'left'
  readonly group: string
  readonly memberId: string
  /** Of the group: rises with every change of its members or topics. */
  readonly epoch: number
  readonly partitions: readonly AssignedPartitions[]
}

/** Reads as a member of a group, from its committed offsets: of all its members each partition goes to one. */
export interface Consumer extends Closable, AsyncIterable<ClientRecord> {
  /** Empty before it has joined, unless it was chosen. */
  readonly memberId: string
  /** What it reads now. */
  readonly assignment: readonly AssignedPartitions[]
  /** Stores that the record, and all before it in its partition, are done. Resolves when that is synced. */
  commit(record: ClientRecord, control?: RequestControl): Promise<void>
}

export interface PushConsumerOptions {
  readonly group: string
  readonly topics: readonly string[]
  /**
   * Where partitions begin. Default `committed`: where the group is, at the earliest record where it is nowhere. Anything else is for a
   * consumer that is no member.
   */
  readonly from?: StartPosition | 'committed'
  /** Default `read_uncommitted`, as in Kafka: records of open and aborted transactions are read too. */
  readonly isolation?: IsolationLevel
  /** Of records that were pushed and not taken by the loop. Default 4 MiB; one record may be larger. */
  readonly maxBytes?: number
  /** Likewise. Default 10,000. */
  readonly maxRecords?: number
  /** `after`: a record is done once the loop asks for the next one, unless it was refused. `manual`: only `ack` says so. Default `after`. */
  readonly commit?: 'after' | 'manual'
  /**
   * A member shares the partitions with the other members of the group. Otherwise it reads all of them, whoever else does. Default true,
   * unless `from` says where to begin or the group has no name.
   */
  readonly member?: boolean
  /** As of a consumer that pulls. */
  readonly memberId?: string
  /** Likewise. */
  readonly rebalanceTimeoutMs?: number
  /** Likewise. */
  readonly onChange?: (change: GroupChange) => void | Promise<void>
  /** Ends the loop with ABORTED. What it was not done with comes again. */
  readonly signal?: AbortSignal
}

/** A record of a push consumer, which is answered for by itself. */
export interface PushedRecord extends ClientRecord {
  /**
   * The record is done; resolves when that is synced, over a lost connection too. Rejects with GROUP_MEMBER_UNKNOWN when its partition went to
   * another member before. A signal only ends the waiting: it stays done.
   */
  ack(control?: RequestControl): Promise<void>
  /**
   * It could not be processed: it comes again, after the delays of its topic where it has some, and becomes a dead letter at last. Resolves
   * when that is synced. `attempts` is 0 when the connection broke or the partition went to another member, after which the record comes again. Of
   * the reason 1,024 bytes are kept. After ABORTED the record was refused or not, and comes again unless it is a dead letter by that.
   */
  nack(reason?: string, control?: RequestControl): Promise<NackResult>
}

/** Records of a group as the broker pushes them, from the moment that they are durable. */
export interface PushConsumer extends Closable, AsyncIterable<PushedRecord> {
  /** Empty before it has joined, unless it was chosen, and outside of the membership. */
  readonly memberId: string
  /** What it reads now as a member. */
  readonly assignment: readonly AssignedPartitions[]
}

export interface TopicSummary {
  readonly name: string
  readonly partitions: number
}

/** Every offset is −1 when the partition is offline because its files are damaged or its disk failed. */
export interface PartitionDescription {
  readonly partition: number
  readonly earliest: number
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly logEndOffset: number
}

export interface TopicDescription {
  readonly name: string
  readonly id: string
  readonly partitions: readonly PartitionDescription[]
  /** Only what was set, Kafka's names. */
  readonly config: ReadonlyMap<string, string>
}

/** A setting of a topic as it is in force. */
export interface TopicSettingValue {
  readonly name: string
  readonly value: string
  /** What it is when nobody sets it. */
  readonly default: string
  /** Whether the topic set it, its backend means it, the broker sets it for all topics, or nobody did. */
  readonly source: 'topic' | 'backend' | 'broker' | 'default'
  /** The setting that gave the value, where it is another one. */
  readonly from: string
  /** Chosen when the topic was made. */
  readonly fixed: boolean
  readonly documentation: string
}

export interface TopicConfigChange {
  readonly set?: Readonly<Record<string, string>>
  /** Settings that go back to their defaults. */
  readonly unset?: readonly string[]
  /** Only ask whether it could be done. Default false. */
  readonly validateOnly?: boolean
}

/** All −1 while the broker cannot serve the partition. */
export interface TopicOffsets {
  readonly partition: number
  readonly earliest: number
  readonly latest: number
  readonly highWatermark: number
  readonly lastStableOffset: number
  /** With a time: the offset, or null when every record is older. */
  readonly forTime: number | null
}

export interface CommittedOffsets {
  readonly topic: string
  /** By partition. */
  readonly offsets: readonly number[]
}

export interface GroupSummary {
  readonly group: string
  readonly state: string
  readonly members: number
  /** `classic`, `consumer`, `share` or `native`: how its members speak. Absent where the broker does not say. */
  readonly kind?: string
}

export interface GroupMemberDescription extends GroupAssignment {
  readonly clientId?: string
  readonly clientHost?: string
}

export interface GroupOffset {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

export interface GroupDescription {
  readonly group: string
  readonly state: string
  readonly kind?: string
  /** Rises with every change of members or topics. */
  readonly epoch?: number
  readonly members: readonly GroupMemberDescription[]
  /** With the high watermark of the partition as `end`, −1 where it is gone: what lies between is the lag. */
  readonly offsets: readonly (GroupOffset & { readonly end?: number })[]
}

export interface ListOffsetsOptions extends RequestControl {
  readonly timestampMs?: number
}

/** What every request may be given besides. */
export interface RequestControl {
  /** Gives it up: ABORTED. What was sent may be done all the same. */
  readonly signal?: AbortSignal
}

export interface NewTopicOptions extends RequestControl {
  /** Default: as many as the broker's `num.partitions` says. */
  readonly partitions?: number
  /** A topic that is there already is left as it is, whatever its partitions and settings. Default false: TOPIC_EXISTS. */
  readonly ifNotExists?: boolean
  readonly config?: Readonly<Record<string, string>>
}

export interface Admin {
  createTopic(name: string, options?: NewTopicOptions): Promise<void>
  /** By name; internal topics are left out. */
  listTopics(control?: RequestControl): Promise<readonly TopicSummary[]>
  describeTopic(name: string, control?: RequestControl): Promise<TopicDescription>
  /** Every setting in force, sorted by name. */
  describeTopicConfig(name: string, control?: RequestControl): Promise<readonly TopicSettingValue[]>
  /** Changes settings while the topic is used, all or none. Returns the names of those that changed. */
  alterTopicConfig(name: string, change: TopicConfigChange, control?: RequestControl): Promise<readonly string[]>
  deleteTopic(name: string, control?: RequestControl): Promise<void>
  /** Bounds of every partition, and with a time the first offset at or after it. */
  listOffsets(topic: string, options?: ListOffsetsOptions): Promise<readonly TopicOffsets[]>
  /** Where the group is in each partition of each topic, in the order of `topics`; −1 without a commit. */
  committedOffsets(group: string, topics: readonly string[], control?: RequestControl): Promise<readonly CommittedOffsets[]>
  /** Groups of every kind. */
  listGroups(control?: RequestControl): Promise<readonly GroupSummary[]>
  describeGroup(group: string, control?: RequestControl): Promise<GroupDescription>
  /** Puts a group without members to these offsets: the next records that it reads. */
  storeOffsets(group: string, offsets: readonly GroupOffset[], control?: RequestControl): Promise<void>
  /** The group forgets where it is in these partitions. Refused for topics that a member reads. */
  deleteOffsets(group: string, places: readonly Omit<GroupOffset, 'offset'>[], control?: RequestControl): Promise<void>
  /** A group without members, with its offsets. */
  deleteGroup(group: string, control?: RequestControl): Promise<void>
  /** `total` is the new number of partitions. */
  createPartitions(name: string, total: number, control?: RequestControl): Promise<void>
  /**
   * Sends the dead letters at these offsets back to their topics, all of them or none. A letter goes back once, however often it is asked for:
   * after an error the same call may be repeated. At most 10,000 offsets.
   */
  redrive(topic: string, partition: number, offsets: readonly number[], control?: RequestControl): Promise<Redriven>
  /** Deletes the records before `offset`, or all that consumers can see. Returns where the partition begins now. */
  deleteRecords(topic: string, partition: number, offset: number | 'all', control?: RequestControl): Promise<number>
}

/** Of the offsets of one call: sent back now, sent back before, and no dead letters or of a topic that is gone. */
export interface Redriven {
  readonly redriven: number
  readonly already: number
  readonly missing: number
}

export interface AssignedPartitions {
  readonly topic: string
  readonly partitions: readonly number[]
}

/** What a member of a group may read. */
export interface GroupAssignment {
  readonly memberId: string
  readonly assignment: readonly AssignedPartitions[]
}

export interface NackResult {
  /** The record is in `deadLetterTopic` now; else it comes again. */
  readonly deadLettered: boolean
  /** How often it was refused. */
  readonly attempts: number
  readonly deadLetterTopic: string
}

export interface SessionFetchOptions extends RequestControl {
  readonly isolation?: IsolationLevel
  /** Of one answer; a single record may be larger. A broker without the extension of the protocol gives what it likes. */
  readonly maxBytes?: number
}

/**
 * The requests of one consumer that asks, for tools that leave to a person what comes when. Programs are better served by `consumer`.
 * Positions and membership are those of its connection: when that is gone, the session is over.
 */
export interface Session extends Resource {
  readonly open: boolean
  /**
   * From where the group is in each partition; what is delivered counts as read. All calls must name the same group and isolation. A broker without
   * the extension of the protocol gives no headers, the empty text for null, and nothing above 64 KiB.
   */
  fetch(topic: string, group: string, maxRecords: number, options?: SessionFetchOptions): Promise<readonly ClientRecord[]>
  /** The next offset to deliver to later consumers of the group. */
  commit(topic: string, partition: number, offset: number, control?: RequestControl): Promise<void>
  nack(topic: string, partition: number, offset: number, reason: string, control?: RequestControl): Promise<NackResult>
  join(group: string, topics: readonly string[], control?: RequestControl): Promise<GroupAssignment>
  heartbeat(group: string, memberId: string, control?: RequestControl): Promise<void>
  leave(group: string, memberId: string, control?: RequestControl): Promise<void>
}

/** One connection's worth of MoonMQ over the native protocol; made by `connect`. */
export interface Client extends Closable {
  readonly admin: Admin
  /** What the broker calls itself. */
  readonly server: { readonly name: string; readonly version: string }
  producer(options?: ProducerOptions): Producer
  /** Opens the name: whoever had it is fenced, and what that one left open is aborted when this resolves. */
  transactionalProducer(name: string, options?: TransactionalProducerOptions): Promise<TransactionalProducer>
  reader(options: ReaderOptions): Reader
  /** A reader for each of the partitions to where it ends now, all on one connection, whose records can so be merged. Each is to be closed. */
  partitionReaders(options: PartitionReadersOptions): readonly Reader[]
  consumer(options: ConsumerOptions): Consumer
  /** Needs a broker with the extension of the protocol. */
  pushConsumer(options: PushConsumerOptions): PushConsumer
  /** Its connection is made by the first request. */
  session(): Session
}
