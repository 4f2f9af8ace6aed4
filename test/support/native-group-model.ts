import assert from 'node:assert/strict'
import { SeededRandom } from '../../src/core/random.ts'
import { contextOf, createTopic } from './fake-broker.ts'
import { type Received, type TestNativeConnection, type TestNativeDoor, testNativeDoor } from './native-door.ts'

const GROUP = 'g'
const TOPIC = 't'
const SESSION_MS = 30_000
const SWEEP_MS = 10_000
const MAX_CLIENTS = 5
const MAX_PARTITIONS = 8
const MAX_DELIVERIES = 3
const LETTERS = `${TOPIC}.dlq`

interface ModelClient {
  readonly name: string
  readonly connection: TestNativeConnection
  /** Where it is in its group, by its own account: `in` until it hears of something else. */
  phase: 'out' | 'in'
  lastHeardMs: number
  hasFetched: boolean
  /** Where it reads on, by partition: of those that it has had ever since. */
  readonly positions: Map<number, number>
  /** What the two latest rounds that gave something of a partition gave: it may still refuse that. */
  readonly given: Map<number, number[][]>
}

/**
 * Connections of version 1 that join, read, refuse, commit, leave, fall silent and break, topics that grow and are made again, and a broker
 * that restarts, in an order that a seed decides, with a shadow: who is a member, who owns which partition, what the group has committed,
 * which records were refused and have not come again, and which are dead.
 */
export class NativeGroupModel {
  #at: TestNativeDoor
  readonly #random: SeededRandom
  #admin: TestNativeConnection
  #clients: ModelClient[] = []
  /** By name; those that the broker counts. */
  readonly #members = new Map<string, ModelClient>()
  readonly #owners = new Map<number, string>()
  readonly #committed = new Map<number, number>()
  /** Refused and not given to anybody since: the group is never behind them. */
  readonly #owed = new Set<string>()
  /** How often each was refused since it was last moved. */
  readonly #failures = new Map<string, number>()
  /** Dead since the group was last told to go on behind them: there is one letter, whatever comes by again. */
  readonly #dead = new Set<string>()
  readonly #values = new Map<string, string>()
  /** Values of the letters. */
  readonly #letters: string[] = []
  /** How often the topic was made. */
  #life = 0
  #ends: number[] = []
  #next = 0

  private constructor(at: TestNativeDoor, admin: TestNativeConnection, random: SeededRandom) {
    this.#at = at
    this.#admin = admin
    this.#random = random
  }

  static async open(seed: number): Promise<NativeGroupModel> {
    const at = await testNativeDoor()
    const model = new NativeGroupModel(at, await at.connect(), new SeededRandom(seed))
    await model.#makeTopic()
    return model
  }

