import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { ByteReader } from '../../../src/core/reader.ts'
import { NodeLoader } from '../../../src/io/loader.ts'
import { leaderChangeBatch, snapshotFooterBatch, snapshotHeaderBatch } from '../../../src/metadata/batches.ts'
import {
  type BatchHeader,
  checkNewBatch,
  codecOf,
  isControl,
  isTransactional,
  lastSequence,
  readBatchHeader,
  timestampType,
  verifyBatchCrc,
} from '../../../src/record/batch.ts'
import { buildBatch, type NewRecord } from '../../../src/record/builder.ts'
import { CODEC, Codecs, codecName } from '../../../src/record/compression.ts'
import { buildEndTxnMarker, readControlKind, readCoordinatorEpoch } from '../../../src/record/control.ts'
import { type RecordView, readRecords, validateRecords } from '../../../src/record/record.ts'
import { dataCodec } from '../../../src/schema/messages.ts'

/** What Kafka's own classes wrote: name and batch. How it was made stands in test/fixtures/README.md. */
const BATCHES = new Map(
  readFileSync('test/fixtures/kafka-batches.txt', 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [name, base64] = line.split(' ') as [string, string]
      return [name, Buffer.from(base64, 'base64')] as const
    }),
)

const codecs = new Codecs({ loader: new NodeLoader() })

before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
})

function batch(name: string): Buffer {
  const bytes = BATCHES.get(name)
  assert.ok(bytes, name)
  return bytes
}

function read(name: string): { header: BatchHeader; records: RecordView[] } {
  const bytes = batch(name)
  const header = readBatchHeader(bytes)
  verifyBatchCrc(bytes, 0, header)
  assert.equal(header.sizeBytes, bytes.length)
  const section = codecs.inflateRecords(bytes, 0, header)
  validateRecords(section, header, { dense: true })
  return { header, records: [...readRecords(section, header)] }
}

/** The records that the maker of the fixture put in. */
function given(count: number): NewRecord[] {
  return Array.from({ length: count }, (_, i) => ({
    timestampMs: 1_700_000_000_000 + (i % 7) * 1000 - (i % 5),
    key: i % 4 === 0 ? null : Buffer.from(`key-${i}`),
    value: i % 6 === 5 ? null : Buffer.from(`value ${i} `.repeat(i % 4 === 3 ? 40 : 1)),
    headers:
      i % 3 === 0
        ? []
        : i % 3 === 1
          ? [
              { key: 'größe', value: Buffer.from(`h${i}`) },
              { key: 'n', value: null },
            ]
          : [{ key: '', value: Buffer.alloc(0) }],
  }))
}

test('batches in each codec are read, and the plain ones written again byte for byte', () => {
  for (const codec of Object.values(CODEC)) {
    for (const count of [1, 30]) {
      const { header, records } = read(`${codecName(codec)}-${count}`)
      checkNewBatch(header)
      assert.equal(codecOf(header), codec)
      assert.deepEqual(
        records,
        given(count).map((record, i) => ({ offset: 100 + i, ...record })),
      )
      assert.equal(lastSequence(header), count === 1 ? 2147483640 : 21)
      const again = buildBatch(given(count), {
        baseOffset: 100,
        leaderEpoch: 5,
        producerId: 1234567890123,
        producerEpoch: 7,
        baseSequence: 2147483640,
        codec,
        compress: (id, bytes) => codecs.deflate(id, bytes),
      })
      if (codec === CODEC.none) assert.deepEqual(again, batch(`none-${count}`))
      assert.deepEqual(
        codecs.inflateRecords(again, 0, readBatchHeader(again)),
        codecs.inflateRecords(batch(`${codecName(codec)}-${count}`), 0, header),
      )
    }
  }
})

test('streams of several blocks are read', () => {
  for (const codec of ['lz4', 'snappy', 'zstd']) {
    const { records } = read(`${codec}-blocks-3`)
    const repeat = codec === 'zstd' ? 60_000 : 12_000
    for (const [i, record] of records.entries()) assert.ok(record.value?.equals(Buffer.from(`block ${i} `.repeat(repeat))), `${codec} ${i}`)
  }
})

test('log-append time holds for each record', () => {
  const { header, records } = read('append-time-4')
  assert.equal(timestampType(header), 'LogAppendTime')
  assert.deepEqual(
    records.map((record) => record.timestampMs),
    new Array(4).fill(1_700_000_099_999),
  )
})

test('transactional batches and markers', () => {
  assert.ok(isTransactional(read('transactional-3').header))
  for (const [name, place] of [
    ['commit', { baseOffset: 77, timestampMs: 1_700_000_000_000, coordinatorEpoch: 11 }],
    ['abort', { baseOffset: 78, timestampMs: 1_700_000_000_001, coordinatorEpoch: 12 }],
  ] as const) {
    const { header, records } = read(name)
    assert.ok(isControl(header) && isTransactional(header))
    assert.equal(readControlKind(records[0]?.key ?? null), name)
    assert.equal(readCoordinatorEpoch(records[0]?.value ?? null), place.coordinatorEpoch)
    const marker = { commit: name === 'commit', producerId: 42, producerEpoch: 3, ...place }
    assert.deepEqual(buildEndTxnMarker(marker, { baseOffset: place.baseOffset, leaderEpoch: 4 }), batch(name))
  }
})

test('control records of the metadata log are written byte for byte', () => {
  assert.deepEqual(leaderChangeBatch(1, 1_700_000_000_002, { baseOffset: 5, leaderEpoch: 6 }), batch('leader-change'))
  assert.deepEqual(snapshotHeaderBatch(1_699_999_999_999, 1_700_000_000_003, { baseOffset: 0, leaderEpoch: 6 }), batch('snapshot-header'))
  assert.deepEqual(snapshotFooterBatch(1_700_000_000_004, { baseOffset: 9, leaderEpoch: 6 }), batch('snapshot-footer'))
  const [record] = read('leader-change').records
  assert.equal(readControlKind(record?.key ?? null), 'leaderChange')
  const change = dataCodec('LeaderChangeMessage', 0).decode(new ByteReader(record?.value ?? Buffer.alloc(0)))
  assert.deepEqual([change.leaderId, change.voters[0]?.voterId], [1, 1])
})

test('in a batch of each codec every flipped bit behind the checksum is detected, every truncation too', () => {
  for (const name of ['none-1', 'gzip-1', 'snappy-1', 'lz4-1', 'zstd-1', 'commit', 'leader-change']) {
    const bytes = batch(name)
    for (let size = 0; size < bytes.length; size++) assert.throws(() => readBatchHeader(bytes, 0, size), { code: 'CORRUPT_BATCH' })
    for (let bit = 17 * 8; bit < bytes.length * 8; bit++) {
      const copy = Buffer.from(bytes)
      copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
      assert.throws(() => verifyBatchCrc(copy, 0, readBatchHeader(copy)), { code: 'CORRUPT_BATCH' }, `${name} bit ${bit}`)
    }
  }
})
