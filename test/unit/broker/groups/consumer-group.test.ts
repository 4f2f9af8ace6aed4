import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TopicPattern } from '../../../../src/broker/groups/consumer/patterns.ts'
import { DEFAULT_GROUP_OPTIONS, type GroupOptions } from '../../../../src/broker/groups/group-options.ts'
import { ZERO_UUID } from '../../../../src/core/uuid.ts'
import { converge, FakeConsumer } from '../../../support/fake-consumer.ts'
import { FakeConnection, GROUP, GroupHarness } from '../../../support/group-harness.ts'

const SESSION_MS = 45_000

async function open(options: Partial<GroupOptions> = {}): Promise<GroupHarness> {
  return await GroupHarness.open(options)
}

/** Every partition of `t` once, over these consumers. */
function assertShared(consumers: readonly FakeConsumer[], expected: readonly number[] = [0, 1, 2, 3]): void {
  assert.deepEqual(
    consumers.flatMap((consumer) => consumer.numbers).sort((left, right) => left - right),
    expected,
  )
}

test('the first member of a group gets everything with its first heartbeat', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  assert.ok(await a.beat())
  assert.equal(a.epoch, 1)
  assert.deepEqual(a.numbers, [0, 1, 2, 3])
  const answer = await harness.beat('a', 1, { owned: a.owned })
  assert.deepEqual(answer, { memberId: 'a', memberEpoch: 1, heartbeatIntervalMs: 5000, assignment: null }, 'nothing new')
  const described = await harness.describeConsumer()
  assert.equal(described.state, 'Stable')
  assert.equal(described.assignor, 'uniform')
  assert.deepEqual([described.epoch, described.assignmentEpoch], [1, 1])
  await harness.coordinator.close()
  assert.equal(harness.clock.pendingTimers, 0)
})

test('a partition is given to the next owner only when the former one let go of it', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  const b = new FakeConsumer(harness, 'b')
  await a.beat()
  const told = await harness.beat('b', 0)
  assert.equal(told.memberEpoch, 2)
  assert.deepEqual(told.assignment, [], 'a still reads all of them')
  const revoke = await harness.beat('a', 1, { owned: a.owned })
  assert.equal(revoke.memberEpoch, 1, 'it stays in its epoch')
  assert.deepEqual(revoke.assignment?.[0]?.partitions.length, 2)
  assert.equal((await harness.describeConsumer()).state, 'Reconciling')
  assert.deepEqual((await harness.beat('b', 2, { owned: [] })).assignment, null, 'nothing is free yet')
  const released = await harness.beat('a', 1, { owned: revoke.assignment })
  assert.equal(released.memberEpoch, 2)
  const granted = await harness.beat('b', 2, { owned: [] })
  assert.equal(granted.assignment?.[0]?.partitions.length, 2)
  a.epoch = 2
  a.owned = revoke.assignment ?? []
  b.epoch = 2
  b.owned = granted.assignment ?? []
  assertShared([a, b])
  assert.equal((await harness.describeConsumer()).state, 'Stable')
  await harness.coordinator.close()
})

test('members that leave or are not heard of give their partitions to the others', async () => {
  const harness = await open()
  const all = ['a', 'b', 'c'].map((id) => new FakeConsumer(harness, id))
  await converge(all)
  assertShared(all)
  const [a, b, c] = all as [FakeConsumer, FakeConsumer, FakeConsumer]
  await c.leave()
  await converge([a, b])
  assertShared([a, b])
  await harness.clock.advance(SESSION_MS / 2)
  await a.beat()
  await harness.clock.advance(SESSION_MS / 2 + 2)
  await converge([a])
  assert.deepEqual(a.numbers, [0, 1, 2, 3])
  assert.equal(await b.beat(), false)
  assert.equal(b.lastError, 'GROUP_MEMBER_UNKNOWN')
  await converge([a, b])
  assertShared([a, b])
  await harness.coordinator.close()
})

