import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { dumpToolMissing, filesOf, kafkaLibraries, openDumpTool } from '../support/kafka-dump.ts'
import { run } from '../support/programs.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { inRoot } from '../support/root.ts'

/** Kafka's own share consumer and its tool for share groups against the broker, and its dump tool on what the broker stored for them. */

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Kafka's tools: ${missing}`
const pom = inRoot('test', 'conformance', 'pom.xml')
let libraries = ''

before(async () => {
  if (skip === false) libraries = await kafkaLibraries(pom)
})

async function java(tool: string, ...args: string[]): Promise<string> {
  const options = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', `${libraries}/*`]
  const { stdout, stderr } = await run('java', [...options, `org.apache.kafka.tools.${tool}`, ...args], { limitMs: 60_000 })
  return stdout + stderr
}

const SETTINGS = { MOONMQ_KAFKA__OFFSETS_TOPIC_NUM_PARTITIONS: '1', MOONMQ_KAFKA__SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS: '1' }

/** A member that rejects the first record and lets go of the second, so that the state is more than an offset. */
async function rejectOne(kafka: RawKafka, topicId: string): Promise<void> {
  const memberId = 'rejecting'
  const group = { groupId: 'workers', memberId }
  const joined = await kafka.request('ShareGroupHeartbeat', 1, { ...group, memberEpoch: 0, rackId: null, subscribedTopicNames: ['jobs'] })
  assert.equal(joined.errorCode, 0)
  const fetch = {
    ...group,
    maxWaitMs: 5000,
    minBytes: 1,
    maxBytes: 1_000_000,
    maxRecords: 3,
    batchSize: 3,
    shareAcquireMode: 1,
    forgottenTopicsData: [],
  }
  const topics = [{ topicId, partitions: [{ partitionIndex: 0, acknowledgementBatches: [] }] }]
  const fetched = await kafka.request('ShareFetch', 2, { ...fetch, shareSessionEpoch: 0, topics })
  assert.deepEqual(fetched.responses[0]?.partitions[0]?.acquiredRecords, [{ firstOffset: 0, lastOffset: 2, deliveryCount: 1 }])
  const acknowledgementBatches = [{ firstOffset: 0, lastOffset: 2, acknowledgeTypes: [3, 2, 1] }]
  const acknowledged = await kafka.request('ShareAcknowledge', 2, {
    ...group,
    shareSessionEpoch: -1,
    topics: [{ topicId, partitions: [{ partitionIndex: 0, acknowledgementBatches }] }],
  })
  assert.equal(acknowledged.errorCode, 0)
  assert.equal(acknowledged.responses[0]?.partitions[0]?.errorCode, 0)
  const left = await kafka.request('ShareGroupHeartbeat', 1, { ...group, memberEpoch: -1, rackId: null, subscribedTopicNames: null })
  assert.equal(left.errorCode, 0)
}

async function makeJobs(kafka: RawKafka): Promise<string> {
  const topic = { name: 'jobs', numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }
  const made = await kafka.request('CreateTopics', 7, { topics: [topic], timeoutMs: 10_000, validateOnly: false })
  const configs = [{ name: 'share.auto.offset.reset', configOperation: 0, value: 'earliest' }]
  const resources = [{ resourceType: 32, resourceName: 'workers', configs }]
  const altered = await kafka.request('IncrementalAlterConfigs', 1, { resources, validateOnly: false })
  assert.equal(altered.responses[0]?.errorCode, 0)
  await kafka.produce(
    'jobs',
    0,
    Array.from({ length: 10 }, (_, at) => ({ value: `job ${at}` })),
  )
  return made.topics[0]?.topicId ?? ''
}

test("Kafka's share consumer reads what is left, its tool shows and moves positions, and its dump tool reads the state", {
  skip,
}, async () => {
  await using broker = await BrokerProcess.start({ env: SETTINGS })
  using kafka = await RawKafka.connect(broker.address)
  await rejectOne(kafka, await makeJobs(kafka))
  const to = ['--bootstrap-server', broker.address]
  const consumed = await java(
    'consumer.ConsoleShareConsumer',
    ...to,
    '--topic',
    'jobs',
    '--group',
    'workers',
    '--max-messages',
    '8',
    '--timeout-ms',
    '30000',
  )
  assert.match(consumed, /job 1\n/)
  assert.match(consumed, /job 9\n/)
  assert.doesNotMatch(consumed, /job [02]\n/)
  assert.match(consumed, /Processed a total of 8 messages/)
  assert.match(await java('consumer.group.ShareGroupCommand', ...to, '--describe', '--group', 'workers'), /workers +jobs +0 +10 +0/)
  const reset = ['--group', 'workers', '--topic', 'jobs', '--reset-offsets', '--to-earliest', '--execute']
  assert.match(await java('consumer.group.ShareGroupCommand', ...to, ...reset), /workers +jobs +0 +0/)
  assert.equal(await broker.stop(), 0)
  await checkFolder(broker.dataDir)
})

async function checkFolder(dataDir: string): Promise<void> {
  const tool = await openDumpTool(pom)
  const logsOf = (topic: string) =>
    readdirSync(dataDir)
      .filter((name) => name.startsWith(`${topic}-`))
      .flatMap((name) => filesOf(join(dataDir, name)).log)
  const state = await tool.dump(logsOf('__share_group_state'), ['--share-group-state-decoder'])
  assert.deepEqual(state.findings, [])
  for (const part of ['key: {"type":"0"', 'key: {"type":"1"', '"groupId":"workers"', '"deliveryState":3', '"startOffset":10']) {
    assert.ok(state.text.includes(part), `${part} is missing in\n${state.text}`)
  }
  const groups = await tool.dump(logsOf('__consumer_offsets'), ['--offsets-decoder'])
  assert.deepEqual(groups.findings, [])
  // Epoch, member, its target and assignment, topics with positions.
  for (const part of ['10', '11', '12', '13', '14', '15'].map((type) => `key: {"type":"${type}","data":{"groupId":"workers"`)) {
    assert.ok(groups.text.includes(part), `${part} is missing in\n${groups.text}`)
  }
}
