import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import type { LogRead } from '../../../src/storage/types.ts'
import { appendTo, filesOf, LOG_FILE, openHarness, readAll, store } from '../../support/storage.ts'

const COLD = { tailBytes: 0 }

function batches(read: LogRead): [number, number][] {
  const found: [number, number][] = []
  for (const bytes of read.buffers) {
    for (let at = 0; at < bytes.length; ) {
      const header = readBatchHeader(bytes, at, bytes.length)
      found.push([header.baseOffset, header.baseOffset + header.lastOffsetDelta])
      at += header.sizeBytes
    }
  }
  return found
}

/** Ten batches of three records; the last one stays in memory whatever the bound, the others are read from the file. */
async function tenBatches(options: { config?: object; manager?: object } = {}) {
  const harness = await openHarness({ manager: COLD, ...options })
  for (let index = 0; index < 10; index++) await store(harness.log, ['a', 'b', 'x'.repeat(index * 10)])
  return harness
}

for (const [where, manager] of [
  ['memory', {}],
  ['the file', COLD],
] as const) {
  test(`reads from ${where}: whole batches, the one that holds the offset first`, async () => {
    const { log } = await tenBatches({ manager })
    const read = await log.read({ offset: 4, maxBytes: 1 << 20, minOneBatch: false, limitOffset: 30 })
    assert.deepEqual([read.baseOffset, read.nextOffset], [3, where === 'memory' ? 30 : read.nextOffset])
    assert.deepEqual(batches(read)[0], [3, 5])
    read.release()
    assert.equal((await readAll(log)).length, 10)
  })

  test(`reads from ${where}: bounded by bytes, but for a first batch that was asked for whole`, async () => {
    const { log } = await tenBatches({ manager })
    const one = log.read({ offset: 0, maxBytes: 1, minOneBatch: true, limitOffset: 30 })
    assert.deepEqual(batches(await one), [[0, 2]])
    const none = await log.read({ offset: 0, maxBytes: 1, minOneBatch: false, limitOffset: 30 })
    assert.deepEqual([none.sizeBytes, none.nextOffset, none.buffers.length], [0, 0, 0])
    const sizes = (await Promise.resolve(log.read({ offset: 0, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 6 }))).sizeBytes
    const two = await log.read({ offset: 0, maxBytes: sizes, minOneBatch: true, limitOffset: 30 })
    assert.deepEqual(batches(two), [
      [0, 2],
      [3, 5],
    ])
    const short = await log.read({ offset: 0, maxBytes: sizes - 1, minOneBatch: true, limitOffset: 30 })
    assert.deepEqual(batches(short), [[0, 2]])
  })

  test(`reads from ${where}: nothing at or above the limit, not even inside a batch`, async () => {
    const { log } = await tenBatches({ manager })
    const read = await log.read({ offset: 0, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 5 })
    assert.deepEqual(batches(read), [[0, 2]])
    const inside = await log.read({ offset: 3, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 5 })
    assert.deepEqual([inside.sizeBytes, inside.nextOffset], [0, 3])
    const end = await log.read({ offset: 30, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 30 })
    assert.equal(end.sizeBytes, 0)
  })
}

test('an offset outside the log is refused with its range', async () => {
  const { log } = await tenBatches()
  for (const offset of [-1, 31]) {
    assert.throws(
      () => log.read({ offset, maxBytes: 1, minOneBatch: true, limitOffset: 30 }),
      (error: MoonMQError) => error.code === 'OFFSET_OUT_OF_RANGE' && error.details.end === 30,
    )
  }
})

test('reads go over segment borders and use few descriptors', async () => {
  const { log, manager } = await tenBatches({ config: { segmentBytes: 250 }, manager: { ...COLD, maxOpenFiles: 2 } })
  assert.ok(log.segmentCount > 4)
  assert.deepEqual(
    await readAll(log),
    Array.from({ length: 10 }, (_, index) => [index * 3, index * 3 + 2]),
  )
  assert.ok(manager.deps.handles.openFiles <= 3, `${manager.deps.handles.openFiles} files are open`)
  await manager.close()
  assert.equal(manager.deps.handles.openFiles, 0)
})

