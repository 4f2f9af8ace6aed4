import type { ProducerSession, RecordOutcome, SequencedBatch, SequencedOptions } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { UInt64 } from '../../core/int64.ts'
import type { KeyValue } from '../../wire/records.ts'
import { type Answer, type Call, type Handler, Later } from '../session.ts'
import { plain } from '../wire-sequences.ts'
import { acknowledge, check } from './produce.ts'

/** What an idempotent request says of its producer. */
interface Claim {
  readonly pid: UInt64
  readonly epoch: number
}

/** PRODUCE_IDEMPOTENT: the record is in its place when this resolves; the acknowledgement follows. */
export const produceIdempotent: Handler<'PRODUCE_IDEMPOTENT'> = {
  op: 'PRODUCE_IDEMPOTENT',
  async handle(call, { pid, seq, epoch, codec, topic, key, value }) {
    const producer = producerFor(call, { pid, epoch })
    check(call, codec, topic)
    const request = { topic, codec, base: seq, records: [{ key, value }] }
    return await appendOnce(call, producer, request, (outcomes) => acknowledge(call, outcomes))
  },
}

/** No id is above it: the protocol's numbers have no sign, those of the log do. */
const MAX_PRODUCER_ID = 2n ** 63n - 1n

/** Throws INVALID_REQUEST, NO_PRODUCER_ID, BAD_PROTOCOL, PRODUCER_FENCED. */
export function producerFor({ session }: Call, { pid, epoch }: Claim): ProducerSession {
  const { producer } = session
  if (typeof pid === 'bigint' && pid > MAX_PRODUCER_ID)
    throw new MoonMQError('INVALID_REQUEST', { reason: `no producer has the id ${pid}` })
  if (producer === null) throw new MoonMQError('NO_PRODUCER_ID')
  if (pid !== producer.producerId) {
    throw new MoonMQError('BAD_PROTOCOL', { reason: `the producer id of this connection is ${producer.producerId}, not ${pid}` })
  }
  if (producer.name !== '' && epoch !== producer.producerEpoch) throw new MoonMQError('PRODUCER_FENCED')
  return producer
}

export interface OnceRequest {
  readonly topic: string
  readonly codec: number
  readonly base: number
  readonly records: readonly KeyValue[]
}

/** Answers when everything is in its place. Throws what the whole is refused with. */
export async function appendOnce(
  call: Call,
  producer: ProducerSession,
  request: OnceRequest,
  answer: (outcomes: readonly RecordOutcome[]) => Answer,
): Promise<Later> {
  return new Later((await settling(call, producer, request)).outcomes.then(answer))
}

/** The outcomes of the records, wrapped: they come later than their places. */
async function settling(call: Call, producer: ProducerSession, { topic, codec, base, records }: OnceRequest): Promise<Settling> {
  const { acks, produceTimeoutMs: timeoutMs } = call.options
  const options: SequencedOptions = { acks, codec, timeoutMs, atomic: true }
  const sequences = call.session.sequencesOf(topic)
  const verdict = sequences.judge(topic, producer.producerId, base, records)
  if (verdict.kind === 'replay') return { outcomes: verdict.settled }
  if (verdict.kind === 'again') {
    const { settled } = await producer.append(call.context, verdict.batches, options)
    return { outcomes: sequences.retake(verdict.resend, settled) }
  }
  const parts = spread(call, topic, records)
  const batches = parts.map(({ partition, places }): SequencedBatch => {
    return { topic, partition, baseSequence: null, records: places.map((place) => plain(records[place] as KeyValue)) }
  })
  const { settled } = await producer.append(call.context, batches, options)
  return { outcomes: sequences.take(base, records, parts, settled) }
}

interface Settling {
  readonly outcomes: Promise<readonly RecordOutcome[]>
}

/** Which records go to which partition, each with their order. */
function spread({ broker }: Call, topic: string, records: readonly KeyValue[]): { partition: number; places: number[] }[] {
  const image = broker.topics.get(topic)
  const parts = new Map<number, { partition: number; places: number[] }>()
  for (const [place, { key }] of records.entries()) {
    const partition = broker.topics.partitionFor(image, key)
    const part = parts.get(partition)
    if (part === undefined) parts.set(partition, { partition, places: [place] })
    else part.places.push(place)
  }
  return [...parts.values()]
}
