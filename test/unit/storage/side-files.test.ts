import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isCode, MoonMQError } from '../../../src/core/errors.ts'
import type { Logger } from '../../../src/core/logger.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { METADATA_TOPIC_ID, newUuid } from '../../../src/core/uuid.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { FixedHost } from '../../../src/io/host.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import {
  decodeCleanShutdown,
  decodeOffsets,
  encodeCleanShutdown,
  encodeOffsets,
  ROOT_FILES,
  readOffsets,
  takeCleanShutdown,
  writeCleanShutdown,
  writeOffsets,
} from '../../../src/storage/checkpoint.ts'
import { EpochCache } from '../../../src/storage/epoch-cache.ts'
import {
  decodeEpochCheckpoint,
  encodeEpochCheckpoint,
  readEpochCheckpoint,
  writeEpochCheckpoint,
} from '../../../src/storage/epoch-checkpoint.ts'
import { decodeIdentity, encodeIdentity, IDENTITY_NAME, openIdentity } from '../../../src/storage/identity.ts'
import { DataFolderLock, dataFolderHolder, LOCK_NAME } from '../../../src/storage/lock.ts'
import {
  decodeProducerSnapshot,
  encodeProducerSnapshot,
  listProducerSnapshots,
  loadProducerSnapshot,
  producerSnapshotName,
  removeOldProducerSnapshots,
  writeProducerSnapshot,
} from '../../../src/storage/producer-snapshot.ts'
import { type AbortedTxnEntry, decodeTxnIndex, encodeTxnIndexEntry, TxnIndex } from '../../../src/storage/txn-index.ts'
import type { AbortedTransaction, ProducerEntry } from '../../../src/storage/types.ts'

const FOLDER = '/data'
const LOG = { disk: () => newDisk(), folder: '/data/t-0' }

function newDisk(): MemoryDisk {
  return new MemoryDisk({ clock: new VirtualClock() })
}

async function folderDisk(): Promise<MemoryDisk> {
  const disk = newDisk()
  await disk.makeDirectory(LOG.folder)
  await disk.syncDirectory('/')
  await disk.syncDirectory('/data')
  return disk
}

async function plant(disk: MemoryDisk, path: string, bytes: Buffer): Promise<void> {
  const file = await disk.open(path, 'write')
  await file.truncate(0)
  await file.write([bytes], 0)
  await file.close()
}

function producer(producerId: number, lastOffset: number): ProducerEntry {
  const batch = { baseSequence: 5, lastSequence: 6, baseOffset: lastOffset - 1, lastOffset, timestampMs: 77 }
  return { producerId, producerEpoch: 2, batches: [batch], lastTimestampMs: 77, coordinatorEpoch: 4, currentTxnFirstOffset: lastOffset - 1 }
}

/** Every flip of a bit and every cut of a file with a checksum must be refused with a typed error. */
function assertDetects(bytes: Buffer, decode: (bytes: Buffer) => unknown, codes: readonly string[]): void {
  const refused = (damaged: Buffer, what: string) =>
    assert.throws(
      () => decode(damaged),
      (error) => error instanceof MoonMQError && codes.includes(error.code),
      what,
    )
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const damaged = Buffer.from(bytes)
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7))
    refused(damaged, `bit ${bit}`)
  }
  for (let size = 0; size < bytes.length; size++) refused(bytes.subarray(0, size), `cut to ${size}`)
  refused(Buffer.concat([bytes, Buffer.alloc(1)]), 'a byte more')
}

// ---- producer snapshots ---------------------------------------------------------------------------------------------------

test('a producer snapshot detects every flipped bit and every cut', () => {
  const bytes = encodeProducerSnapshot([producer(1, 10), producer(2, 20)])
  assert.deepEqual(decodeProducerSnapshot(bytes, { file: 'f', endOffset: 21 }), [producer(1, 10), producer(2, 20)])
  assertDetects(bytes, (damaged) => decodeProducerSnapshot(damaged, { file: 'f', endOffset: 21 }), ['CORRUPT_RECORDS'])
  assert.throws(
    () => decodeProducerSnapshot(bytes, { file: 'f', endOffset: 20 }),
    (error) => isCode(error, 'CORRUPT_RECORDS'),
  )
})

