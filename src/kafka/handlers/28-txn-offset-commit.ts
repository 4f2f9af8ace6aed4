/**
 * TxnOffsetCommit: offsets that count from the end of a transaction on, if it is committed (KIP-98). With membership from version 3 on a
 * member that was replaced is fenced (KIP-447); from version 5 on the commit itself makes the group part of the transaction (KIP-890);
 * topics by id from version 6 on.
 */
import type { CommitOffsets, OffsetAndMetadata, TransactionSupport } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { TxnOffsetCommitRequest, TxnOffsetCommitResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Topic = TxnOffsetCommitRequest['topics'][number]

const ABORTABLE_SINCE = 4
const ADDS_SINCE = 5
const TOPIC_IDS_SINCE = 6
const INVALID_PRODUCER_EPOCH = 47

export const txnOffsetCommit = api<TxnOffsetCommitRequest, TxnOffsetCommitResponse>({
  key: 28,
  name: 'TxnOffsetCommit',
  versions: [0, 6],
  omissions: [],
  async handle(call, request) {
    const named = request.topics.map((topic) => ({ topic, name: nameOf(call, topic) }))
    // In the order of the request, null for what was stored or tried: topics may come and go until the answer.
    const refusals: (MoonMQError | null)[] = []
    const offsets: CommitOffsets['offsets'][number][] = []
    await inTurns(call.clock, named, ({ topic, name }) => {
      for (const asked of topic.partitions) {
        const refusal = missing(call, topic, name, asked.partitionIndex)
        refusals.push(refusal)
        if (refusal === null && name !== undefined)
          offsets.push({ topic: name, partition: asked.partitionIndex, value: committedOf(asked) })
      }
    })
    const { groupId: group, generationIdOrMemberEpoch: generation, memberId, groupInstanceId: instanceId } = request
    const commit = { group, generation, memberId, instanceId, offsets, durable: true }
    // What is not there is said before anybody asks whose transaction it is, as in Kafka.
    const outcomes =
      offsets.length === 0 ? [] : await call.broker.transactions.commitOffsets(call.context, request, commit, supportOf(call.version))
    let asked = 0
    let tried = 0
    return answer(request, () => refusals[asked++] ?? outcomes[tried++] ?? null)
  },
  refuse: (error, request) => answer(request, () => error),
})

function supportOf(version: number): TransactionSupport {
  if (version >= ADDS_SINCE) return 'add'
  return version >= ABORTABLE_SINCE ? 'abortable' : 'verify'
}

function missing(call: KafkaCall, { topicId }: Topic, name: string | undefined, partition: number): MoonMQError | null {
  if (name === undefined) return new MoonMQError('TOPIC_ID_UNKNOWN', { id: topicId })
  if (call.broker.topics.find(name)?.partitions[partition] !== undefined) return null
  return new MoonMQError('PARTITION_MISSING', { topic: name, partition })
}

function committedOf({ committedOffset, committedLeaderEpoch, committedMetadata }: Topic['partitions'][number]): OffsetAndMetadata {
  return { offset: committedOffset, leaderEpoch: committedLeaderEpoch, metadata: committedMetadata ?? '' }
}

function nameOf(call: KafkaCall, topic: Topic): string | undefined {
  return call.version >= TOPIC_IDS_SINCE ? call.broker.topics.findById(topic.topicId)?.name : topic.name
}

/** `outcome` is asked once a partition, in the order of the request. */
function answer(request: TxnOffsetCommitRequest, outcome: () => MoonMQError | null): Input<TxnOffsetCommitResponse> {
  return {
    throttleTimeMs: 0,
    topics: request.topics.map(({ name, topicId, partitions }) => ({
      name,
      topicId,
      partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode: codeOf(outcome()) })),
    })),
  }
}

/** As for an append, and in every version, a producer that was fenced hears of its epoch. */
function codeOf(error: MoonMQError | null): number {
  return error?.code === 'PRODUCER_FENCED' ? INVALID_PRODUCER_EPOCH : kafkaCode(error)
}
