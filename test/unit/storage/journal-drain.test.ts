import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { JOURNAL_BLOCK_BYTES, JOURNAL_FILE } from '../../../src/storage/journal-format.ts'
import type { LogManager, LogManagerOptions } from '../../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, DATA_FOLDER, openManager, readAll, TOPIC_ID } from '../../support/storage.ts'

/** A disk whose syncs of some files end when the test says so. */
class HeldDisk {
  readonly disk: MemoryDisk
  /** Which are held. */
  pattern: RegExp | null = null
  readonly begun: string[] = []
  readonly #held: (() => void)[] = []

  constructor(capacityBytes = Number.POSITIVE_INFINITY) {
    const arrive = (label: string): Promise<void> => {
      if (label.startsWith('datasync')) this.begun.push(label)
      return this.pattern?.test(label) === true ? new Promise((resolve) => this.#held.push(resolve)) : Promise.resolve()
    }
    this.disk = new MemoryDisk({ clock: new SystemClock(), completions: { arrive } }, { capacityBytes })
  }

  get held(): number {
    return this.#held.length
  }

  /** Those that are held end; others may be held from now on. */
  endHeld(): void {
    for (const end of this.#held.splice(0)) end()
  }

  release(): void {
    this.pattern = null
    this.endHeld()
  }
}

async function open(disk: MemoryDisk, count: number, options: Partial<LogManagerOptions> = {}) {
  const manager = await openManager(disk, {
    manager: { groupCommit: { journalFrom: 4 }, journalAreaBytes: 512 * JOURNAL_BLOCK_BYTES, ...options },
  })
  const logs: PartitionLog[] = []
  for (let partition = 0; partition < count; partition++) {
    logs.push(await manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }))
  }
  return { manager, logs }
}

function moment(logs: readonly PartitionLog[]): Promise<unknown> {
  return Promise.all(logs.map((log) => log.whenDurable(appendTo(log, ['x']).lastOffset + 1)))
}

async function turnsUntil(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(setImmediate)
}

/** All logs have records in their files, and the journal is in use. */
async function used(held: HeldDisk): Promise<{ manager: LogManager; logs: PartitionLog[] }> {
  const opened = await open(held.disk, 20)
  await moment(opened.logs)
  await turnsUntil(() => held.disk.peek(`${DATA_FOLDER}/moonmq-journal-note`) !== null)
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  await moment(opened.logs)
  await opened.manager.checkpoint()
  await turnsUntil(() => opened.logs.every((log) => log.recoveryPoint === log.logEndOffset))
  return opened
}

test('a file that is synced behind the journal holds up no record: what comes meanwhile goes to the journal', async () => {
  const held = new HeldDisk()
  const { manager, logs } = await used(held)
  await moment(logs)
  held.pattern = /datasync .*\/t-\d+\/.*\.log$/
  manager.deps.commit.drain()
  await turnsUntil(() => held.held > 0)
  for (let round = 0; round < 3; round++) await moment(logs)
  assert.deepEqual(new Set(logs.map((log) => log.highWatermark)), new Set([6]))
  // Not even its own sync is begun a second time while one runs.
  const begun = held.begun.filter((label) => held.pattern?.test(label))
  assert.equal(new Set(begun.slice(-held.held)).size, held.held)
  held.release()
  await manager.close()
  const after = await open(held.disk, 20)
  for (const log of after.logs) assert.equal((await readAll(log)).length, 6)
  await after.manager.close()
})

test('a file that is wanted durable while it is synced behind the journal is synced once more, behind that', async () => {
  const held = new HeldDisk()
  const { manager, logs } = await used(held)
  await moment(logs)
  held.pattern = /datasync .*\/t-\d+\/.*\.log$/
  manager.deps.commit.drain()
  await turnsUntil(() => held.held > 0)
  const label = held.begun[held.begun.length - 1] ?? ''
  const log = logs.find(({ folder }) => label.includes(`${folder}/`)) as PartitionLog
  const before = countOf(held, label)
  appendTo(log, ['x'.repeat(70_000)])
  let isSynced = false
  const wanted = log.whenSynced(log.logEndOffset).then(() => {
    isSynced = true
  })
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  assert.equal(countOf(held, label), before)
  held.endHeld()
  await turnsUntil(() => countOf(held, label) === before + 1)
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  assert.equal(isSynced, false, 'the first sync says nothing of what came after it began')
  held.release()
  await wanted
  await manager.close()
})

function countOf(held: HeldDisk, label: string): number {
  return held.begun.filter((each) => each === label).length
}

test('while a frame is synced the files behind the journal wait', async () => {
  const held = new HeldDisk()
  const { manager, logs } = await used(held)
  await moment(logs)
  held.pattern = new RegExp(`datasync .*${JOURNAL_FILE}$`)
  const waiting = moment(logs)
  await turnsUntil(() => held.held === 1)
  const begun = held.begun.length
  manager.deps.commit.drain()
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
  assert.equal(held.begun.length, begun)
  held.release()
  await waiting
  await turnsUntil(() => held.begun.length > begun)
  await manager.close()
})

test('the first records of many new logs wait for the journal that is being made, and for no file of theirs', async () => {
  const held = new HeldDisk()
  held.pattern = new RegExp(`datasync .*${JOURNAL_FILE}$`)
  const { manager, logs } = await open(held.disk, 80)
  const waiting = moment(logs)
  await turnsUntil(() => held.held === 1)
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  assert.deepEqual(
    held.begun.filter((label) => label.includes('/t-')),
    [],
  )
  held.release()
  held.pattern = /datasync .*\/t-\d+\//
  await waiting
  held.release()
  await manager.close()
})

test('a journal that cannot be made sends those who wait for it their own way', async () => {
  const held = new HeldDisk()
  held.pattern = new RegExp(`datasync .*${JOURNAL_FILE}$`)
  const { manager, logs } = await open(held.disk, 80)
  held.disk.fail({ operation: 'datasync', path: JOURNAL_FILE, effect: { kind: 'error', code: 'ENOSPC' } })
  const waiting = moment(logs)
  await turnsUntil(() => held.held === 1)
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  held.release()
  await waiting
  assert.deepEqual(new Set(logs.map((log) => log.highWatermark)), new Set([1]))
  await manager.close()
})

test('on a small volume the journal is small', async () => {
  for (const [capacityMiB, areaMiB] of [
    [40, 1],
    [320, 4],
  ] as const) {
    const { disk } = new HeldDisk(capacityMiB * 1024 * 1024)
    const { manager, logs } = await open(disk, 10, { journalAreaBytes: 64 * 1024 * 1024 })
    await moment(logs)
    await turnsUntil(() => disk.peek(`${DATA_FOLDER}/moonmq-journal-note`) !== null)
    const areas = ((disk.peek(`${DATA_FOLDER}/${JOURNAL_FILE}`)?.length ?? 0) - 2 * JOURNAL_BLOCK_BYTES) / 2 / 1024 / 1024
    assert.ok(areas <= areaMiB + 1 && areas > areaMiB - 1, `${areas} MiB`)
    await manager.close()
  }
})
