import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CommitOffsets, JoinedGroup } from '../../../../src/broker/ports.ts'
import { NO_METRICS } from '../../../../src/core/counters.ts'
import { MetricsRegistry } from '../../../../src/obs/metrics.ts'
import { readBatchHeader } from '../../../../src/record/batch.ts'
import { FakeConnection, GROUP, GroupHarness, type Watched } from '../../../support/group-harness.ts'

function joinedBy(watched: Watched<JoinedGroup>): JoinedGroup {
  assert.ok(watched.value !== undefined, `the join was not answered: ${String(watched.error ?? 'it waits')}`)
  assert.equal(watched.value.error, null)
  return watched.value
}

interface Member {
  readonly connection: FakeConnection
  readonly joined: JoinedGroup
}

/** Brings members into the group one after another, each join followed by the others joining again, and syncs them. */
async function stableGroup(harness: GroupHarness, names: readonly string[], instances = false): Promise<Member[]> {
  let members: Member[] = []
  for (const name of names) {
    const connection = new FakeConnection(name)
    const instance = (of: string) => (instances ? { instanceId: of } : {})
    const first = harness.join(connection, instance(name))
    await harness.settle()
    const again = members.map((member) => ({
      connection: member.connection,
      answer: harness.join(member.connection, { memberId: member.joined.memberId, ...instance(member.connection.context.clientId) }),
    }))
    await harness.settle()
    members = [
      ...again.map(({ connection, answer }) => ({ connection, joined: joinedBy(answer) })),
      { connection, joined: joinedBy(first) },
    ]
  }
  const assignment = Object.fromEntries(members.map(({ joined, connection }) => [joined.memberId, `for ${connection.context.clientId}`]))
  const synced = members.map(({ connection, joined }) =>
    harness.syncAs(
      connection,
      joined.memberId,
      joined.generation,
      instances ? connection.context.clientId : null,
      joined.leader === joined.memberId ? assignment : {},
    ),
  )
  await harness.settle()
  assert.deepEqual(
    synced.map((sync) => sync.value?.assignment.toString()),
    names.map((name) => `for ${name}`),
  )
  return members
}

test('three members share one generation, one leader and their assignments', async () => {
  const harness = await GroupHarness.open()
  const members = await stableGroup(harness, ['a', 'b', 'c'])
  assert.equal(new Set(members.map(({ joined }) => joined.generation)).size, 1)
  assert.equal(new Set(members.map(({ joined }) => joined.leader)).size, 1)
  assert.deepEqual(
    members.map(({ joined }) => joined.members.length),
    [3, 0, 0],
  )
  const description = await harness.describe()
  assert.equal(description.state, 'Stable')
  assert.equal(description.protocol, 'range')
  assert.deepEqual(description.members.map((member) => member.assignment.toString()).sort(), ['for a', 'for b', 'for c'])
  await harness.coordinator.close()
  assert.equal(harness.clock.pendingTimers, 0)
})

test('while the offsets are read every request is told to wait, after the end that it is over', async () => {
  const harness = await GroupHarness.open()
  assert.equal(await harness.commit(5), null)
  await harness.crashUnloaded()
  assert.equal(await harness.heartbeat('m', 1), 'COORDINATOR_LOADING')
  assert.equal(await harness.commit(6), 'COORDINATOR_LOADING')
  const join = harness.join(new FakeConnection())
  await harness.settle()
  assert.equal(join.value?.error?.code, 'COORDINATOR_LOADING')
  await assert.rejects(harness.committed(), { code: 'COORDINATOR_LOADING' })
  assert.equal((await harness.describe()).error?.code, 'COORDINATOR_LOADING')
  const filter = { states: [], kinds: [] }
  assert.equal((await harness.coordinator.list(new FakeConnection().context, filter)).loading, true)
  await harness.load()
  assert.equal(await harness.committed(), 5)
  assert.equal((await harness.coordinator.list(new FakeConnection().context, filter)).loading, false)
  await harness.coordinator.close()
  assert.equal(await harness.heartbeat('m', 1), 'COORDINATOR_NOT_AVAILABLE')
})

test('O1: members vanish during a rebalance and a new one is stable within the timeouts', async () => {
  const harness = await GroupHarness.open()
  const dead = ['a', 'b', 'c'].map((name) => new FakeConnection(name))
  for (const connection of dead) harness.join(connection)
  await harness.settle()
  for (const connection of dead) connection.drop()
  await harness.clock.advance(40_000)
  assert.equal((await harness.describe()).state, 'Empty')
  const [alone] = await stableGroup(harness, ['d'])
  assert.equal((await harness.describe()).members.length, 1)
  assert.ok(alone !== undefined && alone.joined.generation > 0)
})

