import type { MoonMQError } from '../core/errors.ts'
import type { TopicPartition } from '../core/types.ts'
import type { RequestContext } from './context.ts'
import type { CommitOffsets } from './group-ports.ts'

/** What the doors ask of the transaction coordinator (DESIGN D10). */

export interface ProducerIdentity {
  readonly producerId: number
  readonly producerEpoch: number
}

export interface InitProducer {
  readonly transactionalId: string
  readonly timeoutMs: number
  /** What the client had before: it goes on where it was, unless somebody else has begun since. Null: whoever had the id is fenced. */
  readonly expected: ProducerIdentity | null
  /** Its transactions have no timeout: another system decides (KIP-939). */
  readonly twoPhaseCommit: boolean
  /** The open transaction stays, to be ended by the new identity. */
  readonly keepPrepared: boolean
}

export interface InitedProducer extends ProducerIdentity {
  /** The transaction that was kept; null when there was none. */
  readonly kept: ProducerIdentity | null
}

/** A producer as it speaks for one of its transactions. */
export interface TransactionOwner extends ProducerIdentity {
  readonly transactionalId: string
}

/**
 * What the client of a transactional append can take: `verify` = the partition must have been added, `abortable` = likewise, and it
 * knows TRANSACTION_ABORTABLE, `add` = the append itself adds the partition (KIP-890).
 */
export type TransactionSupport = 'verify' | 'abortable' | 'add'

export interface TransactionDescription {
  readonly error: MoonMQError | null
  readonly transactionalId: string
  /** Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort. */
  readonly state: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly timeoutMs: number
  /** −1 where none was begun. */
  readonly startedAtMs: number
  readonly partitions: readonly TopicPartition[]
}

/** Kafka's states and the numbers that `__transaction_state` holds for them. PrepareEpochFence is never stored. */
export const TXN_STATES = [
  'Empty',
  'Ongoing',
  'PrepareCommit',
  'PrepareAbort',
  'CompleteCommit',
  'CompleteAbort',
  'Dead',
  'PrepareEpochFence',
] as const

export type TxnState = (typeof TXN_STATES)[number]

export interface TransactionFilter {
  readonly states: readonly string[]
  readonly producerIds: readonly number[]
  /** Open for longer than this; negative: any. */
  readonly minDurationMs: number
  /** RE2 pattern that the whole transactional id must match; null or empty: any. */
  readonly pattern: string | null
}

export interface TransactionListing {
  readonly transactionalId: string
  readonly producerId: number
  readonly state: string
}

/** A marker that an administrator asks for: the end of a transaction that no coordinator knows of. */
export interface ForcedMarker extends ProducerIdentity {
  readonly committed: boolean
  readonly coordinatorEpoch: number
  readonly partitions: readonly TopicPartition[]
}

export interface TransactionPort {
  /** Throws PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_TIMEOUT_INVALID, INVALID_REQUEST, NOT_AUTHORIZED_FOR_TRANSACTION. */
  initProducer(context: RequestContext, request: InitProducer): Promise<InitedProducer>
  /** Durable when it resolves: only then may records be appended. Throws PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS. */
  addPartitions(context: RequestContext, owner: TransactionOwner, partitions: readonly TopicPartition[]): Promise<void>
  /** Only says whether each partition is part of the transaction. One outcome a partition. */
  verifyPartitions(owner: TransactionOwner, partitions: readonly TopicPartition[]): readonly (MoonMQError | null)[]
  /** The partition of `__consumer_offsets` that holds the group becomes part of the transaction. */
  addOffsets(context: RequestContext, owner: TransactionOwner, group: string): Promise<void>
  /** Stores offsets that count from the end of the transaction on, if it is committed. One outcome an offset. */
  commitOffsets(
    context: RequestContext,
    owner: TransactionOwner,
    request: CommitOffsets,
    support: TransactionSupport,
  ): Promise<readonly (MoonMQError | null)[]>
  /**
   * Decides. Resolves when the decision is durable, with the identity for the next transaction; with `bumpsEpoch` it is a new one
   * (KIP-890). Throws INVALID_TXN_STATE and what `addPartitions` throws.
   */
  end(context: RequestContext, owner: TransactionOwner, commit: boolean, bumpsEpoch: boolean): Promise<ProducerIdentity>
  describe(context: RequestContext, transactionalIds: readonly string[]): Promise<readonly TransactionDescription[]>
  /** Throws COORDINATOR_LOADING while not everything was read, INVALID_REGULAR_EXPRESSION. */
  list(context: RequestContext, filter: TransactionFilter): Promise<readonly TransactionListing[]>
  /** One outcome a partition. Durable when it resolves. */
  writeMarker(context: RequestContext, marker: ForcedMarker): Promise<readonly (MoonMQError | null)[]>
  /** Which broker coordinates this transactional id. */
  coordinator(transactionalId: string): Promise<number>
}
