import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BrokerPorts } from '../../../src/broker/ports.ts'
import { asMoonMQError } from '../../../src/core/errors.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ZERO_UUID } from '../../../src/core/uuid.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import type { AnyApi, KafkaCall } from '../../../src/kafka/handler.ts'
import { KAFKA_APIS } from '../../../src/kafka/handlers/index.ts'
import { LentMemory } from '../../../src/kafka/lent-memory.ts'
import type { Input } from '../../../src/schema/compile.ts'
import { type ApiName, requestCodec, responseCodec } from '../../../src/schema/messages.ts'
import type { Requests, Responses } from '../../../src/schema/types.generated.ts'
import { FakeConnection, GroupHarness } from '../../support/group-harness.ts'
import { noSessions } from '../../support/kafka-door.ts'

const RANGES: readonly (readonly [ApiName, number, number, number])[] = [
  ['OffsetCommit', 8, 2, 10],
  ['OffsetFetch', 9, 1, 10],
  ['FindCoordinator', 10, 0, 6],
  ['JoinGroup', 11, 0, 9],
  ['Heartbeat', 12, 0, 4],
  ['LeaveGroup', 13, 0, 5],
  ['SyncGroup', 14, 0, 5],
  ['DescribeGroups', 15, 0, 6],
  ['ListGroups', 16, 0, 5],
  ['DeleteGroups', 42, 0, 3],
  ['OffsetDelete', 47, 0, 0],
  ['ConsumerGroupHeartbeat', 68, 0, 1],
  ['ConsumerGroupDescribe', 69, 0, 1],
]

/** Requests in Kafka's bytes against the coordinator, through the handlers as the table holds them. */
class Wire {
  readonly harness: GroupHarness
  readonly connection = new FakeConnection('kafka')

  constructor(harness: GroupHarness) {
    this.harness = harness
  }

  get #broker(): BrokerPorts {
    const { coordinator, metadata } = this.harness
    const topics = {
      find: (name: string) => metadata.image.topics.get(name),
      findById: (id: string) => metadata.image.topicsById.get(id),
    }
    return { groups: coordinator, topics, cluster: { nodeId: 0 } } as unknown as BrokerPorts
  }

  async ask<N extends ApiName>(name: N, version: number, fields: Input<Requests[N]>): Promise<Responses[N]> {
    const api = apiOf(name)
    const written = new ByteWriter()
    requestCodec(name, version).encode(written, fields)
    const body = requestCodec(name, version).decode(new ByteReader(written.toBuffer()))
    const call: KafkaCall = {
      version,
      context: this.connection.context,
      broker: this.#broker,
      advertised: { host: 'moon.example', port: 9092 },
      clock: this.harness.clock,
      log: SILENT,
      offer: [],
      lent: new LentMemory(1),
      sessions: noSessions(),
      afterSent() {},
    }
    const answering = answerOf(api, call, body)
    await this.harness.settle()
    const answer = new ByteWriter()
    responseCodec(name, version).encode(answer, (await answering) as Input<Responses[N]>)
    return responseCodec(name, version).decode(new ByteReader(answer.toBuffer()))
  }
}

async function answerOf(api: AnyApi, call: KafkaCall, body: unknown): Promise<unknown> {
  try {
    return await api.handle(call, body)
  } catch (error) {
    return api.refuse(asMoonMQError(error), body, call)
  }
}

function apiOf(name: ApiName): AnyApi {
  const api = KAFKA_APIS.find((each) => each.name === name)
  assert.ok(api !== undefined, `${name} is not served`)
  return api
}

async function open(): Promise<Wire> {
  return new Wire(await GroupHarness.open())
}

const JOIN = {
  groupId: 'g',
  sessionTimeoutMs: 10_000,
  memberId: '',
  protocolType: 'consumer',
  protocols: [{ name: 'range', metadata: Buffer.from('x') }],
}