test('LeaveGroup, with which tools take members away, does so for members of this protocol too, as on Kafka', async () => {
  const harness = await open()
  const all = ['a', 'b'].map((id) => new FakeConsumer(harness, id))
  await converge(all)
  const [a, b] = all as [FakeConsumer, FakeConsumer]
  const members = ['b', 'nobody'].map((memberId) => ({ memberId, instanceId: null, reason: null }))
  const outcomes = await harness.coordinator.leave(new FakeConnection().context, { group: GROUP, members })
  assert.deepEqual(
    outcomes.map((outcome) => outcome?.code ?? null),
    [null, 'GROUP_MEMBER_UNKNOWN'],
  )
  assert.equal(await b.beat(), false)
  await converge([a])
  assert.deepEqual(a.numbers, [0, 1, 2, 3])
  await harness.coordinator.close()
})

test('a member that does not give back in time is out', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  const b = new FakeConsumer(harness, 'b')
  await a.beat()
  await b.beat()
  const stuck = a.owned
  for (let heard = 0; heard < 4; heard++) {
    await harness.beat('a', 1, { owned: stuck }).catch(() => {})
    await b.beat()
    await harness.clock.advance(8000)
  }
  await converge([b])
  assert.deepEqual(b.numbers, [0, 1, 2, 3])
  await harness.coordinator.close()
})

test('epochs: the one before is good while nothing else is held, a later one and an older one are fenced', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  await assert.rejects(harness.beat('a', 7), { code: 'FENCED_MEMBER_EPOCH' })
  harness.metadata.addTopic('u', 2)
  const grown = await harness.beat('a', 1, { subscribedTopics: ['t', 'u'], owned: a.owned })
  assert.equal(grown.memberEpoch, 2)
  assert.equal((await harness.beat('a', 1, { owned: a.owned })).memberEpoch, 2, 'the answer was lost')
  await assert.rejects(harness.beat('a', 1), { code: 'FENCED_MEMBER_EPOCH' }, 'it does not say what it holds')
  await assert.rejects(harness.beat('a', -7), { code: 'INVALID_REQUEST' })
  await assert.rejects(harness.beat('z', 3), { code: 'GROUP_MEMBER_UNKNOWN' })
  assert.equal((await harness.beat('a', 0)).memberEpoch, 3, 'it joins anew under its id, for one topic only')
  await harness.coordinator.close()
})

test('a member that joins again under another instance id frees the one before', async () => {
  const harness = await open()
  await harness.beat('a', 0, { instanceId: 'i1' })
  await harness.beat('a', 0, { instanceId: 'i2' })
  await assert.rejects(harness.beat('b', 0, { instanceId: 'i2' }), { code: 'UNRELEASED_INSTANCE_ID' })
  assert.ok((await harness.beat('b', 0, { instanceId: 'i1' })).memberEpoch > 0, 'while the member is there')
  await harness.beat('a', -1, { instanceId: 'i2' })
  assert.ok((await harness.beat('c', 0, { instanceId: 'i2' })).memberEpoch > 0, 'and after it left')
  await harness.coordinator.close()
})

test('O3. a static member comes back to its partitions, and the others see no rebalance', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a', { instanceId: 'i1' })
  const b = new FakeConsumer(harness, 'b')
  await converge([a, b])
  const before = a.numbers
  const epoch = b.epoch
  const second = new FakeConsumer(harness, 'a2', { instanceId: 'i1' })
  assert.equal(await second.beat(), false)
  assert.equal(second.lastError, 'UNRELEASED_INSTANCE_ID', 'the first one is still there')
  await a.leave(-2)
  await harness.crash()
  await converge([second, b], 3)
  assert.deepEqual(second.numbers, before)
  assert.equal(b.epoch, epoch)
  await assert.rejects(harness.beat('a', epoch, { instanceId: 'i1' }), { code: 'FENCED_INSTANCE_ID' })
  await second.leave(-2)
  await harness.clock.advance(SESSION_MS + 1)
  await converge([b])
  assert.deepEqual(b.numbers, [0, 1, 2, 3], 'it had one session to come back')
  await harness.coordinator.close()
})

