import assert from 'node:assert/strict'
import { assignedPartitionsOf, encodeAssignment, subscriptionOf } from '../../src/broker/groups/classic-subscription.ts'
import { DEFAULT_GROUP_OPTIONS } from '../../src/broker/groups/group-options.ts'
import type { ConsumerHeartbeatAnswer, JoinedGroup, SyncedGroup } from '../../src/broker/ports.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { FakeConnection, GroupHarness, Watched } from './group-harness.ts'
import { subscriptionBytes } from './subscriptions.ts'

const PARTITIONS = 4
/** Both kinds of members have the same time, so that one rule says when a member may be taken for dead. */
const SESSION_MS = 45_000
const REBALANCE_MS = 45_000

/** A client's process: what it believes to own, and since when. */
abstract class Client {
  readonly name: string
  readonly world: MixedGroups
  connection: FakeConnection
  /** Partition → the number of the grant. */
  owned = new Map<number, number>()
  /** When the last request was sent that the group took: from then on its session counts. */
  heardAtMs = 0
  isDead = false
  isFrozen = false

  /** The one of a static member: a later process of the same takes its place. */
  readonly instanceId: string | null

  constructor(world: MixedGroups, name: string, instanceId: string | null) {
    this.world = world
    this.name = name
    this.instanceId = instanceId
    this.connection = new FakeConnection(name)
  }

  abstract readonly isModern: boolean
  abstract readonly epoch: number
  abstract readonly memberId: string
  abstract readonly isIn: boolean
  abstract step(): void
  abstract reconnect(): void
  abstract leave(): Promise<void>

  /** It may read from exactly these from now on. */
  own(partitions: readonly number[], sentAtMs: number): void {
    const before = this.owned
    this.owned = new Map(partitions.map((partition) => [partition, before.get(partition) ?? this.world.nextGrant()]))
    for (const partition of partitions) if (!before.has(partition)) this.world.checkGrant(this, partition, sentAtMs)
  }
}

class ModernClient extends Client {
  readonly isModern = true
  readonly memberId: string
  epoch = 0
  /** What it was told last; what it has beyond that it gives back with its next step, not before. */
  #assigned: readonly number[] = []
  #beat: Watched<ConsumerHeartbeatAnswer> | null = null
  readonly #subscription: { readonly subscribedTopics: string[] | null; readonly subscribedRegex: string | null }

  constructor(world: MixedGroups, name: string, instanceId: string | null, usesExpression: boolean) {
    super(world, name, instanceId)
    this.memberId = name
    this.#subscription = usesExpression
      ? { subscribedTopics: null, subscribedRegex: '[t]' }
      : { subscribedTopics: ['t'], subscribedRegex: null }
  }

  get isIn(): boolean {
    return this.epoch > 0
  }