test('O1: members that never sync are removed, and those that did go on', async () => {
  const harness = await GroupHarness.open()
  const connection = new FakeConnection('a')
  const joined = harness.join(connection, { sessionTimeoutMs: 60_000, rebalanceTimeoutMs: 5000 })
  await harness.settle()
  joinedBy(joined)
  assert.equal((await harness.describe()).state, 'CompletingRebalance')
  await harness.clock.advance(5001)
  assert.equal((await harness.describe()).state, 'Empty')
})

test('O2: a member that was removed cannot commit over its successor', async () => {
  const harness = await GroupHarness.open()
  const [a] = await stableGroup(harness, ['a'])
  assert.ok(a !== undefined)
  assert.equal(await harness.commit(10, { memberId: a.joined.memberId, generation: a.joined.generation }), null)
  await harness.clock.advance(10_001)
  const [b] = await stableGroup(harness, ['b'])
  assert.ok(b !== undefined)
  const late = { memberId: a.joined.memberId, generation: a.joined.generation }
  assert.equal(await harness.commit(100, { memberId: b.joined.memberId, generation: b.joined.generation }), null)
  assert.equal(await harness.commit(50, late), 'GROUP_MEMBER_UNKNOWN')
  assert.equal(await harness.commit(50, { ...late, memberId: b.joined.memberId }), 'ILLEGAL_GENERATION')
  assert.equal(await harness.commit(50), 'GROUP_MEMBER_UNKNOWN', 'a commit outside of membership while there are members')
  assert.equal(await harness.committed(), 100)
  assert.equal(await harness.heartbeat(a.joined.memberId, a.joined.generation), 'GROUP_MEMBER_UNKNOWN')
})

test('O2: a commit between the barriers is refused, one before the member joins again is not', async () => {
  const harness = await GroupHarness.open()
  const [a] = await stableGroup(harness, ['a'])
  assert.ok(a !== undefined)
  const byA = { memberId: a.joined.memberId, generation: a.joined.generation }
  const second = harness.join(new FakeConnection('b'))
  await harness.settle()
  assert.equal((await harness.describe()).state, 'PreparingRebalance')
  assert.equal(await harness.heartbeat(byA.memberId, byA.generation), 'REBALANCE_IN_PROGRESS')
  assert.equal(await harness.commit(7, byA), null)
  const again = harness.join(a.connection, { memberId: byA.memberId })
  await harness.settle()
  joinedBy(second)
  assert.equal(await harness.commit(8, { ...byA, generation: joinedBy(again).generation }), 'REBALANCE_IN_PROGRESS')
  assert.equal(await harness.committed(), 7)
})

test('O3: a static member restarts without a rebalance, its old id is fenced, also across a restart of the broker', async () => {
  const harness = await GroupHarness.open()
  const members = await stableGroup(harness, ['i1', 'i2'], true)
  const [old, other] = members
  assert.ok(old !== undefined && other !== undefined)
  for (let restart = 0; restart < 2; restart++) {
    const connection = new FakeConnection('i1')
    const joined = harness.join(connection, { instanceId: 'i1' })
    await harness.settle()
    const now = joinedBy(joined)
    assert.equal(now.generation, old.joined.generation)
    assert.notEqual(now.memberId, old.joined.memberId)
    const synced = harness.syncAs(connection, now.memberId, now.generation, 'i1')
    await harness.settle()
    assert.equal(synced.value?.assignment.toString(), 'for i1')
    assert.equal(await harness.heartbeat(old.joined.memberId, old.joined.generation, 'i1'), 'FENCED_INSTANCE_ID')
    assert.equal(await harness.commit(1, { ...fields(old), instanceId: 'i1' }), 'FENCED_INSTANCE_ID')
    assert.equal(await harness.heartbeat(now.memberId, now.generation, 'i1'), null)
    assert.equal(await harness.heartbeat(other.joined.memberId, other.joined.generation, 'i2'), null, 'the other saw a rebalance')
    await harness.crash()
  }
})

function fields(member: Member): { memberId: string; generation: number } {
  return { memberId: member.joined.memberId, generation: member.joined.generation }
}

