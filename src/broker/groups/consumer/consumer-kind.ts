import type { Uuid } from '../../../core/uuid.ts'
import type { GroupRecord } from '../../offsets/offset-records.ts'
import type { GroupKindRules, ReadRecord, RestoredMachine } from '../machine.ts'
import { NO_TOPICS } from '../metadata-hash.ts'
import type { TopicPartitions } from './assignment.ts'
import { ConsumerGroup } from './consumer-group.ts'
import { ConsumerMember } from './consumer-member.ts'
import type { ConsumerDeps, ConsumerOptions } from './consumer-types.ts'
import { MEMBER_STATES } from './reconcile.ts'

/** A consumer group is made of a record for its epoch, three for each member, and one for each regular expression. */
export function consumerKind(deps: ConsumerDeps, options: ConsumerOptions): GroupKindRules {
  return {
    kind: 'consumer',
    mark: 'ConsumerGroupMetadataKey',
    ready: (records) =>
      records.some(({ record }) => record.name === 'ConsumerGroupRegularExpressionKey') ? deps.patterns.ready() : undefined,
    restore: (group, records, nowMs) => restored(new ConsumerGroup(group, deps, options), records, nowMs),
  }
}

function restored(machine: ConsumerGroup, records: readonly ReadRecord[], nowMs: number): RestoredMachine {
  const { core } = machine
  const members = new Map<string, ConsumerMember>()
  const epochs = { epoch: 0, assignmentEpoch: 0, metadataHash: NO_TOPICS }
  let stateChangedAtMs = 0
  for (const { record } of records) if (record.name === 'ConsumerGroupMemberMetadataKey') readMember(members, record)
  for (const { record, timestampMs } of records) {
    switch (record.name) {
      case 'ConsumerGroupMetadataKey':
        // The epoch rose last when a member came or went, or its topics changed.
        stateChangedAtMs = timestampMs
        epochs.epoch = record.value?.epoch ?? 0
        epochs.metadataHash = record.value?.metadataHash ?? NO_TOPICS
        break
      case 'ConsumerGroupTargetAssignmentMetadataKey':
        epochs.assignmentEpoch = record.value?.assignmentEpoch ?? 0
        break
      case 'ConsumerGroupTargetAssignmentMemberKey':
        if (record.value !== null && members.has(record.key.memberId))
          core.members.restoreTarget(record.key.memberId, record.value.topicPartitions)
        break
      case 'ConsumerGroupCurrentMemberAssignmentKey':
        readProgress(members.get(record.key.memberId), record)
        break
      case 'ConsumerGroupRegularExpressionKey':
        if (record.value !== null) core.subscriptions.restore(record.key.regularExpression, record.value.topics, record.value.version)
        break
      default:
        break
    }
  }
  const { sessionTimeoutMs } = core.deps.timing(machine.group)
  for (const member of members.values()) {
    core.members.add(member)
    member.sessionDeadlineMs = nowMs + (member.classic?.sessionTimeoutMs ?? sessionTimeoutMs)
    if (member.classic === null && member.state === 'unrevoked') member.revokeDeadlineMs = nowMs + member.rebalanceTimeoutMs
  }
  core.startAt(epochs)
  core.noteStored()
  return { machine, stateChangedAtMs }
}

type RecordOf<N extends GroupRecord['name']> = Extract<GroupRecord, { name: N }>

function readMember(members: Map<string, ConsumerMember>, { key, value }: RecordOf<'ConsumerGroupMemberMetadataKey'>): void {
  if (value === null) return
  const member = new ConsumerMember(key.memberId)
  member.instanceId = value.instanceId
  member.rackId = value.rackId
  member.clientId = value.clientId
  member.clientHost = value.clientHost
  member.subscribedTopics = value.subscribedTopicNames
  member.subscribedRegex = value.subscribedTopicRegex ?? ''
  member.rebalanceTimeoutMs = value.rebalanceTimeoutMs
  member.assignor = value.serverAssignor
  const classic = value.classicMemberMetadata
  if (classic !== null) member.classic = { sessionTimeoutMs: classic.sessionTimeoutMs, protocols: classic.supportedProtocols }
  members.set(key.memberId, member)
}

function readProgress(member: ConsumerMember | undefined, { value }: RecordOf<'ConsumerGroupCurrentMemberAssignmentKey'>): void {
  if (member === undefined || value === null) return
  member.epoch = value.memberEpoch
  member.previousEpoch = value.previousMemberEpoch
  // A state that a later Kafka knows: whatever it was, the target says where to go.
  member.state = MEMBER_STATES[value.state] ?? 'unreleased'
  member.assigned = holdingOf(value.assignedPartitions, value.memberEpoch)
  member.revoking = holdingOf(value.partitionsPendingRevocation, value.memberEpoch)
}

function holdingOf(list: readonly (TopicPartitions & { readonly assignmentEpochs: readonly number[] | null })[], epoch: number) {
  const holding = new Map<Uuid, ReadonlyMap<number, number>>()
  for (const { topicId, partitions, assignmentEpochs } of list) {
    holding.set(topicId, new Map(partitions.map((partition, at) => [partition, assignmentEpochs?.[at] ?? epoch])))
  }
  return holding
}
