import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assignedPartitionsOf, encodeAssignment } from '../../../../src/broker/groups/classic-subscription.ts'
import type { MigrationPolicy } from '../../../../src/broker/groups/consumer/consumer-types.ts'
import { DEFAULT_GROUP_OPTIONS } from '../../../../src/broker/groups/group-options.ts'
import type { JoinedGroup, JoinGroup } from '../../../../src/broker/ports.ts'
import { converge, FakeConsumer } from '../../../support/fake-consumer.ts'
import { FakeConnection, GROUP, GroupHarness, type Watched } from '../../../support/group-harness.ts'
import { subscriptionBytes } from '../../../support/subscriptions.ts'

const VERSION = 3

/** A consumer of the classic protocol that assigns all partitions of `t` in turn when it leads. */
class ClassicClient {
  readonly connection: FakeConnection
  memberId = ''
  generation = -1
  owned: number[] = []
  readonly #harness: GroupHarness
  readonly #fields: Partial<JoinGroup>

  constructor(harness: GroupHarness, name: string, fields: Partial<JoinGroup> = {}) {
    this.#harness = harness
    this.connection = new FakeConnection(name)
    this.#fields = fields
  }

  get instanceId(): string | null {
    return this.#fields.instanceId ?? null
  }

  join(): Watched<JoinedGroup> {
    return this.#harness.join(this.connection, {
      memberId: this.memberId,
      protocols: [{ name: 'cooperative-sticky', metadata: subscriptionBytes(['t'], this.owned) }],
      ...this.#fields,
    })
  }

  async joined(join: Watched<JoinedGroup>): Promise<void> {
    await this.#harness.settle()
    assert.equal(join.value?.error ?? null, null)
    const joined = join.value as JoinedGroup
    this.memberId = joined.memberId
    this.generation = joined.generation
    const plan = new Map(joined.members.map(({ memberId }) => [memberId, [] as number[]]))
    for (let partition = 0; partition < 4 && plan.size > 0; partition++) [...plan.values()][partition % plan.size]?.push(partition)
    const bytes = new Map([...plan].map(([memberId, partitions]) => [memberId, encodeAssignment(VERSION, [{ topic: 't', partitions }])]))
    this.#sync = this.#harness.coordinator.sync(this.connection.context, {
      group: GROUP,
      generation: this.generation,
      memberId: this.memberId,
      instanceId: this.instanceId,
      protocolType: 'consumer',
      protocol: 'cooperative-sticky',
      assignments: bytes,
    })
    this.#sync.catch(() => {})
  }

  #sync: Promise<{ assignment: Buffer }> | null = null

  async synced(): Promise<void> {
    await this.#harness.settle()
    const { assignment } = (await this.#sync) ?? { assignment: Buffer.alloc(0) }
    this.owned = (assignedPartitionsOf(assignment) ?? []).flatMap(({ partitions }) => [...partitions])
  }

  async rejoin(): Promise<void> {
    await this.joined(this.join())
    await this.synced()
  }

  heartbeat(): Promise<string | null> {
    return this.#harness.heartbeat(this.memberId, this.generation, this.instanceId)
  }
}

async function classicGroup(harness: GroupHarness, clients: readonly ClassicClient[]): Promise<void> {
  const joins = clients.map((client) => client.join())
  await harness.clock.advance(10)
  for (const [at, join] of joins.entries()) await clients[at]?.joined(join)
  for (const client of clients) await client.synced()
}

async function open(migrationPolicy: MigrationPolicy = 'bidirectional', settings: Record<string, string> = {}): Promise<GroupHarness> {
  const consumer = { ...DEFAULT_GROUP_OPTIONS.consumer, migrationPolicy }
  return await GroupHarness.open({ initialRebalanceDelayMs: 5, consumer }, 1, settings)
}

const kindOf = async (harness: GroupHarness) =>
  (await harness.coordinator.list(new FakeConnection().context, { states: [], kinds: [] })).groups[0]?.kind

/** Heartbeats and joins of all until nobody has anything to do. */
async function settleBoth(classics: readonly ClassicClient[], consumers: readonly FakeConsumer[]): Promise<void> {
  for (let round = 0; round < 12; round++) {
    for (const client of classics) if ((await client.heartbeat()) === 'REBALANCE_IN_PROGRESS') await client.rejoin()
    for (const consumer of consumers) await consumer.beat()
  }
}

