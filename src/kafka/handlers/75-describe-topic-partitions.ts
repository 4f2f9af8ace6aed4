/**
 * DescribeTopicPartitions: partitions of topics in pages (KIP-966). Topics come sorted by name; where the limit ends a page, the
 * cursor names the first partition that is left, and a client asks again from there. No topics = all of them.
 */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import type { TopicImage } from '../../metadata/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse } from '../../schema/types.generated.ts'
import { partitionAnswer, TOPIC_OPERATIONS } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type TopicAnswer = Input<DescribeTopicPartitionsResponse['topics'][number]>

/** Kafka's `max.request.partition.size.limit`. */
const MAX_PARTITIONS_PER_ANSWER = 2000

export const describeTopicPartitions = api<DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse>({
  key: 75,
  name: 'DescribeTopicPartitions',
  versions: [0, 0],
  omissions: ['Eligible leader replicas are not kept: their lists are empty.'],
  async handle(call, request) {
    const { cursor } = request
    if (cursor !== null && cursor.partitionIndex < 0) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `the cursor points to partition ${cursor.partitionIndex}` })
    }
    if (cursor !== null && request.topics.length > 0 && !request.topics.some(({ name }) => name === cursor.topicName)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `the cursor is at topic "${cursor.topicName}", which is not asked for` })
    }
    let left = Math.max(1, Math.min(request.responsePartitionLimit, MAX_PARTITIONS_PER_ANSWER))
    const topics: TopicAnswer[] = []
    let nextCursor: { topicName: string; partitionIndex: number } | null = null
    await inTurns(call.clock, askedNames(call, request), (name) => {
      if (nextCursor !== null) return
      const topic = call.broker.topics.find(name)
      if (topic === undefined) {
        topics.push(missing(name))
        return
      }
      const from = cursor?.topicName === name ? cursor.partitionIndex : 0
      const page = topic.partitions.slice(from, from + left)
      if (left > 0) topics.push(answerFor(call, topic, page))
      const next = from + page.length
      if (left === 0 || next < topic.partitions.length) nextCursor = { topicName: name, partitionIndex: next }
      left -= page.length
    })
    return { throttleTimeMs: 0, topics, nextCursor }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ name }) => ({ errorCode: kafkaCode(error), name, topicId: ZERO_UUID, partitions: [] })),
  }),
})

function askedNames(call: KafkaCall, { topics, cursor }: DescribeTopicPartitionsRequest): readonly string[] {
  const all = topics.length === 0 ? call.broker.topics.list().map(({ name }) => name) : topics.map(({ name }) => name)
  const sorted = [...new Set(all)].sort()
  return cursor === null ? sorted : sorted.filter((name) => name >= cursor.topicName)
}

function answerFor(call: KafkaCall, topic: TopicImage, page: TopicImage['partitions']): TopicAnswer {
  const offline = call.broker.topics.offline(topic)
  return {
    errorCode: 0,
    name: topic.name,
    topicId: topic.id,
    isInternal: topic.internal,
    partitions: page.map((image) => ({
      ...partitionAnswer(image, offline.get(image.partition)),
      eligibleLeaderReplicas: [],
      lastKnownElr: [],
    })),
    topicAuthorizedOperations: TOPIC_OPERATIONS,
  }
}

function missing(name: string): TopicAnswer {
  return { errorCode: kafkaCode(new MoonMQError('TOPIC_MISSING', { topic: name })), name, topicId: ZERO_UUID, partitions: [] }
}
