import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'
import { ShareMember, setGroup } from '../support/share-member.ts'
import { type Flow, TestProducer, valuesOf, whenSettled } from '../support/transactions.ts'

const SETTINGS = {
  'offsets.topic.num.partitions': '1',
  'transaction.state.log.num.partitions': '1',
  'share.coordinator.state.topic.num.partitions': '1',
  'group.share.assignment.interval.ms': '0',
}
/** By isolation level, which is the name of the group too. */
const GROUPS = ['read_committed', 'read_uncommitted'] as const
const MAX_ROUNDS = 2000
const GZIP = 1

function emptyDisk(): MemoryDisk {
  return new MemoryDisk({ clock: new SystemClock() })
}

/** What was written, by what became of it. */
interface Written {
  readonly plain: Set<string>
  readonly committed: Set<string>
  readonly aborted: Set<string>
}

interface Given {
  readonly values: Set<string>
  member: ShareMember
}

async function joined(running: DiskBroker, group: string): Promise<ShareMember> {
  const member = new ShareMember(running.broker, group, `m-${group}`)
  await member.join('t')
  return member
}

/** A member takes some records and accepts them. No record may come that nobody wrote, and none twice. */
async function take(given: Given, written: Written, group: string, maxRecords: number): Promise<number> {
  const records = await given.member.poll({ maxRecords })
  for (const { value } of records) {
    assert.ok(!given.values.has(value), `${group} was given ${value} twice`)
    if (group === 'read_committed') assert.ok(!written.aborted.has(value), `${value} was aborted and is given out`)
    given.values.add(value)
  }
  await given.member.ack('accept')
  return records.length
}

class World {
  readonly written: Written = { plain: new Set(), committed: new Set(), aborted: new Set() }
  readonly given = new Map<string, Given>()
  readonly #random: SeededRandom
  readonly #open: (string[] | null)[] = [null, null]
  #producers: TestProducer[] = []
  #count = 0
  running: DiskBroker

  private constructor(running: DiskBroker, random: SeededRandom) {
    this.running = running
    this.#random = random
  }

  static async open(random: SeededRandom): Promise<World> {
    const running = await diskBroker(emptyDisk(), SETTINGS)
    // Small segments, so that reads end and begin at borders.
    await createTopic(running.broker, 't', 1, { 'segment.bytes': '2048' })
    const world = new World(running, random)
    for (const group of GROUPS) {
      await setGroup(running.broker, group, { 'share.auto.offset.reset': 'earliest', 'share.isolation.level': group })
      world.given.set(group, { values: new Set(), member: await joined(running, group) })
    }
    await world.#begin()
    return world
  }