test('topics that are made, grow and go change what members have', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a', { subscribedTopics: ['t', 'later'] })
  await a.beat()
  assert.deepEqual(a.numbers, [0, 1, 2, 3])
  const later = harness.metadata.addTopic('later', 3)
  await converge([a], 2)
  assert.deepEqual(a.owned.find(({ topicId }) => topicId === later.id)?.partitions, [0, 1, 2])
  harness.metadata.removeTopic('t')
  await converge([a], 3)
  assert.deepEqual(a.numbers, [0, 1, 2])
  await harness.coordinator.close()
})

test('two assignments are at least an interval apart: members that come together cost one, and leave one at once', async () => {
  const harness = await GroupHarness.open({}, 1, { 'group.consumer.assignment.interval.ms': '1000' })
  const [a, b, c] = ['a', 'b', 'c'].map((id) => new FakeConsumer(harness, id)) as [FakeConsumer, FakeConsumer, FakeConsumer]
  await a.beat()
  assert.deepEqual(a.numbers, [0, 1, 2, 3], 'the first one waits for nothing')
  await harness.clock.advance(400)
  assert.equal((await harness.beat('b', 0)).memberEpoch, 1, 'it joins in the epoch of the target that there is')
  await harness.beat('c', 0)
  b.epoch = 1
  c.epoch = 1
  await converge([a, b, c], 3)
  assert.deepEqual([a.numbers, b.numbers, c.numbers], [[0, 1, 2, 3], [], []], 'nothing moves before the interval is over')
  const waiting = await harness.describeConsumer()
  assert.deepEqual([waiting.state, waiting.epoch, waiting.assignmentEpoch], ['Assigning', 3, 1])
  await harness.clock.advance(599)
  await a.beat()
  assert.equal((await harness.describeConsumer()).assignmentEpoch, 1, 'a millisecond is left')
  await harness.clock.advance(1)
  await converge([a, b, c])
  assertShared([a, b, c])
  assert.equal((await harness.describeConsumer()).assignmentEpoch, 3, 'one assignment for both')
  await harness.coordinator.close()
})

test('what a member does not subscribe to any longer is taken from it at once, also before there may be a new assignment', async () => {
  const harness = await GroupHarness.open({}, 1, { 'group.consumer.assignment.interval.ms': '15000' })
  harness.metadata.addTopic('u', 1)
  const a = new FakeConsumer(harness, 'a', { subscribedTopics: ['t', 'u'] })
  await a.beat()
  const both = a.owned
  assert.equal(both.length, 2)
  const less = await harness.beat('a', 1, { subscribedTopics: ['u'], owned: both })
  assert.deepEqual([less.memberEpoch, less.assignment?.length], [1, 1])
  const left = less.assignment ?? []
  assert.equal(harness.metadata.image.topics.get('u')?.id, left[0]?.topicId)
  const none = await harness.beat('a', 1, { subscribedTopics: ['new'], owned: both })
  assert.deepEqual([none.memberEpoch, none.assignment], [1, []], 'it still has to give back the first, and now the second, too')
  assert.deepEqual((await harness.beat('a', 1, { owned: left })).assignment, null, 'the second is not given back yet')
  await harness.beat('a', 1, { owned: [] })
  const [member] = (await harness.describeConsumer()).members
  assert.deepEqual([member?.assigned, member?.epoch], [[], 1])
  await harness.clock.advance(15_000)
  assert.equal((await harness.beat('a', 1, { subscribedTopics: ['t'], owned: [] })).assignment?.[0]?.partitions.length, 4)
  await harness.coordinator.close()
})

test('after a restart the first assignment waits for nothing, and an unchanged topic is no reason for one', async () => {
  const harness = await GroupHarness.open({}, 1, { 'group.consumer.assignment.interval.ms': '15000' })
  const [a, b] = ['a', 'b'].map((id) => new FakeConsumer(harness, id)) as [FakeConsumer, FakeConsumer]
  await a.beat()
  await harness.crash()
  await a.beat()
  assert.equal((await harness.describeConsumer()).epoch, 1, 'the hash that was stored is that of the same topics')
  await b.beat()
  assert.equal((await harness.describeConsumer()).assignmentEpoch, 2)
  await harness.coordinator.close()
})

