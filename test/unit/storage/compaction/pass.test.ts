import assert from 'node:assert/strict'
import test from 'node:test'
import { ATTRIBUTE } from '../../../../src/record/batch.ts'
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
import { openHarness, type RecordedLine } from '../../../support/storage.ts'

/** Without markers and the filler that ends segments. */
function recordsOf(batches: readonly StoredBatch[]): [number, string | null, string | null][] {
  const records = batches.filter((batch) => !isMarker(batch)).flatMap((batch) => batch.records)
  return records.filter(({ key }) => key !== '-filler-').map(({ offset, key, value }) => [offset, key, value])
}

const isMarker = (batch: StoredBatch) => (batch.attributes & ATTRIBUTE.control) !== 0
const hasHorizon = (batch: StoredBatch) => (batch.attributes & ATTRIBUTE.deleteHorizon) !== 0

test('the latest record of each key stays, at its offset', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 30; round++) {
    put(log, [
      { key: `k${round % 3}`, value: `v${round}` },
      { key: 'same', value: `${round}` },
    ])
  }
  await roll(log)
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)), [
    [54, 'k0', 'v27'],
    [56, 'k1', 'v28'],
    [58, 'k2', 'v29'],
    [59, 'same', '29'],
  ])
  await manager.close()
})

test('nothing of the active segment is touched', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 5; round++) put(log, [{ key: 'a', value: `${round}` }])
  await compact(manager)
  assert.equal(recordsOf(await readBatches(log)).length, 5)
  await manager.close()
})

test('nothing is touched above the recovery point that is saved', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 5; round++) put(log, [{ key: 'a', value: `${round}` }])
  await roll(log)
  const checkpoint = manager.checkpoint
  manager.checkpoint = async () => {}
  await compact(manager)
  assert.equal(log.compaction.note.cleanedOffset, 0)
  manager.checkpoint = checkpoint
  await compact(manager)
  assert.ok(log.compaction.note.cleanedOffset > 0)
  await manager.close()
})

for (const codec of [0, 1, 2, 3, 4]) {
  test(`records go one by one out of a batch with codec ${codec}, which keeps its offsets, its sequence and its codec`, async () => {
    const { log, manager } = await openHarness({ config: { ...COMPACTED, segmentBytes: 4000 } })
    const records = [...Array(20).keys()].map((index) => ({
      key: `k${index}`,
      value: 'old '.repeat(10),
      timestampMs: 1_700_000_000_000 + index,
    }))
    put(log, records, { codec, compress: (id, bytes) => CODECS.deflate(id, bytes), producerId: 7, producerEpoch: 1, baseSequence: 100 })
    put(
      log,
      [...Array(20).keys()].filter((index) => ![3, 8].includes(index)).map((index) => ({ key: `k${index}`, value: 'new' })),
    )
    await roll(log)
    await compact(manager)
    const [first] = await readBatches(log)
    assert.ok(first !== undefined)
    assert.deepEqual(
      [first.baseOffset, first.lastOffset, first.recordCount, first.producerId, first.baseSequence, first.attributes & ATTRIBUTE.codecMask],
      [0, 19, 2, 7, 100, codec],
    )
    assert.deepEqual(
      first.records.map(({ offset, key, timestampMs }) => [offset, key, timestampMs]),
      [
        [3, 'k3', 1_700_000_000_003],
        [8, 'k8', 1_700_000_000_008],
      ],
    )
    assert.equal(first.maxTimestampMs, 1_700_000_000_008)
    await manager.close()
  })
}

test('O12: a tombstone stays for delete.retention.ms from its first compaction on and then goes without new traffic', async () => {
  const clock = new MovableClock()
  const { log, manager } = await openHarness({ clock, config: { ...COMPACTED, deleteRetentionMs: 10_000 } })
  put(log, [
    { key: 'a', value: '1' },
    { key: 'b', value: '1' },
  ])
  const timestampMs = clock.wallMs - 5
  put(log, [
    { key: 'c', value: '1', timestampMs },
    { key: 'a', value: null, timestampMs },
  ])
  await roll(log)
  clock.wallMs += 1_000_000
  await compact(manager)
  const [kept, marked] = await readBatches(log)
  assert.equal(hasHorizon(kept as StoredBatch), false)
  assert.equal(hasHorizon(marked as StoredBatch), true)
  assert.equal(marked?.baseTimestampMs, clock.wallMs + 10_000)
  assert.deepEqual(
    marked?.records.map((record) => record.timestampMs),
    [timestampMs, timestampMs],
  )
  clock.wallMs += 9_999
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)), [
    [1, 'b', '1'],
    [2, 'c', '1'],
    [3, 'a', null],
  ])
  clock.wallMs += 1
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)), [
    [1, 'b', '1'],
    [2, 'c', '1'],
  ])
  assert.equal(log.compaction.note.nextHorizonMs, -1)
  await manager.close()
})

