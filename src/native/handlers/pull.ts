import type { ConsumerRound } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { MAX_FETCH_RECORDS } from '../../wire/limits.ts'
import { ISOLATION_READ_COMMITTED } from '../../wire/opcodes.ts'
import { pulledRecordBytes } from '../../wire/records.ts'
import { type Call, type Handler, reply } from '../session.ts'
import { pullingConsumer } from './fetch.ts'
import { answerBytes } from './read.ts'

/** PULL (extension): FETCH with headers, null values and large values. Positions, COMMIT and NACK are those of FETCH. */
export const pull: Handler<'PULL'> = {
  op: 'PULL',
  async handle(call, { topic, group, isolation, maxRecords, maxBytes }) {
    if (call.session.push !== null)
      throw new MoonMQError('BAD_PROTOCOL', { reason: 'records are pushed to this connection; PULL needs one of its own' })
    const consumer = pullingConsumer(call, topic, group, isolation === ISOLATION_READ_COMMITTED ? 'read_committed' : 'read_uncommitted')
    const most = answerBytes(call)
    const round = await consumer.poll(Math.min(maxRecords, MAX_FETCH_RECORDS), maxBytes === 0 ? most : Math.min(maxBytes, most))
    try {
      const answer = encode(call, round)
      await round.commit()
      return answer
    } finally {
      // The frame is a copy.
      round.release()
    }
  },
}

function encode(call: Call, round: ConsumerRound): Buffer {
  const { records } = round
  try {
    let bytes = 4
    for (const record of records) bytes += pulledRecordBytes(record)
    return reply(call, 'PULLED', { records }, bytes)
  } catch (error) {
    // Nothing of it reaches the client: the connection must not move on past records that it never gave.
    round.giveBack()
    throw error
  }
}
