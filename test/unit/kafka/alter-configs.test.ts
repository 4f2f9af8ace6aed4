import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { INTERNAL_CONTEXT } from '../../../src/broker/context.ts'
import { BROKER_SETTINGS, isChangeable } from '../../../src/config/broker-settings.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'

const TOPIC = 2
const BROKER = 4
const [SET, DELETE, APPEND, SUBTRACT] = [0, 1, 2, 3] as const

/** `DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS` of Kafka 4.4, without what is about TLS, SASL and tiered storage. */
const DYNAMIC_IN_KAFKA: ReadonlySet<string> = new Set(
  `background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
   config.providers cordoned.log.dirs errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix follower.fetch.last.tiered.offset.enable
   follower.replication.throttled.rate group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
   group.share.assignor.offload.enable group.streams.assignment.interval.ms group.streams.assignor.offload.enable leader.replication.throttled.rate listener.security.protocol.map
   listeners log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor
   log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
   log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
   log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
   log.message.timestamp.type log.preallocate log.remote.copy.lag.bytes log.remote.copy.lag.ms log.retention.bytes
   log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
   max.connection.creation.rate max.connections max.connections.per.ip max.connections.per.ip.overrides max.decompressed.message.bytes
   message.max.bytes metric.reporters min.insync.replicas num.io.threads num.network.threads
   num.recovery.threads.per.data.dir num.replica.fetchers principal.builder.class producer.id.expiration.ms replica.alter.log.dirs.io.max.bytes.per.second
   share.coordinator.cached.buffer.max.bytes transaction.partition.verification.enable unclean.leader.election.enable`.split(/\s+/),
)

type Op = readonly [name: string, operation: number, value: string | null]

async function setup(config: Record<string, string> = {}) {
  const door = await testDoor()
  await createTopic(door.broker, 't', 2, config)
  const client = door.connect()
  const one = async (type: number, name: string, ops: readonly Op[], validateOnly = false) => {
    const configs = ops.map(([key, configOperation, value]) => ({ name: key, configOperation, value }))
    const resources = [{ resourceType: type, resourceName: name, configs }]
    const { responses } = await client.call('IncrementalAlterConfigs', 1, { resources, validateOnly })
    return responses[0]?.errorCode
  }
  const replace = async (name: string, values: Record<string, string | null>, validateOnly = false, version = 2) => {
    const configs = Object.entries(values).map(([key, value]) => ({ name: key, value }))
    const resources = [{ resourceType: TOPIC, resourceName: name, configs }]
    const { responses } = await client.call('AlterConfigs', version, { resources, validateOnly })
    return responses[0]?.errorCode
  }
  const own = () => Object.fromEntries(door.broker.topics.get('t').config)
  return { ...door, client, one, replace, own }
}

