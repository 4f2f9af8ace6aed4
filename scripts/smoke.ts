/**
 * Drives the log alone, without a server: append, roll, read, reopen, recover, DeleteRecords, retention, compaction, validate, on the
 * machine's disk. Prints each step with its figures; the first thing that is not as it was written ends it with exit 1.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { resolveTopicSettings } from '../src/broker/topics/topic-settings.ts'
import { SystemClock } from '../src/core/clock.ts'
import { NO_METRICS } from '../src/core/counters.ts'
import { crc32c } from '../src/core/crc32c.ts'
import { NO_FAILPOINT } from '../src/core/failpoint.ts'
import { SILENT } from '../src/core/logger.ts'
import { SystemRandom } from '../src/core/random.ts'
import { newUuid, type Uuid } from '../src/core/uuid.ts'
import { NodeHost } from '../src/io/host.ts'
import { NodeLoader } from '../src/io/loader.ts'
import { NodeDisk } from '../src/io/node-disk.ts'
import { codecOf, readBatchHeader } from '../src/record/batch.ts'
import { buildBatch, type NewRecord } from '../src/record/builder.ts'
import { CODEC, Codecs } from '../src/record/compression.ts'
import { readRecords, recordsSection } from '../src/record/record.ts'
import { Cleaner } from '../src/storage/compaction/cleaner.ts'
import { openIdentity } from '../src/storage/identity.ts'
import { LogManager } from '../src/storage/log-manager.ts'
import type { PartitionLog } from '../src/storage/partition-log.ts'
import { Retention } from '../src/storage/retention-pass.ts'
import type { LogConfig } from '../src/storage/types.ts'
import { validateLogs } from '../src/storage/validate.ts'

const MIB = 1024 * 1024
const DAY_MS = 86_400_000

const { values: options } = parseArgs({
  options: { data: { type: 'string' }, records: { type: 'string', default: '200000' }, 'record-bytes': { type: 'string', default: '200' } },
})
const records = Number(options.records)
const recordBytes = Number(options['record-bytes'])

const clock = new SystemClock()
const random = new SystemRandom()
const disk = new NodeDisk({ poolSize: 4 })
const codecs = new Codecs({ loader: new NodeLoader() })
const host = NodeHost.open()
/** The defaults of a topic, but small segments and no retention until its step. */
const config: LogConfig = {
  ...resolveTopicSettings(new Map(), new Map()).log,
  segmentBytes: MIB,
  retentionMs: -1,
  fileDeleteDelayMs: 0,
}

/** What was written: a checksum of key, value and header for each offset, so that memory stays small. */
const written: number[] = []
const topicId = newUuid(random)
let failed = false

function expect(isTrue: boolean, what: string): void {
  if (isTrue) return
  failed = true
  throw new Error(what)
}

async function step(name: string, work: () => Promise<string>): Promise<void> {
  const startedMs = clock.monotonicMs()
  const figures = await work()
  console.log(`${name.padEnd(12)} ${((clock.monotonicMs() - startedMs) / 1000).toFixed(2).padStart(7)} s  ${figures}`)
}

function perSecond(bytes: number, startedMs: number): string {
  return `${(bytes / MIB / Math.max((clock.monotonicMs() - startedMs) / 1000, 0.001)).toFixed(0)} MiB/s`
}

function recordAt(offset: number, timestampMs: number): NewRecord {
  const value = Buffer.alloc(recordBytes, 97 + (offset % 26))
  value.write(`value ${offset}`)
  const key = offset % 5 === 0 ? null : Buffer.from(`key-${offset % 1000}`)
  return { key, value, timestampMs, headers: offset % 7 === 0 ? [{ key: 'source', value: Buffer.from('smoke') }] : [] }
}

function sumOf(record: Pick<NewRecord, 'key' | 'value' | 'headers'>): number {
  const parts = [record.key ?? Buffer.from([0]), record.value ?? Buffer.from([0])]
  for (const header of record.headers ?? []) parts.push(Buffer.from(header.key), header.value ?? Buffer.from([0]))
  const bytes = Buffer.concat(parts)
  return crc32c(bytes, 0, bytes.length)
}

async function openManager(folder: string): Promise<LogManager> {
  return LogManager.open({ disk, clock, log: SILENT, host, codecs }, { dataFolder: folder })
}

function openLog(manager: LogManager, topic: string, id: Uuid, changes: Partial<LogConfig> = {}): Promise<PartitionLog> {
  return manager.open({ topic, partition: 0, topicId: id, config: { ...config, ...changes }, maxEpoch: 0 })
}

