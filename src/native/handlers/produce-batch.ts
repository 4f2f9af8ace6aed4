import type { RecordOutcome } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { toWire } from '../../wire/errors.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import type { Message } from '../../wire/messages.ts'
import { PRODUCE_BATCH_IDEMPOTENT } from '../../wire/opcodes.ts'
import { type Answer, type Call, type Handler, Later, reply } from '../session.ts'
import { appendOnce, producerFor } from './idempotent.ts'
import { check, outgoing, start } from './produce.ts'

/** PRODUCE_BATCH, with a producer's numbers or without. */
export const produceBatch: Handler<'PRODUCE_BATCH'> = {
  op: 'PRODUCE_BATCH',
  handle(call, message) {
    const { flags, codec, topic, records } = message
    if ((flags & PRODUCE_BATCH_IDEMPOTENT) !== 0) {
      const limit = MAX_COUNT.idempotentRecords
      if (records.length > limit) throw new MoonMQError('BATCH_TOO_LARGE', { count: records.length, limit })
      return idempotentBatch(call, message)
    }
    check(call, codec, topic)
    const all = records.map(({ key, value }) => outgoing(topic, key, value))
    return new Later(start(call, codec, all).then((outcomes) => acknowledgeBatch(call, outcomes)))
  },
}

async function idempotentBatch(call: Call, { codec, topic, pid, baseSeq, epoch, records }: Message<'PRODUCE_BATCH'>): Promise<Later> {
  const producer = producerFor(call, { pid: pid ?? 0, epoch: epoch ?? 0 })
  check(call, codec, topic)
  const request = { topic, codec, base: baseSeq ?? 0, records }
  return await appendOnce(call, producer, request, (outcomes) => acknowledgeBatch(call, outcomes))
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