describe('IncrementalAlterConfigs', () => {
  it('sets and deletes, and the logs have it when the answer is there', async () => {
    const { one, own, logs } = await setup()
    assert.equal(
      await one(TOPIC, 't', [
        ['max.message.bytes', SET, '2000'],
        ['flush.messages', SET, '10'],
      ]),
      0,
    )
    assert.deepEqual([logs.at('t', 0).config.maxMessageBytes, logs.at('t', 1).config.flushMessages], [2000, 10])
    assert.equal(await one(TOPIC, 't', [['max.message.bytes', DELETE, null]]), 0)
    assert.deepEqual(own(), { 'flush.messages': '10' })
    assert.equal(logs.at('t', 1).config.maxMessageBytes, 1_048_588)
  })

  it('appends to and subtracts from what is in force', async () => {
    const { one, own } = await setup()
    assert.equal(await one(TOPIC, 't', [['cleanup.policy', APPEND, 'compact']]), 0)
    assert.deepEqual(own(), { 'cleanup.policy': 'delete,compact' })
    assert.equal(await one(TOPIC, 't', [['cleanup.policy', APPEND, 'compact']]), 0)
    assert.equal(await one(TOPIC, 't', [['cleanup.policy', SUBTRACT, 'delete']]), 0)
    assert.deepEqual(own(), { 'cleanup.policy': 'compact' })
    assert.equal(await one(TOPIC, 't', [['cleanup.policy', SUBTRACT, 'delete,nothing']]), 40)
    assert.equal(await one(TOPIC, 't', [['retention.ms', APPEND, '1']]), 40)
  })

  it('changes all of a resource or nothing', async () => {
    const { one, own, metadata } = await setup()
    const before = metadata.image
    assert.equal(
      await one(TOPIC, 't', [
        ['retention.ms', SET, '5'],
        ['retention.mss', SET, '5'],
      ]),
      40,
    )
    assert.deepEqual([own(), metadata.image === before], [{}, true])
  })

  it('only validates when asked', async () => {
    const { one, own, metadata } = await setup()
    const before = metadata.image
    assert.equal(await one(TOPIC, 't', [['retention.ms', SET, '5']], true), 0)
    assert.equal(await one(TOPIC, 't', [['retention.ms', SET, 'x']], true), 40)
    assert.deepEqual([own(), metadata.image === before], [{}, true])
  })

  it("refuses with Kafka's codes", async () => {
    const { one } = await setup()
    const cases: readonly [expected: number, type: number, name: string, ops: readonly Op[]][] = [
      [3, TOPIC, 'missing', [['retention.ms', SET, '1']]],
      // Values are looked at before the topic is looked for.
      [40, TOPIC, 'missing', [['retention.ms', APPEND, '1']]],
      [40, TOPIC, 'missing', [['cleanup.policy', APPEND, 'wild']]],
      [17, TOPIC, 'a/b', [['retention.ms', SET, '1']]],
      [42, TOPIC, '', [['retention.ms', SET, '1']]],
      [
        42,
        TOPIC,
        't',
        [
          ['retention.ms', SET, '1'],
          ['retention.ms', DELETE, null],
        ],
      ],
      [42, TOPIC, 't', [['retention.ms', SET, null]]],
      [42, TOPIC, 't', [['cleanup.policy', APPEND, null]]],
      [42, TOPIC, 't', [['retention.ms', 9, '1']]],
      [40, TOPIC, 't', [['retention.ms', SET, '-2']]],
      [40, TOPIC, 't', [['min.insync.replicas', SET, '0']]],
      [40, TOPIC, 't', [['no.such.setting', DELETE, null]]],
      [
        40,
        TOPIC,
        't',
        [
          ['min.compaction.lag.ms', SET, '10'],
          ['max.compaction.lag.ms', SET, '5'],
        ],
      ],
      [40, 8, '0', [['x', SET, '1']]],
      [42, 8, '7', [['root', SET, 'INFO']]],
      [42, 16, 'x', [['x', SET, '1']]],
      [42, 32, '', [['share.auto.offset.reset', SET, 'earliest']]],
      [40, 32, 'g', [['x', SET, '1']]],
      [42, 99, 'x', [['x', SET, '1']]],
      [42, BROKER, '7', [['log.retention.ms', SET, '1']]],
      [42, BROKER, 'x', [['log.retention.ms', SET, '1']]],
    ]
    for (const [expected, type, name, ops] of cases) assert.equal(await one(type, name, ops), expected, JSON.stringify([type, name, ops]))
  })

  it('refuses a resource that is given twice, each time', async () => {
    const { client, own } = await setup()
    const resource = (value: string) => ({
      resourceType: TOPIC,
      resourceName: 't',
      configs: [{ name: 'retention.ms', configOperation: SET, value }],
    })
    const { responses } = await client.call('IncrementalAlterConfigs', 0, {
      resources: [resource('1'), resource('2')],
      validateOnly: false,
    })
    assert.deepEqual(
      responses.map(({ resourceName, errorCode }) => [resourceName, errorCode]),
      [
        ['t', 42],
        ['t', 42],
      ],
    )
    assert.deepEqual(own(), {})
  })

  it('lets internal topics be tuned, but not what keeps them whole', async () => {
    const { one, broker } = await setup()
    const name = '__consumer_offsets'
    const config = new Map([['cleanup.policy', 'compact']])
    await broker.topics.create(INTERNAL_CONTEXT, { name, partitions: 1, replicationFactor: 1, assignments: new Map(), config })
    assert.equal(await one(TOPIC, name, [['segment.bytes', SET, '1048576']]), 0)
    assert.equal(await one(TOPIC, name, [['flush.messages', SET, '1000']]), 40)
    assert.equal(await one(TOPIC, name, [['flush.ms', SET, '1000']]), 40)
    assert.equal(await one(TOPIC, name, [['cleanup.policy', SET, 'delete']]), 40)
    assert.equal(await one(TOPIC, name, [['cleanup.policy', SET, 'compact,delete']]), 0)
    await assert.rejects(
      broker.topics.alterConfig({ ...INTERNAL_CONTEXT, protocol: 'native' }, { name, changes: [] }),
      /internal to the broker/,
    )
  })
})

