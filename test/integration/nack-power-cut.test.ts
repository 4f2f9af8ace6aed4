import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordConsumer, Redriven } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { type DiskBroker, type DiskBrokerOptions, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'

const SETTINGS = { 'offsets.topic.num.partitions': '1' }
const NATIVE = contextOf({ protocol: 'native' })
const GROUP = 'g'

interface Letter {
  readonly offset: number
  readonly attempts: number
  readonly group: string
  readonly value: string
}

async function letters({ broker }: DiskBroker, topic = 'jobs.dlq', kind = 'dlq'): Promise<Letter[]> {
  if (broker.topics.find(topic) === undefined) return []
  const request = { topic, partition: 0, offset: 0, isolation: 'read_uncommitted', maxRecords: 1000, maxBytes: 1e6, maxWaitMs: 0 } as const
  const read = await broker.records.read(contextOf(), request)
  const found = read.records.map(({ headers, value }): Letter => {
    const text = (key: string) => String(headers.find((header) => header.key === `moonmq.${kind}.${key}`)?.value)
    return { offset: Number(text('offset')), attempts: Number(text('attempts')), group: text('group'), value: String(value) }
  })
  read.release()
  return found
}

function consuming({ broker }: DiskBroker, group = GROUP): RecordConsumer {
  const consumer = broker.records.openConsumer(NATIVE, { group, isolation: 'read_uncommitted' })
  consumer.addTopic('jobs')
  return consumer
}

async function commit({ broker }: DiskBroker, topic: string, offset: number): Promise<void> {
  const offsets = [{ topic, partition: 0, value: { offset, leaderEpoch: -1, metadata: '' } }]
  const request = { group: GROUP, generation: -1, memberId: '', instanceId: null, offsets, durable: true }
  for (const error of await broker.groups.commit(NATIVE, request)) if (error !== null) throw error
}

async function prepared(values: readonly string[], config: Record<string, string> = {}): Promise<MemoryDisk> {
  const running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), SETTINGS)
  await createTopic(running.broker, 'jobs', 1, config)
  await produceOne(running.broker, 'jobs', 0, buildBatch(values.map((value) => ({ key: null, value: Buffer.from(value), timestampMs: 1 }))))
  const disk = running.disk.powerCut(new SeededRandom(1))
  await running.close().catch(() => {})
  return disk
}

/** What a client was told: by offset, the attempts of each NACK that was answered, and what was processed and committed. */
interface Told {
  readonly attempts: Map<string, number>
  readonly done: Set<string>
}

type Work = (running: DiskBroker, told: Told) => Promise<void>

/** Reads all there is as version 1 does: those that begin with `bad` are refused in their order, and what follows them comes again. */
async function batchWork(running: DiskBroker, told: Told): Promise<void> {
  const consumer = consuming(running)
  for (;;) {
    const round = await consumer.poll(10, 1e6)
    round.release()
    const last = round.records.at(-1)
    if (last === undefined) return
    let isDone = true
    for (const { topic, offset, value } of round.records) {
      const name = String(value)
      if (!name.startsWith('bad')) told.done.add(name)
      else if ((await refuse(name, told, () => consumer.nack(topic, 0, offset, 'it is bad'))) === 'again') isDone = false
    }
    if (isDone) await commit(running, last.topic, last.offset + 1)
  }
}

/** A stream over the same: the failures of a round are told the last one first, before anything is done. */
async function streamWork({ broker }: DiskBroker, told: Told): Promise<void> {
  const stream = broker.records.openStream(NATIVE, { group: GROUP, isolation: 'read_uncommitted' })
  stream.consumer.addTopic('jobs')
  for (;;) {
    const open: { name: string; offset: number }[] = []
    for (;;) {
      const round = await stream.next(10, 1e6)
      round.release()
      open.push(...round.records.map(({ offset, value }) => ({ name: String(value), offset })))
      if (!round.isMore) break
    }
    if (open.length === 0) return
    for (const { name, offset } of open.reverse()) {
      if (name.startsWith('bad')) await refuse(name, told, () => stream.failed('jobs', 0, offset, 'it is bad'))
    }
    for (const { name, offset } of open) {
      if (name.startsWith('bad')) continue
      await stream.done([{ topic: 'jobs', partition: 0, first: offset, last: offset }])
      told.done.add(name)
    }
  }
}