test('buffers of cold reads go back to the pool, once', async () => {
  const { log, manager } = await tenBatches()
  const read = await log.read({ offset: 0, maxBytes: 4096, minOneBatch: true, limitOffset: 30 })
  const before = manager.deps.pool.keptBytes
  read.release()
  const after = manager.deps.pool.keptBytes
  read.release()
  assert.ok(after > before)
  assert.equal(manager.deps.pool.keptBytes, after)
})

test('the memory of all tails is bounded, and what is not written stays', async () => {
  const { log, manager } = await openHarness({ manager: { tailBytes: 3000, tailBytesPerLog: 2000 } })
  for (let index = 0; index < 50; index++) await store(log, ['x'.repeat(200)])
  assert.ok(log.tail.bytes <= 2000 && log.tail.bytes > 1000)
  assert.equal(manager.deps.tailMemory.bytes, log.tail.bytes)
  for (let index = 0; index < 50; index++) appendTo(log, ['x'.repeat(200)])
  assert.ok(log.tail.bytes > 10_000)
  await log.whenDurable(100)
  await store(log, ['y'])
  assert.ok(log.tail.bytes <= 2000)
  assert.equal((await readAll(log)).length, 101)
})

test('a damaged index costs time, never a record: it is built again', async () => {
  const config = { segmentBytes: 2000, indexIntervalBytes: 0 }
  const one = await openHarness({ config })
  for (let index = 0; index < 40; index++) await store(one.log, ['x'.repeat(100)])
  await one.manager.close()
  const good = await filesOf(one.disk)
  const indexFiles = [...good.keys()].filter((path) => /\.(index|timeindex)$/.test(path))
  assert.ok(indexFiles.length > 4)
  const damages: [string, (bytes: Buffer) => Buffer][] = [
    ['zeros', (bytes) => Buffer.alloc(bytes.length)],
    ['all ones', (bytes) => Buffer.alloc(bytes.length, 0xff)],
    ['padded', (bytes) => Buffer.concat([bytes, Buffer.alloc(96)])],
    ['odd size', (bytes) => bytes.subarray(0, bytes.length - 3)],
    ['swapped', (bytes) => Buffer.concat([bytes.subarray(24), bytes.subarray(0, 24)])],
    ['empty', () => Buffer.alloc(0)],
  ]
  let disk = one.disk.processKilled()
  for (const [name, damage] of damages) {
    for (const path of indexFiles) {
      const bytes = damage(good.get(path) as Buffer)
      await disk.removeFile(path)
      const file = await disk.open(path, 'write')
      if (bytes.length > 0) await file.write([bytes], 0)
      await file.close()
    }
    const two = await openHarness({ disk, config, manager: { ...COLD } })
    for (let offset = 0; offset < 40; offset += 7) {
      const read = await two.log.read({ offset, maxBytes: 1, minOneBatch: true, limitOffset: 40 })
      assert.deepEqual(batches(read), [[offset, offset]], `${name}, offset ${offset}`)
      const found = await two.log.offsetForTimestamp(1_700_000_000_000, 40)
      assert.equal(found?.offset, 0, name)
    }
    await two.manager.close()
    disk = disk.processKilled()
  }
})

test('a missing index too', async () => {
  const config = { segmentBytes: 2000, indexIntervalBytes: 0 }
  const one = await openHarness({ config })
  for (let index = 0; index < 40; index++) await store(one.log, ['x'.repeat(100)])
  await one.manager.close()
  const disk = one.disk.processKilled()
  for (const path of (await filesOf(disk)).keys()) if (path.endsWith('index')) await disk.removeFile(path)
  const two = await openHarness({ disk, config })
  for (let offset = 0; offset < 40; offset += 7) {
    const read = await two.log.read({ offset, maxBytes: 1, minOneBatch: true, limitOffset: 40 })
    assert.deepEqual(batches(read), [[offset, offset]])
  }
  await two.manager.close()
})

test('a batch whose header says that it ends behind the limit is damage, not the end of what there is', async () => {
  const { log, disk } = await tenBatches({ config: { indexIntervalBytes: 1 << 20 } })
  // The last offset's delta and, to fit it, the count of records.
  for (const position of [23, 57]) disk.corrupt(LOG_FILE, position)
  await assert.rejects(
    async () => log.read({ offset: 0, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 30 }),
    (error: MoonMQError) => error.code === 'CORRUPT_RECORDS',
  )
})