test('a restarted static leader is told to skip the assignment, or of a leader that it is not', async () => {
  const harness = await GroupHarness.open()
  await stableGroup(harness, ['i1', 'i2'], true)
  const modern = harness.join(new FakeConnection('i1'), { instanceId: 'i1' })
  await harness.settle()
  assert.equal(joinedBy(modern).skipAssignment, true)
  assert.equal(joinedBy(modern).leader, joinedBy(modern).memberId)
  assert.equal(joinedBy(modern).members.length, 2)
  const older = harness.join(new FakeConnection('i1'), { instanceId: 'i1', supportsSkippingAssignment: false })
  await harness.settle()
  assert.equal(joinedBy(older).skipAssignment, false)
  assert.equal(joinedBy(older).leader, joinedBy(modern).memberId)
  assert.equal(joinedBy(older).members.length, 0)
})

test('a new member first gets an id and joins with it', async () => {
  const harness = await GroupHarness.open()
  const connection = new FakeConnection('a')
  const first = harness.join(connection, { requireKnownMemberId: true })
  await harness.settle()
  assert.equal(first.value?.error?.code, 'MEMBER_ID_REQUIRED')
  const memberId = first.value?.memberId ?? ''
  assert.match(memberId, /^a-/)
  // As in Kafka the group is there, without members, while its first one has only been given an id.
  const pending = await harness.describe()
  assert.deepEqual([pending.state, pending.error, pending.members], ['Empty', null, []])
  const second = harness.join(connection, { requireKnownMemberId: true, memberId })
  await harness.settle()
  assert.equal(joinedBy(second).memberId, memberId)
})

test('an id that is not used in time is forgotten, with the group that was made for it', async () => {
  const harness = await GroupHarness.open()
  const first = harness.join(new FakeConnection('a'), { requireKnownMemberId: true })
  await harness.clock.advance(10_001)
  assert.equal(harness.coordinator.table.groupCount, 0)
  const late = harness.join(new FakeConnection('a'), { requireKnownMemberId: true, memberId: first.value?.memberId ?? '' })
  await harness.settle()
  assert.equal(late.value?.error?.code, 'GROUP_MEMBER_UNKNOWN')
})

test('no client is told a generation or an assignment that is not on disk', async () => {
  const harness = await GroupHarness.open()
  harness.topic.holdSyncs = true
  const connection = new FakeConnection('a')
  const join = harness.join(connection)
  await harness.settle()
  assert.equal(join.settled, false)
  harness.topic.sync()
  await harness.settle()
  const joined = joinedBy(join)
  const sync = harness.sync(connection, joined, { [joined.memberId]: 'all' })
  await harness.settle()
  assert.equal(sync.settled, false)
  harness.topic.sync()
  await harness.settle()
  assert.equal(sync.value?.assignment.toString(), 'all')
})

test('a restart between the barriers keeps the generation: the leader syncs as if nothing had happened', async () => {
  const harness = await GroupHarness.open()
  const a = harness.join(new FakeConnection('a'))
  await harness.settle()
  const joined = joinedBy(a)
  await harness.crash()
  assert.equal((await harness.describe()).state, 'CompletingRebalance')
  const sync = harness.sync(new FakeConnection('a'), joined, { [joined.memberId]: 'all' })
  await harness.settle()
  assert.equal(sync.value?.assignment.toString(), 'all')
  assert.equal((await harness.describe()).state, 'Stable')
})

test('a restart of a stable group keeps members, assignments and offsets; sessions start anew', async () => {
  const harness = await GroupHarness.open()
  const [a, b] = await stableGroup(harness, ['a', 'b'])
  assert.ok(a !== undefined && b !== undefined)
  assert.equal(await harness.commit(42, fields(a)), null)
  await harness.crash()
  assert.equal(await harness.heartbeat(a.joined.memberId, a.joined.generation), null)
  assert.equal(await harness.committed(), 42)
  const sync = harness.sync(b.connection, b.joined)
  await harness.settle()
  assert.equal(sync.value?.assignment.toString(), 'for b')
  await harness.clock.advance(10_001)
  assert.equal((await harness.describe()).state, 'Empty')
  const [c] = await stableGroup(harness, ['c'])
  assert.ok(c !== undefined && c.joined.generation > a.joined.generation)
})

