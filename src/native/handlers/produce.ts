import type { OutgoingRecord, RecordOutcome } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { type Answer, type Call, type Handler, Later, reply } from '../session.ts'
import { checkName, openTopic } from './topic-rules.ts'

/** Codecs that version 1 can ask for: none, gzip, snappy. */
const MAX_CODEC = 2

/** Checks in the order of the protocol: codec, name, topic. */
export function check(call: Call, codec: number, topic: string): void {
  if (codec > MAX_CODEC) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
  checkName(topic)
  openTopic(call, topic)
}

/** Version 1 has no null: an empty key is none. */
export function outgoing(topic: string, key: Buffer, value: Buffer): OutgoingRecord {
  return { topic, partition: null, key: key.length === 0 ? null : key, value }
}

export function start(call: Call, codec: number, records: readonly OutgoingRecord[]): Promise<readonly RecordOutcome[]> {
  const { acks, produceTimeoutMs } = call.options
  return call.broker.records.produce(call.context, records, { acks, codec, timeoutMs: produceTimeoutMs, stopAtRefusal: true })
}

/** PRODUCE: the record is in its place when this returns; the acknowledgement follows. */
export const produce: Handler<'PRODUCE'> = {
  op: 'PRODUCE',
  handle(call, { codec, topic, key, value }) {
    check(call, codec, topic)
    return new Later(start(call, codec, [outgoing(topic, key, value)]).then((outcomes) => acknowledge(call, outcomes)))
  },
}

export function acknowledge(call: Call, outcomes: readonly RecordOutcome[]): Answer {
  const outcome = outcomes[0]
  if (outcome === undefined) throw new MoonMQError('INTERNAL', { reason: 'a record without an outcome' })
  if (outcome.error !== null) throw outcome.error
  return reply(call, 'PRODUCE_ACK', { partition: outcome.partition, offset: outcome.offset })
}