async function refuse(name: string, told: Told, nack: () => Promise<{ kind: string; attempts: number; settle?(): void }>): Promise<string> {
  const nacked = await nack()
  assert.ok(nacked.attempts > (told.attempts.get(name) ?? 0), `${name}: attempt ${nacked.attempts} again`)
  told.attempts.set(name, nacked.attempts)
  if (nacked.kind === 'moved') {
    told.done.add(name)
    // It may come by again because of others that are not done.
    told.attempts.delete(name)
  }
  nacked.settle?.()
  return nacked.kind
}

/** Reads record by record; those that begin with `bad` are refused, the others processed and committed. */
async function work(running: DiskBroker, told: Told): Promise<void> {
  const consumer = consuming(running)
  for (;;) {
    const round = await consumer.poll(1, 1e6)
    const [record] = round.records
    round.release()
    if (record === undefined) {
      if (round.isMoved) continue
      return
    }
    const name = String(record.value)
    assert.ok(!told.done.has(name), `${name} was done with and comes again`)
    if (name.startsWith('bad')) {
      const nacked = await consumer.nack(record.topic, 0, record.offset, 'it is bad')
      assert.ok(nacked.attempts > (told.attempts.get(name) ?? 0), `${name}: attempt ${nacked.attempts} again`)
      told.attempts.set(name, nacked.attempts)
      if (nacked.kind === 'moved' && nacked.topic.endsWith('.dlq')) told.done.add(name)
      nacked.settle()
    } else {
      await commit(running, record.topic, record.offset + 1)
      told.done.add(name)
    }
  }
}

/** Works until the power goes after so many turns of the loop. False: all was done before. */
async function cutAfter(disk: MemoryDisk, turns: number, told: Told, working: Work = work): Promise<{ disk: MemoryDisk; isDone: boolean }> {
  const running = await diskBroker(disk, SETTINGS)
  let isDone = false
  const worked = working(running, told).then(() => {
    isDone = true
  })
  const ended = Promise.allSettled([worked])
  for (let turn = 0; turn < turns && !isDone; turn++) await new Promise((resolve) => setImmediate(resolve))
  const survivor = running.disk.powerCut(new SeededRandom(turns))
  await running.close().catch(() => {
    // Its disk is gone.
  })
  for (const outcome of await ended) {
    if (outcome.status === 'rejected' && outcome.reason instanceof assert.AssertionError) throw outcome.reason
  }
  return { disk: survivor, isDone }
}

const VALUES = ['a', 'bad 1', 'b', 'bad 2', 'c']
const start = await prepared(VALUES)

async function finish(disk: MemoryDisk, told: Told, working: Work = work): Promise<void> {
  const running = await diskBroker(disk, SETTINGS)
  await working(running, told)
  const dead = await letters(running)
  assert.deepEqual(dead.map(({ value }) => value).sort(), ['bad 1', 'bad 2'])
  for (const { value, offset, attempts, group } of dead) {
    assert.equal(VALUES[offset], value)
    assert.equal(group, GROUP)
    assert.ok(attempts >= 3, `${value} has ${attempts} attempts`)
  }
  for (const value of VALUES) assert.ok(told.done.has(value) || dead.some((letter) => letter.value === value), `${value} was lost`)
  const next = await consuming(running).poll(10, 1e6)
  assert.deepEqual(next.records, [])
  next.release()
  await running.close()
}

test('a power cut at each step of NACK: counted attempts stay, each dead letter comes once, nothing is lost', async () => {
  for (let turns = 0; ; turns++) {
    const told: Told = { attempts: new Map(), done: new Set() }
    const { disk, isDone } = await cutAfter(start.copy(), turns, told)
    await finish(disk, told)
    if (isDone) break
    assert.ok(turns < 2000, 'it never ends')
  }
})

