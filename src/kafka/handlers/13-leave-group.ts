/** LeaveGroup: one member up to version 2, several from 3, where a static one may be named by its instance id alone (KIP-345). */
import type { LeaveGroupRequest, LeaveGroupResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

const MEMBERS_SINCE = 3

export const leaveGroup = api<LeaveGroupRequest, LeaveGroupResponse>({
  key: 13,
  name: 'LeaveGroup',
  versions: [0, 5],
  omissions: [],
  async handle(call, request) {
    const several = call.version >= MEMBERS_SINCE
    const leaving = several
      ? request.members.map(({ memberId, groupInstanceId, reason }) => ({ memberId, instanceId: groupInstanceId, reason }))
      : [{ memberId: request.memberId, instanceId: null }]
    const outcomes = await call.broker.groups.leave(call.context, { group: request.groupId, members: leaving })
    if (!several) return { throttleTimeMs: 0, errorCode: kafkaCode(outcomes[0] ?? null) }
    const members = leaving.map(({ memberId, instanceId }, at) => ({
      memberId,
      groupInstanceId: instanceId,
      errorCode: kafkaCode(outcomes[at] ?? null),
    }))
    return { throttleTimeMs: 0, errorCode: 0, members }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), members: [] }),
})
