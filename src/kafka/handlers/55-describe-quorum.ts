/**
 * DescribeQuorum (KIP-595, KIP-836, KIP-853): who keeps the log of metadata. This broker alone does; all of the log is committed, since a change is
 * seen only when it is on disk.
 */
import { ZERO_UUID } from '../../core/uuid.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeQuorumRequest, DescribeQuorumResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

const METADATA_TOPIC = '__cluster_metadata'
const NODES_SINCE = 2
const UNKNOWN_TOPIC_OR_PARTITION = 3

export const describeQuorum = api<DescribeQuorumRequest, DescribeQuorumResponse>({
  key: 55,
  name: 'DescribeQuorum',
  versions: [0, 2],
  omissions: ['There is one voter, the broker itself.'],
  handle(call, request) {
    const answer = { ...errorFields(null), topics: [] }
    if (request.topics.length === 0) return answer
    const [topic] = request.topics
    const asksForMetadata =
      request.topics.length === 1 &&
      topic?.topicName === METADATA_TOPIC &&
      topic.partitions.length === 1 &&
      topic.partitions[0]?.partitionIndex === 0
    if (!asksForMetadata) return { ...answer, topics: unknown(request) }
    const { host, port } = call.advertised
    const nodes = [{ nodeId: call.broker.cluster.nodeId, listeners: [{ name: call.context.listener, host, port }] }]
    const topics = [{ topicName: METADATA_TOPIC, partitions: [metadataPartition(call)] }]
    return call.version < NODES_SINCE ? { ...answer, topics } : { ...answer, topics, nodes }
  },
  refuse: (error) => ({ ...errorFields(error), topics: [] }),
})

function metadataPartition({ broker, clock }: KafkaCall) {
  const { nodeId, image } = broker.cluster
  const logEndOffset = image.nextOffset
  const nowMs = clock.nowMs()
  const voter = { replicaId: nodeId, replicaDirectoryId: ZERO_UUID, logEndOffset, lastFetchTimestamp: nowMs, lastCaughtUpTimestamp: nowMs }
  return {
    partitionIndex: 0,
    ...errorFields(null),
    leaderId: nodeId,
    leaderEpoch: broker.admin.metadataEpoch,
    highWatermark: logEndOffset,
    currentVoters: [voter],
    observers: [],
  }
}

/** Kafka answers all of a request that asks for anything else in this way. */
function unknown({ topics }: DescribeQuorumRequest): Input<DescribeQuorumResponse['topics']> {
  return topics.map(({ topicName, partitions }) => ({
    topicName,
    partitions: partitions.map(({ partitionIndex }) => ({
      partitionIndex,
      errorCode: UNKNOWN_TOPIC_OR_PARTITION,
      errorMessage: 'this log is kept by no quorum',
      leaderId: 0,
      leaderEpoch: 0,
      highWatermark: 0,
      currentVoters: [],
      observers: [],
    })),
  }))
}
