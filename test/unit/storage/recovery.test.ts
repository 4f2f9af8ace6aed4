import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { checkIndexes } from '../../support/index-check.ts'
import { appendTo, batchOf, DATA_FOLDER, diskWith, filesOf, LOG_FILE, openHarness, readAll, store } from '../../support/storage.ts'

/** Files of a broker that was killed after three synced batches. */
async function killed(config = {}) {
  const { log, disk } = await openHarness({ config })
  for (let index = 0; index < 3; index++) await store(log, ['a', `${index}`.repeat(50)])
  const files = await filesOf(disk)
  files.delete('/data/moonmq.lock')
  return files
}

async function openWith(files: Map<string, Buffer>, path: string, bytes: Buffer | null, options = {}) {
  const copy = new Map(files)
  if (bytes === null) copy.delete(path)
  else copy.set(path, bytes)
  return openHarness({ disk: await diskWith(copy), ...options })
}

test('what follows the last whole batch is cut: zeros, garbage, a torn batch, bytes of an older write', async () => {
  const files = await killed()
  const log = files.get(LOG_FILE) as Buffer
  const { batch } = batchOf(['torn'], { baseOffset: 6 })
  const old = batchOf(['old'], { baseOffset: 2 }).batch
  const tails: [string, Buffer, boolean][] = [
    ['zeros', Buffer.alloc(5000), false],
    ['garbage', new SeededRandom(7).bytes(5000), false],
    ['a header alone', batch.subarray(0, 61), false],
    ['half a batch', batch.subarray(0, batch.length - 1), false],
    ['half a batch and zeros', Buffer.concat([batch.subarray(0, 70), Buffer.alloc(4096)]), false],
    ['a whole batch of an older place', old, true],
  ]
  for (const [name, tail, hadPowerCut] of tails) {
    const { log: opened, disk, manager } = await openWith(files, LOG_FILE, Buffer.concat([log, tail]), { manager: { hadPowerCut } })
    assert.equal(opened.logEndOffset, 6, name)
    assert.deepEqual(
      opened.cuts.map((cut) => [cut.fromPosition, cut.toPosition]),
      [[log.length, log.length + tail.length]],
      name,
    )
    await store(opened, ['after'])
    await manager.close()
    assert.equal(checkIndexes(await filesOf(disk), '/data/t-0', 4096).length, 4, name)
  }
})

test('a whole batch behind a fault: damage after a kill; after a power cut writes may have come out of order', async () => {
  const files = await killed()
  const bytes = Buffer.from(files.get(LOG_FILE) as Buffer)
  const second = bytes.length / 3
  bytes.fill(0, second, second + 100)
  await assert.rejects(openWith(files, LOG_FILE, bytes, { manager: { hadPowerCut: false } }), (error: MoonMQError) => {
    assert.equal(error.code, 'DATA_DAMAGED')
    assert.match(error.message, new RegExp(`byte ${second}, offset 2: .*a whole batch lies behind it at byte ${second * 2}`))
    return true
  })
  const { log, lines } = await openWith(files, LOG_FILE, bytes, { manager: { hadPowerCut: true } })
  assert.equal(log.logEndOffset, 2)
  assert.equal(log.cuts[0]?.hadBatchesBehind, true)
  assert.ok(lines.some((line) => line.event === 'storage.tail_cut' && line.fields.hadBatchesBehind === true))
})

test('segments behind a cut go too, and are reported', async () => {
  const { log, disk } = await openHarness({ config: { segmentBytes: 200 } })
  for (let index = 0; index < 6; index++) await store(log, ['x'.repeat(100)])
  const files = await filesOf(disk)
  files.delete('/data/moonmq.lock')
  const first = files.get(LOG_FILE) as Buffer
  const cutFirst = await openWith(files, LOG_FILE, first.subarray(0, first.length - 1), { manager: { hadPowerCut: true } })
  assert.deepEqual([cutFirst.log.logEndOffset, cutFirst.log.segmentCount], [0, 1])
  assert.equal(cutFirst.log.cuts.length, 6)
  const names = [...(await filesOf(cutFirst.disk)).keys()].filter((path) => path.endsWith('.log'))
  assert.deepEqual(names, [LOG_FILE])
  await assert.rejects(openWith(files, LOG_FILE, first.subarray(0, first.length - 1), { manager: { hadPowerCut: false } }))
})

test('recovery rebuilds damaged, missing and overlong indexes', async () => {
  const { log, disk } = await openHarness({ config: { indexIntervalBytes: 0 } })
  for (let index = 0; index < 20; index++) await store(log, ['x'.repeat(100)])
  const files = await filesOf(disk)
  files.delete('/data/moonmq.lock')
  for (const kind of ['index', 'timeindex']) {
    for (const bytes of [null, Buffer.alloc(0), Buffer.alloc(800, 0xff), Buffer.alloc(801), Buffer.alloc(3)]) {
      const path = `/data/t-0/00000000000000000000.${kind}`
      const { manager, disk: opened, log: again } = await openWith(files, path, bytes, { config: { indexIntervalBytes: 0 } })
      assert.equal((await readAll(again)).length, 20)
      await manager.close()
      checkIndexes(await filesOf(opened), '/data/t-0', 0)
    }
  }
})

