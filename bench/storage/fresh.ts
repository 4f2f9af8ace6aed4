import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { median, moment, PARTITIONS } from './many.ts'
import { batchOf, CountingDisk, openLog, openManager } from './setup.ts'

const ROUNDS = 100
const INTERVAL_MS = 60

/** Moments in which 1,000 partitions each get one small record, beginning with partitions that nobody wrote to before: while their files are made and synced behind the journal. */
export async function freshPartitions(folder: string): Promise<void> {
  const template = batchOf(1, 1024)
  const disk = new CountingDisk()
  const areaMiB = Number(process.env['JOURNAL_AREA_MIB'] ?? 64)
  const manager = await openManager(join(folder, 'fresh'), { maxOpenFiles: 4000, journalAreaBytes: areaMiB * 1024 * 1024 }, disk)
  const logs = []
  for (let partition = 0; partition < PARTITIONS; partition++) logs.push(await openLog(manager, partition))
  // The journal is made in the background.
  await pause(3000)
  const moments = []
  for (let round = 0; round < ROUNDS; round++) {
    const one = await moment(logs, disk, template)
    moments.push(one)
    await pause(Math.max(0, INTERVAL_MS - one.ms))
  }
  const [first, ...others] = moments
  const ms = others.map((each) => each.ms).sort((a, b) => a - b)
  const syncs = others.map((each) => each.syncs).sort((a, b) => a - b)
  const p90 = Math.floor(ms.length * 0.9)
  console.log(
    `${PARTITIONS} new partitions, one record each every ${INTERVAL_MS} ms, areas of ${areaMiB} MiB: first ${first?.ms.toFixed(0)} ms, then ${median(ms).toFixed(1)} ms (p90 ${ms[p90]?.toFixed(0)}, slowest ${ms[ms.length - 1]?.toFixed(0)}), ${median(syncs)} syncs meanwhile (p90 ${syncs[p90]}, most ${syncs[syncs.length - 1]})`,
  )
  await manager.close()
  await rm(join(folder, 'fresh'), { recursive: true, force: true })
}
