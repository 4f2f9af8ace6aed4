import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode } from '../../../src/core/errors.ts'
import { type Failpoint, NO_FAILPOINT } from '../../../src/core/failpoint.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { JOURNAL_BLOCK_BYTES, JOURNAL_FILE } from '../../../src/storage/journal-format.ts'
import type { LogManager, LogManagerOptions } from '../../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import type { LogConfig } from '../../../src/storage/types.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, DATA_FOLDER, openManager, readAll, TOPIC_ID } from '../../support/storage.ts'

const COUNT = 40
const LOST = { writes: 'none', names: 'none' } as const

interface Opened {
  readonly disk: MemoryDisk
  readonly manager: LogManager
  readonly logs: PartitionLog[]
}

async function open(
  disk: MemoryDisk,
  boot: string,
  config: Partial<LogConfig> = {},
  options: Partial<LogManagerOptions> = {},
  failpoint: Failpoint = NO_FAILPOINT,
): Promise<Opened> {
  const manager = await openManager(disk, {
    boot,
    failpoint,
    manager: { groupCommit: { journalFrom: 4 }, journalAreaBytes: 32 * JOURNAL_BLOCK_BYTES, ...options },
  })
  const logs: PartitionLog[] = []
  for (let partition = 0; partition < COUNT; partition++) {
    logs.push(await manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: { ...LOG_CONFIG, ...config }, maxEpoch: 100 }))
  }
  return { disk, manager, logs }
}

async function moment(logs: readonly PartitionLog[], epoch = 0): Promise<void> {
  await Promise.all(logs.map((log) => log.whenDurable(appendTo(log, [`${log.logEndOffset}`], { epoch }).lastOffset + 1)))
}

function fileBytes({ disk }: Opened, partition: number, base = 0): number {
  return disk.peek(`${DATA_FOLDER}/t-${partition}/${String(base).padStart(20, '0')}.log`)?.length ?? 0
}

/** One record of each log is in its file; the next one of each is acknowledged and in the journal alone. */
async function answered(config: Partial<LogConfig> = {}, options: Partial<LogManagerOptions> = {}): Promise<Opened> {
  const opened = await open(new MemoryDisk({ clock: new SystemClock() }), 'boot-1', config, options)
  const { disk, logs } = opened
  await moment(logs)
  while (disk.counters(JOURNAL_FILE).syncs === 0) await new Promise(setImmediate)
  await written(opened)
  await moment(logs)
  for (const [partition, log] of logs.entries()) {
    assert.deepEqual([log.highWatermark, log.writtenOffset], [2, 1])
    assert.equal(fileBytes(opened, partition), log.sizeBytes / 2)
  }
  return opened
}

async function written(opened: Opened): Promise<void> {
  while (opened.logs.some((log) => log.writtenOffset < log.logEndOffset)) await new Promise(setImmediate)
}

async function expectAll({ logs }: Opened, records: number): Promise<void> {
  const expected = Array.from({ length: records }, (_, offset) => [offset, offset])
  for (const log of logs) assert.deepEqual(await readAll(log), expected, `partition ${log.partition}`)
}

test('between the answer and the write into its file a consumer reads a record, and every search finds it', async () => {
  const opened = await answered()
  const { logs } = opened
  await expectAll(opened, 2)
  for (const log of logs) {
    assert.equal((await log.offsetForTimestamp(1_700_000_000_000, 2))?.offset, 0)
    assert.deepEqual(await readAll(log, 1), [[1, 1]])
    log.tail.dropOldest()
    assert.deepEqual(await readAll(log, 0), [
      [0, 0],
      [1, 1],
    ])
    assert.equal(log.tail.dropOldest(), false)
  }
  await written(opened)
  for (const [partition, log] of logs.entries()) assert.equal(fileBytes(opened, partition), log.sizeBytes)
  await expectAll(opened, 2)
})

