/**
 * Produce: one record batch for each partition (KIP-98). Offered from version 0 because librdkafka up to 2.11 looks for it there
 * before it compresses; answered from 3, where batches have format 2. Topics are named by id from version 13. With acks 0 there is no
 * answer, and an error closes the connection so that the client looks again. The answer leaves the connection's queue: the next
 * Produce may be appended while this one becomes durable.
 */

import type { Acks, ProduceOutcome, ProducePartition, ProduceTicket, TransactionSupport } from '../../broker/ports.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { ProduceRequest, ProduceResponse } from '../../schema/types.generated.ts'
import { type Answer, api, type KafkaCall, kafkaCode, Later, NO_ANSWER } from '../handler.ts'

type Answered = Answer<Input<ProduceResponse>>
/** Of each partition in the order of the request: refused here, or null where the broker has it. */
type Refusals = readonly (MoonMQError | null)[]

const TOPIC_IDS_SINCE = 13
const FIRST_ANSWERED = 3
/** TRANSACTION_ABORTABLE is known, and partitions join a transaction by being written to (KIP-890). */
const ABORTABLE_SINCE = 11
const ADDS_SINCE = 12

export const produce = api<ProduceRequest, ProduceResponse>({
  key: 0,
  name: 'Produce',
  versions: [FIRST_ANSWERED, 13],
  offeredFrom: 0,
  omissions: ['Versions 0 to 2 are offered, since old librdkafka looks for them, and close the connection.'],
  handle(call, request) {
    const acks = acksOf(request.acks)
    if (acks === null) throw new MoonMQError('INVALID_ACKS', { acks: request.acks })
    const partitions: ProducePartition[] = []
    const refusals = collect(call, request, partitions)
    const { timeoutMs, transactionalId } = request
    const support = supportOf(call.version)
    const ticket = call.broker.produce.append(call.context, { acks, timeoutMs, transactionalId, support, partitions })
    if (ticket instanceof Promise) return ticket.then((appended) => answer(request, acks, refusals, appended))
    return answer(request, acks, refusals, ticket)
  },
  refuse(error, request) {
    if (acksOf(request.acks) === 'none') return null
    return response(
      request,
      [],
      request.topicData.flatMap((topic) => topic.partitionData.map(() => error)),
    )
  },
})

function supportOf(version: number): TransactionSupport {
  if (version >= ADDS_SINCE) return 'add'
  return version >= ABORTABLE_SINCE ? 'abortable' : 'verify'
}

function acksOf(acks: number): Acks | null {
  if (acks === -1) return 'all'
  if (acks === 1) return 'leader'
  return acks === 0 ? 'none' : null
}

/** Puts what the broker can take into `partitions`. */
function collect(call: KafkaCall, request: ProduceRequest, partitions: ProducePartition[]): Refusals {
  const refusals: (MoonMQError | null)[] = []
  const byId = call.version >= TOPIC_IDS_SINCE
  for (const topic of request.topicData) {
    const name = byId ? call.broker.topics.findById(topic.topicId)?.name : topic.name
    for (const { index, records } of topic.partitionData) {
      if (name === undefined) refusals.push(new MoonMQError('TOPIC_ID_UNKNOWN', { id: topic.topicId }))
      else if (records === null) refusals.push(new MoonMQError('INVALID_RECORD', { reason: 'there is no record batch' }))
      else {
        refusals.push(null)
        partitions.push({ topic: name, partition: index, batch: records })
      }
    }
  }
  return refusals
}

function answer(request: ProduceRequest, acks: Acks, refusals: Refusals, ticket: ProduceTicket): Answered {
  const settled = ticket.settled()
  if (acks === 'none') return settled instanceof Promise ? NO_ANSWER : unanswered(refusals, settled)
  if (settled instanceof Promise) return new Later(settled.then((outcomes) => response(request, outcomes, refusals)))
  return response(request, settled, refusals)
}

/** With acks 0 a client learns of an error only by the end of its connection. */
function unanswered(refusals: Refusals, outcomes: readonly ProduceOutcome[]): typeof NO_ANSWER {
  const error = refusals.find((refusal) => refusal !== null) ?? outcomes.find((outcome) => outcome.error !== null)?.error
  if (error) throw asMoonMQError(error)
  return NO_ANSWER
}

function response(request: ProduceRequest, outcomes: readonly ProduceOutcome[], refusals: Refusals): Input<ProduceResponse> {
  let at = 0
  let next = 0
  const responses = request.topicData.map((topic) => ({
    name: topic.name,
    topicId: topic.topicId,
    partitionResponses: topic.partitionData.map(({ index }) => {
      const refusal = refusals[at++] ?? null
      return refusal === null ? accepted(index, outcomes[next++]) : failed(index, refusal)
    }),
  }))
  return { responses, throttleTimeMs: 0 }
}

function accepted(index: number, outcome: ProduceOutcome | undefined) {
  if (outcome === undefined) return failed(index, new MoonMQError('INTERNAL', { reason: 'the broker gave no outcome' }))
  if (outcome.error !== null) return failed(index, outcome.error)
  const { baseOffset, logAppendTimeMs, logStartOffset } = outcome
  return { index, errorCode: 0, baseOffset, logAppendTimeMs, logStartOffset, errorMessage: null }
}

function failed(index: number, error: MoonMQError) {
  const errorCode = kafkaCode(error)
  return {
    index,
    errorCode,
    baseOffset: -1,
    logAppendTimeMs: -1,
    logStartOffset: -1,
    errorMessage: error.message,
    recordErrors: named(error),
  }
}

/** The records of a batch that it was refused for, where the broker names them (KIP-467). */
function named({ details }: MoonMQError) {
  const { records } = details
  if (typeof records !== 'string') return []
  return records.split(',').map((batchIndex) => ({ batchIndex: Number(batchIndex), batchIndexErrorMessage: 'it has no key' }))
}