  async #begin(): Promise<void> {
    const flows: Flow[] = ['plain', 'bumping']
    this.#producers = await Promise.all(flows.map((flow) => TestProducer.begin(this.running.broker, `tx-${flow}`, flow)))
  }

  async step(): Promise<void> {
    const roll = this.#random.below(100)
    if (roll < 20) await this.#write()
    else if (roll < 50) await this.#writeInTransaction(this.#random.below(2))
    else if (roll < 70) await this.#end(this.#random.below(2), this.#random.below(2) === 0)
    else if (roll < 96) {
      const group = GROUPS[this.#random.below(2)] ?? 'read_committed'
      await take(this.given.get(group) as Given, this.written, group, 1 + this.#random.below(6))
    } else await this.#restart()
  }

  async #write(): Promise<void> {
    const value = `plain-${this.#count++}`
    const { error } = await produceOne(this.running.broker, 't', 0, buildBatch([{ key: null, value: Buffer.from(value), timestampMs: 1 }]))
    assert.equal(error, null)
    this.written.plain.add(value)
  }

  async #writeInTransaction(which: number): Promise<void> {
    await whenSettled(this.running.broker)
    const value = `tx${which}-${this.#count++}`
    await (this.#producers[which] as TestProducer).write('t', 0, value)
    const open = this.#open[which] ?? []
    open.push(value)
    this.#open[which] = open
  }

  async #end(which: number, commit: boolean): Promise<void> {
    const open = this.#open[which]
    if (!open) return
    // An aborted record is known as one before the marker is there: it may never be given out to who reads what is committed.
    if (!commit) for (const value of open) this.written.aborted.add(value)
    await (this.#producers[which] as TestProducer).end(commit)
    if (commit) for (const value of open) this.written.committed.add(value)
    this.#open[which] = null
  }

  /** The power goes: open transactions are ended by the new process of their producer, members join anew. */
  async #restart(): Promise<void> {
    for (const open of this.#open) for (const value of open ?? []) this.written.aborted.add(value)
    this.#open.fill(null)
    const survivor = this.running.disk.powerCut(this.#random)
    await this.running.close().catch(() => {
      // Its disk is gone.
    })
    this.running = await diskBroker(survivor, SETTINGS)
    await this.#begin()
    await whenSettled(this.running.broker)
    for (const [group, given] of this.given) given.member = await joined(this.running, group)
  }

  /** Everything is ended and taken; then each group has had what it may see, and nothing else. */
  async finish(): Promise<void> {
    for (const which of [0, 1]) await this.#end(which, true)
    await whenSettled(this.running.broker)
    for (const group of GROUPS) {
      const given = this.given.get(group) as Given
      for (let round = 0; ; round++) {
        assert.ok(round < MAX_ROUNDS, `${group} does not come to an end`)
        const count = await take(given, this.written, group, 100)
        const [positions] = await this.running.broker.share.positions(contextOf(), group, null)
        if (count === 0 && positions?.partitions.every(({ lag }) => lag === 0)) break
        await new Promise((resolve) => setImmediate(resolve))
      }
      const visible = await valuesOf(this.running.broker, 't', 0, group)
      assert.deepEqual([...given.values].sort(), visible.sort(), `${group} has had what a reader sees`)
    }
    const { plain, committed, aborted } = this.written
    assert.deepEqual([...(this.given.get('read_committed') as Given).values].sort(), [...plain, ...committed].sort())
    assert.deepEqual([...(this.given.get('read_uncommitted') as Given).values].sort(), [...plain, ...committed, ...aborted].sort())
    await this.running.close()
  }
}

async function history(seed: number): Promise<void> {
  const world = await World.open(new SeededRandom(seed))
  for (let step = 0; step < 60; step++) await world.step()
  await world.finish()
}

describe('share groups over transactions', () => {
  it('are given what they may see, once, whatever is open, aborted, committed or cut off by a power cut', async () => {
    await playSeeds(byLane({ quick: 6, ci: 60, full: 600 }), history)
  })

  it('wait at an open transaction, pass over its markers, and end with nothing left', async () => {
    const running = await diskBroker(emptyDisk(), SETTINGS)
    await createTopic(running.broker, 't', 1)
    const members = new Map<string, ShareMember>()
    for (const group of GROUPS) {
      await setGroup(running.broker, group, { 'share.auto.offset.reset': 'earliest', 'share.isolation.level': group })
      members.set(group, await joined(running, group))
    }
    const [committed, uncommitted] = GROUPS.map((group) => members.get(group) as ShareMember) as [ShareMember, ShareMember]
    const texts = async (member: ShareMember) => (await member.poll()).map(({ value }) => value)
    const producer = await TestProducer.begin(running.broker, 'tx', 'bumping')
    await producer.write('t', 0, 'first')
    assert.deepEqual(await texts(committed), [])
    assert.deepEqual(await texts(uncommitted), ['first'])
    await producer.end(false)
    await whenSettled(running.broker)
    assert.deepEqual(await texts(committed), [], 'it was aborted')
    await producer.write('t', 0, 'second')
    await producer.end(true)
    await whenSettled(running.broker)
    assert.deepEqual(await texts(committed), ['second'])
    assert.deepEqual(await texts(uncommitted), ['second'])
    for (const [group, member] of members) {
      await member.ack('accept')
      await member.poll()
      const [positions] = await running.broker.share.positions(contextOf(), group, null)
      assert.deepEqual(
        positions?.partitions.map(({ startOffset, lag }) => [startOffset, lag]),
        [[4, 0]],
        'markers count as done',
      )
    }
    await running.close()
  })
})

describe('a dead letter of a record that came compressed', () => {
  it('is compressed where it is too large for the topic as it is', async () => {
    const running = await diskBroker(emptyDisk(), SETTINGS)
    await createTopic(running.broker, 't', 1, { 'max.message.bytes': '2000' })
    await setGroup(running.broker, 'workers', { 'share.auto.offset.reset': 'earliest' })
    const record = { topic: 't', partition: 0, key: Buffer.from('k'), value: Buffer.alloc(40_000, 97), headers: [], timestampMs: 1 }
    const [outcome] = await running.broker.records.produce(contextOf(), [record], { acks: 'all', codec: GZIP, timeoutMs: 10_000 })
    assert.equal(outcome?.error, null)
    const member = await joined(running, 'workers')
    const fetched = await member.fetch()
    const [given] = fetched.partitions
    fetched.release()
    assert.deepEqual(given?.acquired, [{ first: 0, last: 0, deliveries: 1 }])
    member.held.push({ topicId: given?.topicId ?? '', partition: 0, offset: 0, deliveries: 1, value: '' })
    await member.ack('reject')
    const letters = async () => (running.broker.topics.find('t.dlq') === undefined ? [] : await valuesOf(running.broker, 't.dlq', 0))
    let found = await letters()
    for (let turn = 0; found.length === 0 && turn < MAX_ROUNDS; turn++) {
      await new Promise((resolve) => setImmediate(resolve))
      found = await letters()
    }
    assert.deepEqual(
      found.map((value) => value.length),
      [40_000],
    )
    assert.ok(running.broker.topics.get('t.dlq').config.get('max.message.bytes') !== undefined)
    assert.ok(Number(running.broker.topics.get('t.dlq').config.get('max.message.bytes')) < 40_000, 'as it is it has no room there')
    await running.close()
  })
})
