import { FEATURE_EXTENSION } from '../../wire/opcodes.ts'
import { type Handler, reply } from '../session.ts'

/** IDENTIFY_CLIENT: a name for logs, and the features that the client understands. The bits offered are told to everyone. */
export const identifyClient: Handler<'IDENTIFY_CLIENT'> = {
  op: 'IDENTIFY_CLIENT',
  handle(call, { name, features }) {
    const { server, extension, maxFrameBytes } = call.options
    call.session.identify(name, extension ? (features ?? 0) : 0)
    return reply(call, 'IDENTIFY_ACK', extension ? { ...server, features: FEATURE_EXTENSION, maxFrameBytes } : server)
  },
}
