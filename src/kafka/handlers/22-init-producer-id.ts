/**
 * InitProducerId: an identity for a producer (KIP-98, KIP-360). Without a transactional id each call gives a fresh one: a producer that
 * asks for a new epoch (version 3 on) may be given a new id instead. With one, whoever had the id before is fenced. Version 6 can keep the
 * open transaction for another system to decide (KIP-939); it is offered where the broker has `transaction.two.phase.commit.enable`.
 */
import { MoonMQError } from '../../core/errors.ts'
import type { InitProducerIdRequest, InitProducerIdResponse } from '../../schema/types.generated.ts'
import { api, fencedCode } from '../handler.ts'

const FENCED_SINCE = 4
const NO_PRODUCER = { producerId: -1, producerEpoch: -1 }

export const initProducerId = api<InitProducerIdRequest, InitProducerIdResponse>({
  key: 22,
  name: 'InitProducerId',
  versions: [0, 5],
  optional: { max: 6, setting: 'transaction.two.phase.commit.enable' },
  omissions: ['Version 6 is offered where transaction.two.phase.commit.enable is true.'],
  async handle(call, request) {
    const { transactionalId, transactionTimeoutMs: timeoutMs, enable2Pc: twoPhaseCommit, keepPreparedTxn: keepPrepared } = request
    const expected = expectedOf(request)
    if (transactionalId === null) {
      const { producerId, producerEpoch } = await call.broker.producers.newProducerId(call.context)
      return { throttleTimeMs: 0, errorCode: 0, producerId, producerEpoch }
    }
    const wish = { transactionalId, timeoutMs, expected, twoPhaseCommit, keepPrepared }
    const { producerId, producerEpoch, kept } = await call.broker.transactions.initProducer(call.context, wish)
    const { producerId: ongoingTxnProducerId, producerEpoch: ongoingTxnProducerEpoch } = kept ?? NO_PRODUCER
    return { throttleTimeMs: 0, errorCode: 0, producerId, producerEpoch, ongoingTxnProducerId, ongoingTxnProducerEpoch }
  },
  refuse: (error, _request, call) => ({
    throttleTimeMs: 0,
    errorCode: fencedCode(error, call.version, FENCED_SINCE),
    ...NO_PRODUCER,
  }),
})

/** What the client had before. Throws INVALID_REQUEST for half an identity. */
function expectedOf({ producerId, producerEpoch }: InitProducerIdRequest) {
  if (producerId === -1 && producerEpoch === -1) return null
  if (producerId < 0 || producerEpoch < 0) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `producer id ${producerId} does not go with epoch ${producerEpoch}` })
  }
  return { producerId, producerEpoch }
}
