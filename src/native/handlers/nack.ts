import { MoonMQError } from '../../core/errors.ts'
import { AndThen, type Handler, reply } from '../session.ts'
import { openTopic } from './topic-rules.ts'

const MAX_ATTEMPTS = 65_535

/**
 * NACK: the record could not be processed. The group's offset and the connection's position go back to it, until it has failed too often; then
 * it is moved to the dead-letter topic (docs/DLQ.md). Answered when that is synced, before anything that is read from the new position.
 */
export const nack: Handler<'NACK'> = {
  op: 'NACK',
  async handle(call, { topic, partition, offset, reason }) {
    const { consumer } = call.session
    if (consumer === null) throw new MoonMQError('BAD_PROTOCOL', { reason: 'NACK needs a FETCH or SUBSCRIBE on this connection first' })
    if (call.session.stream !== null) throw new MoonMQError('BAD_PROTOCOL', { reason: 'records of a stream are answered for by SETTLE' })
    openTopic(call, topic)
    call.broker.offsets.bounds(call.context, topic, partition)
    const nacked = await consumer.nack(topic, partition, Number(offset), reason)
    // Version 1 knows of dead letters only: what waits in a retry topic comes again.
    const isDead = nacked.kind === 'moved'
    const attempts = Math.min(MAX_ATTEMPTS, nacked.attempts)
    const answer = { deadLettered: isDead ? 1 : 0, attempts, dlqTopic: isDead ? nacked.topic : '' }
    return new AndThen(reply(call, 'NACK_ACK', answer), () => nacked.settle())
  },
}
