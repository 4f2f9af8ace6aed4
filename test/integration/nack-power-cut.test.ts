import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordConsumer, Redriven } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
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
async function cutAfter(disk: MemoryDisk, turns: number, told: Told): Promise<{ disk: MemoryDisk; isDone: boolean }> {
  const running = await diskBroker(disk, SETTINGS)
  let isDone = false
  const working = work(running, told).then(() => {
    isDone = true
  })
  const ended = Promise.allSettled([working])
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

async function finish(disk: MemoryDisk, told: Told, deadAttempts: (attempts: number) => boolean): Promise<void> {
  const running = await diskBroker(disk, SETTINGS)
  await work(running, told)
  const dead = await letters(running)
  assert.deepEqual(dead.map(({ value }) => value).sort(), ['bad 1', 'bad 2'])
  for (const { value, offset, attempts, group } of dead) {
    assert.equal(VALUES[offset], value)
    assert.equal(group, GROUP)
    assert.ok(deadAttempts(attempts), `${value} has ${attempts} attempts`)
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
    const { disk, isDone } = await cutAfter(await prepared(VALUES), turns, told)
    await finish(disk, told, (attempts) => attempts >= 3)
    if (isDone) break
    assert.ok(turns < 2000, 'it never ends')
  }
})

test('the power goes again and again', async () => {
  await playSeeds(byLane({ quick: 4, ci: 60, full: 600 }), async (seed) => {
    const random = new SeededRandom(seed)
    const told: Told = { attempts: new Map(), done: new Set() }
    let disk = await prepared(VALUES)
    for (let life = 0; life < 4; life++) disk = (await cutAfter(disk, random.below(60), told)).disk
    await finish(disk, told, (attempts) => attempts >= 3)
  })
})

test('a power cut at each step of a redrive: repeated, it brings every letter back exactly once', async () => {
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
  for (let turns = 0; ; turns++) {
    const running = await diskBroker(buried.disk.copy(), SETTINGS)
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
    const again = await diskBroker(survivor, SETTINGS)
    for (;;) {
      // The transaction that was cut off may still be aborted.
      const outcome = await again.broker.redrives.redrive(contextOf(), 'jobs.dlq', 0, [0, 1]).catch((error: unknown) => error)
      if (!(outcome instanceof MoonMQError)) {
        assert.deepEqual(
          outcome,
          isDone || (outcome as Redriven).already > 0 ? { redriven: 0, already: 2, missing: 0 } : { redriven: 2, already: 0, missing: 0 },
        )
        break
      }
      assert.ok(outcome.row.retriable, outcome.message)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.deepEqual(await returned(again), ['bad 1', 'bad 2'])
    await again.close()
    if (isDone) break
    assert.ok(turns < 2000, 'it never ends')
  }
})
