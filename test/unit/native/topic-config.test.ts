import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { INTERNAL_CONTEXT } from '../../../src/broker/context.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { testNativeDoor } from '../../support/native-door.ts'

async function prepared(state: 'authenticated' | 'extended' = 'authenticated') {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  return { ...at, connection: await at.connect(state), own: () => Object.fromEntries(at.broker.topics.get('t').config) }
}

const config = (...entries: [string, string][]) => ({ name: 't', config: new Map(entries) })

test('ALTER_TOPIC_CONFIG: every native name means its setting, at once', async () => {
  const { connection, own, logs } = await prepared()
  const all = config(
    ['max_segment_size', '1048576.9'],
    ['retention', '86400'],
    ['max_log_bytes', '1e9'],
    ['cleaner_interval', '30'],
    ['cleanup_policy', 'compact,delete'],
  )
  equal((await connection.call('ALTER_TOPIC_CONFIG', all)).op, 'OK')
  deepEqual(own(), {
    'segment.bytes': '1048576',
    'retention.ms': '86400000',
    'retention.bytes': '1000000000',
    'moonmq.cleaner.interval': '30',
    'cleanup.policy': 'compact,delete',
  })
  const log = logs.at('t', 0).config
  deepEqual([log.segmentBytes, log.retentionMs, log.cleanerIntervalMs, log.isCompacted], [1_048_576, 86_400_000, 30_000, true])
  const described = await connection.call('DESCRIBE_TOPIC', { name: 't' })
  deepEqual(
    described.message['config'],
    new Map([
      ['cleaner_interval', '30'],
      ['cleanup_policy', 'compact,delete'],
      ['max_log_bytes', '1000000000'],
      ['max_segment_size', '1048576'],
      ['retention', '86400'],
    ]),
  )
})

test("ALTER_TOPIC_CONFIG: Kafka's names too; nothing to change is fine", async () => {
  const { connection, own } = await prepared()
  equal((await connection.call('ALTER_TOPIC_CONFIG', config())).op, 'OK')
  equal(
    (await connection.call('ALTER_TOPIC_CONFIG', config(['flush.messages', '7'], ['retention', '5'], ['retention.ms', '7000']))).op,
    'OK',
  )
  deepEqual(own(), { 'flush.messages': '7', 'retention.ms': '7000' })
})

test('ALTER_TOPIC_CONFIG: what is refused, with nothing changed', async () => {
  const { connection, own, broker } = await prepared()
  const bad: [string, string][] = [
    ['retention', '0'],
    ['retention', '0.9'],
    ['retention', '-1'],
    ['retention', 'soon'],
    ['retention', ''],
    ['retention', '9007199254740991'],
    ['max_log_bytes', '-1'],
    ['max_segment_size', 'Infinity'],
    ['cleaner_interval', '0'],
    ['cleanup_policy', 'delete\nretention=1'],
    ['cleanup_policy', ''],
    ['cleanup_policy', 'none'],
    ['backend', 'commitlog'],
    ['no_such', '1'],
  ]
  for (const entry of bad) equal(await connection.error('ALTER_TOPIC_CONFIG', config(['max_log_bytes', '5'], entry)), 17, entry.join('='))
  deepEqual(own(), {})
  equal(await connection.error('ALTER_TOPIC_CONFIG', { name: 'missing', config: new Map() }), 5)
  const name = '__consumer_offsets'
  await broker.topics.create(INTERNAL_CONTEXT, { name, partitions: 1, replicationFactor: 1, assignments: new Map(), config: new Map() })
  equal(await connection.error('ALTER_TOPIC_CONFIG', { name, config: new Map() }), 18)
})

test('DESCRIBE_CONFIG and ALTER_CONFIG: every setting with its origin; set, unset, only asked', async () => {
  const { connection, own } = await prepared('extended')
  const change = {
    name: 't',
    flags: 0,
    set: new Map([
      ['retention', '60'],
      ['flush.ms', '5'],
    ]),
    unset: [] as string[],
  }
  deepEqual((await connection.call('ALTER_CONFIG', { ...change, flags: 1 })).message['names'], ['retention.ms', 'flush.ms'])
  deepEqual(own(), {})
  equal((await connection.call('ALTER_CONFIG', change)).op, 'CONFIG_CHANGED')
  const settings = (await connection.call('DESCRIBE_CONFIG', { name: 't' })).message['settings'] as {
    name: string
    value: string
    default: string
    source: number
  }[]
  const retention = settings.find(({ name }) => name === 'retention.ms')
  deepEqual([retention?.value, retention?.default, retention?.source], ['60000', '604800000', 1])
  deepEqual(
    (await connection.call('ALTER_CONFIG', { name: 't', flags: 0, set: new Map(), unset: ['retention', 'flush.ms'] })).message['names'],
    ['retention.ms', 'flush.ms'],
  )
  deepEqual(own(), {})
  equal(await connection.error('ALTER_CONFIG', { name: 't', flags: 0, set: new Map(), unset: ['no.such'] }), 17)
})

test('CREATE takes native names, the backend among them', async () => {
  const { connection, broker } = await prepared('extended')
  equal(
    (
      await connection.call('CREATE', {
        name: 'c',
        partitions: 1,
        config: new Map([
          ['backend', 'commitlog'],
          ['retention', '5'],
        ]),
      })
    ).op,
    'OK',
  )
  deepEqual(Object.fromEntries(broker.topics.get('c').config), { 'moonmq.backend': 'commitlog', 'retention.ms': '5000' })
  deepEqual(
    (await connection.call('DESCRIBE_TOPIC', { name: 'c' })).message['config'],
    new Map([
      ['backend', 'commitlog'],
      ['retention', '5'],
    ]),
  )
})
