/**
 * ElectLeaders (KIP-183, KIP-460): the one replica of a partition leads it, so no election is needed, be it for the preferred replica or
 * an unclean one. Null partitions = all that need one, which is none.
 */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { ElectLeadersRequest, ElectLeadersResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

const INVALID_REQUEST = 42
const ELECTION_NOT_NEEDED = 84
/** Preferred and unclean. */
const KNOWN_TYPES: ReadonlySet<number> = new Set([0, 1])

/** Before it, only the partitions have errors, and the type is that of the preferred replica. */
const TOP_LEVEL_ERROR_SINCE = 1

type TopicResults = Input<ElectLeadersResponse['replicaElectionResults']>

export const electLeaders = api<ElectLeadersRequest, ElectLeadersResponse>({
  key: 43,
  name: 'ElectLeaders',
  versions: [0, 2],
  omissions: ['There is one replica of each partition: ELECTION_NOT_NEEDED.'],
  async handle(call, request) {
    const { electionType, topicPartitions } = request
    // Kafka takes an empty list for nothing to do before it looks at the type.
    if (topicPartitions?.length === 0) return { throttleTimeMs: 0, errorCode: 0, replicaElectionResults: [] }
    if (request.timeoutMs <= 0) throw new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs: request.timeoutMs })
    if (!KNOWN_TYPES.has(electionType)) {
      const errorMessage = `election type ${electionType} is not known`
      const replicaElectionResults = resultsFor(request, () => ({ errorCode: INVALID_REQUEST, errorMessage }))
      return { throttleTimeMs: 0, errorCode: INVALID_REQUEST, replicaElectionResults }
    }
    return {
      throttleTimeMs: 0,
      errorCode: 0,
      replicaElectionResults: await inTurns(call.clock, request.topicPartitions ?? [], async ({ topic, partitions }) => ({
        topic,
        partitionResult: await inTurns(call.clock, partitions, (partition) => ({
          partitionId: partition,
          ...elected(call, topic, partition),
        })),
      })),
    }
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    ...(call.version < TOP_LEVEL_ERROR_SINCE ? {} : { errorCode: kafkaCode(error) }),
    replicaElectionResults: resultsFor(request, () => ({ errorCode: kafkaCode(error), errorMessage: error.message })),
  }),
})

function elected({ broker }: KafkaCall, topic: string, partition: number) {
  if (broker.topics.find(topic)?.partitions[partition] === undefined) {
    const error = new MoonMQError('PARTITION_MISSING', { topic, partition })
    return { errorCode: kafkaCode(error), errorMessage: error.message }
  }
  return { errorCode: ELECTION_NOT_NEEDED, errorMessage: 'the only replica leads' }
}

function resultsFor(
  { topicPartitions }: ElectLeadersRequest,
  resultOf: (topic: string, partition: number) => { errorCode: number; errorMessage: string },
): TopicResults {
  return (topicPartitions ?? []).map(({ topic, partitions }) => ({
    topic,
    partitionResult: partitions.map((partition) => ({ partitionId: partition, ...resultOf(topic, partition) })),
  }))
}
