import { asMoonMQError } from '../../core/errors.ts'
import { ByteReader } from '../../core/reader.ts'
import { ByteWriter } from '../../core/writer.ts'
import { dataCodec } from '../../schema/messages.ts'

/** What consumers of the classic protocol put into the metadata and assignments that the broker hands on. */

export interface NamedPartitions {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface Subscription {
  readonly version: number
  readonly topics: readonly string[]
  readonly ownedPartitions: readonly NamedPartitions[]
  readonly rackId: string | null
}

/** Newer versions only add fields at the end, so the latest reader that is known finds its fields in them too. */
const LATEST = 3

/** Null when the bytes cannot be read. */
export function subscriptionOf(metadata: Buffer): Subscription | null {
  return readable(() => {
    const reader = new ByteReader(metadata)
    const version = reader.int16()
    const { topics, ownedPartitions, rackId } = dataCodec('ConsumerProtocolSubscription', Math.min(Math.max(version, 0), LATEST)).decode(
      reader,
    )
    return { version, topics, ownedPartitions, rackId }
  })
}

/** Only the topics, which every version has at its beginning: some clients name a version and leave out the fields that it added. */
export function subscribedTopicsOf(metadata: Buffer): readonly string[] | null {
  return readable(() => {
    const reader = new ByteReader(metadata)
    reader.int16()
    return dataCodec('ConsumerProtocolSubscription', 0).decode(reader).topics
  })
}

/** Null when the bytes cannot be read; none when there are none. */
export function assignedPartitionsOf(assignment: Buffer): readonly NamedPartitions[] | null {
  if (assignment.length === 0) return []
  return readable(() => {
    const reader = new ByteReader(assignment)
    const version = reader.int16()
    return dataCodec('ConsumerProtocolAssignment', Math.min(Math.max(version, 0), LATEST)).decode(reader).assignedPartitions
  })
}

/** A subscription of version 0. */
export function encodeSubscription(topics: readonly string[]): Buffer {
  const writer = new ByteWriter(256)
  writer.int16(0)
  dataCodec('ConsumerProtocolSubscription', 0).encode(writer, { topics, userData: null })
  return writer.toBuffer()
}

/** `version`: that of the member's subscription. */
export function encodeAssignment(version: number, assignedPartitions: readonly NamedPartitions[]): Buffer {
  const known = Math.min(Math.max(version, 0), LATEST)
  const writer = new ByteWriter(256)
  writer.int16(known)
  dataCodec('ConsumerProtocolAssignment', known).encode(writer, { assignedPartitions, userData: null })
  return writer.toBuffer()
}

function readable<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if (asMoonMQError(error).code === 'BAD_FRAME') return null
    throw error
  }
}
