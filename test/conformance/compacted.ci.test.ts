import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { variableOf } from '../../src/config/environment.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { dumpToolMissing, filesOf, kafkaLibraries, openDumpTool } from '../support/kafka-dump.ts'
import { kafkaClient } from '../support/kafkajs.ts'
import { hasProgram, run } from '../support/programs.ts'
import { RawKafka, type RawRecord } from '../support/raw-kafka.ts'
import { inRoot } from '../support/root.ts'

/** A compacted topic of a real broker: other people's clients read it from every hole, and Kafka's dump tool reads its files. */

const TOPIC = 'holes'
const CONFIGS = {
  'cleanup.policy': 'compact',
  'segment.bytes': '200000',
  'min.cleanable.dirty.ratio': '0',
  'index.interval.bytes': '500',
}
const PRODUCER = { producerId: 4711, producerEpoch: 0 }
const FIRST = 0
const HOLE = 100_000
/** Five keys, the last filler of those that are compacted and the one in the active segment. */
const LEFT = 7
const LIMIT_MS = 60_000

const withoutTool = dumpToolMissing()
const pom = inRoot('test', 'conformance', 'pom.xml')
let broker: BrokerProcess
/** What is left, and offsets within the holes: of a batch, of its end, of a segment, of a hundred thousand records. */
let left: RawRecord[] = []
let fromOffsets: number[] = []

async function createTopic(kafka: RawKafka): Promise<void> {
  const configs = Object.entries(CONFIGS).map(([name, value]) => ({ name, value }))
  const topics = [{ name: TOPIC, numPartitions: 1, replicationFactor: 1, assignments: [], configs }]
  const answer = await kafka.request('CreateTopics', 7, { topics, timeoutMs: 30_000, validateOnly: false })
  assert.equal(answer.topics[0]?.errorCode, 0)
}

async function fill(kafka: RawKafka): Promise<void> {
  const put = async (records: { key: string; value: string | null }[], options = {}) => {
    const { errorCode, baseOffset } = await kafka.produce(TOPIC, 0, records, options)
    assert.equal(errorCode, 0)
    return baseOffset
  }
  await put([
    { key: 'first', value: '1' },
    { key: 'end', value: 'gone' },
  ])
  await put([{ key: 'end', value: 'gone' }])
  for (let batch = 0; batch < HOLE / 2500; batch++) await put(Array.from({ length: 2500 }, () => ({ key: 'many', value: '' })))
  await put([
    { key: 'second', value: '1' },
    { key: 'end', value: 'gone' },
    { key: 'dead', value: 'gone' },
  ])
  await put([{ key: 'end', value: 'gone' }], { ...PRODUCER, baseSequence: 0 })
  await put([
    { key: 'many', value: 'last' },
    { key: 'end', value: 'last' },
    { key: 'dead', value: null },
  ])
  for (let batch = 0; batch < 3; batch++) await put([{ key: 'filler', value: 'x'.repeat(199_000) }])
}

before(async () => {
  const env = { [variableOf('kafka.log.cleaner.backoff.ms')]: '20' }
  broker = await BrokerProcess.start({ env })
  {
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka)
    await fill(kafka)
  }
  // A stop in order saves the recovery point, without which nothing is compacted.
  assert.equal(await broker.stop(), 0)
  await broker.start()
  using kafka = await RawKafka.connect(broker.address)
  do left = await kafka.readAll(TOPIC, 0)
  while (left.length > LEFT)
  fromOffsets = [FIRST, 1, 2, 3, 50_000, HOLE + 2, ...left.map(({ offset }) => offset), ...left.map(({ offset }) => offset + 1)]
  fromOffsets = [...new Set(fromOffsets)].filter((offset) => offset <= (left.at(-1)?.offset ?? 0)).sort((a, b) => a - b)
})

after(() => broker?.[Symbol.asyncDispose]())

function expectedFrom(offset: number): number[] {
  return left.map((record) => record.offset).filter((each) => each >= offset)
}

test('what is left is the latest of each key, at its offset', () => {
  const values = new Map(left.filter(({ key }) => key !== 'filler').map(({ key, value }) => [key, value]))
  assert.deepEqual(Object.fromEntries(values), { first: '1', second: '1', many: 'last', end: 'last', dead: null })
  assert.ok((left[1]?.offset ?? 0) - (left[0]?.offset ?? 0) > HOLE)
})

