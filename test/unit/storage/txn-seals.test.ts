import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import type { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import { decodeOffsets, encodeOffsets } from '../../../src/storage/checkpoint.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { type LogHarness, openHarness, store, TOPIC_ID } from '../../support/storage.ts'

const FOLDER = '/data/t-0'
const POINTS = '/data/moonmq-recovery-points'
const config = { segmentBytes: 500, indexIntervalBytes: 0 }

/** A transaction of one record that is aborted: two offsets. */
async function abort(log: PartitionLog, producerId: number, sequence: number): Promise<void> {
  await store(log, ['x'.repeat(60)], { producerId, producerEpoch: 0, baseSequence: sequence, transactional: true })
  const marker = buildEndTxnMarker({ commit: false, producerId, producerEpoch: 0, coordinatorEpoch: 1, timestampMs: 1_700_000_000_000 })
  log.append(marker, readBatchHeader(marker), { leaderEpoch: 0 })
  await log.whenDurable(log.logEndOffset)
}

const aborted = (log: PartitionLog) => log.abortedTransactions(0, log.highWatermark).map((each) => each.firstOffset)

/** Once indexes that are built again are there. */
async function abortedOnceBuilt(log: PartitionLog): Promise<number[]> {
  for (let attempt = 0; attempt < 10; attempt++) {
    try {
      return aborted(log)
    } catch (error) {
      assert.equal((error as MoonMQError).code, 'STORAGE_FAILED')
      assert.equal((error as MoonMQError).retriable, true)
      await log.idle()
    }
  }
  throw new Error('the index was not built again')
}

/** Some segments with aborted transactions, and the offsets at which these begin. */
async function sample(): Promise<LogHarness & { readonly expected: readonly number[] }> {
  const harness = await openHarness({ config })
  for (let round = 0; round < 6; round++) await abort(harness.log, 7, round)
  await harness.log.idle()
  assert.ok(harness.log.segmentCount > 2)
  return { ...harness, expected: aborted(harness.log) }
}

async function indexes(disk: MemoryDisk): Promise<string[]> {
  const names = (await disk.list(FOLDER)).map((entry) => entry.name).filter((name) => name.endsWith('.txnindex'))
  return names.sort().map((name) => `${FOLDER}/${name}`)
}

async function put(disk: MemoryDisk, path: string, bytes: Buffer | null): Promise<void> {
  if (bytes === null) await disk.removeFile(path)
  else {
    const file = await disk.open(path, 'write')
    await file.truncate(0)
    if (bytes.length > 0) await file.write([bytes], 0)
    await file.datasync()
    await file.close()
  }
  await disk.syncDirectory(FOLDER)
}

/** Bits that leave an entry possible: of the producer id, and of the first offset. */
function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] as number) ^ 1
  return copy
}

test('a transaction index that is lost, emptied, changed in a possible way or exchanged is built again, after every ending', async () => {
  for (const ending of ['stop', 'kill', 'power'] as const) {
    const { disk, manager, log, expected } = await sample()
    await manager.checkpoint()
    await log.idle()
    const point = log.recoveryPoint
    if (ending === 'stop') await manager.close()
    const left = ending === 'power' ? disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' }) : disk.processKilled()
    const paths = await indexes(left)
    assert.ok(paths.length >= (ending === 'power' ? 2 : 3) && point > 4)
    for (const [number, path] of [paths[0] as string, paths[paths.length - 1] as string].entries()) {
      const bytes = left.peek(path) as Buffer
      const other = left.peek(paths[1 - number] as string) as Buffer
      for (const damaged of [null, Buffer.alloc(0), flipped(bytes, 9), flipped(bytes, 17), other]) {
        const copy = left.copy()
        await put(copy, path, damaged)
        const again = await openHarness({ disk: copy, config, boot: ending === 'power' ? 'boot-2' : 'boot-1' })
        assert.deepEqual(await abortedOnceBuilt(again.log), expected, `${ending}, ${path}, ${damaged?.length}`)
        assert.deepEqual(copy.peek(path), bytes)
        const isRead = ending === 'stop' || Number(path.slice(FOLDER.length + 1, FOLDER.length + 21)) + 4 < point
        const isSaid = again.lines.some((line) => line.event === 'storage.txn_index_damaged' && line.text.includes(path))
        assert.ok(isSaid || !isRead, 'a closed index that does not fit is reported')
        await again.manager.close()
        const third = await openHarness({ disk: copy.processKilled(), config })
        assert.deepEqual(aborted(third.log), expected)
        assert.ok(!third.lines.some((line) => line.event === 'storage.txn_index_damaged'))
        await third.manager.close()
      }
    }
  }
})

