import { MAX_TOPIC_NAME_BYTES } from '../core/limits.ts'
import type { TopicPartition } from '../core/types.ts'
import { type Uuid, ZERO_UUID } from '../core/uuid.ts'

/**
 * Names on disk, as Kafka gives them (DESIGN D4): a folder `<topic>-<partition>` for each partition, and in it files named by the
 * first offset that they may hold, in 20 digits, so that sorting names sorts offsets.
 */
export type SegmentFileKind = 'log' | 'index' | 'timeindex' | 'txnindex' | 'snapshot'

/** What is added to the name of a file whose segment has left the log. Kafka's. */
export const REMOVED_SUFFIX = '.deleted'
const SEGMENT_FILE = /^(\d{20})\.(log|index|timeindex|txnindex|snapshot)$/
const PARTITION_FOLDER = /^(.+)-(\d{1,10})$/
const DELETED_SUFFIX = '-delete'
const STRAY_SUFFIX = '-stray'
/** What ext4, xfs and every other common file system take as a name. */
const MAX_NAME_BYTES = 255

export const PARTITION_METADATA_FILE = 'partition.metadata'
/** Left by a log whose sync failed: bytes past the recovery point may be in memory only, however whole they look. */
export const IN_DOUBT_FILE = 'moonmq-in-doubt'
/** Zeros in the data folder, given up when the disk is full. */
export const RESERVE_FILE = 'moonmq-reserve'

export function segmentFileName(baseOffset: number, kind: SegmentFileKind): string {
  return `${baseOffset.toString().padStart(20, '0')}.${kind}`
}

export function parseSegmentFileName(name: string): { readonly baseOffset: number; readonly kind: SegmentFileKind } | null {
  const match = SEGMENT_FILE.exec(name)
  if (match === null) return null
  const baseOffset = Number(match[1])
  return Number.isSafeInteger(baseOffset) ? { baseOffset, kind: match[2] as SegmentFileKind } : null
}

/** First offsets of the segments whose log file is among the names, in their order. */
export function segmentBases(names: Iterable<string>): number[] {
  const bases: number[] = []
  for (const name of names) {
    const parsed = parseSegmentFileName(name)
    if (parsed?.kind === 'log') bases.push(parsed.baseOffset)
  }
  return bases
}

/** The segment file that had this name before its segment left the log; null for any other name. */
export function parseRemovedFileName(name: string): { readonly baseOffset: number; readonly kind: SegmentFileKind } | null {
  return name.endsWith(REMOVED_SUFFIX) ? parseSegmentFileName(name.slice(0, -REMOVED_SUFFIX.length)) : null
}

export function partitionFolderName({ topic, partition }: TopicPartition): string {
  return `${topic}-${partition}`
}

/** The partition a folder belongs to; null for a folder that is deleted, set aside, or none of ours. */
export function parsePartitionFolderName(name: string): TopicPartition | null {
  if (isDeletedFolder(name) || isStrayFolder(name)) return null
  const match = PARTITION_FOLDER.exec(name)
  if (match === null) return null
  const topic = match[1] as string
  const partition = Number(match[2])
  if (topic.length > MAX_TOPIC_NAME_BYTES || partition > 0x7fffffff) return null
  return partitionFolderName({ topic, partition }) === name ? { topic, partition } : null
}

export function isDeletedFolder(name: string): boolean {
  return name.endsWith(DELETED_SUFFIX) && name.includes('.')
}

export function isStrayFolder(name: string): boolean {
  return name.endsWith(STRAY_SUFFIX) && name.includes('.')
}

/** Kafka's form `<topic>-<partition>.<id>-delete`; the topic id keeps a topic's successor of the same name apart. */
export function deletedFolderName(tp: TopicPartition, topicId: Uuid): string {
  return markedFolderName(tp, topicId, DELETED_SUFFIX)
}

export function strayFolderName(tp: TopicPartition, topicId: Uuid): string {
  return markedFolderName(tp, topicId, STRAY_SUFFIX)
}

function markedFolderName(tp: TopicPartition, topicId: Uuid, suffix: string): string {
  const tail = `-${tp.partition}.${topicId}${suffix}`
  return tp.topic.slice(0, MAX_NAME_BYTES - tail.length) + tail
}

/** Kafka's text of `partition.metadata`. */
export function encodePartitionMetadata(topicId: Uuid): Buffer {
  return Buffer.from(`version: 0\ntopic_id: ${topicId}`)
}

/** The topic id that the file names; null when the text is not what `encodePartitionMetadata` writes. */
export function decodePartitionMetadata(bytes: Buffer): Uuid | null {
  const match = /^version: 0\r?\ntopic_id: ([A-Za-z0-9_-]{22})\s*$/.exec(bytes.toString('latin1'))
  const id = match?.[1]
  return id === undefined || id === ZERO_UUID ? null : id
}
