import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode } from '../../../src/core/errors.ts'
import type { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { DATA_FOLDER, LOG_FILE, openHarness, openManager, type RecordedLine, readAll, store, TOPIC_ID } from '../../support/storage.ts'

const request = { topic: 't', partition: 0, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }

async function flip(disk: MemoryDisk, path: string, position: number): Promise<void> {
  const file = await disk.open(path, 'write')
  const byte = Buffer.alloc(1)
  await file.read(byte, position)
  byte[0] = (byte[0] ?? 0) ^ 1
  await file.write([byte], position)
  await file.datasync()
  await file.close()
}

test('damage behind the checkpoint is damage at every start: a stop in order between them makes no power cut of it', async () => {
  const one = await openHarness()
  await one.manager.checkpoint()
  for (const value of ['a', 'b', 'c']) await store(one.log, [value])
  const disk = one.disk.processKilled()
  await flip(disk, LOG_FILE, one.log.sizeBytes / 2)
  const sizeBytes = disk.peek(LOG_FILE)?.length
  for (const boot of ['boot-1', 'boot-1', 'boot-2']) {
    const manager = await openManager(disk, { boot })
    assert.equal(manager.wasClean, false)
    await assert.rejects(manager.open(request), (error) => isCode(error, 'DATA_DAMAGED'))
    await manager.close()
    assert.equal(disk.peek(LOG_FILE)?.length, sizeBytes)
  }
})

test('a damaged checkpoint spares no work and stops nobody: the logs are read whole', async () => {
  for (const name of ['moonmq-recovery-points', 'moonmq-log-starts']) {
    const one = await openHarness()
    for (const value of ['a', 'b', 'c']) await store(one.log, [value])
    await one.manager.close()
    await flip(one.disk, `${DATA_FOLDER}/${name}`, 12)
    const two = await openHarness({ disk: one.disk })
    assert.ok(two.lines.some(({ event, level }) => event === 'storage.checkpoint_damaged' && level === 'error'))
    assert.equal((await readAll(two.log)).length, 3)
    await two.manager.close()
    const three = await openHarness({ disk: one.disk })
    assert.ok(three.manager.wasClean)
    assert.deepEqual(three.lines, [])
  }
})

test('behind a stop in order a damaged checkpoint makes no power cut either: nothing is cut', async () => {
  const one = await openHarness()
  for (const value of ['a', 'b', 'c']) await store(one.log, [value])
  await one.manager.close()
  await flip(one.disk, `${DATA_FOLDER}/moonmq-recovery-points`, 12)
  await flip(one.disk, LOG_FILE, one.log.sizeBytes / 2)
  const manager = await openManager(one.disk, { boot: 'boot-2' })
  await assert.rejects(manager.open(request), (error) => isCode(error, 'DATA_DAMAGED'))
})

test('first segments that are missing are reported, reads there say so, and the rest is served', async () => {
  const config = { segmentBytes: 200, indexIntervalBytes: 0 }
  for (const stop of ['in order', 'kill', 'kill before the first checkpoint'] as const) {
    const one = await openHarness({ config })
    for (let index = 0; index < 9; index++) await store(one.log, ['x'.repeat(50)])
    if (stop !== 'kill before the first checkpoint') await one.manager.checkpoint()
    if (stop === 'in order') await one.manager.close()
    const disk = one.disk.processKilled()
    for (const kind of ['log', 'index', 'timeindex']) await disk.removeFile(LOG_FILE.replace(/log$/, kind))
    const lines: RecordedLine[] = []
    const manager = await openManager(disk, { lines })
    const log = await manager.open({ ...request, config: { ...LOG_CONFIG, ...config } })
    assert.ok(lines.some(({ event, level }) => event === 'storage.segments_missing' && level === 'error'))
    assert.equal(log.logStartOffset, 0)
    await assert.rejects(readAll(log), (error) => isCode(error, 'CORRUPT_RECORDS'))
    const first = log.segments[0]?.baseOffset ?? 0
    assert.ok(first > 0)
    assert.equal((await readAll(log, first)).length, 9 - first)
    await store(log, ['more'])
    await manager.close()
  }
})

test('a log file that is gone without ever having been in a checkpoint leaves a line in the log', async () => {
  const one = await openHarness()
  await store(one.log, ['a'])
  const disk = one.disk.processKilled()
  await disk.removeFile(LOG_FILE)
  const two = await openHarness({ disk })
  assert.ok(two.lines.some(({ event, level }) => event === 'storage.log_missing' && level === 'error'))
})

test('a folder that could not be finished is taken away again, and made when there is space', async () => {
  const { disk, manager } = await openHarness()
  const other = { ...request, topic: 'u', topicId: 'AAAAAAAAQACAAAAAAAAAAg' }
  disk.fail({ operation: 'write', path: /partition\.metadata/, times: 1, effect: { kind: 'error', code: 'ENOSPC' } })
  const log = await manager.open(other)
  await assert.rejects(store(log, ['a']), { code: 'STORAGE_FULL' })
  assert.equal(await disk.stat(`${DATA_FOLDER}/u-0`), null)
  await log.reopen(1)
  await store(log, ['a'], { epoch: 1 })
  assert.deepEqual(await readAll(log), [[0, 0]])
  await manager.close()
})

test('indexes of a last segment whose log file is gone are removed with a line in the log', async () => {
  const config = { segmentBytes: 200, indexIntervalBytes: 0 }
  const one = await openHarness({ config })
  for (let index = 0; index < 9; index++) await store(one.log, ['x'.repeat(50)])
  const last = one.log.segments.at(-1)?.log.path ?? ''
  await one.manager.checkpoint()
  const disk = one.disk.processKilled()
  const orphan = await disk.open(last.replace(/\d{20}\.log$/, '00000000000000000900.timeindex'), 'write')
  await orphan.close()
  const { lines, log } = await openHarness({ disk, config })
  assert.equal(log.logEndOffset, 9)
  assert.ok(lines.some(({ event, fields }) => event === 'storage.index_orphaned' && fields['file'] === '00000000000000000900.timeindex'))
})
