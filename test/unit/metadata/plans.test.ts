import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type ErrorCode, isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { newUuid, ZERO_UUID } from '../../../src/core/uuid.ts'
import { encodeRecords } from '../../../src/metadata/batches.ts'
import { emptyImage, ImageBuilder, imageRecords, plainImage } from '../../../src/metadata/image.ts'
import { collidingTopic, topicNameFault } from '../../../src/metadata/names.ts'
import {
  allocateProducerIds,
  bumpLeaderEpoch,
  bumpLeaderEpochs,
  createPartitions,
  createTopic,
  deleteTopic,
  EPOCH_BUMPS_PER_CHANGE,
  registerBroker,
  setConfig,
} from '../../../src/metadata/plans.ts'
import { decodeRecord, encodeRecord } from '../../../src/metadata/records.ts'
import type { MetadataChange, MetadataImage, MetadataRecord } from '../../../src/metadata/types.ts'

const CLUSTER = newUuid(new SeededRandom(1))
const random = new SeededRandom(2)

function fold(image: MetadataImage, records: Iterable<MetadataRecord>): MetadataImage {
  const builder = new ImageBuilder(image)
  let count = 0
  for (const record of records) {
    builder.apply(decodeRecord(encodeRecord(record)))
    count++
  }
  return builder.build(image.nextOffset + count)
}

function applied<T>(image: MetadataImage, change: MetadataChange<T>): MetadataImage {
  return fold(image, change.records)
}

function withBrokers(...ids: number[]): MetadataImage {
  let image = emptyImage(CLUSTER)
  for (const nodeId of ids) {
    image = applied(image, registerBroker(image, { nodeId, incarnationId: newUuid(random), rack: null, endPoints: [] }))
  }
  return image
}

function topic(name: string, partitions = 1, replicationFactor = 1) {
  return { name, id: newUuid(random), partitions, replicationFactor }
}

function refuses(code: ErrorCode, plan: () => unknown, text = /./): void {
  assert.throws(plan, (error) => isCode(error, code) && text.test(error.message), code)
}

test('a topic is made of a topic record, its settings and its partitions, and its image is what the plan answered', () => {
  const before = withBrokers(0)
  const change = createTopic(before, { ...topic('orders', 3), config: new Map([['retention.ms', '1000']]) })
  assert.deepEqual(
    change.records.map((record) => record.name),
    ['TopicRecord', 'ConfigRecord', 'PartitionRecord', 'PartitionRecord', 'PartitionRecord'],
  )
  const after = applied(before, change)
  assert.deepEqual(after.topics.get('orders'), change.result)
  assert.equal(after.topicsById.get(change.result.id), after.topics.get('orders'))
  assert.deepEqual(change.result.partitions[2], { partition: 2, leader: 0, leaderEpoch: 0, partitionEpoch: 0, replicas: [0], isr: [0] })
  assert.equal(before.topics.size, 0)
  refuses('TOPIC_EXISTS', () => createTopic(after, topic('orders')))
})

test('replicas are spread one broker after another, or as assigned', () => {
  const image = withBrokers(0, 1, 2)
  const spread = createTopic(image, topic('a', 4, 2)).result.partitions.map((partition) => partition.replicas)
  assert.deepEqual(spread, [
    [0, 1],
    [1, 2],
    [2, 0],
    [0, 1],
  ])
  const assign = (replicas: [number, number[]][]) => createTopic(image, { ...topic('b'), assignments: new Map(replicas) })
  assert.deepEqual(
    assign([
      [1, [2, 0]],
      [0, [1, 2]],
    ]).result.partitions.map((partition) => partition.leader),
    [1, 2],
  )
  for (const bad of [
    [[1, [0]]],
    [[0, []]],
    [[0, [1, 1]]],
    [[0, [7]]],
    [
      [0, [0]],
      [1, [0, 1]],
    ],
  ] as [number, number[]][][]) {
    refuses('REPLICA_ASSIGNMENT_INVALID', () => assign(bad))
  }
  refuses('REPLICATION_FACTOR_INVALID', () => createTopic(image, topic('c', 1, 4)))
  for (const partitions of [0, -1, 1.5]) refuses('PARTITION_COUNT_INVALID', () => createTopic(image, topic('c', partitions)))
  refuses('POLICY_VIOLATION', () => createTopic(image, topic('c', 100_001)))
})

