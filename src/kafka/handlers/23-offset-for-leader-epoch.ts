/** OffsetForLeaderEpoch: where an epoch of a partition ended (KIP-101, KIP-320), so that a client notices a log that was cut. */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Asked = OffsetForLeaderEpochRequest['topics'][number]['partitions'][number]
type PartitionAnswer = Input<OffsetForLeaderEpochResponse['topics'][number]['partitions'][number]>

export const offsetForLeaderEpoch = api<OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse>({
  key: 23,
  name: 'OffsetForLeaderEpoch',
  versions: [2, 4],
  omissions: [],
  async handle(call, request) {
    const topics = await inTurns(call.clock, request.topics, async ({ topic, partitions }) => ({
      topic,
      partitions: await inTurns(call.clock, partitions, (asked) => answerFor(call, topic, asked)),
    }))
    return { throttleTimeMs: 0, topics }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partition }) => failed(partition, error)),
    })),
  }),
})

function answerFor(call: KafkaCall, topic: string, asked: Asked): PartitionAnswer {
  const { partition, currentLeaderEpoch, leaderEpoch } = asked
  try {
    const end = call.broker.offsets.endOfEpoch(call.context, topic, partition, currentLeaderEpoch, leaderEpoch)
    return { errorCode: 0, partition, leaderEpoch: end.leaderEpoch, endOffset: end.endOffset }
  } catch (error) {
    if (error instanceof MoonMQError) return failed(partition, error)
    throw error
  }
}

function failed(partition: number, error: MoonMQError): PartitionAnswer {
  return { errorCode: kafkaCode(error), partition, leaderEpoch: -1, endOffset: -1 }
}
