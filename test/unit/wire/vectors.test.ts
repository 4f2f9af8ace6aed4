import { deepEqual, equal, ok } from 'node:assert/strict'
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

/** Messages with fields that may be absent, with all of them. */
const FULL: { readonly [N in OpName]?: Message<N> } = {
  IDENTIFY_CLIENT: { name: 'n', version: 'v', features: 2 },
  IDENTIFY_ACK: { name: 'n', version: 'v', features: 2, maxFrameBytes: 9 },
  AUTH_OK: { message: 'v=' },
  INIT_PRODUCER_ID: { producerName: 'n' },
  FETCH: { topic: 't', group: 'g', maxRecords: 1, isolation: 1, flags: 1 },
  SUBSCRIBE: { topic: 't', group: 'g', isolation: 1 },
  LIST_OFFSETS: { topic: 't', mode: 1, timestamp: 5 },
  OFFSETS: { entries: [], forTimes: [{ partition: 0, offset: 1, flags: 1 }] },
  ERROR: { code: 7, message: 'm', name: 'INTERNAL' },
  LIST: { flags: 0, after: 'a' },
  LISTING: { topics: [], more: 1 },
  GROUPS: { after: 'a' },
  GROUP_NAMES: { groups: [], more: 1 },
}

test('bytes behind the last field that may be absent are ignored, too', () => {
  for (const op of OPTIONAL) ok(op in FULL, op)
  for (const [name, message] of Object.entries(FULL)) {
    const payload = encodeFrame(name as OpName, Buffer.alloc(16), message as never).subarray(21)
    deepEqual(decodePayload(name as OpName, Buffer.concat([payload, Buffer.from([1, 2, 3])])), message, name)
  }
})

test('keys hash to the partitions of the samples', () => {
  for (const { key, hash, partitions, partition } of auxiliary.keyPartitioner.samples) {
    equal(fnv1a(Buffer.from(key)), hash)
    equal((hash % partitions) + 1, partition)
  }
})
