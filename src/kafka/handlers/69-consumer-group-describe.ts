/** ConsumerGroupDescribe: state, epochs and members of consumer groups, with what each has and is to have (KIP-848). */
import type { ConsumerAssignment, ConsumerGroupDescription } from '../../broker/ports.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse } from '../../schema/types.generated.ts'
import { errorFields, GROUP_OPERATIONS, OPERATIONS_NOT_ASKED } from '../cluster-view.ts'
import { api } from '../handler.ts'

const CLASSIC_MEMBER = 0
const CONSUMER_MEMBER = 1
const MEMBER_TYPE_SINCE = 1

export const consumerGroupDescribe = api<ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse>({
  key: 69,
  name: 'ConsumerGroupDescribe',
  versions: [0, 1],
  omissions: [],
  async handle(call, request) {
    const described = await call.broker.groups.describeConsumerGroups(call.context, request.groupIds)
    const authorizedOperations = request.includeAuthorizedOperations ? GROUP_OPERATIONS : OPERATIONS_NOT_ASKED
    const groups = await inTurns(call.clock, described, (group) => ({ ...answer(group, call.version), authorizedOperations }))
    return { throttleTimeMs: 0, groups }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    groups: request.groupIds.map((groupId) => ({ groupId, ...errorFields(error), authorizedOperations: OPERATIONS_NOT_ASKED })),
  }),
})

function answer(group: ConsumerGroupDescription, version: number): Input<ConsumerGroupDescribeResponse['groups'][number]> {
  return {
    ...errorFields(group.error),
    groupId: group.group,
    groupState: group.state,
    groupEpoch: group.epoch,
    assignmentEpoch: group.assignmentEpoch,
    assignorName: group.assignor,
    members: group.members.map((member) => ({
      memberId: member.memberId,
      instanceId: member.instanceId,
      rackId: member.rackId,
      memberEpoch: member.epoch,
      clientId: member.clientId,
      clientHost: member.clientHost,
      subscribedTopicNames: member.subscribedTopics,
      subscribedTopicRegex: member.subscribedRegex === '' ? null : member.subscribedRegex,
      assignment: assignment(member.assigned),
      targetAssignment: assignment(member.target),
      ...(version >= MEMBER_TYPE_SINCE ? { memberType: member.isClassic ? CLASSIC_MEMBER : CONSUMER_MEMBER } : {}),
    })),
  }
}

function assignment(partitions: ConsumerAssignment) {
  return {
    topicPartitions: partitions.map(({ topicId, topic, partitions: numbers }) => ({ topicId, topicName: topic, partitions: numbers })),
  }
}
