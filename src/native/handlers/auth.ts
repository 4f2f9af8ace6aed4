import { MoonMQError } from '../../core/errors.ts'
import { ANONYMOUS, type Handler, reply } from '../session.ts'

/** AUTH on a broker without credentials: every name and password is taken (docs/PROTOCOL.md). */
export const auth: Handler<'AUTH'> = {
  op: 'AUTH',
  handle(call) {
    call.session.login(call.session.vouchedFor ?? ANONYMOUS)
    return reply(call, 'AUTH_OK', {})
  },
}

/** AUTH_SCRAM on a broker without credentials: known mechanisms are refused with a way out, others as such. */
export const authScram: Handler<'AUTH_SCRAM'> = {
  op: 'AUTH_SCRAM',
  handle(_call, { mechanism }) {
    const known = ['SCRAM-SHA-256', 'EXTERNAL'].includes(mechanism.toUpperCase())
    if (!known) throw new MoonMQError('BAD_PROTOCOL', { reason: `the mechanism ${JSON.stringify(mechanism)} is not known` })
    throw MoonMQError.withText(
      'AUTH_FAILED',
      'this broker has no credentials; connect without SCRAM or EXTERNAL, with any name and password',
    )
  },
}

/** AUTH_SCRAM_FINAL: no first message is ever accepted here. */
export const authScramFinal: Handler<'AUTH_SCRAM_FINAL'> = {
  op: 'AUTH_SCRAM_FINAL',
  handle() {
    throw new MoonMQError('BAD_PROTOCOL', { reason: 'a final SCRAM message without a first one' })
  },
}
