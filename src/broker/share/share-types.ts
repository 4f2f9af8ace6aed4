import type { IsolationLevel } from '../../core/types.ts'

/**
 * The life of a record in a share group (KIP-932): available, acquired by one member, then acknowledged, or archived when it is not
 * delivered any more. `archiving` is a record on its way to the dead-letter topic: nobody is given it, and after a restart the move goes on.
 */
export type RecordState = 'available' | 'acquired' | 'acknowledged' | 'archiving' | 'archived'

/** Kafka's numbers of the states, as they stand in `__share_group_state`. What is acquired is not stored: after a restart it is available. */
export const STATE_IDS: Readonly<Record<Exclude<RecordState, 'acquired'>, number>> = {
  available: 0,
  acknowledged: 2,
  archiving: 3,
  archived: 4,
}

/** What a member says of a record. A gap is an offset of what it was given at which it found no record. */
export type AckType = 'gap' | 'accept' | 'release' | 'reject' | 'renew'

/** Offsets from `first` to `last`, both included. */
export interface OffsetRange {
  readonly first: number
  readonly last: number
}

/** Neighbouring records in one state, as they are stored. */
export interface StateBatch extends OffsetRange {
  readonly state: Exclude<RecordState, 'acquired'>
  readonly deliveries: number
}

/** Everything that is stored of a share partition. */
export interface ShareState {
  /** Everything below it is done with. −1: not chosen yet. */
  readonly startOffset: number
  /** Ascending and apart; what they leave out is available and was never delivered. */
  readonly batches: readonly StateBatch[]
}

export interface AcquiredRange extends OffsetRange {
  readonly deliveries: number
}

export interface AckBatch extends OffsetRange {
  /** One for all offsets, or one for each. */
  readonly types: readonly AckType[]
}

/** Records that became dead letters, to be moved. */
export interface DeadRange extends OffsetRange {
  readonly deliveries: number
  /** `resumed`: it was on its way when the broker stopped, and why was not stored. */
  readonly reason: 'rejected' | 'exhausted' | 'resumed'
}

/** What a share partition must be told with each change; it may be different the next time. */
export interface ShareRules {
  /** `share.delivery.count.limit`. */
  readonly maxDeliveries: number
  /** `share.record.lock.duration.ms`. */
  readonly lockMs: number
  /** `share.partition.max.record.locks`. */
  readonly maxLocks: number
  /** Whether dead records are moved before they are archived. */
  readonly keepsDeadLetters: boolean
  /** `moonmq.retry.delays` of the topic: how long a record waits after each delivery that failed. Empty: not at all. */
  readonly retryDelaysMs: readonly number[]
}

/** The settings of a share group. */
export interface ShareGroupSettings extends Omit<ShareRules, 'keepsDeadLetters' | 'retryDelaysMs'> {
  readonly isolation: IsolationLevel
  /** `share.auto.offset.reset`: where a share partition begins; a duration counts back from its first fetch. */
  readonly reset: 'earliest' | 'latest' | { readonly backMs: number }
  readonly renewIsAllowed: boolean
}