test('a regular expression stands for the topics whose whole name it matches, now and later', async () => {
  const harness = await open()
  harness.metadata.addTopic('orders-eu', 2)
  const a = new FakeConsumer(harness, 'a', { subscribedTopics: null, subscribedRegex: 'orders-.*' })
  await a.beat()
  assert.deepEqual(a.numbers, [0, 1])
  harness.metadata.addTopic('my-orders-eu', 2)
  await converge([a], 2)
  assert.deepEqual(a.numbers, [0, 1], 'the name only ends with it')
  const whole = { subscribedTopics: null, subscribedRegex: 'orders-.*', rebalanceTimeoutMs: 60_000, owned: [] }
  const told = await harness.beat('a', a.epoch, whole)
  assert.deepEqual(
    told.assignment?.flatMap(({ partitions }) => [...partitions]),
    [0, 1],
    'who says everything again, and owns nothing now, is told what it has',
  )
  harness.metadata.addTopic('orders-us', 1)
  await harness.crash()
  await converge([a], 2)
  assert.deepEqual(a.numbers, [0, 0, 1])
  await assert.rejects(harness.beat('b', 0, { subscribedTopics: null, subscribedRegex: '(' }), { code: 'INVALID_REGULAR_EXPRESSION' })
  assert.equal((await harness.describeConsumer()).members.length, 1)
  assert.equal((await harness.describeConsumer()).members[0]?.subscribedRegex, 'orders-.*')
  await harness.coordinator.close()
})

test('a group comes back from every state as it was', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  const b = new FakeConsumer(harness, 'b', { assignor: 'range' })
  const told = async () => {
    const { members, ...group } = await harness.describeConsumer()
    return { ...group, members: [...members].sort((left, right) => (left.memberId < right.memberId ? -1 : 1)) }
  }
  const same = async (what: string) => {
    const before = await told()
    await harness.crash()
    assert.deepEqual({ ...(await told()), assignor: '' }, { ...before, assignor: '' }, what)
  }
  await a.beat()
  await same('one member')
  await b.beat()
  await same('one that waits for the other')
  await a.beat()
  await same('one that has to give back')
  await converge([a, b])
  await same('stable')
  await b.leave()
  await same('assigning')
  await converge([a])
  assert.deepEqual(a.numbers, [0, 1, 2, 3])
  await a.leave()
  await same('empty')
  await harness.coordinator.close()
})

test('O2. commits and reads of offsets are fenced by the epoch', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  const by = (memberId: string, generation: number) => ({ memberId, generation })
  assert.equal(await harness.commit(10, by('a', 1)), null)
  assert.equal(await harness.commit(11, by('a', 2)), 'STALE_MEMBER_EPOCH')
  assert.equal(await harness.commit(11, by('z', 1)), 'GROUP_MEMBER_UNKNOWN')
  assert.equal(await harness.commit(11), 'GROUP_MEMBER_UNKNOWN', 'nobody from outside while there are members')
  assert.equal(await harness.commit(11, { ...by('a', 1), understandsEpochs: false }), 'UNSUPPORTED_VERSION')
  const b = new FakeConsumer(harness, 'b')
  await converge([b, a])
  assert.equal(a.epoch, 2)
  const [kept = -1] = a.numbers
  const lost = [0, 1, 2, 3].find((partition) => !a.numbers.includes(partition)) ?? -1
  assert.equal(await harness.commit(12, by('a', 1), kept), null, 'it has had this one since before')
  assert.equal(await harness.commit(12, by('a', 1), lost), 'STALE_MEMBER_EPOCH')
  const read = (memberId: string | null, memberEpoch: number) =>
    harness.coordinator.committed(new FakeConnection().context, { group: GROUP, topics: null, memberId, memberEpoch })
  assert.equal((await read('a', 2)).length > 0, true)
  await assert.rejects(read('a', 1), { code: 'STALE_MEMBER_EPOCH' })
  await assert.rejects(read('z', 1), { code: 'GROUP_MEMBER_UNKNOWN' })
  assert.equal((await read(null, -1)).length > 0, true, 'tools read without being members')
  await a.leave()
  await b.leave()
  assert.equal(await harness.commit(1), null, 'an empty group takes what a tool sets')
  await harness.coordinator.close()
})

