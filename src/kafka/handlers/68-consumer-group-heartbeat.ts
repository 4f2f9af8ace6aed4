/**
 * ConsumerGroupHeartbeat: everything that a member of a consumer group says of itself and hears of its assignment (KIP-848), the
 * subscription by regular expression included (version 1). Answered when what it changed is durable.
 */
import type { ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse } from '../../schema/types.generated.ts'
import { api } from '../handler.ts'
import { heartbeatAnswer, heartbeatRefused } from '../heartbeat-answer.ts'

const CLIENT_IDS_SINCE = 1
/** How a client says that the rebalance timeout is as before. */
const UNCHANGED = -1

export const consumerGroupHeartbeat = api<ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse>({
  key: 68,
  name: 'ConsumerGroupHeartbeat',
  versions: [0, 1],
  omissions: [],
  async handle(call, request) {
    const answer = await call.broker.groups.consumerHeartbeat(call.context, {
      group: request.groupId,
      memberId: request.memberId,
      idIsClients: call.version >= CLIENT_IDS_SINCE,
      memberEpoch: request.memberEpoch,
      instanceId: request.instanceId,
      rackId: request.rackId,
      rebalanceTimeoutMs: request.rebalanceTimeoutMs === UNCHANGED ? null : request.rebalanceTimeoutMs,
      subscribedTopics: request.subscribedTopicNames,
      subscribedRegex: request.subscribedTopicRegex,
      assignor: request.serverAssignor,
      owned: request.topicPartitions,
    })
    return heartbeatAnswer(answer)
  },
  refuse: heartbeatRefused,
})
