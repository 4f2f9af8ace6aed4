/**
 * InitProducerId: an identity for an idempotent producer (KIP-98, KIP-360). Without a transactional id each call gives a fresh one: a
 * producer that asks for a new epoch (version 3 on) may be given a new id instead.
 */
import { MoonMQError } from '../../core/errors.ts'
import type { InitProducerIdRequest, InitProducerIdResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

export const initProducerId = api<InitProducerIdRequest, InitProducerIdResponse>({
  key: 22,
  name: 'InitProducerId',
  versions: [0, 5],
  omissions: ['Transactional ids are refused with INVALID_REQUEST in this version.'],
  async handle(call, request) {
    if (request.transactionalId !== null) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'transactional ids are not in this version of MoonMQ' })
    }
    const { producerId, producerEpoch } = await call.broker.producers.newProducerId(call.context)
    return { throttleTimeMs: 0, errorCode: 0, producerId, producerEpoch }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), producerId: -1, producerEpoch: -1 }),
})
