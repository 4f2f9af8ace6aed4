import { MoonMQError } from '../core/errors.ts'
import type { Input } from '../schema/compile.ts'
import { type AnyMetadataRecord, decodeMetadataRecord, encodeMetadataRecord, type MetadataRecordName } from '../schema/records.ts'
import type { MetadataRecords } from '../schema/types.generated.ts'
import type { MetadataRecord } from './types.ts'

/**
 * The record types that this version writes and understands, with the version written: those of `metadata.version` 7, the lowest
 * level that Kafka 4 reads. A record of another type or of a later version stops the start, since skipping it would change the state.
 */
const VERSIONS: Readonly<Partial<Record<MetadataRecordName, number>>> = {
  RegisterBrokerRecord: 1,
  UnregisterBrokerRecord: 0,
  BrokerRegistrationChangeRecord: 1,
  FenceBrokerRecord: 0,
  UnfenceBrokerRecord: 0,
  TopicRecord: 0,
  RemoveTopicRecord: 0,
  PartitionRecord: 0,
  PartitionChangeRecord: 0,
  ConfigRecord: 0,
  ProducerIdsRecord: 0,
  FeatureLevelRecord: 0,
  NoOpRecord: 0,
}

/** Kafka's ConfigResource types. */
export const CONFIG_RESOURCE = { topic: 2, broker: 4, telemetry: 16, group: 32 } as const

/** Which cluster the log belongs to: a broker-wide setting of our own, since Kafka has no record for it (DESIGN D7). */
export const CLUSTER_ID_CONFIG = 'moonmq.cluster.id'

/** In PartitionChangeRecord: the leader stays and so does its epoch. */
export const NO_LEADER_CHANGE = -2

/** A record at the version that this version of MoonMQ writes. Fields left out have Kafka's defaults. */
export function metadataRecord<N extends MetadataRecordName>(name: N, fields: Input<MetadataRecords[N]>): MetadataRecord {
  return { name, version: VERSIONS[name] ?? -1, fields: fields as Record<string, unknown> }
}

/** The value of the log record: frame version, id, version, body. Throws INVALID_RECORD for a type that is not written here. */
export function encodeRecord(record: MetadataRecord): Buffer {
  checkSupported(record.name, record.version)
  return encodeMetadataRecord(record.name as MetadataRecordName, record.version, record.fields as never)
}

/** Throws INVALID_RECORD naming the record type and version when this version does not understand it. */
export function decodeRecord(bytes: Buffer): AnyMetadataRecord {
  const record = decodeMetadataRecord(bytes)
  checkSupported(record.name, record.version)
  return record
}

function checkSupported(name: string, version: number): void {
  const known = VERSIONS[name as MetadataRecordName]
  if (known !== undefined && version >= 0 && version <= known) return
  const reason =
    known === undefined ? `${name} is not known to this version` : `${name} version ${version} is not known, at most ${known} is`
  throw new MoonMQError('INVALID_RECORD', { reason })
}
