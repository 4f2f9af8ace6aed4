import { MoonMQError } from '../../core/errors.ts'
import { ByteReader } from '../../core/reader.ts'
import { readControlKind, readCoordinatorEpoch } from '../../record/control.ts'
import { dataCodec } from '../../schema/messages.ts'
import { type CoordinatorPlace, decodeCoordinatorRecord, decodeMetadataRecord } from '../../schema/records.ts'
import { plain } from './text.ts'

/** What the records of a log are: of a topic of users, or of one of the broker's own. */
export type Decoding = 'none' | 'metadata' | CoordinatorPlace

const BY_TOPIC: Readonly<Record<string, Decoding>> = {
  __cluster_metadata: 'metadata',
  __consumer_offsets: 'group-coordinator',
  __transaction_state: 'transaction-coordinator',
  __share_group_state: 'share-coordinator',
}

/** By the names of `--decode`; `auto` goes by the topic. */
export const DECODINGS: Readonly<Record<string, Decoding | 'auto'>> = {
  auto: 'auto',
  none: 'none',
  metadata: 'metadata',
  offsets: 'group-coordinator',
  transactions: 'transaction-coordinator',
  share: 'share-coordinator',
}

export function decodingOf(topic: string | null): Decoding {
  return topic !== null && Object.hasOwn(BY_TOPIC, topic) ? (BY_TOPIC[topic] as Decoding) : 'none'
}

/** A record of an internal topic as what it says; a record that cannot be read is shown with the reason. */
export interface Decoded {
  readonly name: string
  readonly fields: Readonly<Record<string, unknown>>
}

export function decodeRecord(decoding: Decoding, key: Buffer | null, value: Buffer | null): Decoded | null {
  if (decoding === 'none') return null
  try {
    return decoding === 'metadata' ? decodeMetadata(value) : decodeCoordinator(decoding, key, value)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    return { name: 'unreadable', fields: { reason: error.message } }
  }
}

function decodeMetadata(value: Buffer | null): Decoded {
  if (value === null) throw new MoonMQError('INVALID_RECORD', { reason: 'a metadata record has a value, this one has none' })
  const { name, version, fields } = decodeMetadataRecord(value)
  return { name, fields: { version, ...(plain(fields) as object) } }
}

interface ShownRecord {
  readonly name: string
  readonly key: unknown
  readonly version: number
  readonly value: unknown
}

function decodeCoordinator(place: CoordinatorPlace, key: Buffer | null, value: Buffer | null): Decoded {
  // The union of all places has no member that fits each; what is shown does not depend on which it is.
  const record: ShownRecord | undefined = decodeCoordinatorRecord(place as 'group-coordinator', key, value)
  if (record === undefined) return { name: 'unknown', fields: { keyVersion: key === null || key.length < 2 ? null : key.readInt16BE(0) } }
  const name = record.name.replace(/Key$/, '')
  const body = value === null ? { tombstone: true } : { version: record.version, value: plain(record.value) }
  return { name, fields: { key: plain(record.key), ...body } }
}

/** What a control record says: the end of a transaction, a change of leader, the frame of a snapshot. */
export function decodeControl(key: Buffer | null, value: Buffer | null): Decoded {
  try {
    const kind = readControlKind(key)
    if (kind === 'commit' || kind === 'abort') return { name: kind, fields: { coordinatorEpoch: readCoordinatorEpoch(value) } }
    if (kind === undefined) return { name: 'unknown', fields: { type: key?.readInt16BE(2) ?? null } }
    const schema = CONTROL_SCHEMAS[kind]
    if (schema === undefined || value === null) return { name: kind, fields: {} }
    return { name: kind, fields: plain(dataCodec(schema, 0).decode(new ByteReader(value))) as Record<string, unknown> }
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    return { name: 'unreadable', fields: { reason: error.message } }
  }
}

const CONTROL_SCHEMAS: Readonly<Partial<Record<string, 'LeaderChangeMessage' | 'SnapshotHeaderRecord' | 'SnapshotFooterRecord'>>> = {
  leaderChange: 'LeaderChangeMessage',
  snapshotHeader: 'SnapshotHeaderRecord',
  snapshotFooter: 'SnapshotFooterRecord',
}
