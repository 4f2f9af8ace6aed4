/** OffsetDelete: takes single offsets of a group away, unless a member subscribes to the topic (KIP-496). Answered when it is durable. */
import type { OffsetDeleteRequest, OffsetDeleteResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

export const offsetDelete = api<OffsetDeleteRequest, OffsetDeleteResponse>({
  key: 47,
  name: 'OffsetDelete',
  versions: [0, 0],
  omissions: [],
  async handle(call, request) {
    const offsets = request.topics.flatMap(({ name, partitions }) =>
      partitions.map(({ partitionIndex }) => ({ topic: name, partition: partitionIndex })),
    )
    const outcomes = await call.broker.groups.deleteOffsets(call.context, { group: request.groupId, offsets })
    let at = 0
    const topics = request.topics.map(({ name, partitions }) => ({
      name,
      partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode: kafkaCode(outcomes[at++] ?? null) })),
    }))
    return { errorCode: 0, throttleTimeMs: 0, topics }
  },
  refuse: (error) => ({ errorCode: kafkaCode(error), throttleTimeMs: 0, topics: [] }),
})