test('the newest whole snapshot at or below the log end is loaded; damaged ones and later ones go', async () => {
  const disk = await folderDisk()
  for (const offset of [10, 20, 30, 40]) await writeProducerSnapshot(disk, LOG.folder, offset, [producer(1, offset - 1)])
  disk.corrupt(`${LOG.folder}/${producerSnapshotName(30)}`, 12)
  const warnings: string[] = []
  const log: Logger = { ...SILENT, warn: (event) => void warnings.push(event) }
  const loaded = await loadProducerSnapshot({ disk, log }, { directory: LOG.folder, maxOffset: 35 })
  assert.equal(loaded?.endOffset, 20)
  assert.deepEqual(warnings, ['storage.snapshot_damaged'])
  assert.deepEqual(await listProducerSnapshots(disk, LOG.folder), [10, 20])
  await removeOldProducerSnapshots(disk, LOG.folder, 100)
  assert.deepEqual(await listProducerSnapshots(disk, LOG.folder), [20])
  assert.equal(await loadProducerSnapshot({ disk, log }, { directory: LOG.folder, maxOffset: 5 }), null)
})

// ---- transaction index ----------------------------------------------------------------------------------------------------

const ABORTED: readonly AbortedTxnEntry[] = [
  { producerId: 1, firstOffset: 100, lastOffset: 110, lastStableOffset: 105 },
  { producerId: 2, firstOffset: 105, lastOffset: 115, lastStableOffset: 116 },
  { producerId: 1, firstOffset: 120, lastOffset: 130, lastStableOffset: 131 },
]

function collected(index: TxnIndex, from: number, to: number): { firsts: number[]; complete: boolean } {
  const found: AbortedTransaction[] = []
  const complete = index.collect(from, to, found)
  return { firsts: found.map((each) => each.firstOffset), complete }
}

test('the transaction index keeps what it was given, finds what overlaps, and says when a later segment cannot add to it', async () => {
  const disk = await folderDisk()
  const place = { path: `${LOG.folder}/00000000000000000100.txnindex`, baseOffset: 100 }
  const index = new TxnIndex({ disk }, place)
  assert.deepEqual(collected(index, 0, 1000), { firsts: [], complete: false })
  assert.equal(disk.peek(place.path), null)
  assert.deepEqual(
    ABORTED.map((entry) => index.append(entry)),
    [true, false, false],
  )
  await index.sync()
  await index.close()
  for (const open of [index, new TxnIndex({ disk }, place)]) {
    assert.deepEqual(collected(open, 100, 101), { firsts: [100], complete: true })
    assert.deepEqual(collected(open, 111, 118), { firsts: [105], complete: true })
    assert.deepEqual(collected(open, 116, 125), { firsts: [120], complete: true })
    assert.deepEqual(collected(open, 100, 500), { firsts: [100, 105, 120], complete: false })
    assert.deepEqual(collected(open, 131, 500), { firsts: [], complete: false })
  }
  await index.rebuild(ABORTED.slice(0, 1))
  assert.equal(disk.peek(place.path)?.length, 34)
  index.append({ producerId: 9, firstOffset: 112, lastOffset: 113, lastStableOffset: 114 })
  assert.deepEqual(collected(index, 0, 1000).firsts, [100, 112])
  await index.reset()
  assert.equal(disk.peek(place.path), null)
  await index.close()
})

test('collect agrees with a scan of all transactions, for any history', () => {
  const transactions = fc.array(fc.record({ length: fc.integer({ min: 1, max: 9 }), gap: fc.nat(4), overlap: fc.nat(6) }), {
    maxLength: 30,
  })
  fc.assert(
    fc.property(transactions, fc.nat(150), fc.nat(60), (parts, from, size) => {
      const index = new TxnIndex({ disk: newDisk() }, { path: '/x.txnindex', baseOffset: 0 })
      const entries: AbortedTxnEntry[] = []
      let marker = 10
      for (const [producerId, part] of parts.entries()) {
        marker += part.length + part.gap
        // A record never stands where the marker of another transaction does.
        let firstOffset = Math.max(0, marker - part.length - part.overlap)
        while (entries.some((entry) => entry.lastOffset === firstOffset)) firstOffset--
        entries.push({ producerId, firstOffset, lastOffset: marker, lastStableOffset: 0 })
      }
      // What the log would have known: the first offset of the oldest transaction that was still open when the marker came.
      const withStable = entries.map((entry, at) => {
        const open = entries.slice(at + 1).filter((later) => later.firstOffset < entry.lastOffset)
        return { ...entry, lastStableOffset: Math.min(entry.lastOffset + 1, ...open.map((later) => later.firstOffset)) }
      })
      for (const entry of withStable) index.append(entry)
      const to = from + size
      const expected = withStable.filter((entry) => entry.lastOffset >= from && entry.firstOffset < to).map((entry) => entry.firstOffset)
      assert.deepEqual(collected(index, from, to).firsts, expected)
    }),
  )
})