test('files are written a few at a time, so that nothing waits for all of them', async () => {
  const opened = await answered()
  await new Promise(setImmediate)
  const done = opened.logs.filter((log) => log.writtenOffset === 2).length
  assert.ok(done > 0 && done < COUNT, `${done} files`)
  await written(opened)
})

for (const way of ['power', 'kill'] as const) {
  test(`what was answered outlives the ${way === 'power' ? 'power' : 'process'} before any file has it, and with some that have it`, async () => {
    for (const turns of [0, 1, 2]) {
      const { disk } = await answered()
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      const left = way === 'power' ? disk.powerCut(new SeededRandom(turns), LOST) : disk.processKilled()
      const after = await open(left, way === 'power' ? 'boot-2' : 'boot-1')
      await expectAll(after, 2)
      await after.manager.close()
    }
  })
}

test('a stop, a truncation, a roll and a checkpoint see to it that the files have it', async () => {
  const stopped = await answered()
  await stopped.manager.close()
  await expectAll(await open(stopped.disk, 'boot-1'), 2)

  const cut = await answered()
  for (const log of cut.logs) await log.truncateTo(1)
  await expectAll(cut, 1)

  const rolled = await answered()
  await Promise.all(rolled.logs.map((log) => log.rollIdle()))
  await Promise.all(rolled.logs.map((log) => log.idle()))
  for (const [partition, log] of rolled.logs.entries())
    assert.deepEqual([log.segmentCount, fileBytes(rolled, partition)], [2, log.sizeBytes])

  const checked = await answered()
  await checked.manager.checkpoint()
  while (checked.logs.some((log) => log.recoveryPoint < 2)) await new Promise(setImmediate)
  for (const [partition, log] of checked.logs.entries()) assert.equal(fileBytes(checked, partition), log.sizeBytes)
})

test('batches that go to the file at once go behind those that are late, in the next segment too', async () => {
  const opened = await answered({ segmentBytes: 400 })
  const { logs } = opened
  await Promise.all(logs.slice(0, 3).map((log) => log.whenDurable(appendTo(log, ['x'.repeat(100)]).lastOffset + 1)))
  await Promise.all(logs.slice(0, 3).map((log) => log.whenDurable(appendTo(log, ['x'.repeat(200)]).lastOffset + 1)))
  await moment(logs)
  await written(opened)
  for (const [partition, log] of logs.entries()) {
    assert.equal((await readAll(log)).length, partition < 3 ? 5 : 3)
    const bytes = log.segments.reduce((sum, segment) => sum + fileBytes(opened, partition, segment.baseOffset), 0)
    assert.equal(bytes, log.sizeBytes)
  }
  const after = await open(opened.disk.powerCut(new SeededRandom(1), LOST), 'boot-2')
  for (const [partition, log] of after.logs.entries()) assert.equal((await readAll(log)).length, partition < 3 ? 5 : 3)
  await after.manager.close()
})

/** The disk takes the journal's frame and not the write into one file behind it. */
async function refused(options: Partial<LogManagerOptions> = {}): Promise<{ opened: Opened; log: PartitionLog }> {
  const opened = await answered({}, options)
  const log = opened.logs[5] as PartitionLog
  opened.disk.fail({ operation: 'write', path: /t-5\/.*\.log$/, times: 1e9, effect: { kind: 'shortWrite', keepBytes: 7 } })
  const next = log.whenDurable(appendTo(log, ['2']).lastOffset + 1)
  await assert.rejects(next, (error) => isCode(error, 'STORAGE_FULL'))
  assert.equal(log.state, 'failed')
  return { opened, log }
}

test('a disk that is full only when the file is written: what was answered is read, and is there when the log is opened again', async () => {
  const { opened, log } = await refused()
  const both = [
    [0, 0],
    [1, 1],
  ]
  assert.deepEqual(await readAll(log, 0, 64 * 1024, 2), both)
  await assert.rejects(log.reopen(1))
  assert.deepEqual(await readAll(log, 0, 64 * 1024, 2), both)
  opened.disk.clearFaults()
  await log.reopen(1)
  assert.deepEqual([log.state, (await readAll(log)).slice(0, 2)], ['online', both])
  await moment(opened.logs, 1)
  const after = await open(opened.disk.powerCut(new SeededRandom(1), LOST), 'boot-2')
  for (const each of after.logs) assert.equal((await readAll(each)).length, 3)
  await after.manager.close()
})