/** Batches of 1 to 200 records in every codec; at most 64 wait for the disk. Returns the bytes. */
async function append(log: PartitionLog, count: number): Promise<number> {
  let bytes = 0
  let waiting: Promise<void>[] = []
  const all = Object.values(CODEC)
  for (let offset = 0, round = 0; offset < count; round++) {
    const size = Math.min(1 + ((round * 37) % 200), count - offset)
    // Ages go from ten days to nothing, so that retention by time has something to take.
    const ageMs = 10 * DAY_MS * (1 - offset / count)
    const list = Array.from({ length: size }, (_, index) => recordAt(offset + index, Math.floor(clock.nowMs() - ageMs)))
    for (const record of list) written.push(sumOf(record))
    const batch = buildBatch(list, { codec: all[round % all.length] as number, compress: (codec, plain) => codecs.deflate(codec, plain) })
    bytes += batch.length
    await log.ready()
    const { lastOffset } = log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 })
    waiting.push(log.whenDurable(lastOffset + 1))
    if (waiting.length === 64) {
      await Promise.all(waiting)
      waiting = []
    }
    offset += size
  }
  await Promise.all(waiting)
  return bytes
}

/** Reads from the log's start to its end and compares every record with what was written. Returns records and bytes. */
async function readBack(log: PartitionLog): Promise<{ records: number; bytes: number }> {
  let found = 0
  let bytes = 0
  let expected = log.logStartOffset
  for (let next = log.logStartOffset; next < log.logEndOffset; ) {
    const read = await log.read({ offset: next, maxBytes: MIB, minOneBatch: true, limitOffset: log.highWatermark })
    try {
      expect(read.sizeBytes > 0, `nothing can be read at offset ${next}`)
      for (const buffer of read.buffers) {
        for (let at = 0; at < buffer.length; ) {
          const header = readBatchHeader(buffer, at)
          const section = codecs.inflate(codecOf(header), recordsSection(buffer, at, header))
          for (const record of readRecords(section, header)) {
            if (record.offset < log.logStartOffset) continue
            expect(record.offset === expected, `offset ${record.offset} was read, ${expected} is next`)
            expect(sumOf(record) === written[record.offset], `the record at offset ${record.offset} is not the one that was written`)
            expected++
            found++
          }
          at += header.sizeBytes
        }
      }
      bytes += read.sizeBytes
      next = read.nextOffset
    } finally {
      read.release()
    }
  }
  expect(expected === log.logEndOffset, `the last record read has offset ${expected - 1}, the log ends at ${log.logEndOffset}`)
  return { records: found, bytes }
}

async function run(folder: string): Promise<void> {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
  let manager = await openManager(folder)
  await openIdentity({ disk, random }, { folder, nodeId: 0 })
  let log = await openLog(manager, 'smoke', topicId)
  const readStep = (name: string) =>
    step(name, async () => {
      const startedMs = clock.monotonicMs()
      const read = await readBack(log)
      return `${read.records} records compared, ${(read.bytes / MIB).toFixed(1)} MiB, ${perSecond(read.bytes, startedMs)}`
    })
  await step('append', async () => {
    const startedMs = clock.monotonicMs()
    const bytes = await append(log, records)
    expect(log.durableOffset === records, `${log.durableOffset} of ${records} records are durable`)
    return `${records} records durable, ${(bytes / MIB).toFixed(1)} MiB in five codecs, ${perSecond(bytes, startedMs)}`
  })
  await step('roll', async () => {
    expect(log.segmentCount > 1, 'no segment was rolled; give more --records')
    return `${log.segmentCount} segments of up to ${config.segmentBytes / MIB} MiB`
  })
  await readStep('read')
  await step('reopen', async () => {
    await manager.close()
    manager = await openManager(folder)
    expect(manager.wasClean, 'the stop was in order and is not seen as such')
    log = await openLog(manager, 'smoke', topicId)
    expect(log.logEndOffset === records, `the log ends at ${log.logEndOffset}`)
    return 'after a stop in order'
  })
  await readStep('read')
  await step('recover', async () => {
    await manager.close()
    for (const name of ['moonmq-clean-shutdown', 'moonmq-recovery-points']) await rm(join(folder, name))
    const startedMs = clock.monotonicMs()
    manager = await openManager(folder)
    log = await openLog(manager, 'smoke', topicId)
    expect(log.logEndOffset === records && log.cuts.length === 0, `the log ends at ${log.logEndOffset} with ${log.cuts.length} cuts`)
    return `without marker and checkpoint: every byte verified, ${perSecond(log.sizeBytes, startedMs)}`
  })
  await readStep('read')
  await deleteAndRetain(folder, manager, log)
  await readStep('read')
  await compact(manager)
  await manager.close()
  await validate(folder)
}

const KEYS = 200

