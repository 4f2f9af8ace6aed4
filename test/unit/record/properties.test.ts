import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import fc from 'fast-check'
import { MoonMQError } from '../../../src/core/errors.ts'
import { NodeLoader } from '../../../src/io/loader.ts'
import { AT, assignBatch, batchCrcMatches, readBatchHeader, setMaxTimestamp, verifyBatchCrc } from '../../../src/record/batch.ts'
import { buildBatch, type NewRecord } from '../../../src/record/builder.ts'
import { CODEC, Codecs } from '../../../src/record/compression.ts'
import { RecordCursor, readRecords, recordsSection, validateRecords } from '../../../src/record/record.ts'

const codecs = new Codecs({ loader: new NodeLoader() })

before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
})

const bytes = fc.oneof(
  fc.constant(null),
  fc.uint8Array({ maxLength: 200 }).map((each) => Buffer.from(each)),
)
const timestamp = fc.oneof(
  fc.integer({ min: 1_600_000_000_000, max: 1_800_000_000_000 }),
  fc.maxSafeInteger(),
  fc.integer({ min: -1, max: 5 }),
)

const plain = { noNullPrototype: true }
const header = fc.record({ key: fc.string({ unit: 'grapheme', maxLength: 20 }), value: bytes }, plain)
const record: fc.Arbitrary<NewRecord> = fc.record(
  { key: bytes, value: bytes, timestampMs: timestamp, headers: fc.array(header, { maxLength: 4 }) },
  plain,
)

/** The difference of two safe integers may not be one; a batch cannot carry both. */
const records = fc
  .array(record, { minLength: 1, maxLength: 20 })
  .filter((list) => list.every((each) => Number.isSafeInteger(each.timestampMs - (list[0] as NewRecord).timestampMs)))

const RUNS = { numRuns: 300, seed: 20 }

test('any records come back as they were, in any codec, wherever the batch stands', () => {
  fc.assert(
    fc.property(
      records,
      fc.constantFrom(...Object.values(CODEC)),
      fc.nat(2 ** 40),
      fc.nat(1000),
      (list, codec, baseOffset, leaderEpoch) => {
        const batch = buildBatch(list, { codec, compress: (id, plain) => codecs.deflate(id, plain) })
        assignBatch(batch, 0, baseOffset, leaderEpoch)
        const padded = Buffer.concat([Buffer.alloc(7), batch, Buffer.alloc(5)])
        const header = readBatchHeader(padded, 7)
        verifyBatchCrc(padded, 7, header)
        const section = codecs.inflateRecords(padded, 7, header)
        const summary = validateRecords(section, header, { dense: true })
        assert.equal(summary.maxTimestampMs, header.maxTimestampMs)
        assert.equal(header.leaderEpoch, leaderEpoch)
        const expected = list.map((each, index) => ({ offset: baseOffset + index, ...each }))
        assert.deepEqual(
          [...readRecords(section, header)].map((each) => ({ ...each })),
          expected.map(({ offset, timestampMs, key, value, headers }) => ({ offset, timestampMs, key, value, headers })),
        )
      },
    ),
    RUNS,
  )
})

test('records with gaps come back at their offsets', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(5000), { minLength: 1, maxLength: 30 }), (deltas) => {
      const rising = deltas.sort((a, b) => a - b)
      const lastOffsetDelta = (rising.at(-1) as number) + 3
      const list = rising.map((offsetDelta) => ({ key: null, value: Buffer.from(`${offsetDelta}`), timestampMs: 1000, offsetDelta }))
      const batch = buildBatch(list, { baseOffset: 77, lastOffsetDelta })
      const header = readBatchHeader(batch)
      const section = recordsSection(batch, 0, header)
      validateRecords(section, header, { dense: false })
      const cursor = new RecordCursor(section, header)
      for (const delta of rising) {
        assert.ok(cursor.next())
        assert.equal(cursor.offset, 77 + delta)
      }
      assert.equal(cursor.next(), false)
      assert.equal(header.lastOffsetDelta, lastOffsetDelta)
    }),
    RUNS,
  )
})

test('a flipped bit in the records section is a typed error or another set of records, within its bytes', () => {
  fc.assert(
    fc.property(records, fc.nat(), (list, at) => {
      const batch = buildBatch(list)
      const header = readBatchHeader(batch)
      const section = Buffer.from(recordsSection(batch, 0, header))
      const bit = at % (section.length * 8)
      section[bit >> 3] = (section[bit >> 3] as number) ^ (1 << (bit & 7))
      try {
        for (const each of readRecords(section, header))
          for (const part of [each.key, each.value]) assert.ok((part?.length ?? 0) <= section.length)
        validateRecords(section, header, { dense: true })
      } catch (error) {
        assert.ok(error instanceof MoonMQError && error.code === 'INVALID_RECORD', String(error))
      }
    }),
    { numRuns: 2000, seed: 21 },
  )
})

test('a flipped bit of the header is refused, or one of the fields before the checksum that neighbours tell', () => {
  const batch = buildBatch([{ key: null, value: Buffer.from('v'), timestampMs: 5 }], { baseOffset: 9, leaderEpoch: 4 })
  const whole = readBatchHeader(batch)
  const passed = new Set<string>()
  for (let bit = 0; bit < batch.length * 8; bit++) {
    const copy = Buffer.from(batch)
    copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
    try {
      const header = readBatchHeader(copy)
      verifyBatchCrc(copy, 0, header)
      for (const [name, value] of Object.entries(header)) if (whole[name as keyof typeof whole] !== value) passed.add(name)
    } catch (error) {
      assert.ok(error instanceof MoonMQError && error.code === 'CORRUPT_BATCH', String(error))
    }
  }
  assert.deepEqual([...passed].sort(), ['baseOffset', 'leaderEpoch'])
})

test('a changed max timestamp keeps the batch sound', () => {
  fc.assert(
    fc.property(records, timestamp, fc.boolean(), (list, timestampMs, append) => {
      const batch = buildBatch(list)
      const header = setMaxTimestamp(batch, 0, readBatchHeader(batch), append ? 'LogAppendTime' : 'CreateTime', timestampMs)
      assert.deepEqual(readBatchHeader(batch), header)
      assert.ok(batchCrcMatches(batch, 0, header))
      assert.equal(header.maxTimestampMs, timestampMs)
      assert.equal(batch.readInt16BE(AT.attributes) & 8, append ? 8 : 0)
    }),
    RUNS,
  )
})

test('random bytes are no records', () => {
  const header = readBatchHeader(buildBatch([{ key: null, value: null, timestampMs: 5 }]))
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(1000), (noise, recordCount) => {
      const section = Buffer.from(noise)
      try {
        validateRecords(section, { ...header, recordCount, lastOffsetDelta: Math.max(0, recordCount - 1) }, { dense: true })
      } catch (error) {
        assert.ok(error instanceof MoonMQError && error.code === 'INVALID_RECORD', String(error))
      }
    }),
    { numRuns: 2000, seed: 22 },
  )
})
