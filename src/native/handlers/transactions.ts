import type { ProducerSession } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { type Call, type Handler, ok } from '../session.ts'

/** BEGIN_TXN: what the producer of this connection sends from here on belongs to the transaction. */
export const beginTxn: Handler<'BEGIN_TXN'> = {
  op: 'BEGIN_TXN',
  async handle(call) {
    await named(call).begin()
    return ok(call)
  },
}

/** END_TXN: answered when the end is durable in every partition. After code 7 it may be repeated with the same choice. */
export const endTxn: Handler<'END_TXN'> = {
  op: 'END_TXN',
  async handle(call, { commit }) {
    await named(call).end(commit !== 0)
    return ok(call)
  },
}

/** TXN_OFFSET_COMMIT: offsets that count when the transaction is committed. Those of partitions that do not exist are left out. */
export const txnOffsetCommit: Handler<'TXN_OFFSET_COMMIT'> = {
  op: 'TXN_OFFSET_COMMIT',
  async handle(call, { group, offsets }) {
    const positions = offsets.map(({ topic, partition, offset }) => {
      if (typeof offset === 'bigint') throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} is beyond every partition` })
      return { topic, partition, offset }
    })
    const producer = named(call)
    if (!producer.inTransaction) throw new MoonMQError('INVALID_TXN_STATE', { reason: 'no transaction is open' })
    await producer.commitOffsets(call.context, group, positions)
    return ok(call)
  },
}

/** Throws INVALID_TXN_STATE. */
function named({ session }: Call): ProducerSession {
  const { producer } = session
  if (producer === null || producer.name === '') {
    throw new MoonMQError('INVALID_TXN_STATE', { reason: 'a transaction needs a producer with a name' })
  }
  return producer
}
