import { MoonMQError } from '../../core/errors.ts'
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

/** Throws INVALID_PATTERN. */
export function listTransactions(entries: readonly TxnEntry[], filter: TransactionFilter, nowMs: number): TransactionListing[] {
  const states = new Set(filter.states)
  const producerIds = new Set(filter.producerIds)
  const pattern = compilePattern(filter.pattern)
  const listed: TransactionListing[] = []
  for (const { id, txn } of entries) {
    if (states.size > 0 && !states.has(txn.state)) continue
    if (producerIds.size > 0 && !producerIds.has(txn.producerId)) continue
    if (filter.minDurationMs >= 0 && (txn.startedAtMs < 0 || nowMs - txn.startedAtMs <= filter.minDurationMs)) continue
    if (pattern !== null && !pattern.test(id)) continue
    listed.push({ transactionalId: id, producerId: txn.producerId, state: txn.state })
  }
  return listed
}

function compilePattern(pattern: string | null): RegExp | null {
  if (pattern === null || pattern === '') return null
  try {
    return new RegExp(`^(?:${pattern})$`)
  } catch {
    throw new MoonMQError('INVALID_PATTERN', { pattern })
  }
}
