import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { readBatchHeader } from '../../src/record/batch.ts'
import type { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { batchOf, CountingDisk, openLog, openManager } from './setup.ts'

export const PARTITIONS = 1000
const ROUNDS = 25
const VALUE_BYTES = [100, 1024]
/** Before anything is measured: a broker that gets such moments has compiled its code. */
const WARM_ROUNDS = 25

export interface Moment {
  readonly ms: number
  readonly syncs: number
}

/**
 * Every partition gets one small record in the same turn; measured from the first append until the last of them is durable. The batches
 * are there before, as those of a producer are when the log gets them.
 */
export async function moment(logs: readonly PartitionLog[], disk: CountingDisk, template: Buffer): Promise<Moment> {
  const arrived = logs.map((log) => {
    const batch = Buffer.from(template)
    return { log, batch, header: readBatchHeader(batch) }
  })
  const { syncs } = disk
  const startMs = performance.now()
  await Promise.all(
    arrived.map(({ log, batch, header }) => {
      const appended = log.append(batch, header, { leaderEpoch: 0 })
      return log.whenDurable(appended.lastOffset + 1)
    }),
  )
  return { ms: performance.now() - startMs, syncs: disk.syncs - syncs }
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

/** Moments in which 1,000 partitions each get one small record: with the journal and with one sync for each file, turn by turn. */
export async function manyPartitions(folder: string): Promise<void> {
  for (const valueBytes of VALUE_BYTES) await manyOfSize(folder, valueBytes)
}

async function manyOfSize(folder: string, valueBytes: number): Promise<void> {
  const template = batchOf(1, valueBytes)
  const kinds = [
    { name: 'journal', journalFrom: 8 },
    { name: 'one sync for each file', journalFrom: 0 },
  ]
  const opened: { name: string; manager: LogManager; disk: CountingDisk; logs: PartitionLog[]; moments: Moment[]; first: Moment }[] = []
  for (const [index, { name, journalFrom }] of kinds.entries()) {
    const disk = new CountingDisk()
    const manager = await openManager(join(folder, `many-${index}`), { groupCommit: { journalFrom }, maxOpenFiles: 4000 }, disk)
    const logs: PartitionLog[] = []
    for (let partition = 0; partition < PARTITIONS; partition++) logs.push(await openLog(manager, partition))
    // The journal is made in the background.
    await pause(1000)
    opened.push({ name, manager, disk, logs, moments: [], first: await moment(logs, disk, template) })
  }
  for (let round = 0; round < WARM_ROUNDS + ROUNDS; round++) {
    for (const each of opened) {
      const one = await moment(each.logs, each.disk, template)
      if (round >= WARM_ROUNDS) each.moments.push(one)
    }
  }
  for (const { name, first, moments } of opened) {
    const ms = moments.map((each) => each.ms)
    const syncs = median(moments.map((each) => each.syncs))
    console.log(
      `${PARTITIONS} partitions, one record of ${valueBytes} bytes each: ${name.padEnd(24)} ${median(ms).toFixed(1).padStart(7)} ms (${Math.min(...ms).toFixed(1)} to ${Math.max(...ms).toFixed(1)})  ${syncs} syncs; first of an epoch ${first.ms.toFixed(0)} ms, ${first.syncs} syncs`,
    )
  }
  const [journal, files] = opened.map((each) => median(each.moments.map((one) => one.ms)))
  console.log(`journal / one sync for each file: ${((journal ?? 0) / (files ?? 1)).toFixed(3)}`)
  for (const { manager } of opened) await manager.close()
  for (const index of kinds.keys()) await rm(join(folder, `many-${index}`), { recursive: true, force: true })
}
