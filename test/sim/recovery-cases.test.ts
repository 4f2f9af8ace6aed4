import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { ROOT_FILES } from '../../src/storage/checkpoint.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { checkIndexes, scanFile } from '../support/index-check.ts'
import { LOG_CONFIG } from '../support/log-config.ts'
import { type Simulation, simulate } from '../support/simulation.ts'
import { appendTo, DATA_FOLDER, diskWith, filesOf, openHarness, readAll, store, TOPIC_ID } from '../support/storage.ts'

/**
 * Cases of recovery that brokers got wrong before, each at every point where it can happen: a marker of a clean stop that outlives its
 * truth (KAFKA-10471), torn tails and damaged indexes (KAFKA-5829), records that were acknowledged just before the power went
 * (Jepsen's analysis of NATS 2.12.1).
 */
const FOLDER = `${DATA_FOLDER}/t-0`
const MARKER = `${DATA_FOLDER}/${ROOT_FILES['clean-shutdown']}`
/** More events than any start, append or stop here takes. */
const MANY = 2000

interface Started {
  readonly manager: LogManager
  readonly log: PartitionLog
}

async function start(sim: Simulation, disk: MemoryDisk, boot: string, pid: number, epoch = 0): Promise<Started> {
  const host = new FixedHost({ pid, bootId: boot, processes: new Map([[pid, '1']]) })
  const manager = await LogManager.open({ disk, clock: sim.scheduler, log: SILENT, host }, { dataFolder: DATA_FOLDER })
  const config = { ...LOG_CONFIG, segmentBytes: 400, indexIntervalBytes: 0 }
  return { manager, log: await manager.open({ topic: 't', partition: 0, topicId: TOPIC_ID, config, maxEpoch: epoch }) }
}

function newDisk(sim: Simulation): MemoryDisk {
  return new MemoryDisk({ clock: sim.scheduler, completions: sim.scheduler })
}

async function driven<T>(sim: Simulation, work: Promise<T>): Promise<T> {
  return (await sim.drive(work)) as T
}

/** The bytes of a write that a crash cut short, behind what the active segment holds. */
async function plantTornTail(sim: Simulation, disk: MemoryDisk, name: string): Promise<void> {
  const file = disk.openNow(`${FOLDER}/${name}`, 'write')
  file.writeNow([Buffer.alloc(30, 7)], file.sizeBytes)
  await driven(sim, file.datasync())
  await driven(sim, file.close())
}

/** Stops in order, then dies at event `point` of the next start. False when the start was over before. */
async function dieDuringStart(sim: Simulation, point: number, way: 'kill' | 'power'): Promise<boolean> {
  let disk = newDisk(sim)
  const first = await driven(sim, start(sim, disk, 'boot-1', 1))
  for (const value of ['a', 'b', 'c', 'd', 'e']) await driven(sim, store(first.log, [value.repeat(60)]))
  await driven(sim, first.manager.close())
  const end = first.log.logEndOffset
  disk = disk.processKilled()

  const second = await sim.drive(start(sim, disk, 'boot-1', 2, 0), () => sim.steps >= point)
  sim.scheduler.forget()
  disk = way === 'kill' ? disk.processKilled() : disk.powerCut(new SeededRandom(point))
  const hadMarker = disk.peek(MARKER) !== null
  const active = [...(await driven(sim, filesOf(disk))).keys()].filter((path) => path.endsWith('.log')).pop() as string
  await plantTornTail(sim, disk, active.slice(FOLDER.length + 1))

  const third = await driven(sim, start(sim, disk, way === 'kill' ? 'boot-1' : 'boot-2', 3, 1))
  assert.equal(third.manager.wasClean, hadMarker, 'a start is clean only with the marker of the stop before it')
  assert.equal(disk.peek(MARKER), null)
  assert.equal(third.log.logEndOffset, end)
  assert.equal(third.log.cuts.length, 1)
  const appended = await driven(sim, store(third.log, ['f'], { epoch: 1 }))
  assert.equal(appended.baseOffset, end)
  assert.equal((await driven(sim, readAll(third.log))).length, end + 1)
  await driven(sim, third.manager.close())
  checkIndexes(await driven(sim, filesOf(disk)), FOLDER, 0)
  return second === undefined
}

for (const way of ['kill', 'power'] as const) {
  test(`a start after a clean stop that dies at any point (${way}) does not leave its marker behind`, async (t) => {
    // Points of the start only: the stop before it takes as many events in every run of one seed.
    let deaths = 0
    for (let point = 0; point < MANY; point++) {
      let died = false
      await simulate(7, async (sim) => {
        died = await dieDuringStart(sim, point, way)
      })
      if (!died) break
      deaths++
      if (point === 0) point = await firstPoint()
    }
    t.diagnostic(`${deaths} points`)
    assert.ok(deaths > 10)
  })
}

