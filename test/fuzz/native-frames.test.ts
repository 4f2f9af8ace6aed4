import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { type Random, SeededRandom } from '../../src/core/random.ts'
import { encodeFrame } from '../../src/wire/frame.ts'
import { createTopic } from '../support/fake-broker.ts'
import { fuzzBudgetMs, seedOr } from '../support/lane.ts'
import { type TestNativeDoor, testNativeDoor } from '../support/native-door.ts'
import { nativeVectors } from '../support/native-vectors.ts'

/**
 * Native frames, seeded with every frame of the vectors and of the extension, changed in ways that know the format: lengths and counts
 * that lie, flipped bits, cut and doubled parts, other opcodes, chunks cut anywhere, in every state. Whatever comes, the connection
 * is answered or closed, its neighbour is served, nothing is logged as a fault of ours, and nothing stays behind.
 */
const SEED = seedOr(20_260_202)
const BUDGET_MS = fuzzBudgetMs(2)

const EDGES = [0, 1, 16, 17, 255, 65_535, 65_536, 65_537, 10_000, 10_001, 1 << 20, (1 << 20) + 1, 0x7fffffff, 0x80000000, 0xffffffff]
const STATES = ['new', 'greeted', 'authenticated', 'extended', 'extended'] as const

function samples(): Buffer[] {
  const id = Buffer.alloc(16, 9)
  const value = Buffer.from('value')
  return [
    ...nativeVectors().vectors.map((each) => Buffer.from(each.frameHex, 'hex')),
    ...nativeVectors().malformed.map((each) => Buffer.from(each.frameHex, 'hex')),
    encodeFrame('SEND', id, {
      acks: 1,
      codec: 0,
      timeoutMs: 1000,
      topic: 'orders',
      records: [
        { partition: 0, key: value, value: null, headers: [{ key: 'h', value }] },
        { partition: -1, key: null, value, headers: [] },
      ],
    }),
    encodeFrame('READ', id, {
      topic: 'orders',
      isolation: 1,
      maxRecords: 10,
      maxBytes: 1000,
      maxWaitMs: 100,
      partitions: [
        { partition: 0, start: 0, value: 0 },
        { partition: 1, start: 3, value: 1_700_000_000_000 },
      ],
    }),
    encodeFrame('LIST', id, { flags: 1 }),
    encodeFrame('DESCRIBE', id, { name: 'orders' }),
    encodeFrame('CREATE', id, { name: 'fresh', partitions: -1, config: new Map([['retention.ms', '1000']]) }),
    encodeFrame('GET_POSITIONS', id, { group: 'g', topics: ['orders'] }),
    encodeFrame('STORE_POSITIONS', id, { group: 'g', offsets: [{ topic: 'orders', partition: 0, offset: 0 }] }),
  ]
}

function mutate(random: Random, frame: Buffer, others: readonly Buffer[]): Buffer {
  let bytes: Buffer = Buffer.from(frame)
  for (let times = random.below(4); times > 0; times--) {
    const at = random.below(bytes.length)
    const edge = EDGES[random.below(EDGES.length)] ?? 0
    switch (random.below(7)) {
      case 0:
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
        break
      case 1:
        if (at + 4 <= bytes.length) bytes.writeUInt32BE(edge, at)
        break
      case 2:
        bytes = bytes.subarray(0, Math.max(1, at))
        break
      case 3: {
        const other = others[random.below(others.length)] ?? bytes
        bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(random.below(other.length))])
        break
      }
      case 4:
        bytes = Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(20)), bytes.subarray(at)])
        break
      case 5:
        if (bytes.length > 4) bytes[4] = random.below(256)
        break
      default:
        bytes = random.bytes(1 + random.below(60))
    }
    if (bytes.length === 0) bytes = Buffer.from([0])
  }
  // Mostly with the right length in front, so that the payload is what is tried.
  if (bytes.length >= 21 && random.below(8) > 0) bytes.writeUInt32BE(bytes.length - 4, 0)
  return bytes
}

async function attack(at: TestNativeDoor, random: Random, bytes: Buffer): Promise<void> {
  const connection = await at.connect(STATES[random.below(STATES.length)] ?? 'new')
  for (let from = 0; from < bytes.length; ) {
    const size = random.below(4) === 0 ? 1 + random.below(bytes.length) : bytes.length
    connection.socket.push(bytes.subarray(from, from + size))
    from += size
  }
  await connection.received()
  connection.socket.close()
}

test(`native frames for ${BUDGET_MS} ms from seed ${SEED}`, async () => {
  const random = new SeededRandom(SEED)
  const at = await testNativeDoor()
  await createTopic(at.broker, 'orders', 4)
  await createTopic(at.broker, 't')
  const neighbour = await at.connect()
  const seeds = samples()
  const endMs = performance.now() + BUDGET_MS
  for (let round = 0; round < 200 || performance.now() < endMs; round++) {
    const parts = Array.from({ length: 1 + random.below(3) }, () => mutate(random, seeds[random.below(seeds.length)] as Buffer, seeds))
    const bytes = Buffer.concat(parts)
    await attack(at, random, bytes)
    const faults = at.log.lines.filter((line) => line.level === 'error').map((line) => `${line.text} ${String(line.fields['stack'])}`)
    deepEqual(faults, [], `seed ${SEED}, round ${round}: ${bytes.toString('hex')}`)
    at.log.lines.length = 0
    if (round % 50 === 0) equal((await neighbour.call('HEARTBEAT_REQ', {})).op, 'HEARTBEAT_RESP')
  }
  equal(at.door.openConnections, 1)
  ok(!neighbour.socket.closed)
})
