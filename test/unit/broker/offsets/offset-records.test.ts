import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  decodeOffsetsRecord,
  groupKey,
  groupValue,
  offsetKey,
  offsetValue,
  storedGroup,
} from '../../../../src/broker/offsets/offset-records.ts'
import { MoonMQError } from '../../../../src/core/errors.ts'
import { ZERO_UUID } from '../../../../src/core/uuid.ts'

const hex = (...parts: string[]) => Buffer.from(parts.join('').replaceAll(' ', ''), 'hex')

function readGroup(bytes: Buffer) {
  const decoded = decodeOffsetsRecord(groupKey('g'), bytes)
  assert.ok(decoded?.kind === 'group' && decoded.group === 'g' && decoded.record.name === 'GroupMetadataKey')
  return decoded.record.value === null ? null : storedGroup(decoded.record.value)
}

const TOPIC_ID = 'AQEBAQEBAQEBAQEBAQEBAQ'

test('an offset is written in version 4 of Kafka, and read back', () => {
  const key = offsetKey('g', 't', 3)
  assert.deepEqual(key, hex('0001', '0001 67', '0001 74', '00000003'))
  const value = { offset: 5, leaderEpoch: 2, metadata: 'm', commitTimestampMs: 1_700_000_000_000, topicId: TOPIC_ID }
  const bytes = offsetValue(value)
  // version, offset, leader epoch, compact string, commit time, one tag: 0 with 16 bytes of topic id
  assert.deepEqual(bytes, hex('0004', '0000000000000005', '00000002', '02 6d', '0000018bcfe56800', '01 00 10', '01'.repeat(16)))
  assert.deepEqual(decodeOffsetsRecord(key, bytes), { kind: 'offset', group: 'g', topic: 't', partition: 3, value })
  assert.deepEqual(decodeOffsetsRecord(key, null), { kind: 'offset', group: 'g', topic: 't', partition: 3, value: null })
})

test('offsets that Kafka wrote in older versions are read', () => {
  const key = offsetKey('g', 't', 0)
  const time = '0000018bcfe56800'
  const expected = (leaderEpoch: number) => ({
    offset: 7,
    leaderEpoch,
    metadata: '',
    commitTimestampMs: 1_700_000_000_000,
    topicId: ZERO_UUID,
  })
  const read = (bytes: Buffer) => {
    const record = decodeOffsetsRecord(key, bytes)
    return record?.kind === 'offset' ? record.value : undefined
  }
  assert.deepEqual(read(hex('0000', '0000000000000007', '0000', time)), expected(-1))
  assert.deepEqual(read(hex('0001', '0000000000000007', '0000', time, '7fffffffffffffff')), expected(-1))
  assert.deepEqual(read(hex('0002', '0000000000000007', '0000', time)), expected(-1))
  assert.deepEqual(read(hex('0003', '0000000000000007', '00000009', '0000', time)), expected(9))
})

test('a group is written in version 3 of Kafka, and read back', () => {
  const member = {
    memberId: 'm',
    instanceId: 'i',
    clientId: 'c',
    clientHost: '/h',
    rebalanceTimeoutMs: 2,
    sessionTimeoutMs: 1,
    subscription: Buffer.from('s'),
    assignment: Buffer.alloc(0),
  }
  const stored = {
    snapshot: { protocolType: 'consumer', generation: 4, protocol: 'range', leader: 'm', members: [member] },
    stateChangedAtMs: 1_700_000_000_000,
  }
  const bytes = groupValue(stored)
  assert.deepEqual(
    bytes,
    hex(
      '0003',
      '0008 636f6e73756d6572',
      '00000004',
      '0005 72616e6765',
      '0001 6d',
      '0000018bcfe56800',
      '00000001',
      '0001 6d',
      '0001 69',
      '0001 63',
      '0002 2f68',
      '00000002',
      '00000001',
      '00000001 73',
      '00000000',
    ),
  )
  assert.deepEqual(readGroup(bytes), stored)
  const empty = { snapshot: { protocolType: '', generation: 0, protocol: null, leader: null, members: [] }, stateChangedAtMs: -1 }
  assert.deepEqual(readGroup(groupValue(empty)), empty)
})

test('what is kept of a group does not keep the memory that it was read from', () => {
  const member = { memberId: 'm', instanceId: null, clientId: '', clientHost: '', rebalanceTimeoutMs: -1, sessionTimeoutMs: 9 }
  const snapshot = { protocolType: 'x', generation: 1, protocol: 'p', leader: 'm' }
  const members = [{ ...member, subscription: Buffer.from('topics'), assignment: Buffer.from('mine') }]
  const bytes = groupValue({ snapshot: { ...snapshot, members }, stateChangedAtMs: 0 })
  const stored = readGroup(bytes)
  bytes.fill(0)
  const [kept] = stored?.snapshot.members ?? []
  assert.equal(kept?.subscription.toString(), 'topics')
  assert.equal(kept?.assignment.toString(), 'mine')
  assert.equal(kept?.rebalanceTimeoutMs, 9, 'without one, the session timeout')
})

test('records of other group protocols are passed over, damage is told', () => {
  assert.equal(decodeOffsetsRecord(hex('7fff', '00'), hex('0000')), null)
  assert.throws(() => decodeOffsetsRecord(hex('0001', '0001 67'), null), { code: 'INVALID_RECORD' })
  assert.throws(() => decodeOffsetsRecord(offsetKey('g', 't', 0), hex('0063')), { code: 'INVALID_RECORD' })
  assert.throws(() => decodeOffsetsRecord(hex('0000', '0001 67', '0001 74', '00000000'), null), { code: 'INVALID_RECORD' })
})

test('no bytes do more than be refused', () => {
  const keys = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.constantFrom(offsetKey('g', 't', 0), groupKey('g')))
  fc.assert(
    fc.property(keys, fc.option(fc.uint8Array({ maxLength: 200 })), (key, value) => {
      try {
        decodeOffsetsRecord(Buffer.from(key), value === null ? null : Buffer.from(value))
      } catch (error) {
        assert.ok(error instanceof MoonMQError && error.code === 'INVALID_RECORD', String(error))
      }
    }),
    { numRuns: 2000 },
  )
})