test('an index of nothing that appears is not believed', async () => {
  const { log, manager, disk } = await openHarness({ config })
  for (let index = 0; index < 12; index++) await store(log, ['x'.repeat(60)])
  await log.idle()
  await manager.checkpoint()
  const donor = await sample()
  const [path] = await indexes(donor.disk)
  const left = disk.processKilled()
  await put(left, `${FOLDER}/${'0'.repeat(20)}.txnindex`, donor.disk.peek(path as string))
  const again = await openHarness({ disk: left, config })
  assert.deepEqual(await abortedOnceBuilt(again.log), [])
  assert.ok(again.lines.some((line) => line.event === 'storage.txn_index_damaged'))
})

test('without the recovery points, or with those of an older format, every index is built from the log', async () => {
  const { disk, manager, expected } = await sample()
  await manager.close()
  const left = disk.processKilled()
  const [path] = await indexes(left)
  const points = decodeOffsets('recovery-points', left.peek(POINTS) as Buffer, POINTS)
  assert.ok((points[0]?.txnSeals?.length ?? 0) > 2)
  const unknown = encodeOffsets(
    'recovery-points',
    points.map(({ topicId, partition, offset }) => ({ topicId, partition, offset })),
  )
  const flippedPoints = flipped(left.peek(POINTS) as Buffer, 30)
  for (const bytes of [null, flippedPoints, unknown]) {
    const copy = left.copy()
    await put(copy, POINTS, bytes)
    await put(copy, path as string, null)
    const again = await openHarness({ disk: copy, config })
    assert.deepEqual(aborted(again.log), expected)
    const events = again.lines.map((line) => line.event)
    if (bytes === unknown) {
      const said = again.lines.filter((line) => line.event === 'storage.txn_seals_unknown')
      assert.deepEqual(
        said.map(({ level, fields }) => [level, fields]),
        [
          ['warn', { partitions: 1 }],
          ['debug', { folder: FOLDER }],
        ],
      )
    }
    if (bytes === flippedPoints) assert.ok(events.includes('storage.checkpoint_damaged'))
    await again.manager.close()
  }
})

test('a segment that ended right at the recovery point and was the active one is read again', async () => {
  const { disk, manager, log } = await openHarness({ config })
  while (log.segmentCount === 1) {
    await abort(log, 7, log.logEndOffset)
    if (log.segmentCount === 1) await manager.checkpoint()
  }
  // Its end was the recovery point; what followed began a new segment, and nothing of the index was synced.
  const expected = aborted(log)
  assert.ok(expected.length > 1)
  const left = disk.powerCut(new SeededRandom(3), { writes: 'none', names: 'none' })
  const again = await openHarness({ disk: left, config, boot: 'boot-2' })
  assert.deepEqual(aborted(again.log), expected)
})

test('seals and offsets of recovery points come back as they were, known or not', () => {
  const seal = { baseOffset: 2 ** 40, entries: 3, checksum: 0xfedcba98 }
  const entries = [
    { topicId: TOPIC_ID, partition: 0, offset: 5, txnSeals: [] },
    { topicId: TOPIC_ID, partition: 1, offset: 6 },
    { topicId: TOPIC_ID, partition: 2, offset: 2 ** 41, txnSeals: [{ ...seal, baseOffset: 0 }, seal] },
  ]
  const bytes = encodeOffsets('recovery-points', entries)
  assert.deepEqual(decodeOffsets('recovery-points', bytes, 'f'), entries)
  for (let at = 0; at < bytes.length; at++) {
    assert.throws(() => decodeOffsets('recovery-points', flipped(bytes, at), 'f'))
    assert.throws(() => decodeOffsets('recovery-points', bytes.subarray(0, at), 'f'))
  }
})