test('requests that cannot be are refused before anything is made', async () => {
  const harness = await open()
  const refused = (code: string, epoch: number, request: object, memberId = 'a') =>
    assert.rejects(harness.beat(memberId, epoch, request), { code }, JSON.stringify(request))
  await refused('INVALID_REQUEST', 0, { group: ' ' })
  await refused('INVALID_REQUEST', 0, {}, '')
  await refused('INVALID_REQUEST', 0, { instanceId: '' })
  await refused('INVALID_REQUEST', 0, { rackId: '' })
  await refused('INVALID_REQUEST', 0, { rebalanceTimeoutMs: null })
  await refused('INVALID_REQUEST', 0, { owned: null })
  await refused('INVALID_REQUEST', 0, { subscribedTopics: null })
  await refused('INVALID_REQUEST', -2, {})
  await refused('UNSUPPORTED_ASSIGNOR', 0, { assignor: 'sticky' })
  await refused('GROUP_MISSING', 3, {})
  assert.equal(harness.coordinator.table.groupCount, 0)
  assert.notEqual((await harness.beat('', 0, { idIsClients: false })).memberId, '', 'before version 1 the broker makes the id')
  await harness.coordinator.close()
})

test('a group is full, listed, described and deleted like any other', async () => {
  const harness = await open({
    consumer: { ...DEFAULT_GROUP_OPTIONS.consumer, maxMembers: 1, assignors: ['range', 'uniform'] },
  })
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  await assert.rejects(harness.beat('b', 0), { code: 'GROUP_LIMIT' })
  const { context } = new FakeConnection()
  const { coordinator } = harness
  const { groups } = await coordinator.list(context, { states: ['stable'], kinds: ['Consumer'] })
  assert.deepEqual(groups, [{ group: GROUP, protocolType: 'consumer', state: 'Stable', kind: 'consumer', members: 1 }])
  assert.equal((await harness.describe()).error?.code, 'GROUP_KIND', 'it is no classic group')
  assert.equal((await harness.describeConsumer('other')).error?.code, 'GROUP_MISSING')
  assert.equal((await harness.describeConsumer()).assignor, 'range')
  assert.equal((await coordinator.delete(context, [GROUP]))[0]?.code, 'GROUP_NOT_EMPTY')
  await a.leave()
  assert.deepEqual(await coordinator.delete(context, [GROUP]), [null])
  await harness.crash()
  assert.equal(coordinator.table.groupCount, 0)
  assert.equal((await harness.describeConsumer()).error?.code, 'GROUP_MISSING')
  await harness.coordinator.close()
})

test('a pattern stands for internal topics too, as on Kafka', () => {
  const topic = (name: string, internal: boolean) => [name, { name, id: ZERO_UUID, internal, partitions: [], config: new Map() }] as const
  const all = new Map([topic('__consumer_offsets', true), topic('orders', false)])
  assert.deepEqual(new TopicPattern((name) => name.includes('o')).topics(all), ['__consumer_offsets', 'orders'])
})

test('O4. offsets of a consumer group stay while a member subscribes, and from when the last one left as long as they are kept', async () => {
  const retentionMs = 100_000
  const harness = await open({ offsetsRetentionMs: retentionMs, retentionCheckIntervalMs: 1000 })
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  assert.equal(await harness.commit(5, { memberId: 'a', generation: 1 }), null)
  for (let heard = 0; heard < 8; heard++) {
    await harness.clock.advance(30_000)
    await a.beat()
  }
  assert.equal(await harness.committed(), 5)
  await a.leave()
  await harness.clock.advance(retentionMs / 2)
  await harness.crash()
  await harness.clock.advance(retentionMs / 2 - 2000)
  assert.equal(await harness.committed(), 5)
  await harness.clock.advance(4000)
  assert.equal(await harness.committed(), null)
  assert.equal(harness.coordinator.table.groupCount, 0)
  await harness.coordinator.close()
})