test('a damaged transaction index is refused with file and byte, or gives entries that could be true', () => {
  const bytes = Buffer.concat(ABORTED.map(encodeTxnIndexEntry))
  const decode = (damaged: Buffer) => decodeTxnIndex(damaged, { file: 'f', position: 0, baseOffset: 100 }, undefined)
  assert.deepEqual(decode(bytes), ABORTED)
  for (let size = 1; size < bytes.length; size++) {
    if (size % 34 !== 0)
      assert.throws(
        () => decode(bytes.subarray(0, size)),
        (error) => isCode(error, 'CORRUPT_RECORDS'),
      )
  }
  let undetected = 0
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const damaged = Buffer.from(bytes)
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7))
    try {
      for (const entry of decode(damaged)) assert.ok(entry.firstOffset < entry.lastOffset)
      undetected++
    } catch (error) {
      assert.ok(isCode(error, 'CORRUPT_RECORDS'))
    }
  }
  // Kafka's format has no checksum, so some flips cannot be told here: the index is compared with the log by `validate`.
  assert.ok(undetected > 0)
})

// ---- leader epochs --------------------------------------------------------------------------------------------------------

test('the epoch cache answers as KIP-101 and KIP-279 say', () => {
  const cache = new EpochCache()
  assert.deepEqual(cache.endOffsetFor(0, 0, -1), { leaderEpoch: -1, endOffset: -1 })
  assert.deepEqual(cache.endOffsetFor(0, 0, 0), { leaderEpoch: 0, endOffset: 0 })
  assert.equal(cache.assign(2, 10), true)
  assert.equal(cache.assign(2, 15), false)
  assert.equal(cache.assign(5, 20), true)
  assert.equal(cache.assign(7, 30), true)
  assert.deepEqual(cache.endOffsetFor(7, 40, -1), { leaderEpoch: 7, endOffset: 40 })
  assert.deepEqual(cache.endOffsetFor(6, 40, -1), { leaderEpoch: 5, endOffset: 30 })
  assert.deepEqual(cache.endOffsetFor(2, 40, -1), { leaderEpoch: 2, endOffset: 20 })
  assert.deepEqual(cache.endOffsetFor(1, 40, -1), { leaderEpoch: 1, endOffset: 10 })
  assert.deepEqual(cache.endOffsetFor(8, 40, -1), { leaderEpoch: -1, endOffset: -1 })
  assert.deepEqual(cache.endOffsetFor(-1, 40, -1), { leaderEpoch: -1, endOffset: -1 })
  assert.deepEqual(cache.endOffsetFor(9, 40, 9), { leaderEpoch: 9, endOffset: 40 }, 'it has begun, with nothing in it')
  assert.deepEqual(cache.endOffsetFor(8, 40, 9), { leaderEpoch: 7, endOffset: 40 })
  assert.deepEqual(cache.endOffsetFor(10, 40, 9), { leaderEpoch: -1, endOffset: -1 })
  assert.equal(cache.epochFor(19), 2)
  assert.equal(cache.epochFor(9), -1)
  assert.equal(cache.agrees(20, 5), true)
  assert.equal(cache.agrees(20, 2), false)
  assert.equal(cache.truncateFromStart(25), true)
  assert.deepEqual(cache.entries, [
    { leaderEpoch: 5, startOffset: 25 },
    { leaderEpoch: 7, startOffset: 30 },
  ])
  assert.equal(cache.truncateFromEnd(30), true)
  assert.equal(cache.truncateFromEnd(30), false)
  assert.equal(cache.assign(6, 25), true)
  assert.deepEqual(cache.entries, [{ leaderEpoch: 6, startOffset: 25 }])
})

