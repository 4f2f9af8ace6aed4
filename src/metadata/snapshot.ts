import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { systemCode } from '../io/system-error.ts'
import { BATCH_PREFIX_BYTES, batchSizeAt, isControl, nextOffset, readBatchHeader, verifyBatchCrc } from '../record/batch.ts'
import {
  type BatchPlace,
  controlKindOf,
  foldBatch,
  MAX_METADATA_BATCH_BYTES,
  metadataBatch,
  snapshotFooterBatch,
  snapshotHeaderBatch,
} from './batches.ts'
import { emptyImage, ImageBuilder, imageRecords } from './image.ts'
import { encodeRecord } from './records.ts'
import type { MetadataImage } from './types.ts'

/**
 * Snapshots of the metadata log, as Kafka writes them (KIP-630): `<20-digit end offset>-<10-digit epoch>.checkpoint` beside the
 * log. A control batch with the header, batches with the records that make up the image, a control batch with the footer; offsets
 * from 0 without a gap, each batch with its checksum. Written under another name, synced, renamed, and the directory synced, so a
 * file with its final name is whole unless the disk damaged it.
 */
export interface SnapshotId {
  /** Offset after the last record that it contains. */
  readonly endOffset: number
  /** Epoch of that record. */
  readonly epoch: number
}

const NAME = /^(\d{20})-(\d{10})\.checkpoint$/
const PART_SUFFIX = '.part'
const BATCH_BYTES = 256 * 1024
/** A batch is read whole; what is larger was not written by us. */
const MAX_BATCH_BYTES = MAX_METADATA_BATCH_BYTES + 1024 * 1024

export function snapshotName(id: SnapshotId): string {
  return `${String(id.endOffset).padStart(20, '0')}-${String(id.epoch).padStart(10, '0')}.checkpoint`
}

/** Null when the name is another file's. */
export function parseSnapshotName(name: string): SnapshotId | null {
  const match = NAME.exec(name)
  const endOffset = Number(match?.[1] ?? Number.NaN)
  const epoch = Number(match?.[2] ?? Number.NaN)
  return Number.isSafeInteger(endOffset) && Number.isSafeInteger(epoch) ? { endOffset, epoch } : null
}

/** Writes the snapshot of an image; durable when it resolves. Returns its size in bytes. */
export async function writeSnapshot(
  disk: Disk,
  directory: string,
  snapshot: { readonly id: SnapshotId; readonly image: MetadataImage; readonly lastTimestampMs: number; readonly nowMs: number },
): Promise<number> {
  const path = `${directory}/${snapshotName(snapshot.id)}`
  const part = path + PART_SUFFIX
  const file = await disk.open(part, 'write')
  let position = 0
  try {
    await file.truncate(0)
    for (const batch of snapshotBatches(snapshot)) {
      await file.write([batch], position)
      position += batch.length
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  await disk.rename(part, path)
  await disk.syncDirectory(directory)
  return position
}

/** The batches one after another, made when asked for, so that a large image is not held twice and does not block for long. */
export function* snapshotBatches(snapshot: {
  readonly id: SnapshotId
  readonly image: MetadataImage
  readonly lastTimestampMs: number
  readonly nowMs: number
}): Generator<Buffer, void, undefined> {
  const { nowMs } = snapshot
  let baseOffset = 0
  const place = (): BatchPlace => ({ baseOffset, leaderEpoch: snapshot.id.epoch })
  yield snapshotHeaderBatch(snapshot.lastTimestampMs, nowMs, place())
  baseOffset++
  let values: Buffer[] = []
  let sizeBytes = 0
  for (const record of imageRecords(snapshot.image)) {
    const value = encodeRecord(record)
    values.push(value)
    sizeBytes += value.length
    if (sizeBytes < BATCH_BYTES) continue
    yield metadataBatch(values, nowMs, place())
    baseOffset += values.length
    values = []
    sizeBytes = 0
  }
  if (values.length > 0) yield metadataBatch(values, nowMs, place())
  baseOffset += values.length
  yield snapshotFooterBatch(nowMs, place())
}

/** Snapshots in the log's directory, oldest first. */
export async function listSnapshots(disk: Disk, directory: string): Promise<SnapshotId[]> {
  const ids: SnapshotId[] = []
  // A new log has no folder before its first write.
  if (disk.statNow(directory) === null) return ids
  for (const entry of await disk.list(directory)) {
    const id = entry.kind === 'file' ? parseSnapshotName(entry.name) : null
    if (id !== null) ids.push(id)
  }
  return ids.sort((a, b) => a.endOffset - b.endOffset || a.epoch - b.epoch)
}

/** Reads a snapshot. Throws DATA_DAMAGED with file and position when it is not whole or not of this cluster. */
export async function readSnapshot(disk: Disk, directory: string, id: SnapshotId, clusterId: Uuid): Promise<MetadataImage> {
  const path = `${directory}/${snapshotName(id)}`
  const file = await disk.open(path, 'read')
  try {
    return await readImage(file, id, clusterId)
  } finally {
    await file.close()
  }
}

async function readImage(file: DiskFile, id: SnapshotId, clusterId: Uuid): Promise<MetadataImage> {
  const builder = new ImageBuilder(emptyImage(clusterId))
  let position = 0
  let expected = 0
  let ended = false
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path: file.path, reason: `byte ${position}: ${reason}` })
  while (position < file.sizeBytes) {
    if (ended) throw bad('bytes follow the footer')
    const bytes = await readBatch(file, position, bad)
    try {
      const header = readBatchHeader(bytes)
      verifyBatchCrc(bytes, 0, header)
      if (header.baseOffset !== expected) throw bad(`base offset ${header.baseOffset} stands where ${expected} should`)
      if (header.leaderEpoch !== id.epoch) throw bad(`epoch ${header.leaderEpoch} is not that of the file's name`)
      const kind = controlKindOf(bytes, 0, header)
      if (expected === 0 && kind !== 'snapshotHeader') throw bad('it does not begin with a header')
      if (expected > 0 && isControl(header) && kind !== 'snapshotFooter') throw bad('a control record that is no footer')
      ended = kind === 'snapshotFooter'
      foldBatch(builder, bytes, 0, header, { file: file.path, fromOffset: 0 })
      expected = nextOffset(header)
    } catch (error) {
      if (error instanceof MoonMQError && error.code !== 'DATA_DAMAGED') throw bad(error.message)
      throw error
    }
    position += bytes.length
  }
  if (!ended) throw bad('the footer is missing')
  return builder.build(id.endOffset)
}

