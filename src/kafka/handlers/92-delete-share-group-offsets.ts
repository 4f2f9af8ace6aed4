/** DeleteShareGroupOffsets (KIP-932): a share group without members forgets where it stands in topics. */
import { ZERO_UUID } from '../../core/uuid.ts'
import type { DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

export const deleteShareGroupOffsets = api<DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse>({
  key: 92,
  name: 'DeleteShareGroupOffsets',
  versions: [0, 0],
  omissions: [],
  async handle(call, request) {
    const names = request.topics.map(({ topicName }) => topicName)
    const errors = await call.broker.share.deletePositions(call.context, request.groupId, names)
    const responses = names.map((topicName, at) => ({
      topicName,
      topicId: call.broker.topics.find(topicName)?.id ?? ZERO_UUID,
      ...errorFields(errors[at] ?? null),
    }))
    return { throttleTimeMs: 0, ...errorFields(null), responses }
  },
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), responses: [] }),
})
