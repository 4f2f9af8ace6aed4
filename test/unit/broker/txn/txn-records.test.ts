import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Transaction } from '../../../../src/broker/txn/transaction.ts'
import { decodeTxnRecord, txnKey, txnValue } from '../../../../src/broker/txn/txn-records.ts'

const TXN: Transaction = {
  state: 'Ongoing',
  producerId: 5,
  producerEpoch: 3,
  previousProducerId: 4,
  lastProducerEpoch: -1,
  nextProducerId: 6,
  nextProducerEpoch: 2,
  timeoutMs: 60_000,
  partitions: new Map([
    ['a', new Set([0, 2])],
    ['b', new Set([1])],
  ]),
  startedAtMs: 1000,
  updatedAtMs: 2000,
  clientVersion: 2,
  isNative: false,
}

test('a transaction is read as it was written', () => {
  assert.deepEqual(decodeTxnRecord(txnKey('tx'), txnValue(TXN, 1)), { transactionalId: 'tx', txn: TXN })
})

test('version 0 has what Kafka knew before KIP-890', () => {
  const txn = { ...TXN, previousProducerId: -1, nextProducerId: -1, nextProducerEpoch: -1, clientVersion: 0 as const }
  assert.deepEqual(decodeTxnRecord(txnKey('tx'), txnValue(TXN, 0)), { transactionalId: 'tx', txn })
})

test('an empty transaction has no partitions, and a tombstone no transaction', () => {
  const value = txnValue({ ...TXN, state: 'Empty', partitions: new Map() }, 1)
  assert.equal(decodeTxnRecord(txnKey('tx'), value)?.txn?.partitions.size, 0)
  assert.deepEqual(decodeTxnRecord(txnKey('tx'), null), { transactionalId: 'tx', txn: null })
})

test('a state that does not exist is refused', () => {
  const value = txnValue({ ...TXN, state: 'PrepareEpochFence' }, 1)
  assert.throws(() => decodeTxnRecord(txnKey('tx'), value), { code: 'INVALID_RECORD' })
})
