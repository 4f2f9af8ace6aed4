import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ProducerSession, SequencedBatch, SequencedOutcome } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import type { Failpoint, FailpointName } from '../../src/core/failpoint.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { offsetOf, valuesOf, whenSettled } from '../support/transactions.ts'

const PARTITIONS = 3
const OPTIONS = { acks: 'leader', codec: 0, timeoutMs: 10_000 } as const
const CONTEXT = contextOf({ protocol: 'native' })

interface Power {
  readonly failpoint: Failpoint
  /** Where the power is cut; from here on the steps count. */
  arm(name: FailpointName, nth: number): void
  survivor(): MemoryDisk | null
}

function powerOf(disk: MemoryDisk, random: SeededRandom): Power {
  let wanted: FailpointName | null = null
  let left = 0
  let survivor: MemoryDisk | null = null
  return {
    failpoint: (reached) => {
      if (survivor !== null) throw new Error('the power is off')
      if (reached !== wanted || --left > 0) return
      survivor = disk.powerCut(random)
      throw new Error('the power went')
    },
    arm(name, nth) {
      wanted = name
      left = nth
    },
    survivor: () => survivor,
  }
}

function batchOf(round: number, partition: number): SequencedBatch {
  const records = [0, 1].map((step) => ({ key: null, value: Buffer.from(`${round * 2 + step}`) }))
  return { topic: 't', partition, baseSequence: round * 2, records }
}

const ROUNDS = 6

describe('a producer that goes on after a power cut with its id, its epoch and its numbers', () => {
  for (const name of ['log.roll.created', 'log.append.written', 'log.append.synced'] as const) {
    it(`at ${name}: nothing twice, and the answers that it had`, async () => {
      const seed = seedOr(1)
      let reached = 0
      for (let nth = 1; nth <= byLane({ quick: 4, ci: 18, full: 18 }); nth++) {
        if (await resumes(name, nth, new SeededRandom(seed + nth))) reached++
      }
      assert.ok(reached > 0, 'the step was never reached')
    })
  }
})

async function resumes(name: FailpointName, nth: number, random: SeededRandom): Promise<boolean> {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  const power = powerOf(disk, random)
  const running = await diskBroker(disk, {}, power.failpoint)
  await createTopic(running.broker, 't', PARTITIONS)
  const { producerId, producerEpoch } = await running.broker.producerSessions.open(CONTEXT, { name: '' })
  const who = { producerId, producerEpoch }
  const all = Array.from({ length: PARTITIONS }, (_, partition) => partition)
  const send = async ({ broker }: DiskBroker, round: number): Promise<readonly SequencedOutcome[]> => {
    const batches = all.map((partition) => batchOf(round, partition))
    return await (await broker.producerSessions.append(CONTEXT, who, batches, OPTIONS)).settled
  }
  power.arm(name, nth)
  // Several rounds are under way at once, as many as a broker can tell a resend of.
  const rounds = Array.from({ length: ROUNDS }, (_, round) => round)
  const first = await send(running, 0).catch(() => null)
  const isStored = first?.every(({ error }) => error === null) === true
  const later = !isStored ? [] : await Promise.all(rounds.slice(1, 6).map((round) => send(running, round).catch(() => null)))
  const sent = [first, ...later]
  await running.close().catch(() => {
    // Its disk is gone.
  })
  const next = await diskBroker(power.survivor() ?? disk.powerCut(random))
  // What was acknowledged before them need not be sent again.
  for (const round of isStored ? rounds.slice(1) : rounds) {
    for (const [partition, outcome] of (await send(next, round)).entries()) {
      assert.equal(outcome.error, null)
      const before = sent[round]?.[partition]
      if (before?.error === null) assert.equal(outcome.baseOffset, before.baseOffset, 'an acknowledged batch is somewhere else now')
      assert.equal(outcome.baseOffset, round * 2)
    }
  }
  for (const partition of all) {
    const values = await valuesOf(next.broker, 't', partition)
    assert.deepEqual(
      values,
      Array.from({ length: ROUNDS * 2 }, (_, index) => `${index}`),
    )
  }
  // A number that is not the next one is told.
  const [gap] = await (await next.broker.producerSessions.append(CONTEXT, who, [batchOf(ROUNDS + 2, 0)], OPTIONS)).settled
  assert.equal(gap?.error?.code, 'OUT_OF_ORDER_SEQUENCE')
  await next.close()
  return power.survivor() !== null
}

