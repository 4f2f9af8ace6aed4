import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import type { Failpoint, FailpointName } from '../../src/core/failpoint.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { type Flow, offsetOf, TestProducer, valuesOf, whenSettled } from '../support/transactions.ts'

const TOPICS = ['a', 'b'] as const
const PARTITIONS = 2
const TRANSACTIONS = 4
const STEPS: readonly FailpointName[] = [
  'txn.partitions-added',
  'txn.decided',
  'txn.marker-written',
  'txn.markers-written',
  'txn.completed',
  'log.append.written',
  'log.append.synced',
]

interface Outcome {
  /** Transactions by number that were acknowledged as committed, and as aborted. */
  readonly committed: number[]
  readonly aborted: number[]
}

/** Every transaction writes its number into each partition and commits it as an offset. Every third is aborted. */
async function work({ broker }: DiskBroker, flow: Flow, outcome: Outcome): Promise<void> {
  const producer = await TestProducer.begin(broker, 'tx', flow)
  for (let number = 1; number <= TRANSACTIONS; number++) {
    for (const topic of TOPICS) {
      for (let partition = 0; partition < PARTITIONS; partition++) await producer.write(topic, partition, `${number}`)
    }
    await producer.commitOffset('g', 'a', 0, number)
    const commit = number % 3 !== 0
    await producer.end(commit)
    if (commit) outcome.committed.push(number)
    else outcome.aborted.push(number)
  }
}

/** All or nothing of each transaction is seen, offsets go with it, and what was acknowledged holds. */
async function check({ broker }: DiskBroker, { committed, aborted }: Outcome): Promise<void> {
  // The next user of the id ends what the last one left open.
  const producer = await TestProducer.begin(broker, 'tx', 'plain')
  await whenSettled(broker)
  const partitions = TOPICS.flatMap((topic) => Array.from({ length: PARTITIONS }, (_, partition) => ({ topic, partition })))
  const seen = await Promise.all(partitions.map(({ topic, partition }) => valuesOf(broker, topic, partition)))
  for (const values of seen) assert.deepEqual(values, seen[0], 'a transaction is seen in one partition and not in another')
  const numbers = (seen[0] ?? []).map(Number)
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].sort((a, b) => a - b),
  )
  for (const number of committed) assert.ok(numbers.includes(number), `transaction ${number} was committed and is gone`)
  for (const number of aborted) assert.ok(!numbers.includes(number), `transaction ${number} was aborted and is seen`)
  assert.equal(await offsetOf(broker, 'g', 'a', 0), numbers.at(-1) ?? null, 'the offset does not go with the records')
  for (const { topic, partition } of partitions) {
    const { lastStableOffset, highWatermark } = broker.offsets.bounds(contextOf(), topic, partition)
    assert.equal(lastStableOffset, highWatermark, `${topic}-${partition} is held back`)
  }
  await producer.write('a', 0, 'after')
  await producer.end(true)
  await whenSettled(broker)
  assert.equal((await valuesOf(broker, 'a', 0)).at(-1), 'after')
}

/** Stops at the nth time that a step is reached, with the power cut there. */
async function cutAt(name: FailpointName, nth: number, flow: Flow, random: SeededRandom): Promise<boolean> {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  let survivor: MemoryDisk | null = null
  let left = Number.POSITIVE_INFINITY
  const failpoint: Failpoint = (reached) => {
    if (survivor !== null) throw new Error('the power is off')
    if (reached !== name || --left > 0) return
    survivor = disk.powerCut(random)
    throw new Error('the power went')
  }
  const running = await diskBroker(disk, {}, failpoint)
  for (const topic of TOPICS) await createTopic(running.broker, topic, PARTITIONS)
  left = nth
  const outcome: Outcome = { committed: [], aborted: [] }
  await work(running, flow, outcome).catch(() => {
    // The power went.
  })
  await whenIdle(running, () => survivor !== null)
  const reached = survivor !== null
  await running.close().catch(() => {
    // Its disk is gone.
  })
  const next = await diskBroker(survivor ?? disk.powerCut(random))
  await check(next, outcome)
  await next.close()
  return reached
}

/** The end of the last transaction is carried out after its answer. */
async function whenIdle(running: DiskBroker, isCut: () => boolean): Promise<void> {
  for (let turn = 0; turn < 200 && !isCut(); turn++) await new Promise((resolve) => setImmediate(resolve))
  if (!isCut()) await whenSettled(running.broker)
}

describe('a power cut in a transaction', () => {
  for (const flow of ['plain', 'bumping'] as const) {
    for (const name of STEPS) {
      it(`at ${name}, ${flow === 'plain' ? 'one epoch for all' : 'an epoch for each'}: all of it or nothing`, async () => {
        const seed = seedOr(1)
        let reached = 0
        const most = byLane({ quick: 2, ci: 12, full: 40 })
        for (let nth = 1; nth <= most; nth++) {
          // The steps of every log come by the dozen: a few of them, spread.
          const at = name.startsWith('log.') ? nth * 5 : nth
          if (await cutAt(name, at, flow, new SeededRandom(seed + nth))) reached++
        }
        assert.ok(reached > 0, 'the step was never reached')
      })
    }
  }
})
