import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'
import { type HeldRecord, ShareMember, setGroup } from '../support/share-member.ts'

const PARTITIONS = 2
const GROUP = 'workers'
const MEMBERS = ['a', 'b', 'c']
const MAX_ROUNDS = 5000
const SETTINGS = {
  'offsets.topic.num.partitions': '1',
  'share.coordinator.state.topic.num.partitions': '2',
  'share.coordinator.snapshot.update.records.per.snapshot': '5',
  'group.share.assignment.interval.ms': '0',
}

/** What the broker has said of each record, by partition and offset. */
interface Told {
  readonly written: Map<string, string>
  /** Answered: never to come again. */
  readonly accepted: Set<string>
  readonly rejected: Set<string>
  /** Said and not answered: it may be so or not. */
  readonly unsure: Set<string>
  /** Deliveries that were counted before they were given back, which no crash takes back. */
  readonly counted: Map<string, number>
}

const nameOf = ({ partition, offset }: { partition: number; offset: number }) => `${partition}:${offset}`

async function write(running: DiskBroker, told: Told, random: SeededRandom): Promise<void> {
  const partition = random.below(PARTITIONS)
  const values = Array.from({ length: 1 + random.below(5) }, () => `v${random.below(1_000_000)}`)
  const batch = buildBatch(values.map((value) => ({ key: null, value: Buffer.from(value), timestampMs: 1 })))
  const { error, baseOffset } = await produceOne(running.broker, 'jobs', partition, batch)
  if (error === null) for (const [at, value] of values.entries()) told.written.set(`${partition}:${baseOffset + at}`, value)
}

async function work(member: ShareMember, told: Told, random: SeededRandom): Promise<void> {
  const given = member.held.length > 0 ? member.held : await member.poll({ maxRecords: 1 + random.below(10) })
  for (const record of given) {
    const name = nameOf(record)
    assert.ok(!told.accepted.has(name), `${name} was accepted and is given to ${member.memberId} again`)
    assert.ok(!told.rejected.has(name), `${name} was rejected and is given to ${member.memberId} again`)
    assert.ok(record.deliveries > (told.counted.get(name) ?? 0), `${name} is delivered for the ${record.deliveries}. time again`)
  }
  const chosen = given.filter(() => random.below(3) > 0)
  const type = (['accept', 'accept', 'accept', 'release', 'reject'] as const)[random.below(5)] ?? 'accept'
  for (const record of chosen) if (type !== 'release') told.unsure.add(nameOf(record))
  await member.ack(type, chosen)
  for (const record of chosen) settle(told, type, record)
}

function settle(told: Told, type: 'accept' | 'release' | 'reject', record: HeldRecord): void {
  const name = nameOf(record)
  told.unsure.delete(name)
  if (type === 'accept') told.accepted.add(name)
  else if (type === 'reject') told.rejected.add(name)
  else told.counted.set(name, record.deliveries)
}

/** Everybody works until the power goes in the middle of it. */
async function live(running: DiskBroker, random: SeededRandom, told: Told): Promise<MemoryDisk> {
  const members = MEMBERS.map((name) => new ShareMember(running.broker, GROUP, name))
  for (const member of members) await member.join('jobs')
  const steps = 3 + random.below(25)
  const busy = members.map(async (member) => {
    for (let step = 0; step < steps; step++) await work(member, told, random)
  })
  const writing = (async () => {
    for (let step = 0; step < steps; step++) await write(running, told, random)
  })()
  const ended = Promise.allSettled([...busy, writing])
  for (let turn = random.below(60); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve))
  const survivor = running.disk.powerCut(random)
  await running.close().catch(() => {
    // Its disk is gone.
  })
  for (const outcome of await ended) {
    if (outcome.status === 'rejected' && outcome.reason instanceof assert.AssertionError) throw outcome.reason
  }
  return survivor
}

/** How often each record stands among the dead letters. */
async function letters({ broker }: DiskBroker): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  if (broker.topics.find('jobs.dlq') === undefined) return found
  for (let partition = 0; partition < PARTITIONS; partition++) {
    let offset = 0
    for (;;) {
      const request = {
        topic: 'jobs.dlq',
        partition,
        offset,
        isolation: 'read_uncommitted',
        maxRecords: 1000,
        maxBytes: 1e6,
        maxWaitMs: 0,
      } as const
      const read = await broker.records.read(contextOf(), request)
      for (const { headers } of read.records) {
        const text = (key: string) => String(headers.find((header) => header.key === `moonmq.dlq.${key}`)?.value)
        const name = `${text('partition')}:${text('offset')}`
        found.set(name, (found.get(name) ?? 0) + 1)
      }
      const isDone = read.nextOffset === offset
      offset = read.nextOffset
      read.release()
      if (isDone) break
    }
  }
  return found
}

/** One member takes all that is left; then every record was accepted or is a dead letter. */
async function finish(running: DiskBroker, told: Told): Promise<void> {
  const [described] = await running.broker.share.describe(contextOf(), [GROUP])
  for (const { memberId } of described?.members ?? []) await new ShareMember(running.broker, GROUP, memberId).leave()
  const last = new ShareMember(running.broker, GROUP, 'last')
  await last.join('jobs')
  for (let round = 0; ; round++) {
    assert.ok(round < MAX_ROUNDS, 'the group does not come to an end')
    const given = await last.poll()
    for (const record of given) {
      assert.ok(!told.accepted.has(nameOf(record)), `${nameOf(record)} was accepted and comes again`)
      assert.ok(!told.rejected.has(nameOf(record)), `${nameOf(record)} was rejected and comes again`)
    }
    await last.ack('accept')
    for (const record of given) settle(told, 'accept', record)
    const [positions] = await running.broker.share.positions(contextOf(), GROUP, null)
    if (given.length === 0 && positions?.partitions.every(({ lag }) => lag === 0)) break
    await new Promise((resolve) => setImmediate(resolve))
  }
  const dead = await letters(running)
  for (const [name, count] of dead) assert.equal(count, 1, `${name} is a dead letter ${count} times`)
  for (const name of told.rejected) assert.ok(dead.has(name), `${name} was rejected and is no dead letter`)
  for (const name of told.written.keys()) {
    assert.ok(told.accepted.has(name) || dead.has(name) || told.unsure.has(name), `${name} was neither accepted nor is it a dead letter`)
  }
}

async function history(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  const told: Told = { written: new Map(), accepted: new Set(), rejected: new Set(), unsure: new Set(), counted: new Map() }
  let running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), SETTINGS)
  await createTopic(running.broker, 'jobs', PARTITIONS)
  await setGroup(running.broker, GROUP, { 'share.auto.offset.reset': 'earliest' })
  for (let cut = 0; cut < 3; cut++) running = await diskBroker(await live(running, random, told), SETTINGS)
  await finish(running, told)
  await running.close()
}

test('power cuts: what was accepted or rejected never comes again, nothing is lost, and no dead letter is there twice', async () => {
  await playSeeds(byLane({ quick: 3, ci: 60, full: 1000 }), history)
})
