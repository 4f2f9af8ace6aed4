/** ShareGroupHeartbeat (KIP-932): a member of a share group joins, stays, leaves, and hears which partitions it reads. */
import type { ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

export const shareGroupHeartbeat = api<ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse>({
  key: 76,
  name: 'ShareGroupHeartbeat',
  versions: [1, 1],
  omissions: ['The only assignor is simple; racks are shown and not used.'],
  async handle(call, request) {
    const { groupId: group, memberId, memberEpoch, rackId, subscribedTopicNames: topicNames } = request
    const answer = await call.broker.share.heartbeat(call.context, { group, memberId, memberEpoch, rackId, topicNames })
    return {
      throttleTimeMs: 0,
      ...errorFields(null),
      memberId,
      memberEpoch: answer.memberEpoch,
      heartbeatIntervalMs: answer.heartbeatIntervalMs,
      assignment: answer.assignment === null ? null : { topicPartitions: answer.assignment },
    }
  },
  refuse: (error) => ({
    throttleTimeMs: 0,
    ...errorFields(error),
    memberId: null,
    memberEpoch: 0,
    heartbeatIntervalMs: 0,
    assignment: null,
  }),
})
