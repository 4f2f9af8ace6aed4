/**
 * AddPartitionsToTxn: partitions become part of a producer's transaction before it writes to them (KIP-98). From version 4 on several
 * transactions at once, and `verifyOnly` asks whether partitions are part already (KIP-890). All partitions of a transaction are added, or
 * none.
 */
import type { TransactionOwner } from '../../broker/ports.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { TopicPartition } from '../../core/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { AddPartitionsToTxnRequest, AddPartitionsToTxnResponse } from '../../schema/types.generated.ts'
import { api, fencedCode, type KafkaCall, kafkaCode } from '../handler.ts'

type Topics = AddPartitionsToTxnRequest['v3AndBelowTopics']
type TopicResults = Input<AddPartitionsToTxnResponse['resultsByTopicV3AndBelow']>
type Outcomes = readonly (MoonMQError | null)[]

const BATCHED_SINCE = 4
const FENCED_SINCE = 2

export const addPartitionsToTxn = api<AddPartitionsToTxnRequest, AddPartitionsToTxnResponse>({
  key: 24,
  name: 'AddPartitionsToTxn',
  versions: [0, 5],
  omissions: [],
  async handle(call, request) {
    if (call.version < BATCHED_SINCE) {
      const owner = ownerBefore(request)
      const partitions = partitionsOf(request.v3AndBelowTopics)
      const outcomes = (await missingOf(call, partitions)) ?? (await added(call, owner, partitions))
      return { throttleTimeMs: 0, resultsByTopicV3AndBelow: results(call.version, request.v3AndBelowTopics, outcomes) }
    }
    const resultsByTransaction = await inTurns(call.clock, request.transactions, async (owner) => {
      const { transactionalId, topics, verifyOnly } = owner
      const partitions = partitionsOf(topics)
      const outcomes =
        (await missingOf(call, partitions)) ??
        (verifyOnly ? call.broker.transactions.verifyPartitions(owner, partitions) : await added(call, owner, partitions))
      return { transactionalId, topicResults: results(call.version, topics, outcomes) }
    })
    return { throttleTimeMs: 0, errorCode: 0, resultsByTransaction }
  },
  refuse: (error, request, call) =>
    call.version < BATCHED_SINCE
      ? {
          throttleTimeMs: 0,
          resultsByTopicV3AndBelow: results(call.version, request.v3AndBelowTopics, all(request.v3AndBelowTopics, error)),
        }
      : { throttleTimeMs: 0, errorCode: kafkaCode(error), resultsByTransaction: [] },
})

function ownerBefore(request: AddPartitionsToTxnRequest): TransactionOwner {
  const { v3AndBelowTransactionalId, v3AndBelowProducerId, v3AndBelowProducerEpoch } = request
  return { transactionalId: v3AndBelowTransactionalId, producerId: v3AndBelowProducerId, producerEpoch: v3AndBelowProducerEpoch }
}

function partitionsOf(topics: Topics): TopicPartition[] {
  return topics.flatMap(({ name, partitions }) => partitions.map((partition) => ({ topic: name, partition })))
}

function all(topics: Topics, error: MoonMQError): MoonMQError[] {
  return partitionsOf(topics).map(() => error)
}

/** One that is not there keeps the others from being looked at. Null when all are there. */
async function missingOf(call: KafkaCall, partitions: readonly TopicPartition[]): Promise<Outcomes | null> {
  const missing = await inTurns(call.clock, partitions, ({ topic, partition }) =>
    call.broker.topics.find(topic)?.partitions[partition] === undefined ? new MoonMQError('PARTITION_MISSING', { topic, partition }) : null,
  )
  if (missing.every((error) => error === null)) return null
  const notTried = new MoonMQError('OPERATION_NOT_ATTEMPTED')
  return missing.map((error) => error ?? notTried)
}

async function added(call: KafkaCall, owner: TransactionOwner, partitions: readonly TopicPartition[]): Promise<Outcomes> {
  try {
    await call.broker.transactions.addPartitions(call.context, owner, partitions)
    return partitions.map(() => null)
  } catch (error) {
    const refusal = asMoonMQError(error)
    if (refusal.code === 'INTERNAL') throw refusal
    return partitions.map(() => refusal)
  }
}

function results(version: number, topics: Topics, outcomes: Outcomes): TopicResults {
  let at = 0
  return topics.map(({ name, partitions }) => ({
    name,
    resultsByPartition: partitions.map((partitionIndex) => ({
      partitionIndex,
      partitionErrorCode: fencedCode(outcomes[at++] ?? null, version, FENCED_SINCE),
    })),
  }))
}