/** A member of group "g" that has its assignment, by the requests of one version each. */
async function member(wire: Wire, joinVersion: number, syncVersion: number): Promise<{ memberId: string; generationId: number }> {
  let joined = await wire.ask('JoinGroup', joinVersion, JOIN)
  if (joinVersion >= 4) {
    assert.equal(joined.errorCode, 79)
    joined = await wire.ask('JoinGroup', joinVersion, { ...JOIN, memberId: joined.memberId })
  }
  assert.equal(joined.errorCode, 0)
  assert.equal(joined.leader, joined.memberId)
  assert.equal(joined.protocolName, 'range')
  assert.equal(joined.members[0]?.metadata.toString(), 'x')
  const { memberId, generationId } = joined
  const synced = await wire.ask('SyncGroup', syncVersion, {
    groupId: 'g',
    generationId,
    memberId,
    ...(syncVersion >= 5 ? { protocolType: 'consumer', protocolName: 'range' } : {}),
    assignments: [{ memberId, assignment: Buffer.from('all') }],
  })
  assert.equal(synced.errorCode, 0)
  assert.equal(synced.assignment.toString(), 'all')
  return { memberId, generationId }
}

test('the ranges are those that clients look for', () => {
  for (const [name, key, min, max] of RANGES) {
    const api = apiOf(name)
    assert.deepEqual([api.key, ...api.versions], [key, min, max], name)
  }
})

for (let version = 0; version <= 9; version++) {
  test(`JoinGroup ${version}: a member joins, syncs, is heard and leaves`, async () => {
    const wire = await open()
    const { memberId, generationId } = await member(wire, version, Math.min(version, 5))
    const heard = await wire.ask('Heartbeat', Math.min(version, 4), { groupId: 'g', generationId, memberId })
    assert.equal(heard.errorCode, 0)
    const leaveVersion = Math.min(version, 5)
    const left = await wire.ask('LeaveGroup', leaveVersion, {
      groupId: 'g',
      ...(leaveVersion < 3 ? { memberId } : { members: [{ memberId }] }),
    })
    assert.equal(left.errorCode, 0)
    assert.deepEqual(
      left.members.map((each) => [each.memberId, each.errorCode]),
      leaveVersion < 3 ? [] : [[memberId, 0]],
    )
    const again = await wire.ask('Heartbeat', 0, { groupId: 'g', generationId, memberId })
    assert.equal(again.errorCode, 25)
  })

  test(`JoinGroup ${version}: a refusal can be said`, async () => {
    const wire = await open()
    const refused = await wire.ask('JoinGroup', version, { ...JOIN, sessionTimeoutMs: 1 })
    assert.deepEqual([refused.errorCode, refused.generationId, refused.protocolName], [26, -1, version >= 7 ? null : ''])
    const noGroup = await wire.ask('JoinGroup', version, { ...JOIN, groupId: '' })
    assert.equal(noGroup.errorCode, 24)
  })
}

test('SyncGroup 5 must say which protocol it means, and mean the right one', async () => {
  const wire = await open()
  const { memberId, generationId } = await member(wire, 5, 5)
  const sync = { groupId: 'g', generationId, memberId, assignments: [] }
  assert.equal((await wire.ask('SyncGroup', 5, sync)).errorCode, 23)
  assert.equal((await wire.ask('SyncGroup', 5, { ...sync, protocolType: 'consumer', protocolName: 'sticky' })).errorCode, 23)
  assert.equal((await wire.ask('SyncGroup', 3, { ...sync, generationId: generationId + 1 })).errorCode, 22)
})

for (let version = 2; version <= 10; version++) {
  test(`OffsetCommit ${version}: stored by name or id, refused for a topic that is not there`, async () => {
    const wire = await open()
    const id = wire.harness.metadata.image.topics.get('t')?.id ?? ''
    const partitions = [{ partitionIndex: 1, committedOffset: 7, committedMetadata: null }]
    const byId = version >= 10
    const committed = await wire.ask('OffsetCommit', version, {
      groupId: 'g',
      generationIdOrMemberEpoch: -1,
      memberId: '',
      topics: byId
        ? [
            { topicId: Buffer.alloc(16, 9).toString('base64url'), partitions },
            { topicId: id, partitions },
          ]
        : [
            { name: 'none', partitions },
            { name: 't', partitions },
          ],
    })
    assert.deepEqual(
      committed.topics.map((topic) => topic.partitions[0]?.errorCode),
      [byId ? 100 : 3, 0],
    )
    assert.equal(await wire.harness.committed(1), 7)
  })
}

