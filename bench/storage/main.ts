import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readBatchHeader } from '../../src/record/batch.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { deviceCosts } from './device.ts'
import { freshPartitions } from './fresh.ts'
import { manyPartitions } from './many.ts'
import { batchOf, openLog, openManager } from './setup.ts'

/**
 * Speed of the log alone, without a door: `node dist/bench/storage/main.js [seconds] [small|bulk|many|fresh|device]`; the command
 * itself has 16 threads, as `npm run bench` sets by UV_THREADPOOL_SIZE. Every acknowledgement comes after its sync.
 * Recovery and cold reads are from the page cache, so they show what the code costs and not what the device does.
 */
async function produce(log: PartitionLog, template: Buffer, untilMs: number, latencies: number[]): Promise<number> {
  let count = 0
  for (let now = performance.now(); now < untilMs; ) {
    const batch = Buffer.from(template)
    const appended = log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 })
    await log.whenDurable(appended.lastOffset + 1)
    count++
    const end = performance.now()
    latencies.push(end - now)
    now = end
  }
  return count
}

function percentile(sorted: readonly number[], part: number): string {
  return `${(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0).toFixed(2)} ms`
}

function report(name: string, count: number, seconds: number, bytes: number, cpuMicros: number, latencies: number[]): void {
  latencies.sort((a, b) => a - b)
  const rate = Math.round(count / seconds).toLocaleString('en')
  const mb = (bytes / seconds / 1e6).toFixed(0)
  console.log(
    `${name.padEnd(44)} ${rate.padStart(9)}/s ${mb.padStart(6)} MB/s   p50 ${percentile(latencies, 0.5)}  p99 ${percentile(latencies, 0.99)}  cpu ${(cpuMicros / count).toFixed(1)} µs`,
  )
}

/** `writers` connections, each with one batch under way. */
async function produceAll(name: string, logs: PartitionLog[], writers: number, template: Buffer, seconds: number): Promise<number> {
  const latencies: number[] = []
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  const until = startMs + seconds * 1000
  const counts = await Promise.all(
    Array.from({ length: writers }, (_, index) => produce(logs[index % logs.length] as PartitionLog, template, until, latencies)),
  )
  const total = counts.reduce((sum, each) => sum + each, 0)
  const used = process.cpuUsage(cpu)
  report(name, total, (performance.now() - startMs) / 1000, total * template.length, used.user + used.system, latencies)
  return total
}

async function readThrough(name: string, log: PartitionLog, maxBytes: number): Promise<void> {
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  let bytes = 0
  let reads = 0
  for (let offset = log.logStartOffset; offset < log.highWatermark; reads++) {
    const read = await log.read({ offset, maxBytes, minOneBatch: true, limitOffset: log.highWatermark })
    bytes += read.sizeBytes
    offset = read.nextOffset
    read.release()
  }
  const seconds = (performance.now() - startMs) / 1000
  const used = process.cpuUsage(cpu)
  console.log(
    `${name.padEnd(44)} ${Math.round(reads / seconds)
      .toLocaleString('en')
      .padStart(9)}/s ${(bytes / seconds / 1e6).toFixed(0).padStart(6)} MB/s   cpu ${((used.user + used.system) / reads).toFixed(1)} µs`,
  )
}

async function timed(name: string, bytes: number, work: () => Promise<unknown>): Promise<void> {
  const startMs = performance.now()
  await work()
  const ms = performance.now() - startMs
  console.log(`${name.padEnd(44)} ${ms.toFixed(0).padStart(9)} ms ${(bytes / ms / 1000).toFixed(0).padStart(6)} MB/s`)
}

async function main(): Promise<void> {
  const seconds = Number(process.argv[2] ?? 3)
  const only = process.argv[3] ?? ''
  const journalFrom = Number(process.env['JOURNAL_FROM'] ?? 8)
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-bench-'))
  try {
    if (only === '' || only === 'many') await manyPartitions(folder)
    if (only === '' || only === 'fresh') await freshPartitions(folder)
    if (only === '' || only === 'device') await deviceCosts(folder)
    if (['many', 'fresh', 'device'].includes(only)) return
    let manager = await openManager(folder, { groupCommit: { journalFrom } })
    const logs = await Promise.all([0, 1, 2, 3].map((partition) => openLog(manager, partition)))
    const first = logs[0] as PartitionLog
    const small = batchOf(1, 1024)
    const large = batchOf(125, 1024)
    if (only === '' || only === 'small') {
      await produceAll('1 KiB, 1 connection, 1 partition', [first], 1, small, seconds)
      await produceAll('1 KiB, 64 connections, 1 partition', [first], 64, small, seconds)
      await produceAll('1 KiB, 64 connections, 4 partitions', logs, 64, small, seconds)
    }
    if (only === '' || only === 'bulk') {
      await produceAll('128 KiB batches, 4 partitions, 4 in flight', logs, 16, large, seconds)
      await produceAll('128 KiB batches, 4 partitions, 16 in flight', logs, 64, large, seconds)
    }
    if (only !== '') return
    await readThrough('read through, 1 MiB', first, 1024 * 1024)
    await readThrough('read through, 64 KiB', first, 64 * 1024)
    const bytes = logs.reduce((sum, log) => sum + log.sizeBytes, 0)
    await timed(`clean stop, 4 partitions of ${(bytes / 4e6).toFixed(0)} MB`, bytes, () => manager.close())
    await timed('clean start', bytes, async () => {
      manager = await openManager(folder)
      for (let partition = 0; partition < 4; partition++) await openLog(manager, partition)
    })
    await manager.close()
    await rm(join(folder, 'moonmq-clean-shutdown'), { force: true })
    await rm(join(folder, 'moonmq-recovery-points'), { force: true })
    await timed('recovery without any checkpoint', bytes, async () => {
      manager = await openManager(folder)
      await Promise.all([0, 1, 2, 3].map((partition) => openLog(manager, partition)))
    })
    await manager.close()
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

await main()
