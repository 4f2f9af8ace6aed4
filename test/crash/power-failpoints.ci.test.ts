import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { deferred } from '../../src/core/deferred.ts'
import { FAILPOINT_NAMES, type Failpoint, NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { type EmbeddedBroker, startBroker } from '../../src/index.ts'
import { FailpointDisk } from '../../src/io/failpoints.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { systemError } from '../../src/io/system-error.ts'
import { IN_PROCESS_ONLY, nthsOf, SETTINGS, TURNS, wayTo } from '../support/failpoint-plan.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

const DATA = '/moonmq-data'
const ROUNDS = byLane({ quick: 1, ci: 3, full: 20 })
let nextPid = 1

interface Life {
  readonly broker: EmbeddedBroker | null
  readonly died: Promise<void>
  isDead(): boolean
  /** The disk that the next life finds. */
  survivor(): MemoryDisk
}

/** One boot of a machine whose power goes when the moment comes, in the very step. */
async function live(disk: MemoryDisk, random: SeededRandom, planned: { name: string; nth: number } | null): Promise<Life> {
  const died = deferred()
  let after: MemoryDisk | null = null
  let seen = 0
  const failpoint: Failpoint = (name) => {
    if (after !== null) throw systemError('EIO', name, undefined, 'the power was cut')
    if (name !== planned?.name || ++seen < planned.nth) return
    after = disk.powerCut(random)
    died.resolve()
    throw systemError('EIO', name, undefined, 'the power was cut')
  }
  const pid = nextPid++
  const host = new FixedHost({ pid, bootId: `boot-${pid}`, processes: new Map([[pid, '1']]) })
  const machine = {
    disk: planned === null ? disk : new FailpointDisk(disk, failpoint),
    host,
    failpoint: planned === null ? NO_FAILPOINT : failpoint,
  }
  let broker: EmbeddedBroker | null = null
  try {
    broker = await startBroker({ port: 0, dataDir: DATA, machine, config: SETTINGS })
  } catch (error) {
    if (after === null) throw error
  }
  return { broker, died: died.promise, isDead: () => after !== null, survivor: () => after ?? disk.powerCut(random) }
}

/** Half a batch at the end of the active segment of a partition, as a write leaves it that the power cut short. */
async function tear(disk: MemoryDisk): Promise<void> {
  const folder = `${DATA}/plain-0`
  // Made by the first write.
  if ((await disk.stat(folder)) === null) return
  const last = (await disk.list(folder)).filter(({ name }) => name.endsWith('.log')).at(-1)
  if (last === undefined) return
  const file = await disk.open(`${folder}/${last.name}`, 'write')
  await file.write([Buffer.alloc(77, 1)], file.sizeBytes)
  await file.datasync()
  await file.close()
}

async function workUntilDeath(life: Life, promises: Promises): Promise<void> {
  if (life.broker === null) return
  const kafka = await RawKafka.connect(life.broker.address)
  try {
    await Promise.race([promises.begin(kafka).then(() => promises.work(kafka, TURNS)), life.died])
  } catch (error) {
    if (!life.isDead()) throw error
  } finally {
    kafka[Symbol.dispose]()
  }
}

async function end(life: Life): Promise<void> {
  await life.broker?.close().catch((error: unknown) => {
    if (!life.isDead()) throw error
  })
}

/** Starts on what the death left, without faults; everything promised is there. Returns the disk of a machine whose power went after it. */
async function verify(disk: MemoryDisk, random: SeededRandom, promises: Promises): Promise<MemoryDisk> {
  const life = await live(disk, random, null)
  assert.ok(life.broker !== null)
  const kafka = await RawKafka.connect(life.broker.address)
  try {
    await promises.begin(kafka)
    await promises.check(kafka)
  } finally {
    kafka[Symbol.dispose]()
  }
  const survivor = life.survivor()
  await life.broker.close().catch(() => {
    // Its disk is gone: that is how this life ends.
  })
  return survivor
}

for (let round = 1; round <= ROUNDS; round++) {
  const seed = seedOr(round)
  test(`the power goes at every moment that has a name, in memory, seed ${seed}`, async (t) => {
    const random = new SeededRandom(seed)
    const promises = new Promises()
    let disk = await verify(new MemoryDisk({ clock: new SystemClock() }), random, promises)
    const missed: string[] = []
    for (const name of FAILPOINT_NAMES) {
      // The others: `fuzz/compaction-crash.ci.test.ts` and `journal-crash.test.ts` in memory, `upkeep-failpoints.ci.test.ts` with a process.
      if (IN_PROCESS_ONLY.has(name) || wayTo(name) !== 'work') continue
      for (const nth of nthsOf(name)) {
        await t.test(`${name}@${nth}`, async () => {
          await tear(disk)
          const life = await live(disk, random, { name, nth })
          await workUntilDeath(life, promises)
          await end(life)
          if (!life.isDead()) missed.push(`${name}@${nth}`)
          disk = await verify(life.survivor(), random, promises)
        })
      }
    }
    assert.deepEqual(missed, [], 'moments that this work never came to')
  })
}

test('the power goes at every rename of a first start', async (t) => {
  const random = new SeededRandom(1)
  for (const name of ['file.written', 'file.renamed'] as const) {
    for (let nth = 1, isReached = true; isReached; nth++) {
      await t.test(`${name}@${nth}`, async () => {
        const promises = new Promises()
        const life = await live(new MemoryDisk({ clock: new SystemClock() }), random, { name, nth })
        isReached = life.isDead()
        if (isReached) await verify(life.survivor(), random, promises)
        await end(life)
      })
    }
  }
})
