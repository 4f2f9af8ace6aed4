import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AT,
  addSequence,
  assignBatch,
  batchCrcMatches,
  checkNewBatch,
  isControl,
  isTransactional,
  lastSequence,
  nextOffset,
  readBatchHeader,
  setLogAppendTime,
  setMaxTimestamp,
  timestampType,
  verifyBatchCrc,
} from '../../../src/record/batch.ts'
import { buildBatch, type NewRecord } from '../../../src/record/builder.ts'
import { buildEndTxnMarker, readControlKind, readCoordinatorEpoch } from '../../../src/record/control.ts'
import { readRecords, recordsSection, validateRecords } from '../../../src/record/record.ts'

const RECORDS: NewRecord[] = [
  { key: Buffer.from('a'), value: Buffer.from('one'), timestampMs: 1_700_000_000_000 },
  { key: null, value: Buffer.from(''), timestampMs: 1_700_000_000_005, headers: [{ key: 'h', value: null }] },
  { key: Buffer.from(''), value: null, timestampMs: 1_699_999_999_000, headers: [{ key: 'ü', value: Buffer.from('x') }] },
]

function views(batch: Buffer) {
  const header = readBatchHeader(batch)
  return [...readRecords(recordsSection(batch, 0, header), header)]
}

test('a built batch reads back as it was given', () => {
  const batch = buildBatch(RECORDS, { baseOffset: 41, leaderEpoch: 3, producerId: 9, producerEpoch: 1, baseSequence: 2 ** 31 - 2 })
  const header = readBatchHeader(batch)
  verifyBatchCrc(batch, 0, header)
  assert.equal(header.sizeBytes, batch.length)
  assert.equal(header.recordCount, 3)
  assert.equal(header.maxTimestampMs, 1_700_000_000_005)
  assert.equal(header.baseTimestampMs, 1_700_000_000_000)
  assert.equal(nextOffset(header), 44)
  assert.equal(lastSequence(header), 0)
  assert.deepEqual(
    views(batch),
    RECORDS.map((record, index) => ({
      offset: 41 + index,
      timestampMs: record.timestampMs,
      key: record.key,
      value: record.value,
      headers: record.headers ?? [],
    })),
  )
  checkNewBatch(header)
  assert.deepEqual(validateRecords(recordsSection(batch, 0, header), header, { dense: true }), {
    maxTimestampMs: 1_700_000_000_005,
    minTimestampMs: 1_699_999_999_000,
    offsetOfMaxTimestamp: 42,
  })
})

test('sequences go from 2^31-1 to 0', () => {
  assert.equal(addSequence(2 ** 31 - 1, 1), 0)
  assert.equal(addSequence(2 ** 31 - 1, 0), 2 ** 31 - 1)
  assert.equal(addSequence(5, 7), 12)
})

test('placing a batch keeps its checksum', () => {
  const batch = buildBatch(RECORDS)
  const before = readBatchHeader(batch)
  assignBatch(batch, 0, 2 ** 40 + 7, 12)
  const header = readBatchHeader(batch)
  assert.equal(header.baseOffset, 2 ** 40 + 7)
  assert.equal(header.leaderEpoch, 12)
  assert.equal(header.crc, before.crc)
  assert.ok(batchCrcMatches(batch, 0, header))
})

test('log-append time is set for the batch and for each record, with a new checksum', () => {
  const batch = buildBatch(RECORDS)
  const header = setLogAppendTime(batch, 0, readBatchHeader(batch), 1_800_000_000_000)
  assert.deepEqual(readBatchHeader(batch), header)
  verifyBatchCrc(batch, 0, header)
  assert.equal(timestampType(header), 'LogAppendTime')
  assert.deepEqual(
    views(batch).map((record) => record.timestampMs),
    [1_800_000_000_000, 1_800_000_000_000, 1_800_000_000_000],
  )
  assert.equal(setMaxTimestamp(batch, 0, header, 'LogAppendTime', 1_800_000_000_000), header)
})

test('a commit marker has the bytes that Kafka writes', () => {
  const marker = buildEndTxnMarker({ commit: true, producerId: 7, producerEpoch: 2, coordinatorEpoch: 0, timestampMs: 5 })
  const header = readBatchHeader(marker)
  assert.equal(header.attributes, 0x30)
  assert.equal(header.baseSequence, -1)
  assert.ok(isControl(header) && isTransactional(header))
  assert.equal(marker.toString('hex', AT.records), '200000000800000001' + '0c' + '000000000000' + '00')
  const [record] = views(marker)
  assert.equal(readControlKind(record?.key ?? null), 'commit')
  assert.equal(readCoordinatorEpoch(record?.value ?? null), 0)
})

