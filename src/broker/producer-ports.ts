import type { MoonMQError } from '../core/errors.ts'
import type { RecordHeader } from '../record/record.ts'
import type { RequestContext } from './context.ts'
import type { ProducerIdentity, TransactionOwner } from './txn-ports.ts'

/** What the native door asks for idempotent and transactional producers (DESIGN D10). */

/** `none` answers after the append in memory, `leader` after the sync, `all` after every in-sync replica has it too. */
export type Acks = 'none' | 'leader' | 'all'

/** What a record is made of. */
export interface RecordContent {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers?: readonly RecordHeader[]
  /** Absent: the broker's clock. */
  readonly timestampMs?: number
}

/** Records that become exactly one batch of one partition. */
export interface SequencedBatch {
  readonly topic: string
  readonly partition: number
  /** Null: the next one, by what the partition knows of the producer. */
  readonly baseSequence: number | null
  readonly records: readonly RecordContent[]
}

export interface SequencedOptions {
  readonly acks: Acks
  readonly codec: number
  readonly timeoutMs: number
  /** Nothing is appended unless every batch can be. Default false: each stands for itself. */
  readonly atomic?: boolean
}

export interface SequencedOutcome {
  readonly error: MoonMQError | null
  /** −1 when it did not come into the log. With an error it is not known whether it stays there. */
  readonly baseSequence: number
  /** −1 with an error. */
  readonly baseOffset: number
}

/** Everything is in its place, or refused; what is left is waiting for durability. */
export interface SequencedTicket {
  /** One a batch, in the order of the request. Never rejects. */
  readonly settled: Promise<readonly SequencedOutcome[]>
}

export interface OpenProducer {
  /** Empty: an id of its own that dies with the session. */
  readonly name: string
  /** How long a transaction may be open. Absent: a minute. */
  readonly timeoutMs?: number
}

/**
 * A producer of one connection. A name speaks through one session at a time. Calls of one session take effect one after another. What
 * does not go through because another session has the name, or had it, throws PRODUCER_FENCED.
 */
export interface ProducerSession extends ProducerIdentity {
  readonly name: string
  readonly inTransaction: boolean
  /**
   * Within a transaction the batches belong to it. Throws TRANSACTION_TIMED_OUT, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, and with
   * `atomic` what one of them is refused with.
   */
  append(context: RequestContext, batches: readonly SequencedBatch[], options: SequencedOptions): Promise<SequencedTicket>
  /** Throws INVALID_TXN_STATE. */
  begin(): Promise<void>
  /**
   * Resolves when the end is durable in every partition. May be repeated with the same choice until it does, also by the next session of
   * the name. Throws INVALID_TXN_STATE, TRANSACTION_TIMED_OUT, CONCURRENT_TRANSACTIONS.
   */
  end(commit: boolean): Promise<void>
  /** Offsets that count when the transaction is committed; those of partitions that do not exist are left out. */
  commitOffsets(
    context: RequestContext,
    group: string,
    offsets: readonly { readonly topic: string; readonly partition: number; readonly offset: number }[],
  ): Promise<void>
  /** Aborts the open transaction, unless it is decided already. Never rejects. */
  close(): Promise<void>
}

export interface ProducerSessionPort {
  /** Throws CONCURRENT_TRANSACTIONS, COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE. */
  open(context: RequestContext, options: OpenProducer): Promise<ProducerSession>
  /** Goes on with the identity that an earlier session of the name had; what that one left open is aborted. */
  resume(context: RequestContext, owner: TransactionOwner): Promise<ProducerSession>
  /** For producers without a name, which need no session: the numbers are theirs, and outlive connection and broker in the log. */
  append(
    context: RequestContext,
    producer: ProducerIdentity,
    batches: readonly SequencedBatch[],
    options: SequencedOptions,
  ): Promise<SequencedTicket>
}
