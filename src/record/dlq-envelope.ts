import { ByteWriter } from '../core/writer.ts'

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
