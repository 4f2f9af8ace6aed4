/** ShareGroupHeartbeat (KIP-932): a member of a share group joins, stays, leaves, and hears which partitions it reads. */
import type { ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse } from '../../schema/types.generated.ts'
import { api } from '../handler.ts'
import { heartbeatAnswer, heartbeatRefused } from '../heartbeat-answer.ts'

export const shareGroupHeartbeat = api<ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse>({
  key: 76,
  name: 'ShareGroupHeartbeat',
  versions: [1, 1],
  omissions: ['The only assignor is simple; racks are shown and not used.'],
  async handle(call, request) {
    const { groupId: group, memberId, memberEpoch, rackId, subscribedTopicNames: topicNames } = request
    const answer = await call.broker.share.heartbeat(call.context, { group, memberId, memberEpoch, rackId, topicNames })
    return heartbeatAnswer({ ...answer, memberId })
  },
  refuse: heartbeatRefused,
})
