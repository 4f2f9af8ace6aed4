import type { Uuid } from '../../core/uuid.ts'
import { encodeCoordinatorKey, encodeCoordinatorValue } from '../../schema/records.ts'
import type { StoredPair } from '../groups/machine.ts'
import { type MetadataHash, NO_TOPICS } from '../groups/metadata-hash.ts'
import type { GroupRecord } from '../offsets/offset-records.ts'
import type { ShareAssignment } from './simple-assignor.ts'

/** The records of share groups in `__consumer_offsets`, in Kafka's schemas (DESIGN D4). */

const PLACE = 'group-coordinator'
/** A member has what its target says as soon as it hears of it: there is nothing to wait for. */
const STABLE = 0

export interface StoredMember {
  readonly memberId: string
  readonly rackId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly topicNames: readonly string[]
  readonly epoch: number
  readonly previousEpoch: number
  readonly assigned: ShareAssignment
}

/** A topic whose partitions the group has a position in. */
export interface KnownTopic {
  readonly id: Uuid
  readonly name: string
  readonly partitions: readonly number[]
}

/** A share group as it is stored. */
export interface StoredShareGroup {
  readonly epoch: number
  readonly assignmentEpoch: number
  readonly metadataHash: MetadataHash
  readonly members: ReadonlyMap<string, StoredMember>
  readonly targets: ReadonlyMap<string, ShareAssignment>
  readonly topics: ReadonlyMap<Uuid, KnownTopic>
}

export function groupEpochRecord(groupId: string, epoch: number, metadataHash: MetadataHash): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupMetadataKey', { groupId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupMetadataValue', 0, { epoch, metadataHash }),
  }
}

export function memberRecord(groupId: string, member: StoredMember): StoredPair {
  const { memberId, rackId, clientId, clientHost, topicNames } = member
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupMemberMetadataKey', { groupId, memberId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupMemberMetadataValue', 0, {
      rackId,
      clientId,
      clientHost,
      subscribedTopicNames: topicNames,
    }),
  }
}

export function currentRecord(groupId: string, member: StoredMember): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupCurrentMemberAssignmentKey', { groupId, memberId: member.memberId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupCurrentMemberAssignmentValue', 0, {
      memberEpoch: member.epoch,
      previousMemberEpoch: member.previousEpoch,
      state: STABLE,
      assignedPartitions: fieldsOf(member.assigned),
    }),
  }
}

export function targetRecord(groupId: string, memberId: string, target: ShareAssignment): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupTargetAssignmentMemberKey', { groupId, memberId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupTargetAssignmentMemberValue', 0, { topicPartitions: fieldsOf(target) }),
  }
}

export function targetEpochRecord(groupId: string, assignmentEpoch: number): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupTargetAssignmentMetadataKey', { groupId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupTargetAssignmentMetadataValue', 0, { assignmentEpoch }),
  }
}

/** Which share partitions the group has; the offsets themselves are in `__share_group_state`. */
export function topicsRecord(groupId: string, topics: Iterable<KnownTopic>): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ShareGroupStatePartitionMetadataKey', { groupId }),
    value: encodeCoordinatorValue(PLACE, 'ShareGroupStatePartitionMetadataValue', 0, {
      initializingTopics: [],
      initializedTopics: [...topics].map(({ id, name, partitions }) => ({ topicId: id, topicName: name, partitions })),
      deletingTopics: [],
    }),
  }
}

/** Takes away everything that is stored of a member. */
export function memberTombstones(groupId: string, memberId: string): StoredPair[] {
  return [
    { key: encodeCoordinatorKey(PLACE, 'ShareGroupCurrentMemberAssignmentKey', { groupId, memberId }), value: null },
    { key: encodeCoordinatorKey(PLACE, 'ShareGroupTargetAssignmentMemberKey', { groupId, memberId }), value: null },
    { key: encodeCoordinatorKey(PLACE, 'ShareGroupMemberMetadataKey', { groupId, memberId }), value: null },
  ]
}

/** A member of which only a part was read gets the rest empty: it joins again. */
export function storedShareGroup(records: Iterable<GroupRecord>): StoredShareGroup {
  const members = new Map<string, StoredMember>()
  const targets = new Map<string, ShareAssignment>()
  const topics = new Map<Uuid, KnownTopic>()
  let epoch = 0
  let assignmentEpoch = 0
  let metadataHash = NO_TOPICS
  const put = (memberId: string, part: Partial<StoredMember>) =>
    members.set(memberId, { ...(members.get(memberId) ?? blank(memberId)), ...part })
  for (const record of records) {
    if (record.value === null) continue
    switch (record.name) {
      case 'ShareGroupMetadataKey':
        epoch = record.value.epoch
        metadataHash = record.value.metadataHash
        break
      case 'ShareGroupTargetAssignmentMetadataKey':
        assignmentEpoch = record.value.assignmentEpoch
        break
      case 'ShareGroupMemberMetadataKey': {
        const { rackId, clientId, clientHost, subscribedTopicNames } = record.value
        put(record.key.memberId, { rackId, clientId, clientHost, topicNames: subscribedTopicNames })
        break
      }
      case 'ShareGroupCurrentMemberAssignmentKey': {
        const { memberEpoch, previousMemberEpoch, assignedPartitions } = record.value
        put(record.key.memberId, { epoch: memberEpoch, previousEpoch: previousMemberEpoch, assigned: assignmentOf(assignedPartitions) })
        break
      }
      case 'ShareGroupTargetAssignmentMemberKey':
        targets.set(record.key.memberId, assignmentOf(record.value.topicPartitions))
        break
      case 'ShareGroupStatePartitionMetadataKey':
        for (const { topicId, topicName, partitions } of record.value.initializedTopics) {
          topics.set(topicId, { id: topicId, name: topicName, partitions })
        }
        break
      default:
    }
  }
  return { epoch, assignmentEpoch, metadataHash, members, targets, topics }
}

function blank(memberId: string): StoredMember {
  return { memberId, rackId: null, clientId: '', clientHost: '', topicNames: [], epoch: 0, previousEpoch: 0, assigned: new Map() }
}

function fieldsOf(assignment: ShareAssignment) {
  return [...assignment].map(([topicId, partitions]) => ({ topicId, partitions }))
}

function assignmentOf(fields: readonly { readonly topicId: Uuid; readonly partitions: readonly number[] }[]): ShareAssignment {
  return new Map(fields.map(({ topicId, partitions }) => [topicId, partitions]))
}
