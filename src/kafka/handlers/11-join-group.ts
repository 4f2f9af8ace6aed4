/**
 * JoinGroup: enters the classic group's next generation (KIP-62); waits until all members have joined or the rebalance timeout is over.
 * A member without an id is given one first (version 4, KIP-394); static members keep their place by instance id
 * (version 5, KIP-345); an unchanged leader may be told to skip the assignment (version 9, KIP-814).
 */
import type { JoinedGroup } from '../../broker/ports.ts'
import type { Input } from '../../schema/compile.ts'
import type { JoinGroupRequest, JoinGroupResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

const KNOWN_IDS_SINCE = 4
const NULL_PROTOCOL_SINCE = 7
const SKIPPING_SINCE = 9

export const joinGroup = api<JoinGroupRequest, JoinGroupResponse>({
  key: 11,
  name: 'JoinGroup',
  versions: [0, 9],
  omissions: [],
  async handle(call, request) {
    const joined = await call.broker.groups.join(call.context, {
      group: request.groupId,
      memberId: request.memberId,
      instanceId: request.groupInstanceId,
      protocolType: request.protocolType,
      protocols: request.protocols,
      sessionTimeoutMs: request.sessionTimeoutMs,
      rebalanceTimeoutMs: request.rebalanceTimeoutMs,
      requireKnownMemberId: call.version >= KNOWN_IDS_SINCE,
      supportsSkippingAssignment: call.version >= SKIPPING_SINCE,
      reason: request.reason,
    })
    return answer(joined, call.version)
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    errorCode: kafkaCode(error),
    generationId: -1,
    protocolName: call.version >= NULL_PROTOCOL_SINCE ? null : '',
    leader: '',
    memberId: request.memberId,
    members: [],
  }),
})

function answer(joined: JoinedGroup, version: number): Input<JoinGroupResponse> {
  return {
    throttleTimeMs: 0,
    errorCode: kafkaCode(joined.error),
    generationId: joined.generation,
    protocolType: joined.protocolType,
    protocolName: joined.protocol ?? (version >= NULL_PROTOCOL_SINCE ? null : ''),
    leader: joined.leader,
    // Only ever set for a member that said, by the version of its request, that it understands it.
    ...(version >= SKIPPING_SINCE ? { skipAssignment: joined.skipAssignment } : {}),
    memberId: joined.memberId,
    members: joined.members.map(({ memberId, instanceId, metadata }) => ({ memberId, groupInstanceId: instanceId, metadata })),
  }
}
