import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isCode } from '../../../src/core/errors.ts'
import { readInt64, readUInt64, writeInt64, writeUInt64 } from '../../../src/core/int64.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { newUuid, uuidFromBytes, writeUuid, ZERO_UUID } from '../../../src/core/uuid.ts'
import { ByteWriter } from '../../../src/core/writer.ts'

const SAFE = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }

test('int64: safe integers agree with BigInt both ways', () => {
  fc.assert(
    fc.property(fc.integer(SAFE), (value) => {
      const bytes = Buffer.alloc(8)
      writeInt64(bytes, value, 0)
      assert.equal(bytes.readBigInt64BE(0), BigInt(value))
      assert.equal(readInt64(bytes, 0), value)
    }),
  )
})

test('int64: a value beyond the safe integers comes out unsafe, never as another safe one', () => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(9223372036854775807n)
  assert.equal(Number.isSafeInteger(readInt64(bytes, 0)), false)
  bytes.writeBigInt64BE(-9223372036854775808n)
  assert.equal(readInt64(bytes, 0), -(2 ** 63))
})

test('uint64: every value round-trips, as a number where safe', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), (value) => {
      const bytes = Buffer.alloc(8)
      bytes.writeBigUInt64BE(value)
      const read = readUInt64(bytes, 0)
      assert.equal(BigInt(read), value)
      assert.equal(typeof read, value <= BigInt(Number.MAX_SAFE_INTEGER) ? 'number' : 'bigint')
      const again = Buffer.alloc(8)
      writeUInt64(again, read, 0)
      assert.deepEqual(again, bytes)
    }),
  )
})

test('varints: written values read back, in the documented sizes', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), fc.integer(SAFE), (u, i, l) => {
      const writer = new ByteWriter(1)
      writer.uvarint(u)
      writer.varint(i)
      writer.varlong(l)
      const reader = new ByteReader(writer.toBuffer())
      assert.equal(reader.uvarint(), u)
      assert.equal(reader.varint(), i)
      assert.equal(reader.varlong(), l)
      reader.expectEnd('three varints')
    }),
  )
})

test('varints: known bytes of the Kafka protocol guide', () => {
  const writer = new ByteWriter()
  for (const value of [0, -1, 1, -2, 300]) writer.varint(value)
  assert.equal(writer.toBuffer().toString('hex'), '00010203d804')
})

test('varints: too long or too wide is refused', () => {
  for (const hex of ['ffffffffff01', 'ffffffff7f', '8080808080808080808001']) {
    const reader = new ByteReader(Buffer.from(hex, 'hex'))
    assert.throws(
      () => reader.uvarint(),
      (error) => isCode(error, 'BAD_FRAME'),
      hex,
    )
  }
  assert.throws(
    () => new ByteReader(Buffer.alloc(11, 0xff)).varlong(),
    (error) => isCode(error, 'BAD_FRAME'),
  )
})

test('reader: every primitive refuses to read past the end', () => {
  const reads: ((reader: ByteReader) => unknown)[] = [
    (r) => r.int8(),
    (r) => r.uint8(),
    (r) => r.int16(),
    (r) => r.uint16(),
    (r) => r.int32(),
    (r) => r.uint32(),
    (r) => r.int64(),
    (r) => r.uint64(),
    (r) => r.float64(),
    (r) => r.uuid(),
    (r) => r.view(1),
    (r) => r.utf8(1),
    (r) => r.view(-1),
    (r) => r.uvarint(),
    (r) => r.varlong(),
  ]
  for (const read of reads)
    assert.throws(
      () => read(new ByteReader(Buffer.alloc(8), 8)),
      (error) => isCode(error, 'BAD_FRAME'),
    )
})

test('reader: an inner end is respected', () => {
  const reader = new ByteReader(Buffer.from('0102030405', 'hex'), 1, 3)
  assert.equal(reader.uint16(), 0x0203)
  assert.equal(reader.remaining, 0)
  assert.throws(() => reader.uint8())
})

test('writer: growth and links keep the order of bytes', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.uint8Array({ maxLength: 40 }).map((bytes) => ({ link: false, bytes })),
          fc.uint8Array({ maxLength: 40 }).map((bytes) => ({ link: true, bytes })),
        ),
      ),
      (parts) => {
        const writer = new ByteWriter(3)
        for (const part of parts) {
          if (part.link) writer.link(Buffer.from(part.bytes))
          else for (const byte of part.bytes) writer.uint8(byte)
        }
        const expected = Buffer.concat(parts.map((part) => Buffer.from(part.bytes)))
        assert.equal(writer.length, expected.length)
        assert.deepEqual(Buffer.concat(writer.finish()), expected)
      },
    ),
  )
})

test('writer: a length written early can be filled in later', () => {
  const writer = new ByteWriter(2)
  writer.int32(0)
  writer.bytes(Buffer.alloc(100, 7))
  writer.patchInt32(0, writer.length - 4)
  assert.equal(writer.toBuffer().readInt32BE(0), 100)
})

test('uuid: bytes and text convert both ways; new ids are version 4 and start with no dash', () => {
  const random = new SeededRandom(1)
  for (let i = 0; i < 500; i++) {
    const id = newUuid(random)
    assert.equal(id.length, 22)
    assert.notEqual(id[0], '-')
    const bytes = Buffer.alloc(16)
    writeUuid(bytes, id, 0)
    assert.equal((bytes[6] as number) >> 4, 4)
    assert.equal(uuidFromBytes(bytes), id)
  }
  assert.equal(uuidFromBytes(Buffer.alloc(16)), ZERO_UUID)
})
