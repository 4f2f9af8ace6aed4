/**
 * DescribeGroups: state, members and assignments of classic groups. A group that is not there is "Dead" without an error up to version 5,
 * and GROUP_ID_NOT_FOUND from 6 (KIP-1043).
 */
import type { GroupDescription } from '../../broker/ports.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeGroupsRequest, DescribeGroupsResponse } from '../../schema/types.generated.ts'
import { errorFields, GROUP_OPERATIONS, OPERATIONS_NOT_ASKED } from '../cluster-view.ts'
import { api, kafkaCode } from '../handler.ts'

type Described = Input<DescribeGroupsResponse['groups'][number]>

const NOT_FOUND_SINCE = 6

export const describeGroups = api<DescribeGroupsRequest, DescribeGroupsResponse>({
  key: 15,
  name: 'DescribeGroups',
  versions: [0, 6],
  omissions: [],
  async handle(call, request) {
    const described = await call.broker.groups.describe(call.context, request.groups)
    const authorizedOperations = request.includeAuthorizedOperations ? GROUP_OPERATIONS : OPERATIONS_NOT_ASKED
    const groups = await inTurns(call.clock, described, (group) => answer(group, call.version, authorizedOperations))
    return { throttleTimeMs: 0, groups }
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    groups: request.groups.map((groupId) => ({ groupId, ...errorOf(error, call.version) })),
  }),
})

function answer(group: GroupDescription, version: number, authorizedOperations: number): Described {
  const missing = group.error?.code === 'GROUP_MISSING' && version < NOT_FOUND_SINCE
  return {
    ...errorOf(missing ? null : group.error, version),
    groupId: group.group,
    groupState: group.state,
    protocolType: group.protocolType,
    protocolData: group.protocol,
    members: group.members.map((member) => ({
      memberId: member.memberId,
      groupInstanceId: member.instanceId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      memberMetadata: member.metadata,
      memberAssignment: member.assignment,
    })),
    authorizedOperations,
  }
}

/** Older versions have no place for the message. */
function errorOf(error: GroupDescription['error'], version: number): Described {
  return version >= NOT_FOUND_SINCE ? errorFields(error) : { errorCode: kafkaCode(error) }
}
