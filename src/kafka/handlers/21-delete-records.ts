/**
 * DeleteRecords (KIP-107): moves the start of partitions up. Answered when the new start is durable; segments below it go with retention.
 * Offset −1 stands for the high watermark.
 */
import { withDeadline } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { DeleteRecordsRequest, DeleteRecordsResponse } from '../../schema/types.generated.ts'
import { outcome } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Asked = DeleteRecordsRequest['topics'][number]['partitions'][number]

/** Kafka's INVALID_LOW_WATERMARK. */
const NO_WATERMARK = -1

export const deleteRecords = api<DeleteRecordsRequest, DeleteRecordsResponse>({
  key: 21,
  name: 'DeleteRecords',
  versions: [0, 2],
  omissions: [],
  async handle(call, request) {
    const topics = await inTurns(call.clock, request.topics, async ({ name, partitions }) => ({
      name,
      partitions: await inTurns(call.clock, partitions, (asked) => answerFor(call, name, asked, request.timeoutMs)),
    }))
    return { throttleTimeMs: 0, topics }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ name, partitions }) => ({
      name,
      partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, lowWatermark: NO_WATERMARK, errorCode: kafkaCode(error) })),
    })),
  }),
})

async function answerFor(call: KafkaCall, topic: string, { partitionIndex, offset }: Asked, timeoutMs: number) {
  const result = await outcome(() => {
    const deleting = call.broker.deletion.deleteBefore(call.context, topic, partitionIndex, offset)
    return timeoutMs > 0 ? withDeadline(call.clock, timeoutMs, deleting) : deleting
  })
  if (result instanceof MoonMQError) return { partitionIndex, lowWatermark: NO_WATERMARK, errorCode: kafkaCode(result) }
  return { partitionIndex, lowWatermark: result, errorCode: 0 }
}
