import { deepEqual, equal, throws } from 'node:assert/strict'
import test from 'node:test'
import { isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { type Field, list } from '../../../src/wire/fields.ts'
import {
  keyValue,
  plainKeyValue,
  plainReadRecord,
  plainRecord,
  plainSendRecord,
  plainSequencedRecord,
  readRecordBytes,
  readRecordField,
  record,
  recordList,
  sendRecord,
  sequencedRecord,
  wireRecordBytes,
} from '../../../src/wire/records.ts'

const random = new SeededRandom(7)

function bytes(max: number): Buffer {
  return random.bytes(random.below(max))
}

function maybe(): Buffer | null {
  return random.below(3) === 0 ? null : bytes(40)
}

function headers() {
  return Array.from({ length: random.below(4) }, (_, i) => ({ key: `hä${i}`, value: maybe() }))
}

function written<T>(field: Field<T>, value: T): Buffer {
  const writer = new ByteWriter()
  field.write(writer, value, {})
  return writer.toBuffer()
}

/** Both forms write the same bytes, and read them to the same value, whole and cut off. */
function same<T>(plain: Field<T>, byHand: Field<T>, value: T): void {
  const expected = written(plain, value)
  deepEqual(written(byHand, value), expected)
  deepEqual(byHand.read(new ByteReader(expected), {}), plain.read(new ByteReader(expected), {}))
  for (let end = 0; end < expected.length; end++) {
    throws(
      () => byHand.read(new ByteReader(expected, 0, end), {}),
      (error) => isCode(error, 'BAD_FRAME'),
      `cut at ${end}`,
    )
  }
}

const wireRecord = () => ({
  topic: random.below(2) === 0 ? 'orders' : 'äudit',
  partition: random.below(5),
  offset: random.below(2) === 0 ? random.below(1000) : 2n ** 60n + BigInt(random.below(9)),
  timestampMs: 1_700_000_000_000 + random.below(1000),
  key: bytes(30),
  value: bytes(60),
})

test('records by hand are those of the table', () => {
  for (let round = 0; round < 50; round++) {
    same(plainKeyValue, keyValue, { key: bytes(30), value: bytes(60) })
    same(plainRecord, record, wireRecord())
    same(list(plainRecord, { max: 10_000 }), recordList, Array.from({ length: random.below(6) }, wireRecord))
    same(plainSequencedRecord, sequencedRecord, { key: maybe(), value: maybe(), headers: headers() })
    same(plainSendRecord, sendRecord, { partition: random.below(4) - 1, key: maybe(), value: maybe(), headers: headers() })
    const read = { offset: random.below(1e9), timestampMs: -1, key: maybe(), value: maybe(), headers: headers() }
    same(plainReadRecord, readRecordField, read)
  }
})

test('the sizes that frames are made with are never too small', () => {
  for (let round = 0; round < 50; round++) {
    const one = { ...wireRecord(), topic: 'orders.eu_1' }
    equal(wireRecordBytes(one) >= written(plainRecord, one).length, true)
    const read = { offset: 1, timestampMs: 1, key: maybe(), value: maybe(), headers: headers() }
    equal(readRecordBytes(read) >= written(plainReadRecord, read).length, true)
  }
})

test('version 1 has no null: it is written as the empty string', () => {
  const one = { ...wireRecord(), key: null, value: null }
  const back = record.read(new ByteReader(written(record, one)), {})
  deepEqual([back.key, back.value], [Buffer.alloc(0), Buffer.alloc(0)])
})

test('counts and lengths that lie are refused before memory is taken for them', () => {
  const refuses = (field: Field<unknown>, hex: string) =>
    throws(
      () => field.read(new ByteReader(Buffer.from(hex, 'hex')), {}),
      (error) => isCode(error, 'BAD_FRAME'),
    )
  refuses(recordList as Field<unknown>, '00002711')
  refuses(recordList as Field<unknown>, '0000271000000000')
  refuses(sendRecord as Field<unknown>, '00000000fffffffe')
  refuses(sendRecord as Field<unknown>, '00000000ffffffffffffffffffff')
  refuses(keyValue as Field<unknown>, '00010001')
})
