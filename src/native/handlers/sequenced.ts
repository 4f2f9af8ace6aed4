import type { ProducerSession, SequencedBatch, SequencedOutcome, SequencedTicket } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Message } from '../../wire/messages.ts'
import { SEND_TRANSACTIONAL } from '../../wire/opcodes.ts'
import { type Answer, type Call, type Handler, Later, reply } from '../session.ts'
import { ACKS, ErrorList, MAX_CODEC, MAX_TIMEOUT_MS } from './send.ts'
import { checkName, openTopic } from './topic-rules.ts'

const MAX_EPOCH = 32_767
const NO_PRODUCER = -1

/**
 * OPEN_PRODUCER (extension): an id whose numbers outlive the connection. Without a name it is nobody's and needs no session; a name is this
 * connection's, and with the id and epoch that it had it goes on as the same producer.
 */
export const openProducer: Handler<'OPEN_PRODUCER'> = {
  op: 'OPEN_PRODUCER',
  async handle(call, { name, transactionTimeoutMs, producerId, producerEpoch }) {
    const { session, broker, context } = call
    const sessions = broker.producerSessions
    const had = producerId === NO_PRODUCER ? null : identity(producerId, producerEpoch)
    if (name === '') {
      const fresh = had ?? (await sessions.open(context, { name }))
      return reply(call, 'PRODUCER_OPENED', { producerId: fresh.producerId, producerEpoch: fresh.producerEpoch })
    }
    const timeoutMs = transactionTimeoutMs === 0 ? {} : { timeoutMs: transactionTimeoutMs }
    const opened = await session.produceAs(() =>
      had === null ? sessions.open(context, { name, ...timeoutMs }) : sessions.resume(context, { transactionalId: name, ...had }),
    )
    return reply(call, 'PRODUCER_OPENED', { producerId: opened.producerId, producerEpoch: opened.producerEpoch })
  },
}

function identity(producerId: number, producerEpoch: number): { producerId: number; producerEpoch: number } {
  if (producerId < 0 || producerEpoch < 0 || producerEpoch > MAX_EPOCH) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `producer ${producerId} in epoch ${producerEpoch} cannot be` })
  }
  return { producerId, producerEpoch }
}

/** SEND_SEQUENCED (extension): batches that are stored once however often they are sent, also over connections and restarts. */
export const sendSequenced: Handler<'SEND_SEQUENCED'> = {
  op: 'SEND_SEQUENCED',
  async handle(call, message) {
    const { codec, topic } = message
    const acks = ACKS.get(message.acks)
    if (acks === undefined || acks === 'none') {
      throw new MoonMQError('INVALID_REQUEST', { reason: `acks ${message.acks} is not one of 1 leader, 2 all` })
    }
    if (codec > MAX_CODEC) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    checkName(topic)
    openTopic(call, topic)
    const batches = batchesOf(message)
    const options = { acks, codec, timeoutMs: Math.min(message.timeoutMs, MAX_TIMEOUT_MS) }
    const { settled } = await append(call, message, (session, owner) =>
      session === null
        ? call.broker.producerSessions.append(call.context, owner, batches, options)
        : session.append(call.context, batches, options),
    )
    return new Later(settled.then((outcomes) => sent(call, outcomes)))
  },
}

function batchesOf({ topic, batches }: Message<'SEND_SEQUENCED'>): SequencedBatch[] {
  const seen = new Set<number>()
  return batches.map(({ partition, baseSequence, records }) => {
    if (seen.has(partition)) throw new MoonMQError('INVALID_REQUEST', { reason: `partition ${partition} is named more than once` })
    seen.add(partition)
    if (baseSequence < 0) throw new MoonMQError('INVALID_REQUEST', { reason: `sequence ${baseSequence} is below 0` })
    return { topic, partition, baseSequence, records }
  })
}

type Append = (session: ProducerSession | null, owner: { producerId: number; producerEpoch: number }) => Promise<SequencedTicket>

/** Throws what says that the producer may not write so. */
function append({ session }: Call, message: Message<'SEND_SEQUENCED'>, write: Append): Promise<SequencedTicket> {
  const owner = identity(message.producerId, message.producerEpoch)
  const { producer } = session
  const isTransactional = (message.flags & SEND_TRANSACTIONAL) !== 0
  const isOwn = producer?.name !== '' && producer?.producerId === owner.producerId
  if (isOwn && producer.producerEpoch !== owner.producerEpoch) throw new MoonMQError('PRODUCER_FENCED')
  if (isTransactional !== (isOwn && producer.inTransaction)) {
    const reason = isTransactional ? 'no transaction of this producer is open here' : 'a transaction of this producer is open'
    throw new MoonMQError('INVALID_TXN_STATE', { reason })
  }
  return write(isOwn ? producer : null, owner)
}

/** Errors are told once each; a result names its error by place, 0 = none. */
function sent(call: Call, outcomes: readonly SequencedOutcome[]): Answer {
  const errors = new ErrorList()
  const results = outcomes.map(({ error, baseOffset }) => ({ baseOffset, error: error === null ? 0 : errors.placeOf(error) }))
  return reply(call, 'SENT_SEQUENCED', { results, errors: errors.toWire() }, 16 + 9 * results.length)
}