  async #makeTopic(): Promise<void> {
    const partitions = 1 + this.#random.below(5)
    await this.#settled(createTopic(this.#at.broker, TOPIC, partitions))
    this.#life++
    this.#ends = Array.from({ length: partitions }, () => 0)
    this.#assign()
  }

  // ---- actions --------------------------------------------------------------------------------------------------------------

  async act(): Promise<void> {
    const roll = this.#random.below(100)
    const client = this.#clients[this.#random.below(Math.max(1, this.#clients.length))]
    if (roll < 12) await this.#connect()
    else if (roll < 20) await this.#produce()
    else if (roll < 24) await this.#grow()
    else if (roll < 26) await this.#makeAgain()
    else if (roll < 28) await this.#restart()
    else if (roll < 40) await this.#advance(this.#random.below(14_000))
    else if (client === undefined) return
    else if (roll < 55) await this.#join(client)
    else if (roll < 71) await this.#fetch(client)
    else if (roll < 79) await this.#refuse(client)
    else if (roll < 85) await this.#heartbeat(client)
    else if (roll < 90) await this.#commit(client)
    else if (roll < 96) await this.#leave(client)
    else this.#break(client)
  }

  async #connect(): Promise<void> {
    if (this.#clients.length >= MAX_CLIENTS) return
    const connection = await this.#at.connect()
    // The order of ids is not that of joining.
    const name = `${this.#random.below(1000)}-${this.#next++}`
    this.#clients.push({ name, connection, phase: 'out', lastHeardMs: 0, hasFetched: false, positions: new Map(), given: new Map() })
  }

  async #produce(): Promise<void> {
    const records = Array.from({ length: 1 + this.#random.below(12) }, () => ({
      key: this.#random.bytes(4),
      value: Buffer.from(`${this.#life}/${this.#next++}`),
    }))
    const { message } = await this.#ask(this.#admin, 'PRODUCE_BATCH', { flags: 0, codec: 0, topic: TOPIC, records })
    for (const [at, { partition, offset }] of (message['acks'] as { partition: number; offset: number }[]).entries()) {
      this.#ends[partition] = (this.#ends[partition] ?? 0) + 1
      this.#values.set(`${partition}@${offset}`, String(records[at]?.value))
    }
  }

  async #grow(): Promise<void> {
    if (this.#ends.length >= MAX_PARTITIONS) return
    assert.equal((await this.#ask(this.#admin, 'CREATE_PARTITIONS', { name: TOPIC, total: this.#ends.length + 1 })).op, 'OK')
    this.#ends.push(0)
    this.#assign()
  }

  /** Deleted and made anew: its offsets are gone, its members wait for it. */
  async #makeAgain(): Promise<void> {
    assert.equal((await this.#ask(this.#admin, 'DELETE_TOPIC', { name: TOPIC })).op, 'OK')
    this.#ends = []
    this.#committed.clear()
    for (const kept of [this.#owed, this.#failures, this.#dead, this.#values]) kept.clear()
    this.#assign()
    await this.check()
    // No two records have place and time in common.
    await this.#advance(1)
    await this.#makeTopic()
  }

  /** Members join again; what was committed stays. */
  async #restart(): Promise<void> {
    for (const client of this.#clients.splice(0)) client.connection.socket.destroy()
    this.#members.clear()
    await this.#settled(this.#at.door.close())
    await this.#settled(this.#at.broker.close())
    this.#at = await this.#settled(testNativeDoor({}, this.#at))
    this.#admin = await this.#at.connect()
    this.#assign()
  }

  async #advance(deltaMs: number): Promise<void> {
    const endMs = this.#at.clock.monotonicMs() + deltaMs
    while (this.#at.clock.monotonicMs() < endMs) {
      const nowMs = this.#at.clock.monotonicMs()
      const sweepMs = (Math.floor(nowMs / SWEEP_MS) + 1) * SWEEP_MS
      await this.#at.clock.advance(Math.min(sweepMs, endMs) - nowMs)
      if (sweepMs <= endMs) this.#sweep(sweepMs)
      // What keeps a connection keeps no member.
      for (const { connection } of [...this.#clients, { connection: this.#admin }]) await this.#ask(connection, 'HEARTBEAT_REQ', {})
    }
  }

  #sweep(nowMs: number): void {
    const silent = [...this.#members.values()].filter(({ lastHeardMs }) => lastHeardMs + SESSION_MS <= nowMs)
    for (const { name } of silent) this.#members.delete(name)
    if (silent.length > 0) this.#assign()
  }

  // ---- clients --------------------------------------------------------------------------------------------------------------

  async #join(client: ModelClient): Promise<void> {
    const answer = await this.#ask(client.connection, 'JOIN_GROUP', { group: GROUP, memberId: client.name, topics: [TOPIC] })
    assert.equal(answer.op, 'GROUP_ASSIGNMENT', JSON.stringify(answer.message))
    const isNew = !this.#members.has(client.name)
    this.#members.set(client.name, client)
    client.phase = 'in'
    client.lastHeardMs = this.#at.clock.monotonicMs()
    if (isNew) {
      client.positions.clear()
      client.given.clear()
      this.#assign()
    }
    assert.deepEqual(answer.message['assignment'], [{ topic: TOPIC, partitions: this.#ownedBy(client.name) }])
  }

  async #heartbeat(client: ModelClient): Promise<void> {
    const answer = await this.#ask(client.connection, 'GROUP_HEARTBEAT', { group: GROUP, memberId: '' })
    this.#expect(answer, this.#members.has(client.name) ? 0 : 12)
    client.lastHeardMs = this.#at.clock.monotonicMs()
  }

  async #leave(client: ModelClient): Promise<void> {
    const answer = await this.#ask(client.connection, 'LEAVE_GROUP', { group: GROUP, memberId: '' })
    this.#expect(answer, this.#members.delete(client.name) ? 0 : 12)
    client.phase = 'out'
    this.#assign()
  }

  #break(client: ModelClient): void {
    client.connection.socket.destroy()
    this.#clients = this.#clients.filter((each) => each !== client)
    this.#members.delete(client.name)
    this.#assign()
  }

  /** Delivers what is next in the partitions of the member, and nothing else; what is delivered is committed. */
  async #fetch(client: ModelClient): Promise<void> {
    if (client.phase === 'out' || this.#ends.length === 0) return
    const maxRecords = this.#random.below(3) === 0 ? 1000 : 1 + this.#random.below(10)
    client.connection.send('FETCH', { topic: TOPIC, group: GROUP, maxRecords, isolation: 0, flags: 1 })
    const frames = (await client.connection.received()).filter(({ op }) => op !== 'HEARTBEAT_REQ')
    client.hasFetched = true
    const isMember = this.#members.has(client.name)
    this.#expect(frames.at(-1), isMember ? 0 : 12)
    const owned = this.#ownedBy(client.name)
    const records = frames.flatMap(({ message }) => (message['records'] ?? []) as { partition: number; offset: number }[])
    for (const { partition, offset } of records) {
      assert.ok(owned.includes(partition), `${client.name} was given a record of partition ${partition}`)
      assert.equal(offset, this.#positionOf(client, partition), `partition ${partition} for ${client.name}`)
      client.positions.set(partition, offset + 1)
      this.#committed.set(partition, offset + 1)
      this.#owed.delete(`${partition}@${offset}`)
    }
    for (const partition of new Set(records.map((record) => record.partition))) {
      const round = records.filter((record) => record.partition === partition).map(({ offset }) => offset)
      client.given.set(partition, [...(client.given.get(partition) ?? []).slice(-1), round])
    }
    if (!isMember) return
    for (const partition of owned) {
      const position = this.#positionOf(client, partition)
      client.positions.set(partition, position)
      if (maxRecords === 1000) assert.equal(position, Math.max(position, this.#ends[partition] ?? 0), 'everything was delivered')
    }
  }

  #positionOf(client: ModelClient, partition: number): number {
    return client.positions.get(partition) ?? this.#committed.get(partition) ?? 0
  }

  /** Moves no position of this connection. */
  async #commit(client: ModelClient): Promise<void> {
    if (client.phase === 'out' || !client.hasFetched || this.#ends.length === 0) return
    const partition = this.#random.below(this.#ends.length)
    const offset = this.#random.below((this.#ends[partition] ?? 0) + 1)
    const isMember = this.#ownedBy(client.name).includes(partition)
    const { op, message } = await this.#ask(client.connection, 'COMMIT', { topic: TOPIC, partition, offset })
    const code = op === 'ERROR' ? message['code'] : 0
    assert.equal(code, isMember ? 0 : 12)
    if (code !== 0) return
    this.#committed.set(partition, offset)
    // It says that everything before it is done.
    for (const kept of [this.#owed, this.#failures, this.#dead]) {
      for (const key of kept.keys()) if (Number(key.split('@')[0]) === partition && Number(key.split('@')[1]) < offset) kept.delete(key)
    }
  }

  /** Reads and refuses for a while: several records of a round, or of the one before, in any order, some of them more than once. */
  async #refuse(client: ModelClient): Promise<void> {
    if (client.phase === 'out') await this.#join(client)
    if (this.#ends.length === 0) return
    await this.#produce()
    for (let rounds = 1 + this.#random.below(5); rounds > 0; rounds--) {
      await this.#fetch(client)
      const known = [...client.given.keys()]
      const partition = known[this.#random.below(known.length + 1)] ?? this.#random.below(this.#ends.length)
      // The same ones mostly, so that they die.
      const given = (client.given.get(partition)?.flat() ?? []).slice(0, 6)
      for (let count = 1 + this.#random.below(5); count > 0; count--) {
        await this.#nack(client, partition, given[this.#random.below(Math.max(1, given.length))] ?? this.#random.below(20))
        await this.check()
      }
    }
  }

  async #nack(client: ModelClient, partition: number, offset: number): Promise<void> {
    const { op, message } = await this.#ask(client.connection, 'NACK', { topic: TOPIC, partition, offset, reason: 'bad' })
    const position = client.positions.get(partition)
    const isGiven = client.given.get(partition)?.flat().includes(offset) === true
    if (!this.#members.has(client.name) || position === undefined || !isGiven) {
      // What it was given before the partition went to somebody else and came back is not its any more.
      assert.ok([1, 12].includes(Number(message['code'])), JSON.stringify({ op, ...message }))
      return
    }
    assert.equal(op, 'NACK_ACK', JSON.stringify(message))
    const key = `${partition}@${offset}`
    const failures = (this.#failures.get(key) ?? 0) + 1
    const attempts = Number(message['attempts'])
    assert.ok(attempts >= 1 && attempts <= failures, `attempt ${attempts} of ${key} after ${failures} failures`)
    assert.equal(message['deadLettered'], attempts === MAX_DELIVERIES ? 1 : 0)
    if (attempts < MAX_DELIVERIES) {
      this.#failures.set(key, failures)
      this.#owed.add(key)
      client.positions.set(partition, Math.min(position, offset))
      this.#committed.set(partition, Math.min(position, offset))
      return
    }
    this.#failures.delete(key)
    this.#owed.delete(key)
    if (!this.#dead.has(key)) this.#letters.push(this.#values.get(key) ?? '')
    this.#dead.add(key)
    if (position === offset) client.positions.set(partition, offset + 1)
    this.#committed.set(partition, position < offset ? position : offset + 1)
  }

  // ---- the shadow -----------------------------------------------------------------------------------------------------------

  /** Ranges over the members in the order of their ids. Whoever loses a partition forgets where it was there. */
  #assign(): void {
    const names = [...this.#members.keys()].sort()
    const least = Math.floor(this.#ends.length / Math.max(1, names.length))
    const extra = names.length === 0 ? 0 : this.#ends.length % names.length
    const before = new Map(this.#owners)
    this.#owners.clear()
    let next = 0
    for (const [at, name] of names.entries()) {
      for (let count = least + (at < extra ? 1 : 0); count > 0; count--) this.#owners.set(next++, name)
    }
    for (const [partition, name] of before) {
      if (this.#owners.get(partition) === name) continue
      const former = this.#clients.find((client) => client.name === name)
      former?.positions.delete(partition)
      former?.given.delete(partition)
    }
  }

  #ownedBy(name: string): number[] {
    return [...this.#owners].filter(([, owner]) => owner === name).map(([partition]) => partition)
  }

  /** Lets run what needs no time. */
  async #settled<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const done = () => {
      isDone = true
    }
    work.then(done, done)
    for (let turn = 0; turn < 1000 && !isDone; turn++) await this.#at.clock.advance(0)
    return await work
  }

  async #ask<N extends Parameters<TestNativeConnection['send']>[0]>(
    connection: TestNativeConnection,
    op: N,
    message: Parameters<TestNativeConnection['send']>[1],
  ): Promise<Received> {
    const correlation = connection.send(op, message as never)
    const answer = (await connection.received()).find((frame) => frame.correlation === correlation)
    if (answer === undefined) throw new Error(`no answer to ${op}`)
    return answer
  }

  #expect(answer: Received | undefined, code: number): void {
    assert.equal(answer?.op === 'ERROR' ? answer.message['code'] : 0, code, JSON.stringify(answer?.message))
  }

  async check(): Promise<void> {
    const { op, message } = await this.#ask(this.#admin, 'DESCRIBE_GROUP', { group: GROUP })
    if (this.#members.size === 0 && this.#committed.size === 0) {
      assert.equal(message['code'], 15)
      return
    }
    assert.equal(op, 'GROUP_DESCRIPTION', JSON.stringify(message))
    assert.equal(message['state'], this.#members.size === 0 ? 'empty' : 'stable')
    const members = [...this.#members.keys()].sort().map((name) => {
      const partitions = this.#ownedBy(name)
      return { memberId: name, assignment: partitions.length === 0 ? [] : [{ topic: TOPIC, partitions }] }
    })
    assert.deepEqual(message['members'], members)
    for (const key of this.#owed) {
      const [partition, offset] = key.split('@').map(Number) as [number, number]
      assert.ok((this.#committed.get(partition) ?? 0) <= offset, `the group is behind ${key}, which was refused and has not come again`)
    }
    const offsets = [...this.#committed].sort(([left], [right]) => left - right)
    assert.deepEqual(
      message['offsets'],
      offsets.map(([partition, offset]) => ({ topic: TOPIC, partition, offset })),
    )
  }

  /** Everybody joins and reads: the group comes to the end of every partition. */
  async converge(): Promise<void> {
    await this.#connect()
    for (const client of this.#clients) await this.#join(client)
    for (let round = 0; round < 3; round++) {
      for (const client of this.#clients) await this.#fetch(client)
    }
    await this.check()
    assert.deepEqual([...this.#owed], [], 'everything that was refused came again')
    assert.deepEqual(await this.#storedLetters(), [...this.#letters].sort())
    await this.#settled(this.#at.door.close())
    await this.#settled(this.#at.broker.close())
  }

  async #storedLetters(): Promise<string[]> {
    const values: string[] = []
    for (const { partition } of this.#at.broker.topics.find(LETTERS)?.partitions ?? []) {
      const request = {
        topic: LETTERS,
        partition,
        offset: 0,
        isolation: 'read_uncommitted',
        maxRecords: 10_000,
        maxBytes: 1e7,
        maxWaitMs: 0,
      } as const
      const read = await this.#settled(this.#at.broker.records.read(contextOf(), request))
      values.push(...read.records.map(({ value }) => String(value)))
      read.release()
    }
    return values.sort()
  }
}
