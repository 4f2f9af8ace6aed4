import { MoonMQError } from '../../core/errors.ts'
import { type AnyCoordinatorRecord, decodeCoordinatorRecord, encodeCoordinatorKey, encodeCoordinatorValue } from '../../schema/records.ts'
import type { GroupSnapshot } from '../groups/classic-types.ts'
import type { StoredOffset } from './offset-store.ts'

/** What `__consumer_offsets` holds: offsets, and the records of groups; those of classic groups are written here (DESIGN D4). */

/** Version 4 carries the topic's id: after a crash, an offset of a deleted topic is told from one of its successor. */
const OFFSET_VERSION = 4
const GROUP_VERSION = 3

const PLACE = 'group-coordinator'

export function offsetKey(group: string, topic: string, partition: number): Buffer {
  return encodeCoordinatorKey(PLACE, 'OffsetCommitKey', { group, topic, partition })
}

export function offsetValue(value: StoredOffset): Buffer {
  return encodeCoordinatorValue(PLACE, 'OffsetCommitValue', OFFSET_VERSION, {
    offset: value.offset,
    leaderEpoch: value.leaderEpoch,
    metadata: value.metadata,
    commitTimestamp: value.commitTimestampMs,
    topicId: value.topicId,
  })
}

/** A group as it is stored, with the wall time of its last change of state, from which the life of its offsets counts. */
export interface StoredGroup {
  readonly snapshot: GroupSnapshot
  readonly stateChangedAtMs: number
}

export function groupKey(group: string): Buffer {
  return encodeCoordinatorKey(PLACE, 'GroupMetadataKey', { group })
}

export function groupValue({ snapshot, stateChangedAtMs }: StoredGroup): Buffer {
  return encodeCoordinatorValue(PLACE, 'GroupMetadataValue', GROUP_VERSION, {
    protocolType: snapshot.protocolType,
    generation: snapshot.generation,
    protocol: snapshot.protocol,
    leader: snapshot.leader,
    currentStateTimestamp: stateChangedAtMs,
    members: snapshot.members.map((member) => ({
      memberId: member.memberId,
      groupInstanceId: member.instanceId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      rebalanceTimeout: member.rebalanceTimeoutMs,
      sessionTimeout: member.sessionTimeoutMs,
      subscription: member.subscription,
      assignment: member.assignment,
    })),
  })
}

/** Any record that tells of a group itself, and not of its offsets. */
export type GroupRecord = Exclude<AnyCoordinatorRecord<typeof PLACE>, { name: 'OffsetCommitKey' | 'LegacyOffsetCommitKey' }>

export type OffsetsRecord =
  | {
      readonly kind: 'offset'
      readonly group: string
      readonly topic: string
      readonly partition: number
      readonly value: StoredOffset | null
    }
  | { readonly kind: 'group'; readonly group: string; readonly record: GroupRecord }

/** Keys up to this number are those of offsets. */
const LAST_OFFSET_KEY = 1

/** Null for kinds of records that a later Kafka writes. Copies what it keeps. Throws INVALID_RECORD. */
export function decodeOffsetsRecord(key: Buffer, value: Buffer | null): OffsetsRecord | null {
  const isOffset = key.length >= 2 && key.readInt16BE(0) <= LAST_OFFSET_KEY
  const record = decodeCoordinatorRecord(PLACE, key, isOffset || value === null ? value : Buffer.from(value))
  if (record === undefined) return null
  switch (record.name) {
    case 'OffsetCommitKey':
      return { kind: 'offset', ...record.key, value: record.value === null ? null : storedOffset(record.value) }
    case 'LegacyOffsetCommitKey':
      throw new MoonMQError('INVALID_RECORD', { reason: `group "${record.key.group}" has offsets in the format of Kafka 0.8` })
    case 'GroupMetadataKey':
      return { kind: 'group', group: record.key.group, record }
    default:
      return { kind: 'group', group: record.key.groupId, record }
  }
}

type ValueOf<N extends GroupRecord['name'] | 'OffsetCommitKey'> = NonNullable<
  Extract<AnyCoordinatorRecord<typeof PLACE>, { name: N }>['value']
>

function storedOffset(value: ValueOf<'OffsetCommitKey'>): StoredOffset {
  return {
    offset: value.offset,
    leaderEpoch: value.leaderEpoch,
    metadata: value.metadata,
    commitTimestampMs: value.commitTimestamp,
    topicId: value.topicId,
  }
}

export function storedGroup(value: ValueOf<'GroupMetadataKey'>): StoredGroup {
  const members = value.members.map((member) => ({
    memberId: member.memberId,
    instanceId: member.groupInstanceId,
    clientId: member.clientId,
    clientHost: member.clientHost,
    rebalanceTimeoutMs: member.rebalanceTimeout < 0 ? member.sessionTimeout : member.rebalanceTimeout,
    sessionTimeoutMs: member.sessionTimeout,
    subscription: member.subscription,
    assignment: member.assignment,
  }))
  const { protocolType, generation, protocol, leader } = value
  return { snapshot: { protocolType, generation, protocol, leader, members }, stateChangedAtMs: value.currentStateTimestamp }
}
