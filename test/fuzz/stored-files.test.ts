import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32c } from '../../src/core/crc32c.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { METADATA_TOPIC_ID, newUuid } from '../../src/core/uuid.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { emptyImage, ImageBuilder, imageRecords } from '../../src/metadata/image.ts'
import { createTopic, registerBroker } from '../../src/metadata/plans.ts'
import { decodeRecord, encodeRecord } from '../../src/metadata/records.ts'
import { readSnapshot, snapshotBatches, snapshotName } from '../../src/metadata/snapshot.ts'
import type { MetadataImage, MetadataRecord } from '../../src/metadata/types.ts'
import { sealBatch } from '../../src/record/batch.ts'
import { decodeCleanShutdown, decodeOffsets, encodeCleanShutdown, encodeOffsets } from '../../src/storage/checkpoint.ts'
import { decodeEpochCheckpoint, encodeEpochCheckpoint } from '../../src/storage/epoch-checkpoint.ts'
import { decodePartitionMetadata, encodePartitionMetadata } from '../../src/storage/files.ts'
import { decodeIdentity, encodeIdentity } from '../../src/storage/identity.ts'
import { decodeLock, encodeLock } from '../../src/storage/lock.ts'
import { decodeProducerSnapshot, encodeProducerSnapshot } from '../../src/storage/producer-snapshot.ts'
import { decodeTxnIndex, encodeTxnIndexEntry } from '../../src/storage/txn-index.ts'
import { OffsetIndexCheck, TimeIndexCheck } from '../../src/storage/validate-indexes.ts'
import { type FuzzTarget, fuzz, mutateBytes, pick } from '../support/fuzz.ts'

/**
 * Readers of the files beside the logs, each seeded with a file that a broker wrote. Whatever the bytes, a reader ends with a value or
 * an error of ours. Half of the changed files get a checksum that fits, so that what lies behind it is reached.
 */
const CLUSTER = newUuid(new SeededRandom(1))

interface Target {
  readonly name: string
  readonly seeds: readonly Buffer[]
  /** Makes the checksum fit again; false where the file has none. */
  readonly seal?: (bytes: Buffer) => void
  readonly read: (bytes: Buffer) => unknown
  /** Of the time that each of them has. */
  readonly share?: number
}

function sealRootFile(bytes: Buffer): void {
  if (bytes.length >= 4) bytes.writeUInt32BE(crc32c(bytes, 0, bytes.length - 4), bytes.length - 4)
}

function sealProducerSnapshot(bytes: Buffer): void {
  if (bytes.length >= 6) bytes.writeUInt32BE(crc32c(bytes, 6), 2)
}

function sealBatches(bytes: Buffer): void {
  for (let at = 0; at + 61 <= bytes.length; ) {
    const size = bytes.readInt32BE(at + 8) + 12
    if (size < 61 || at + size > bytes.length) return
    sealBatch(bytes, at, size)
    at += size
  }
}

function sampleImage(): MetadataImage {
  const random = new SeededRandom(5)
  let image = emptyImage(CLUSTER)
  const apply = (records: readonly MetadataRecord[]) => {
    const builder = new ImageBuilder(image)
    for (const record of records) builder.apply(decodeRecord(encodeRecord(record)))
    image = builder.build(image.nextOffset + records.length)
  }
  const endPoints = [{ name: 'main', host: 'localhost', port: 9092, securityProtocol: 0 }]
  apply(registerBroker(image, { nodeId: 0, incarnationId: newUuid(random), rack: 'r', endPoints }).records)
  for (const name of ['a', 'b.c', 'd']) {
    const config = new Map([['retention.ms', '1000']])
    apply(createTopic(image, { name, id: newUuid(random), partitions: 3, replicationFactor: 1, config }).records)
  }
  return image
}

const image = sampleImage()
const id = { endOffset: image.nextOffset, epoch: 2 }
const snapshotFile = Buffer.concat([...snapshotBatches({ id, image, lastTimestampMs: 1, nowMs: 2 })])
const batch = { baseSequence: 5, lastSequence: 6, baseOffset: 8, lastOffset: 9, timestampMs: 77 }
const producer = {
  producerId: 4,
  producerEpoch: 2,
  batches: [batch, batch],
  lastTimestampMs: 77,
  coordinatorEpoch: 4,
  currentTxnFirstOffset: 8,
}
const offsets = [
  { topicId: METADATA_TOPIC_ID, partition: 0, offset: 17 },
  { topicId: CLUSTER, partition: 9, offset: 2 ** 50 },
]
const aborted = [
  { producerId: 1, firstOffset: 100, lastOffset: 110, lastStableOffset: 105 },
  { producerId: 2, firstOffset: 105, lastOffset: 115, lastStableOffset: 116 },
]
const lockHost = { pid: 12, processStartTime: '345', bootId: 'boot', hostname: 'host', startTimeOf: () => null }

