import type { MoonMQError } from '../../core/errors.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { GroupRecord } from '../offsets/offset-records.ts'
import type { JoinedGroup, SyncedGroup } from '../ports.ts'
import type { NamedPartitions } from './classic-subscription.ts'

/** Which protocol the members of a group speak, in Kafka's words; `native` is our own. */
export type GroupKind = 'classic' | 'consumer' | 'share' | 'native'

/** A record of a group as `__consumer_offsets` holds it; a null value takes the key away. */
export interface StoredPair {
  readonly key: Buffer
  readonly value: Buffer | null
}

/** Who wants to commit, by its own account. A negative epoch: nobody who is a member. */
export interface CommitClaim {
  readonly memberId: string
  readonly instanceId: string | null
  /** The generation of a classic member, the epoch of another. */
  readonly epoch: number
  readonly offsets: readonly { readonly topic: string; readonly partition: number }[]
  /** False: it comes in a version of the request that knows of generations only. */
  readonly understandsEpochs?: boolean
  /** It came through the native door. */
  readonly isNative?: boolean
}

/** A member as every door can show it. What it has: by topic id, or by name where the machine knows no ids. */
export interface MemberView {
  readonly memberId: string
  readonly instanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly topics: readonly string[]
  readonly assigned: ReadonlyMap<Uuid, Iterable<number> | ReadonlyMap<number, unknown>> | readonly NamedPartitions[]
}

/**
 * What the shell must do, in this order. A request that waits is known by the ticket that the shell gave it. Replies wait for
 * what was stored before them to be durable, so that no client knows a generation that a power cut can take back.
 */
export type GroupEffect =
  | { readonly kind: 'transition'; readonly from: string; readonly to: string; readonly reason: string }
  /** A member is to be told that there is something new for it: may only send. */
  | { readonly kind: 'tell'; tell(): void }
  /** Something for the log that changes no state. */
  | { readonly kind: 'note'; readonly text: string }
  /** What `takeRecords` gives is to be appended. */
  | { readonly kind: 'store' }
  /** Another machine goes on with the group; the former one is not asked again. */
  | { readonly kind: 'replace'; readonly machine: GroupMachine; readonly reason: string }
  | { readonly kind: 'joined'; readonly ticket: number; readonly result: JoinedGroup }
  | { readonly kind: 'synced'; readonly ticket: number; readonly result: SyncedGroup | MoonMQError }

/**
 * The rules of one group (DESIGN D9): pure, told the time, which is monotonic; what is to be done stands in `drain()`. Nothing in it
 * waits; each of its waits has a deadline in `nextDeadlineMs`. When the log fails, machines are thrown away and made again from what
 * is stored, so a machine never takes anything back.
 */
export interface GroupMachine {
  readonly group: string
  readonly kind: GroupKind
  readonly protocolType: string
  /** Kafka's words; `Empty` without members, `Dead` after `kill`. */
  readonly state: string
  /** The generation of a classic group, the group epoch of another. */
  readonly epoch: number
  readonly memberCount: number
  /** No members, and nobody was promised to become one: the group may go. */
  readonly isVacant: boolean
  drain(): GroupEffect[]
  /** What `store` is about, for one batch. */
  takeRecords(stateChangedAtMs: number, nowMs: number): readonly StoredPair[]
  /** The earliest moment at which `tick` has something to do; Infinity when there is none. */
  nextDeadlineMs(): number
  /** Ends every wait that is over. */
  tick(nowMs: number): void
  /** Null: the commit may be stored. */
  refuseCommit(claim: CommitClaim, nowMs: number): MoonMQError | null
  /** Null: what is committed may be read. Absent: by everybody. */
  refuseFetch?(memberId: string | null, epoch: number): MoonMQError | null
  /** Topics whose offsets stay however old they are; null: all of them. */
  subscribedTopics(): ReadonlySet<string> | null
  views(): Iterable<MemberView>
  /** The group is gone: whoever still asks starts anew. */
  kill(reason: string): void
}

/** A record as it was read back, with the time at which it was written. */
export interface ReadRecord {
  readonly record: GroupRecord
  readonly timestampMs: number
}

/** A machine as it was stored, with the wall time of its last change of state, from which the life of its offsets counts. */
export interface RestoredMachine {
  readonly machine: GroupMachine
  readonly stateChangedAtMs: number
}

/** How groups of one kind are told from others in the log, and made again from it. */
export interface GroupKindRules {
  readonly kind: GroupKind
  /** The record that each group of this kind has, and no group of another kind. */
  readonly mark: GroupRecord['name']
  /** Resolves when `restore` can be called for these records; undefined: at once. */
  ready?(records: readonly ReadRecord[]): Promise<void> | undefined
  /** The latest record of every key of one group, without tombstones. Throws INVALID_RECORD. */
  restore(group: string, records: readonly ReadRecord[], nowMs: number): RestoredMachine
  /** Takes away what else is kept of a group that is to be deleted; durable when it resolves. */
  cleared?(group: string): Promise<void>
}
