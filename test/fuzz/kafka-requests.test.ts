import assert from 'node:assert/strict'
import { it } from 'node:test'
import { SeededRandom } from '../../src/core/random.ts'
import { KAFKA_APIS } from '../../src/kafka/handlers/index.ts'
import { createTopic } from '../support/fake-broker.ts'
import { settle } from '../support/fake-socket.ts'
import { type TestDoor, testDoor } from '../support/kafka-door.ts'
import { framed, frames } from '../support/kafka-frames.ts'
import { sampleFrames } from '../support/kafka-samples.ts'
import { fuzzBudgetMs, seedOr } from '../support/lane.ts'

/**
 * Kafka requests, seeded with a real frame of every API and version, changed in ways that know the format: lengths and counts that
 * lie, flipped bits, cut and doubled parts, other keys and versions, chunks cut anywhere. Whatever comes, the connection is
 * answered or closed, its neighbour is served, nothing is logged as a fault of ours, and no memory stays behind.
 */
const SEED = seedOr(20_260_101)
const BUDGET_MS = fuzzBudgetMs(2)

const EDGES = [0, 1, -1, 127, -128, 255, 32_767, -32_768, 65_535, 2 ** 31 - 1, -(2 ** 31), 1_000_000]

function mutate(random: SeededRandom, frame: Buffer, others: readonly Buffer[]): Buffer {
  let bytes = Buffer.from(frame)
  for (let times = 1 + random.below(3); times > 0; times--) {
    const at = random.below(bytes.length)
    switch (random.below(8)) {
      case 0:
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
        break
      case 1:
        if (at + 4 <= bytes.length) bytes.writeInt32BE((EDGES[random.below(EDGES.length)] ?? 0) | 0, at)
        break
      case 2:
        if (at + 2 <= bytes.length) bytes.writeInt16BE(((EDGES[random.below(EDGES.length)] ?? 0) << 16) >> 16, at)
        break
      case 3:
        bytes = bytes.subarray(0, at)
        break
      case 4: {
        const other = others[random.below(others.length)] ?? bytes
        bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(random.below(other.length))])
        break
      }
      case 5:
        bytes = Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(20)), bytes.subarray(at)])
        break
      case 6:
        if (bytes.length >= 4) bytes.writeInt16BE(random.below(30), 2)
        break
      default:
        if (bytes.length >= 2) bytes.writeInt16BE(random.below(95), 0)
    }
    if (bytes.length === 0) return Buffer.from([0])
  }
  return bytes
}

/** Mostly with the right length in front, so that the body is what is tried. */
function asFrame(random: SeededRandom, payload: Buffer): Buffer {
  const frame = framed(payload)
  if (random.below(20) === 0) frame.writeInt32BE((EDGES[random.below(EDGES.length)] ?? 0) | 0, 0)
  return frame
}

async function attack(door: TestDoor, random: SeededRandom, bytes: Buffer): Promise<void> {
  const client = door.connect()
  for (let at = 0; at < bytes.length; ) {
    const size = random.below(4) === 0 ? 1 + random.below(bytes.length) : bytes.length
    client.push(bytes.subarray(at, at + size))
    at += size
  }
  await settle()
  for (const answer of frames(client.socket.take())) assert.ok(answer.length >= 4)
  client.socket.close()
  await settle()
}

it(`kafka requests for ${BUDGET_MS} ms from seed ${SEED}`, async () => {
  const random = new SeededRandom(SEED)
  const door = await testDoor()
  const topic = await createTopic(door.broker, 't')
  const seeds = sampleFrames(KAFKA_APIS, topic.id).map((frame) => frame.subarray(4))
  const good = sampleFrames([{ name: 'ApiVersions', versions: [0, 0] }], topic.id)[0] as Buffer
  const neighbour = door.connect()
  neighbour.push(good)
  neighbour.frames()
  const endMs = performance.now() + BUDGET_MS
  for (let round = 0; performance.now() < endMs; round++) {
    const parts: Buffer[] = []
    for (let count = 1 + random.below(2); count > 0; count--) {
      const seed = seeds[random.below(seeds.length)] as Buffer
      parts.push(asFrame(random, random.below(10) === 0 ? seed : mutate(random, seed, seeds)))
    }
    const bytes = Buffer.concat(parts)
    const where = `round ${round} of seed ${SEED}: ${bytes.subarray(0, 200).toString('hex')}`
    const before = door.log.lines.length
    await attack(door, random, bytes)
    for (const line of door.log.lines.slice(before)) {
      assert.notEqual(line.level, 'error', `${line.text} ${String(line.fields.stack)}\n${where}`)
    }
    door.log.lines.length = 0
    assert.equal(door.door.partialBytes, 0, where)
    assert.equal(door.door.openConnections, 1, where)
    if (round % 100 !== 0) continue
    // Members that joined and rebalances that wait end by their timeouts.
    await door.clock.advance(300_000)
    neighbour.push(good)
    await settle()
    assert.equal(neighbour.frames().length, 1, where)
    assert.ok(door.clock.pendingTimers < 1000, `${door.clock.pendingTimers} timers are left, ${where}`)
  }
})