test('an explicit commit is answered after its sync, a delivery commit at once; neither is read before it is durable', async () => {
  const harness = await GroupHarness.open()
  assert.equal(await harness.commit(1), null)
  harness.topic.holdAll(true)
  let answered = false
  const explicit = harness.commit(2).then((outcome) => {
    answered = true
    return outcome
  })
  assert.equal(await harness.commit(3, { durable: false }), null)
  await harness.settle()
  assert.equal(answered, false)
  let read: number | null = null
  const reading = harness.committed().then((offset) => {
    read = offset
  })
  await harness.settle()
  assert.equal(read, null)
  harness.topic.sync()
  await reading
  assert.equal(read, 3)
  assert.equal(await explicit, null)
})

test('a failed log: what waits is refused, nothing that was not durable is read later', async () => {
  const harness = await GroupHarness.open()
  assert.equal(await harness.commit(1), null)
  harness.topic.holdAll(true)
  const lost = harness.commit(2)
  const parked = harness.join(new FakeConnection('a'))
  await harness.settle()
  const log = harness.topic.logs.get(0)
  assert.ok(log !== undefined)
  log.fail()
  assert.equal(await lost, 'COORDINATOR_NOT_AVAILABLE')
  await harness.settle()
  assert.equal(parked.value?.error?.code, 'COORDINATOR_NOT_AVAILABLE')
  assert.equal(await harness.heartbeat('m', 1), 'COORDINATOR_NOT_AVAILABLE')
  await harness.clock.advance(10_000)
  assert.equal(await harness.heartbeat('m', 1), 'COORDINATOR_NOT_AVAILABLE', 'the log is still away')
  log.reopen()
  log.holdSyncs = false
  await harness.clock.advance(10_000)
  assert.equal(await harness.committed(), 1)
  assert.equal(await harness.commit(3), null)
})

test('a deleted topic takes its offsets out of every group, also when the broker was down', async () => {
  const harness = await GroupHarness.open()
  harness.metadata.addTopic('kept', 1)
  for (const group of ['g', 'h']) assert.equal(await harness.commit(10, { group }), null)
  const kept = [{ topic: 'kept', partition: 0, value: { offset: 3, leaderEpoch: -1, metadata: 'note' } }]
  assert.equal(await harness.commit(0, { group: 'h', offsets: kept }), null)
  harness.metadata.removeTopic('t')
  harness.metadata.addTopic('t', 4)
  assert.equal(await harness.committed(0, 'g'), null)
  assert.equal((await harness.describe('g')).state, 'Dead')
  await harness.crash()
  assert.equal(await harness.committed(0, 'h'), null)
  assert.equal(await harness.commit(20, { group: 'h' }), null)
  await harness.coordinator.close()
  harness.metadata.removeTopic('t')
  harness.metadata.addTopic('t', 4)
  await harness.crash()
  assert.equal(await harness.committed(0, 'h'), null, 'the offset of a topic that was made again')
  const all = await harness.coordinator.committed(new FakeConnection().context, { group: 'h', topics: null })
  assert.deepEqual(
    all.map(({ topic, value }) => [topic, value?.offset, value?.metadata]),
    [['kept', 3, 'note']],
  )
})

test('what a commit may not say is refused by partition', async () => {
  const harness = await GroupHarness.open({ offsetMetadataMaxBytes: 4 })
  const value = (offset: number, metadata = '') => ({ offset, leaderEpoch: -1, metadata })
  const outcomes = await harness.coordinator.commit(new FakeConnection().context, {
    group: GROUP,
    generation: -1,
    memberId: '',
    instanceId: null,
    durable: true,
    offsets: [
      { topic: 't', partition: 0, value: value(1, 'fits') },
      { topic: 't', partition: 1, value: value(1, 'not so') },
      { topic: 't', partition: 9, value: value(1) },
      { topic: 'missing', partition: 0, value: value(1) },
      { topic: 't', partition: 2, value: value(2 ** 60) },
    ],
  })
  assert.deepEqual(
    outcomes.map((outcome) => outcome?.code ?? null),
    [null, 'OFFSET_METADATA_TOO_LARGE', 'PARTITION_MISSING', 'TOPIC_MISSING', 'INVALID_REQUEST'],
  )
  assert.equal(await harness.commit(1, { group: 'new', generation: 3, memberId: 'm' }), 'GROUP_MISSING')
  assert.equal(await harness.commit(1, { group: 'new', generation: 3, memberId: 'm', understandsEpochs: false }), 'ILLEGAL_GENERATION')
})