describe('settings of brokers', () => {
  it('changes defaults of topics at once, for this broker before all', async () => {
    const { one, logs, client } = await setup()
    assert.equal(await one(BROKER, '', [['message.max.bytes', SET, '3000']]), 0)
    assert.equal(logs.at('t', 0).config.maxMessageBytes, 3000)
    assert.equal(await one(BROKER, '0', [['message.max.bytes', SET, '4000']]), 0)
    assert.equal(logs.at('t', 0).config.maxMessageBytes, 4000)
    assert.equal(await one(TOPIC, 't', [['max.message.bytes', SET, '5000']]), 0)
    const { results } = await client.call('DescribeConfigs', 4, {
      includeSynonyms: true,
      includeDocumentation: false,
      resources: [{ resourceType: TOPIC, resourceName: 't', configurationKeys: ['max.message.bytes'] }],
    })
    assert.deepEqual(
      results[0]?.configs[0]?.synonyms.map(({ name, value, source }) => [name, value, source]),
      [
        ['max.message.bytes', '5000', 1],
        ['message.max.bytes', '4000', 2],
        ['message.max.bytes', '3000', 3],
        ['message.max.bytes', '1048588', 5],
      ],
    )
    assert.equal(await one(BROKER, '', [['message.max.bytes', DELETE, null]]), 0)
    assert.equal(await one(BROKER, '0', [['message.max.bytes', DELETE, null]]), 0)
    assert.equal(logs.at('t', 0).config.maxMessageBytes, 5000)
  })

  it('refuses what a restart needs, and nonsense', async () => {
    const { one } = await setup()
    for (const [name, value] of [
      ['num.partitions', '3'],
      ['log.retention.hours', '3'],
      ['no.such', '1'],
      ['message.max.bytes', '-1'],
    ] as const) {
      assert.equal(await one(BROKER, '', [[name, SET, value]]), 42, name)
    }
  })

  it('tells which may be changed', async () => {
    const { client } = await setup()
    const { results } = await client.call('DescribeConfigs', 4, {
      includeSynonyms: false,
      includeDocumentation: false,
      resources: [
        { resourceType: BROKER, resourceName: '0', configurationKeys: ['num.partitions', 'message.max.bytes', 'log.retention.hours'] },
      ],
    })
    assert.deepEqual(
      results[0]?.configs.map(({ name, readOnly }) => [name, readOnly]),
      [
        ['log.retention.hours', true],
        ['message.max.bytes', false],
        ['num.partitions', true],
      ],
    )
  })
})

describe('AlterConfigs', () => {
  it('puts what is not named back to its default, but for what a topic was made with', async () => {
    const { replace, own } = await setup({ 'retention.ms': '60000', 'moonmq.backend': 'commitlog' })
    assert.equal(await replace('t', { 'segment.bytes': '2000000' }), 0)
    assert.deepEqual(own(), { 'segment.bytes': '2000000', 'moonmq.backend': 'commitlog' })
    assert.equal(await replace('t', {}, false, 0), 0)
    assert.deepEqual(own(), { 'moonmq.backend': 'commitlog' })
    assert.equal(await replace('t', { 'moonmq.backend': 'segmented' }), 40)
    assert.equal(await replace('t', { 'moonmq.backend': 'commitlog' }), 0)
  })

  it('refuses null, and changes nothing when it only validates', async () => {
    const { replace, own } = await setup({ 'retention.ms': '60000' })
    assert.equal(await replace('t', { 'retention.ms': null }), 42)
    assert.equal(await replace('t', {}, true), 0)
    assert.deepEqual(own(), { 'retention.ms': '60000' })
  })
})

