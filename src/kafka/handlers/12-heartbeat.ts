/** Heartbeat: keeps the session of a member of a classic group; REBALANCE_IN_PROGRESS asks it to join again. */
import type { HeartbeatRequest, HeartbeatResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

export const heartbeat = api<HeartbeatRequest, HeartbeatResponse>({
  key: 12,
  name: 'Heartbeat',
  versions: [0, 4],
  omissions: [],
  async handle(call, request) {
    await call.broker.groups.heartbeat(call.context, {
      group: request.groupId,
      generation: request.generationId,
      memberId: request.memberId,
      instanceId: request.groupInstanceId,
    })
    return { throttleTimeMs: 0, errorCode: 0 }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error) }),
})
