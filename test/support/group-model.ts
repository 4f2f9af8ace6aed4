import assert from 'node:assert/strict'
import type { JoinedGroup, SyncedGroup } from '../../src/broker/ports.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { FakeConnection, GROUP, GroupHarness, type Watched } from './group-harness.ts'

export const SESSION_MS = 2000
export const REBALANCE_MS = 3000

type Phase = 'out' | 'joining' | 'syncing' | 'in'

/** A consumer as real clients behave: it does what each answer asks of it. */
interface ModelClient {
  readonly name: string
  readonly instanceId: string | null
  readonly modern: boolean
  readonly sessionTimeoutMs: number
  connection: FakeConnection
  phase: Phase
  memberId: string
  generation: number
  join: Watched<JoinedGroup> | null
  sync: Watched<SyncedGroup> | null
  /** Its process stands still: it sends nothing, its connection stays. */
  frozen: boolean
  /** Its process is gone. */
  dead: boolean
}

/**
 * Clients, a coordinator that is crashed and a disk that syncs when it likes, in an order that a seed decides, with a shadow of what
 * clients were told. Each answer is checked against the shadow the moment it arrives.
 */
export class GroupModel {
  readonly harness: GroupHarness
  readonly #random: SeededRandom
  readonly #clients: ModelClient[] = []
  /** By generation: the leader that was named, and the assignment that was handed out. */
  readonly #leaders = new Map<number, string>()
  readonly #plans = new Map<number, string>()
  #highestGeneration = 0
  #nextOffset = 1
  #acknowledged = 0
  #lastRead = 0
  #plan = 0
  #commits: Promise<void>[] = []
  #finding: unknown = null

  private constructor(harness: GroupHarness, random: SeededRandom) {
    this.harness = harness
    this.#random = random
  }

  static async open(seed: number): Promise<GroupModel> {
    const random = new SeededRandom(seed)
    const initialRebalanceDelayMs = random.below(3) === 0 ? 700 : 0
    const harness = await GroupHarness.open({ initialRebalanceDelayMs }, seed)
    return new GroupModel(harness, random)
  }

  // ---- actions --------------------------------------------------------------------------------------------------------------

  async act(): Promise<void> {
    const roll = this.#random.below(100)
    if (roll < 45) await this.#stepSome()
    else if (roll < 55) this.#start()
    else if (roll < 60) this.#kill()
    else if (roll < 65) this.#freezeOrThaw()
    else if (roll < 68) await this.#leave()
    else if (roll < 72) this.#zombieCommit()
    else if (roll < 80) this.#commit()
    else if (roll < 84) this.harness.topic.holdAll(!this.harness.topic.holdSyncs)
    else if (roll < 90) this.harness.topic.sync()
    else if (roll < 92) await this.#crash()
    else await this.harness.clock.advance(this.#random.below(1500))
    await this.harness.settle()
  }

  #start(): void {
    if (this.#clients.filter((client) => !client.dead).length >= 5) return
    const name = `c${this.#clients.length}`
    const isStatic = this.#random.below(3) === 0
    const instanceId = isStatic ? `i${this.#random.below(2)}` : null
    // Two living processes with one instance id fence each other for ever: a mistake of whoever runs them.
    if (instanceId !== null) for (const client of this.#clients) if (client.instanceId === instanceId) client.dead = true
    this.#clients.push({
      name,
      instanceId,
      modern: this.#random.below(2) === 0,
      sessionTimeoutMs: SESSION_MS + this.#random.below(500),
      connection: new FakeConnection(name),
      phase: 'out',
      memberId: '',
      generation: -1,
      join: null,
      sync: null,
      frozen: false,
      dead: false,
    })
  }

  #any(where: (client: ModelClient) => boolean): ModelClient | undefined {
    const some = this.#clients.filter(where)
    return some[this.#random.below(Math.max(1, some.length))]
  }