test('topic names follow the rule of Kafka, and only "." against "_" collides', () => {
  const image = applied(withBrokers(0), createTopic(withBrokers(0), topic('a.b')))
  for (const name of ['', '.', '..', 'a/b', '../../x', 'a\0b', 'ü', 'a b', 'x'.repeat(250), 'a\n']) {
    refuses('TOPIC_NAME_INVALID', () => createTopic(image, topic(name)))
  }
  for (const name of ['x'.repeat(249), '...', '-', 'A.B', 'a.c', 'a_bc', '0'])
    assert.equal(createTopic(image, topic(name)).result.name, name)
  refuses('TOPIC_NAME_INVALID', () => createTopic(image, topic('a_b')), /a\.b/)
  assert.equal(topicNameFault('ok'), null)
  const existing = (...names: string[]) => new Map(names.map((each) => [each, 0]))
  assert.equal(collidingTopic('ab', existing('a.b')), null)
  assert.equal(collidingTopic('a.b', existing('a.b')), null)
  for (const separators of [1, 3, 8, 9, 40]) {
    const dots = 'x.'.repeat(separators)
    const mixed = `${'x_'.repeat(separators - 1)}x.`
    assert.equal(collidingTopic(dots, existing('other', mixed)), separators === 1 ? null : mixed)
    assert.equal(collidingTopic(dots, existing(`${mixed}y`, 'y.'.repeat(separators))), null)
    assert.equal(collidingTopic('x_'.repeat(separators), existing(dots)), dots)
  }
})

test('partitions are added, never taken away', () => {
  let image = withBrokers(0)
  image = applied(image, createTopic(image, topic('t', 2)))
  const change = createPartitions(image, { topic: 't', total: 4 })
  assert.deepEqual(applied(image, change).topics.get('t'), change.result)
  refuses('PARTITION_COUNT_INVALID', () => createPartitions(image, { topic: 't', total: 2 }), /already/)
  refuses('PARTITION_COUNT_INVALID', () => createPartitions(image, { topic: 't', total: 1 }), /never/)
  refuses('TOPIC_MISSING', () => createPartitions(image, { topic: 'u', total: 2 }))
  refuses('REPLICA_ASSIGNMENT_INVALID', () => createPartitions(image, { topic: 't', total: 4, assignments: [[0]] }))
})

test('deleting a topic takes its settings with it, and a new one of the same name is another topic', () => {
  let image = withBrokers(0)
  const first = createTopic(image, { ...topic('t', 2), config: new Map([['a', 'b']]) })
  image = applied(image, first)
  image = applied(image, deleteTopic(image, 't'))
  assert.equal(image.topics.size + image.topicsById.size, 0)
  refuses('TOPIC_MISSING', () => deleteTopic(image, 't'))
  const second = createTopic(image, topic('t'))
  image = applied(image, second)
  assert.notEqual(second.result.id, first.result.id)
  assert.equal(image.topics.get('t')?.config.size, 0)
})

test('settings: only what differs is recorded, null takes away', () => {
  let image = withBrokers(0)
  image = applied(image, createTopic(image, { ...topic('t'), config: new Map([['a', '1']]) }))
  const change = setConfig(image, {
    resource: 'topic',
    name: 't',
    changes: new Map([
      ['a', '1'],
      ['b', '2'],
      ['c', null],
    ]),
  })
  assert.equal(change.result, 1)
  image = applied(image, change)
  assert.deepEqual(
    [...(image.topics.get('t')?.config ?? [])],
    [
      ['a', '1'],
      ['b', '2'],
    ],
  )
  for (const [resource, name] of [
    ['broker', ''],
    ['broker', '0'],
    ['telemetry', 'sub'],
    ['group', 'g'],
  ] as const) {
    image = applied(
      image,
      setConfig(image, {
        resource,
        name,
        changes: new Map([
          ['x', '1'],
          ['y', '2'],
        ]),
      }),
    )
    image = applied(image, setConfig(image, { resource, name, changes: new Map([['x', null]]) }))
    const configs = { broker: image.brokerConfigs, telemetry: image.telemetryConfigs, group: image.groupConfigs }[resource]
    assert.deepEqual([...(configs.get(name) ?? [])], [['y', '2']])
    image = applied(image, setConfig(image, { resource, name, changes: new Map([['y', null]]) }))
  }
  assert.equal(image.brokerConfigs.size + image.telemetryConfigs.size + image.groupConfigs.size, 0)
  refuses('TOPIC_MISSING', () => setConfig(image, { resource: 'topic', name: 'u', changes: new Map() }))
})

