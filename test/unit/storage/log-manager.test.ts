import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { FixedHost } from '../../../src/io/host.ts'
import type { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { LogManager } from '../../../src/storage/log-manager.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import {
  appendTo,
  DATA_FOLDER,
  LOG_FILE,
  openHarness,
  openManager,
  type RecordedLine,
  readAll,
  recordingLogger,
  store,
  TOPIC_ID,
} from '../../support/storage.ts'

const OTHER_ID = 'AAAAAAAAQACAAAAAAAAAAg'
const request = { topic: 't', partition: 0, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }

async function namesIn(disk: MemoryDisk): Promise<string[]> {
  return (await disk.list(DATA_FOLDER)).map((entry) => entry.name)
}

test('a second broker on the folder is refused and told who holds it', async () => {
  const { disk, manager } = await openHarness()
  const pid = Number(/pid=(\d+)/.exec(String(disk.peek(`${DATA_FOLDER}/moonmq.lock`)))?.[1])
  const host = new FixedHost({
    pid: 5,
    bootId: 'boot-1',
    processes: new Map([
      [5, '1'],
      [pid, '1'],
    ]),
  })
  const deps = { disk, clock: new SystemClock(), log: recordingLogger([]), host }
  await assert.rejects(LogManager.open(deps, { dataFolder: DATA_FOLDER }), (error: MoonMQError) => {
    assert.equal(error.code, 'DATA_FOLDER_LOCKED')
    assert.match(String(error.details.pid), new RegExp(`^${pid}\\b`))
    return true
  })
  await manager.close()
  await (await LogManager.open(deps, { dataFolder: DATA_FOLDER })).close()
})

test('the clean marker is gone, durably, before anything is read: a crash while starting makes the next start recover', async () => {
  const one = await openHarness()
  await store(one.log, ['a'])
  await one.manager.close()
  let disk = one.disk.processKilled()
  // Killed while it opens each of these, one start after another; then a torn tail is planted.
  const places = [/moonmq-recovery-points/, /moonmq-log-starts/, /partition\.metadata/, /leader-epoch-checkpoint/, /\.log$/]
  for (const [step, path] of places.entries()) {
    disk.fail({ operation: 'open', path, times: 1e9, effect: { kind: 'error', code: 'EMFILE' } })
    await assert.rejects(openHarness({ disk }))
    disk.clearFaults()
    disk = step % 2 === 0 ? disk.powerCut(new SeededRandom(step), { names: 'none' }) : disk.processKilled()
    assert.equal(disk.peek(`${DATA_FOLDER}/moonmq-clean-shutdown`), null)
  }
  const file = await disk.open(LOG_FILE, 'write')
  await file.write([Buffer.from('torn')], file.sizeBytes)
  await file.close()
  const two = await openHarness({ disk, boot: 'boot-9' })
  assert.equal(two.manager.wasClean, false)
  assert.equal(two.log.cuts.length, 1)
  assert.deepEqual([two.log.logEndOffset, await readAll(two.log)], [1, [[0, 0]]])
})

test('the marker of another stop is not believed', async () => {
  const one = await openHarness()
  await store(one.log, ['a'])
  await one.manager.close()
  const marker = one.disk.peek(`${DATA_FOLDER}/moonmq-clean-shutdown`) as Buffer
  const two = await openHarness({ disk: one.disk.processKilled() })
  await store(two.log, ['b'])
  await two.manager.checkpoint()
  const disk = two.disk.processKilled()
  const file = await disk.open(`${DATA_FOLDER}/moonmq-clean-shutdown`, 'write')
  await file.write([marker], 0)
  await file.close()
  const three = await openHarness({ disk })
  assert.equal(three.manager.wasClean, false)
  assert.equal(three.log.logEndOffset, 2)
})