for (let version = 1; version <= 10; version++) {
  test(`OffsetFetch ${version}: what is committed, what is not, and all of it`, async () => {
    const wire = await open()
    assert.equal(await wire.harness.commit(5), null)
    const topicId = wire.harness.metadata.image.topics.get('t')?.id ?? ''
    const asked = { ...(version >= 10 ? { topicId } : { name: 't' }), partitionIndexes: [0, 1] }
    const fetch = async (topics: (typeof asked)[] | null) => {
      const fields = version >= 8 ? { groups: [{ groupId: 'g', topics }] } : { groupId: 'g', topics: topics as { name: string }[] | null }
      const answer = await wire.ask('OffsetFetch', version, fields as Input<Requests['OffsetFetch']>)
      const answered = version >= 8 ? answer.groups[0] : answer
      assert.equal(answered?.errorCode, 0)
      return answered.topics.map((topic) => [
        'topicId' in topic && version >= 10 ? topic.topicId : topic.name,
        topic.partitions.map((partition) => [partition.partitionIndex, partition.committedOffset, partition.metadata, partition.errorCode]),
      ])
    }
    const named = version >= 10 ? topicId : 't'
    assert.deepEqual(await fetch([asked]), [
      [
        named,
        [
          [0, 5, '', 0],
          [1, -1, '', 0],
        ],
      ],
    ])
    if (version >= 2) {
      assert.deepEqual(await fetch(null), [[named, [[0, 5, '', 0]]]])
      assert.deepEqual(await fetch([]), [])
    }
  })

  test(`OffsetFetch ${version}: the error of a group that is not loaded yet`, async () => {
    const wire = await open()
    await wire.harness.crashUnloaded()
    const topics = [{ name: 't', partitionIndexes: [0] }]
    const fields = version >= 8 ? { groups: [{ groupId: 'g', topics: null }] } : { groupId: 'g', topics }
    const answer = await wire.ask('OffsetFetch', version, fields as Input<Requests['OffsetFetch']>)
    const code = version >= 8 ? answer.groups[0]?.errorCode : version >= 2 ? answer.errorCode : answer.topics[0]?.partitions[0]?.errorCode
    assert.equal(code, 14)
  })
}

test('OffsetFetch 10: an id that no topic has is refused for its partitions only', async () => {
  const wire = await open()
  const topicId = wire.harness.metadata.image.topics.get('t')?.id ?? ''
  const topics = [
    { topicId: ZERO_UUID, partitionIndexes: [0] },
    { topicId, partitionIndexes: [0] },
  ]
  const { groups } = await wire.ask('OffsetFetch', 10, { groups: [{ groupId: 'g', topics }] })
  const codes = new Map(groups[0]?.topics.map((topic) => [topic.topicId, topic.partitions[0]?.errorCode]))
  assert.deepEqual([codes.get(ZERO_UUID), codes.get(topicId)], [100, 0])
})

for (let version = 0; version <= 6; version++) {
  test(`FindCoordinator ${version}: this broker, as the client reaches it; not for what is no coordinator`, async () => {
    const wire = await open()
    const fields = (keyType: number) =>
      version >= 4 ? { coordinatorKeys: ['g', 'h'], keyType } : { key: 'g', ...(version >= 1 ? { keyType } : {}) }
    const group = await wire.ask('FindCoordinator', version, fields(0))
    const found = version >= 4 ? group.coordinators : [group]
    assert.equal(found.length, version >= 4 ? 2 : 1)
    for (const each of found) assert.deepEqual([each.errorCode, each.nodeId, each.host, each.port], [0, 0, 'moon.example', 9092])
    if (version === 0) return
    const refused = await wire.ask('FindCoordinator', version, fields(9))
    assert.equal(version >= 4 ? refused.coordinators[0]?.errorCode : refused.errorCode, 42)
  })

  test(`DescribeGroups ${version}: a stable group, and one that is not there`, async () => {
    const wire = await open()
    const { memberId } = await member(wire, 5, 3)
    const { groups } = await wire.ask('DescribeGroups', version, {
      groups: ['g', 'none'],
      ...(version >= 3 ? { includeAuthorizedOperations: true } : {}),
    })
    const [stable, missing] = groups
    assert.deepEqual(
      [stable?.errorCode, stable?.groupState, stable?.protocolType, stable?.protocolData],
      [0, 'Stable', 'consumer', 'range'],
    )
    assert.deepEqual(
      stable?.members.map((each) => [each.memberId, each.clientId, each.memberMetadata.toString(), each.memberAssignment.toString()]),
      [[memberId, 'kafka', 'x', 'all']],
    )
    assert.deepEqual([missing?.errorCode, missing?.groupState], [version >= 6 ? 69 : 0, 'Dead'])
  })
}