test('a group is changed over member by member, and back, and nobody loses its offsets', async () => {
  const harness = await open()
  const [x, y] = [new ClassicClient(harness, 'x'), new ClassicClient(harness, 'y')]
  await classicGroup(harness, [x, y])
  assert.deepEqual([...x.owned, ...y.owned].sort(), [0, 1, 2, 3])
  assert.equal(await harness.commit(7, { memberId: x.memberId, generation: x.generation }, 0), null)

  const a = new FakeConsumer(harness, 'a')
  assert.ok(await a.beat())
  assert.equal(await kindOf(harness), 'consumer')
  assert.equal(await x.heartbeat(), 'REBALANCE_IN_PROGRESS')
  await settleBoth([x, y], [a])
  assert.deepEqual([...x.owned, ...y.owned, ...a.numbers].sort(), [0, 1, 2, 3])
  assert.ok(a.numbers.length > 0)
  const described = await harness.describeConsumer()
  assert.deepEqual(described.members.map(({ isClassic }) => isClassic).sort(), [false, true, true])
  assert.equal(described.state, 'Stable')
  assert.equal(await harness.committed(0), 7)
  assert.equal(await harness.commit(8, { memberId: x.memberId, generation: x.generation }), null)
  assert.equal(await harness.commit(9, { memberId: x.memberId, generation: x.generation - 1 }), 'ILLEGAL_GENERATION')

  await harness.crash()
  assert.equal(await x.heartbeat(), null)
  await a.leave()
  assert.equal(await kindOf(harness), 'classic', 'only classic members are left')
  assert.equal(await x.heartbeat(), 'REBALANCE_IN_PROGRESS')
  await harness.crash()
  await classicGroup(harness, [x, y])
  assert.deepEqual([...x.owned, ...y.owned].sort(), [0, 1, 2, 3])
  assert.equal(await harness.committed(0), 8)
  await harness.coordinator.close()
})

test('a consumer group that only classic members are left in goes back when the session of the last other one is over', async () => {
  const harness = await open()
  const x = new ClassicClient(harness, 'x')
  await classicGroup(harness, [x])
  const a = new FakeConsumer(harness, 'a')
  await settleBoth([x], [a])
  for (let heard = 0; heard < 6; heard++) {
    await x.heartbeat()
    await harness.clock.advance(9000)
  }
  assert.equal(await kindOf(harness), 'classic')
  await x.rejoin()
  assert.deepEqual(x.owned, [0, 1, 2, 3])
  await harness.coordinator.close()
})

test('the last member that leaves in the new protocol, and the first that comes in the old one, find an empty group', async () => {
  const harness = await open('disabled')
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  await harness.commit(3, { memberId: 'a', generation: 1 })
  await a.leave()
  const x = new ClassicClient(harness, 'x')
  await classicGroup(harness, [x])
  assert.equal(await kindOf(harness), 'classic')
  assert.deepEqual(x.owned, [0, 1, 2, 3])
  assert.equal(await harness.committed(), 3)
  await harness.coordinator.leave(x.connection.context, { group: GROUP, members: [{ memberId: x.memberId, instanceId: null }] })
  await a.beat()
  assert.equal(await kindOf(harness), 'consumer')
  await harness.crash()
  assert.equal(await kindOf(harness), 'consumer')
  assert.equal(await harness.committed(), 3)
  await harness.coordinator.close()
})

test('a group of which nothing is left but its name is not forgotten while it changes over', async () => {
  const harness = await open()
  const x = new ClassicClient(harness, 'x')
  await classicGroup(harness, [x])
  await harness.coordinator.leave(x.connection.context, { group: GROUP, members: [{ memberId: x.memberId, instanceId: null }] })
  const [a, b] = [new FakeConsumer(harness, 'a'), new FakeConsumer(harness, 'b')]
  await a.beat()
  await converge([b, a])
  assert.deepEqual([...a.numbers, ...b.numbers].sort(), [0, 1, 2, 3])
  assert.equal((await harness.describeConsumer()).members.length, 2)
  await harness.coordinator.close()
})

test('an id that was given out and not used yet keeps nobody of the other protocol away', async () => {
  const harness = await open()
  const x = new ClassicClient(harness, 'x', { requireKnownMemberId: true })
  const asked = x.join()
  await harness.settle()
  assert.equal(asked.value?.error?.code, 'MEMBER_ID_REQUIRED')
  const a = new FakeConsumer(harness, 'a')
  assert.ok(await a.beat())
  x.memberId = asked.value?.memberId ?? ''
  await x.rejoin()
  await settleBoth([x], [a])
  assert.deepEqual([...x.owned, ...a.numbers].sort(), [0, 1, 2, 3])
  await harness.coordinator.close()
})

