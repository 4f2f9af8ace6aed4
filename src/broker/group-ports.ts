import type { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import type { RequestContext } from './context.ts'
import type { GroupMembership, InspectedGroup, JoinAsMember } from './member-ports.ts'

/** What the doors ask of the group coordinator (DESIGN D9). */

export interface JoinGroup {
  readonly group: string
  readonly memberId: string
  readonly instanceId: string | null
  readonly protocolType: string
  readonly protocols: readonly { readonly name: string; readonly metadata: Buffer }[]
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  /** Join v4+: an empty member id is answered MEMBER_ID_REQUIRED with a new id. */
  readonly requireKnownMemberId: boolean
  /** Join v9+: an unchanged leader may be told to skip the assignment. */
  readonly supportsSkippingAssignment: boolean
  readonly reason: string | null
}

export interface JoinedGroup {
  /** MEMBER_ID_REQUIRED carries `memberId`; other errors carry the one given. */
  readonly error: MoonMQError | null
  readonly generation: number
  readonly protocolType: string | null
  readonly protocol: string | null
  readonly leader: string
  readonly skipAssignment: boolean
  readonly memberId: string
  /** For the leader only, else empty. */
  readonly members: readonly { readonly memberId: string; readonly instanceId: string | null; readonly metadata: Buffer }[]
}

export interface LeaveGroup {
  readonly group: string
  /** A static member may be named by its instance id alone. The reason is for the log. */
  readonly members: readonly { readonly memberId: string; readonly instanceId: string | null; readonly reason?: string | null }[]
}

export interface SyncGroup {
  readonly group: string
  readonly generation: number
  readonly memberId: string
  readonly instanceId: string | null
  readonly protocolType: string | null
  readonly protocol: string | null
  readonly assignments: ReadonlyMap<string, Buffer>
}

export interface SyncedGroup {
  readonly protocolType: string | null
  readonly protocol: string | null
  readonly assignment: Buffer
}

export interface OffsetAndMetadata {
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string
}

/** Deliveries of one record to one group that failed. */
export interface FailedDeliveries {
  /** 0: none since it was moved. */
  readonly count: number
  /** Wall time of the first. */
  readonly sinceMs: number
  /** It is in the dead-letter topic, or the next tier, since then: when its group comes by again it is not copied a second time. */
  readonly moved: boolean
}

export interface CommitOffsets {
  readonly group: string
  /** −1 with an empty member id: a commit outside of membership. */
  readonly generation: number
  readonly memberId: string
  readonly instanceId: string | null
  readonly offsets: readonly {
    readonly topic: string
    readonly partition: number
    readonly value: OffsetAndMetadata
    /** How the record at this offset failed by now. Kept with the commit. */
    readonly attempts?: FailedDeliveries & { readonly offset: number }
    /** Nobody refuses anything below any more, so what was counted there goes. Absent: below the offset, of a commit that only says where the group is. */
    readonly answeredBelow?: number
  }[]
  /** False: the request knows of generations only, so no member of a consumer group can send it. Default true. */
  readonly understandsEpochs?: boolean
  /** Delivery commits answer after the append, explicit ones after the sync. */
  readonly durable: boolean
}

export interface CommittedOffset {
  readonly topic: string
  readonly partition: number
  /** Null: nothing is committed. */
  readonly value: OffsetAndMetadata | null
  /** With `requireStable`: a transaction under way commits another one, so what counts is not known yet. */
  readonly unstable?: boolean
}

export interface GroupMemberDescription {
  readonly memberId: string
  readonly instanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly metadata: Buffer
  readonly assignment: Buffer
}

export interface GroupDescription {
  readonly error: MoonMQError | null
  readonly group: string
  /** Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead. */
  readonly state: string
  readonly protocolType: string
  readonly protocol: string
  readonly members: readonly GroupMemberDescription[]
}

export interface GroupListing {
  readonly group: string
  readonly protocolType: string
  readonly state: string
  /** `classic`, `consumer`, `share` or `native`. */
  readonly kind: string
  readonly members: number
}

/** A heartbeat of the consumer protocol. Null: as it was said before. */
export interface ConsumerHeartbeat {
  readonly group: string
  readonly memberId: string
  /** The client makes its own id. */
  readonly idIsClients: boolean
  /** 0 joins, −1 leaves, −2 leaves for a while (static members). */
  readonly memberEpoch: number
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly rebalanceTimeoutMs: number | null
  readonly subscribedTopics: readonly string[] | null
  /** RE2 syntax, for whole names; empty: none any more. */
  readonly subscribedRegex: string | null
  readonly assignor: string | null
  readonly owned: readonly { readonly topicId: Uuid; readonly partitions: readonly number[] }[] | null
}

export interface ConsumerHeartbeatAnswer {
  readonly memberId: string
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  /** Null: as it was told before. */
  readonly assignment: readonly { readonly topicId: Uuid; readonly partitions: readonly number[] }[] | null
}

export type ConsumerAssignment = readonly { readonly topicId: Uuid; readonly topic: string; readonly partitions: readonly number[] }[]

export interface ConsumerMemberDescription {
  readonly memberId: string
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly epoch: number
  readonly clientId: string
  readonly clientHost: string
  readonly subscribedTopics: readonly string[]
  readonly subscribedRegex: string
  readonly assigned: ConsumerAssignment
  readonly target: ConsumerAssignment
  /** It speaks the classic protocol. */
  readonly isClassic: boolean
}

export interface ConsumerGroupDescription {
  readonly error: MoonMQError | null
  readonly group: string
  /** Kafka's words: Empty, Assigning, Reconciling, Stable, Dead. */
  readonly state: string
  readonly epoch: number
  readonly assignmentEpoch: number
  readonly assignor: string
  readonly members: readonly ConsumerMemberDescription[]
}

export interface GroupPort {
  /** Throws what refuses it. Answered when what it changed is durable. */
  consumerHeartbeat(context: RequestContext, request: ConsumerHeartbeat): Promise<ConsumerHeartbeatAnswer>
  describeConsumerGroups(context: RequestContext, groups: readonly string[]): Promise<readonly ConsumerGroupDescription[]>
  join(context: RequestContext, request: JoinGroup): Promise<JoinedGroup>
  sync(context: RequestContext, request: SyncGroup): Promise<SyncedGroup>
  heartbeat(
    context: RequestContext,
    request: { group: string; generation: number; memberId: string; instanceId: string | null },
  ): Promise<void>
  /** One outcome a member, null = done. */
  leave(context: RequestContext, request: LeaveGroup): Promise<readonly (MoonMQError | null)[]>
  /** One outcome an offset, null = stored. */
  commit(context: RequestContext, request: CommitOffsets): Promise<readonly (MoonMQError | null)[]>
  /** `topics` null = every offset of the group. Throws what the group as a whole is refused with. */
  committed(
    context: RequestContext,
    request: {
      group: string
      topics: readonly { topic: string; partitions: readonly number[] }[] | null
      memberId?: string | null
      memberEpoch?: number
      /** Offsets that a transaction under way may replace are not told (KIP-447). */
      requireStable?: boolean
    },
  ): Promise<readonly CommittedOffset[]>
  /** Takes single offsets away; one outcome each, null = gone or never there. Throws what the group as a whole is refused with. */
  deleteOffsets(
    context: RequestContext,
    request: { group: string; offsets: readonly { readonly topic: string; readonly partition: number }[] },
  ): Promise<readonly (MoonMQError | null)[]>
  describe(context: RequestContext, groups: readonly string[]): Promise<readonly GroupDescription[]>
  /** `loading` when a partition of the offsets topic has not been read yet. */
  list(
    context: RequestContext,
    filter: { states: readonly string[]; kinds: readonly string[] },
  ): Promise<{ readonly groups: readonly GroupListing[]; readonly loading: boolean }>
  /** A group of any kind. Throws GROUP_MISSING. */
  inspect(context: RequestContext, group: string): Promise<InspectedGroup>
  /**
   * Joins for a connection, or again with `former`, what it joined before. Throws GROUP_CONFLICT for a second group or the id of another
   * connection, INCONSISTENT_GROUP_PROTOCOL where members of another protocol are, TOPIC_MISSING, RATE_LIMITED.
   */
  joinMember(context: RequestContext, request: JoinAsMember, former: GroupMembership | null): Promise<GroupMembership>
  delete(context: RequestContext, groups: readonly string[]): Promise<readonly (MoonMQError | null)[]>
  /** Which broker coordinates this group; throws COORDINATOR_NOT_AVAILABLE. */
  coordinator(group: string): Promise<number>
}
