/** DescribeShareGroupOffsets (KIP-932, KIP-1226): where share groups stand, and from version 1 how many records are left. */
import type { SharePosition } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse } from '../../schema/types.generated.ts'
import { errorFields, outcome } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = DescribeShareGroupOffsetsRequest['groups'][number]
type GroupAnswer = Input<DescribeShareGroupOffsetsResponse['groups'][number]>

export const describeShareGroupOffsets = api<DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse>({
  key: 90,
  name: 'DescribeShareGroupOffsets',
  versions: [0, 1],
  omissions: [],
  async handle(call, request) {
    return { throttleTimeMs: 0, groups: await inTurns(call.clock, request.groups, (asked) => describe(call, asked)) }
  },
  refuse: (error, request) => ({ throttleTimeMs: 0, groups: request.groups.map((asked) => failed(asked, error)) }),
})

async function describe(call: KafkaCall, asked: Asked): Promise<GroupAnswer> {
  const topics = asked.topics === null ? null : asked.topics.map(({ topicName: topic, partitions }) => ({ topic, partitions }))
  const found = await outcome(() => call.broker.share.positions(call.context, asked.groupId, topics))
  if (found instanceof MoonMQError) return failed(asked, found)
  return {
    groupId: asked.groupId,
    topics: found.map(({ topic, topicId, partitions }) => ({ topicName: topic, topicId, partitions: partitions.map(positionOf) })),
    ...errorFields(null),
  }
}

function positionOf({ partition, error, startOffset, lag }: SharePosition) {
  return { partitionIndex: partition, startOffset, leaderEpoch: 0, lag, ...errorFields(error) }
}

function failed({ groupId }: Asked, error: MoonMQError): GroupAnswer {
  return { groupId, topics: [], ...errorFields(error) }
}