const STEPS: readonly FailpointName[] = [
  'txn.partitions-added',
  'log.append.written',
  'txn.decided',
  'txn.marker-written',
  'txn.markers-written',
  'txn.completed',
]

describe('a coordinator that dies in a native transaction', () => {
  for (const name of STEPS) {
    it(`at ${name}: aborted at the next start or carried out, and its end may be asked for again`, async () => {
      const seed = seedOr(1)
      let reached = 0
      for (let nth = 1; nth <= byLane({ quick: 3, ci: 12, full: 40 }); nth++) {
        if (await dies(name, name.startsWith('log.') ? nth * 5 : nth, new SeededRandom(seed + nth))) reached++
      }
      assert.ok(reached > 0, 'the step was never reached')
    })
  }
})

/** Transactions by number: what was answered, or null. */
async function work({ broker }: DiskBroker, session: ProducerSession, ends: Map<number, 'committed' | null>): Promise<void> {
  for (let number = 1; number <= 3; number++) {
    await session.begin()
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const batch = { topic: 't', partition, baseSequence: null, records: [{ key: null, value: Buffer.from(`${number}`) }] }
      const [outcome] = await (await session.append(CONTEXT, [batch], OPTIONS)).settled
      if (outcome?.error !== null) throw outcome?.error ?? new Error('no outcome')
    }
    await session.commitOffsets(CONTEXT, 'g', [{ topic: 't', partition: 0, offset: number }])
    ends.set(number, null)
    await session.end(true)
    ends.set(number, 'committed')
    assert.ok(broker.topics.find('t') !== undefined)
  }
}

async function dies(name: FailpointName, nth: number, random: SeededRandom): Promise<boolean> {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  const power = powerOf(disk, random)
  const running = await diskBroker(disk, {}, power.failpoint)
  await createTopic(running.broker, 't', PARTITIONS)
  const session = await running.broker.producerSessions.open(CONTEXT, { name: 'tx' })
  power.arm(name, nth)
  const ends = new Map<number, 'committed' | null>()
  // The end may never be answered: its markers are tried until the broker goes.
  const working = work(running, session, ends).catch(() => {})
  for (let turn = 0; turn < 2000 && power.survivor() === null; turn++) await new Promise((resolve) => setImmediate(resolve))
  await running.close().catch(() => {})
  await working
  const next = await diskBroker(power.survivor() ?? disk.powerCut(random))
  const { broker } = next
  await whenSettled(broker)
  // Without anybody taking the name over: the connection went with the broker.
  const seen = await Promise.all(Array.from({ length: PARTITIONS }, (_, partition) => valuesOf(broker, 't', partition)))
  for (const [partition, values] of seen.entries()) {
    assert.deepEqual(values, seen[0], 'a transaction is seen in one partition and not in another')
    const { lastStableOffset, highWatermark } = broker.offsets.bounds(CONTEXT, 't', partition)
    assert.equal(lastStableOffset, highWatermark, `t-${partition} is held back`)
  }
  const numbers = (seen[0] ?? []).map(Number)
  for (const [number, end] of ends) if (end === 'committed') assert.ok(numbers.includes(number), `transaction ${number} is gone`)
  assert.equal(await offsetOf(broker, 'g', 't', 0), numbers.at(-1) ?? null)
  // The same producer goes on, and asks for the end of its last transaction again.
  const owner = { transactionalId: 'tx', producerId: session.producerId, producerEpoch: session.producerEpoch }
  const resumed = await broker.producerSessions.resume(CONTEXT, owner)
  const asked = Math.max(0, ...ends.keys())
  if (asked > 0) {
    const repeated = await resumed.end(true).then(
      () => true,
      (error: unknown) => {
        assert.ok(isCode(error, 'INVALID_TXN_STATE'), String(error))
        return false
      },
    )
    // What was begun behind it and never ended is aborted: then that is the last one.
    const begunBehind = ends.get(asked) === 'committed'
    if (!begunBehind) assert.equal(repeated, numbers.includes(asked))
  }
  await resumed.begin()
  const batch = { topic: 't', partition: 0, baseSequence: null, records: [{ key: null, value: Buffer.from('after') }] }
  await (await resumed.append(CONTEXT, [batch], OPTIONS)).settled
  await resumed.end(true)
  assert.equal((await valuesOf(broker, 't', 0)).at(-1), 'after')
  await next.close()
  return power.survivor() !== null
}