test('producer ids come in blocks from 1 and are never given twice', () => {
  let image = withBrokers(0)
  for (const first of [1, 1001, 2001]) {
    const change = allocateProducerIds(image, { nodeId: 0 })
    assert.deepEqual(change.result, { firstProducerId: first, count: 1000 })
    image = applied(image, change)
  }
})

test('a new leader epoch for one partition, and for all that a broker leads', () => {
  let image = withBrokers(0, 1)
  image = applied(image, createTopic(image, topic('t', 3)))
  image = applied(image, bumpLeaderEpoch(image, { topic: 't', partition: 1 }))
  const epochs = () =>
    image.topics.get('t')?.partitions.map((partition) => [partition.leader, partition.leaderEpoch, partition.partitionEpoch])
  assert.deepEqual(epochs(), [
    [0, 0, 0],
    [1, 1, 1],
    [0, 0, 0],
  ])
  for (const records of bumpLeaderEpochs(image, { nodeId: 0 })) image = fold(image, records)
  assert.deepEqual(epochs(), [
    [0, 1, 1],
    [1, 1, 1],
    [0, 1, 1],
  ])
  refuses('PARTITION_MISSING', () => bumpLeaderEpoch(image, { topic: 't', partition: 3 }))
  refuses('TOPIC_MISSING', () => bumpLeaderEpoch(image, { topic: 'u', partition: 0 }))
})

test('the epochs of 10,000 partitions are one batch; more are split within the bound', () => {
  let image = withBrokers(0)
  image = applied(image, createTopic(image, topic('t', 10_000)))
  const one = bumpLeaderEpochs(image, { nodeId: 0 })
  assert.equal(one.length, 1)
  assert.ok((one[0] ?? []).reduce((sum, record) => sum + encodeRecord(record).length, 0) < 400_000)
  const sizes = bumpLeaderEpochs(image, { nodeId: 0, perChange: 4_000 }).map((records) => records.length)
  assert.deepEqual(sizes, [4_000, 4_000, 2_000])
  assert.ok(encodeRecords(Array.from({ length: EPOCH_BUMPS_PER_CHANGE }, () => one[0]?.[0] as MetadataRecord)).length > 0)
})

test('what a change does not touch is shared with the image before', () => {
  let image = withBrokers(0)
  image = applied(image, createTopic(image, topic('a', 2)))
  image = applied(image, createTopic(image, topic('b', 2)))
  const after = applied(image, bumpLeaderEpoch(image, { topic: 'b', partition: 0 }))
  assert.equal(after.topics.get('a'), image.topics.get('a'))
  assert.equal(after.topics.get('b')?.partitions[1], image.topics.get('b')?.partitions[1])
  assert.equal(after.brokers, image.brokers)
  assert.equal(after.features, image.features)
  assert.equal(image.topics.get('b')?.partitions[0]?.leaderEpoch, 0)
})

test('records that cannot follow the state are refused', () => {
  const image = withBrokers(0)
  const made = applied(image, createTopic(image, topic('t')))
  const id = made.topics.get('t')?.id ?? ZERO_UUID
  const config = { resourceType: 4, resourceName: '', name: 'a', value: 'b' }
  const impossible: MetadataRecord[] = [
    { name: 'TopicRecord', version: 0, fields: { name: 't', topicId: newUuid(random) } },
    { name: 'TopicRecord', version: 0, fields: { name: 'u', topicId: id } },
    { name: 'RemoveTopicRecord', version: 0, fields: { topicId: ZERO_UUID } },
    { name: 'PartitionRecord', version: 0, fields: { partitionId: 2, topicId: id } },
    { name: 'PartitionRecord', version: 0, fields: { partitionId: 1, topicId: id, addingReplicas: [3] } },
    { name: 'PartitionChangeRecord', version: 0, fields: { partitionId: 1, topicId: id } },
    { name: 'PartitionChangeRecord', version: 0, fields: { partitionId: 0, topicId: id, removingReplicas: [0] } },
    { name: 'ConfigRecord', version: 0, fields: { ...config, resourceType: 2, resourceName: 'u' } },
    { name: 'ConfigRecord', version: 0, fields: { ...config, resourceType: 99 } },
    { name: 'ConfigRecord', version: 0, fields: { ...config, name: 'moonmq.cluster.id' } },
    { name: 'ProducerIdsRecord', version: 0, fields: { brokerId: 0, brokerEpoch: 0, nextProducerId: 0 } },
    { name: 'UnregisterBrokerRecord', version: 0, fields: { brokerId: 5, brokerEpoch: 0 } },
    { name: 'FenceBrokerRecord', version: 0, fields: { id: 0, epoch: 4711 } },
  ]
  for (const record of impossible) refuses('INVALID_RECORD', () => fold(made, [record]))
  refuses('INVALID_RECORD', () => encodeRecord({ name: 'ClientQuotaRecord', version: 0, fields: {} }), /ClientQuotaRecord/)
  refuses('INVALID_RECORD', () => encodeRecord({ name: 'PartitionRecord', version: 2, fields: {} }), /PartitionRecord version 2/)
})

