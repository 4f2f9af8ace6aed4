import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { JOURNAL_BLOCK_BYTES, JOURNAL_FILE } from '../../../src/storage/journal-format.ts'
import type { LogManager, LogManagerOptions } from '../../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, DATA_FOLDER, openManager, type RecordedLine, readAll, store, TOPIC_ID } from '../../support/storage.ts'

const JOURNAL = `${DATA_FOLDER}/${JOURNAL_FILE}`
const COUNT = 20
const pathOf = (partition: number) => `${DATA_FOLDER}/t-${partition}/00000000000000000000.log`
const OTHER_ID = 'AAAAAAAAQACAAAAAAAAAAg'

interface Opened {
  readonly disk: MemoryDisk
  readonly manager: LogManager
  readonly logs: PartitionLog[]
  readonly lines: RecordedLine[]
}

async function open(
  disk = new MemoryDisk({ clock: new SystemClock() }),
  options: { boot?: string; topicId?: string; count?: number; manager?: Partial<LogManagerOptions> } = {},
): Promise<Opened> {
  const lines: RecordedLine[] = []
  const journal = { groupCommit: { journalFrom: 4 }, journalAreaBytes: 16 * JOURNAL_BLOCK_BYTES }
  const manager = await openManager(disk, { lines, boot: options.boot ?? 'boot-1', manager: { ...journal, ...options.manager } })
  const logs: PartitionLog[] = []
  for (let partition = 0; partition < (options.count ?? COUNT); partition++) {
    const topicId = options.topicId ?? TOPIC_ID
    logs.push(await manager.open({ topic: 't', partition, topicId, config: LOG_CONFIG, maxEpoch: 100 }))
  }
  return { disk, manager, logs, lines }
}

/** One record for each log, all in the same turn. */
async function moment(logs: readonly PartitionLog[], text = 'x', epoch = 0): Promise<void> {
  await Promise.all(logs.map((log) => log.whenDurable(appendTo(log, [text], { epoch }).lastOffset + 1)))
}

/** The first moment makes the journal; this one is the first that uses it. */
async function opened({ disk, areaBlocks = 16 }: { disk?: MemoryDisk; areaBlocks?: number } = {}): Promise<Opened> {
  const all = await open(disk, { manager: { journalAreaBytes: areaBlocks * JOURNAL_BLOCK_BYTES } })
  await moment(all.logs)
  while (all.disk.peek(JOURNAL) === null || all.disk.counters(JOURNAL_FILE).syncs === 0) await new Promise(setImmediate)
  await new Promise(setImmediate)
  all.disk.resetCounters()
  return all
}

const LOST = { writes: 'none', names: 'none' } as const

async function ends(logs: readonly PartitionLog[]): Promise<number[]> {
  return Promise.all(logs.map(async (log) => (await readAll(log)).length))
}

test('a moment in which many logs are written is one sync, and survives a power cut that takes all else', async () => {
  const { disk, logs } = await opened()
  await moment(logs)
  assert.equal(disk.counters().syncs, 1)
  assert.equal(disk.counters(JOURNAL_FILE).syncs, 1)
  const after = await open(disk.powerCut(new SeededRandom(1), LOST), { boot: 'boot-2' })
  assert.deepEqual(await ends(after.logs), Array(COUNT).fill(2))
  assert.equal(after.disk.peek(JOURNAL), null)
  await after.manager.close()
})

test('a new leader epoch of many logs costs one sync more', async () => {
  const { disk, logs } = await opened()
  await moment(logs, 'x', 5)
  assert.equal(disk.counters().syncs, 2)
  const after = await open(disk.powerCut(new SeededRandom(1), LOST), { boot: 'boot-2' })
  assert.deepEqual(await ends(after.logs), Array(COUNT).fill(2))
  for (const log of after.logs) assert.equal(log.leaderEpoch, 5)
  await after.manager.close()
})

