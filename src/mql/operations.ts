/**
 * What statements do, as an interface: the command line does it with a client over the network, and whoever else runs statements for
 * somebody hands in one that may do what that person may. Partition numbers start at 0.
 */
import type {
  ClientRecord,
  GroupAssignment,
  GroupDescription,
  GroupSummary,
  NackResult,
  TopicDescription,
  TopicOffsets,
  TopicSettingValue,
  TopicSummary,
} from '../client/types.ts'
import type { Resource } from '../core/types.ts'

/** This session as a member of a group. */
export interface Membership extends GroupAssignment {
  readonly group: string
}

export interface PartitionOffsets extends Omit<TopicOffsets, 'forTime'> {
  /** Of the group, where one was named: −1 without a commit. */
  readonly committed: number | null
}

export interface NewRecord {
  readonly key: string | null
  readonly value: string
  readonly headers: readonly { readonly key: string; readonly value: string }[]
  readonly partition: number | null
}

/** Where a scan begins or ends. */
export type ScanBound = 'earliest' | 'latest' | { readonly offset: number } | { readonly timestampMs: number }

export interface ScanRequest {
  readonly topic: string
  readonly partitions: readonly number[] | null
  readonly from: ScanBound
  /** What lies below it is read; null: to where the partition ends now. */
  readonly to: ScanBound | null
}

export interface FetchLimits {
  readonly maxRecords: number
  /** A single record may be larger. */
  readonly maxBytes: number
}

/** When SUBSCRIBE ends. What is given counts as read, so it is the operations that keep to it. */
export interface SubscribeLimits extends FetchLimits {
  /** So long without a record. */
  readonly idleMs: number
  readonly totalMs: number
}

export interface Operations extends Resource {
  /** Where this session is connected to. */
  readonly target: string
  listTopics(signal: AbortSignal): Promise<readonly TopicSummary[]>
  createTopic(name: string, partitions: number, config: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>
  describeTopic(name: string, signal: AbortSignal): Promise<TopicDescription>
  topicSettings(name: string, signal: AbortSignal): Promise<readonly TopicSettingValue[]>
  /** The settings that changed. */
  alterTopic(
    name: string,
    change: { readonly set: Readonly<Record<string, string>>; readonly unset: readonly string[] },
    signal: AbortSignal,
  ): Promise<readonly string[]>
  growTopic(name: string, partitions: number, signal: AbortSignal): Promise<void>
  dropTopic(name: string, signal: AbortSignal): Promise<void>
  offsets(topic: string, group: string | null, signal: AbortSignal): Promise<readonly PartitionOffsets[]>
  /** Within a transaction while one is open. */
  produce(topic: string, record: NewRecord, signal: AbortSignal): Promise<{ readonly partition: number; readonly offset: number }>
  /** As the group, from where it is: what is delivered counts as read. */
  fetch(topic: string, group: string, limits: FetchLimits, signal: AbortSignal): Promise<readonly ClientRecord[]>
  /** Records as they come, until one of the limits is reached. */
  subscribe(topic: string, group: string, limits: SubscribeLimits, signal: AbortSignal): AsyncIterable<ClientRecord>
  /** Reads without a group, merged by time. */
  scan(request: ScanRequest, signal: AbortSignal): AsyncIterable<ClientRecord>
  /** For the group that was fetched last; within a transaction with it. */
  commit(topic: string, partition: number, offset: number, signal: AbortSignal): Promise<void>
  nack(topic: string, partition: number, offset: number, reason: string, signal: AbortSignal): Promise<NackResult>
  readonly membership: Membership | null
  join(group: string, topics: readonly string[], signal: AbortSignal): Promise<Membership>
  leave(signal: AbortSignal): Promise<void>
  heartbeat(signal: AbortSignal): Promise<void>
  listGroups(signal: AbortSignal): Promise<readonly GroupSummary[]>
  describeGroup(group: string, signal: AbortSignal): Promise<GroupDescription>
  dropGroup(group: string, signal: AbortSignal): Promise<void>
  /** A name makes it the transaction of a producer that others can fence. */
  begin(name: string | null, signal: AbortSignal): Promise<void>
  endTransaction(commit: boolean, signal: AbortSignal): Promise<void>
}

export interface ConnectTo {
  readonly host: string
  /** Null: what `host` says, else the usual one. */
  readonly port: number | null
  readonly user: string
  readonly password: string
}

/** Makes sessions for CONNECT. */
export type Connector = (to: ConnectTo, signal: AbortSignal) => Promise<Operations>