/** Events until the second start of the case begins, less one. */
async function firstPoint(): Promise<number> {
  let events = 0
  await simulate(7, async (sim) => {
    const disk = newDisk(sim)
    const { log, manager } = await driven(sim, start(sim, disk, 'boot-1', 1))
    for (const value of ['a', 'b', 'c', 'd', 'e']) await driven(sim, store(log, [value.repeat(60)]))
    await driven(sim, manager.close())
    events = sim.steps
  })
  return events
}

test('the power goes at any point between an append and its acknowledgement, keeping nothing that was not synced', async (t) => {
  let points = 0
  for (let point = 20; point < MANY; point++) {
    let isOver = false
    await simulate(11, async (sim) => {
      const disk = newDisk(sim)
      const acknowledged: number[] = []
      const work = (async () => {
        const { log } = await start(sim, disk, 'boot-1', 1)
        for (let value = 0; value < 12; value++) {
          const { lastOffset } = appendTo(log, [`${value}`.repeat(80)])
          await log.whenDurable(lastOffset + 1)
          acknowledged.push(lastOffset)
        }
        isOver = true
      })()
      await sim.drive(work, () => sim.steps >= point)
      sim.scheduler.forget()
      const left = disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
      const { log } = await driven(sim, start(sim, left, 'boot-2', 2, 1))
      const found = await driven(sim, readAll(log))
      assert.deepEqual(
        found.slice(0, acknowledged.length),
        acknowledged.map((offset) => [offset, offset]),
      )
      assert.ok(log.logEndOffset >= acknowledged.length, 'offsets that were acknowledged are given again')
    })
    points++
    if (isOver) break
  }
  t.diagnostic(`${points} points`)
  assert.ok(points > 50)
})

test('the marker of a stop does not come back with a power cut', async () => {
  await simulate(3, async (sim) => {
    const disk = newDisk(sim)
    const first = await driven(sim, start(sim, disk, 'boot-1', 1))
    await driven(sim, first.manager.close())
    const again = disk.processKilled()
    const second = await driven(sim, start(sim, again, 'boot-1', 2))
    assert.ok(second.manager.wasClean)
    sim.scheduler.forget()
    const left = again.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
    assert.equal((await driven(sim, start(sim, left, 'boot-2', 3, 1))).manager.wasClean, false)
  })
})

test('checkpoints that are asked for during a stop leave the stop its own, in any order', async () => {
  for (let seed = 0; seed < 40; seed++) {
    await simulate(seed, async (sim) => {
      const disk = newDisk(sim)
      const { log, manager } = await driven(sim, start(sim, disk, 'boot-1', 1))
      await driven(sim, store(log, ['a']))
      const checkpoint = async () => {
        for (let count = sim.random.below(20); count > 0; count--) await sim.pause('upkeep')
        await manager.checkpoint()
      }
      await driven(sim, Promise.all([manager.close(), checkpoint(), checkpoint()]))
      assert.ok((await driven(sim, start(sim, disk.processKilled(), 'boot-1', 2))).manager.wasClean)
    })
  }
})

test('a truncation dies at any point, with checkpoints beside it, and the log opens again', async (t) => {
  let points = 0
  for (let isOver = false; !isOver; points++) {
    // The order is another one at each point.
    await simulate(1000 + points, async (sim) => {
      const disk = newDisk(sim)
      const { log, manager } = await driven(sim, start(sim, disk, 'boot-1', 1))
      for (let value = 0; value < 8; value++) await driven(sim, store(log, [`${value}`.repeat(80)]))
      await driven(sim, manager.checkpoint())
      const last = sim.steps + points
      const checkpoints = async () => {
        for (let count = 0; count < 8; count++) await manager.checkpoint()
      }
      const done = await sim.drive(Promise.all([log.truncateTo(2).then(() => true), checkpoints()]), () => sim.steps >= last)
      isOver = done !== undefined
      sim.scheduler.forget()
      const again = await driven(sim, start(sim, disk.processKilled(), 'boot-1', 2, 1))
      const end = again.log.logEndOffset
      assert.ok(isOver ? end === 2 : end >= 2 && end <= 8, `the log ends at ${end}`)
      assert.equal((await driven(sim, readAll(again.log))).length, end)
    })
  }
  t.diagnostic(`${points} points`)
  assert.ok(points > 20)
})

