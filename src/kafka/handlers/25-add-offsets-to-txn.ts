/** AddOffsetsToTxn: the offsets of a group become part of a producer's transaction before TxnOffsetCommit stores them (KIP-98). */
import { MoonMQError } from '../../core/errors.ts'
import type { AddOffsetsToTxnRequest, AddOffsetsToTxnResponse } from '../../schema/types.generated.ts'
import { api, fencedCode } from '../handler.ts'

const FENCED_SINCE = 2

export const addOffsetsToTxn = api<AddOffsetsToTxnRequest, AddOffsetsToTxnResponse>({
  key: 25,
  name: 'AddOffsetsToTxn',
  versions: [0, 4],
  omissions: [],
  async handle(call, request) {
    if (request.groupId === '') throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
    await call.broker.transactions.addOffsets(call.context, request, request.groupId)
    return { throttleTimeMs: 0, errorCode: 0 }
  },
  refuse: (error, _request, call) => ({ throttleTimeMs: 0, errorCode: fencedCode(error, call.version, FENCED_SINCE) }),
})
