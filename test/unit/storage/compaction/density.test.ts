import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../../../src/core/random.ts'
import type { MemoryDisk } from '../../../../src/io/memory-disk.ts'
import { BufferPool } from '../../../../src/storage/buffer-pool.ts'
import { importLog } from '../../../../src/storage/import-partition.ts'
import type { PartitionLog } from '../../../../src/storage/partition-log.ts'
import { validateLogs } from '../../../../src/storage/validate.ts'
import {
  CODECS,
  COMPACTED,
  compact,
  endTransaction,
  MovableClock,
  put,
  readBatches,
  roll,
  type StoredBatch,
} from '../../../support/compaction.ts'
import { DATA_FOLDER, diskWith, filesOf, openHarness, openManager, type RecordedLine, TOPIC_ID } from '../../../support/storage.ts'

const FOLDER = `${DATA_FOLDER}/t-0`
const NOTE = `${FOLDER}/moonmq-compaction`
const PARTITION = { topic: 't', partition: 0, topicId: TOPIC_ID }

/** Whole batches gone, the ends of batches gone, the end of a segment gone, and 100,000 offsets in a row. */
async function holes(): Promise<{
  disk: MemoryDisk
  log: PartitionLog
  manager: Awaited<ReturnType<typeof openManager>>
  clock: MovableClock
}> {
  const clock = new MovableClock()
  const harness = await openHarness({ clock, config: { ...COMPACTED, segmentBytes: 1_000_000 } })
  const { log } = harness
  put(log, [
    { key: 'first', value: '1' },
    { key: 'gone', value: '1' },
  ])
  put(log, [{ key: 'gone', value: '2' }])
  for (let batch = 0; batch < 50; batch++)
    put(
      log,
      Array.from({ length: 2000 }, () => ({ key: 'many', value: '' })),
    )
  put(log, [
    { key: 'second', value: '1' },
    { key: 'gone', value: '3' },
  ])
  put(log, [{ key: 'again', value: '1' }], { producerId: 9, producerEpoch: 0, baseSequence: 0 })
  log.reconfigure({ ...log.config, segmentBytes: 1000 })
  await roll(log)
  put(log, [
    { key: 'many', value: 'last' },
    { key: 'gone', value: 'last' },
    { key: 'again', value: 'last' },
  ])
  await roll(log)
  await compact(harness.manager, { clock })
  return { ...harness, clock }
}

function offsetsOf(batches: readonly StoredBatch[]): number[] {
  return batches.flatMap((batch) => batch.records.map((record) => record.offset))
}

test('O11: a read at every offset around a hole gives the next batch at or above it, and never nothing', async () => {
  const { log, manager } = await holes()
  const all = await readBatches(log)
  const edges = all.flatMap(({ baseOffset, lastOffset }) => [baseOffset - 1, baseOffset, baseOffset + 1, lastOffset, lastOffset + 1])
  const within = Array.from({ length: 100 }, (_, index) => index * 1009)
  assert.ok(
    all.some(({ recordCount }) => recordCount === 0),
    'an empty batch keeps the sequence of a producer',
  )
  for (const offset of new Set([...edges, ...within])) {
    if (offset < 0 || offset >= log.highWatermark) continue
    for (const maxBytes of [1, 100, 1_000_000]) {
      const read = await log.read({ offset, maxBytes, minOneBatch: true, limitOffset: log.highWatermark })
      const next = all.find(({ lastOffset }) => lastOffset >= offset)
      assert.equal(read.baseOffset, next?.baseOffset, `at ${offset}`)
      assert.ok(read.nextOffset > offset)
      read.release()
    }
  }
  await manager.close()
})

