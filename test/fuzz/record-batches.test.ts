import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { AT, checkNewBatch, codecOf, readBatchHeader, sealBatch, verifyBatchCrc } from '../../src/record/batch.ts'
import { CODEC, Codecs, codecName } from '../../src/record/compression.ts'
import { readControlKind, readCoordinatorEpoch } from '../../src/record/control.ts'
import { readRecords, validateRecords } from '../../src/record/record.ts'
import { fuzzBudgetMs, seedOr } from '../support/lane.ts'
import { fixture } from '../support/root.ts'

/**
 * Record batches as Kafka and clients in the field wrote them, changed, and judged as the broker judges what a producer sends. Most
 * get a checksum that fits again, so that codecs and records behind it are reached. Whatever comes: an error of ours, or records
 * that lie within bytes that lie within the bound.
 */
const SEED = seedOr(20_260_303)
const BUDGET_MS = fuzzBudgetMs()
/** Below this many a slow machine has tried nothing. */
const LEAST_ROUNDS = 500
const MAX_INFLATED_BYTES = 256 * 1024
const EXPECTED = new Set(['CORRUPT_BATCH', 'INVALID_RECORD', 'INVALID_TIMESTAMP', 'INFLATED_TOO_LARGE', 'UNSUPPORTED_COMPRESSION'])
const EDGES = [0, 1, 2, 15, 0x3f, 0x40, 0x7f, 0x80, 0xf0, 0xfe, 0xff]

const SEEDS = ['kafka-batches.txt', 'client-batches.txt']
  .flatMap((name) => fixture(name).toString().trimEnd().split('\n'))
  .map((line) => Buffer.from(line.split(' ')[1] ?? '', 'base64'))
  .filter((bytes) => bytes.length < 4096)

const codecs = new Codecs({ loader: new NodeLoader() })

before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
})

function mutate(random: SeededRandom, seed: Buffer, other: Buffer): Buffer {
  let bytes = Buffer.from(seed)
  for (let times = 1 + random.below(4); times > 0; times--) {
    // Half of the changes fall into the header and the first bytes of the codec, where what they mean is decided.
    const at = random.below(random.below(2) === 0 ? Math.min(100, bytes.length) : bytes.length)
    switch (random.below(6)) {
      case 0:
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
        break
      case 1:
        bytes[at] = EDGES[random.below(EDGES.length)] ?? 0
        break
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(8)), bytes.subarray(at)])
        break
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + random.below(16)))])
        break
      case 4:
        bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(Math.min(at, other.length))])
        break
      default:
        bytes = Buffer.concat([bytes, bytes.subarray(at)])
    }
  }
  if (random.below(8) > 0 && bytes.length >= AT.records) {
    bytes.writeInt32BE(bytes.length - 12, AT.batchLength)
    bytes.writeInt8(2, AT.magic)
    sealBatch(bytes, 0, bytes.length)
  }
  return bytes
}

/** The way of a batch from a producer; then what readers do with it. Returns how far it came. */
function judge(bytes: Buffer): 'refused' | 'records' {
  try {
    const header = readBatchHeader(bytes)
    verifyBatchCrc(bytes, 0, header)
    checkNewBatch(header)
    const section = codecs.inflateRecords(bytes, 0, header, MAX_INFLATED_BYTES)
    if (codecOf(header) !== CODEC.none) assert.ok(section.length <= MAX_INFLATED_BYTES, `${section.length} bytes came out`)
    validateRecords(section, header, { dense: true })
    for (const { key, value, headers } of readRecords(section, header)) {
      const size = (key?.length ?? 0) + (value?.length ?? 0) + headers.reduce((sum, each) => sum + (each.value?.length ?? 0), 0)
      assert.ok(size <= section.length)
      if ((header.attributes & 0x20) !== 0 && readControlKind(key) === 'commit') readCoordinatorEpoch(value)
    }
    return 'records'
  } catch (error) {
    if (error instanceof MoonMQError && EXPECTED.has(error.code)) return 'refused'
    throw error
  }
}

test('changed batches end in records or in an error of ours', (t) => {
  const random = new SeededRandom(SEED)
  const counts = { refused: 0, records: 0 }
  const endMs = performance.now() + BUDGET_MS
  let rounds = 0
  for (; rounds < LEAST_ROUNDS || performance.now() < endMs; rounds++) {
    const round = rounds
    const bytes = mutate(random, SEEDS[round % SEEDS.length] as Buffer, SEEDS[random.below(SEEDS.length)] as Buffer)
    try {
      counts[judge(bytes)]++
    } catch (error) {
      throw new Error(`seed ${SEED}, round ${round}: ${bytes.toString('base64')}`, { cause: error })
    }
  }
  t.diagnostic(`${counts.refused} refused, ${counts.records} were records still`)
  assert.ok(counts.refused > rounds / 4, 'most changes are told')
  assert.ok(counts.records > 0, 'some changes are harmless, so the whole way is walked')
})

test('noise behind a true header ends the same way, in each codec', () => {
  const random = new SeededRandom(SEED)
  const seeds = SEEDS.filter((bytes) => readBatchHeader(bytes).recordCount > 1)
  const endMs = performance.now() + BUDGET_MS / 2
  for (let round = 0; round < LEAST_ROUNDS || performance.now() < endMs; round++) {
    const seed = seeds[round % seeds.length] as Buffer
    const keep = random.below(Math.min(24, seed.length - AT.records))
    const bytes = Buffer.concat([seed.subarray(0, AT.records + keep), random.bytes(random.below(300))])
    bytes.writeInt32BE(bytes.length - 12, AT.batchLength)
    sealBatch(bytes, 0, bytes.length)
    try {
      judge(bytes)
    } catch (error) {
      const codec = codecName(codecOf(readBatchHeader(bytes)))
      throw new Error(`seed ${SEED}, round ${round}, ${codec}: ${bytes.toString('base64')}`, { cause: error })
    }
  }
})
