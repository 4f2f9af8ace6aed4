import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { CompressionTypes } from 'kafkajs'
import { BrokerProcess } from '../support/broker-process.ts'
import { type DumpTool, dumpToolMissing, filesOf, openDumpTool } from '../support/kafka-dump.ts'
import { kafkaClient } from '../support/kafkajs.ts'
import { hasProgram, run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

/** Kafka's dump tool reads every file that a stopped broker left, after clients used it and after it was killed in between. */

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Kafka's dump tool: ${missing}`
let tool: DumpTool

before(async () => {
  if (skip === false) tool = await openDumpTool(inRoot('test', 'conformance', 'pom.xml'))
})

/** Topics with many segments, a group that committed, topics that came and went, and every codec that a client here writes. */
async function use(broker: BrokerProcess, round: number): Promise<void> {
  const kafka = kafkaClient(broker.address, 'dump')
  const admin = kafka.admin()
  await admin.connect()
  const small = [
    { name: 'segment.bytes', value: '20000' },
    { name: 'index.interval.bytes', value: '500' },
  ]
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 2, configEntries: small }] })
  await admin.createTopics({ topics: [{ topic: `gone-${round}` }] })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let batch = 0; batch < 40; batch++) {
    const messages = Array.from({ length: 1 + (batch % 30) }, (_, i) => ({
      key: `k${i}`,
      value: `value ${round} ${batch} ${i} `.repeat(5),
      headers: { h: 'x' },
    }))
    await producer.send({
      topic: 'orders',
      acks: -1,
      compression: batch % 2 === 0 ? CompressionTypes.None : CompressionTypes.GZIP,
      messages,
    })
  }
  await producer.send({ topic: `gone-${round}`, messages: [{ value: null }] })
  await producer.disconnect()
  await admin.setOffsets({ groupId: `group-${round}`, topic: 'orders', partitions: [{ partition: 0, offset: '3' }] })
  await readSome(broker, `members-${round}`)
  if (round > 0) await admin.deleteTopics({ topics: [`gone-${round - 1}`] })
  await admin.disconnect()
  // In a topic of their own: kafkajs cannot read them.
  if (!hasProgram('kcat')) return
  for (const codec of ['snappy', 'lz4', 'zstd']) {
    const lines = Array.from({ length: 50 }, (_, i) => `k${i}:${codec} ${i} ${'y'.repeat(100)}`).join('\n')
    const { code, stderr } = await run('kcat', ['-b', broker.address, '-P', '-t', 'packed', '-p', '0', '-K:', '-z', codec], {
      limitMs: 30_000,
      input: lines,
    })
    assert.equal(code, 0, stderr)
  }
}

async function readSome(broker: BrokerProcess, groupId: string): Promise<void> {
  const consumer = kafkaClient(broker.address, 'dump').consumer({ groupId, sessionTimeout: 10_000, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  await new Promise<void>((resolve, reject) => {
    AbortSignal.timeout(30_000).onabort = () => reject(new Error('no message came'))
    consumer.run({ eachMessage: async () => resolve() }).catch(reject)
  })
  await consumer.disconnect()
}

/** Dumps every file of the data folder with the options that fit it; returns the findings and how many files there were. */
async function dumpAll(dataDir: string): Promise<{ findings: string[]; files: number; text: string }> {
  const findings: string[] = []
  const texts: string[] = []
  let count = 0
  const folders = readdirSync(dataDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /-\d+$/.test(entry.name))
    .map((entry) => entry.name)
  const collect = (kind: keyof ReturnType<typeof filesOf>, of: (name: string) => boolean) =>
    folders.filter(of).flatMap((name) => filesOf(join(dataDir, name))[kind])
  const dump = async (files: readonly string[], options: readonly string[]) => {
    if (files.length === 0) return
    count += files.length
    const dumped = await tool.dump(files, options)
    findings.push(...dumped.findings)
    texts.push(dumped.text)
  }
  const every = () => true
  const isOffsets = (name: string) => name.startsWith('__consumer_offsets-')
  const isMetadata = (name: string) => name.startsWith('__cluster_metadata-')
  const isPlain = (name: string) => !name.startsWith('__')
  await dump(collect('log', isPlain), ['--deep-iteration'])
  await dump(collect('log', isPlain), ['--print-data-log'])
  await dump(collect('log', isOffsets), ['--offsets-decoder'])
  await dump([...collect('log', isMetadata), ...collect('checkpoint', isMetadata)], ['--cluster-metadata-decoder'])
  const indexes = [...collect('index', every), ...collect('timeindex', every)]
  await dump(indexes, [])
  await dump(indexes, ['--index-sanity-check'])
  await dump(collect('snapshot', every), [])
  await dump(collect('txnindex', every), [])
  return { findings, files: count, text: texts.join('') }
}

test('everything that a broker wrote is sound, stopped in order', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  await use(broker, 0)
  assert.equal(await broker.stop(), 0)
  const { findings, files, text } = await dumpAll(broker.dataDir)
  assert.deepEqual(findings, [])
  // A log of one small segment has no indexes after a stop; those of `orders` have several.
  assert.ok(files > 15, `only ${files} files`)
  for (const part of ['compresscodec: gzip', 'TOPIC_RECORD', 'LeaderChange', 'group-0', 'members-0']) assert.ok(text.includes(part), part)
})

test('everything that a broker wrote is sound, killed twice and stopped in order', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  for (let round = 0; round < 2; round++) {
    await use(broker, round)
    await broker.kill()
    await broker.start()
  }
  await use(broker, 2)
  assert.equal(await broker.stop(), 0)
  const { findings, text } = await dumpAll(broker.dataDir)
  assert.deepEqual(findings, [])
  assert.match(text, /partitionLeaderEpoch: 2/)
  assert.match(text, /REMOVE_TOPIC_RECORD/)
})