test('few logs are synced one by one', async () => {
  const { disk, logs } = await opened()
  await moment(logs.slice(0, 3))
  assert.equal(disk.counters(JOURNAL_FILE).syncs, 0)
  assert.equal(disk.counters('.log').syncs, 3)
})

test('large writes are not written twice', async () => {
  const { disk, logs } = await opened()
  await moment(logs, 'x'.repeat(70_000))
  assert.equal(disk.counters(JOURNAL_FILE).writes, 0)
  assert.equal(disk.counters('.log').syncs, COUNT)
})

test('space is used again once the files behind it are synced; a stop in order leaves no journal', async () => {
  const { disk, manager, logs } = await opened()
  for (let round = 0; round < 200; round++) await moment(logs, 'x'.repeat(200))
  assert.equal(disk.peek(JOURNAL)?.length, (2 + 32) * JOURNAL_BLOCK_BYTES)
  assert.ok(disk.counters(JOURNAL_FILE).syncs > 20, 'it went on being used')
  await manager.close()
  assert.equal(disk.peek(JOURNAL), null)
  const after = await open(disk.powerCut(new SeededRandom(2), LOST), { boot: 'boot-2' })
  assert.ok(after.manager.wasClean)
  assert.deepEqual(await ends(after.logs), Array(COUNT).fill(201))
  await after.manager.close()
})

test('the files behind one area are synced while the other one fills, so that the journal takes every moment', async () => {
  const { disk, logs } = await opened()
  for (let round = 0; round < 50; round++) {
    const before = disk.counters(JOURNAL_FILE).syncs
    await moment(logs, 'x'.repeat(200))
    assert.ok(disk.counters(JOURNAL_FILE).syncs > before, `round ${round}`)
  }
})

test('a moment for which the journal has no room waits for the few files that hold it up, and then goes to the journal', async () => {
  const held: (() => void)[] = []
  let isHolding = false
  const isHeld = (label: string) => isHolding && /^datasync .*t-[012]\/.*\.log$/.test(label)
  const arrive = (label: string) => (isHeld(label) ? new Promise<void>((resolve) => held.push(resolve)) : Promise.resolve())
  const { disk, logs } = await opened({ disk: new MemoryDisk({ clock: new SystemClock(), completions: { arrive } }) })
  isHolding = true
  await moment(logs)
  const others = logs.slice(3)
  let answered = 0
  let before: number
  let last: Promise<void>
  do {
    before = answered
    last = moment(others, 'x'.repeat(200)).then(() => void answered++)
    for (let turn = 0; turn < 20 && answered === before; turn++) await new Promise(setImmediate)
  } while (answered > before && answered < 1000)
  // Two areas of some seven frames each.
  assert.ok(answered > 7 && answered < 20, `${answered} moments`)
  assert.equal(held.length, 3)
  const frames = disk.counters(JOURNAL_FILE).syncs
  const { syncs } = disk.counters('.log')
  isHolding = false
  for (const end of held) end()
  await last
  assert.ok(disk.counters(JOURNAL_FILE).syncs > frames)
  assert.ok(disk.counters('.log').syncs - syncs < others.length, 'it did not wait for a sync of each file')
  const after = await open(disk.powerCut(new SeededRandom(9), LOST), { boot: 'boot-2' })
  assert.deepEqual(await ends(after.logs), [2, 2, 2, ...others.map(() => answered + 2)])
  await after.manager.close()
})

test('a checkpoint has the files synced, so that the recovery point moves on', async () => {
  const { manager, logs } = await opened()
  await moment(logs)
  const [first] = logs as [PartitionLog]
  assert.equal(first.syncedOffset, 2)
  assert.ok(first.recoveryPoint < 2)
  await manager.checkpoint()
  while (logs.some((log) => log.recoveryPoint < 2)) await new Promise(setImmediate)
})

