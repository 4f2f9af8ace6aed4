import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { type DumpTool, dumpToolMissing, filesOf, kafkaLibraries, openDumpTool } from '../support/kafka-dump.ts'
import { run } from '../support/programs.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { inRoot } from '../support/root.ts'
import { subscriptionBytes } from '../support/subscriptions.ts'

/** Kafka's own consumer and tools on the consumer group protocol (KIP-848), and its dump tool on what such groups leave behind. */

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Kafka's tools: ${missing}`
const pom = inRoot('test', 'conformance', 'pom.xml')
let tool: DumpTool
let libraries = ''

before(async () => {
  if (skip !== false) return
  tool = await openDumpTool(pom)
  libraries = await kafkaLibraries(pom)
})

async function java(main: string, ...args: string[]): Promise<string> {
  const options = ['-Xshare:auto', '-XX:TieredStopAtLevel=1', '-Dlog4j2.level=OFF', '-cp', `${libraries}/*`]
  const { code, stdout, stderr } = await run('java', [...options, `org.apache.kafka.tools.consumer.${main}`, ...args], { limitMs: 90_000 })
  assert.equal(code, 0, `${main}: ${stdout.slice(-500)}${stderr.slice(-1000)}`)
  return stdout
}

async function topicWithRecords(address: string, name: string): Promise<void> {
  using client = await RawKafka.connect(address)
  await client.request('CreateTopics', 7, { topics: [{ name, numPartitions: 3, replicationFactor: 1 }], timeoutMs: 10_000 })
  for (const partition of [0, 1, 2]) await client.produce(name, partition, [{ value: `record of ${partition}` }])
}

test('a Java consumer of the new protocol reads everything, and the tools show and delete its group', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  await topicWithRecords(broker.address, 'orders')
  const server = ['--bootstrap-server', broker.address]
  const reading = ['--topic', 'orders', '--group', 'g', '--from-beginning', '--max-messages', '3', '--timeout-ms', '60000']
  const read = await java('ConsoleConsumer', ...server, ...reading, '--command-property', 'group.protocol=consumer')
  assert.deepEqual(read.trim().split('\n').sort(), ['record of 0', 'record of 1', 'record of 2'])
  const state = await java('group.ConsumerGroupCommand', ...server, '--describe', '--state', '--verbose', '--group', 'g')
  assert.match(state, /uniform +Empty +\d+ +\d+/)
  const offsets = await java('group.ConsumerGroupCommand', ...server, '--describe', '--group', 'g')
  assert.equal(offsets.match(/g +orders +\d +1 +1 +0 /g)?.length, 3, offsets)
  assert.match(await java('group.ConsumerGroupCommand', ...server, '--list', '--type', 'consumer', '--state'), /g +Consumer +Empty/)
  await java('group.ConsumerGroupCommand', ...server, '--delete-offsets', '--topic', 'orders:0', '--group', 'g')
  await java('group.ConsumerGroupCommand', ...server, '--delete', '--group', 'g')
  assert.doesNotMatch(await java('group.ConsumerGroupCommand', ...server, '--list'), /^g$/m)
})

test('the records of consumer groups are those that Kafka writes', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  await topicWithRecords(broker.address, 'orders')
  using client = await RawKafka.connect(broker.address)
  const beat = (memberId: string, memberEpoch: number, fields: object = {}) =>
    client.request('ConsumerGroupHeartbeat', 1, { groupId: 'modern', memberId, memberEpoch, ...fields })
  const joining = { rebalanceTimeoutMs: 30_000, topicPartitions: [] }
  const first = await beat('a', 0, { ...joining, subscribedTopicNames: ['orders'], instanceId: 'i', serverAssignor: 'range' })
  assert.equal(first.errorCode, 0)
  assert.equal((await beat('b', 0, { ...joining, subscribedTopicRegex: 'ord.*' })).errorCode, 0)
  const asked = { groupId: 'modern', memberId: '', sessionTimeoutMs: 20_000, rebalanceTimeoutMs: 20_000, protocolType: 'consumer' }
  const protocols = [{ name: 'range', metadata: subscriptionBytes(['orders']) }]
  const { memberId } = await client.request('JoinGroup', 9, { ...asked, protocols })
  assert.equal((await client.request('JoinGroup', 9, { ...asked, memberId, protocols })).errorCode, 0)
  // A member that leaves takes its records along, and the tool reads the tombstones too.
  assert.equal((await beat('c', 0, { ...joining, subscribedTopicNames: ['orders'] })).errorCode, 0)
  assert.equal((await beat('c', -1)).errorCode, 0)
  assert.equal(await broker.stop(), 0)
  const folders = readdirSync(broker.dataDir).filter((name) => name.startsWith('__consumer_offsets-'))
  const files = folders.flatMap((name) => filesOf(join(broker.dataDir, name)).log)
  const { findings, text } = await tool.dump(files, ['--offsets-decoder'])
  assert.deepEqual(findings, [])
  // Of the group's epoch, its members, the target's epoch, the targets, what members have, and the regular expression.
  for (const type of [3, 5, 6, 7, 8, 16])
    assert.ok(text.includes(`key: {"type":"${type}"`), `no record of type ${type}: ${text.slice(0, 3000)}`)
  assert.match(text, /"subscribedTopicRegex":"ord\.\*"/)
  assert.match(text, /"classicMemberMetadata":\{"sessionTimeoutMs":20000/)
  assert.match(text, /"type":"8","data":\{"groupId":"modern","memberId":"c"\}\} payload: <DELETE>/)
})
