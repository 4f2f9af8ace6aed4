import { type Handler, reply } from '../session.ts'
import { openTopic } from './topic-rules.ts'

/** REDRIVE (extension): dead letters go back to their topics, each once however often it is asked for. Answered when that is synced. */
export const redrive: Handler<'REDRIVE'> = {
  op: 'REDRIVE',
  async handle(call, { topic, partition, offsets }) {
    openTopic(call, topic)
    return reply(call, 'REDRIVEN', await call.broker.redrives.redrive(call.context, topic, partition, offsets))
  },
}

/** DELETE_BEFORE (extension): records below an offset go; −1 = all that consumers can see. */
export const deleteBefore: Handler<'DELETE_BEFORE'> = {
  op: 'DELETE_BEFORE',
  async handle(call, { topic, partition, offset }) {
    openTopic(call, topic)
    return reply(call, 'DELETED_BEFORE', { offset: await call.broker.deletion.deleteBefore(call.context, topic, partition, offset) })
  },
}
