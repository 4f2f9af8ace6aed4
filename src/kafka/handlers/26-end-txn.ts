/**
 * EndTxn: commits or aborts (KIP-98). Answered when the decision is durable; the markers follow. From version 5 on each end gives the
 * producer another epoch, so that nothing late of this transaction can become part of the next (KIP-890).
 */
import type { EndTxnRequest, EndTxnResponse } from '../../schema/types.generated.ts'
import { api, fencedCode } from '../handler.ts'

const FENCED_SINCE = 2
const BUMPS_SINCE = 5

export const endTxn = api<EndTxnRequest, EndTxnResponse>({
  key: 26,
  name: 'EndTxn',
  versions: [0, 5],
  omissions: [],
  async handle(call, request) {
    const bumps = call.version >= BUMPS_SINCE
    const { producerId, producerEpoch } = await call.broker.transactions.end(call.context, request, request.committed, bumps)
    return { throttleTimeMs: 0, errorCode: 0, ...(bumps ? { producerId, producerEpoch } : {}) }
  },
  refuse: (error, _request, call) => ({ throttleTimeMs: 0, errorCode: fencedCode(error, call.version, FENCED_SINCE) }),
})
