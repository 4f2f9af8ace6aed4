import { MoonMQError } from '../../core/errors.ts'
import { PROTOCOL_VERSION } from '../../wire/opcodes.ts'
import { type Handler, reply } from '../session.ts'

/** HELLO: the first frame of a connection. */
export const hello: Handler<'HELLO'> = {
  op: 'HELLO',
  handle(call, { version }) {
    if (version !== PROTOCOL_VERSION) {
      throw new MoonMQError('UNSUPPORTED_VERSION', { version, api: 'the native protocol', supported: PROTOCOL_VERSION })
    }
    call.session.state = 'greeted'
    return reply(call, 'WELCOME', { version: PROTOCOL_VERSION })
  },
}
