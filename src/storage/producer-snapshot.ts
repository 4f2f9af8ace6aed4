import { crc32c } from '../core/crc32c.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { ByteReader } from '../core/reader.ts'
import { NO_OFFSET, NO_SEQUENCE } from '../core/types.ts'
import { ByteWriter } from '../core/writer.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { MAX_SEQUENCE } from '../record/batch.ts'
import { PRODUCER_BATCHES_KEPT } from './producer-state.ts'
import type { ProducerBatch, ProducerEntry } from './types.ts'

/**
 * Kafka's `<20-digit offset>.snapshot`: the producers of a partition as they were when the log ended at that offset.
 * int16 version 1, uint32 CRC-32C of all that follows, int32 count, then entries of 46 bytes: int64 producer id, int16 epoch,
 * int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the
 * open transaction or −1.
 *
 * Kafka writes one entry a producer and so forgets four of its five batches at a restart. Here each batch has an entry, oldest
 * first; Kafka's reader keeps the last one it meets, so both understand the file.
 */
const VERSION = 1
const HEADER_BYTES = 10
const CRC_POSITION = 2
const CRC_FROM = 6
const ENTRY_BYTES = 46

export function encodeProducerSnapshot(producers: Iterable<ProducerEntry>): Buffer {
  const writer = new ByteWriter(4096)
  writer.int16(VERSION)
  writer.uint32(0)
  writer.int32(0)
  let count = 0
  for (const producer of producers) {
    const batches: readonly (ProducerBatch | undefined)[] = producer.batches.length === 0 ? [undefined] : producer.batches
    for (const batch of batches) {
      writer.int64(producer.producerId)
      writer.int16(producer.producerEpoch)
      writer.int32(batch?.lastSequence ?? NO_SEQUENCE)
      writer.int64(batch?.lastOffset ?? NO_OFFSET)
      writer.int32(batch === undefined ? 0 : batch.lastOffset - batch.baseOffset)
      writer.int64(batch?.timestampMs ?? producer.lastTimestampMs)
      writer.int32(producer.coordinatorEpoch)
      writer.int64(producer.currentTxnFirstOffset)
      count++
    }
  }
  const bytes = writer.toBuffer()
  bytes.writeInt32BE(count, CRC_FROM)
  bytes.writeUInt32BE(crc32c(bytes, CRC_FROM), CRC_POSITION)
  return bytes
}

/** Decodes a snapshot taken at `endOffset`. Throws CORRUPT_RECORDS when anything in it cannot be true. */
export function decodeProducerSnapshot(bytes: Buffer, place: { file: string; endOffset: number }): ProducerEntry[] {
  const bad = (position: number, reason: string) => new MoonMQError('CORRUPT_RECORDS', { file: place.file, position, reason })
  if (bytes.length < HEADER_BYTES) throw bad(0, `${bytes.length} bytes are too few for a producer snapshot`)
  const reader = new ByteReader(bytes)
  const version = reader.int16()
  if (version !== VERSION) throw bad(0, `version ${version} of a producer snapshot is not known`)
  const crc = reader.uint32()
  if (crc !== crc32c(bytes, CRC_FROM)) throw bad(CRC_POSITION, 'the checksum does not fit')
  const count = reader.int32()
  if (count * ENTRY_BYTES !== reader.remaining) throw bad(CRC_FROM, `${count} entries do not fill ${reader.remaining} bytes`)
  const producers = new Map<number, SnapshotProducer>()
  for (let index = 0; index < count; index++) {
    const position = reader.position
    const entry = readEntry(reader)
    const reason = implausible(entry, place.endOffset)
    if (reason !== null) throw bad(position, reason)
    merge(producers, entry)
  }
  return [...producers.values()]
}

interface SnapshotProducer extends ProducerEntry {
  readonly batches: ProducerBatch[]
}

type SnapshotEntry = Omit<ProducerEntry, 'batches'> & {
  readonly lastSequence: number
  readonly lastOffset: number
  readonly offsetDelta: number
}

function readEntry(reader: ByteReader): SnapshotEntry {
  return {
    producerId: reader.int64(),
    producerEpoch: reader.int16(),
    lastSequence: reader.int32(),
    lastOffset: reader.int64(),
    offsetDelta: reader.int32(),
    lastTimestampMs: reader.int64(),
    coordinatorEpoch: reader.int32(),
    currentTxnFirstOffset: reader.int64(),
  }
}

