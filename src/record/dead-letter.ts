import { ByteWriter } from '../core/writer.ts'
import type { RecordHeader } from './record.ts'

/** Headers that a dead letter has besides its own; redriving is a copy without them (DESIGN D11). */
export const DEAD = 'moonmq.dlq.'
/** The same of a record that waits for its next try. */
export const RETRY = 'moonmq.retry.'
/** What a record keeps of where it was when it was sent back to its topic. */
export const REDRIVEN = 'moonmq.redriven.'
/** Of a record in a dead-letter topic that is no letter: the letter at this offset of the partition was sent back. */
const MARK = `${REDRIVEN}marks`

/** Where a dead letter came from: two with the same are one. */
export interface Origin {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly group: string
}

/** What a dead letter says of itself. */
export interface Provenance extends Origin {
  /** Of the record. */
  readonly timestampMs: number
  readonly attempts: number
  readonly reason: string
  readonly movedAtMs: number
}

/** Null for a record that was not moved so. */
export function provenanceOf(headers: readonly RecordHeader[], kind: 'dead' | 'retry' = 'dead'): Provenance | null {
  if (headers.length === 0) return null
  const prefix = kind === 'dead' ? DEAD : RETRY
  const text = (name: string) => headers.find(({ key }) => key === prefix + name)?.value?.toString() ?? null
  const number = (name: string) => Number(text(name) ?? 'none')
  const topic = text('topic')
  const group = text('group')
  const partition = number('partition')
  const offset = number('offset')
  if (topic === null || group === null || !Number.isSafeInteger(partition) || !Number.isSafeInteger(offset)) return null
  const [timestampMs, attempts, movedAtMs] = [number('timestamp'), number('attempts'), number('at')]
  return {
    topic,
    partition,
    offset,
    group,
    timestampMs: Number.isSafeInteger(timestampMs) ? timestampMs : 0,
    attempts: Number.isSafeInteger(attempts) ? attempts : 0,
    reason: text('reason') ?? '',
    movedAtMs: Number.isSafeInteger(movedAtMs) ? movedAtMs : 0,
  }
}

/** The headers of the record that says that a letter was sent back. */
export function markOf(offset: number, nowMs: number): RecordHeader[] {
  return [
    { key: MARK, value: Buffer.from(String(offset)) },
    { key: `${REDRIVEN}at`, value: Buffer.from(String(nowMs)) },
  ]
}

/** The offset of the letter that was sent back; null for a record that does not say so. */
export function markedOffset(headers: readonly RecordHeader[]): number | null {
  const value = headers.find(({ key }) => key === MARK)?.value
  return value === undefined || value === null ? null : Number(value.toString())
}

/** What version 1 of the native protocol tells of a dead letter. Partition numbers start at 0 here and at 1 in the bytes (DESIGN D12). */
export interface Envelope {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly timestampMs: number
  readonly group: string
  readonly attempts: number
  readonly reason: string
  readonly value: Buffer
}

const VERSION = 1
/** Bytes beside topic, group, reason and value. */
const FIXED_BYTES = 39
const MAX_U16 = 65_535

/** The bytes (docs/DLQ.md). A reason that would make them longer than `maxBytes` is cut; where that is not enough they are longer. */
export function encodeEnvelope(envelope: Envelope, maxBytes: number): Buffer {
  const { topic, partition, offset, timestampMs, group, attempts, value } = envelope
  const topicBytes = Buffer.from(topic)
  const groupBytes = Buffer.from(group)
  const room = Math.max(0, maxBytes - FIXED_BYTES - topicBytes.length - groupBytes.length - value.length)
  const reasonBytes = Buffer.from(cutText(envelope.reason, room))
  const writer = new ByteWriter(FIXED_BYTES + topicBytes.length + groupBytes.length + reasonBytes.length + value.length)
  const str = (bytes: Buffer) => {
    writer.uint32(bytes.length)
    writer.bytes(bytes)
  }
  writer.uint8(VERSION)
  str(topicBytes)
  writer.uint32(partition + 1)
  writer.uint64(offset)
  // Times before 1970, and none, have no form there.
  writer.uint64(Math.max(0, timestampMs))
  str(groupBytes)
  writer.uint16(Math.min(MAX_U16, attempts))
  str(reasonBytes)
  str(value)
  return writer.toBuffer()
}

/** At most `maxBytes` of UTF-8; a character that would be cut in two is left out. */
export function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  return bytes.length <= maxBytes ? text : bytes.toString('utf8', 0, maxBytes).replace(/\uFFFD+$/, '')
}