  #kill(): void {
    const client = this.#any((each) => !each.dead)
    if (client === undefined) return
    client.dead = true
    client.connection.drop()
  }

  #freezeOrThaw(): void {
    const client = this.#any((each) => !each.dead)
    if (client !== undefined) client.frozen = !client.frozen
  }

  async #leave(): Promise<void> {
    const client = this.#any((each) => !each.dead && !each.frozen && each.phase === 'in')
    if (client === undefined) return
    client.dead = true
    const members = [{ memberId: client.memberId, instanceId: client.instanceId }]
    await this.harness.coordinator.leave(client.connection.context, { group: GROUP, members })
  }

  async #crash(): Promise<void> {
    const hold = this.harness.topic.holdSyncs
    for (const client of this.#clients) client.connection.drop()
    await this.harness.crash()
    await Promise.all(this.#commits.splice(0))
    this.harness.topic.holdAll(hold)
    for (const client of this.#clients) this.#reconnect(client)
  }

  #reconnect(client: ModelClient): void {
    client.connection = new FakeConnection(client.name)
    if (client.phase === 'joining' || client.phase === 'syncing') client.phase = 'out'
    client.join = null
    client.sync = null
  }

  // ---- commits --------------------------------------------------------------------------------------------------------------

  #commit(): void {
    const client = this.#any((each) => !each.dead && !each.frozen && each.phase === 'in')
    if (client !== undefined) this.#commitAs(client)
  }

  /** A process that was taken for dead, or is, sends what it had in its buffers. */
  #zombieCommit(): void {
    const client = this.#any((each) => each.generation > 0)
    if (client !== undefined) this.#commitAs(client)
  }

  #commitAs(client: ModelClient): void {
    const offset = this.#nextOffset++
    const { memberId, generation, instanceId } = client
    const highest = this.#highestGeneration
    const work = this.harness.commit(offset, { memberId, generation, instanceId }).then((refusal) => {
      if (refusal !== null) return
      assert.ok(generation >= highest, `a commit of generation ${generation} was taken although ${highest} had begun`)
      this.#acknowledged = Math.max(this.#acknowledged, offset)
    })
    this.#commits.push(work)
    work.catch((error: unknown) => {
      this.#finding ??= error
    })
  }

  async #read(): Promise<void> {
    const offset = (await this.harness.committed()) ?? 0
    assert.ok(offset >= this.#lastRead, `the committed offset went from ${this.#lastRead} back to ${offset}`)
    assert.ok(offset >= this.#acknowledged, `offset ${this.#acknowledged} was acknowledged, ${offset} is read`)
    this.#lastRead = offset
  }

  // ---- what clients do ------------------------------------------------------------------------------------------------------

  async #stepSome(): Promise<void> {
    for (const client of this.#clients) {
      if (client.dead || client.frozen || this.#random.below(3) === 0) continue
      await this.#step(client)
    }
  }

  async #step(client: ModelClient): Promise<void> {
    switch (client.phase) {
      case 'out':
        this.#sendJoin(client)
        return
      case 'joining':
        this.#onJoin(client)
        return
      case 'syncing':
        this.#onSync(client)
        return
      case 'in':
        this.#onError(client, await this.harness.heartbeat(client.memberId, client.generation, client.instanceId))
    }
  }

  #sendJoin(client: ModelClient): void {
    client.phase = 'joining'
    client.join = this.harness.join(client.connection, {
      memberId: client.memberId,
      instanceId: client.instanceId,
      requireKnownMemberId: client.modern,
      supportsSkippingAssignment: client.modern,
      sessionTimeoutMs: client.sessionTimeoutMs,
      rebalanceTimeoutMs: REBALANCE_MS,
      protocols: [{ name: 'range', metadata: Buffer.from(client.name) }],
    })
    client.join.onValue = (joined) => {
      if (joined.error === null) this.#noted(() => this.#checkJoined(joined))
    }
  }

  #onJoin(client: ModelClient): void {
    const { join } = client
    if (join === null || !join.settled) return
    client.join = null
    const joined = join.value
    if (joined === undefined) {
      client.phase = 'out'
      return
    }
    if (joined.error !== null) {
      if (joined.error.code === 'MEMBER_ID_REQUIRED') client.memberId = joined.memberId
      this.#onError(client, joined.error.code)
      return
    }
    client.memberId = joined.memberId
    client.generation = joined.generation
    client.phase = 'syncing'
    const plan = `plan ${++this.#plan}`
    const assigns = joined.leader === joined.memberId && !joined.skipAssignment
    const assignment = assigns ? Object.fromEntries(joined.members.map((member) => [member.memberId, plan])) : {}
    client.sync = this.harness.syncAs(client.connection, client.memberId, client.generation, client.instanceId, assignment)
  }

  #checkJoined(joined: JoinedGroup): void {
    const { generation, leader } = joined
    assert.ok(generation >= this.#highestGeneration, `generation ${generation} was told after ${this.#highestGeneration}`)
    this.#highestGeneration = generation
    // A static leader that restarts keeps the generation under a new id.
    const known = this.#leaders.get(generation)
    if (known === undefined) this.#leaders.set(generation, leader)
    else if (!leader.startsWith('i')) assert.equal(leader, known, `generation ${generation} has two leaders`)
  }

  #onSync(client: ModelClient): void {
    const { sync } = client
    if (sync === null || !sync.settled) return
    client.sync = null
    if (sync.value === undefined) {
      this.#onError(client, sync.error instanceof MoonMQError ? sync.error.code : String(sync.error))
      return
    }
    client.phase = 'in'
    const plan = sync.value.assignment.toString()
    const known = this.#plans.get(client.generation)
    if (known === undefined) this.#plans.set(client.generation, plan)
    else assert.equal(plan, known, `generation ${client.generation} has two assignments`)
  }

  #onError(client: ModelClient, code: string | null): void {
    if (code === null) return
    if (code === 'GROUP_MEMBER_UNKNOWN' || code === 'ILLEGAL_GENERATION')
      client.memberId = code === 'ILLEGAL_GENERATION' ? client.memberId : ''
    else if (code === 'FENCED_INSTANCE_ID') client.dead = true
    else if (code.startsWith('COORDINATOR_')) {
      // It stays what it is and asks again.
      if (client.phase === 'in') return
    } else if (code !== 'REBALANCE_IN_PROGRESS' && code !== 'MEMBER_ID_REQUIRED' && code !== 'ABORTED') {
      assert.fail(`a client was told ${code}`)
    }
    client.phase = 'out'
  }

  // ---- checks ---------------------------------------------------------------------------------------------------------------

  /** Keeps what is found in a callback for the next check. */
  #noted(check: () => void): void {
    try {
      check()
    } catch (error) {
      this.#finding ??= error
    }
  }

  async check(): Promise<void> {
    if (this.#finding !== null) throw this.#finding
    // Reading waits for the disk, so it is done while the disk is not held up.
    if (!this.harness.topic.holdSyncs) {
      this.harness.topic.sync()
      await this.#read()
    }
  }

  /** The faults end: whoever lives must come to share one generation, and nobody else may be left in the group. */
  async converge(): Promise<void> {
    this.harness.topic.holdAll(false)
    this.harness.topic.sync()
    for (const client of this.#clients) client.frozen = false
    const living = () => this.#clients.filter((client) => !client.dead)
    for (let step = 0; step < 60; step++) {
      for (const client of living()) await this.#step(client)
      await this.harness.clock.advance(300)
    }
    await Promise.all(this.#commits)
    await this.check()
    const description = await this.harness.describe()
    const ids = living()
      .map((client) => client.memberId)
      .sort()
    assert.deepEqual(description.members.map((member) => member.memberId).sort(), ids, 'the members are those that live')
    if (ids.length > 0) assert.equal(description.state, 'Stable')
    for (const client of living()) assert.equal(client.phase, 'in', `${client.name} is ${client.phase}`)
    assert.ok(new Set(living().map((client) => client.generation)).size <= 1, 'one generation')
    await this.harness.coordinator.close()
    assert.equal(this.harness.clock.pendingTimers, 0, 'a timer is left behind')
  }
}