test('O11: a fetch at every offset around a hole goes on behind it', async () => {
  using kafka = await RawKafka.connect(broker.address)
  for (const offset of fromOffsets) {
    const read: number[] = []
    for (let next = offset; ; ) {
      const found = await kafka.fetch(TOPIC, 0, next)
      assert.equal(found.errorCode, 0)
      if (next >= found.highWatermark) break
      assert.ok(found.nextOffset > next, `nothing at ${next}`)
      read.push(...found.records.filter((record) => record.offset >= next).map((record) => record.offset))
      next = found.nextOffset
    }
    assert.deepEqual(read, expectedFrom(offset), `from ${offset}`)
  }
})

test('O11: kafkajs reads from every hole to the end', async () => {
  const consumer = kafkaClient(broker.address, 'holes').consumer({ groupId: 'kafkajs' })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
    const last = left.at(-1)?.offset ?? 0
    let read: number[] = []
    let from = -1
    let reached: () => void = () => {}
    await consumer.run({
      eachMessage: async ({ message }) => {
        const offset = Number(message.offset)
        // What was fetched before the seek may still come.
        if (from < 0 || offset < from || (read.length > 0 && offset <= (read.at(-1) ?? 0))) return
        read.push(offset)
        if (offset === last) reached()
      },
    })
    for (const offset of fromOffsets) {
      read = []
      from = -1
      const done = new Promise<void>((resolve) => {
        reached = resolve
      })
      consumer.seek({ topic: TOPIC, partition: 0, offset: String(offset) })
      from = offset
      await done
      assert.deepEqual(read, expectedFrom(offset), `from ${offset}`)
    }
  } finally {
    await consumer.disconnect()
  }
})

test('O11: kcat reads from every hole to the end', { skip: hasProgram('kcat') ? false : 'kcat is not installed' }, async () => {
  for (const offset of fromOffsets) {
    const args = ['-b', broker.address, '-C', '-t', TOPIC, '-p', '0', '-o', String(offset), '-e', '-q', '-f', '%o\\n']
    const { code, stdout, stderr } = await run('kcat', args, { limitMs: LIMIT_MS })
    assert.equal(code, 0, stderr)
    assert.deepEqual(stdout.trim().split('\n').map(Number), expectedFrom(offset), `from ${offset}`)
  }
})

test("O11: Kafka's own consumer reads from every hole to the end", { skip: withoutTool ?? false }, async () => {
  const libraries = await kafkaLibraries(pom)
  for (const offset of [1, 50_000, HOLE + 2]) {
    const expected = expectedFrom(offset)
    const args = ['-Xshare:auto', '-XX:TieredStopAtLevel=1', '-cp', `${libraries}/*`, 'org.apache.kafka.tools.consumer.ConsoleConsumer']
    args.push('--bootstrap-server', broker.address, '--topic', TOPIC, '--partition', '0', '--offset', String(offset))
    args.push('--max-messages', String(expected.length), '--timeout-ms', '30000', '--formatter-property', 'print.offset=true')
    const { code, stdout, stderr } = await run('java', args, { limitMs: LIMIT_MS })
    assert.equal(code, 0, stderr)
    const offsets = [...stdout.matchAll(/^Offset:(\d+)/gm)].map((match) => Number(match[1]))
    assert.deepEqual(offsets, expected, `from ${offset}: ${stdout.slice(0, 300)}`)
  }
})

test('O12: the next sequence of a producer whose last record was compacted away is stored, once', async () => {
  using kafka = await RawKafka.connect(broker.address)
  const send = (baseSequence: number) => kafka.produce(TOPIC, 0, [{ key: 'producer', value: 'next' }], { ...PRODUCER, baseSequence })
  assert.equal((await send(2)).errorCode, 45, 'a sequence was left out')
  const first = await send(1)
  assert.equal(first.errorCode, 0)
  assert.deepEqual(await send(1), first)
})

test("Kafka's dump tool has nothing against compacted segments, their indexes and snapshots", { skip: withoutTool ?? false }, async () => {
  assert.equal(await broker.stop(), 0)
  const tool = await openDumpTool(pom)
  const files = filesOf(join(broker.dataDir, `${TOPIC}-0`))
  const logs = await tool.dump(files.log, ['--deep-iteration', '--print-data-log'], { compacted: true })
  assert.deepEqual(logs.findings, [])
  assert.match(logs.text, /deleteHorizonMs: OptionalLong\[\d+\]/)
  assert.match(logs.text, /count: 0 /)
  for (const kind of ['index', 'timeindex', 'snapshot'] as const) {
    assert.deepEqual((await tool.dump(files[kind], kind === 'snapshot' ? [] : ['--index-sanity-check'], { compacted: true })).findings, [])
  }
  await broker.start()
})