function implausible(entry: SnapshotEntry, endOffset: number): string | null {
  if (!Number.isSafeInteger(entry.producerId) || entry.producerId < 0) return `${entry.producerId} is no producer id`
  if (entry.producerEpoch < -1) return `${entry.producerEpoch} is no producer epoch`
  if (entry.lastSequence < NO_SEQUENCE) return `${entry.lastSequence} is no sequence`
  if (!(entry.lastOffset >= NO_OFFSET && entry.lastOffset < endOffset)) return `offset ${entry.lastOffset} is not below ${endOffset}`
  if (entry.offsetDelta < 0 || (entry.lastOffset >= 0 && entry.offsetDelta > entry.lastOffset)) {
    return `a batch that ends at ${entry.lastOffset} cannot have an offset delta of ${entry.offsetDelta}`
  }
  const first = entry.currentTxnFirstOffset
  if (!(first >= NO_OFFSET && first < endOffset)) return `a transaction that starts at ${first} is not below ${endOffset}`
  return null
}

function merge(producers: Map<number, SnapshotProducer>, entry: SnapshotEntry): void {
  const { producerId, producerEpoch, lastTimestampMs, coordinatorEpoch, currentTxnFirstOffset } = entry
  const known = producers.get(producerId)
  const batches = known?.producerEpoch === producerEpoch ? known.batches : []
  if (entry.lastOffset !== NO_OFFSET) {
    batches.push({
      baseSequence: entry.lastSequence < 0 ? NO_SEQUENCE : sequenceBefore(entry.lastSequence, entry.offsetDelta),
      lastSequence: entry.lastSequence,
      baseOffset: entry.lastOffset - entry.offsetDelta,
      lastOffset: entry.lastOffset,
      timestampMs: lastTimestampMs,
    })
    if (batches.length > PRODUCER_BATCHES_KEPT) batches.shift()
  }
  producers.set(producerId, { producerId, producerEpoch, batches, lastTimestampMs, coordinatorEpoch, currentTxnFirstOffset })
}

/** The sequence `delta` places before `sequence`; 2^31 − 1 comes before 0. */
function sequenceBefore(sequence: number, delta: number): number {
  return sequence >= delta ? sequence - delta : sequence + MAX_SEQUENCE + 1 - delta
}

const MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024
const SNAPSHOT_NAME = /^(\d{20})\.snapshot$/

export function producerSnapshotName(endOffset: number): string {
  return `${String(endOffset).padStart(20, '0')}.snapshot`
}

/** The end offset in a snapshot's name, or null when it is another file. */
export function producerSnapshotOffset(name: string): number | null {
  const match = SNAPSHOT_NAME.exec(name)
  const offset = Number(match?.[1] ?? Number.NaN)
  return Number.isSafeInteger(offset) ? offset : null
}

/** Writes the snapshot of a log that ends at `endOffset`; durable when it resolves. */
export function writeProducerSnapshot(disk: Disk, directory: string, endOffset: number, producers: Iterable<ProducerEntry>): Promise<void> {
  return writeFileAtomically(disk, `${directory}/${producerSnapshotName(endOffset)}`, [encodeProducerSnapshot(producers)])
}

/**
 * The newest whole snapshot at or below `maxOffset`; null when there is none, and the log must be folded from its start. Damaged ones
 * and those above `maxOffset`, which tell of records that the log no longer has, are removed: they can be made again.
 */
export async function loadProducerSnapshot(
  deps: { disk: Disk; log: Logger },
  options: { directory: string; maxOffset: number },
): Promise<{ readonly endOffset: number; readonly producers: readonly ProducerEntry[] } | null> {
  const { disk, log } = deps
  for (const endOffset of (await listProducerSnapshots(disk, options.directory)).reverse()) {
    const path = `${options.directory}/${producerSnapshotName(endOffset)}`
    if (endOffset <= options.maxOffset) {
      try {
        const bytes = await readSmallFile(disk, path, MAX_SNAPSHOT_BYTES)
        if (bytes !== null) return { endOffset, producers: decodeProducerSnapshot(bytes, { file: path, endOffset }) }
      } catch (error) {
        if (!(error instanceof MoonMQError)) throw error
        log.warn('storage.snapshot_damaged', 'a producer snapshot is damaged; an older one or the log itself takes its place', {
          file: path,
          reason: error.message,
        })
      }
    }
    await disk.removeFile(path)
  }
  return null
}

/** End offsets of the snapshots in a partition's folder, ascending. */
export async function listProducerSnapshots(disk: Disk, directory: string): Promise<number[]> {
  const offsets: number[] = []
  for (const entry of await disk.list(directory)) {
    const offset = producerSnapshotOffset(entry.name)
    if (offset !== null && entry.kind === 'file') offsets.push(offset)
  }
  return offsets
}

/** Removes the snapshots below `offset`, but the newest of all, from which the next start begins. */
export async function removeOldProducerSnapshots(disk: Disk, directory: string, offset: number): Promise<void> {
  const all = await listProducerSnapshots(disk, directory)
  for (const each of all.slice(0, -1)) {
    if (each < offset) await disk.removeFile(`${directory}/${producerSnapshotName(each)}`)
  }
}
