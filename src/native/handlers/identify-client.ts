import { FEATURE_EXTENSION } from '../../wire/opcodes.ts'
import { type Handler, reply } from '../session.ts'

/** IDENTIFY_CLIENT: a name for logs, and the features that the client understands. The bits offered are told to everyone. */
export const identifyClient: Handler<'IDENTIFY_CLIENT'> = {
  op: 'IDENTIFY_CLIENT',
  handle(call, { name, features }) {
    call.session.identify(name, features ?? 0)
    return reply(call, 'IDENTIFY_ACK', {
      ...call.options.server,
      features: FEATURE_EXTENSION,
      maxFrameBytes: call.options.maxFrameBytes,
    })
  },
}
