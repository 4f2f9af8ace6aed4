import { encodeCoordinatorKey, encodeCoordinatorValue } from '../../../schema/records.ts'
import type { StoredPair } from '../machine.ts'
import type { MetadataHash } from '../metadata-hash.ts'
import { type Assignment, type Holding, listed } from './assignment.ts'
import type { ConsumerMember } from './consumer-member.ts'
import { MEMBER_STATES } from './reconcile.ts'

/** The records of a consumer group, in Kafka's schemas (DESIGN D4). Null in place of what is told: a tombstone. */

const PLACE = 'group-coordinator'

export function epochRecord(group: string, epoch: number, metadataHash: MetadataHash): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ConsumerGroupMetadataKey', { groupId: group }),
    value: encodeCoordinatorValue(PLACE, 'ConsumerGroupMetadataValue', 0, { epoch, metadataHash }),
  }
}

export function memberRecord(groupId: string, memberId: string, member: ConsumerMember | undefined): StoredPair {
  const key = encodeCoordinatorKey(PLACE, 'ConsumerGroupMemberMetadataKey', { groupId, memberId })
  if (member === undefined) return { key, value: null }
  const { classic } = member
  const value = encodeCoordinatorValue(PLACE, 'ConsumerGroupMemberMetadataValue', 0, {
    instanceId: member.instanceId,
    rackId: member.rackId,
    clientId: member.clientId,
    clientHost: member.clientHost,
    subscribedTopicNames: member.subscribedTopics,
    subscribedTopicRegex: member.subscribedRegex,
    rebalanceTimeoutMs: member.rebalanceTimeoutMs,
    serverAssignor: member.assignor,
    classicMemberMetadata: classic === null ? null : { sessionTimeoutMs: classic.sessionTimeoutMs, supportedProtocols: classic.protocols },
  })
  return { key, value }
}

export function targetEpochRecord(groupId: string, assignmentEpoch: number, assignmentTimestamp: number): StoredPair {
  return {
    key: encodeCoordinatorKey(PLACE, 'ConsumerGroupTargetAssignmentMetadataKey', { groupId }),
    value: encodeCoordinatorValue(PLACE, 'ConsumerGroupTargetAssignmentMetadataValue', 0, { assignmentEpoch, assignmentTimestamp }),
  }
}

export function targetRecord(groupId: string, memberId: string, target: Assignment | undefined): StoredPair {
  const key = encodeCoordinatorKey(PLACE, 'ConsumerGroupTargetAssignmentMemberKey', { groupId, memberId })
  if (target === undefined) return { key, value: null }
  return { key, value: encodeCoordinatorValue(PLACE, 'ConsumerGroupTargetAssignmentMemberValue', 0, { topicPartitions: listed(target) }) }
}

export function currentRecord(groupId: string, memberId: string, member: ConsumerMember | undefined): StoredPair {
  const key = encodeCoordinatorKey(PLACE, 'ConsumerGroupCurrentMemberAssignmentKey', { groupId, memberId })
  if (member === undefined) return { key, value: null }
  const value = encodeCoordinatorValue(PLACE, 'ConsumerGroupCurrentMemberAssignmentValue', 0, {
    memberEpoch: member.epoch,
    previousMemberEpoch: member.previousEpoch,
    state: MEMBER_STATES.indexOf(member.state),
    assignedPartitions: withEpochs(member.assigned),
    partitionsPendingRevocation: withEpochs(member.revoking),
  })
  return { key, value }
}

function withEpochs(holding: Holding) {
  return listed(holding).map(({ topicId, partitions }) => ({
    topicId,
    partitions,
    assignmentEpochs: partitions.map((partition) => holding.get(topicId)?.get(partition) ?? 0),
  }))
}

export function regexRecord(
  groupId: string,
  regularExpression: string,
  resolved: { topics: readonly string[]; version: number; timestampMs: number } | undefined,
): StoredPair {
  const key = encodeCoordinatorKey(PLACE, 'ConsumerGroupRegularExpressionKey', { groupId, regularExpression })
  if (resolved === undefined) return { key, value: null }
  const { topics, version, timestampMs } = resolved
  return {
    key,
    value: encodeCoordinatorValue(PLACE, 'ConsumerGroupRegularExpressionValue', 0, { topics, version, timestamp: timestampMs }),
  }
}