test('a full disk sends the files their own way', async () => {
  const { disk, logs } = await opened()
  disk.fail({ operation: 'write', path: JOURNAL_FILE, effect: { kind: 'error', code: 'ENOSPC' } })
  await moment(logs)
  assert.ok(disk.counters('.log').syncs >= COUNT)
  for (const log of logs) assert.equal(log.state, 'online')
  await moment(logs)
})

test('a sync of the journal that fails ends every log that waited for it', async () => {
  const { disk, logs } = await opened()
  disk.fail({ operation: 'datasync', path: JOURNAL_FILE, effect: { kind: 'failedSync' } })
  const waits = logs.map((log) => log.whenDurable(appendTo(log, ['x']).lastOffset + 1))
  for (const wait of await Promise.allSettled(waits)) assert.ok(wait.status === 'rejected' && isCode(wait.reason, 'STORAGE_FAILED'))
  for (const log of logs) assert.equal(log.state, 'failed')
  const after = await open(disk.powerCut(new SeededRandom(3)), { boot: 'boot-2' })
  for (const count of await ends(after.logs)) assert.ok(count >= 1)
  await after.manager.close()
})

test('what was cut stays cut, whatever the journal says of it', async () => {
  const { disk, logs } = await opened()
  for (let round = 0; round < 3; round++) await moment(logs)
  const [first] = logs as [PartitionLog]
  await first.truncateTo(2)
  const after = await open(disk.powerCut(new SeededRandom(4), LOST), { boot: 'boot-2' })
  assert.deepEqual(await ends(after.logs), [2, ...Array(COUNT - 1).fill(4)])
  await after.manager.close()
})

test('a topic of the same name gets nothing of the deleted one', async () => {
  const { disk, manager, logs } = await opened()
  await moment(logs)
  for (let partition = 0; partition < COUNT; partition++) await manager.delete({ topic: 't', partition })
  for (let partition = 0; partition < COUNT; partition++)
    await manager.open({ topic: 't', partition, topicId: OTHER_ID, config: LOG_CONFIG, maxEpoch: 100 })
  const after = await open(disk.powerCut(new SeededRandom(5), LOST), { boot: 'boot-2', topicId: OTHER_ID })
  assert.deepEqual(await ends(after.logs), Array(COUNT).fill(0))
  await after.manager.close()
})

test('a frame that is lost is damage, reported, and takes no log silently back', async () => {
  // So large that no file is synced meanwhile.
  const { disk, logs } = await opened({ areaBlocks: 100 })
  for (let round = 0; round < 3; round++) await moment(logs)
  const after = disk.powerCut(new SeededRandom(6), LOST)
  // Not the last one: what it held lies between what the others put back.
  const bytes = after.peek(JOURNAL) as Buffer
  const frames: number[] = []
  for (let at = JOURNAL_BLOCK_BYTES; at < bytes.length; at += JOURNAL_BLOCK_BYTES)
    if (bytes.toString('latin1', at, at + 4) === 'MJF1') frames.push(at)
  assert.ok(frames.length >= 3)
  after.corrupt(JOURNAL, (frames.at(-2) as number) + 200)
  const lines: RecordedLine[] = []
  const manager = await openManager(after, { lines, boot: 'boot-2' })
  assert.ok(lines.some((line) => line.event === 'storage.journal_damaged'))
  for (let partition = 0; partition < COUNT; partition++) {
    await assert.rejects(
      manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }),
      /everything below 4/,
    )
  }
  assert.ok(after.peek(`${JOURNAL}.damaged`) !== null)
  await manager.close()
})

test('a start that cannot write what the journal holds keeps it for the next one', async () => {
  const { disk, logs } = await opened()
  await moment(logs)
  const after = disk.powerCut(new SeededRandom(7), LOST)
  after.fail({ operation: 'write', path: /t-3\/.*\.log$/, effect: { kind: 'error', code: 'ENOSPC' } })
  const lines: RecordedLine[] = []
  const manager = await openManager(after, { lines, boot: 'boot-2' })
  assert.ok(lines.some((line) => line.event === 'storage.journal_not_replayed'))
  await manager.close()
  assert.ok(after.peek(JOURNAL) !== null)
  const again = await open(after.powerCut(new SeededRandom(8), LOST), { boot: 'boot-3' })
  assert.deepEqual(await ends(again.logs), Array(COUNT).fill(2))
  await again.manager.close()
})

