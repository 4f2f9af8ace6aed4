import { type Handler, reply } from '../session.ts'

/** HEARTBEAT_REQ: answered in any state. */
export const heartbeat: Handler<'HEARTBEAT_REQ'> = {
  op: 'HEARTBEAT_REQ',
  handle: (call) => reply(call, 'HEARTBEAT_RESP', {}),
}