test('the epoch cache agrees with the list of (offset, epoch) that it came from', () => {
  const batches = fc.array(fc.record({ size: fc.integer({ min: 1, max: 4 }), bump: fc.nat(2) }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(batches, fc.nat(100), fc.nat(100), (parts, cutStart, cutEnd) => {
      const epochs: number[] = []
      const cache = new EpochCache()
      let epoch = 0
      for (const { size, bump } of parts) {
        epoch += bump
        cache.assign(epoch, epochs.length)
        for (let index = 0; index < size; index++) epochs.push(epoch)
      }
      // Recovery folds the batches again into the list that the file gave.
      const whole = structuredClone(cache.entries)
      for (const [offset, epoch] of epochs.entries()) assert.equal(cache.assign(epoch, offset), false)
      assert.deepEqual(cache.entries, whole)
      const end = Math.max(1, cutEnd % (epochs.length + 1))
      cache.truncateFromEnd(end)
      const start = cutStart % end
      cache.truncateFromStart(start)
      for (let offset = start; offset < end; offset++) assert.equal(cache.epochFor(offset), epochs[offset])
      assert.equal(cache.entries[0]?.startOffset, start)
      const copy = new EpochCache(decodeEpochCheckpoint(encodeEpochCheckpoint(cache.entries), 'f'))
      assert.deepEqual(copy.entries, cache.entries)
    }),
  )
})

test('the epoch checkpoint is the text that Kafka writes, and anything else is refused by line', async () => {
  const disk = await folderDisk()
  const entries = [
    { leaderEpoch: 0, startOffset: 0 },
    { leaderEpoch: 3, startOffset: 120 },
  ]
  await writeEpochCheckpoint(disk, LOG.folder, entries)
  assert.equal(disk.peek(`${LOG.folder}/leader-epoch-checkpoint`)?.toString(), '0\n2\n0 0\n3 120\n')
  assert.deepEqual(await readEpochCheckpoint(disk, LOG.folder), entries)
  assert.equal(await readEpochCheckpoint(disk, '/data'), null)
  const bad = ['', '1\n0\n', '0\n', '0\n1\n', '0\n1\n0 0', '0\n2\n0 0\n', '0\n1\n0 0\n1 1\n', '0\n-1\n', '0\n1\n0\n', '0\n1\n0 0 0\n']
  const order = ['0\n2\n1 5\n1 9\n', '0\n2\n1 5\n2 5\n', '0\n1\n-1 5\n', '0\n1\n1 9007199254740993\n', '0\n1\n4294967296 1\n']
  for (const text of [...bad, ...order]) {
    assert.throws(
      () => decodeEpochCheckpoint(Buffer.from(text), 'f'),
      (error) => isCode(error, 'DATA_DAMAGED'),
      JSON.stringify(text),
    )
  }
})

// ---- root files -----------------------------------------------------------------------------------------------------------

test('root checkpoints detect every flipped bit and every cut, and one kind is never taken for another', () => {
  const entries = [
    { topicId: METADATA_TOPIC_ID, partition: 0, offset: 17 },
    { topicId: newUuid(new SeededRandom(1)), partition: 9, offset: 2 ** 50 },
  ]
  const bytes = encodeOffsets('recovery-points', entries)
  assert.deepEqual(decodeOffsets('recovery-points', bytes, 'f'), entries)
  assertDetects(bytes, (damaged) => decodeOffsets('recovery-points', damaged, 'f'), ['DATA_DAMAGED'])
  assert.throws(
    () => decodeOffsets('log-starts', bytes, 'f'),
    (error) => isCode(error, 'DATA_DAMAGED'),
  )
  const marker = { recoveryPointsChecksum: 0xdeadbeef, atMs: 1_700_000_000_000 }
  assert.deepEqual(decodeCleanShutdown(encodeCleanShutdown(marker), 'f'), marker)
  assertDetects(encodeCleanShutdown(marker), (damaged) => decodeCleanShutdown(damaged, 'f'), ['DATA_DAMAGED'])
})

test('a checkpoint that is replaced is the old or the new one after a power cut at each of its steps', async () => {
  const at = (offset: number) => [{ topicId: METADATA_TOPIC_ID, partition: 0, offset }]
  const operations = ['open', 'truncate', 'write', 'datasync', 'rename', 'syncDirectory'] as const
  for (const [seed, operation] of operations.entries()) {
    const disk = await folderDisk()
    await writeOffsets(disk, FOLDER, 'recovery-points', at(1))
    disk.fail({
      operation,
      path: operation === 'syncDirectory' ? FOLDER : ROOT_FILES['recovery-points'],
      effect: { kind: 'error', code: 'EIO' },
    })
    await assert.rejects(writeOffsets(disk, FOLDER, 'recovery-points', at(2)), operation)
    const after = disk.powerCut(new SeededRandom(seed))
    const found = await readOffsets(after, FOLDER, 'recovery-points')
    assert.ok([1, 2].includes(found?.entries[0]?.offset ?? 0), operation)
  }
})

test('the clean-shutdown marker is gone for good once taken, even when the power goes right after', async () => {
  const disk = await folderDisk()
  assert.equal(await takeCleanShutdown(disk, FOLDER), null)
  await writeCleanShutdown(disk, FOLDER, { recoveryPointsChecksum: 5, atMs: 6 })
  assert.deepEqual(await takeCleanShutdown(disk, FOLDER), { recoveryPointsChecksum: 5, atMs: 6 })
  const after = disk.powerCut(new SeededRandom(1), { names: 'none', writes: 'none' })
  assert.equal(await takeCleanShutdown(after, FOLDER), null)
  await writeCleanShutdown(after, FOLDER, { recoveryPointsChecksum: 5, atMs: 6 })
  after.corrupt(`${FOLDER}/${ROOT_FILES['clean-shutdown']}`, 8)
  assert.equal(await takeCleanShutdown(after, FOLDER), null)
  assert.equal(after.peek(`${FOLDER}/${ROOT_FILES['clean-shutdown']}`), null)
})

// ---- lock and identity ----------------------------------------------------------------------------------------------------

const host = (pid: number, processes: [number, string][], bootId = 'boot') => new FixedHost({ pid, bootId, processes: new Map(processes) })

test('a second broker on a data folder is refused, naming the first', async () => {
  const disk = await folderDisk()
  const first = await DataFolderLock.acquire({ disk, host: host(11, [[11, 's1']]) }, FOLDER)
  const second = {
    disk,
    host: host(12, [
      [11, 's1'],
      [12, 's2'],
    ]),
  }
  await assert.rejects(DataFolderLock.acquire(second, FOLDER), (error) => isCode(error, 'DATA_FOLDER_LOCKED') && /11/.test(error.message))
  assert.equal((await dataFolderHolder(second, FOLDER))?.pid, 11)
  // The same process cannot open it twice either.
  await assert.rejects(DataFolderLock.acquire({ disk, host: host(11, [[11, 's1']]) }, FOLDER), (error) =>
    isCode(error, 'DATA_FOLDER_LOCKED'),
  )
  await first.release()
  assert.equal(await dataFolderHolder(second, FOLDER), null)
  await (await DataFolderLock.acquire(second, FOLDER)).release()
})

test('a lock is stale after a reboot, when its process is gone or its number is another process now, and when it is damaged', async () => {
  const stale: readonly [string, FixedHost][] = [
    [
      'another boot',
      host(
        12,
        [
          [11, 's1'],
          [12, 's2'],
        ],
        'boot-2',
      ),
    ],
    ['no such process', host(12, [[12, 's2']])],
    [
      'the number is reused',
      host(12, [
        [11, 's9'],
        [12, 's2'],
      ]),
    ],
    ['by ourselves', host(11, [[11, 's9']])],
  ]
  for (const [what, next] of stale) {
    const disk = await folderDisk()
    await DataFolderLock.acquire({ disk, host: host(11, [[11, 's1']]) }, FOLDER)
    const lock = await DataFolderLock.acquire({ disk, host: next }, FOLDER)
    assert.equal((await dataFolderHolder({ disk, host: next }, FOLDER))?.pid, next.pid, what)
    await lock.release()
  }
  for (const bytes of ['', 'moonmq-lock 1\npid=', 'garbage', 'moonmq-lock 1\npid=0\nstarted=\nboot=\nhost=\n']) {
    const disk = await folderDisk()
    await plant(disk, `${FOLDER}/${LOCK_NAME}`, Buffer.from(bytes))
    await (await DataFolderLock.acquire({ disk, host: host(11, [[11, 's1']]) }, FOLDER)).release()
  }
})

test('of two brokers that find the same stale lock at once, one gets the folder', async () => {
  for (let round = 0; round < 20; round++) {
    const disk = await folderDisk()
    await DataFolderLock.acquire({ disk, host: host(9, [[9, 'old']]) }, FOLDER)
    const living: [number, string][] = [
      [21, 'a'],
      [22, 'b'],
    ]
    const attempts = [21, 22].map((pid) => DataFolderLock.acquire({ disk, host: host(pid, living) }, FOLDER))
    const outcomes = await Promise.allSettled(attempts)
    const winners = outcomes.filter((each) => each.status === 'fulfilled')
    assert.equal(winners.length, 1)
    for (const each of outcomes) if (each.status === 'rejected') assert.ok(isCode(each.reason, 'DATA_FOLDER_LOCKED'))
  }
})

test('the identity of a folder is made once and guards against another node or cluster', async () => {
  const disk = await folderDisk()
  const random = new SeededRandom(7)
  const made = await openIdentity({ disk, random }, { folder: FOLDER, nodeId: 3 })
  const text = disk.peek(`${FOLDER}/${IDENTITY_NAME}`)?.toString() ?? ''
  for (const line of ['version=1', 'node.id=3', `cluster.id=${made.clusterId}`, `directory.id=${made.directoryId}`]) {
    assert.ok(text.split('\n').includes(line), line)
  }
  assert.deepEqual(await openIdentity({ disk, random }, { folder: FOLDER, nodeId: 3 }), made)
  const damaged = (error: unknown) => isCode(error, 'DATA_DAMAGED')
  await assert.rejects(openIdentity({ disk, random }, { folder: FOLDER, nodeId: 4 }), damaged)
  await assert.rejects(openIdentity({ disk, random }, { folder: FOLDER, nodeId: 3, clusterId: METADATA_TOPIC_ID }), damaged)
  await disk.removeFile(`${FOLDER}/${IDENTITY_NAME}`)
  await assert.rejects(openIdentity({ disk, random }, { folder: FOLDER, nodeId: 3, isUsed: true }), damaged)
  assert.equal(await disk.stat(`${FOLDER}/${IDENTITY_NAME}`), null)
})

test('an identity that is cut or changed is the same identity or is refused', () => {
  const identity = { clusterId: newUuid(new SeededRandom(1)), nodeId: 12, directoryId: newUuid(new SeededRandom(2)) }
  const bytes = encodeIdentity(identity)
  assert.deepEqual(decodeIdentity(Buffer.concat([Buffer.from('#written by Kafka\n'), bytes]), 'f'), identity)
  for (let size = 0; size < bytes.length - 1; size++) {
    assert.throws(
      () => decodeIdentity(bytes.subarray(0, size), 'f'),
      (error) => isCode(error, 'DATA_DAMAGED'),
      `cut to ${size}`,
    )
  }
  for (const text of ['version=2', 'node.id=x', 'version=1\nversion=1', '=x', 'line']) {
    assert.throws(
      () => decodeIdentity(Buffer.concat([bytes, Buffer.from(text)]), 'f'),
      (error) => isCode(error, 'DATA_DAMAGED'),
      text,
    )
  }
})

test('readers of side files take any bytes and end in a typed error or a value', () => {
  const readers: ((bytes: Buffer) => unknown)[] = [
    (bytes) => decodeProducerSnapshot(bytes, { file: 'f', endOffset: 100 }),
    (bytes) => decodeTxnIndex(bytes, { file: 'f', position: 0, baseOffset: 0 }, undefined),
    (bytes) => decodeEpochCheckpoint(bytes, 'f'),
    (bytes) => decodeOffsets('recovery-points', bytes, 'f'),
    (bytes) => decodeCleanShutdown(bytes, 'f'),
    (bytes) => decodeIdentity(bytes, 'f'),
  ]
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const read of readers) {
        try {
          read(Buffer.from(bytes))
        } catch (error) {
          assert.ok(error instanceof MoonMQError)
        }
      }
    }),
    { numRuns: 500 },
  )
})