test('O12: aborted records go, and their marker after its horizon; committed ones stay with theirs', async () => {
  const clock = new MovableClock()
  const { log, manager } = await openHarness({ clock, config: { ...COMPACTED, deleteRetentionMs: 10_000 } })
  put(log, [{ key: 'a', value: 'before' }])
  const txn = (producerId: number, baseSequence: number) => ({ transactional: true, producerId, producerEpoch: 0, baseSequence })
  put(log, [{ key: 'a', value: 'aborted' }], txn(1, 0))
  put(log, [{ key: 'b', value: 'committed' }], txn(2, 0))
  const abort = endTransaction(log, 1, false)
  const commit = endTransaction(log, 2, true)
  put(log, [{ key: 'z', value: 'later' }], txn(1, 1))
  put(log, [{ key: 'y', value: 'later' }], txn(2, 1))
  endTransaction(log, 1, true)
  endTransaction(log, 2, true)
  await roll(log)
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)).slice(0, 2), [
    [0, 'a', 'before'],
    [2, 'b', 'committed'],
  ])
  const markers = () => readBatches(log).then((batches) => batches.filter(isMarker).map((batch) => [batch.baseOffset, hasHorizon(batch)]))
  assert.deepEqual((await markers()).slice(0, 2), [
    [abort, true],
    [commit, false],
  ])
  assert.deepEqual(log.abortedTransactions(0, log.logEndOffset), [])
  clock.wallMs += 10_000
  await compact(manager)
  assert.deepEqual((await markers())[0], [commit, false])
  await manager.close()
})

test('an open transaction holds compaction back, and an aborted one whose marker lies in the active segment is known', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  const txn = { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 0 }
  put(log, [{ key: 'a', value: 'good' }])
  put(log, [{ key: 'a', value: 'aborted' }], txn)
  await roll(log)
  await compact(manager)
  assert.equal(log.compaction.note.cleanedOffset, 0)
  endTransaction(log, 1, false)
  await compact(manager)
  assert.ok(log.compaction.note.cleanedOffset > 0)
  const batches = await readBatches(log)
  assert.deepEqual(recordsOf(batches), [[0, 'a', 'good']])
  // The last batch of the producer stays without its record, so that its next sequence is known after a restart.
  assert.deepEqual(
    batches.slice(0, 2).map(({ baseOffset, lastOffset, recordCount, baseSequence }) => [baseOffset, lastOffset, recordCount, baseSequence]),
    [
      [0, 0, 1, -1],
      [1, 1, 0, 0],
    ],
  )
  await manager.close()
})

test('records without a key, from before the topic was compacted, go', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  put(log, [{ key: null, value: 'x' }])
  put(log, [{ key: 'a', value: '1' }])
  await roll(log)
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)), [[1, 'a', '1']])
  await manager.close()
})

test('more keys than memory has room for take several passes', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 4; round++) {
    for (let key = 0; key < 20; key++)
      put(log, [
        { key: `k${key}`, value: `${round}` },
        { key: `l${key}`, value: `${round}` },
      ])
  }
  await roll(log)
  const lines: RecordedLine[] = []
  await compact(manager, { keyBudgetBytes: 240, lines })
  const records = recordsOf(await readBatches(log))
  assert.equal(records.length, 40)
  assert.ok(records.every(([offset, , value]) => offset >= 120 && value === '3'))
  assert.ok(Number(lines[0]?.fields['passes']) > 10)
  await manager.close()
})

test('min.compaction.lag.ms keeps what is young, max.compaction.lag.ms takes what waited', async () => {
  const clock = new MovableClock()
  const { log, manager } = await openHarness({
    clock,
    config: { ...COMPACTED, minCompactionLagMs: 60_000, maxCompactionLagMs: 3_600_000, minCleanableDirtyRatio: 1 },
  })
  for (let round = 0; round < 3; round++) put(log, [{ key: 'a', value: `${round}`, timestampMs: clock.wallMs }])
  await roll(log)
  await compact(manager)
  assert.equal(log.compaction.note.cleanedOffset, 0)
  clock.wallMs += 3_600_001
  await compact(manager)
  assert.deepEqual(recordsOf(await readBatches(log)), [[2, 'a', '2']])
  await manager.close()
})

test('small segments become one', async () => {
  const { log, manager } = await openHarness({ config: COMPACTED })
  for (let round = 0; round < 300; round++) put(log, [{ key: 'a', value: 'x'.repeat(100) }])
  await roll(log)
  await compact(manager)
  const before = log.segmentCount
  assert.ok(before > 10)
  for (let round = 0; round < 30; round++) put(log, [{ key: 'a', value: 'x'.repeat(100) }])
  await roll(log)
  await compact(manager)
  assert.ok(log.segmentCount < 6, `${before} segments became ${log.segmentCount}`)
  await manager.close()
})