for (let version = 0; version <= 5; version++) {
  test(`ListGroups ${version}: with state and type where the version has them`, async () => {
    const wire = await open()
    await member(wire, 5, 3)
    assert.equal(await wire.harness.commit(1, { group: 'simple' }), null)
    const all = await wire.ask('ListGroups', version, {})
    assert.deepEqual(all.groups.map((group) => [group.groupId, group.protocolType, group.groupState, group.groupType]).sort(), [
      ['g', 'consumer', version >= 4 ? 'Stable' : '', version >= 5 ? 'classic' : ''],
      ['simple', '', version >= 4 ? 'Empty' : '', version >= 5 ? 'classic' : ''],
    ])
    if (version < 4) return
    const empty = await wire.ask('ListGroups', version, { statesFilter: ['empty'], ...(version >= 5 ? { typesFilter: ['Classic'] } : {}) })
    assert.deepEqual(
      empty.groups.map((group) => group.groupId),
      ['simple'],
    )
    if (version < 5) return
    assert.deepEqual((await wire.ask('ListGroups', version, { typesFilter: ['consumer'] })).groups, [])
  })
}

for (let version = 0; version <= 3; version++) {
  test(`DeleteGroups ${version}: an empty group, a living one, none`, async () => {
    const wire = await open()
    await member(wire, 5, 3)
    assert.equal(await wire.harness.commit(1, { group: 'simple' }), null)
    const { results } = await wire.ask('DeleteGroups', version, { groupsNames: ['simple', 'g', 'none'] })
    assert.deepEqual(
      results.map((result) => [result.groupId, result.errorCode]),
      [
        ['simple', 0],
        ['g', 68],
        ['none', 69],
      ],
    )
    assert.equal(await wire.harness.committed(0, 'simple'), null)
  })
}

const BEAT = { groupId: 'k', memberId: 'm', memberEpoch: 0, rebalanceTimeoutMs: 5000, subscribedTopicNames: ['t'], topicPartitions: [] }

test('ConsumerGroupHeartbeat and ConsumerGroupDescribe: what Kafka shows of a group, at every version', async () => {
  const wire = new Wire(await GroupHarness.open())
  const joined = await wire.ask('ConsumerGroupHeartbeat', 1, BEAT)
  assert.equal(joined.errorCode, 0)
  assert.equal(joined.memberEpoch, 1)
  assert.deepEqual(joined.assignment?.topicPartitions[0]?.partitions, [0, 1, 2, 3])
  const made = await wire.ask('ConsumerGroupHeartbeat', 0, { ...BEAT, groupId: 'made', memberId: '' })
  assert.notEqual(made.memberId, '', 'before version 1 the broker makes the id')
  const again = { groupId: 'k', memberId: 'm', memberEpoch: 1 }
  assert.equal((await wire.ask('ConsumerGroupHeartbeat', 1, again)).assignment, null, 'nothing new')
  assert.equal((await wire.ask('ConsumerGroupHeartbeat', 1, { ...again, memberEpoch: 5 })).errorCode, 110)
  assert.equal((await wire.ask('ConsumerGroupHeartbeat', 1, { ...again, groupId: 'none' })).errorCode, 69)
  assert.equal((await wire.ask('ConsumerGroupHeartbeat', 1, { ...BEAT, memberId: 'x', subscribedTopicRegex: '(' })).errorCode, 128)
  assert.equal((await wire.ask('ConsumerGroupHeartbeat', 1, { ...BEAT, serverAssignor: 'none' })).errorCode, 112)
  for (const version of [0, 1]) {
    const { groups } = await wire.ask('ConsumerGroupDescribe', version, { groupIds: ['k', 'none'], includeAuthorizedOperations: false })
    const [known, missing] = groups
    assert.deepEqual([known?.groupState, known?.groupEpoch, known?.assignmentEpoch, known?.assignorName], ['Stable', 1, 1, 'uniform'])
    const [member] = known?.members ?? []
    assert.deepEqual([member?.memberId, member?.memberEpoch, member?.subscribedTopicRegex], ['m', 1, null])
    assert.deepEqual(member?.assignment.topicPartitions[0]?.partitions, [0, 1, 2, 3])
    assert.equal(member?.targetAssignment.topicPartitions[0]?.topicName, 't')
    if (version === 1) assert.equal(member?.memberType, 1)
    assert.equal(missing?.errorCode, 69)
  }
  const { groups } = await wire.ask('ListGroups', 5, { statesFilter: ['stable'], typesFilter: ['CONSUMER'] })
  assert.deepEqual(groups.map(({ groupId, groupType }) => [groupId, groupType]).sort(), [
    ['k', 'consumer'],
    ['made', 'consumer'],
  ])
  const [described] = (await wire.ask('DescribeGroups', 6, { groups: ['k'] })).groups
  assert.deepEqual([described?.errorCode, described?.groupState], [69, 'Dead'], 'it is no classic group')
  await wire.harness.coordinator.close()
})

