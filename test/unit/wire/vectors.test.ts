import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { fnv1a } from '../../../src/core/hash.ts'
import { decodePayload, encodeFrame, FrameCutter } from '../../../src/wire/frame.ts'
import { MAX_FRAME_BYTES } from '../../../src/wire/limits.ts'
import type { Message } from '../../../src/wire/messages.ts'
import { OPCODES, type OpName } from '../../../src/wire/opcodes.ts'
import { messageOf, nativeVectors } from '../../support/native-vectors.ts'

const { vectors, opcodes, auxiliary } = nativeVectors()

test('every opcode of the protocol has its number', () => {
  const ours = Object.fromEntries(
    Object.entries(OPCODES)
      .filter(([, opcode]) => !opcode.extension)
      .map(([name, { code }]) => [name, code]),
  )
  deepEqual(ours, opcodes)
  equal(vectors.length, 98)
})

for (const vector of vectors) {
  test(`vector ${vector.id}, ${vector.name}: decodes to its fields and encodes to its bytes`, () => {
    const cutter = new FrameCutter(MAX_FRAME_BYTES)
    cutter.push(Buffer.from(vector.frameHex, 'hex'))
    const frame = cutter.next()
    equal(cutter.next(), null)
    equal(frame?.opcode, vector.opcode)
    equal(frame?.correlation.toString('hex'), vector.correlationIdHex)
    const message = messageOf(vector)
    deepEqual(decodePayload(vector.op, frame?.payload ?? Buffer.alloc(0)), message)
    const bytes = encodeFrame(vector.op, Buffer.from(vector.correlationIdHex, 'hex'), message as Message<OpName> as never)
    equal(bytes.toString('hex'), vector.frameHex)
    // Bytes after the last field are ignored. A field that may be absent would take them.
    if (!OPTIONAL.has(vector.op)) {
      deepEqual(decodePayload(vector.op, Buffer.concat([Buffer.from(vector.payloadHex, 'hex'), Buffer.from([1, 2, 3])])), message)
    }
  })
}

const OPTIONAL = new Set<OpName>([
  'IDENTIFY_CLIENT',
  'IDENTIFY_ACK',
  'AUTH_OK',
  'INIT_PRODUCER_ID',
  'FETCH',
  'SUBSCRIBE',
  'LIST_OFFSETS',
  'OFFSETS',
  'ERROR',
])

test('keys hash to the partitions of the samples', () => {
  for (const { key, hash, partitions, partition } of auxiliary.keyPartitioner.samples) {
    equal(fnv1a(Buffer.from(key)), hash)
    equal((hash % partitions) + 1, partition)
  }
})
