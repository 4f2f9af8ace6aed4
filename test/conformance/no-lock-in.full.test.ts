import assert from 'node:assert/strict'
import { appendFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startBroker } from '../../src/index.ts'
import { cliIn } from '../support/cli.ts'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { kafkaClient } from '../support/kafkajs.ts'
import { commitOffsets, consoleConsume, consoleProduce, deleteRecords, RealKafka } from '../support/real-kafka.ts'
import { inRoot } from '../support/root.ts'
import { writeStoredFolder } from '../support/stored-folder.ts'

/**
 * Data goes from MoonMQ to Apache Kafka 4.4 and back as files: the Java client of Kafka reads the same records from both brokers, with
 * their offsets, timestamps, headers and keys, whether or not it asks for committed ones only. docs/TOOLS.md tells the steps.
 */

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Apache Kafka: ${missing}`
const root = mkdtempSync(join(tmpdir(), 'moonmq-moving-'))
const isolations = ['read_uncommitted', 'read_committed'] as const
let libraries = ''

before(async () => {
  if (skip === false) libraries = await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml'))
})

after(() => rmSync(root, { recursive: true, force: true }))

interface Dumped {
  readonly kind: string
  readonly offset: number
  readonly timestampMs: number
  readonly key?: string | null
  readonly value?: string | null
  readonly headers?: readonly { readonly name: string; readonly value: string }[]
  readonly producerId?: number
  readonly control?: string
  readonly transactional?: boolean
}

/** What a partition of MoonMQ holds, in the words of Kafka's console consumer. */
async function recordsOf(data: string, partition: string, isolation: (typeof isolations)[number], stamp = 'CreateTime'): Promise<string[]> {
  const { out, code } = await cliIn(root, ['log', 'dump', join(data, partition), '--json'])
  assert.equal(code, 0, out.slice(-500))
  const lines = out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Dumped)
  const isVisible = isolation === 'read_uncommitted' ? () => true : committed(lines)
  return lines
    .filter((line) => line.kind === 'record' && isVisible(line))
    .map(({ offset, timestampMs, key, value, headers = [] }) => {
      const shown = headers.length === 0 ? 'NO_HEADERS' : headers.map((header) => `${header.name}:${header.value}`).join(',')
      const number = /-(\d+)$/.exec(partition)?.[1]
      return `${stamp}:${timestampMs}\tPartition:${number}\tOffset:${offset}\t${shown}\t${key ?? '<null>'}\t${value ?? '<null>'}`
    })
}

/** Records below the oldest transaction that has not ended, without those of transactions that were aborted. */
function committed(lines: readonly Dumped[]): (line: Dumped) => boolean {
  const open = new Map<number, number[]>()
  const aborted = new Set<number>()
  for (const line of lines) {
    const { producerId = -1, offset } = line
    if (line.kind === 'control') {
      if (line.control === 'abort') for (const each of open.get(producerId) ?? []) aborted.add(each)
      open.delete(producerId)
    } else if (line.transactional === true) open.set(producerId, [...(open.get(producerId) ?? []), offset])
  }
  const stable = Math.min(Number.POSITIVE_INFINITY, ...[...open.values()].map((offsets) => offsets[0] as number))
  return ({ offset }) => offset < stable && !aborted.has(offset)
}

const byOffset = (lines: readonly string[]) => {
  const place = (line: string) => {
    const [, partition, offset] = /Partition:(\d+)\tOffset:(\d+)/.exec(line) ?? []
    return Number(partition) * 1e12 + Number(offset)
  }
  return [...lines].sort((a, b) => place(a) - place(b))
}

test('a folder of MoonMQ under a topic of Kafka: Kafka serves it record for record', { skip }, async () => {
  const data = join(root, 'written')
  await writeStoredFolder(data)
  await using kafka = await RealKafka.format(join(root, 'kafka-receives'), libraries)
  await kafka.start()
  const topics = ['orders', 'payments', 'stamped', 'latest']
  const admin = kafka.client.admin()
  await admin.connect()
  const retention = { name: 'retention.ms', value: '-1' }
  const entriesOf = (topic: string) => (topic === 'latest' ? [retention, { name: 'cleanup.policy', value: 'compact' }] : [retention])
  await admin.createTopics({
    topics: topics.map((topic) => ({ topic, numPartitions: 1, replicationFactor: 1, configEntries: entriesOf(topic) })),
  })
  await admin.disconnect()
  await kafka.stop()
  for (const topic of topics) {
    const [from, to] = [join(data, `${topic}-0`), join(kafka.logs, `${topic}-0`)]
    const id = kafka.topicId(`${topic}-0`)
    rmSync(to, { recursive: true })
    cpSync(from, to, { recursive: true })
    writeFileSync(join(to, 'partition.metadata'), `version: 0\ntopic_id: ${id}`)
  }
  await kafka.start()
  let records = 0
  for (const topic of topics) {
    for (const isolation of isolations) {
      const stamp = topic === 'stamped' ? 'LogAppendTime' : 'CreateTime'
      const expected = await recordsOf(data, `${topic}-0`, isolation, stamp)
      const read = await consoleConsume(libraries, kafka.address, topic, { isolation, count: expected.length })
      assert.deepEqual(read, expected, `${topic}, ${isolation}`)
      records += read.length
    }
  }
  assert.ok(kafka.segments('orders-0').length >= 3, 'Kafka keeps the segments')
  console.log(`Kafka served ${records} records of ${topics.length} topics as MoonMQ had written them`)
})

/** The last line of each key: what compaction must keep, at its offset. */
function latestByKey(lines: readonly string[]): Map<string, string> {
  return new Map(lines.map((line) => [line.split('\t')[4] ?? '', line]))
}

const COMMITTED = [
  { topic: 'plain', partition: 0, offset: 321 },
  { topic: 'plain', partition: 1, offset: 500 },
]

/** Topics of Kafka with something of everything. */
async function fillKafka(kafka: RealKafka): Promise<void> {
  const client = kafka.client
  const admin = client.admin()
  await admin.connect()
  const topic = (name: string, numPartitions: number, config: Record<string, string>) => ({
    topic: name,
    numPartitions,
    replicationFactor: 1,
    configEntries: Object.entries(config).map(([key, value]) => ({ name: key, value })),
  })
  await admin.createTopics({
    topics: [
      topic('plain', 2, { 'retention.ms': '-1', 'segment.bytes': '1048576', 'max.message.bytes': '2000000' }),
      topic('packed', 1, { 'retention.ms': '-1' }),
      topic('bank', 1, { 'retention.ms': '-1' }),
      topic('latest', 1, { 'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': '0.01', 'segment.ms': '500' }),
    ],
  })
  const producer = client.producer()
  await producer.connect()
  const padding = 'p'.repeat(3000)
  for (let round = 0; round < 20; round++) {
    const messages = Array.from({ length: 100 }, (_, index) => ({
      key: index % 3 === 0 ? null : `key-${index}`,
      value: index % 7 === 0 ? null : `${round} ${index} ${padding}`,
      headers: index % 4 === 0 ? { source: `header-${index}` } : {},
      partition: index % 2,
    }))
    await producer.send({ topic: 'plain', messages, compression: round % 2 })
  }
  for (let round = 0; round < 30; round++) {
    await producer.send({
      topic: 'latest',
      messages: Array.from({ length: 20 }, (_, index) => ({ key: `k${index % (round + 1)}`, value: `${round}` })),
    })
  }
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
    const lines = Array.from({ length: 50 }, (_, index) => `codec:${codec}\tkey-${index}\t${codec} value ${index}`)
    await consoleProduce(libraries, kafka.address, 'packed', lines, codec)
  }
  const banker = client.producer({ transactionalId: 'banker', maxInFlightRequests: 1, idempotent: true })
  await banker.connect()
  for (let round = 0; round < 12; round++) {
    const transaction = await banker.transaction()
    await transaction.send({ topic: 'bank', messages: [{ key: 'account', value: `movement ${round}` }] })
    if (round % 3 === 0) await transaction.abort()
    else await transaction.commit()
  }
  await banker.disconnect()
  await producer.disconnect()
  await admin.disconnect()
  await commitOffsets(libraries, kafka, 'readers', COMMITTED)
}

async function expectServed(kafkaAnswers: ReadonlyMap<string, readonly string[]>, data: string, logStart: number): Promise<number> {
  const broker = await startBroker({ port: 0, dataDir: data })
  try {
    let records = 0
    for (const [name, expected] of kafkaAnswers) {
      const [topic, isolation] = name.split(' ') as [string, (typeof isolations)[number]]
      // Kafka went on compacting between its answer and its stop.
      const isCompacted = topic === 'latest'
      const count = isCompacted ? 0 : expected.length
      const read = byOffset(await consoleConsume(libraries, broker.address, topic, { isolation, count }))
      if (isCompacted) assert.deepEqual(latestByKey(read), latestByKey(expected), name)
      else assert.deepEqual(read, expected, name)
      records += read.length
    }
    const admin = kafkaClient(broker.address, 'check').admin()
    await admin.connect()
    const [offsets] = await admin.fetchOffsets({ groupId: 'readers', topics: ['plain'] })
    assert.deepEqual(
      offsets?.partitions.map(({ partition, offset }) => ({ topic: 'plain', partition, offset: Number(offset) })),
      COMMITTED,
    )
    const starts = await admin.fetchTopicOffsets('plain')
    assert.equal(starts.find((each) => each.partition === 0)?.low, String(logStart), 'the log start is kept')
    await admin.disconnect()
    return records
  } finally {
    await broker.close()
  }
}

test('a log folder of Kafka, stopped or killed, is taken over: MoonMQ serves it record for record', { skip }, async () => {
  await using kafka = await RealKafka.format(join(root, 'kafka-gives'), libraries)
  await kafka.start()
  await fillKafka(kafka)
  const answers = new Map<string, string[]>()
  const ask = async (topic: string, isolation: (typeof isolations)[number], count: number) => {
    const read = await consoleConsume(libraries, kafka.address, topic, { isolation, count })
    assert.ok(read.length > 0 && (count === 0 || read.length === count), `${topic}: ${read.length} records`)
    answers.set(`${topic} ${isolation}`, byOffset(read))
  }
  for (const isolation of isolations) {
    await ask('plain', isolation, 2000)
    await ask('packed', isolation, 5 * 50)
    await ask('bank', isolation, isolation === 'read_committed' ? 8 : 12)
  }
  await kafka.kill()
  const latest = readdirSync(join(kafka.logs, 'packed-0'))
    .filter((name) => name.endsWith('.log'))
    .sort()
    .at(-1) as string
  appendFileSync(join(kafka.logs, 'packed-0', latest), readFileSync(join(kafka.logs, 'packed-0', latest)).subarray(0, 100))
  const copy = join(root, 'killed-copy')
  cpSync(kafka.logs, copy, { recursive: true })
  const dry = await cliIn(root, ['import', copy, '--data', 'from-killed', '--dry-run'])
  assert.equal(dry.code, 0, dry.out + dry.err)
  const killed = await cliIn(root, ['import', copy, '--data', 'from-killed'])
  assert.equal(killed.code, 0, killed.out + killed.err)
  assert.match(killed.out, /torn tail packed-0: 100 bytes/)
  assert.match(killed.out, /plain: .*max\.message\.bytes=2000000/)
  assert.match(killed.out, /group readers: 2 offsets/, killed.out)
  console.log(killed.out)
  assert.equal((await cliIn(root, ['validate', 'from-killed'])).code, 0)
  const fromKilled = await expectServed(answers, join(root, 'from-killed'), 0)

  await kafka.start()
  await deleteRecords(libraries, kafka, { topic: 'plain', partition: 0, offset: 5 })
  for (const isolation of isolations) await ask('plain', isolation, 2000 - 5)
  await ask('latest', 'read_uncommitted', 0)
  await kafka.stop()
  const stopped = await cliIn(root, ['import', kafka.logs, '--data', 'from-stopped'])
  assert.equal(stopped.code, 0, stopped.out + stopped.err)
  const fromStopped = await expectServed(answers, join(root, 'from-stopped'), 5)
  console.log(`MoonMQ served ${fromKilled} records of a killed and ${fromStopped} of a stopped Kafka as Kafka had served them`)
})
