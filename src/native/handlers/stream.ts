import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { toWire } from '../../wire/errors.ts'
import type { Message } from '../../wire/messages.ts'
import { FATE_AGAIN, FATE_MOVED, FATE_REFUSED, ISOLATION_READ_COMMITTED, START_COMMITTED } from '../../wire/opcodes.ts'
import { readRecordBytes } from '../../wire/records.ts'
import { PushDelivery } from '../push-delivery.ts'
import { AndThen, type Call, type Handler, ok, reply } from '../session.ts'
import { StreamSource } from '../stream-source.ts'
import { largestRecord, startOf } from './read.ts'
import { pushedBytes } from './subscribe.ts'
import { openTopic } from './topic-rules.ts'

const MAX_ATTEMPTS = 65_535

/**
 * STREAM (extension): records of topics are pushed with key, null values and headers, as far as the client has given credit. Nothing is
 * committed but what SETTLE answers for. A further STREAM adds topics and credit.
 */
export const stream: Handler<'STREAM'> = {
  op: 'STREAM',
  async handle(call, message) {
    const { session, channel, context } = call
    const isolation: IsolationLevel = message.isolation === ISOLATION_READ_COMMITTED ? 'read_committed' : 'read_uncommitted'
    if (session.stream === null && session.consumer !== null) {
      throw new MoonMQError('BAD_PROTOCOL', { reason: 'this connection reads by FETCH or SUBSCRIBE; STREAM needs one of its own' })
    }
    const membership = () => session.membership
    const { group } = message
    if (session.membership !== null && session.membership.group !== group) {
      throw new MoonMQError('GROUP_CONFLICT', { reason: `this connection is a member of group "${session.membership.group}"` })
    }
    const maxRecordBytes = largestRecord(call)
    const limits = { maxPartBytes: maxRecordBytes, maxRecordBytes, recordBytes: readRecordBytes }
    const source = session.stream ?? new StreamSource(call.broker.records.openStream(context, { group, isolation, membership, ...limits }))
    const { consumer } = source.stream
    if (consumer.group !== group || consumer.isolation !== isolation) {
      throw new MoonMQError('BAD_PROTOCOL', { reason: `this connection reads as group "${consumer.group}" with ${consumer.isolation}` })
    }
    // All of them or none: what cannot be begun is told before anything is.
    const begins: (readonly [topic: string, partition: number, offset: number])[] = []
    for (const each of message.topics) begins.push(...(await beginsOf(call, each, isolation)))
    for (const { topic } of message.topics) consumer.addTopic(topic)
    for (const [topic, partition, offset] of begins) consumer.begin(topic, partition, offset)
    await consumer.prepare()
    source.credit(message.records, message.bytes)
    const known = session.push
    if (known !== null) return new AndThen(ok(call), () => known.wake())
    const push = new PushDelivery({ channel, source, signal: context.signal }, { maxQueuedBytes: pushedBytes(call) })
    session.push = push
    session.stream = source
    session.consumer = consumer
    return new AndThen(ok(call), () => push.start())
  },
}

/** Where a topic begins other than at the group's offsets. */
async function beginsOf(
  call: Call,
  { topic, start, value, positions }: Message<'STREAM'>['topics'][number],
  isolation: IsolationLevel,
): Promise<(readonly [topic: string, partition: number, offset: number])[]> {
  const { partitions } = openTopic(call, topic)
  const given = new Map(positions.map(({ partition, offset }) => [partition, offset]))
  for (const partition of given.keys()) call.broker.offsets.bounds(call.context, topic, partition)
  const begins: [topic: string, partition: number, offset: number][] = [...given].map(([partition, offset]) => [topic, partition, offset])
  for (let partition = 0; start !== START_COMMITTED && partition < partitions.length; partition++) {
    if (!given.has(partition)) begins.push([topic, partition, await startOf(call, topic, { partition, start, value }, isolation)])
  }
  return begins
}

/** CREDIT (extension): so many records and bytes more may be pushed. Has no answer. */
export const credit: Handler<'CREDIT'> = {
  op: 'CREDIT',
  handle(call, { records, bytes }) {
    streamOf(call).credit(records, bytes)
    call.session.push?.wake()
    return null
  },
}

/** UNSTREAM (extension): nothing more of these topics, from the answer on. What is not answered for is as if it had never been given. */
export const unstream: Handler<'UNSTREAM'> = {
  op: 'UNSTREAM',
  handle(call, { topics }) {
    const { stream: found } = streamOf(call)
    for (const topic of topics) found.removeTopic(topic)
    return ok(call)
  },
}

/** SETTLE (extension): records that the client is done with, and records that failed. Answered when that is synced. */
export const settle: Handler<'SETTLE'> = {
  op: 'SETTLE',
  async handle(call, { done, failed }) {
    const { stream: found } = streamOf(call)
    if (done.length > 0) await found.done(done)
    const fates: Message<'SETTLED'>['failed'][number][] = []
    for (const { topic, partition, offset, reason } of failed) {
      try {
        const { kind, attempts, topic: target } = await found.failed(topic, partition, offset, reason)
        const fate = kind === 'again' ? FATE_AGAIN : FATE_MOVED
        fates.push({ fate, attempts: Math.min(MAX_ATTEMPTS, attempts), topic: target, code: 0, errorName: '', errorMessage: '' })
      } catch (error) {
        const { code, name, message } = toWire(asMoonMQError(error))
        fates.push({ fate: FATE_REFUSED, attempts: 0, topic: '', code, errorName: name, errorMessage: message })
      }
    }
    return new AndThen(reply(call, 'SETTLED', { failed: fates }, 16 + 1200 * fates.length), () => call.session.push?.wake())
  },
}

/** Throws BAD_PROTOCOL. */
function streamOf(call: Call): StreamSource {
  const found = call.session.stream
  if (found === null) throw new MoonMQError('BAD_PROTOCOL', { reason: 'this connection has no stream; STREAM opens one' })
  return found
}
