import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { NodeLoader } from '../../../src/io/loader.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { readBatchHeader, verifyBatchCrc } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { CODEC, Codecs } from '../../../src/record/compression.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { appendTo, filesOf, openHarness, store } from '../../support/storage.ts'

const T = 1_700_000_000_000

/** Records at T, T+10, T+20, … two a batch, one batch out of order, over several segments. */
async function timed(options = {}) {
  const harness = await openHarness({ config: { segmentBytes: 300, indexIntervalBytes: 0 }, ...options })
  const codecs = new Codecs({ loader: new NodeLoader() })
  for (let index = 0; index < 10; index++) {
    const first = index === 5 ? T - 500 : T + index * 20
    const batch = buildBatch(
      [first, first + 10].map((timestampMs) => ({ key: null, value: Buffer.alloc(50), timestampMs })),
      index % 2 === 0 ? {} : { codec: CODEC.gzip, compress: (codec, bytes) => codecs.deflate(codec, bytes) },
    )
    harness.log.append(batch, readBatchHeader(batch), { leaderEpoch: index < 5 ? 1 : 2 })
  }
  await harness.log.whenDurable(20)
  return harness
}

async function expectLookups(log: PartitionLog): Promise<void> {
  const at = async (timestampMs: number, limit = 20) => (await log.offsetForTimestamp(timestampMs, limit))?.offset ?? null
  assert.equal(await at(0), 0)
  assert.equal(await at(T), 0)
  assert.equal(await at(T + 1), 1)
  assert.equal(await at(T + 30), 3)
  assert.equal(await at(T + 95), 12)
  assert.equal(await at(T + 190), 19)
  assert.equal(await at(T + 191), null)
  assert.equal(await at(T + 190, 19), null)
  assert.deepEqual(await log.offsetForTimestamp(T + 61, 20), { offset: 7, timestampMs: T + 70, leaderEpoch: 1 })
  assert.deepEqual(await log.offsetOfMaxTimestamp(), { offset: 19, timestampMs: T + 190, leaderEpoch: 2 })
}

test('offsets by time: the first record at or after it, in compressed batches too, below the limit', async () => {
  const { log, manager, disk } = await timed()
  assert.ok(log.segmentCount > 3)
  await expectLookups(log)
  await manager.close()
  const again = await openHarness({ disk: disk.processKilled(), config: { segmentBytes: 300, indexIntervalBytes: 0 } })
  await expectLookups(again.log)
  again.log.advanceLogStart(3)
  assert.equal((await again.log.offsetForTimestamp(0, 20))?.offset, 3)
  await again.manager.close()
})

test('an empty log knows no times', async () => {
  const { log } = await openHarness()
  assert.equal(await log.offsetForTimestamp(0, 0), null)
  assert.equal(await log.offsetOfMaxTimestamp(), null)
})

test('log append time takes the place of the producer’s, with a new checksum', async () => {
  const clock = new VirtualClock()
  const { log } = await openHarness({ clock, disk: new MemoryDisk({ clock }), config: { timestampType: 'LogAppendTime' } })
  const appended = appendTo(log, ['a', 'b'], { timestampMs: 5 })
  assert.equal(appended.logAppendTimeMs, clock.nowMs())
  await clock.advance(1)
  const read = await log.read({ offset: 0, maxBytes: 1000, minOneBatch: true, limitOffset: 2 })
  const batch = read.buffers[0] as Buffer
  const header = readBatchHeader(batch)
  verifyBatchCrc(batch, 0, header)
  assert.equal(header.maxTimestampMs, appended.logAppendTimeMs)
  assert.equal((await log.offsetForTimestamp(6, 2))?.offset, 0)
})

test('epochs: the end of each, and of those never seen', async () => {
  const { log } = await timed()
  assert.deepEqual(log.endOffsetForEpoch(1, -1), { leaderEpoch: 1, endOffset: 10 })
  assert.deepEqual(log.endOffsetForEpoch(2, -1), { leaderEpoch: 2, endOffset: 20 })
  assert.deepEqual(log.endOffsetForEpoch(0, -1), { leaderEpoch: 0, endOffset: 0 })
  assert.deepEqual(log.endOffsetForEpoch(9, -1), { leaderEpoch: -1, endOffset: -1 })
})

function marker(log: PartitionLog, producerId: number, commit: boolean): number {
  const batch = buildEndTxnMarker({ commit, producerId, producerEpoch: 0, coordinatorEpoch: 1, timestampMs: T })
  return log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 }).lastOffset
}

test('transactions: the last stable offset, and aborted ones, across rolls, stops and kills', async () => {
  const config = { segmentBytes: 400 }
  const { log, manager, disk } = await openHarness({ config })
  const transactional = (producerId: number, baseSequence: number) =>
    store(log, ['x'.repeat(60)], { producerId, producerEpoch: 0, baseSequence, transactional: true })
  await transactional(1, 0)
  await transactional(2, 0)
  await store(log, ['plain'])
  assert.deepEqual([log.highWatermark, log.lastStableOffset], [3, 0])
  const aborted = marker(log, 1, false)
  assert.equal(log.lastStableOffset, 0)
  await log.whenDurable(aborted + 1)
  assert.equal(log.lastStableOffset, 1)
  await transactional(1, 1)
  await transactional(2, 1)
  await log.whenDurable(marker(log, 2, true) + 1)
  assert.equal(log.lastStableOffset, 4)
  await log.whenDurable(marker(log, 1, false) + 1)
  assert.equal(log.lastStableOffset, log.highWatermark)
  assert.ok(log.segmentCount > 1)
  const expected = [
    { producerId: 1, firstOffset: 0 },
    { producerId: 1, firstOffset: 4 },
  ]
  assert.deepEqual(log.abortedTransactions(0, 8), expected)
  assert.deepEqual(log.abortedTransactions(0, 3), expected.slice(0, 1))
  assert.deepEqual(log.abortedTransactions(4, 8), expected.slice(1))
  await manager.close()
  const clean = await openHarness({ disk: disk.processKilled(), config })
  assert.deepEqual(clean.log.abortedTransactions(0, 8), expected)
  assert.equal(clean.log.lastStableOffset, 8)
  const killed = await openHarness({ disk: (clean.disk as MemoryDisk).processKilled(), config })
  assert.deepEqual(killed.log.abortedTransactions(0, 8), expected)
  await killed.manager.close()
})

test('a damaged transaction index is refused, then built again', async () => {
  const config = { segmentBytes: 400 }
  const { log, manager, disk } = await openHarness({ config })
  await store(log, ['a'], { producerId: 1, producerEpoch: 0, baseSequence: 0, transactional: true })
  await log.whenDurable(marker(log, 1, false) + 1)
  for (let index = 0; index < 5; index++) await store(log, ['x'.repeat(200)])
  await manager.close()
  const killed = disk.processKilled()
  const path = [...(await filesOf(killed)).keys()].find((name) => name.endsWith('.txnindex')) as string
  killed.corrupt(path, 1)
  const again = await openHarness({ disk: killed, config })
  assert.throws(
    () => again.log.abortedTransactions(0, 7),
    (error: MoonMQError) => error.retriable,
  )
  await again.log.idle()
  assert.deepEqual(again.log.abortedTransactions(0, 7), [{ producerId: 1, firstOffset: 0 }])
  await again.manager.close()
})
