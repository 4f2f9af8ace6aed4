/** ShareGroupDescribe (KIP-932): share groups with their members and what each reads. */
import type { ShareGroupDescription, SharePartitions } from '../../broker/ports.ts'
import type { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { ShareGroupDescribeRequest, ShareGroupDescribeResponse } from '../../schema/types.generated.ts'
import { errorFields, GROUP_OPERATIONS, OPERATIONS_NOT_ASKED } from '../cluster-view.ts'
import { api } from '../handler.ts'

type GroupAnswer = Input<ShareGroupDescribeResponse['groups'][number]>

export const shareGroupDescribe = api<ShareGroupDescribeRequest, ShareGroupDescribeResponse>({
  key: 77,
  name: 'ShareGroupDescribe',
  versions: [1, 1],
  omissions: [],
  async handle(call, request) {
    const described = await call.broker.share.describe(call.context, request.groupIds)
    const operations = request.includeAuthorizedOperations ? GROUP_OPERATIONS : OPERATIONS_NOT_ASKED
    return { throttleTimeMs: 0, groups: await inTurns(call.clock, described, (group) => answerOf(group, operations)) }
  },
  refuse: (error, request) => ({ throttleTimeMs: 0, groups: request.groupIds.map((groupId) => failed(groupId, error)) }),
})

function answerOf(described: ShareGroupDescription, authorizedOperations: number): GroupAnswer {
  const { error, group, state, groupEpoch, assignmentEpoch, assignor, members } = described
  return {
    ...errorFields(error),
    groupId: group,
    groupState: state,
    groupEpoch,
    assignmentEpoch,
    assignorName: assignor,
    members: members.map((member) => ({
      memberId: member.memberId,
      rackId: member.rackId,
      memberEpoch: member.memberEpoch,
      clientId: member.clientId,
      clientHost: member.clientHost,
      subscribedTopicNames: member.topicNames,
      assignment: { topicPartitions: member.assignment.map(assigned) },
    })),
    authorizedOperations: error === null ? authorizedOperations : OPERATIONS_NOT_ASKED,
  }
}

function assigned({ topicId, topic, partitions }: SharePartitions & { readonly topic: string }) {
  return { topicId, topicName: topic, partitions }
}

function failed(groupId: string, error: MoonMQError): GroupAnswer {
  const nothing = { groupState: '', groupEpoch: 0, assignmentEpoch: 0, assignorName: '', members: [] }
  return { ...errorFields(error), groupId, ...nothing, authorizedOperations: OPERATIONS_NOT_ASKED }
}