test('searches by time see past empty batches', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  put(log, [{ key: 'a', value: '1', timestampMs: 1000 }])
  put(log, [{ key: 'b', value: '1', timestampMs: 9_000 }], { producerId: 9, producerEpoch: 0, baseSequence: 0 })
  put(log, [{ key: 'b', value: '2', timestampMs: 2000 }])
  while (log.segmentCount === 1) put(log, [{ key: 'c', value: 'x'.repeat(300), timestampMs: 3000 }])
  await compact(manager)
  assert.equal((await readBatches(log)).find(({ baseOffset }) => baseOffset === 1)?.recordCount, 0)
  const end = log.logEndOffset
  assert.deepEqual(await log.offsetForTimestamp(1500, end), { offset: 2, timestampMs: 2000, leaderEpoch: 0 })
  assert.equal(await log.offsetForTimestamp(5000, end), null)
  const max = await log.offsetOfMaxTimestamp()
  assert.equal(max?.timestampMs, 3000)
  await manager.close()
})

for (const way of ['a stop in order', 'a crash', 'a power cut'] as const) {
  test(`holes are no damage after ${way}, whatever the topic is set to by then`, async () => {
    const { disk, log, manager, clock } = await holes()
    const before = await readBatches(log)
    if (way === 'a stop in order') await manager.close()
    const survivor =
      way === 'a power cut' ? disk.powerCut(new SeededRandom(1), {}, { clock }) : way === 'a crash' ? disk.processKilled({ clock }) : disk
    const lines: RecordedLine[] = []
    const again = await openManager(survivor, { clock, lines, boot: way === 'a power cut' ? 'boot-2' : 'boot-1' })
    const reopened = await again.open({ ...PARTITION, config: { ...log.config, isCompacted: false, isDeleted: true }, maxEpoch: 100 })
    assert.deepEqual(await readBatches(reopened), before)
    assert.equal(reopened.producer(9)?.batches.at(-1)?.lastSequence, 0)
    assert.deepEqual(
      lines.filter(({ level }) => level === 'error'),
      [],
    )
    await again.close()
    const report = await validateLogs(
      { disk: survivor, clock, codecs: CODECS },
      { folder: DATA_FOLDER, known: [{ ...PARTITION, leaderEpoch: 100 }] },
    )
    assert.deepEqual(
      report.problems.filter(({ file }) => file !== 'meta.properties'),
      [],
    )
  })
}

test('where the note is missing, or does not reach, a gap is damage', async () => {
  const { disk, log, manager, clock } = await holes()
  const config = log.config
  const before = await readBatches(log)
  await manager.close()
  const files = await filesOf(disk)
  const read = async (note: Buffer | null) => {
    const changed = new Map(files)
    if (note === null) changed.delete(NOTE)
    else changed.set(NOTE, note)
    const copy = await diskWith(changed)
    const known = [{ ...PARTITION, leaderEpoch: 100 }]
    const report = await validateLogs({ disk: copy, clock, codecs: CODECS }, { folder: DATA_FOLDER, known })
    const again = await openManager(copy, { clock })
    try {
      const reopened = await again.open({ ...PARTITION, config, maxEpoch: 100 })
      return { batches: await readBatches(reopened), report }
    } finally {
      await again.close()
    }
  }
  await assert.rejects(read(null), { code: 'CORRUPT_RECORDS' })
  const note = files.get(NOTE) as Buffer
  assert.deepEqual((await read(note)).batches, before)
  // A damaged note still says that the log was compacted.
  for (const damaged of [Buffer.from('not a note'), Buffer.from(note).fill(1, 10, 11)]) {
    const { batches, report } = await read(damaged)
    assert.deepEqual(batches, before)
    assert.ok(report.repairs.some(({ file }) => file === 't-0/moonmq-compaction'))
  }
})

test('a snapshot from before a compaction is not used: the marker behind it may be gone', async () => {
  const clock = new MovableClock()
  const { disk, log, manager } = await openHarness({ clock, config: { ...COMPACTED, deleteRetentionMs: 0 } })
  put(log, [{ key: 'a', value: '1' }], { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 0 })
  await roll(log)
  endTransaction(log, 1, false)
  put(log, [{ key: 'a', value: '1' }], { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 1 })
  endTransaction(log, 1, true)
  await roll(log)
  await compact(manager, { clock })
  const { config } = log
  await manager.close()
  const files = await filesOf(disk)
  const snapshots = [...files.keys()].filter((path) => path.endsWith('.snapshot'))
  assert.ok(snapshots.length > 1)
  for (const path of [...snapshots.slice(1), `${DATA_FOLDER}/moonmq-clean-shutdown`]) files.delete(path)
  const again = await openManager(await diskWith(files), { clock })
  const reopened = await again.open({ ...PARTITION, config, maxEpoch: 100 })
  assert.equal(reopened.lastStableOffset, reopened.highWatermark)
  assert.equal(reopened.producer(1)?.batches.at(-1)?.lastSequence, 1)
  await again.close()
})

