/**
 * SyncGroup: the leader hands in the assignments, everybody gets its own; followers wait for the leader. From version 5 the member
 * says which protocol it takes the group to have (KIP-559).
 */
import { MoonMQError } from '../../core/errors.ts'
import type { SyncGroupRequest, SyncGroupResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

const PROTOCOL_SINCE = 5
const NOTHING = Buffer.alloc(0)

export const syncGroup = api<SyncGroupRequest, SyncGroupResponse>({
  key: 14,
  name: 'SyncGroup',
  versions: [0, 5],
  omissions: [],
  async handle(call, request) {
    const { protocolType, protocolName } = request
    if (call.version >= PROTOCOL_SINCE && (protocolType === null || protocolName === null)) {
      throw new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group: request.groupId })
    }
    const synced = await call.broker.groups.sync(call.context, {
      group: request.groupId,
      generation: request.generationId,
      memberId: request.memberId,
      instanceId: request.groupInstanceId,
      protocolType,
      protocol: protocolName,
      assignments: new Map(request.assignments.map(({ memberId, assignment }) => [memberId, assignment])),
    })
    return {
      throttleTimeMs: 0,
      errorCode: 0,
      protocolType: synced.protocolType,
      protocolName: synced.protocol,
      assignment: synced.assignment,
    }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), assignment: NOTHING }),
})