test('the policy says which way a group with members may go', async () => {
  for (const policy of ['bidirectional', 'upgrade', 'downgrade', 'disabled'] as const) {
    const harness = await open(policy)
    const x = new ClassicClient(harness, 'x')
    await classicGroup(harness, [x])
    const a = new FakeConsumer(harness, 'a')
    await a.beat()
    const isUp = policy === 'bidirectional' || policy === 'upgrade'
    assert.equal(a.lastError, isUp ? null : 'GROUP_KIND', policy)
    if (isUp) {
      await settleBoth([x], [a])
      await a.leave()
      assert.equal(await kindOf(harness), policy === 'upgrade' ? 'consumer' : 'classic', policy)
    }
    await harness.coordinator.close()
  }
})

test('a group whose members are no consumers stays classic', async () => {
  const harness = await open()
  const connection = new FakeConnection('w')
  const join = harness.join(connection, { protocolType: 'connect', protocols: [{ name: 'v1', metadata: Buffer.from('x') }] })
  await harness.clock.advance(10)
  assert.equal(join.value?.error, null)
  await assert.rejects(harness.beat('a', 0), { code: 'GROUP_KIND' })
  await harness.coordinator.close()
})

test('classic members that do not fit are refused by a consumer group', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  const refused = async (request: Partial<JoinGroup>) => {
    const join = harness.join(new FakeConnection('x'), request)
    await harness.settle()
    return join.value?.error?.code
  }
  assert.equal(await refused({ protocolType: 'connect' }), 'INCONSISTENT_GROUP_PROTOCOL')
  assert.equal(await refused({ protocols: [{ name: 'range', metadata: Buffer.from('x') }] }), 'INCONSISTENT_GROUP_PROTOCOL', 'unreadable')
  const metadata = subscriptionBytes(['t'])
  assert.equal(await refused({ requireKnownMemberId: true, protocols: [{ name: 'range', metadata }] }), 'MEMBER_ID_REQUIRED')
  assert.equal(await refused({ protocols: [{ name: 'range', metadata }] }), undefined)
  assert.equal(await refused({ protocols: [{ name: 'other', metadata }] }), 'INCONSISTENT_GROUP_PROTOCOL', 'no protocol in common')
  assert.equal(await harness.heartbeat('a', 1), 'GROUP_MEMBER_UNKNOWN', 'a speaks the other protocol')
  await harness.coordinator.close()
})

test('a static member that restarts with the other protocol keeps its partitions', async () => {
  const harness = await open()
  const x = new ClassicClient(harness, 'x', { instanceId: 'i' })
  await classicGroup(harness, [x])
  const a = new FakeConsumer(harness, 'a', { instanceId: 'i' })
  await a.beat()
  assert.equal(await kindOf(harness), 'consumer')
  assert.deepEqual(a.numbers, [0, 1, 2, 3], 'the process before it speaks the classic protocol and gives way')
  assert.equal(await x.heartbeat(), 'FENCED_INSTANCE_ID')
  const second = new ClassicClient(harness, 'x2', { instanceId: 'i' })
  await second.rejoin()
  assert.equal(await kindOf(harness), 'classic', 'the last one of the new protocol was replaced')
  assert.deepEqual(second.owned, [0, 1, 2, 3])
  assert.equal(await second.heartbeat(), null)
  await harness.coordinator.close()
})

test('a classic member of a consumer group that is silent, does not join again or does not sync is out', async () => {
  for (const what of ['silent', 'no join', 'no sync'] as const) {
    const harness = await open()
    const x = new ClassicClient(harness, 'x')
    await classicGroup(harness, [x])
    const a = new FakeConsumer(harness, 'a')
    await settleBoth([x], [a])
    if (what === 'no sync') {
      const join = x.join()
      await harness.settle()
      assert.equal(join.value?.error, null)
    }
    const b = new FakeConsumer(harness, 'b')
    await b.beat()
    for (let heard = 0; heard < 8; heard++) {
      await harness.clock.advance(5000)
      if (what !== 'silent') await x.heartbeat()
      await a.beat()
      await b.beat()
    }
    await converge([a, b])
    assert.deepEqual([...a.numbers, ...b.numbers].sort(), [0, 1, 2, 3], what)
    await harness.coordinator.close()
  }
})