test('a disk that is full only when the file is written: the next process finds what was answered', async () => {
  for (const way of ['stop', 'kill', 'power'] as const) {
    const { opened } = await refused()
    opened.disk.clearFaults()
    if (way === 'stop') await opened.manager.close()
    const left = way === 'power' ? opened.disk.powerCut(new SeededRandom(1), LOST) : opened.disk.processKilled()
    const after = await open(left, way === 'power' ? 'boot-2' : 'boot-1')
    await expectAll(after, 2)
    await after.manager.close()
  }
})

test('a log that failed keeps in memory what it alone has, and the memory of all others stays bounded', async () => {
  const tailBytes = 64 * 1024
  const { opened, log } = await refused({ tailBytes })
  const { tailMemory } = opened.manager.deps
  const other = opened.logs[1] as PartitionLog
  for (let round = 0; round < 200; round++) await other.whenDurable(appendTo(other, ['x'.repeat(1000)]).lastOffset + 1)
  assert.ok(tailMemory.bytes <= tailBytes, `${tailMemory.bytes} bytes`)
  assert.ok(log.tail.bytes < 200, `${log.tail.bytes} bytes of the log that failed: what its file has is not kept`)
  assert.deepEqual(await readAll(log, 1, 64 * 1024, 2), [[1, 1]])
  opened.disk.clearFaults()
  await log.reopen(1)
  assert.equal(log.tail.bytes, 0)
  const kept = opened.logs.reduce((sum, each) => sum + each.tail.bytes, 0)
  assert.equal(tailMemory.bytes, kept)
})

test('an index is never ahead of its log, also where the journal has what is behind', async () => {
  let compare = (): void => {}
  let isReady = false
  const held: (() => void)[] = []
  let isHolding = false
  const isHeld = (label: string) => isHolding && label.startsWith('datasync')
  const arrive = (label: string) => (isHeld(label) ? new Promise<void>((resolve) => held.push(resolve)) : Promise.resolve())
  const disk = new MemoryDisk({ clock: new SystemClock(), completions: { arrive } })
  const opened = await open(disk, 'boot-1', { indexIntervalBytes: 0 }, {}, (name) => {
    isReady ||= name === 'journal.prepared'
    if (name === 'journal.late-written') compare()
  })
  const { logs } = opened
  await moment(logs)
  while (!isReady) await new Promise(setImmediate)
  const log = logs[9] as PartitionLog
  let lateBytes = 0
  const ahead: string[] = []
  compare = () => {
    const index = disk.peek(`${log.folder}/00000000000000000000.index`) ?? Buffer.alloc(8)
    const [position, length] = [index.readUInt32BE(index.length - 4), fileBytes(opened, 9)]
    if (position >= length && length > 0) ahead.push(`an entry for byte ${position}, the log has ${length}`)
    lateBytes = Math.max(lateBytes, log.segments[0]?.lateBytes ?? 0)
  }
  isHolding = true
  // The first four keep all syncs busy, so the last one's is not begun.
  for (const other of logs) if (other !== log) appendTo(other, ['x'.repeat(other.partition < 4 ? 70_000 : 1)])
  // Written in two parts: the first one is large and goes to the file at once, the second one is late.
  for (let record = 0; record < 1024 + 100; record++) appendTo(log, ['x'.repeat(20)])
  await written(opened)
  assert.ok(lateBytes > 0)
  assert.deepEqual(ahead, [])
  isHolding = false
  for (const end of held) end()
  await log.whenDurable(log.logEndOffset)
  const index = disk.peek(`${log.folder}/00000000000000000000.index`)
  assert.ok(index !== null && index.length > 1024, 'it is not left out either')
})