test('an offset below 0, with which clients reset a group, is kept and read again', async () => {
  const harness = await GroupHarness.open()
  for (const offset of [7, -1, -2]) {
    assert.equal(await harness.commit(offset), null)
    assert.equal(await harness.committed(), offset)
  }
  await harness.crash()
  assert.equal(await harness.committed(), -2)
})

test('a group is deleted only when it is empty, for good', async () => {
  const harness = await GroupHarness.open()
  const [a] = await stableGroup(harness, ['a'])
  assert.ok(a !== undefined)
  assert.equal(await harness.commit(10, fields(a)), null)
  const context = new FakeConnection().context
  const codes = async () => (await harness.coordinator.delete(context, [GROUP, 'none'])).map((outcome) => outcome?.code ?? null)
  assert.deepEqual(await codes(), ['GROUP_NOT_EMPTY', 'GROUP_MISSING'])
  const [left] = await harness.coordinator.leave(context, { group: GROUP, members: [{ memberId: a.joined.memberId, instanceId: null }] })
  assert.equal(left, null)
  assert.deepEqual(await codes(), [null, 'GROUP_MISSING'])
  await harness.crash()
  assert.equal(harness.coordinator.table.groupCount, 0)
  assert.equal(await harness.committed(), null)
})

test('O4: offsets expire from when the group became empty, never under a member that subscribes', async () => {
  const harness = await GroupHarness.open({ offsetsRetentionMs: 60_000, retentionCheckIntervalMs: 1000 })
  // Consumer protocol version 0: one topic, "t", and no user data.
  const subscription = Buffer.from('000000000001000174ffffffff', 'hex')
  const connection = new FakeConnection('a')
  const join = harness.join(connection, { protocols: [{ name: 'range', metadata: subscription }], sessionTimeoutMs: 1000 })
  await harness.settle()
  const joined = joinedBy(join)
  harness.sync(connection, joined, { [joined.memberId]: 'all' })
  await harness.settle()
  assert.equal(await harness.commit(10, { memberId: joined.memberId, generation: joined.generation }), null)
  assert.equal(await harness.commit(1, { group: 'simple' }), null)
  for (let second = 0; second < 180; second++) {
    assert.equal(await harness.heartbeat(joined.memberId, joined.generation), null)
    await harness.clock.advance(900)
  }
  assert.equal(await harness.committed(), 10)
  assert.equal(await harness.committed(0, 'simple'), null)
  await harness.clock.advance(30_000)
  assert.equal((await harness.describe()).state, 'Empty')
  assert.equal(await harness.committed(), 10)
  await harness.clock.advance(40_000)
  assert.equal(await harness.committed(), null)
  assert.equal(harness.coordinator.table.groupCount, 0)
})

test('the lag of a group is shown while it has the offset, also after a restart', async () => {
  const harness = await GroupHarness.open()
  const shown = new Map<string, () => number>()
  harness.metrics = {
    ...NO_METRICS,
    observed(name, read, labels = {}) {
      const key = `${name} ${Object.values(labels).join(' ')}`
      shown.set(key, read)
      return () => void shown.delete(key)
    },
  }
  await harness.crash()
  const lag = () => shown.get('moonmq_consumer_lag g t 0')?.()
  assert.equal(lag(), undefined)
  assert.equal(await harness.commit(40), null)
  assert.equal(lag(), 60)
  assert.equal(await harness.commit(70), null)
  assert.equal(lag(), 30)
  await harness.crash()
  assert.equal(lag(), 30)
  await harness.coordinator.delete(new FakeConnection().context, [GROUP])
  assert.equal(lag(), undefined)
  await harness.coordinator.close()
  assert.equal(shown.size, 0)
})

