import type { RecordConsumer } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../wire/frame.ts'
import { ISOLATION_READ_COMMITTED } from '../../wire/opcodes.ts'
import { wireRecordBytes } from '../../wire/records.ts'
import { PushDelivery, type PushRound, type PushSource } from '../push-delivery.ts'
import { AndThen, type Call, type Handler, ok } from '../session.ts'
import { consumerFor } from './fetch.ts'

/** Records of one round. */
const MAX_ROUND_RECORDS = 256
/** What a client that is pushed to may have taken and not looked at: 16 MiB or 16,384 records. */
const ROUNDS_BEHIND = 64

/**
 * SUBSCRIBE: from now on records of the topic are pushed, each in a frame of its own with the zero id. The positions after a round are stored
 * for the group once the round was written, which does not wait for their sync (docs/PROTOCOL.md).
 */
export const subscribe: Handler<'SUBSCRIBE'> = {
  op: 'SUBSCRIBE',
  async handle(call, { topic, group, isolation }) {
    const { session, channel, context } = call
    if ((session.consumer !== null && session.push === null) || session.stream !== null) {
      throw new MoonMQError('BAD_PROTOCOL', { reason: 'this connection reads by FETCH or STREAM; SUBSCRIBE needs one of its own' })
    }
    const consumer = consumerFor(call, topic, group, isolation === ISOLATION_READ_COMMITTED ? 'read_committed' : 'read_uncommitted')
    await consumer.prepare()
    const known = session.push
    if (known !== null) return new AndThen(ok(call), () => known.wake())
    const source = new ConsumerSource(consumer)
    const push = new PushDelivery({ channel, source, signal: context.signal }, { maxQueuedBytes: pushedBytes(call) })
    session.push = push
    return new AndThen(ok(call), () => push.start())
  },
}

class ConsumerSource implements PushSource {
  readonly #consumer: RecordConsumer

  constructor(consumer: RecordConsumer) {
    this.#consumer = consumer
  }

  async next(maxBytes: number): Promise<PushRound | null> {
    const round = await this.#consumer.poll(MAX_ROUND_RECORDS, maxBytes)
    if (!round.isMoved) {
      round.release()
      return null
    }
    try {
      const frames = round.records.map((record) => encodeFrame('RECORD', ZERO_CORRELATION, record, wireRecordBytes(record)))
      return { frames, isMore: true, taken: () => round.commit(ROUNDS_BEHIND), release: () => round.release() }
    } catch (error) {
      round.release()
      throw error
    }
  }

  watch(wake: () => void): () => void {
    return this.#consumer.watch(wake)
  }
}

/** With more than this unread nothing is pushed: what is left of the limit is for answers. */
export function pushedBytes({ options }: Call): number {
  return Math.floor(options.maxPendingBytes / 8)
}