test('leader epochs and producers are rebuilt from the batches', async () => {
  const { log, disk } = await openHarness({ config: { segmentBytes: 300 } })
  let sequence = 0
  for (const epoch of [1, 1, 4, 4, 6]) {
    await store(log, ['x'.repeat(100)], { epoch, producerId: 42, producerEpoch: 3, baseSequence: sequence++ })
  }
  const before = log.producer(42)
  const expected = { ...before, batches: [...(before?.batches ?? [])] }
  for (const drop of [[], ['leader-epoch-checkpoint'], ['.snapshot'], ['leader-epoch-checkpoint', '.snapshot']]) {
    const files = await filesOf(disk)
    files.delete('/data/moonmq.lock')
    for (const path of [...files.keys()]) if (drop.some((name) => path.endsWith(name))) files.delete(path)
    const { log: again, manager } = await openHarness({ disk: await diskWith(files), config: { segmentBytes: 300 } })
    assert.deepEqual(again.endOffsetForEpoch(4, -1), { leaderEpoch: 4, endOffset: 4 })
    assert.equal(again.leaderEpoch, 6)
    const found = again.producer(42)
    assert.deepEqual(found?.batches, expected.batches)
    assert.equal(found?.producerEpoch, 3)
    await manager.close()
    const clean = await openHarness({ disk: (manager.deps.disk as typeof disk).processKilled(), config: { segmentBytes: 300 } })
    assert.ok(clean.manager.wasClean)
    assert.deepEqual(clean.log.producer(42)?.batches, expected.batches)
    await clean.manager.close()
  }
})

test('an epoch above that of the metadata log is not believed', async () => {
  const { log, disk } = await openHarness()
  await store(log, ['a'], { epoch: 5 })
  await assert.rejects(openHarness({ disk: disk.processKilled(), maxEpoch: 4 }), (error: MoonMQError) => {
    assert.match(error.message, /leader epoch 5 is above the partition's, 4/)
    return error.code === 'DATA_DAMAGED'
  })
})

test('truncation cuts whole batches, forgets epochs and producers behind, and survives a crash at any step', async () => {
  const config = { segmentBytes: 250 }
  for (let failing = 0; failing < 12; failing++) {
    const { log, disk, manager } = await openHarness({ config })
    for (let index = 0; index < 8; index++) {
      await store(log, ['a', 'x'.repeat(60)], { epoch: index, producerId: 7, producerEpoch: 0, baseSequence: index * 2 })
    }
    await manager.checkpoint()
    if (failing > 0) disk.fail({ operation: 'syncDirectory', nth: failing, times: 1e9, effect: { kind: 'error', code: 'EIO' } })
    const outcome = await log.truncateTo(7).then(
      () => 'done',
      () => 'failed',
    )
    disk.clearFaults()
    if (outcome === 'done') {
      assert.deepEqual([log.logEndOffset, log.highWatermark, log.leaderEpoch], [6, 6, 2])
      assert.equal(log.producer(7)?.batches.at(-1)?.lastOffset, 5)
      await store(log, ['new'], { epoch: 20 })
      assert.equal((await readAll(log)).length, 4)
    } else assert.equal(log.state, 'failed')
    const again = await openHarness({ disk: disk.powerCut(new SeededRandom(failing)), boot: 'boot-2', config })
    const end = again.log.logEndOffset
    if (outcome === 'done') assert.equal(end, 7)
    else assert.ok(end >= 6 && end <= 16)
    assert.equal((await readAll(again.log)).at(-1)?.[1], end - 1)
  }
})

test('waiters of truncated records are refused', async () => {
  const { log, disk } = await openHarness()
  await store(log, ['a'])
  const blocked = disk.fail({ operation: 'datasync', path: /\.log$/, times: 1, nth: 1, effect: { kind: 'failedSync' } })
  blocked()
  const waiting = log.whenDurable(9)
  await log.truncateTo(0)
  await assert.rejects(waiting, (error: MoonMQError) => error.code === 'STORAGE_FAILED')
  assert.deepEqual([log.logEndOffset, log.segmentCount], [0, 1])
  appendTo(log, ['b'])
  await log.whenDurable(1)
})

test('a segment whose log file lost its new name in a power cut, and its indexes did not, is whole again', async () => {
  const { disk, manager, log } = await openHarness({ config: { segmentBytes: 200, indexIntervalBytes: 0 } })
  for (const value of ['a', 'b', 'c']) await store(log, [value.repeat(100)])
  await log.idle()
  await manager.checkpoint()
  const first = `${DATA_FOLDER}/t-0/00000000000000000000`
  const before = { index: disk.peek(`${first}.index`), timeindex: disk.peek(`${first}.timeindex`) }
  const left = disk.processKilled()
  for (const kind of ['index', 'timeindex']) await left.rename(`${first}.${kind}`, `${first}.${kind}.deleted`)
  const again = await openHarness({ disk: left, maxEpoch: 101 })
  assert.deepEqual({ index: left.peek(`${first}.index`), timeindex: left.peek(`${first}.timeindex`) }, before)
  assert.deepEqual(await readAll(again.log), [
    [0, 0],
    [1, 1],
    [2, 2],
  ])
  await again.manager.close()
})