describe('backends', () => {
  it('commitlog means an index entry for every batch and retention by bytes', async () => {
    const { logs, client, broker } = await setup({ 'moonmq.backend': 'commitlog' })
    const { config } = logs.at('t', 0)
    assert.deepEqual([config.indexIntervalBytes, config.retentionMs, config.retentionBytes], [0, -1, -1])
    const { results } = await client.call('DescribeConfigs', 4, {
      includeSynonyms: true,
      includeDocumentation: false,
      resources: [{ resourceType: TOPIC, resourceName: 't', configurationKeys: ['index.interval.bytes', 'moonmq.backend'] }],
    })
    const [interval, backend] = results[0]?.configs ?? []
    assert.deepEqual([interval?.value, interval?.configSource, interval?.synonyms[0]?.name], ['0', 1, 'moonmq.backend'])
    assert.deepEqual([backend?.value, backend?.readOnly], ['commitlog', true])
    await createTopic(broker, 'u', 1, { 'moonmq.backend': 'commitlog', 'index.interval.bytes': '100' })
    assert.equal(logs.at('u', 0).config.indexIntervalBytes, 100)
  })

  it('is chosen when the topic is made and never again', async () => {
    const { one } = await setup()
    assert.equal(await one(TOPIC, 't', [['moonmq.backend', SET, 'commitlog']]), 40)
    assert.equal(await one(TOPIC, 't', [['moonmq.backend', SET, 'segmented']]), 0)
    assert.equal(await one(TOPIC, 't', [['moonmq.storage', SET, 'memory']]), 40)
  })
})

describe('settings of groups', () => {
  const GROUP = 32

  it('are set, bounded by the broker and described with their synonyms', async () => {
    const { one, client, broker, metadata } = await setup()
    for (const [code, key, value] of [
      [0, 'consumer.session.timeout.ms', '50000'],
      [40, 'consumer.session.timeout.ms', '60001'],
      [40, 'consumer.heartbeat.interval.ms', '100'],
      [0, 'share.auto.offset.reset', 'by_duration:P1DT2H'],
      [40, 'share.auto.offset.reset', 'by_duration:P'],
      [40, 'share.auto.offset.reset', 'by_duration:-PT1H'],
      [40, 'share.auto.offset.reset', 'soon'],
      [40, 'share.delivery.count.limit', '1'],
      [40, 'share.isolation.level', 'none'],
    ] as const) {
      assert.equal(await one(GROUP, 'g', [[key, SET, value]]), code, `${key}=${value}`)
    }
    const { results } = await client.call('DescribeConfigs', 4, {
      resources: [
        { resourceType: GROUP, resourceName: 'g', configurationKeys: ['consumer.session.timeout.ms', 'share.record.lock.duration.ms'] },
      ],
      includeSynonyms: true,
    })
    assert.deepEqual(
      results[0]?.configs.map(({ name, value, configSource, synonyms }) => [name, value, configSource, synonyms.map((each) => each.name)]),
      [
        ['consumer.session.timeout.ms', '50000', 8, ['consumer.session.timeout.ms', 'group.consumer.session.timeout.ms']],
        ['share.record.lock.duration.ms', '30000', 5, ['group.share.record.lock.duration.ms']],
      ],
    )
    assert.equal(broker.groupSettings.number('g', 'consumer.session.timeout.ms'), 50_000)
    assert.equal(broker.groupSettings.number('other', 'consumer.session.timeout.ms'), 45_000)
    // Stored under wider bounds than those of today: the bounds win.
    const groupConfigs = new Map([['g', new Map([['consumer.session.timeout.ms', '70000']])]])
    metadata.image = { ...metadata.image, groupConfigs }
    assert.equal(broker.groupSettings.number('g', 'consumer.session.timeout.ms'), 60_000)
  })

  it('an interval that the broker changed while running holds for groups without their own', async () => {
    const { one, broker } = await setup()
    assert.equal(await one(BROKER, '', [['group.consumer.assignment.interval.ms', SET, '2000']]), 0)
    assert.equal(broker.groupSettings.number('g', 'consumer.assignment.interval.ms'), 2000)
    assert.equal(await one(BROKER, '', [['group.consumer.session.timeout.ms', SET, '46000']]), 42)
    assert.equal(await one(BROKER, '', [['group.consumer.assignment.interval.ms', DELETE, null]]), 0)
    assert.equal(broker.groupSettings.number('g', 'consumer.assignment.interval.ms'), 1000)
  })

  it("every dynamic broker setting of Kafka 4.4 that there is here can be changed, and no other but the cleaner's switch", async () => {
    const changeable = BROKER_SETTINGS.map(({ name }) => name).filter(isChangeable)
    assert.deepEqual(
      changeable.filter((name) => !DYNAMIC_IN_KAFKA.has(name)),
      ['log.cleaner.enable'],
    )
    const fixed = BROKER_SETTINGS.map(({ name }) => name).filter((name) => DYNAMIC_IN_KAFKA.has(name) && !isChangeable(name))
    assert.deepEqual(fixed, [])
  })

  it('limits of connections are checked before they are stored', async () => {
    const { one } = await setup()
    assert.equal(await one(BROKER, '', [['max.connections.per.ip.overrides', SET, '10.0.0.1:5,[::1]:7']]), 0)
    assert.equal(await one(BROKER, '', [['max.connections.per.ip.overrides', SET, '10.0.0.1']]), 42)
    assert.equal(await one(BROKER, '0', [['max.connections', SET, '-1']]), 42)
    assert.equal(await one(BROKER, '0', [['producer.id.expiration.ms', SET, '60000']]), 0)
  })
})

