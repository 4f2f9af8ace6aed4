import type { Acks, OutgoingRecord, RecordOutcome } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { toWire } from '../../wire/errors.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import { ACKS_ALL, ACKS_LEADER, ACKS_NONE, ANY_PARTITION } from '../../wire/opcodes.ts'
import { type Answer, type Call, type Handler, Later, reply } from '../session.ts'
import { checkName, openTopic } from './topic-rules.ts'

export const ACKS: ReadonlyMap<number, Acks> = new Map([
  [ACKS_NONE, 'none'],
  [ACKS_LEADER, 'leader'],
  [ACKS_ALL, 'all'],
])
export const MAX_CODEC = 4
export const MAX_TIMEOUT_MS = 600_000

/** SEND (extension): records with explicit partitions, headers and nulls, acknowledged as the request asks. */
export const send: Handler<'SEND'> = {
  op: 'SEND',
  handle(call, { acks: asked, codec, timeoutMs, topic, records }) {
    const acks = ACKS.get(asked)
    if (acks === undefined) throw new MoonMQError('INVALID_REQUEST', { reason: `acks ${asked} is not one of 0 none, 1 leader, 2 all` })
    if (codec > MAX_CODEC) throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    checkName(topic)
    openTopic(call, topic)
    const all = records.map(
      ({ partition, key, value, headers }): OutgoingRecord => ({
        topic,
        partition: partition === ANY_PARTITION ? null : partition,
        key,
        value,
        headers,
      }),
    )
    const options = { acks, codec, timeoutMs: Math.min(timeoutMs, MAX_TIMEOUT_MS) }
    return new Later(call.broker.records.produce(call.context, all, options).then((outcomes) => sent(call, outcomes, acks)))
  },
}

/** Errors are told once each; a result names its error by place, 0 = none. */
function sent(call: Call, outcomes: readonly RecordOutcome[], acks: Acks): Answer {
  const errors = new ErrorList()
  const results = outcomes.map(({ partition, offset, error }) => {
    if (error === null) return { partition, offset: acks === 'none' ? -1 : offset, error: 0 }
    return { partition, offset: -1, error: errors.placeOf(error) }
  })
  return reply(call, 'SENT', { results, errors: errors.toWire() }, 16 + 13 * results.length)
}

/** The different errors of an answer. */
export class ErrorList {
  readonly #errors: MoonMQError[] = []

  /** From 1. More different errors than an answer can name: the rest is told as the last one. */
  placeOf(error: MoonMQError): number {
    const errors = this.#errors
    const known = errors.findIndex(({ code, message }) => code === error.code && message === error.message)
    if (known >= 0) return known + 1
    return errors.length < MAX_COUNT.errors ? errors.push(error) : MAX_COUNT.errors
  }

  toWire(): ReturnType<typeof toWire>[] {
    return this.#errors.map(toWire)
  }
}
