import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { FAILPOINT_NAMES, type Failpoint } from '../../../src/core/failpoint.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { systemError } from '../../../src/io/system-error.ts'
import { JOURNAL_BLOCK_BYTES } from '../../../src/storage/journal-format.ts'
import type { LogManager } from '../../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, openManager, type RecordedLine, readAll, TOPIC_ID } from '../../support/storage.ts'

const LOGS = 6
const ROUNDS = 9
const CUT = 4
const MOMENTS = FAILPOINT_NAMES.filter((name) => name.startsWith('journal.'))

interface World {
  disk: MemoryDisk
  boot: number
  epoch: number
  /** Offsets of each log that were acknowledged. */
  readonly acknowledged: Set<number>[]
}

async function openAll(world: World, failpoint?: Failpoint): Promise<{ manager: LogManager; logs: PartitionLog[] }> {
  const lines: RecordedLine[] = []
  const manager = await openManager(world.disk, {
    lines,
    boot: `boot-${world.boot}`,
    manager: { groupCommit: { journalFrom: 2 }, journalAreaBytes: 5 * JOURNAL_BLOCK_BYTES },
    ...(failpoint === undefined ? {} : { failpoint }),
  })
  // Whatever the moment, a journal that is not there was not needed.
  assert.deepEqual(
    lines.filter((line) => line.level === 'error'),
    [],
  )
  world.epoch++
  const logs: PartitionLog[] = []
  for (let partition = 0; partition < LOGS; partition++) {
    logs.push(await manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: world.epoch }))
  }
  return { manager, logs }
}

async function check(world: World, logs: readonly PartitionLog[]): Promise<void> {
  await Promise.all(
    logs.map(async (log, partition) => {
      const read = new Set((await readAll(log)).map(([offset]) => offset))
      for (const offset of world.acknowledged[partition] ?? []) assert.ok(read.has(offset), `partition ${partition} lost offset ${offset}`)
    }),
  )
}

async function work(world: World, { manager, logs }: { manager: LogManager; logs: readonly PartitionLog[] }): Promise<void> {
  const round = () =>
    Promise.all(
      logs.map(async (log, partition) => {
        const { lastOffset } = appendTo(log, [`${partition} ${'x'.repeat(300)}`], { epoch: world.epoch })
        await log.whenDurable(lastOffset + 1)
        world.acknowledged[partition]?.add(lastOffset)
      }),
    )
  for (let done = 0; done < ROUNDS; done++) await round()
  const [first] = logs
  world.acknowledged[0] = new Set([...(world.acknowledged[0] ?? [])].filter((offset) => offset < CUT))
  await first?.truncateTo(CUT)
  for (let done = 0; done < 2; done++) await round()
  await manager.checkpoint()
}

/** One life of the process. Ends at the moment, or with everything done. Whether the moment came. */
async function live(world: World, way: 'power' | 'kill', moment: string, closes: boolean): Promise<boolean> {
  let survivor: MemoryDisk | null = null
  const cut = () => (way === 'power' ? world.disk.powerCut(new SeededRandom(world.boot)) : world.disk.processKilled())
  const failpoint: Failpoint = (name) => {
    if (survivor === null && name === moment) survivor = cut()
    if (survivor !== null) throw systemError('EIO', name, undefined, 'the end')
  }
  try {
    const open = await openAll(world, failpoint)
    await check(world, open.logs)
    await work(world, open)
    if (closes) await open.manager.close()
  } catch (error) {
    if (survivor === null) throw error
  }
  const came = survivor !== null
  world.disk = survivor ?? cut()
  if (way === 'power') world.boot++
  return came
}

for (const moment of MOMENTS) {
  for (const way of ['power', 'kill'] as const) {
    test(`${way === 'power' ? 'the power goes' : 'the process dies'} at ${moment}`, async () => {
      const disk = new MemoryDisk({ clock: new SystemClock() })
      const world: World = { disk, boot: 1, epoch: 0, acknowledged: Array.from({ length: LOGS }, () => new Set<number>()) }
      let came = 0
      // The first life leaves a journal, unless it dies in it; the second begins with one; the third ends in order.
      for (const closes of [false, false, true, true]) came += (await live(world, way, moment, closes)) ? 1 : 0
      assert.ok(came > 0, `${moment} did not come`)
      const open = await openAll(world)
      await check(world, open.logs)
      await open.manager.close()
    })
  }
}
