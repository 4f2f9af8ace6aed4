/** ListTransactions: transactional ids by state, producer id, age and pattern (KIP-664, KIP-994, KIP-1152). */
import { TXN_STATES } from '../../broker/ports.ts'
import type { ListTransactionsRequest, ListTransactionsResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

/** What a client may filter by: all that Kafka has words for. */
const STATES: ReadonlySet<string> = new Set(TXN_STATES)

export const listTransactions = api<ListTransactionsRequest, ListTransactionsResponse>({
  key: 66,
  name: 'ListTransactions',
  versions: [0, 2],
  omissions: [],
  async handle(call, request) {
    const unknownStateFilters = request.stateFilters.filter((state) => !STATES.has(state))
    const isImpossible = unknownStateFilters.length > 0 && unknownStateFilters.length === request.stateFilters.length
    const found = await call.broker.transactions.list(call.context, {
      states: request.stateFilters,
      producerIds: request.producerIdFilters,
      minDurationMs: request.durationFilter,
      pattern: request.transactionalIdPattern,
    })
    const transactionStates = isImpossible
      ? []
      : found.map(({ transactionalId, producerId, state }) => ({ transactionalId, producerId, transactionState: state }))
    return { throttleTimeMs: 0, errorCode: 0, unknownStateFilters, transactionStates }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), unknownStateFilters: [], transactionStates: [] }),
})