test('classic members of a consumer group join again for an assignment that is made, not for one that is only due', async () => {
  const harness = await open('bidirectional', { 'group.consumer.assignment.interval.ms': '5000' })
  const x = new ClassicClient(harness, 'x')
  await classicGroup(harness, [x])
  const [a, b] = [new FakeConsumer(harness, 'a'), new FakeConsumer(harness, 'b')]
  await settleBoth([x], [a])
  const shared = x.owned
  assert.equal(shared.length, 2)

  const join = x.join()
  await harness.settle()
  assert.ok(await b.beat())
  assert.equal((await harness.describeConsumer()).state, 'Assigning')
  await x.joined(join)
  await x.synced()
  assert.deepEqual(x.owned, shared, 'a sync is answered with what there is')
  assert.equal(await x.heartbeat(), null)

  const second = x.join()
  await harness.settle()
  await harness.clock.advance(5000)
  assert.ok(await b.beat())
  assert.equal((await harness.describeConsumer()).state, 'Reconciling')
  await x.joined(second)
  await assert.rejects(x.synced(), { code: 'REBALANCE_IN_PROGRESS' })
  assert.equal(await x.heartbeat(), 'REBALANCE_IN_PROGRESS')
  await settleBoth([x], [a, b])
  assert.deepEqual([...x.owned, ...a.numbers, ...b.numbers].sort(), [0, 1, 2, 3])
  assert.ok(b.numbers.length > 0)
  await harness.coordinator.close()
})

test('a classic member that joins a consumer group again has a protocol in common with what it named before', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  const metadata = subscriptionBytes(['t'])
  const join = async (memberId: string, ...names: string[]) => {
    const asked = harness.join(new FakeConnection('x'), { memberId, protocols: names.map((name) => ({ name, metadata })) })
    await harness.settle()
    return asked.value
  }
  const joined = await join('', 'range', 'sticky')
  assert.equal(joined?.error, null)
  const { memberId = '', generation = -1 } = joined ?? {}
  assert.equal((await join(memberId, 'other'))?.error?.code, 'INCONSISTENT_GROUP_PROTOCOL')
  assert.equal((await harness.describeConsumer()).members.length, 2, 'it is a member still')
  assert.notEqual(await harness.heartbeat(memberId, generation), 'GROUP_MEMBER_UNKNOWN')
  assert.equal((await join(memberId, 'sticky', 'other'))?.error, null)
  assert.equal((await join(memberId, 'other'))?.error, null, 'now it is known')
  await harness.coordinator.close()
})

test('a group that changes over in the middle of a rebalance leaves its members what they had', async () => {
  for (const rebalances of [1, 2]) {
    const harness = await open()
    // They say nothing of what they own, as eager ones do.
    const eager = { protocols: [{ name: 'cooperative-sticky', metadata: subscriptionBytes(['t']) }] }
    const [x, y] = [new ClassicClient(harness, 'x', eager), new ClassicClient(harness, 'y', eager)]
    await classicGroup(harness, [x, y])
    const had = new Map([x, y].map(({ memberId, owned }) => [memberId, owned]))
    for (let round = 0; round < rebalances; round++) {
      // Another newcomer each time, who is not heard from again: who has joined and says the same again rebalances nobody.
      const newcomer = new ClassicClient(harness, `z${round}`, eager)
      const joins = [newcomer.join(), x.join(), y.join()]
      await harness.clock.advance(round === 0 ? 10 : 10_500)
      for (const join of joins) assert.equal(join.value?.error, null)
    }
    assert.equal((await harness.describe()).state, 'CompletingRebalance', 'the leader has not assigned')
    const a = new FakeConsumer(harness, 'a')
    assert.ok(await a.beat())
    assert.deepEqual(a.numbers, [], 'all of it is with others')
    const { members } = await harness.describeConsumer()
    for (const { memberId, assigned } of members) {
      const numbers = assigned.flatMap(({ partitions }) => [...partitions])
      assert.deepEqual(numbers.sort(), had.get(memberId) ?? [], `${memberId} after ${rebalances}`)
    }
    await harness.coordinator.close()
  }
})

test('a classic join that is refused leaves an empty consumer group as it is', async () => {
  const harness = await open()
  const a = new FakeConsumer(harness, 'a')
  await a.beat()
  await harness.commit(3, { memberId: 'a', generation: 1 })
  await a.leave()
  for (const memberId of ['nobody', 'a']) {
    const join = harness.join(new FakeConnection('x'), { memberId, protocols: [{ name: 'range', metadata: subscriptionBytes(['t']) }] })
    await harness.settle()
    assert.equal(join.value?.error?.code, 'GROUP_MEMBER_UNKNOWN', memberId)
    assert.equal(await kindOf(harness), 'consumer')
  }
  await harness.crash()
  assert.equal(await kindOf(harness), 'consumer')
  assert.equal(await harness.committed(), 3)
  await harness.coordinator.close()
})