async function readBatch(file: DiskFile, position: number, bad: (reason: string) => MoonMQError): Promise<Buffer> {
  const prefix = Buffer.alloc(BATCH_PREFIX_BYTES)
  const available = await file.read(prefix, position)
  const sizeBytes = batchSizeAt(prefix, 0, available)
  if (sizeBytes === undefined) throw bad('the file ends within a batch')
  if (sizeBytes < BATCH_PREFIX_BYTES || sizeBytes > MAX_BATCH_BYTES) throw bad(`a batch of ${sizeBytes} bytes is impossible`)
  if (sizeBytes > file.sizeBytes - position) throw bad('the file ends within a batch')
  const bytes = Buffer.alloc(sizeBytes)
  if ((await file.read(bytes, position)) < sizeBytes) throw bad('the file ends within a batch')
  return bytes
}

export interface LoadedSnapshot {
  readonly id: SnapshotId
  readonly image: MetadataImage
}

/** The newest whole snapshot, or null. Damaged ones are passed over with a line in the log and stay, for people to look at. */
export async function loadNewestSnapshot(
  deps: { readonly disk: Disk; readonly log: Logger },
  options: { readonly directory: string; readonly clusterId: Uuid },
): Promise<LoadedSnapshot | null> {
  const ids = await listSnapshots(deps.disk, options.directory)
  for (const id of ids.reverse()) {
    try {
      return { id, image: await readSnapshot(deps.disk, options.directory, id, options.clusterId) }
    } catch (error) {
      // Bytes that the disk cannot give count as damaged; too few descriptors and the like are no fault of the file.
      if (!(error instanceof MoonMQError) && systemCode(error) !== 'EIO') throw error
      deps.log.error('metadata.snapshot_damaged', 'a metadata snapshot is damaged; an older one takes its place', {
        file: `${options.directory}/${snapshotName(id)}`,
        reason: error instanceof Error ? error.message : String(error),
      })
    }
  }
  return null
}

/** Removes all but the newest `keep` snapshots, and what a crash left half written. */
export async function removeOldSnapshots(disk: Disk, directory: string, keep: number): Promise<void> {
  const ids = await listSnapshots(disk, directory)
  for (const id of ids.slice(0, Math.max(0, ids.length - keep))) await disk.removeFile(`${directory}/${snapshotName(id)}`)
  for (const entry of await disk.list(directory)) {
    if (entry.name.endsWith(`.checkpoint${PART_SUFFIX}`)) await disk.removeFile(`${directory}/${entry.name}`)
  }
}
