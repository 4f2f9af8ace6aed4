import { deepEqual, equal, match, ok } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../src/client/index.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { sentBatches } from '../support/bad-batches.ts'
import { RawKafka } from '../support/raw-kafka.ts'

const codecs = new Codecs({ loader: new NodeLoader() })
for (const codec of Object.values(CODEC)) await codecs.ready(codec)

async function send(kafka: RawKafka, topic: string, records: Buffer) {
  const topicData = [{ name: topic, partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', 9, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
  const found = answer.responses[0]?.partitionResponses[0]
  ok(found !== undefined)
  return found
}

test('every field of a batch and of a record: the codes of Kafka 4.4, and what was stored can be read', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  using kafka = await RawKafka.connect(broker.address)
  await client.admin.createTopic('plain')
  await client.admin.createTopic('compacted', { config: { 'cleanup.policy': 'compact' } })
  const batches = sentBatches(codecs, Date.now())
  ok(batches.length > 120)
  const stored = { plain: 0, compacted: 0 }
  for (const { what, topic, bytes, code } of batches) {
    const { errorCode, baseOffset, errorMessage } = await send(kafka, topic, bytes)
    equal(errorCode, code, `${what}: ${errorMessage}`)
    if (code === 0) stored[topic] = baseOffset + 1
  }
  for (const topic of ['plain', 'compacted'] as const) {
    let read = 0
    for await (const record of client.reader({ topic })) read = record.offset
    ok(read >= stored[topic] - 1 && read > 0, `${read} of ${topic}`)
  }
})

test('records without a key on a compacted topic are named one by one', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  using kafka = await RawKafka.connect(broker.address)
  await client.admin.createTopic('compacted', { config: { 'cleanup.policy': 'compact' } })
  const records = Array.from({ length: 6 }, (_, i) => ({
    key: i % 2 === 0 ? Buffer.from('k') : null,
    value: null,
    timestampMs: Date.now(),
  }))
  for (const codec of [0, 1]) {
    const found = await send(kafka, 'compacted', buildBatch(records, { codec, compress: (which, plain) => codecs.deflate(which, plain) }))
    equal(found.errorCode, 87)
    match(found.errorMessage ?? '', /record 1, 3, 5 has no key/)
    deepEqual(
      found.recordErrors.map(({ batchIndex }) => batchIndex),
      [1, 3, 5],
    )
  }
})

test('moonmq.record.validation=header looks into no compressed batch, and into every other one', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  using kafka = await RawKafka.connect(broker.address)
  const config = { 'moonmq.record.validation': 'header' }
  await client.admin.createTopic('plain', { config })
  await client.admin.createTopic('compacted', { config: { ...config, 'cleanup.policy': 'compact' } })
  for (const { what, topic, bytes, code } of sentBatches(codecs, Date.now())) {
    const isCompressed = /codec [1-4]$/.test(what)
    equal((await send(kafka, topic, bytes)).errorCode, isCompressed ? 0 : code, what)
  }
  // Where a key is needed, or batches are packed anew, the records are looked at all the same.
  const keyless = [{ key: null, value: Buffer.from('v'), timestampMs: Date.now() }]
  const packed = buildBatch(keyless, { codec: CODEC.gzip, compress: (which, plain) => codecs.deflate(which, plain) })
  equal((await send(kafka, 'compacted', packed)).errorCode, 87)
  const broken = sentBatches(codecs, Date.now()).find(({ what }) => what === 'noise, codec 1')
  ok(broken !== undefined)
  await client.admin.alterTopicConfig('plain', { set: { 'compression.type': 'lz4' } })
  equal((await send(kafka, 'plain', broken.bytes)).errorCode, 2)
})
