/**
 * OffsetFetch: what groups have committed; one group up to version 7, several from 8 (KIP-709), topics by id from 10. A null list of topics
 * asks for all of them, an empty one for none (trap: null is not empty). With `requireStable` (KIP-447) an offset that an open transaction
 * commits anew is answered UNSTABLE_OFFSET_COMMIT, and the client asks again.
 */
import type { CommittedOffset } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { NO_LEADER_EPOCH, NO_OFFSET } from '../../core/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { OffsetFetchRequest, OffsetFetchResponse } from '../../schema/types.generated.ts'
import { outcome } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Group = OffsetFetchRequest['groups'][number]
type GroupAnswer = Input<OffsetFetchResponse['groups'][number]>
type PartitionAnswer = Input<OffsetFetchResponse['groups'][number]['topics'][number]['partitions'][number]>
type TopicAnswer = { topic: string; partitions: PartitionAnswer[] }
type AskedTopics = OffsetFetchRequest['topics']

const GROUP_ERRORS_SINCE = 2
const GROUPS_SINCE = 8
const TOPIC_IDS_SINCE = 10
/** Offsets that are put into an answer before others get their turn. */
const PER_TURN = 5000

export const offsetFetch = api<OffsetFetchRequest, OffsetFetchResponse>({
  key: 9,
  name: 'OffsetFetch',
  versions: [1, 10],
  omissions: [],
  async handle(call, request) {
    if (call.version < GROUPS_SINCE) return await answerOne(call, request)
    const groups = await inTurns(call.clock, request.groups, (group) => answerGroup(call, group, request.requireStable))
    return { throttleTimeMs: 0, groups }
  },
  refuse: (error, request, call) =>
    call.version < GROUPS_SINCE
      ? refuseOne(call.version, request.topics, error)
      : { throttleTimeMs: 0, groups: request.groups.map(({ groupId }) => ({ groupId, topics: [], errorCode: kafkaCode(error) })) },
})

async function answerOne(call: KafkaCall, request: OffsetFetchRequest): Promise<Input<OffsetFetchResponse>> {
  const { requireStable } = request
  const topics = request.topics?.map(({ name, partitionIndexes }) => ({ topic: name, partitions: partitionIndexes })) ?? null
  const found = await outcome(() => call.broker.groups.committed(call.context, { group: request.groupId, topics, requireStable }))
  if (found instanceof MoonMQError) return refuseOne(call.version, request.topics, found)
  return {
    throttleTimeMs: 0,
    topics: (await byTopic(call, request.groupId, found)).map(({ topic, partitions }) => ({ name: topic, partitions })),
    errorCode: 0,
  }
}

/** Version 1 has no place for the error of the group but its partitions. */
function refuseOne(version: number, topics: AskedTopics, error: MoonMQError): Input<OffsetFetchResponse> {
  const refused = version >= GROUP_ERRORS_SINCE ? [] : (topics ?? [])
  return {
    throttleTimeMs: 0,
    topics: refused.map(({ name, partitionIndexes }) => ({
      name,
      partitions: partitionIndexes.map((partition) => nothing(partition, error)),
    })),
    errorCode: kafkaCode(error),
  }
}

async function answerGroup(call: KafkaCall, group: Group, requireStable: boolean): Promise<GroupAnswer> {
  const { groupId } = group
  const byId = call.version >= TOPIC_IDS_SINCE
  const { topics } = call.broker
  const named = group.topics?.map((asked) => ({ asked, topic: byId ? topics.findById(asked.topicId)?.name : asked.name })) ?? null
  const known = named?.flatMap(({ asked, topic }) => (topic === undefined ? [] : [{ topic, partitions: asked.partitionIndexes }])) ?? null
  const found = await outcome(() =>
    call.broker.groups.committed(call.context, {
      group: groupId,
      topics: known,
      memberEpoch: group.memberEpoch,
      memberId: group.memberId,
      requireStable,
    }),
  )
  if (found instanceof MoonMQError) return { groupId, topics: [], errorCode: kafkaCode(found) }
  const answers = (await byTopic(call, groupId, found)).flatMap(({ topic, partitions }) => {
    const topicId = topics.find(topic)?.id
    // Every topic of a group was there when it committed; one without an id is gone since.
    return byId && topicId === undefined ? [] : [{ name: topic, ...(topicId === undefined ? {} : { topicId }), partitions }]
  })
  for (const { asked, topic } of named ?? []) {
    if (topic !== undefined) continue
    const error = new MoonMQError('TOPIC_ID_UNKNOWN', { id: asked.topicId })
    const partitions = asked.partitionIndexes.map((partition) => nothing(partition, error))
    answers.push({ name: '', topicId: asked.topicId, partitions })
  }
  return { groupId, topics: answers, errorCode: 0 }
}

/** Neighbours of one topic together: the broker keeps the order of the question. */
async function byTopic(call: KafkaCall, group: string, offsets: readonly CommittedOffset[]): Promise<TopicAnswer[]> {
  const topics: TopicAnswer[] = []
  for (const [at, { topic, partition, value, unstable }] of offsets.entries()) {
    if (at > 0 && at % PER_TURN === 0) await new Promise<void>((resolve) => call.clock.defer(resolve))
    let last = topics.at(-1)
    if (last?.topic !== topic) {
      last = { topic, partitions: [] }
      topics.push(last)
    }
    last.partitions.push(
      value === null
        ? nothing(partition, unstable === true ? new MoonMQError('UNSTABLE_OFFSET_COMMIT', { group }) : null)
        : {
            partitionIndex: partition,
            committedOffset: value.offset,
            committedLeaderEpoch: value.leaderEpoch,
            metadata: value.metadata,
            errorCode: 0,
          },
    )
  }
  return topics
}

function nothing(partitionIndex: number, error: MoonMQError | null): PartitionAnswer {
  return { partitionIndex, committedOffset: NO_OFFSET, committedLeaderEpoch: NO_LEADER_EPOCH, metadata: '', errorCode: kafkaCode(error) }
}