test('brokers are fenced, unfenced, put into shutdown and unregistered by their epoch', () => {
  let image = withBrokers(0)
  const epoch = image.brokers.get(0)?.epoch ?? -1
  const change = (name: string, version: number, fields: object) => {
    image = fold(image, [{ name, version, fields: fields as Record<string, unknown> }])
  }
  change('FenceBrokerRecord', 0, { id: 0, epoch })
  assert.equal(image.brokers.get(0)?.fenced, true)
  change('UnfenceBrokerRecord', 0, { id: 0, epoch })
  assert.equal(image.brokers.get(0)?.fenced, false)
  change('BrokerRegistrationChangeRecord', 1, { brokerId: 0, brokerEpoch: epoch, fenced: 1, inControlledShutdown: 1 })
  assert.deepEqual([image.brokers.get(0)?.fenced, image.brokers.get(0)?.inControlledShutdown], [true, true])
  change('BrokerRegistrationChangeRecord', 1, { brokerId: 0, brokerEpoch: epoch, fenced: -1 })
  assert.equal(image.brokers.get(0)?.fenced, false)
  change('UnregisterBrokerRecord', 0, { brokerId: 0, brokerEpoch: epoch })
  assert.equal(image.brokers.size, 0)
})

type Step = { readonly kind: number; readonly which: number; readonly count: number }

/** Some change that is possible now, or none. */
function randomChange(image: MetadataImage, step: Step): MetadataChange<unknown> {
  const names = [...image.topics.keys()]
  const name = names[step.which % Math.max(1, names.length)]
  const nodeId = step.which % 3
  if (step.kind === 0 || name === undefined)
    return image.topics.has(`t${step.which}`)
      ? deleteTopic(image, `t${step.which}`)
      : createTopic(image, topic(`t${step.which}`, step.count))
  if (step.kind === 1) return createPartitions(image, { topic: name, total: (image.topics.get(name)?.partitions.length ?? 0) + step.count })
  if (step.kind === 2)
    return setConfig(image, { resource: 'topic', name, changes: new Map([[`k${step.count}`, step.which % 2 === 0 ? null : 'v']]) })
  if (step.kind === 3)
    return setConfig(image, {
      resource: step.which % 2 === 0 ? 'broker' : 'group',
      name: `${step.count}`,
      changes: new Map([['k', step.which % 3 === 0 ? null : `${step.which}`]]),
    })
  if (step.kind === 4) return allocateProducerIds(image, { nodeId })
  if (step.kind === 5) return bumpLeaderEpoch(image, { topic: name, partition: 0 })
  return registerBroker(image, {
    nodeId,
    incarnationId: newUuid(random),
    rack: `r${step.count}`,
    endPoints: [{ name: 'a', host: 'h', port: 9092, securityProtocol: 0 }],
  })
}

test('an image made from its own records equals the image that any history led to', () => {
  const steps = fc.array(fc.record({ kind: fc.nat(6), which: fc.nat(8), count: fc.integer({ min: 1, max: 4 }) }), { maxLength: 60 })
  fc.assert(
    fc.property(steps, (history) => {
      let image = withBrokers(0, 1, 2)
      const records: MetadataRecord[] = []
      for (const step of history) {
        const change = randomChange(image, step)
        records.push(...change.records)
        image = applied(image, change)
      }
      const replayed = fold(withBrokersOf(image, records), [])
      assert.deepEqual([...image.topicsById.values()], [...image.topics.values()])
      const copy = { ...fold(emptyImage(CLUSTER), imageRecords(image)), nextOffset: image.nextOffset }
      assert.deepEqual(plainImage(copy), plainImage(image))
      assert.deepEqual([...copy.topics.keys()], [...image.topics.keys()])
      assert.deepEqual(plainImage(replayed).topics, plainImage(image).topics)
    }),
    { numRuns: 200 },
  )
})

/** The same records in one go, as a start reads them. */
function withBrokersOf(image: MetadataImage, records: readonly MetadataRecord[]): MetadataImage {
  const base = withBrokers(0, 1, 2)
  return { ...fold(base, records), brokers: image.brokers }
}
