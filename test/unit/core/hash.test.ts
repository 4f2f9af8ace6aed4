import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { crc32c, crc32cTable } from '../../../src/core/crc32c.ts'
import { coordinatorPartition, fnv1a, javaStringHash, murmur2 } from '../../../src/core/hash.ts'

test('crc32c: the check value and the vectors of RFC 3720 appendix B.4', () => {
  const ascending = Buffer.from(Array.from({ length: 32 }, (_, i) => i))
  assert.equal(crc32cTable(Buffer.from('123456789')), 0xe3069283)
  assert.equal(crc32cTable(Buffer.alloc(32)), 0x8a9136aa)
  assert.equal(crc32cTable(Buffer.alloc(32, 0xff)), 0x62a8ab43)
  assert.equal(crc32cTable(ascending), 0x46dd794e)
})

test('crc32c: table and native library agree, whole or in two steps', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 4000 }), fc.nat(4000), (data, cut) => {
      const bytes = Buffer.from(data)
      const at = Math.min(cut, bytes.length)
      const whole = crc32cTable(bytes)
      assert.equal(crc32c(bytes), whole)
      assert.equal(crc32c(bytes, at, bytes.length, crc32c(bytes, 0, at)), whole)
    }),
  )
})

test('fnv1a: samples of the native protocol', () => {
  const samples = { k1: 2554167489, k2: 2503834632, 'order-123': 2768817946, é: 513665217, a: 3826002220 }
  for (const [key, hash] of Object.entries(samples)) assert.equal(fnv1a(Buffer.from(key)), hash, key)
})

test("murmur2: values of Kafka's own test", () => {
  const samples = {
    '21': -973932308,
    foobar: -790332482,
    'a-little-bit-long-string': -985981536,
    'a-little-bit-longer-string': -1486304829,
    lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8: -58897971,
    abc: 479470107,
  }
  for (const [key, hash] of Object.entries(samples)) assert.equal(murmur2(Buffer.from(key)), hash, key)
})

test('javaStringHash and the owner of a group', () => {
  assert.equal(javaStringHash('hello'), 99162322)
  assert.equal(javaStringHash('polygenelubricants'), -2147483648)
  assert.equal(coordinatorPartition('polygenelubricants', 50), 0)
  assert.equal(coordinatorPartition('hello', 50), 22)
})
