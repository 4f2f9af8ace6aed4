import type { Uuid } from '../../core/uuid.ts'
import { decodeCoordinatorRecord, encodeCoordinatorKey, encodeCoordinatorValue } from '../../schema/records.ts'
import { type ShareState, STATE_IDS, type StateBatch } from './share-types.ts'

/** The records of share partitions in `__share_group_state`, in Kafka's schemas (DESIGN D4). */

const PLACE = 'share-coordinator'

/** A share partition's name: one group's view of one partition. */
export interface SharePartitionId {
  readonly group: string
  readonly topicId: Uuid
  readonly partition: number
}

/** What is stored beside the state itself. */
export interface ShareEpochs {
  /** Counts the snapshots: an update belongs to the one before it. */
  readonly snapshotEpoch: number
  /** Counts the times that somebody chose the start. */
  readonly stateEpoch: number
  readonly leaderEpoch: number
}

export interface StoredSnapshot extends ShareState, ShareEpochs {
  readonly doneCount: number
  readonly createdAtMs: number
  readonly writtenAtMs: number
}

export interface StoredUpdate extends ShareState, Omit<ShareEpochs, 'stateEpoch'> {
  readonly doneCount: number
}

/** Which partition of the topic holds it: Kafka hashes the same text. */
export function stateKey({ group, topicId, partition }: SharePartitionId): string {
  return `${group}:${topicId}:${partition}`
}

export function snapshotKey({ group, topicId, partition }: SharePartitionId): Buffer {
  return encodeCoordinatorKey(PLACE, 'ShareSnapshotKey', { groupId: group, topicId, partition })
}

export function updateKey({ group, topicId, partition }: SharePartitionId): Buffer {
  return encodeCoordinatorKey(PLACE, 'ShareUpdateKey', { groupId: group, topicId, partition })
}

export function snapshotValue(snapshot: StoredSnapshot): Buffer {
  return encodeCoordinatorValue(PLACE, 'ShareSnapshotValue', 0, {
    snapshotEpoch: snapshot.snapshotEpoch,
    stateEpoch: snapshot.stateEpoch,
    leaderEpoch: snapshot.leaderEpoch,
    startOffset: snapshot.startOffset,
    deliveryCompleteCount: snapshot.doneCount,
    createTimestamp: snapshot.createdAtMs,
    writeTimestamp: snapshot.writtenAtMs,
    stateBatches: snapshot.batches.map(batchFields),
  })
}

export function updateValue(update: StoredUpdate): Buffer {
  return encodeCoordinatorValue(PLACE, 'ShareUpdateValue', 0, {
    snapshotEpoch: update.snapshotEpoch,
    leaderEpoch: update.leaderEpoch,
    startOffset: update.startOffset,
    deliveryCompleteCount: update.doneCount,
    stateBatches: update.batches.map(batchFields),
  })
}

export type ShareStateRecord =
  | { readonly kind: 'snapshot'; readonly id: SharePartitionId; readonly value: StoredSnapshot | null }
  | { readonly kind: 'update'; readonly id: SharePartitionId; readonly value: StoredUpdate | null }

/** Null for kinds that a later Kafka writes. Throws INVALID_RECORD. */
export function decodeShareState(key: Buffer, value: Buffer | null): ShareStateRecord | null {
  const record = decodeCoordinatorRecord(PLACE, key, value)
  if (record === undefined) return null
  const { groupId: group, topicId, partition } = record.key
  const id = { group, topicId, partition }
  if (record.value === null) return { kind: record.name === 'ShareSnapshotKey' ? 'snapshot' : 'update', id, value: null }
  const { snapshotEpoch, leaderEpoch, startOffset, deliveryCompleteCount: doneCount } = record.value
  const shared = { snapshotEpoch, leaderEpoch, startOffset, doneCount, batches: record.value.stateBatches.map(stateBatch) }
  if (record.name === 'ShareUpdateKey') return { kind: 'update', id, value: shared }
  const { stateEpoch, createTimestamp, writeTimestamp } = record.value
  return { kind: 'snapshot', id, value: { ...shared, stateEpoch, createdAtMs: createTimestamp, writtenAtMs: writeTimestamp } }
}

function batchFields({ first, last, state, deliveries }: StateBatch) {
  return { firstOffset: first, lastOffset: last, deliveryState: STATE_IDS[state], deliveryCount: deliveries }
}

const STATES = new Map(Object.entries(STATE_IDS).map(([state, id]) => [id, state as StateBatch['state']]))

interface BatchFields {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryState: number
  readonly deliveryCount: number
}

/** A state of a later Kafka counts as available: the record is delivered once more. */
function stateBatch({ firstOffset, lastOffset, deliveryState, deliveryCount }: BatchFields): StateBatch {
  return { first: firstOffset, last: lastOffset, state: STATES.get(deliveryState) ?? 'available', deliveries: deliveryCount }
}
