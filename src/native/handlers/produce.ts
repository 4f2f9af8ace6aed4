import type { OutgoingRecord, RecordOutcome } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { toWire } from '../../wire/errors.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import { PRODUCE_BATCH_IDEMPOTENT } from '../../wire/opcodes.ts'
import { type Answer, type Call, type Handler, Later, reply } from '../session.ts'
import { checkName, openTopic } from './topic-rules.ts'

/** Codecs that version 1 can ask for: none, gzip, snappy. */
const MAX_CODEC = 2

/** Checks in the order of the protocol: codec, name, topic. */
function check(call: Call, codec: number, topic: string): void {
  if (codec > MAX_CODEC) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
  checkName(topic)
  openTopic(call, topic)
}

/** Version 1 has no null: an empty key is none. */
function outgoing(topic: string, key: Buffer, value: Buffer): OutgoingRecord {
  return { topic, partition: null, key: key.length === 0 ? null : key, value }
}

function start(call: Call, codec: number, records: readonly OutgoingRecord[]): Promise<readonly RecordOutcome[]> {
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

function acknowledge(call: Call, outcomes: readonly RecordOutcome[]): Answer {
  const outcome = outcomes[0]
  if (outcome === undefined) throw new MoonMQError('INTERNAL', { reason: 'a record without an outcome' })
  if (outcome.error !== null) throw outcome.error
  return reply(call, 'PRODUCE_ACK', { partition: outcome.partition, offset: outcome.offset })
}

/** PRODUCE_BATCH without a producer id. Idempotence needs INIT_PRODUCER_ID, which this version does not serve. */
export const produceBatch: Handler<'PRODUCE_BATCH'> = {
  op: 'PRODUCE_BATCH',
  handle(call, { flags, codec, topic, records }) {
    if ((flags & PRODUCE_BATCH_IDEMPOTENT) !== 0) {
      const limit = MAX_COUNT.idempotentRecords
      if (records.length > limit) throw new MoonMQError('BATCH_TOO_LARGE', { count: records.length, limit })
      throw new MoonMQError('NO_PRODUCER_ID')
    }
    check(call, codec, topic)
    const all = records.map(({ key, value }) => outgoing(topic, key, value))
    return new Later(start(call, codec, all).then((outcomes) => acknowledgeBatch(call, outcomes)))
  },
}

/** Only the prefix that reached the configured durability is acknowledged (docs/PROTOCOL.md). */
function acknowledgeBatch(call: Call, outcomes: readonly RecordOutcome[]): Answer {
  const failed = outcomes.findIndex((outcome) => outcome.error !== null)
  const error = failed < 0 ? null : (outcomes[failed]?.error ?? null)
  if (failed === 0 && error !== null) throw error
  const acks = failed < 0 ? outcomes : outcomes.slice(0, failed)
  const failure = error === null ? { code: 0, message: '' } : toWire(error)
  return reply(
    call,
    'PRODUCE_BATCH_ACK',
    { acks, errorCode: failure.code === 0 ? 0 : 7, errorMessage: failure.message },
    10 + 12 * acks.length + failure.message.length * 3,
  )
}