test('a start reads little after a clean stop, however long the logs are, and only past the checkpoint after a kill', async () => {
  const config = { segmentBytes: 64 * 1024, indexIntervalBytes: 1024 }
  const starts: { clean: number; killed: number; total: number }[] = []
  for (const count of [200, 2000]) {
    const one = await openHarness({ config })
    for (let index = 0; index < count; index++) await store(one.log, ['x'.repeat(200)])
    const total = one.log.sizeBytes
    await one.manager.close()
    const disk = one.disk.processKilled()
    disk.resetCounters()
    const two = await openHarness({ disk, config })
    const clean = disk.counters(/\.log$/).readBytes
    assert.equal(two.manager.wasClean, true)
    // From the last index entry to the end: at most the interval, the batch at the entry, and the last one.
    assert.ok(clean <= 1024 + 2 * 300, `${clean} bytes of log were read`)
    assert.ok(disk.counters(/\.(index|timeindex)$/).readBytes <= 24)
    const killedDisk = disk.processKilled()
    killedDisk.resetCounters()
    const three = await openHarness({ disk: killedDisk, config })
    assert.equal(three.manager.wasClean, false)
    assert.equal(three.log.logEndOffset, count)
    starts.push({ clean, killed: killedDisk.counters(/\.log$/).readBytes, total })
    await three.manager.close()
  }
  for (const { killed, total } of starts) {
    assert.ok(killed <= config.segmentBytes, `${killed} of ${total} bytes were read`)
    assert.ok(killed > 0)
  }
  assert.ok((starts[1]?.total ?? 0) > 5 * config.segmentBytes)
})

test('deleting takes the folder out of sight at once and away in the background; a new topic of that name starts empty', async () => {
  const { manager, log, disk } = await openHarness()
  await store(log, ['a'])
  const waiting = log.whenDurable(5)
  await manager.delete({ topic: 't', partition: 0 }, TOPIC_ID)
  await assert.rejects(waiting)
  assert.equal(log.state, 'closed')
  assert.throws(
    () => appendTo(log, ['b']),
    (error: MoonMQError) => error.code === 'STORAGE_FAILED',
  )
  const next = await manager.open({ ...request, topicId: OTHER_ID })
  assert.equal(next.logEndOffset, 0)
  await store(next, ['b'])
  await manager.removed()
  assert.deepEqual(
    (await namesIn(disk)).filter((name) => name.startsWith('t')),
    ['t-0'],
  )
  await manager.delete({ topic: 't', partition: 0 }, TOPIC_ID)
  assert.equal(manager.get({ topic: 't', partition: 0 }), next)
  await manager.close()
})

test('a deletion that a crash interrupted ends at the next start', async () => {
  const { manager, log, disk } = await openHarness()
  await store(log, ['a'])
  disk.fail({ operation: 'removeTree', times: 1e9, effect: { kind: 'error', code: 'EBUSY' } })
  await manager.delete({ topic: 't', partition: 0 })
  await manager.removed()
  disk.clearFaults()
  const after = disk.processKilled()
  const next = await openManager(after, {})
  await next.settleFolders(() => 'known')
  await next.removed()
  assert.deepEqual(
    (await namesIn(after)).filter((name) => name.startsWith('t')),
    [],
  )
})

test('a folder that nobody knows is set aside and never removed', async () => {
  const one = await openHarness()
  await store(one.log, ['precious'])
  await one.manager.close()
  const lines: RecordedLine[] = []
  const disk = one.disk.processKilled()
  const manager = await openManager(disk, { lines })
  await manager.settleFolders(() => 'unknown')
  assert.deepEqual(
    (await namesIn(disk)).filter((name) => name.startsWith('t')),
    [`t-0.${TOPIC_ID}-stray`],
  )
  assert.ok(lines.some((line) => line.event === 'storage.stray'))
  await manager.settleFolders(() => 'unknown')
  await manager.removed()
  assert.notEqual(await disk.stat(`${DATA_FOLDER}/t-0.${TOPIC_ID}-stray/00000000000000000000.log`), null)
  await manager.close()
})

test('the folder of another topic of that name is set aside when the partition is opened', async () => {
  const one = await openHarness()
  await store(one.log, ['a'])
  await one.manager.close()
  const disk = one.disk.processKilled()
  const manager = await openManager(disk, {})
  const log = await manager.open({ ...request, topicId: OTHER_ID })
  assert.equal(log.logEndOffset, 0)
  assert.notEqual(await disk.stat(`${DATA_FOLDER}/t-0.${TOPIC_ID}-stray`), null)
  await manager.close()
})

