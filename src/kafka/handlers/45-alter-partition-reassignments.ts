/**
 * AlterPartitionReassignments (KIP-455): moves partitions to other brokers. There is one broker: an assignment to it is done at once, any
 * other one is refused, and there is nothing to cancel.
 */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

const NO_REASSIGNMENT_IN_PROGRESS = 85

export const alterPartitionReassignments = api<AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse>({
  key: 45,
  name: 'AlterPartitionReassignments',
  versions: [0, 1],
  omissions: ['There is one broker: replicas on another one are INVALID_REPLICA_ASSIGNMENT.'],
  async handle(call, request) {
    const { timeoutMs, allowReplicationFactorChange } = request
    if (timeoutMs <= 0) throw new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs })
    const responses = await inTurns(call.clock, request.topics, async ({ name, partitions }) => ({
      name,
      partitions: await inTurns(call.clock, partitions, ({ partitionIndex, replicas }) => ({
        partitionIndex,
        ...outcomeOf(call, name, partitionIndex, replicas),
      })),
    }))
    return { throttleTimeMs: 0, allowReplicationFactorChange, ...errorFields(null), responses }
  },
  refuse: (error, request) => ({ throttleTimeMs: 0, ...errorFields(error), responses: responsesFor(request, () => errorFields(error)) }),
})

type Asked = AlterPartitionReassignmentsRequest['topics'][number]['partitions'][number]

function responsesFor(
  { topics }: AlterPartitionReassignmentsRequest,
  resultOf: (topic: string, asked: Asked) => { errorCode: number; errorMessage: string | null },
) {
  return topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map((asked) => ({ partitionIndex: asked.partitionIndex, ...resultOf(name, asked) })),
  }))
}

function outcomeOf({ broker }: KafkaCall, topic: string, partition: number, replicas: readonly number[] | null) {
  if (broker.topics.find(topic)?.partitions[partition] === undefined) {
    return errorFields(new MoonMQError('PARTITION_MISSING', { topic, partition }))
  }
  if (replicas === null) return { errorCode: NO_REASSIGNMENT_IN_PROGRESS, errorMessage: null }
  const { nodeId } = broker.cluster
  if (replicas.length === 1 && replicas[0] === nodeId) return errorFields(null)
  return errorFields(
    new MoonMQError('REPLICA_ASSIGNMENT_INVALID', { reason: `replicas on "${replicas.join(', ')}"; the only broker is ${nodeId}` }),
  )
}
