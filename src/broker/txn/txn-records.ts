import { MoonMQError } from '../../core/errors.ts'
import type { RecordHeader } from '../../record/record.ts'
import { decodeCoordinatorRecord, encodeCoordinatorKey, encodeCoordinatorValue } from '../../schema/records.ts'
import { TXN_STATES } from '../txn-ports.ts'
import { NO_EPOCH, type Transaction } from './transaction.ts'

/** The record of a transactional id in `__transaction_state`, in Kafka's schema (DESIGN D4). */

const PLACE = 'transaction-coordinator'

export function txnKey(transactionalId: string): Buffer {
  return encodeCoordinatorKey(PLACE, 'TransactionLogKey', { transactionalId })
}

/** Marks a producer name of the native protocol. Kafka's tools and Kafka itself do not look at headers of these records. */
const NATIVE_HEADER = 'moonmq.native'
const NATIVE: readonly RecordHeader[] = [{ key: NATIVE_HEADER, value: null }]

export function txnHeaders(txn: Transaction | null): readonly RecordHeader[] {
  return txn?.isNative === true ? NATIVE : []
}

/** Version 1 has the tagged fields; version 0 is what `transaction.version` 0 asks for. */
export function txnValue(txn: Transaction, version: 0 | 1): Buffer {
  const partitions = [...txn.partitions].map(([topic, partitionIds]) => ({ topic, partitionIds: [...partitionIds] }))
  return encodeCoordinatorValue(PLACE, 'TransactionLogValue', version, {
    producerId: txn.producerId,
    producerEpoch: txn.producerEpoch,
    transactionTimeoutMs: txn.timeoutMs,
    transactionStatus: TXN_STATES.indexOf(txn.state),
    // Kafka's reader takes no partitions of an empty transaction.
    transactionPartitions: txn.state === 'Empty' ? null : partitions,
    transactionLastUpdateTimestampMs: txn.updatedAtMs,
    transactionStartTimestampMs: txn.startedAtMs,
    ...(version === 0
      ? {}
      : {
          previousProducerId: txn.previousProducerId,
          nextProducerId: txn.nextProducerId,
          nextProducerEpoch: txn.nextProducerEpoch,
          clientTransactionVersion: txn.clientVersion,
        }),
  })
}

export interface TxnRecord {
  readonly transactionalId: string
  /** Null: the id is gone. */
  readonly txn: Transaction | null
}

/** Null for a record of a later Kafka. Throws INVALID_RECORD. */
export function decodeTxnRecord(key: Buffer, value: Buffer | null, headers: readonly RecordHeader[] = []): TxnRecord | null {
  const record = decodeCoordinatorRecord(PLACE, key, value)
  if (record === undefined) return null
  const { transactionalId } = record.key
  const fields = record.value
  if (fields === null) return { transactionalId, txn: null }
  const state = TXN_STATES[fields.transactionStatus]
  if (state === undefined || state === 'PrepareEpochFence') {
    throw new MoonMQError('INVALID_RECORD', { reason: `transaction "${transactionalId}" has the state ${fields.transactionStatus}` })
  }
  return {
    transactionalId,
    txn: {
      state,
      producerId: fields.producerId,
      producerEpoch: fields.producerEpoch,
      previousProducerId: fields.previousProducerId,
      lastProducerEpoch: NO_EPOCH,
      nextProducerId: fields.nextProducerId,
      nextProducerEpoch: fields.nextProducerEpoch,
      timeoutMs: fields.transactionTimeoutMs,
      partitions: new Map((fields.transactionPartitions ?? []).map(({ topic, partitionIds }) => [topic, new Set(partitionIds)])),
      startedAtMs: fields.transactionStartTimestampMs,
      updatedAtMs: fields.transactionLastUpdateTimestampMs,
      clientVersion: fields.clientTransactionVersion === 2 ? 2 : 0,
      isNative: headers.some((header) => header.key === NATIVE_HEADER),
    },
  }
}