/** A log of its own: each key many times, a tombstone now and then. What is left must be the last record of each key, at its offset. */
async function compact(manager: LogManager): Promise<void> {
  const latestId = newUuid(random)
  const compacted = await openLog(manager, 'smoke-latest', latestId, { isCompacted: true, isDeleted: false, segmentBytes: MIB / 16 })
  const latest = new Map<string, number>()
  await step('compact', async () => {
    for (let offset = 0; offset < 20 * KEYS; ) {
      const list = Array.from({ length: 50 }, (_, index) => {
        const key = `key-${(offset + index * 7) % KEYS}`
        latest.set(key, offset + index)
        return { key: Buffer.from(key), value: Buffer.from(`value ${offset + index}`.repeat(5)), timestampMs: Math.floor(clock.nowMs()) }
      })
      const batch = buildBatch(list)
      const { lastOffset } = compacted.append(batch, readBatchHeader(batch), { leaderEpoch: 0 })
      await compacted.whenDurable(lastOffset + 1)
      offset = lastOffset + 1
    }
    // What is compacted must lie below a recovery point that is saved.
    await manager.checkpoint()
    const before = compacted.sizeBytes
    const cleaner = new Cleaner({ logs: manager, clock, log: SILENT, metrics: NO_METRICS }, () => ({
      isEnabled: true,
      keyBudgetBytes: 16 * MIB,
      maxBytesPerSecond: Number.POSITIVE_INFINITY,
    }))
    await cleaner.run(new AbortController().signal)
    const found = await recordsOf(compacted)
    for (const [key, offset] of latest) expect(found.get(offset) === key, `the last record of ${key}, at offset ${offset}, is gone`)
    expect(compacted.sizeBytes < before, `compaction freed nothing of ${before} bytes`)
    return `${20 * KEYS} records of ${KEYS} keys: ${before} bytes became ${compacted.sizeBytes}, ${found.size} records are left`
  })
}

/** Key by offset. */
async function recordsOf(log: PartitionLog): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (let next = log.logStartOffset; next < log.logEndOffset; ) {
    const read = await log.read({ offset: next, maxBytes: MIB, minOneBatch: true, limitOffset: log.highWatermark })
    for (const buffer of read.buffers) {
      for (let at = 0; at < buffer.length; ) {
        const header = readBatchHeader(buffer, at)
        for (const record of readRecords(recordsSection(buffer, at, header), header)) found.set(record.offset, String(record.key))
        at += header.sizeBytes
      }
    }
    next = read.nextOffset
    read.release()
  }
  return found
}

async function deleteAndRetain(folder: string, manager: LogManager, log: PartitionLog): Promise<void> {
  await step('delete', async () => {
    const before = log.segmentCount
    log.advanceLogStart(Math.floor(records / 10))
    await manager.checkpoint()
    expect(log.logStartOffset === Math.floor(records / 10), `the log starts at ${log.logStartOffset}`)
    return `records below ${log.logStartOffset} deleted, ${before - log.segmentCount} segments gone`
  })
  const deps = { disk, clock, log: SILENT, metrics: NO_METRICS, failpoint: NO_FAILPOINT, logs: manager }
  const retention = await Retention.open(deps, { dataFolder: folder, intervalMs: () => 0 })
  const pass = async (name: string, changes: Partial<LogConfig>) =>
    step(name, async () => {
      const before = log.segmentCount
      const start = log.logStartOffset
      log.reconfigure({ ...config, ...changes })
      retention.hurry()
      await retention.pass(new AbortController().signal)
      expect(log.segmentCount < before && log.logStartOffset > start, `retention took nothing: ${before} segments, start ${start}`)
      return `${before - log.segmentCount} of ${before} segments gone, the log starts at ${log.logStartOffset}`
    })
  await pass('retain time', { retentionMs: 5 * DAY_MS })
  await pass('retain bytes', { retentionBytes: Math.floor(log.sizeBytes / 2) })
  await retention.close()
}

async function validate(folder: string): Promise<void> {
  await step('validate', async () => {
    const startedMs = clock.monotonicMs()
    const report = await validateLogs({ disk, clock, codecs }, { folder, known: null })
    for (const { file, reason } of report.problems) console.log(`  ${file}: ${reason}`)
    expect(report.problems.length === 0, `${report.problems.length} problems`)
    const { segments, batches, records: count, bytes } = report.totals
    return `${segments} segments, ${batches} batches, ${count} records, ${perSecond(bytes, startedMs)}; no problem`
  })
}

const given = options.data === undefined ? null : resolve(options.data)
const folder = given ?? (await mkdtemp(join(tmpdir(), 'moonmq-smoke-')))
if (given !== null && (await readdir(given).catch(() => [])).length > 0) {
  console.error(`smoke: ${given} is not empty; name a folder that is new`)
  process.exitCode = 2
} else {
  try {
    await run(folder)
    console.log(`smoke: all steps passed${given === null ? '' : `; the data is in ${given}`}`)
  } catch (error) {
    console.error(`smoke: ${failed ? 'MISMATCH' : 'failed'}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  } finally {
    if (given === null) await rm(folder, { recursive: true, force: true })
  }
}
