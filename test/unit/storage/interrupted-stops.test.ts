import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { ROOT_FILES } from '../../../src/storage/checkpoint.ts'
import { encodeTxnIndexEntry } from '../../../src/storage/txn-index.ts'
import { checkTxnIndex } from '../../../src/storage/validate-indexes.ts'
import { checkIndexes } from '../../support/index-check.ts'
import { appendTo, DATA_FOLDER, diskWith, filesOf, openHarness, openManager, readAll, store } from '../../support/storage.ts'

/** Stops, starts and truncations that something came in between of. Each was found by a random history. */
const FOLDER = `${DATA_FOLDER}/t-0`
const SMALL = { segmentBytes: 300, indexIntervalBytes: 0 }
const MARKER = `${DATA_FOLDER}/${ROOT_FILES['clean-shutdown']}`

const refused = (error: MoonMQError) => error.code === 'STORAGE_FAILED'

test('from the call of close on nothing is appended, so that no roll comes behind it', async () => {
  const { log, manager, disk } = await openHarness({ config: SMALL })
  for (let value = 0; value < 5; value++) appendTo(log, ['x'.repeat(100)])
  const closing = manager.close()
  while (log.state === 'online') {
    try {
      appendTo(log, ['y'.repeat(100)])
    } catch (error) {
      assert.ok(refused(error as MoonMQError))
    }
    await Promise.resolve()
    if (log.queuedBytes > 0) await new Promise<void>((resolve) => void log.whenDurable(log.logEndOffset).then(resolve, resolve))
  }
  await closing
  checkIndexes(await filesOf(disk), FOLDER, 0)
  const again = await openHarness({ disk: disk.processKilled(), config: SMALL })
  assert.ok(again.manager.wasClean)
  assert.ok(!again.lines.some((line) => line.event === 'storage.unclean'))
})

test('beside a log that failed there is no marker, whatever else was damaged', async () => {
  const { log, manager, disk } = await openHarness()
  await store(log, ['a'])
  disk.fail({ operation: 'datasync', path: /\.log$/, effect: { kind: 'failedSync' } })
  appendTo(log, ['b'])
  await assert.rejects(log.whenDurable(2))
  await manager.close()
  assert.equal(disk.peek(MARKER), null)
})

test('new settings do not make a log that failed sync what the system gave up', async () => {
  const { log, manager, disk } = await openHarness()
  await store(log, ['kept'])
  disk.fail({ operation: 'datasync', path: /\.log$/, effect: { kind: 'failedSync' } })
  appendTo(log, ['lost'])
  await assert.rejects(log.whenDurable(2))
  log.reconfigure({ ...log.config, segmentBytes: 1000 })
  await manager.close()
  assert.deepEqual([log.syncedOffset, log.highWatermark], [1, 1])
  const left = disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
  assert.equal((await openHarness({ disk: left, boot: 'boot-2' })).log.logEndOffset, 1)
})

test('indexes that outlived their log in a power cut do not speak for a later segment of that name', async () => {
  const { log, manager, disk } = await openHarness({ config: SMALL })
  await store(log, ['x'.repeat(200)])
  await manager.close()
  const files = await filesOf(disk)
  files.delete(MARKER)
  // The next segment will begin at offset 1.
  const stale = { producerId: 4, firstOffset: 1, lastOffset: 2, lastStableOffset: 3 }
  files.set(`${FOLDER}/00000000000000000001.txnindex`, encodeTxnIndexEntry(stale))
  files.set(`${FOLDER}/00000000000000000001.index`, Buffer.alloc(80, 9))
  const again = await openHarness({ disk: await diskWith(files), config: SMALL })
  for (let value = 0; value < 3; value++) await store(again.log, ['y'.repeat(200)], { epoch: 1 })
  assert.deepEqual(again.log.abortedTransactions(0, 4), [])
  await again.manager.close()
  checkIndexes(await filesOf(again.disk), FOLDER, 0)
})

