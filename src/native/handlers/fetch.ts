import type { ConsumerOptions, ConsumerRound, DeliveredRecord, RecordConsumer } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { FRAME_HEADER_BYTES, MAX, MAX_FETCH_RECORDS } from '../../wire/limits.ts'
import { FETCH_BATCHED, ISOLATION_READ_COMMITTED } from '../../wire/opcodes.ts'
import { pulledRecordBytes, wireRecordBytes } from '../../wire/records.ts'
import { type Call, type Handler, ok, reply } from '../session.ts'
import { answerBytes, largestRecord } from './read.ts'
import { checkReserved } from './topic-rules.ts'

/**
 * FETCH: what the consumer of this connection finds now, in all topics that it has named so far. The positions after what is delivered
 * are stored for the group, which does not wait for their sync (docs/PROTOCOL.md).
 */
export const fetch: Handler<'FETCH'> = {
  op: 'FETCH',
  async handle(call, { topic, group, maxRecords, isolation, flags }) {
    if (call.session.push !== null)
      throw new MoonMQError('BAD_PROTOCOL', { reason: 'records are pushed to this connection; FETCH needs one of its own' })
    const consumer = consumerFor(call, topic, group, isolation === ISOLATION_READ_COMMITTED ? 'read_committed' : 'read_uncommitted')
    const maxBytes = answerBytes(call)
    const round = await consumer.poll(Math.min(maxRecords, MAX_FETCH_RECORDS), maxBytes)
    try {
      const frames = encode(call, round, ((flags ?? 0) & FETCH_BATCHED) !== 0)
      // What nobody is there to take was not delivered.
      if (call.channel.isGone) round.giveBack()
      else await round.commit()
      return [...frames, ok(call)]
    } finally {
      // The frames are copies.
      round.release()
    }
  },
}

/** What a RECORD takes beside its payload. */
const FRAME_BYTES = 4 + FRAME_HEADER_BYTES

/** The consumer of the connection with this topic, for messages of version 1. Throws BAD_PROTOCOL, TOPIC_MISSING, TOPIC_FORBIDDEN. */
export function consumerFor(call: Call, topic: string, group: string, isolation: RecordConsumer['isolation']): RecordConsumer {
  return openConsumer(call, topic, {
    group,
    isolation,
    maxPartBytes: MAX.string,
    recordBytes: (record) => FRAME_BYTES + wireRecordBytes(record),
    maxRecordBytes: largestRecord(call),
    withEnvelopes: !call.session.extended,
  })
}

/** The same for PULL. */
export function pullingConsumer(call: Call, topic: string, group: string, isolation: RecordConsumer['isolation']): RecordConsumer {
  const largest = largestRecord(call)
  return openConsumer(
    call,
    topic,
    { group, isolation, maxPartBytes: largest, recordBytes: pulledRecordBytes, maxRecordBytes: largest },
    true,
  )
}

function openConsumer(call: Call, topic: string, options: ConsumerOptions, pulls = false): RecordConsumer {
  const { session } = call
  const { group, isolation } = options
  const known = session.consumer
  // One gives records that the other cannot carry.
  if (known !== null && session.pulls !== pulls) {
    const [by, other] = pulls ? ['FETCH or SUBSCRIBE', 'PULL'] : ['PULL', 'FETCH']
    throw new MoonMQError('BAD_PROTOCOL', { reason: `this connection reads by ${by}; ${other} needs one of its own` })
  }
  if (known !== null && (known.group !== group || known.isolation !== isolation)) {
    throw new MoonMQError('BAD_PROTOCOL', { reason: `this connection reads as group "${known.group}" with ${known.isolation}` })
  }
  if (session.membership !== null && session.membership.group !== group) {
    throw new MoonMQError('GROUP_CONFLICT', { reason: `this connection is a member of group "${session.membership.group}"` })
  }
  const membership = () => session.membership
  const consumer = known ?? call.broker.records.openConsumer(call.context, { ...options, membership })
  checkReserved(call, topic)
  consumer.addTopic(topic)
  session.consumer = consumer
  session.pulls = pulls
  return consumer
}

function encode(call: Call, round: ConsumerRound, inBatches: boolean): Buffer[] {
  try {
    return inBatches ? batched(call, round.records) : single(call, round.records)
  } catch (error) {
    // Nothing of it reaches the client: the connection must not move on past records that it never gave.
    round.giveBack()
    throw error
  }
}

function single(call: Call, records: readonly DeliveredRecord[]): Buffer[] {
  return records.map((record) => reply(call, 'RECORD', record, wireRecordBytes(record)))
}

function batched(call: Call, records: readonly DeliveredRecord[]): Buffer[] {
  if (records.length === 0) return []
  let bytes = 4
  for (const record of records) bytes += wireRecordBytes(record)
  return [reply(call, 'RECORD_BATCH', { records }, bytes)]
}