test('a journal that stays for one log does not bring back what was cut from another or deleted meanwhile', async () => {
  for (const way of ['truncated', 'deleted'] as const) {
    const { disk, logs } = await opened()
    await moment(logs)
    await moment(logs)
    const left = disk.powerCut(new SeededRandom(7), LOST)
    left.fail({ operation: 'write', path: /t-3\/.*\.log$/, effect: { kind: 'error', code: 'ENOSPC' } })
    const started = await openManager(left, { boot: 'boot-2' })
    const request = { topic: 't', topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }
    const [first, second] = [await started.open({ ...request, partition: 0 }), await started.open({ ...request, partition: 1 })]
    if (way === 'truncated') {
      await Promise.all([first.truncateTo(1), second.truncateTo(2)])
      for (const log of [first, second]) await store(log, [`new ${log.partition}`], { epoch: 7 })
      const bytes = [left.peek(pathOf(0)), left.peek(pathOf(1))]
      const again = await open(left.processKilled(), { boot: 'boot-2' })
      assert.deepEqual([again.disk.peek(pathOf(0)), again.disk.peek(pathOf(1))], bytes)
      assert.deepEqual(await ends(again.logs), [2, 3, ...Array(COUNT - 2).fill(3)])
      assert.equal(again.disk.peek(JOURNAL), null)
      await again.manager.close()
    } else {
      await started.delete({ topic: 't', partition: 0 })
      const again = await openManager(left.processKilled(), { boot: 'boot-2' })
      assert.equal(await again.exists({ topic: 't', partition: 0 }), false)
      assert.equal(await again.exists({ topic: 't', partition: 1 }), true)
      await again.close()
    }
  }
})

test('a journal that failed and is still there does not bring back what was cut since', async () => {
  const { disk, manager, logs } = await opened()
  await moment(logs)
  await moment(logs)
  disk.fail({ operation: 'datasync', path: JOURNAL, effect: { kind: 'error', code: 'EIO' } })
  await assert.rejects(moment(logs.slice(10)))
  assert.ok(logs.slice(10).every((log) => log.state === 'failed'))
  const [first] = logs as [PartitionLog]
  await first.truncateTo(1)
  await store(first, ['new'], { epoch: 7 })
  await manager.delete({ topic: 't', partition: 1 })
  assert.ok(disk.peek(JOURNAL) !== null)
  const bytes = disk.peek(pathOf(0))
  const started = await openManager(disk.processKilled(), { boot: 'boot-1' })
  const left = started.deps.disk as MemoryDisk
  assert.deepEqual(left.peek(pathOf(0)), bytes)
  assert.equal(await started.exists({ topic: 't', partition: 1 }), false)
  assert.equal(left.peek(JOURNAL), null)
  await started.close()
})

test('what a start wrote from the journal is synced once, and what the checkpoint covers not again', async () => {
  const { disk, logs, manager } = await opened()
  await moment(logs)
  await manager.checkpoint()
  while (logs.some((log) => log.recoveryPoint < 2)) await new Promise(setImmediate)
  await manager.checkpoint()
  await moment(logs.slice(0, COUNT / 2))
  const left = disk.processKilled()
  left.resetCounters()
  const after = await open(left)
  assert.equal(left.counters('.log').syncs, COUNT / 2)
  const ended = [...Array(COUNT / 2).fill(3), ...Array(COUNT / 2).fill(2)]
  assert.deepEqual(await ends(after.logs), ended)
  // All of it is durable, though nothing was synced since.
  const cut = await open(left.powerCut(new SeededRandom(9), LOST), { boot: 'boot-2' })
  assert.deepEqual(await ends(cut.logs), ended)
  await cut.manager.close()
})
