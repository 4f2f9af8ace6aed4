import type { TopicPartition } from '../../core/types.ts'
import type { TxnState } from '../txn-ports.ts'

export type PartitionSet = ReadonlyMap<string, ReadonlySet<number>>

/** 2 = the client knows an epoch of its own for each transaction (KIP-890). */
export type ClientVersion = 0 | 2

/** Everything that is known of one transactional id: never changed, but replaced by the next one. */
export interface Transaction {
  readonly state: TxnState
  readonly producerId: number
  readonly producerEpoch: number
  /** Id before the last change of it, to know a resend by; −1 when there was none. */
  readonly previousProducerId: number
  /** Epoch that the client had before a bump that it asked for, to know a resend by; −1 otherwise. Not stored, as in Kafka. */
  readonly lastProducerEpoch: number
  /** While the transaction is being ended: the id that follows, where epochs are used up. While it is kept: the id of who may end it. */
  readonly nextProducerId: number
  /** While the transaction is kept (KIP-939): the epoch of who may end it. −1 otherwise. */
  readonly nextProducerEpoch: number
  readonly timeoutMs: number
  readonly partitions: PartitionSet
  /** −1 before the first transaction. */
  readonly startedAtMs: number
  readonly updatedAtMs: number
  readonly clientVersion: ClientVersion
  /**
   * A producer name of the native protocol: its transaction lives no longer than its connection, its epoch stays when one ends, and the
   * name is forgotten by `server.producerExpirySeconds`.
   */
  readonly isNative: boolean
}

export const NO_ID = -1
export const NO_EPOCH = -1
const MAX_EPOCH = 32_767
/** One is kept back, so that the last user of an id can always be fenced. */
const LAST_CLIENT_EPOCH = MAX_EPOCH - 1
/** The timeout of a transaction that waits for another system for ever (KIP-939). */
export const TWO_PHASE_TIMEOUT_MS = 2 ** 31 - 1

export const NO_PARTITIONS: PartitionSet = new Map()

export function isExhausted(epoch: number): boolean {
  return epoch >= LAST_CLIENT_EPOCH
}

/** No client is ever given this one. */
export function isKeptBack(epoch: number): boolean {
  return epoch > LAST_CLIENT_EPOCH
}

export function bumped(epoch: number): number {
  return Math.min(epoch + 1, MAX_EPOCH)
}

export function isTwoPhase(txn: Transaction): boolean {
  return txn.timeoutMs === TWO_PHASE_TIMEOUT_MS
}

/** The decision is made, markers are on their way. */
export function isEnding(txn: Transaction): boolean {
  return txn.state === 'PrepareCommit' || txn.state === 'PrepareAbort'
}

/** The client that began it is gone, and another one may only end it. */
export function isKept(txn: Transaction): boolean {
  return txn.state === 'Ongoing' && txn.nextProducerEpoch !== NO_EPOCH
}

/** Who may speak for the transactional id. */
export function ownerOf(txn: Transaction): { readonly producerId: number; readonly producerEpoch: number } {
  return isKept(txn) ? { producerId: txn.nextProducerId, producerEpoch: txn.nextProducerEpoch } : txn
}

export function hasPartition(set: PartitionSet, topic: string, partition: number): boolean {
  return set.get(topic)?.has(partition) === true
}

/** The set itself when everything is in it already. */
export function withPartitions(set: PartitionSet, added: readonly TopicPartition[]): PartitionSet {
  if (added.every(({ topic, partition }) => hasPartition(set, topic, partition))) return set
  const next = new Map(set)
  for (const { topic, partition } of added) next.set(topic, new Set(next.get(topic)).add(partition))
  return next
}

export function listPartitions(set: PartitionSet): TopicPartition[] {
  return [...set].flatMap(([topic, partitions]) => [...partitions].map((partition) => ({ topic, partition })))
}