describe('levels of loggers', () => {
  const LOGGER = 8

  it('the level of root is told, set and forgotten with the stop; all changes are checked before the first is made', async () => {
    const { one, client, broker } = await setup()
    const told = async () => {
      const { results } = await client.call('DescribeConfigs', 4, {
        resources: [{ resourceType: LOGGER, resourceName: '0', configurationKeys: null }],
      })
      return results[0]?.configs.map(({ name, value, configSource }) => [name, value, configSource])
    }
    assert.deepEqual(await told(), [['root', 'INFO', 6]])
    assert.equal(await one(LOGGER, '0', [['root', SET, 'DEBUG']], true), 0)
    assert.deepEqual(await told(), [['root', 'INFO', 6]])
    assert.equal(await one(LOGGER, '0', [['root', SET, 'trace']]), 0)
    assert.deepEqual(await told(), [['root', 'DEBUG', 6]])
    assert.equal(
      await one(LOGGER, '0', [
        ['root', SET, 'WARN'],
        ['a.b', SET, 'INFO'],
      ]),
      40,
    )
    assert.equal(await one(LOGGER, '0', [['root', SET, 'LOUD']]), 40)
    assert.equal(await one(LOGGER, '0', [['root', DELETE, null]]), 42)
    assert.equal(await one(LOGGER, '', [['root', SET, 'INFO']]), 42)
    assert.equal(broker.admin.logLevels.get('root'), 'DEBUG')
  })

  it('a subscription to client metrics begins with its first setting and ends with its last', async () => {
    const { one, client } = await setup()
    const told = async () => {
      const { results } = await client.call('DescribeConfigs', 4, {
        resources: [{ resourceType: 16, resourceName: 'sub', configurationKeys: null }],
      })
      return results[0]?.configs.map(({ name, value, configSource }) => [name, value, configSource])
    }
    const listed = async () => (await client.call('ListConfigResources', 0, {})).configResources.map(({ resourceName }) => resourceName)
    assert.equal(
      await one(16, 'sub', [
        ['interval.ms', SET, '1000'],
        ['metrics', APPEND, 'org.apache.kafka.producer.'],
      ]),
      0,
    )
    assert.deepEqual(await told(), [
      ['interval.ms', '1000', 7],
      ['match', '', 5],
      ['metrics', 'org.apache.kafka.producer.', 7],
    ])
    assert.deepEqual(await listed(), ['sub'])
    assert.equal(await one(16, 'sub', [['interval.ms', SET, '99']]), 42)
    assert.equal(await one(16, 'sub', [['interval', SET, '1000']]), 42)
    assert.equal(await one(16, '', [['interval.ms', SET, '1000']]), 42)
    assert.equal(
      await one(16, 'sub', [
        ['interval.ms', DELETE, null],
        ['metrics', DELETE, null],
      ]),
      0,
    )
    assert.deepEqual(await told(), [])
    assert.deepEqual(await listed(), [])
  })

  it('a subscription to client metrics that is not there has no settings', async () => {
    const { client } = await setup()
    const { results } = await client.call('DescribeConfigs', 4, {
      resources: [
        { resourceType: 16, resourceName: 'sub', configurationKeys: null },
        { resourceType: 16, resourceName: '', configurationKeys: null },
      ],
    })
    assert.deepEqual(
      results.map(({ errorCode, configs }) => [errorCode, configs.length]),
      [
        [0, 0],
        [42, 0],
      ],
    )
  })
})
