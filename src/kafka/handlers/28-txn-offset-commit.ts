/**
 * TxnOffsetCommit: offsets that count from the end of a transaction on, if it is committed (KIP-98). With membership from version 3 on a
 * member that was replaced is fenced (KIP-447); from version 5 on the commit itself makes the group part of the transaction (KIP-890);
 * topics by id from version 6 on.
 */
import type { TransactionSupport } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { TxnOffsetCommitRequest, TxnOffsetCommitResponse } from '../../schema/types.generated.ts'
import { api, fencedCode, type KafkaCall } from '../handler.ts'

type Topic = TxnOffsetCommitRequest['topics'][number]

const FENCED_SINCE = 2
const ABORTABLE_SINCE = 4
const ADDS_SINCE = 5
const TOPIC_IDS_SINCE = 6

export const txnOffsetCommit = api<TxnOffsetCommitRequest, TxnOffsetCommitResponse>({
  key: 28,
  name: 'TxnOffsetCommit',
  versions: [0, 6],
  omissions: [],
  async handle(call, request) {
    const named = request.topics.map((topic) => ({ topic, name: nameOf(call, topic) }))
    const offsets = named.flatMap(({ topic, name }) =>
      name === undefined
        ? []
        : topic.partitions
            .filter(({ partitionIndex }) => isThere(call, name, partitionIndex))
            .map(({ partitionIndex, committedOffset, committedLeaderEpoch, committedMetadata }) => ({
              topic: name,
              partition: partitionIndex,
              value: { offset: committedOffset, leaderEpoch: committedLeaderEpoch, metadata: committedMetadata ?? '' },
            })),
    )
    const { groupId: group, generationIdOrMemberEpoch: generation, memberId, groupInstanceId: instanceId } = request
    const commit = { group, generation, memberId, instanceId, offsets, durable: true }
    // What is not there is said before anybody asks whose transaction it is, as in Kafka.
    const outcomes =
      offsets.length === 0 ? [] : await call.broker.transactions.commitOffsets(call.context, request, commit, supportOf(call.version))
    let at = 0
    return answer(call, named, (topic, name, partition) => {
      if (name === undefined) return new MoonMQError('TOPIC_ID_UNKNOWN', { id: topic.topicId })
      if (!isThere(call, name, partition)) return new MoonMQError('PARTITION_MISSING', { topic: name, partition })
      return outcomes[at++] ?? null
    })
  },
  refuse: (error, request, call) =>
    answer(
      call,
      request.topics.map((topic) => ({ topic, name: topic.name })),
      () => error,
    ),
})

function supportOf(version: number): TransactionSupport {
  if (version >= ADDS_SINCE) return 'add'
  return version >= ABORTABLE_SINCE ? 'abortable' : 'verify'
}

function isThere(call: KafkaCall, topic: string, partition: number): boolean {
  return call.broker.topics.find(topic)?.partitions[partition] !== undefined
}

function nameOf(call: KafkaCall, topic: Topic): string | undefined {
  return call.version >= TOPIC_IDS_SINCE ? call.broker.topics.findById(topic.topicId)?.name : topic.name
}

function answer(
  call: KafkaCall,
  named: readonly { topic: Topic; name: string | undefined }[],
  outcome: (topic: Topic, name: string | undefined, partition: number) => MoonMQError | null,
): Input<TxnOffsetCommitResponse> {
  return {
    throttleTimeMs: 0,
    topics: named.map(({ topic, name }) => ({
      name: topic.name,
      topicId: topic.topicId,
      partitions: topic.partitions.map(({ partitionIndex }) => ({
        partitionIndex,
        errorCode: fencedCode(outcome(topic, name, partitionIndex), call.version, FENCED_SINCE),
      })),
    })),
  }
}
