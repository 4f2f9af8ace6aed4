import { MoonMQError } from '../core/errors.ts'
import { ByteWriter } from '../core/writer.ts'
import { type BatchHeader, codecOf, isControl, lastOffset } from '../record/batch.ts'
import { type BatchOptions, buildBatch } from '../record/builder.ts'
import { type ControlKind, controlKey, readControlKind } from '../record/control.ts'
import { RecordCursor, recordsSection } from '../record/record.ts'
import { dataCodec } from '../schema/messages.ts'
import type { ImageBuilder } from './image.ts'
import { CLUSTER_ID_CONFIG, decodeRecord, encodeRecord } from './records.ts'
import type { MetadataRecord } from './types.ts'

/**
 * Records of one batch, encoded, may have at most this many bytes: the largest that Kafka's own metadata log writes. A change
 * that needs more is refused before memory for the batch is taken.
 */
export const MAX_METADATA_BATCH_BYTES = 8 * 1024 * 1024

export interface BatchPlace extends BatchOptions {
  readonly baseOffset: number
  readonly leaderEpoch: number
}

/** Throws POLICY_VIOLATION when the records do not fit one batch. */
export function encodeRecords(records: readonly MetadataRecord[]): Buffer[] {
  const values: Buffer[] = []
  let sizeBytes = 0
  for (const record of records) {
    const value = encodeRecord(record)
    sizeBytes += value.length
    if (sizeBytes > MAX_METADATA_BATCH_BYTES) {
      throw new MoonMQError('POLICY_VIOLATION', { reason: `the change needs more than ${MAX_METADATA_BATCH_BYTES} bytes of metadata` })
    }
    values.push(value)
  }
  return values
}

export function metadataBatch(values: readonly Buffer[], timestampMs: number, place: BatchPlace): Buffer {
  return buildBatch(
    values.map((value) => ({ key: null, value, timestampMs })),
    place,
  )
}

/** The control record with which a leader opens its epoch (KIP-595). On one broker it is the only voter. */
export function leaderChangeBatch(leaderId: number, timestampMs: number, place: BatchPlace): Buffer {
  const writer = new ByteWriter(64)
  const voters = [{ voterId: leaderId }]
  dataCodec('LeaderChangeMessage', 0).encode(writer, { version: 0, leaderId, voters, grantingVoters: voters })
  return controlBatch('leaderChange', writer.toBuffer(), timestampMs, place)
}

/** The first batch of a snapshot (KIP-630). */
export function snapshotHeaderBatch(lastContainedLogTimestamp: number, timestampMs: number, place: BatchPlace): Buffer {
  const writer = new ByteWriter(16)
  dataCodec('SnapshotHeaderRecord', 0).encode(writer, { version: 0, lastContainedLogTimestamp })
  return controlBatch('snapshotHeader', writer.toBuffer(), timestampMs, place)
}

/** The last batch of a snapshot: without it the snapshot is not whole. */
export function snapshotFooterBatch(timestampMs: number, place: BatchPlace): Buffer {
  const writer = new ByteWriter(16)
  dataCodec('SnapshotFooterRecord', 0).encode(writer, { version: 0 })
  return controlBatch('snapshotFooter', writer.toBuffer(), timestampMs, place)
}

function controlBatch(kind: ControlKind, value: Buffer, timestampMs: number, place: BatchPlace): Buffer {
  return buildBatch([{ key: controlKey(kind), value, timestampMs }], { ...place, control: true })
}

/** The kind of a control batch, from its first record; undefined for a data batch, an empty one, or a kind of a later Kafka. */
export function controlKindOf(bytes: Buffer, position: number, header: BatchHeader): ControlKind | undefined {
  if (!isControl(header)) return undefined
  const cursor = new RecordCursor(recordsSection(bytes, position, header), header)
  return cursor.next() ? readControlKind(cursor.key()) : undefined
}

/**
 * Folds the records at or after `fromOffset` of the batch at `position` into the builder. Control batches concern the log, not the
 * state. Throws DATA_DAMAGED naming file and offset when a record cannot be read, is not known or cannot follow.
 */
export function foldBatch(
  builder: ImageBuilder,
  bytes: Buffer,
  position: number,
  header: BatchHeader,
  place: { readonly file: string; readonly fromOffset: number },
): void {
  if (isControl(header) || lastOffset(header) < place.fromOffset) return
  let offset = header.baseOffset
  try {
    if (codecOf(header) !== 0) throw new MoonMQError('INVALID_RECORD', { reason: 'metadata is never compressed, this batch is' })
    const cursor = new RecordCursor(recordsSection(bytes, position, header), header)
    while (cursor.next()) {
      offset = cursor.offset
      if (offset < place.fromOffset) continue
      const value = cursor.value()
      if (value === null) throw new MoonMQError('INVALID_RECORD', { reason: 'a metadata record has a value, this one has none' })
      builder.apply(decodeRecord(value))
    }
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    throw new MoonMQError('DATA_DAMAGED', { path: place.file, reason: `metadata record at offset ${offset}: ${error.message}` }, error)
  }
}

/** The cluster's id where a batch of metadata says it, else null. What cannot be read says nothing. */
export function clusterIdIn(bytes: Buffer, position: number, header: BatchHeader): string | null {
  if (isControl(header) || codecOf(header) !== 0) return null
  try {
    const cursor = new RecordCursor(recordsSection(bytes, position, header), header)
    while (cursor.next()) {
      const value = cursor.value()
      const record = value === null ? null : decodeRecord(value)
      if (record?.name === 'ConfigRecord' && record.fields.name === CLUSTER_ID_CONFIG) return record.fields.value
    }
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
  }
  return null
}