test('OffsetDelete looks for the group when one of the topics is there, whatever the partitions are', async () => {
  const wire = new Wire(await GroupHarness.open())
  const remove = (group: string, ...at: (readonly [string, number])[]) =>
    wire.ask('OffsetDelete', 0, {
      groupId: group,
      topics: at.map(([name, partitionIndex]) => ({ name, partitions: [{ partitionIndex }] })),
    })
  const codes = ({ errorCode, topics }: Awaited<ReturnType<typeof remove>>) => [
    errorCode,
    ...topics.map(({ partitions }) => partitions[0]?.errorCode),
  ]
  assert.deepEqual(codes(await remove('nobody', ['none', 0])), [0, 3])
  assert.deepEqual(codes(await remove('nobody', ['none', 0], ['t', 99])), [69])
  assert.deepEqual(codes(await remove('nobody', ['t', 99])), [69])
  assert.equal(await wire.harness.commit(4, { group: 'known' }), null)
  assert.deepEqual(codes(await remove('known', ['t', 99])), [0, 3])
  await wire.harness.coordinator.close()
})

test('OffsetDelete: what a member subscribes to stays, the rest goes for good', async () => {
  const wire = new Wire(await GroupHarness.open())
  wire.harness.metadata.addTopic('u', 1)
  const remove = (group: string, ...names: string[]) =>
    wire.ask('OffsetDelete', 0, { groupId: group, topics: names.map((name) => ({ name, partitions: [{ partitionIndex: 0 }] })) })
  const at = (topic: string) => [{ topic, partition: 0, value: { offset: 4, leaderEpoch: -1, metadata: '' } }]
  assert.equal((await remove('k', 't')).errorCode, 69)
  for (const topic of ['t', 'u']) assert.equal(await wire.harness.commit(4, { group: 'k', offsets: at(topic) }), null)
  await wire.ask('ConsumerGroupHeartbeat', 1, BEAT)
  const codes = (await remove('k', 't', 'u', 'none')).topics.map(({ partitions }) => partitions[0]?.errorCode)
  assert.deepEqual(codes, [86, 0, 3])
  await wire.harness.crash()
  assert.equal(await wire.harness.committed(0, 'k'), 4)
  const all = await wire.harness.coordinator.committed(wire.connection.context, { group: 'k', topics: null })
  assert.deepEqual(
    all.map(({ topic }) => topic),
    ['t'],
  )
  assert.equal(await wire.harness.commit(4, { group: 'empty', offsets: at('t') }), null)
  await remove('empty', 't')
  const deleted = await wire.ask('DeleteGroups', 2, { groupsNames: ['empty'] })
  assert.equal(deleted.results[0]?.errorCode, 0, 'a group without offsets is still there to be deleted')
  await wire.harness.coordinator.close()
})
