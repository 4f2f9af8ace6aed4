/**
 * ShareAcknowledge (KIP-932, KIP-1222): what a member of a share group says of records that it was given: accepted, to be released, rejected, or
 * not ready yet. Answered when it is durable; what is rejected is on its way to the dead-letter topic then.
 */
import { MoonMQError } from '../../core/errors.ts'
import type { ShareAcknowledgeRequest, ShareAcknowledgeResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'
import { acksOf, byTopic } from '../share-acks.ts'

export const shareAcknowledge = api<ShareAcknowledgeRequest, ShareAcknowledgeResponse>({
  key: 79,
  name: 'ShareAcknowledge',
  versions: [1, 2],
  omissions: [],
  async handle(call, request) {
    const { groupId: group, memberId, shareSessionEpoch: sessionEpoch, isRenewAck: isRenewal } = request
    if (group === null || group === '' || memberId === null || memberId === '') {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'the group or the member of a share session is missing' })
    }
    const partitions = acksOf(request.topics, call.version)
    const { lockMs, errors } = await call.broker.share.acknowledge(call.context, { group, memberId, sessionEpoch, isRenewal, partitions })
    return {
      throttleTimeMs: 0,
      ...errorFields(null),
      acquisitionLockTimeoutMs: lockMs,
      responses: byTopic(partitions, ({ partition }, at) => ({ partitionIndex: partition, ...errorFields(errors[at] ?? null) })),
      nodeEndpoints: [],
    }
  },
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), acquisitionLockTimeoutMs: 0, responses: [], nodeEndpoints: [] }),
})