test('a missing folder or a shorter log of a partition with acknowledged records is damage, not a new log', async () => {
  for (const what of ['folder', 'files', 'tail'] as const) {
    const one = await openHarness()
    await store(one.log, ['a'])
    await store(one.log, ['b'])
    await one.manager.checkpoint()
    const disk = one.disk.processKilled()
    if (what === 'folder') await disk.removeTree(`${DATA_FOLDER}/t-0`)
    else if (what === 'files') await disk.removeFile(LOG_FILE)
    else {
      const file = await disk.open(LOG_FILE, 'write')
      await file.truncate(file.sizeBytes / 2)
      await file.close()
    }
    const lines: RecordedLine[] = []
    const manager = await openManager(disk, { lines })
    const failed = await manager.openAll([request, { ...request, topic: 'other', topicId: OTHER_ID }])
    assert.deepEqual(
      failed.map((each) => [each.partition.topic, (each.error as MoonMQError).code]),
      [['t', 'DATA_DAMAGED']],
      what,
    )
    assert.ok(lines.some((line) => line.level === 'error' && line.event === 'storage.damaged'))
    await manager.close()
    // The others were closed in order, but a folder with damage never counts as clean.
    const next = await openManager(disk, {})
    assert.equal(next.wasClean, false)
    await next.close()
  }
})

test('checkpoints are written by the clock and are never ahead of the logs', async () => {
  const { disk, log, manager } = await openHarness({ config: { segmentBytes: 300 } })
  for (let index = 0; index < 20; index++) await store(log, ['x'.repeat(50)])
  await manager.checkpoint()
  assert.ok(log.recoveryPoint <= log.syncedOffset && log.recoveryPoint > 0)
  await log.truncateTo(7)
  const next = await openHarness({ disk: disk.powerCut(new SeededRandom(3)), boot: 'boot-2', config: { segmentBytes: 300 } })
  assert.equal(next.log.logEndOffset, 7)
  assert.deepEqual((await readAll(next.log)).length, 7)
})

test('two requests to open one log share it', async () => {
  const { disk, manager: first } = await openHarness()
  await first.close()
  const manager = await openManager(disk.processKilled(), {})
  const [a, b] = await Promise.all([manager.open(request), manager.open(request)])
  assert.equal(a, b)
  await manager.close()
  await assert.rejects(manager.open(request), (error: MoonMQError) => error.code === 'CLOSED')
})

test('moving the log start removes whole segments after the checkpoint holds it', async () => {
  const config = { segmentBytes: 300 }
  const { disk, log, manager } = await openHarness({ config })
  for (let index = 0; index < 20; index++) await store(log, ['x'.repeat(50)], { epoch: Math.floor(index / 4) })
  const before = log.segmentCount
  log.advanceLogStart(10)
  assert.equal(log.logStartOffset, 10)
  assert.throws(() => log.read({ offset: 9, maxBytes: 1, minOneBatch: true, limitOffset: 20 }))
  await manager.checkpoint()
  assert.ok(log.segmentCount < before)
  assert.deepEqual((await readAll(log))[0], [10, 10])
  const next = await openHarness({ disk: disk.processKilled(), config })
  assert.equal(next.log.logStartOffset, 10)
  assert.equal((await readAll(next.log)).length, 10)
  await store(next.log, ['y'], { epoch: 9 })
  next.log.advanceLogStart(13)
  await next.manager.checkpoint()
  await next.manager.close()
  const last = await openHarness({ disk: next.disk.processKilled(), config })
  assert.ok(last.manager.wasClean)
  assert.equal((await readAll(last.log)).length, 8)
  assert.equal(last.log.endOffsetForEpoch(1, -1).endOffset, 13)
  const killed = await openHarness({ disk: last.disk.processKilled(), config })
  assert.equal((await readAll(killed.log)).length, 8)
})
