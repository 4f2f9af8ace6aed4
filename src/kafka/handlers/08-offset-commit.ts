/**
 * OffsetCommit: stores how far a group has read, by topic name or, from version 10, by id (KIP-848). Answered when the
 * offsets are durable. Commits of members are fenced by member id and generation; a commit outside of membership
 * (generation −1, no member id) is taken while the group has no members.
 */
import type { OffsetAndMetadata } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { OffsetCommitRequest, OffsetCommitResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Topic = OffsetCommitRequest['topics'][number]

const EPOCHS_SINCE = 9
const TOPIC_IDS_SINCE = 10

export const offsetCommit = api<OffsetCommitRequest, OffsetCommitResponse>({
  key: 8,
  name: 'OffsetCommit',
  versions: [2, 10],
  omissions: ['A retention time of its own (versions 2-4) is ignored: the broker setting offsets.retention.minutes holds for all.'],
  async handle(call, request) {
    const named = request.topics.map((topic) => ({ topic, name: nameOf(call, topic) }))
    const offsets = named.flatMap(({ topic, name }) =>
      name === undefined ? [] : topic.partitions.map((asked) => ({ topic: name, partition: asked.partitionIndex, value: offsetOf(asked) })),
    )
    const outcomes = await call.broker.groups.commit(call.context, {
      group: request.groupId,
      generation: request.generationIdOrMemberEpoch,
      memberId: request.memberId,
      instanceId: request.groupInstanceId,
      offsets,
      understandsEpochs: call.version >= EPOCHS_SINCE,
      durable: true,
    })
    let at = 0
    return answer(named, (topic, name) =>
      name === undefined ? new MoonMQError('TOPIC_ID_UNKNOWN', { id: topic.topicId }) : (outcomes[at++] ?? null),
    )
  },
  refuse: (error, request) =>
    answer(
      request.topics.map((topic) => ({ topic, name: topic.name })),
      () => error,
    ),
})

function nameOf(call: KafkaCall, topic: Topic): string | undefined {
  return call.version >= TOPIC_IDS_SINCE ? call.broker.topics.findById(topic.topicId)?.name : topic.name
}

function offsetOf(asked: Topic['partitions'][number]): OffsetAndMetadata {
  return { offset: asked.committedOffset, leaderEpoch: asked.committedLeaderEpoch, metadata: asked.committedMetadata ?? '' }
}

/** `outcome` is asked once a partition, in the order of the request. */
function answer(
  named: readonly { topic: Topic; name: string | undefined }[],
  outcome: (topic: Topic, name: string | undefined) => MoonMQError | null,
): Input<OffsetCommitResponse> {
  return {
    throttleTimeMs: 0,
    topics: named.map(({ topic, name }) => ({
      name: topic.name,
      topicId: topic.topicId,
      partitions: topic.partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode: kafkaCode(outcome(topic, name)) })),
    })),
  }
}
