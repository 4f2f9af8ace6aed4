/** DescribeProducers: the producers that a partition knows of, and where their open transactions begin (KIP-664). */

import type { ProducerDescription } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { checkTopicName } from '../../metadata/names.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeProducersRequest, DescribeProducersResponse } from '../../schema/types.generated.ts'
import { errorFields, outcome } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type PartitionAnswer = Input<DescribeProducersResponse['topics'][number]['partitions'][number]>

export const describeProducers = api<DescribeProducersRequest, DescribeProducersResponse>({
  key: 61,
  name: 'DescribeProducers',
  versions: [0, 0],
  omissions: [],
  async handle(call, request) {
    const topics = await inTurns(call.clock, request.topics, async ({ name, partitionIndexes }) => ({
      name,
      partitions: await inTurns(call.clock, partitionIndexes, (partition) => describe(call, name, partition)),
    }))
    return { throttleTimeMs: 0, topics }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ name, partitionIndexes }) => ({
      name,
      partitions: partitionIndexes.map((partitionIndex) => ({ partitionIndex, ...errorFields(error), activeProducers: [] })),
    })),
  }),
})

async function describe(call: KafkaCall, topic: string, partitionIndex: number): Promise<PartitionAnswer> {
  const found = await outcome(async () => {
    checkTopicName(topic)
    return call.broker.offsets.producers(call.context, topic, partitionIndex)
  })
  if (found instanceof MoonMQError) return { partitionIndex, ...errorFields(found), activeProducers: [] }
  return { partitionIndex, ...errorFields(null), activeProducers: found.map(described) }
}

function described(producer: ProducerDescription) {
  return {
    producerId: producer.producerId,
    producerEpoch: producer.producerEpoch,
    lastSequence: producer.batches.at(-1)?.lastSequence ?? -1,
    lastTimestamp: producer.lastTimestampMs,
    coordinatorEpoch: producer.coordinatorEpoch,
    currentTxnStartOffset: producer.currentTxnFirstOffset,
  }
}