// ---- torn tails and damaged indexes ---------------------------------------------------------------------------------------

const SMALL = { segmentBytes: 400, indexIntervalBytes: 0 }

/** A folder with several segments, closed in order. */
async function closedFolder(): Promise<Map<string, Buffer>> {
  const { log, manager, disk } = await openHarness({ config: SMALL })
  for (let value = 0; value < 10; value++) await store(log, [`${value}`.repeat(50), 'x'])
  await manager.close()
  return filesOf(disk)
}

/** The same as a crash leaves it: without the marker, and with a recovery point that was saved before any of it. */
async function crashedFolder(): Promise<Map<string, Buffer>> {
  const files = await closedFolder()
  files.delete(MARKER)
  files.delete(`${DATA_FOLDER}/${ROOT_FILES['recovery-points']}`)
  return files
}

/** Opens the folder, compares what is read with the batches that must be left, writes on, closes, and scans the files. */
async function expectBatches(files: ReadonlyMap<string, Buffer>, batches: readonly (readonly [number, number])[]): Promise<void> {
  const { log, manager, disk } = await openHarness({ disk: await diskWith(files), config: SMALL })
  assert.deepEqual(await readAll(log), batches)
  for (const [base, last] of batches) assert.deepEqual((await readAll(log, last, 1))[0], [base, last])
  await store(log, ['next'], { epoch: 1 })
  await manager.close()
  assert.equal(checkIndexes(await filesOf(disk), FOLDER, 0).length, batches.length + 1)
}

test('the last batch is cut at each byte, with nothing, zeros or noise behind it', async () => {
  const files = await crashedFolder()
  const active = [...files.keys()].filter((path) => path.endsWith('.log')).pop() as string
  const bytes = files.get(active) as Buffer
  const batches = [...files].filter(([path]) => path.endsWith('.log')).flatMap(([, each]) => scanFile(each))
  const last = batches[batches.length - 1] as (typeof batches)[number]
  const left = batches.slice(0, -1).map((batch) => [batch.baseOffset, batch.lastOffset] as const)
  const noise = new SeededRandom(5).bytes(100)
  for (let cut = 0; cut < last.sizeBytes; cut++) {
    const kept = bytes.subarray(0, last.position + cut)
    const tail = [Buffer.alloc(0), Buffer.alloc(100), noise][cut % 3] as Buffer
    await expectBatches(new Map(files).set(active, Buffer.concat([kept, tail])), left)
  }
})

const DAMAGES: readonly ((bytes: Buffer) => Buffer | null)[] = [
  () => null,
  () => Buffer.alloc(0),
  (bytes) => bytes.subarray(0, bytes.length - 3),
  (bytes) => Buffer.concat([bytes, Buffer.alloc(24)]),
  (bytes) => new SeededRandom(3).bytes(bytes.length),
  (bytes) => Buffer.from(bytes).fill(0xff, bytes.length - 8),
]

/** The folder with one index damaged, for each index and each damage. */
function* damagedIndexes(files: ReadonlyMap<string, Buffer>): Generator<Map<string, Buffer>> {
  const indexes = [...files.keys()].filter((path) => /\.(time)?index$/.test(path))
  assert.ok(indexes.length >= 4)
  for (const path of indexes) {
    for (const damage of DAMAGES) {
      const copy = new Map(files)
      const bytes = damage(files.get(path) as Buffer)
      if (bytes === null) copy.delete(path)
      else copy.set(path, bytes)
      yield copy
    }
  }
}

function batchesOf(files: ReadonlyMap<string, Buffer>): (readonly [number, number])[] {
  const logs = [...files].filter(([path]) => path.endsWith('.log'))
  return logs.flatMap(([, bytes]) => scanFile(bytes)).map((batch) => [batch.baseOffset, batch.lastOffset] as const)
}

test('after a crash, each index that is missing, cut, padded, foreign or beyond its log is made again', async () => {
  const files = await crashedFolder()
  for (const damaged of damagedIndexes(files)) await expectBatches(damaged, batchesOf(files))
})

test('after a stop in order, no damaged index leads a reader astray', async () => {
  const files = await closedFolder()
  const batches = batchesOf(files)
  for (const damaged of damagedIndexes(files)) {
    const { log, manager } = await openHarness({ disk: await diskWith(damaged), config: SMALL })
    assert.ok(manager.wasClean)
    for (const [base, last] of batches) assert.deepEqual((await readAll(log, last, 1))[0], [base, last])
    assert.deepEqual(await readAll(log), batches)
    assert.equal((await store(log, ['next'])).baseOffset, log.logEndOffset - 1)
    await manager.close()
  }
})
