/** AlterShareGroupOffsets (KIP-932): where a share group without members goes on; what it knew of these partitions is forgotten. */
import type { AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

export const alterShareGroupOffsets = api<AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse>({
  key: 91,
  name: 'AlterShareGroupOffsets',
  versions: [0, 0],
  omissions: [],
  async handle(call, request) {
    const topics = request.topics.map(({ topicName: topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partitionIndex: partition, startOffset: offset }) => ({ partition, offset })),
    }))
    const altered = await call.broker.share.alterPositions(call.context, request.groupId, topics)
    return {
      throttleTimeMs: 0,
      ...errorFields(null),
      responses: altered.map(({ topic, topicId, partitions }) => ({
        topicName: topic,
        topicId,
        partitions: partitions.map(({ partition, error }) => ({ partitionIndex: partition, ...errorFields(error) })),
      })),
    }
  },
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), responses: [] }),
})
