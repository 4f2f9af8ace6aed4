import { type Handler, reply } from '../session.ts'

/** INIT_PRODUCER_ID: an id for this connection. A name fences whoever had it, and aborts what that one left open. */
export const initProducerId: Handler<'INIT_PRODUCER_ID'> = {
  op: 'INIT_PRODUCER_ID',
  async handle(call, { producerName = '' }) {
    const { session, broker, context } = call
    const { producerId, producerEpoch } = await session.produceAs(() => broker.producerSessions.open(context, { name: producerName }))
    return reply(call, 'PRODUCER_ID', { pid: producerId, epoch: producerEpoch })
  },
}
