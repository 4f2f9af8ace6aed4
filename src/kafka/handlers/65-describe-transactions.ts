/** DescribeTransactions: what the coordinator knows of transactional ids (KIP-664). */
import type { TransactionDescription } from '../../broker/ports.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeTransactionsRequest, DescribeTransactionsResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

type State = Input<DescribeTransactionsResponse['transactionStates'][number]>

export const describeTransactions = api<DescribeTransactionsRequest, DescribeTransactionsResponse>({
  key: 65,
  name: 'DescribeTransactions',
  versions: [0, 0],
  omissions: [],
  async handle(call, request) {
    const found = await call.broker.transactions.describe(call.context, request.transactionalIds)
    return { throttleTimeMs: 0, transactionStates: found.map(described) }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    transactionStates: request.transactionalIds.map((transactionalId) => ({ errorCode: kafkaCode(error), transactionalId })),
  }),
})

function described(found: TransactionDescription): State {
  const { transactionalId, state, timeoutMs, startedAtMs, producerId, producerEpoch } = found
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of found.partitions) {
    const partitions = topics.get(topic)
    if (partitions === undefined) topics.set(topic, [partition])
    else partitions.push(partition)
  }
  return {
    errorCode: kafkaCode(found.error),
    transactionalId,
    transactionState: state,
    transactionTimeoutMs: timeoutMs,
    transactionStartTimeMs: startedAtMs,
    producerId,
    producerEpoch,
    topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
  }
}