test('groups by state, rebalances, members that fell silent, commits and expired offsets are counted', async () => {
  const harness = await GroupHarness.open({ offsetsRetentionMs: 60_000, retentionCheckIntervalMs: 10_000 })
  const registry = new MetricsRegistry()
  harness.metrics = registry
  await harness.crash()
  const value = (name: string, labels: Record<string, string> = {}) =>
    registry.samples(name).find((sample) => Object.entries(labels).every(([key, text]) => sample.labels[key] === text))?.value ?? 0
  const a = new FakeConnection()
  const join = harness.join(a)
  await harness.settle()
  const joined = join.value as JoinedGroup
  assert.equal(value('moonmq_group_states', { kind: 'classic', state: 'CompletingRebalance' }), 1)
  harness.sync(a, joined, { [joined.memberId]: 'all' })
  await harness.clock.advance(1)
  assert.equal(value('moonmq_group_states', { kind: 'classic', state: 'Stable' }), 1)
  assert.equal(value('moonmq_group_states', { kind: 'classic', state: 'CompletingRebalance' }), 0)
  assert.equal(value('moonmq_group_rebalances_total', { kind: 'classic' }), 1)
  assert.equal(await harness.commit(5, { memberId: joined.memberId, generation: joined.generation }), null)
  assert.equal(await harness.commit(6, { memberId: joined.memberId, generation: 7 }), 'ILLEGAL_GENERATION')
  assert.equal(value('moonmq_offsets_committed_total', { via: 'member' }), 1)
  assert.equal(value('moonmq_offset_commits_refused_total', { error: 'ILLEGAL_GENERATION' }), 1)
  await harness.clock.advance(10_001)
  assert.equal(value('moonmq_group_members_expired_total', { kind: 'classic' }), 1)
  assert.equal(value('moonmq_group_rebalances_total', { kind: 'classic' }), 2, 'the generation without members')
  await harness.clock.advance(71_000)
  assert.equal(value('moonmq_offsets_expired_total'), 1)
  assert.equal(value('moonmq_groups'), 0)
  await harness.beat('b', 0)
  assert.equal(value('moonmq_group_rebalances_total', { kind: 'consumer' }), 1)
  await harness.clock.advance(1)
  assert.equal(value('moonmq_group_states', { kind: 'consumer', state: 'Stable' }), 1)
  await harness.coordinator.close()
  assert.deepEqual(registry.samples('moonmq_group_states'), [])
})

/** One commit with an offset of each of so many partitions. */
function wideOffsets(count: number, value = 7): CommitOffsets['offsets'] {
  return Array.from({ length: count }, (_, partition) => ({
    topic: 'wide',
    partition,
    value: { offset: value, leaderEpoch: -1, metadata: '' },
  }))
}

test('a commit of very many offsets is stored a thousand a turn, and others are served in between', async () => {
  const harness = await GroupHarness.open()
  harness.metadata.addTopic('wide', 2500)
  const before = harness.topic.logs.get(0)?.batches.length ?? 0
  const work = harness.coordinator.commit(new FakeConnection().context, {
    group: GROUP,
    generation: -1,
    memberId: '',
    instanceId: null,
    durable: true,
    offsets: wideOffsets(2500),
  })
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  assert.equal(await harness.committed(3), null, 'another request is answered while most of it is not stored')
  await harness.settle()
  const outcomes = await work
  assert.deepEqual([outcomes.length, outcomes.filter((outcome) => outcome !== null).length], [2500, 0])
  const counts = harness.topic.logs
    .get(0)
    ?.batches.slice(before)
    .map((batch) => readBatchHeader(batch).recordCount)
  assert.deepEqual(counts, [1000, 1000, 500])
  const asked = { group: GROUP, topics: [{ topic: 'wide', partitions: Array.from({ length: 2500 }, (_, partition) => partition) }] }
  const reading = harness.coordinator.committed(new FakeConnection().context, asked)
  await harness.settle()
  assert.equal((await reading).filter(({ value }) => value?.offset === 7).length, 2500)
  await harness.coordinator.close()
})

test('who is out of the group before all of a large commit is stored is refused for the rest', async () => {
  const harness = await GroupHarness.open()
  harness.metadata.addTopic('wide', 1500)
  const a = new FakeConnection()
  const join = harness.join(a)
  await harness.settle()
  const { memberId, generation } = join.value as JoinedGroup
  harness.sync(a, join.value as JoinedGroup, { [memberId]: 'all' })
  await harness.settle()
  const request = { group: GROUP, generation, memberId, instanceId: null, durable: true, offsets: wideOffsets(1500) }
  const work = harness.coordinator.commit(a.context, request)
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  await harness.coordinator.leave(a.context, { group: GROUP, members: [{ memberId, instanceId: null }] })
  await harness.settle()
  const outcomes = await work
  assert.equal(
    outcomes.slice(0, 1000).every((outcome) => outcome === null),
    true,
  )
  assert.equal(
    outcomes.slice(1000).every((outcome) => outcome?.code === 'GROUP_MEMBER_UNKNOWN'),
    true,
  )
  await harness.coordinator.close()
})