test('after a damaged note compaction begins anew and comes to the same', async () => {
  const { disk, log, manager, clock } = await holes()
  const before = await readBatches(log)
  const config = log.config
  await manager.close()
  const files = await filesOf(disk)
  files.set(NOTE, Buffer.alloc(34))
  const lines: RecordedLine[] = []
  const again = await openManager(await diskWith(files), { clock, lines })
  const reopened = await again.open({ ...PARTITION, config, maxEpoch: 100 })
  assert.ok(lines.some(({ event }) => event === 'storage.compaction_note_damaged'))
  assert.equal(reopened.compaction.note.cleanedOffset, 0)
  await compact(again, { clock })
  assert.deepEqual(offsetsOf(await readBatches(reopened)), offsetsOf(before))
  await again.close()
})

test('producers, transactions and epochs are rebuilt from a compacted log', async () => {
  const clock = new MovableClock()
  const { disk, log, manager } = await openHarness({ clock, config: COMPACTED })
  for (let sequence = 0; sequence < 20; sequence++) {
    for (const producerId of [1, 2]) {
      put(log, [{ key: 'k', value: `${sequence}` }], { transactional: true, producerId, producerEpoch: 3, baseSequence: sequence })
      endTransaction(log, producerId, producerId === 1, 3)
    }
    put(log, [{ key: 'k', value: 'x'.repeat(50) }], { producerId: 3, producerEpoch: 0, baseSequence: sequence })
  }
  await roll(log)
  await compact(manager, { clock })
  const last = (from: PartitionLog) =>
    [1, 2, 3].map((id) => [from.producer(id)?.producerEpoch, from.producer(id)?.batches.at(-1)?.lastSequence])
  const expected = last(log)
  const batches = await readBatches(log)
  const { config } = log
  await manager.close()
  const files = await filesOf(disk)
  for (const path of files.keys())
    if (/snapshot|txnindex|\.index|timeindex|leader-epoch|clean-shutdown|recovery-points/.test(path)) files.delete(path)
  const again = await openManager(await diskWith(files), { clock })
  const reopened = await again.open({ ...PARTITION, config, maxEpoch: 100 })
  assert.deepEqual(last(reopened), expected)
  assert.deepEqual(await readBatches(reopened), batches)
  assert.equal(reopened.lastStableOffset, reopened.highWatermark)
  put(reopened, [{ key: 'k', value: 'next' }], { producerId: 3, producerEpoch: 0, baseSequence: 20 })
  await again.close()
})

test('a compacted log of another broker is taken over with a note of its holes', async () => {
  const { disk, log, manager, clock } = await holes()
  const before = await readBatches(log)
  const { config } = log
  await manager.close()
  await disk.makeDirectory('/copy')
  const source = { topic: 't', partition: 0, folder: FOLDER, topicId: TOPIC_ID, logStart: null, sizeBytes: 0 }
  const deps = { disk, clock, codecs: CODECS, pool: new BufferPool({ maxKeptBytes: 0 }) }
  const imported = await importLog(deps, source, { target: '/copy', onBytes: () => {} })
  assert.equal(imported.hasHoles, true)
  const files = new Map([...(await filesOf(disk, '/copy'))].map(([path, bytes]) => [path.replace('/copy', FOLDER), bytes]))
  files.set(`${FOLDER}/partition.metadata`, disk.peek(`${FOLDER}/partition.metadata`) as Buffer)
  const again = await openManager(await diskWith(files), { clock })
  const reopened = await again.open({ ...PARTITION, config, maxEpoch: 100 })
  assert.deepEqual(await readBatches(reopened), before)
  await again.close()
})
