import assert from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { variableOf } from '../../src/config/environment.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { run } from '../support/programs.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { inRoot } from '../support/root.ts'
import { committedRecords } from '../support/transactions.ts'

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Kafka's tools: ${missing}`
const HOUR_MS = 3_600_000
const TOOL_LIMIT_MS = 2 * 60_000

/** Opens a transaction of an hour ago in partition 0 and leaves it. */
async function leaveOpen(kafka: RawKafka, topic: string): Promise<void> {
  const transactionalId = 'lost'
  await kafka.request('FindCoordinator', 2, { key: transactionalId, keyType: 1 })
  let own = await kafka.request('InitProducerId', 3, { transactionalId, transactionTimeoutMs: 600_000 })
  // The topic of the coordinator is being made.
  while (own.errorCode !== 0) own = await kafka.request('InitProducerId', 3, { transactionalId, transactionTimeoutMs: 600_000 })
  const { producerId, producerEpoch } = own
  const v3AndBelowTopics = [{ name: topic, partitions: [0] }]
  await kafka.request('AddPartitionsToTxn', 3, {
    v3AndBelowTransactionalId: transactionalId,
    v3AndBelowProducerId: producerId,
    v3AndBelowProducerEpoch: producerEpoch,
    v3AndBelowTopics,
  })
  const record = { key: null, value: Buffer.from('hanging'), timestampMs: Date.now() - HOUR_MS }
  const records = buildBatch([record], { producerId, producerEpoch, baseSequence: 0, transactional: true })
  const topicData = [{ name: topic, partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', 9, { transactionalId, acks: -1, timeoutMs: 30_000, topicData })
  assert.equal(answer.responses[0]?.partitionResponses[0]?.errorCode, 0)
}

async function transactions(libraries: string, address: string, ...args: string[]): Promise<string> {
  const program = ['-XX:TieredStopAtLevel=1', '-cp', `${libraries}/*`, 'org.apache.kafka.tools.TransactionsCommand']
  const { code, stdout, stderr } = await run('java', [...program, '--bootstrap-server', address, ...args], { limitMs: TOOL_LIMIT_MS })
  assert.equal(code, 0, stdout + stderr)
  return stdout
}

test('a transaction that no coordinator knows of: the tool finds it, and aborts it', { skip }, async () => {
  const libraries = await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml'))
  await using broker = await BrokerProcess.start({ env: { [variableOf('kafka.transaction.state.log.num.partitions')]: '1' } })
  {
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, 'orders', 1, {})
    await leaveOpen(kafka, 'orders')
    assert.equal((await kafka.produce('orders', 0, [{ value: 'behind it' }])).errorCode, 0)
  }
  // The coordinator forgets everything, as when its topic was lost.
  assert.equal(await broker.stop(), 0)
  const ofCoordinator = readdirSync(broker.dataDir).filter((name) => name.startsWith('__transaction_state-'))
  assert.equal(ofCoordinator.length, 1)
  for (const name of ofCoordinator) rmSync(join(broker.dataDir, name), { recursive: true })
  await broker.start()

  using kafka = await RawKafka.connect(broker.address)
  const committed = async () => {
    const { data } = await kafka.fetchBytes('orders', 0, 0, 1)
    return committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], 0).records.map(({ value }) => value)
  }
  assert.deepEqual(await committed(), [], 'it holds back what is behind it')
  const place = ['--topic', 'orders', '--partition', '0']
  const found = await transactions(libraries, broker.address, 'find-hanging', ...place, '--max-transaction-timeout', '15')
  assert.match(found, /^orders\s+0\s+\d+\s+0\s/m)
  await transactions(libraries, broker.address, 'abort', ...place, '--start-offset', '0')
  assert.deepEqual(await committed(), ['behind it'])
  assert.doesNotMatch(await transactions(libraries, broker.address, 'find-hanging', ...place), /^orders\s/m)
})
