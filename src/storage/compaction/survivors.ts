import { ATTRIBUTE, type BatchHeader, isControl, isTransactional } from '../../record/batch.ts'
import type { RecordCursor } from '../../record/record.ts'
import type { ProducerEntry } from '../types.ts'
import type { KeyMap } from './key-map.ts'

/** The last thing a living producer wrote: the next batch is checked against it, so a restart must find it in the log. */
export interface LastOfProducer {
  readonly producerEpoch: number
  /** Last offset of its last batch of records; null when it wrote nothing but markers in this epoch. */
  readonly lastOffset: number | null
}

/** A transaction that ended in an abort: records of the producer from `firstOffset` up to the marker never count. */
export interface AbortedRange {
  readonly producerId: number
  readonly firstOffset: number
  readonly markerOffset: number
}

export interface Survival {
  /** Of each key up to `mapEndOffset`. */
  readonly latest: KeyMap
  /** What lies at or behind it is not judged. */
  readonly mapEndOffset: number
  readonly nowMs: number
  readonly lastOfProducers: ReadonlyMap<number, LastOfProducer>
  /** Whether records of the producer at this offset were part of a transaction that was aborted. */
  readonly isAborted: (producerId: number, offset: number) => boolean
}

/**
 * What becomes of a batch. `keep`: it stays byte for byte. `filter`: its records are looked at one by one. `marker`: a transaction's
 * marker without data; it stays until its horizon. `drop`: no record stays. `isLast`: if no record stays, the batch does, empty.
 */
export interface BatchVerdict {
  readonly fate: 'keep' | 'filter' | 'marker' | 'drop'
  readonly isLast: boolean
}

const KEEP: BatchVerdict = { fate: 'keep', isLast: false }

export function lastOfProducers(producers: Iterable<ProducerEntry>): Map<number, LastOfProducer> {
  const last = new Map<number, LastOfProducer>()
  for (const { producerId, producerEpoch, batches } of producers) {
    last.set(producerId, { producerEpoch, lastOffset: batches[batches.length - 1]?.lastOffset ?? null })
  }
  return last
}

/**
 * Judges a batch by its header (Kafka: `Cleaner.cleanInto`). `hasData`: for a marker, whether a batch of its transaction is still in
 * the log before it.
 */
export function judgeBatch(header: BatchHeader, survival: Survival, hasData: boolean): BatchVerdict {
  const lastOffset = header.baseOffset + header.lastOffsetDelta
  const { mapEndOffset } = survival
  if (header.baseOffset >= mapEndOffset) return KEEP
  // The last batch of all that is judged tells a reader at the end of the hole where to go on.
  const isLast = lastOffset + 1 === mapEndOffset || isLastOfProducer(header, lastOffset, survival)
  if (isControl(header)) {
    if (header.producerId < 0 || hasData) return KEEP
    const horizonMs = deleteHorizonOf(header)
    return { fate: horizonMs !== null && horizonMs <= survival.nowMs ? 'drop' : 'marker', isLast }
  }
  const isAborted = isTransactional(header) && survival.isAborted(header.producerId, header.baseOffset)
  // Part of it lies behind the map: the next pass takes the whole.
  if (isAborted) return lastOffset < mapEndOffset ? { fate: 'drop', isLast } : KEEP
  return { fate: 'filter', isLast }
}

function isLastOfProducer(header: BatchHeader, lastOffset: number, survival: Survival): boolean {
  const last = header.producerId < 0 ? undefined : survival.lastOfProducers.get(header.producerId)
  if (last === undefined) return false
  return last.lastOffset === null ? isControl(header) && header.producerEpoch === last.producerEpoch : last.lastOffset === lastOffset
}

/** When tombstones and markers of the batch may go (KIP-534); null when that was not decided yet. */
export function deleteHorizonOf(header: BatchHeader): number | null {
  return (header.attributes & ATTRIBUTE.deleteHorizon) === 0 ? null : header.baseTimestampMs
}

/**
 * Whether a record stays: it is the latest of its key, and no tombstone whose time is over. Records without a key, which were stored
 * before the topic was compacted, go, as in Kafka: they are nobody's latest.
 */
export function isRecordKept(record: RecordCursor, key: Buffer | null, header: BatchHeader, survival: Survival): boolean {
  if (record.offset >= survival.mapEndOffset) return true
  if (key === null || record.offset < survival.latest.get(key)) return false
  if (record.valueSize >= 0) return true
  const horizonMs = deleteHorizonOf(header)
  return horizonMs === null || survival.nowMs < horizonMs
}
