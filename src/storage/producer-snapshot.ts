import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { NO_OFFSET, NO_SEQUENCE } from '../core/types.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { MAX_SEQUENCE } from '../record/batch.ts'
import { decodeProducerSnapshot as decodeSnapshotFile, encodeProducerSnapshot as encodeSnapshotFile } from '../schema/records.ts'
import type { ProducerSnapshot } from '../schema/types.generated.ts'
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
const HEADER_BYTES = 10
const ENTRY_BYTES = 46

export function encodeProducerSnapshot(producers: Iterable<ProducerEntry>): Buffer {
  const producerEntries: SnapshotEntry[] = []
  for (const producer of producers) {
    const { producerId, producerEpoch: epoch, coordinatorEpoch, currentTxnFirstOffset } = producer
    const batches: readonly (ProducerBatch | undefined)[] = producer.batches.length === 0 ? [undefined] : producer.batches
    for (const batch of batches) {
      producerEntries.push({
        producerId,
        epoch,
        lastSequence: batch?.lastSequence ?? NO_SEQUENCE,
        lastOffset: batch?.lastOffset ?? NO_OFFSET,
        offsetDelta: batch === undefined ? 0 : batch.lastOffset - batch.baseOffset,
        timestamp: batch?.timestampMs ?? producer.lastTimestampMs,
        coordinatorEpoch,
        currentTxnFirstOffset,
      })
    }
  }
  return encodeSnapshotFile({ producerEntries })
}

/** Decodes a snapshot taken at `endOffset`. Throws CORRUPT_RECORDS when anything in it cannot be true. */
export function decodeProducerSnapshot(bytes: Buffer, place: { file: string; endOffset: number }): ProducerEntry[] {
  const bad = (position: number, reason: string) => new MoonMQError('CORRUPT_RECORDS', { file: place.file, position, reason })
  const producers = new Map<number, SnapshotProducer>()
  for (const [index, entry] of readEntries(bytes, bad).entries()) {
    const reason = implausible(entry, place.endOffset)
    if (reason !== null) throw bad(HEADER_BYTES + index * ENTRY_BYTES, reason)
    merge(producers, entry)
  }
  return [...producers.values()]
}

interface SnapshotProducer extends ProducerEntry {
  readonly batches: ProducerBatch[]
}

type SnapshotEntry = ProducerSnapshot['producerEntries'][number]

function readEntries(bytes: Buffer, bad: (position: number, reason: string) => MoonMQError): readonly SnapshotEntry[] {
  try {
    return decodeSnapshotFile(bytes).producerEntries
  } catch (error) {
    if (error instanceof MoonMQError) throw bad(0, error.message)
    throw error
  }
}

function implausible(entry: SnapshotEntry, endOffset: number): string | null {
  if (!Number.isSafeInteger(entry.producerId) || entry.producerId < 0) return `${entry.producerId} is no producer id`
  if (entry.epoch < -1) return `${entry.epoch} is no producer epoch`
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
  const { producerId, epoch: producerEpoch, timestamp: lastTimestampMs, coordinatorEpoch, currentTxnFirstOffset } = entry
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

export const MAX_PRODUCER_SNAPSHOT_BYTES = 256 * 1024 * 1024
const SNAPSHOT_NAME = /^(\d{20})\.snapshot$/

export function producerSnapshotName(endOffset: number): string {
  return `${String(endOffset).padStart(20, '0')}.snapshot`
}

/** The end offset in a snapshot's name, or null when it is another file. */
function producerSnapshotOffset(name: string): number | null {
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
 * and those above `maxOffset`, which tell of records that the log no longer has, are removed: they can be made again. So are those below
 * `minOffset`, behind which compaction may have taken the marker of a transaction that was open by then.
 */
export async function loadProducerSnapshot(
  deps: { disk: Disk; log: Logger },
  options: { directory: string; minOffset?: number; maxOffset: number },
): Promise<{ readonly endOffset: number; readonly producers: readonly ProducerEntry[] } | null> {
  const { disk, log } = deps
  for (const endOffset of (await listProducerSnapshots(disk, options.directory)).reverse()) {
    const path = `${options.directory}/${producerSnapshotName(endOffset)}`
    if (endOffset <= options.maxOffset && endOffset >= (options.minOffset ?? 0)) {
      try {
        const bytes = await readSmallFile(disk, path, MAX_PRODUCER_SNAPSHOT_BYTES)
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
