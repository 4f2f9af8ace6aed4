import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeCoordinatorRecord,
  decodeMetadataRecord,
  decodeProducerSnapshot,
  encodeCoordinatorKey,
  encodeCoordinatorValue,
  encodeMetadataRecord,
  encodeProducerSnapshot,
} from '../../../src/schema/records.ts'

test('a metadata record is framed by version, id and version', () => {
  const bytes = encodeMetadataRecord('TopicRecord', 0, { name: 'orders', topicId: 'AAAAAAAAAAAAAAAAAAAAAQ' })
  assert.equal(bytes.toString('hex', 0, 3), '010200')
  assert.deepEqual(decodeMetadataRecord(bytes), {
    name: 'TopicRecord',
    version: 0,
    fields: { name: 'orders', topicId: 'AAAAAAAAAAAAAAAAAAAAAQ' },
  })
  for (let size = 0; size < bytes.length; size++)
    assert.throws(() => decodeMetadataRecord(bytes.subarray(0, size)), { code: 'INVALID_RECORD' })
  assert.throws(() => decodeMetadataRecord(Buffer.from('01ff7f0000', 'hex')), { code: 'INVALID_RECORD' })
  assert.throws(() => decodeMetadataRecord(Buffer.from('020200', 'hex')), { code: 'INVALID_RECORD' })
})

test('a committed offset is a key with its id and a value with its version', () => {
  const key = encodeCoordinatorKey('group-coordinator', 'OffsetCommitKey', { group: 'g', topic: 't', partition: 3 })
  assert.equal(key.toString('hex'), '0001' + '000167' + '000174' + '00000003')
  const value = encodeCoordinatorValue('group-coordinator', 'OffsetCommitValue', 3, {
    offset: 5,
    leaderEpoch: 1,
    metadata: '',
    commitTimestamp: 9,
  })
  const record = decodeCoordinatorRecord('group-coordinator', key, value)
  assert.ok(record?.name === 'OffsetCommitKey')
  assert.deepEqual(record.key, { group: 'g', topic: 't', partition: 3 })
  assert.equal(record.version, 3)
  assert.equal(record.value?.offset, 5)
  const tombstone = decodeCoordinatorRecord('group-coordinator', key, null)
  assert.equal(tombstone?.value, null)
  assert.equal(decodeCoordinatorRecord('group-coordinator', Buffer.from('7fff', 'hex'), null), undefined)
  assert.throws(() => decodeCoordinatorRecord('group-coordinator', null, null), { code: 'INVALID_RECORD' })
})

test('a producer snapshot carries its checksum', () => {
  const bytes = encodeProducerSnapshot({
    producerEntries: [
      {
        producerId: 4,
        epoch: 1,
        lastSequence: 9,
        lastOffset: 12,
        offsetDelta: 2,
        timestamp: 5,
        coordinatorEpoch: -1,
        currentTxnFirstOffset: -1,
      },
    ],
  })
  assert.equal(decodeProducerSnapshot(bytes).producerEntries[0]?.lastOffset, 12)
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const copy = Buffer.from(bytes)
    copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
    assert.throws(() => decodeProducerSnapshot(copy), { code: 'INVALID_RECORD' })
  }
})
