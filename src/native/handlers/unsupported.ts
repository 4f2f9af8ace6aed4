import { MoonMQError } from '../../core/errors.ts'
import type { Handler } from '../session.ts'

/*
 * Requests that need a state which no connection of this version can reach: the answer is that of the protocol for a connection
 * without it. Other opcodes of the protocol that have no handler are answered with code 2 and their name.
 */

export const produceIdempotent: Handler<'PRODUCE_IDEMPOTENT'> = {
  op: 'PRODUCE_IDEMPOTENT',
  handle() {
    throw new MoonMQError('NO_PRODUCER_ID')
  },
}

export const beginTxn: Handler<'BEGIN_TXN'> = {
  op: 'BEGIN_TXN',
  handle() {
    throw new MoonMQError('INVALID_TXN_STATE', { reason: 'a transaction needs a producer with a name' })
  },
}

export const endTxn: Handler<'END_TXN'> = {
  op: 'END_TXN',
  handle() {
    throw new MoonMQError('INVALID_TXN_STATE', { reason: 'no transaction is open' })
  },
}

export const txnOffsetCommit: Handler<'TXN_OFFSET_COMMIT'> = {
  op: 'TXN_OFFSET_COMMIT',
  handle() {
    throw new MoonMQError('INVALID_TXN_STATE', { reason: 'no transaction is open' })
  },
}