async function readMetadataSnapshot(bytes: Buffer): Promise<unknown> {
  const disk = new MemoryDisk({ clock: new VirtualClock() })
  const file = await disk.open(`/${snapshotName(id)}`, 'write')
  await file.write([bytes], 0)
  await file.close()
  return readSnapshot(disk, '/', id, CLUSTER)
}

function checkIndexes(bytes: Buffer): void {
  const offsetIndex = new OffsetIndexCheck(bytes, 100)
  const timeIndex = new TimeIndexCheck(bytes, 100)
  for (let offset = 100; offset < 200; offset += 7) {
    offsetIndex.batch(offset, (offset - 100) * 50)
    timeIndex.batch(offset, offset * 10)
  }
  offsetIndex.finish()
  timeIndex.finish(true)
}

const TARGETS: readonly Target[] = [
  {
    name: 'producer snapshots',
    seeds: [encodeProducerSnapshot([producer]), encodeProducerSnapshot([])],
    seal: sealProducerSnapshot,
    read: (bytes) => decodeProducerSnapshot(bytes, { file: 'f', endOffset: 100 }),
  },
  {
    name: 'transaction indexes',
    seeds: [Buffer.concat(aborted.map(encodeTxnIndexEntry))],
    read: (bytes) => decodeTxnIndex(bytes, { file: 'f', position: 0, baseOffset: 100 }, undefined),
  },
  { name: 'offset and time indexes', seeds: [Buffer.alloc(96, 3), Buffer.alloc(0)], read: checkIndexes },
  {
    name: 'epoch checkpoints',
    seeds: [
      encodeEpochCheckpoint([
        { leaderEpoch: 1, startOffset: 0 },
        { leaderEpoch: 4, startOffset: 1000 },
      ]),
    ],
    read: (bytes) => decodeEpochCheckpoint(bytes, 'f'),
  },
  {
    name: 'root checkpoints',
    seeds: [encodeOffsets('recovery-points', offsets), encodeCleanShutdown({ recoveryPointsChecksum: 7, atMs: 1 })],
    seal: sealRootFile,
    read: (bytes) => (bytes[4] === 3 ? decodeCleanShutdown(bytes, 'f') : decodeOffsets('recovery-points', bytes, 'f')),
  },
  {
    name: 'identities, locks and partition metadata',
    seeds: [
      encodeIdentity({ clusterId: CLUSTER, nodeId: 1, directoryId: CLUSTER }),
      Buffer.from(encodeLock(lockHost)),
      encodePartitionMetadata(CLUSTER),
    ],
    read: (bytes) => [decodeLock(bytes), decodePartitionMetadata(bytes), decodeIdentity(bytes, 'f')],
  },
  {
    name: 'metadata records',
    seeds: [...imageRecords(image)].map(encodeRecord),
    read: (bytes) => new ImageBuilder(image).apply(decodeRecord(bytes)),
  },
  { name: 'metadata snapshots', seeds: [snapshotFile], seal: sealBatches, read: readMetadataSnapshot },
]

function bytesTarget(target: Target): FuzzTarget<Buffer> {
  return {
    name: target.name,
    make(random) {
      const bytes = mutateBytes(random, pick(random, target.seeds))
      if (target.seal !== undefined && random.below(2) === 0) target.seal(bytes)
      return bytes
    },
    run: target.read,
    show: (bytes) => bytes.toString('hex'),
    share: (target.share ?? 1) / TARGETS.length,
  }
}

for (const target of TARGETS) {
  test(target.name, async (t) => {
    for (const seed of target.seeds) {
      if (target.seeds.length === 1) await target.read(Buffer.from(seed))
    }
    const { rounds, accepted } = await fuzz(bytesTarget(target))
    t.diagnostic(`${rounds} rounds, ${accepted} were read all the same`)
  })
}

test('planted: a reader that lets another error out is found, and its seed finds it again', async () => {
  const canary = bytesTarget({ name: 'canary', seeds: [Buffer.alloc(50, 1)], read: (bytes) => bytes.readUInt32BE(46) })
  await assert.rejects(fuzz(canary, 0), /MOONMQ_SEED=\d+ begins with it/)
})