/** A log whose unsynced second batch a power cut tore while the third, behind it, survived. */
async function tornByPowerCut() {
  const { log, manager, disk } = await openHarness()
  await store(log, ['kept'])
  await manager.checkpoint()
  const { logEndOffset, sizeBytes } = log
  assert.equal(logEndOffset, 1)
  for (const value of ['torn', 'behind']) appendTo(log, [value])
  await log.whenDurable(3)
  const left = disk.powerCut(new SeededRandom(1))
  // As if neither had been synced: whole sectors of the later one reached the disk, the earlier one did not.
  const file = await left.open(`${FOLDER}/00000000000000000000.log`, 'write')
  await file.write([Buffer.alloc(40)], sizeBytes)
  await file.close()
  return left
}

test('a start that dies after a power cut does not make the next one take the torn tail for damage', async () => {
  let disk = await tornByPowerCut()
  // This start takes the lock of the new boot and dies before it opened the log.
  await openManager(disk, { boot: 'boot-2' })
  disk = disk.processKilled()
  const { log, manager } = await openHarness({ disk, boot: 'boot-2' })
  assert.equal(log.logEndOffset, 1)
  assert.equal(log.cuts[0]?.hadBatchesBehind, true)
  // Once every log was opened, a crash of the process is no power cut any more.
  await manager.checkpoint()
  await store(log, ['a'], { epoch: 1 })
  const { sizeBytes } = log
  for (const value of ['b', 'c']) await store(log, [value], { epoch: 1 })
  disk = disk.processKilled()
  disk.corrupt(`${FOLDER}/00000000000000000000.log`, sizeBytes + 70)
  await assert.rejects(openHarness({ disk, boot: 'boot-2' }), (error: MoonMQError) => error.code === 'DATA_DAMAGED')
})

test('a log whose first segment lost its name in a power cut, with nothing acknowledged, begins anew', async () => {
  const { log, manager, disk } = await openHarness({ config: SMALL })
  for (let value = 0; value < 4; value++) await store(log, ['x'.repeat(200)])
  await manager.close()
  const files = await filesOf(disk)
  for (const name of [MARKER, `${DATA_FOLDER}/${ROOT_FILES['recovery-points']}`, `${FOLDER}/00000000000000000000.log`]) files.delete(name)
  const again = await openHarness({ disk: await diskWith(files), config: SMALL, boot: 'boot-2' })
  assert.deepEqual([again.log.logStartOffset, again.log.logEndOffset], [0, 0])
  assert.ok(again.log.cuts.length > 0)
  await store(again.log, ['first'], { epoch: 1 })
  assert.deepEqual(await readAll(again.log), [[0, 0]])
  await again.manager.close()
})

test('from the call of a truncation on nothing is appended, and the log closes', async () => {
  const { log, manager } = await openHarness({ config: SMALL })
  for (let value = 0; value < 6; value++) appendTo(log, ['x'.repeat(200)])
  const truncated = log.truncateTo(1)
  assert.throws(() => appendTo(log, ['y']), refused)
  await truncated
  assert.equal(log.logEndOffset, 1)
  await manager.close()
})

test('a search by time in a log that is closed is refused like a read', async () => {
  const { log, manager } = await openHarness()
  await store(log, ['a'])
  await manager.close()
  await assert.rejects(log.offsetForTimestamp(0, 1), refused)
  await assert.rejects(log.offsetOfMaxTimestamp(), refused)
})

test('the validator believes where a transaction began that lost its first segment', () => {
  const aborted = { producerId: 3, firstOffset: 18, lastOffset: 44, lastStableOffset: 45, aborted: true }
  const entry = encodeTxnIndexEntry({ ...aborted, firstOffset: 7 })
  const place = { file: 'f', baseOffset: 35, scannedFrom: 10 }
  assert.equal(checkTxnIndex(entry, place, [aborted]), null)
  assert.match(checkTxnIndex(entry, { ...place, scannedFrom: 0 }, [aborted])?.reason ?? '', /does not have/)
  assert.match(checkTxnIndex(Buffer.alloc(0), place, [aborted])?.reason ?? '', /has no entry/)
})
