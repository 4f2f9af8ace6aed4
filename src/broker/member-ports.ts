/** What the native door asks of the group coordinator: members whose partitions the broker assigns (DESIGN D9). */

/** Partitions of one topic that a member is given, each with the epoch of the group at which it was: another epoch is another grant. */
export type GrantedPartitions = ReadonlyMap<number, number>

export interface NamedAssignment {
  readonly topic: string
  /** Ascending. */
  readonly partitions: readonly number[]
}

export interface JoinAsMember {
  readonly group: string
  /** Empty: the one that the connection had in this group, else a new one. */
  readonly memberId: string
  readonly topics: readonly string[]
  /** For members that say themselves when they have let go of a partition; null: they stop between two rounds. */
  readonly cooperative: CooperativeMember | null
  /** What the member may read is not what it was told any more. Called in the turn of the change: may only send. */
  readonly onChange: () => void
}

export interface CooperativeMember {
  /** Whoever has not let go after this time is dropped. */
  readonly rebalanceTimeoutMs: number
}

/** Partitions that are read and handed on at the moment: nobody else is given them before `end`. */
export interface MemberRound {
  /** What it may read of a topic; empty when nothing. */
  partitionsOf(topic: string): GrantedPartitions
  /** Everything was handed on and its positions are stored, or given back. */
  end(): void
}

/** A connection's place in a group. Every call but `close` throws GROUP_MEMBER_UNKNOWN once it has lapsed. */
export interface GroupMembership {
  /** Not heard of for this long, it lapses. */
  readonly sessionTimeoutMs: number
  readonly group: string
  readonly memberId: string
  /** Of its joining: what a commit is fenced by. */
  readonly joinEpoch: number
  readonly hasLapsed: boolean
  /** The group's now. */
  epoch(): number
  /** Every topic that it asks for, in byte order, those without partitions for it included. What a member is told here it holds. */
  tellAssignment(): readonly NamedAssignment[]
  beginRound(): MemberRound
  heartbeat(): void
  /** A cooperative member says what it still holds; what it does not name it has let go of. */
  hold(held: readonly NamedAssignment[]): void
  leave(): void
  /** Its connection is gone. */
  close(): void
}

export interface InspectedMember {
  readonly memberId: string
  readonly instanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly topics: readonly string[]
  readonly assignment: readonly NamedAssignment[]
}

/** A group of any kind, as every door can show it. */
export interface InspectedGroup {
  readonly group: string
  /** `classic`, `consumer`, `share` or `native`. */
  readonly kind: string
  /** Kafka's words, of all kinds. */
  readonly state: string
  readonly epoch: number
  /** By id. */
  readonly members: readonly InspectedMember[]
  /** By topic, then partition. */
  readonly offsets: readonly { readonly topic: string; readonly partition: number; readonly offset: number }[]
}