test('a header that cannot be true is refused before anything is read by it', () => {
  const damage = (change: (batch: Buffer) => void) => {
    const batch = buildBatch(RECORDS)
    change(batch)
    assert.throws(() => readBatchHeader(batch), { code: 'CORRUPT_BATCH' })
  }
  damage((batch) => batch.writeInt32BE(48, AT.batchLength))
  damage((batch) => batch.writeInt32BE(-1, AT.batchLength))
  damage((batch) => batch.writeInt32BE(batch.length - 11, AT.batchLength))
  damage((batch) => batch.writeInt8(1, AT.magic))
  damage((batch) => batch.writeInt8(-1, AT.baseOffset))
  damage((batch) => batch.writeInt32BE(0x7fffffff, AT.baseOffset))
  damage((batch) => batch.writeInt32BE(-2, AT.leaderEpoch))
  damage((batch) => batch.writeInt32BE(-1, AT.lastOffsetDelta))
  damage((batch) => batch.writeInt32BE(4, AT.recordCount))
  for (let size = 0; size < 61; size++)
    assert.throws(() => readBatchHeader(buildBatch(RECORDS).subarray(0, size)), { code: 'CORRUPT_BATCH' })
})

test('every truncation and every flipped bit behind the checksum is detected', () => {
  const batch = buildBatch(RECORDS)
  for (let size = 0; size < batch.length; size++) {
    assert.throws(() => readBatchHeader(batch.subarray(0, size)), { code: 'CORRUPT_BATCH' })
  }
  for (let bit = AT.crc * 8; bit < batch.length * 8; bit++) {
    const copy = Buffer.from(batch)
    copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
    assert.throws(() => verifyBatchCrc(copy, 0, readBatchHeader(copy)), { code: 'CORRUPT_BATCH' })
  }
})

test('records that contradict their header are refused', () => {
  const batch = buildBatch(RECORDS)
  const header = readBatchHeader(batch)
  const section = recordsSection(batch, 0, header)
  const check = (changed: Partial<typeof header>, bytes = section, dense = true) =>
    assert.throws(() => validateRecords(bytes, { ...header, ...changed }, { dense }), { code: 'INVALID_RECORD' })
  check({ recordCount: 2, lastOffsetDelta: 1 })
  check({ recordCount: 4, lastOffsetDelta: 3 })
  check({ lastOffsetDelta: 3 })
  check({}, Buffer.concat([section, Buffer.from([0])]))
  for (let size = 0; size < section.length; size++) check({}, section.subarray(0, size))
  const gaps = buildBatch(
    RECORDS.map((record, index) => ({ ...record, offsetDelta: index * 3 })),
    { lastOffsetDelta: 9 },
  )
  const gapHeader = readBatchHeader(gaps)
  validateRecords(recordsSection(gaps, 0, gapHeader), gapHeader, { dense: false })
  assert.throws(() => validateRecords(recordsSection(gaps, 0, gapHeader), gapHeader, { dense: true }), { code: 'INVALID_RECORD' })
})

test('a batch from a producer must be whole', () => {
  const header = readBatchHeader(buildBatch(RECORDS))
  const refuse = (changed: Partial<typeof header>, code: string) => assert.throws(() => checkNewBatch({ ...header, ...changed }), { code })
  refuse({ recordCount: 0 }, 'INVALID_RECORD')
  refuse({ recordCount: 2 }, 'INVALID_RECORD')
  refuse({ attributes: 5 }, 'UNSUPPORTED_COMPRESSION')
  refuse({ attributes: 0x10 }, 'INVALID_RECORD')
  refuse({ producerId: 4 }, 'INVALID_RECORD')
  refuse({ producerId: 4, producerEpoch: 0 }, 'INVALID_RECORD')
  refuse({ maxTimestampMs: 2 ** 53 }, 'INVALID_TIMESTAMP')
  checkNewBatch({ ...header, producerId: 4, producerEpoch: 0, baseSequence: 0, attributes: 0x14 })
})