for (const [name, working] of [
  ['one batch in their order', batchWork],
  ['one stream, the last one first', streamWork],
] as const) {
  test(`a power cut at each step of NACKs of several records of ${name}: none is passed before it is dead, each letter comes once`, async () => {
    for (let turns = 0; ; turns += byLane({ quick: 14, ci: 2, full: 1 })) {
      const told: Told = { attempts: new Map(), done: new Set() }
      const { disk, isDone } = await cutAfter(start.copy(), turns, told, working)
      await finish(disk, told, working)
      if (isDone) break
      assert.ok(turns < 2000, 'it never ends')
    }
    await playSeeds(byLane({ quick: 2, ci: 25, full: 400 }), async (seed) => {
      const random = new SeededRandom(seed)
      const told: Told = { attempts: new Map(), done: new Set() }
      let disk = start.copy()
      for (let life = 0; life < 4; life++) disk = (await cutAfter(disk, random.below(60), told, working)).disk
      await finish(disk, told, working)
    })
  })
}

test('the power goes again and again', async () => {
  await playSeeds(byLane({ quick: 4, ci: 60, full: 600 }), async (seed) => {
    const random = new SeededRandom(seed)
    const told: Told = { attempts: new Map(), done: new Set() }
    let disk = start.copy()
    for (let life = 0; life < 4; life++) disk = (await cutAfter(disk, random.below(60), told)).disk
    await finish(disk, told)
  })
})

test('a power cut at each step of a redrive: repeated, it brings every letter back exactly once', async () => {
  // A transaction for each letter: some are back and others are not.
  assert.deepEqual(await cutRedrives({ redriveSliceBytes: 1 }, 2), [0, 1, 2])
  assert.deepEqual(await cutRedrives({}, 3), [0, 2])
})

/** Gives how many letters were back already, in any of the cuts. */
async function cutRedrives(options: DiskBrokerOptions, step: number): Promise<number[]> {
  const seen = new Set<number>()
  const buried = await diskBroker(await prepared(VALUES), SETTINGS)
  await work(buried, { attempts: new Map(), done: new Set() })
  await buried.close()
  const returned = async ({ broker }: DiskBroker) => {
    const request = { topic: 'jobs', partition: 0, offset: VALUES.length, isolation: 'read_committed' } as const
    const read = await broker.records.read(contextOf(), { ...request, maxRecords: 100, maxBytes: 1e6, maxWaitMs: 0 })
    const values = read.records.map(({ value }) => String(value))
    read.release()
    return values
  }
  for (let turns = 0; ; turns += step) {
    const running = await diskBroker(buried.disk.copy(), SETTINGS, undefined, options)
    let isDone = false
    const redriving = running.broker.redrives.redrive(contextOf(), 'jobs.dlq', 0, [0, 1]).then(() => {
      isDone = true
    })
    const ended = Promise.allSettled([redriving])
    for (let turn = 0; turn < turns && !isDone; turn++) await new Promise((resolve) => setImmediate(resolve))
    const survivor = running.disk.powerCut(new SeededRandom(turns))
    await running.close().catch(() => {
      // Its disk is gone.
    })
    await ended
    const again = await diskBroker(survivor, SETTINGS, undefined, options)
    for (;;) {
      // The transaction that was cut off may still be aborted.
      const outcome = await again.broker.redrives.redrive(contextOf(), 'jobs.dlq', 0, [0, 1]).catch((error: unknown) => error)
      if (!(outcome instanceof MoonMQError)) {
        const { redriven, already, missing } = outcome as Redriven
        assert.deepEqual([redriven + already, missing], [2, 0])
        if (isDone) assert.equal(already, 2)
        seen.add(already)
        break
      }
      assert.ok(outcome.row.retriable, outcome.message)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.deepEqual(await returned(again), ['bad 1', 'bad 2'])
    await again.close()
    if (isDone) return [...seen].sort()
    assert.ok(turns < 2000, 'it never ends')
  }
}