  step(): void {
    if (this.#beat !== null) return
    const isJoin = this.epoch === 0
    if (isJoin) this.#assigned = []
    this.own(this.#assigned, this.heardAtMs)
    const owned = [{ topicId: this.world.topicId, partitions: [...this.owned.keys()] }]
    const { instanceId } = this
    const request = isJoin ? { instanceId, rebalanceTimeoutMs: REBALANCE_MS, ...this.#subscription } : { instanceId, owned }
    const sentAtMs = this.world.nowMs
    const beat = new Watched(this.world.harness.beat(this.memberId, this.epoch, request))
    this.#beat = beat
    beat.onValue = (answer) => this.world.noted(() => this.#hear(answer, sentAtMs))
    beat.onError = (error) => this.#refused(error)
  }

  #hear(answer: ConsumerHeartbeatAnswer, sentAtMs: number): void {
    this.#beat = null
    if (this.isDead) return
    this.heardAtMs = sentAtMs
    this.epoch = answer.memberEpoch
    if (answer.assignment === null) return
    this.#assigned = answer.assignment.flatMap(({ topicId, partitions }) => (topicId === this.world.topicId ? partitions : []))
    this.own([...new Set([...this.owned.keys(), ...this.#assigned])], sentAtMs)
  }

  #refused(error: unknown): void {
    this.#beat = null
    const code = error instanceof MoonMQError ? error.code : String(error)
    if (code === 'COORDINATOR_NOT_AVAILABLE' || code === 'COORDINATOR_LOADING') return
    // The former process of a static member did not say that it goes: its session has to end first.
    if (code === 'UNRELEASED_INSTANCE_ID') return
    this.world.noted(() => assert.ok(['FENCED_MEMBER_EPOCH', 'GROUP_MEMBER_UNKNOWN', 'GROUP_MISSING', 'GROUP_KIND'].includes(code), code))
    this.epoch = 0
    this.owned = new Map()
  }

  reconnect(): void {
    this.#beat = null
  }

  async leave(): Promise<void> {
    await this.world.harness.beat(this.memberId, this.instanceId === null ? -1 : -2, { instanceId: this.instanceId }).catch(() => {})
  }
}

/** What a member may keep while it joins again: it is still one of the group. */
const STILL_A_MEMBER = new Set(['REBALANCE_IN_PROGRESS', 'MEMBER_ID_REQUIRED', 'ABORTED'])

/**
 * A consumer of the classic protocol. An eager one gives everything back before it joins again; a cooperative one goes on with what it has, says so, and
 * gives back what it is not given again, after which it joins once more.
 */
class ClassicClient extends Client {
  readonly isModern = false
  memberId = ''
  epoch = -1
  #phase: 'out' | 'joining' | 'syncing' | 'in' = 'out'
  readonly #protocol: 'range' | 'cooperative-sticky'

  constructor(world: MixedGroups, name: string, instanceId: string | null, isCooperative: boolean) {
    super(world, name, instanceId)
    this.#protocol = isCooperative ? 'cooperative-sticky' : 'range'
  }

  get #isCooperative(): boolean {
    return this.#protocol === 'cooperative-sticky'
  }

  get isIn(): boolean {
    return this.#phase === 'in'
  }

  step(): void {
    if (this.#phase === 'out') this.#join()
    else if (this.#phase === 'in') this.#heartbeat()
  }

  #join(): void {
    if (!this.#isCooperative) this.owned = new Map()
    this.#phase = 'joining'
    const sentAtMs = this.world.nowMs
    const join = this.world.harness.join(this.connection, {
      memberId: this.memberId,
      instanceId: this.instanceId,
      requireKnownMemberId: true,
      sessionTimeoutMs: SESSION_MS,
      rebalanceTimeoutMs: REBALANCE_MS,
      protocols: [{ name: this.#protocol, metadata: subscriptionBytes(['t'], [...this.owned.keys()]) }],
    })
    join.onValue = (joined) => this.world.noted(() => this.#joined(joined, sentAtMs))
    join.onError = (error) => this.#refused(error instanceof MoonMQError ? error.code : String(error))
  }

  #joined(joined: JoinedGroup, sentAtMs: number): void {
    if (this.isDead || this.#phase !== 'joining') return
    const code = joined.error?.code
    if (code !== undefined) {
      if (code === 'MEMBER_ID_REQUIRED') this.memberId = joined.memberId
      this.#refused(code)
      return
    }
    this.heardAtMs = sentAtMs
    this.memberId = joined.memberId
    this.epoch = joined.generation
    this.#sync(joined)
  }

  #sync(joined: JoinedGroup): void {
    this.#phase = 'syncing'
    // A leader that came back under another id is told that what is assigned stays.
    const plan = joined.skipAssignment ? [] : planOf(joined.members)
    const sentAtMs = this.world.nowMs
    const generation = this.epoch
    const sync = new Watched(
      this.world.harness.coordinator.sync(this.connection.context, {
        group: 'g',
        generation,
        memberId: this.memberId,
        instanceId: this.instanceId,
        protocolType: 'consumer',
        protocol: this.#protocol,
        assignments: new Map(plan.map(({ memberId, partitions }) => [memberId, encodeAssignment(3, [{ topic: 't', partitions }])])),
      }),
    )
    sync.onValue = (synced) => this.world.noted(() => this.#synced(synced, sentAtMs))
    sync.onError = (error) => this.#refused(error instanceof MoonMQError ? error.code : String(error))
  }

  #synced(synced: SyncedGroup, sentAtMs: number): void {
    if (this.isDead || this.#phase !== 'syncing') return
    this.#phase = 'in'
    this.heardAtMs = sentAtMs
    const assigned = (assignedPartitionsOf(synced.assignment) ?? []).flatMap(({ partitions }) => [...partitions])
    const gaveBack = [...this.owned.keys()].some((partition) => !assigned.includes(partition))
    this.own(assigned, sentAtMs)
    // What it has given back is there for others when it joins once more.
    if (gaveBack) this.#phase = 'out'
  }

  #heartbeat(): void {
    const sentAtMs = this.world.nowMs
    const { memberId, epoch } = this
    void this.world.harness.heartbeat(memberId, epoch, this.instanceId).then((code) => {
      if (this.isDead || this.epoch !== epoch || this.#phase !== 'in') return
      if (code === null) this.heardAtMs = sentAtMs
      else this.#refused(code)
    })
  }

  #refused(code: string): void {
    if (code === 'GROUP_MEMBER_UNKNOWN') this.memberId = ''
    if (this.#phase === 'in' && code.startsWith('COORDINATOR_')) return
    this.#phase = 'out'
    if (!this.#isCooperative || !(STILL_A_MEMBER.has(code) || code.startsWith('COORDINATOR_'))) this.owned = new Map()
  }

  reconnect(): void {
    this.connection = new FakeConnection(this.name)
    if (this.#phase !== 'in') this.#phase = 'out'
  }

  async leave(): Promise<void> {
    // Static members go without a word: they are expected back.
    if (this.instanceId !== null) return
    const members = [{ memberId: this.memberId, instanceId: null }]
    await this.world.harness.coordinator.leave(this.connection.context, { group: 'g', members }).catch(() => {})
  }
}

/** Partitions in turn; what another says that it has goes to nobody until it was given back. */
function planOf(members: JoinedGroup['members']): { memberId: string; partitions: number[] }[] {
  const owners = new Map<number, string[]>()
  for (const { memberId, metadata } of members) {
    for (const { partitions } of subscriptionOf(metadata)?.ownedPartitions ?? []) {
      for (const partition of partitions) owners.set(partition, [...(owners.get(partition) ?? []), memberId])
    }
  }
  const plan = members.map(({ memberId }) => ({ memberId, partitions: [] as number[] }))
  for (let partition = 0; partition < PARTITIONS && plan.length > 0; partition++) {
    const to = plan[partition % plan.length]
    if (to !== undefined && (owners.get(partition) ?? []).every((owner) => owner === to.memberId)) to.partitions.push(partition)
  }
  return plan
}

/**
 * Clients of both protocols in one group, a coordinator that crashes and a disk that syncs when it likes, in an order that a seed decides. The group
 * changes over from one protocol to the other and back as its members come and go. Checked at every answer: a partition is given to
 * nobody while another, who was heard of in time, has it; a commit is not taken from one whose partition was given on; what was acknowledged
 * stays.
 */
export class MixedGroups {
  readonly harness: GroupHarness
  readonly topicId: string
  readonly #random: SeededRandom
  readonly #clients: Client[] = []
  readonly #acknowledged = new Map<number, number>()
  readonly #commits: Promise<void>[] = []
  #grants = 0
  #offset = 0
  #finding: unknown = null

  /** Members that speak the classic protocol have one assignor in common. */
  readonly #isCooperative: boolean

  private constructor(harness: GroupHarness, random: SeededRandom) {
    this.harness = harness
    this.#random = random
    this.#isCooperative = random.below(2) === 0
    this.topicId = harness.metadata.image.topics.get('t')?.id ?? ''
  }

  static async open(seed: number): Promise<MixedGroups> {
    const random = new SeededRandom(seed)
    const options = { initialRebalanceDelayMs: random.below(2) === 0 ? 3000 : 0, consumer: DEFAULT_GROUP_OPTIONS.consumer }
    return new MixedGroups(await GroupHarness.open(options, seed), random)
  }

  get nowMs(): number {
    return this.harness.clock.monotonicMs()
  }

  nextGrant(): number {
    return ++this.#grants
  }

  // ---- what is checked ------------------------------------------------------------------------------------------------------

  /** Keeps what is found in a callback for the next check. */
  noted(check: () => void): void {
    try {
      check()
    } catch (error) {
      this.#finding ??= error
    }
  }

  checkGrant(to: Client, partition: number, sentAtMs: number): void {
    // An answer that comes when the session is over tells of a time that is over too.
    if (this.nowMs - sentAtMs >= SESSION_MS) return
    for (const other of this.#clients) {
      if (other === to || other.isDead || !other.owned.has(partition)) continue
      const silentMs = this.nowMs - other.heardAtMs
      assert.ok(
        silentMs >= SESSION_MS,
        `partition ${partition} is given to ${to.name}; ${other.name} has it and was heard ${silentMs} ms ago`,
      )
    }
  }

  async check(): Promise<void> {
    if (this.#finding !== null) throw this.#finding
    if (this.harness.topic.holdSyncs) return
    this.harness.topic.sync()
    for (const [partition, acknowledged] of this.#acknowledged) {
      const read = (await this.harness.committed(partition)) ?? -1
      assert.ok(read >= acknowledged, `offset ${acknowledged} of partition ${partition} was acknowledged, ${read} is read`)
    }
  }

  #commit(where: (client: Client) => boolean): void {
    const client = this.#any((each) => each.owned.size > 0 && where(each))
    if (client === undefined) return
    const [partition = 0] = [...client.owned.keys()]
    const granted = client.owned.get(partition) ?? 0
    const isGivenOn = this.#clients.some((other) => (other.owned.get(partition) ?? 0) > granted)
    const offset = ++this.#offset
    const by = { memberId: client.memberId, generation: client.epoch, instanceId: client.instanceId }
    const work = this.harness.commit(offset, by, partition).then((refusal) => {
      if (refusal !== null) return
      this.noted(() => assert.ok(!isGivenOn, `a commit of ${client.name} was taken, although partition ${partition} is another's`))
      this.#acknowledged.set(partition, Math.max(offset, this.#acknowledged.get(partition) ?? 0))
    })
    work.catch((error: unknown) => {
      this.#finding ??= error
    })
    this.#commits.push(work)
  }

  // ---- what happens ---------------------------------------------------------------------------------------------------------

  async act(): Promise<void> {
    const roll = this.#random.below(100)
    if (roll < 50) this.#stepSome()
    else if (roll < 58) this.#start()
    else if (roll < 62) this.#kill()
    else if (roll < 66) this.#freezeOrThaw()
    else if (roll < 70) await this.#leave()
    else if (roll < 78) this.#commit(() => true)
    else if (roll < 79) await this.#stall()
    else if (roll < 81) this.harness.topic.holdAll(!this.harness.topic.holdSyncs)
    else if (roll < 87) this.harness.topic.sync()
    else if (roll < 89) await this.#crash()
    else await this.harness.clock.advance(this.#random.below(12_000))
    await this.harness.settle()
  }

  #any(where: (client: Client) => boolean): Client | undefined {
    const some = this.#clients.filter((client) => !client.isDead && where(client))
    return some[this.#random.below(Math.max(1, some.length))]
  }

  #living(): Client[] {
    return this.#clients.filter((client) => !client.isDead)
  }

  #start(): void {
    if (this.#living().length >= 4) return
    const name = `c${this.#clients.length}`
    const instanceId = this.#random.below(3) === 0 ? `i${this.#random.below(2)}` : null
    // Two living processes with one instance id would fence each other for ever.
    if (instanceId !== null) for (const client of this.#living()) if (client.instanceId === instanceId) this.#end(client)
    const isModern = this.#random.below(2) === 0
    this.#clients.push(
      isModern
        ? new ModernClient(this, name, instanceId, this.#random.below(2) === 0)
        : new ClassicClient(this, name, instanceId, this.#isCooperative),
    )
  }

  /** The process is gone, without a word. */
  #end(client: Client): void {
    client.isDead = true
    client.owned = new Map()
    client.connection.drop()
  }

  #kill(): void {
    const client = this.#any(() => true)
    if (client !== undefined) this.#end(client)
  }

  #freezeOrThaw(): void {
    const client = this.#any(() => true)
    if (client !== undefined) client.isFrozen = !client.isFrozen
  }

  /** One process stands still for longer than its session while the others go on; then it sends what it had in its buffers. */
  async #stall(): Promise<void> {
    const stalled = this.#any((each) => each.owned.size > 0 && !each.isFrozen)
    if (stalled === undefined) return
    stalled.isFrozen = true
    for (let round = 0; round < 20; round++) {
      this.#stepSome()
      await this.harness.clock.advance(3000)
    }
    this.#commit((each) => each === stalled)
    stalled.isFrozen = false
  }

  async #leave(): Promise<void> {
    const client = this.#any((each) => each.isIn && !each.isFrozen)
    if (client === undefined) return
    client.isDead = true
    client.owned = new Map()
    const leaving = client.leave()
    await this.harness.settle()
    if (!this.harness.topic.holdSyncs) await leaving
  }

  #stepSome(): void {
    for (const client of this.#living()) if (!client.isFrozen && this.#random.below(3) > 0) client.step()
  }

  async #crash(): Promise<void> {
    const hold = this.harness.topic.holdSyncs
    for (const client of this.#clients) client.connection.drop()
    await this.harness.crash()
    await Promise.all(this.#commits.splice(0))
    this.harness.topic.holdAll(hold)
    for (const client of this.#living()) client.reconnect()
  }

  /** The faults end: everybody who lives has a part, every partition has one owner, and the group speaks the protocol of its members. */
  async converge(): Promise<void> {
    this.harness.topic.holdAll(false)
    this.harness.topic.sync()
    for (const client of this.#clients) client.isFrozen = false
    const living = this.#living()
    for (let round = 0; round < 60; round++) {
      for (const client of living) client.step()
      await this.harness.clock.advance(2500)
    }
    await this.check()
    const { groups } = await this.harness.coordinator.list(new FakeConnection().context, { states: [], kinds: [] })
    const owned = living.flatMap((client) => [...client.owned.keys()]).sort((left, right) => left - right)
    if (living.length > 0) {
      assert.deepEqual(owned, [0, 1, 2, 3], `what ${living.map((client) => client.name).join(', ')} own`)
      assert.equal(groups[0]?.state, 'Stable')
      assert.equal(groups[0]?.kind, living.some((client) => client.isModern) ? 'consumer' : 'classic')
    }
    await this.harness.coordinator.close()
    assert.equal(this.harness.clock.pendingTimers, 0, 'a timer is left behind')
  }
}
