import type { MoonMQError } from '../../core/errors.ts'
import type { TransactionDescription, TransactionFilter, TransactionListing } from '../txn-ports.ts'
import { listPartitions, ownerOf, type Transaction } from './transaction.ts'
import type { TxnEntry } from './txn-entry.ts'

export function describeTransaction(transactionalId: string, txn: Transaction): TransactionDescription {
  const { state, timeoutMs, startedAtMs } = txn
  const { producerId, producerEpoch } = ownerOf(txn)
  return {
    error: null,
    transactionalId,
    state,
    producerId,
    producerEpoch,
    timeoutMs,
    startedAtMs,
    partitions: listPartitions(txn.partitions),
  }
}

export function unknownTransaction(transactionalId: string, error: MoonMQError): TransactionDescription {
  return { error, transactionalId, state: '', producerId: -1, producerEpoch: -1, timeoutMs: 0, startedAtMs: -1, partitions: [] }
}

/** `matches` says whether a transactional id is asked for. */
export function listTransactions(
  entries: readonly TxnEntry[],
  filter: TransactionFilter,
  matches: (id: string) => boolean,
  nowMs: number,
): TransactionListing[] {
  const states = new Set(filter.states)
  const producerIds = new Set(filter.producerIds)
  const listed: TransactionListing[] = []
  for (const { id, txn } of entries) {
    if (states.size > 0 && !states.has(txn.state)) continue
    if (producerIds.size > 0 && !producerIds.has(txn.producerId)) continue
    if (filter.minDurationMs >= 0 && (txn.startedAtMs < 0 || nowMs - txn.startedAtMs <= filter.minDurationMs)) continue
    if (matches(id)) listed.push({ transactionalId: id, producerId: txn.producerId, state: txn.state })
  }
  return listed
}
