import type { ConsumerHeartbeatAnswer } from '../broker/ports.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Input } from '../schema/compile.ts'
import type { ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse } from '../schema/types.generated.ts'
import { errorFields } from './cluster-view.ts'

/** Members of groups whose broker assigns (KIP-848, KIP-932) are answered alike. */
type HeartbeatResponse = Input<ConsumerGroupHeartbeatResponse> & Input<ShareGroupHeartbeatResponse>

export function heartbeatAnswer({ memberId, memberEpoch, heartbeatIntervalMs, assignment }: ConsumerHeartbeatAnswer): HeartbeatResponse {
  return {
    throttleTimeMs: 0,
    ...errorFields(null),
    memberId,
    memberEpoch,
    heartbeatIntervalMs,
    assignment: assignment === null ? null : { topicPartitions: assignment },
  }
}

export function heartbeatRefused(error: MoonMQError): HeartbeatResponse {
  return { throttleTimeMs: 0, ...errorFields(error), memberId: null, memberEpoch: 0, heartbeatIntervalMs: 0, assignment: null }
}
