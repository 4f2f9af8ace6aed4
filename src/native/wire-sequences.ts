import type { RecordOutcome, SequencedBatch, SequencedOutcome } from '../broker/ports.ts'
import { MoonMQError } from '../core/errors.ts'
import { NO_OFFSET } from '../core/types.ts'
import type { KeyValue } from '../wire/records.ts'

/** Sequences above it are refused; the client takes a new producer id. */
const MAX_SEQUENCE = 2 ** 31 - 1

/** Records of a request that went to one partition, as one batch. */
interface Part {
  readonly partition: number
  /** Their places in the request. */
  readonly places: readonly number[]
  /** Kafka's number of the first one, in the log; null when they did not come into it. */
  baseSequence: number | null
}

/** A request that was taken. */
interface Taken {
  readonly base: number
  readonly count: number
  /** Compared with a resend; let go when all of it is durable. */
  records: readonly KeyValue[] | null
  readonly parts: Part[]
  outcomes: RecordOutcome[]
  settled: Promise<readonly RecordOutcome[]>
  /** Records before the first one that failed; null while the outcome is not known or when none failed. */
  failedAfter: number | null
  isSettled: boolean
}

/** What becomes of a request. */
export type Verdict =
  | { readonly kind: 'fresh' }
  /** It was taken already: the outcomes of these records answer it. */
  | { readonly kind: 'replay'; readonly settled: Promise<readonly RecordOutcome[]> }
  /** It was taken and failed: these batches go again under the numbers that they had. */
  | { readonly kind: 'again'; readonly batches: readonly SequencedBatch[]; readonly resend: Resend }

export interface Resend {
  readonly taken: Taken
  readonly from: number
  readonly parts: readonly Part[]
}

/**
 * The numbers of one producer for one topic, as the protocol counts them: one after another over all partitions (DESIGN D10). It owns what
 * is remembered of the last request, and of those before it that are not durable yet. In the log each partition has numbers of its own,
 * so that a resend of what failed is stored once, whatever became of the original.
 */
export class WireSequences {
  /** In the order of their numbers, without gaps between them. */
  #requests: Taken[] = []
  #start = 0

  /** Throws OUT_OF_ORDER_SEQUENCE. */
  judge(topic: string, producerId: number, base: number, records: readonly KeyValue[]): Verdict {
    const count = records.length
    if (base + count - 1 > MAX_SEQUENCE) {
      const reason = `sequences end at ${MAX_SEQUENCE}: take a new producer id`
      throw MoonMQError.withText('OUT_OF_ORDER_SEQUENCE', reason)
    }
    for (const taken of this.#requests) {
      const { failedAfter } = taken
      if (failedAfter === null) {
        if (taken.base === base && taken.count === count) return { kind: 'replay', settled: taken.settled }
      } else {
        for (const from of new Set([0, failedAfter])) {
          const isIt = base === taken.base + from && count === taken.count - from && isSame(taken, from, records)
          if (isIt) return again(topic, taken, from, records)
        }
      }
    }
    const next = this.#next()
    if (base === next) return { kind: 'fresh' }
    const last = this.#requests.at(-1)
    // A single record of the last sequence may come from a batch.
    if (count === 1 && base === next - 1 && last !== undefined && last.failedAfter === null && base >= last.base) {
      const place = base - last.base
      return { kind: 'replay', settled: last.settled.then((outcomes) => outcomes.slice(place, place + 1)) }
    }
    throw new MoonMQError('OUT_OF_ORDER_SEQUENCE', { sequence: base, producerId, expected: next })
  }

  #next(): number {
    for (const { base, failedAfter } of this.#requests) if (failedAfter !== null) return base + failedAfter
    const last = this.#requests.at(-1)
    return last === undefined ? this.#start : last.base + last.count
  }

  /** A fresh request is in its place. `parts` are its batches, in the order of `settling`. */
  take(
    base: number,
    records: readonly KeyValue[],
    parts: readonly { readonly partition: number; readonly places: readonly number[] }[],
    settling: Promise<readonly SequencedOutcome[]>,
  ): Promise<readonly RecordOutcome[]> {
    // What failed before it is given up.
    if (this.#requests.some(({ failedAfter }) => failedAfter !== null)) this.#requests = []
    const taken: Taken = {
      base,
      count: records.length,
      records,
      parts: parts.map((part) => ({ ...part, baseSequence: null })),
      outcomes: [],
      settled: Promise.resolve([]),
      failedAfter: null,
      isSettled: false,
    }
    this.#requests.push(taken)
    taken.settled = this.#follow(taken, taken.parts, settling)
    return taken.settled
  }

  /** What failed is in its place again. Resolves to the outcomes of the records that were sent again. */
  retake({ taken, from, parts }: Resend, settling: Promise<readonly SequencedOutcome[]>): Promise<readonly RecordOutcome[]> {
    taken.failedAfter = null
    taken.isSettled = false
    taken.settled = this.#follow(taken, parts, settling)
    return taken.settled.then((outcomes) => outcomes.slice(from))
  }

  async #follow(taken: Taken, parts: readonly Part[], settling: Promise<readonly SequencedOutcome[]>): Promise<readonly RecordOutcome[]> {
    const settled = await settling
    for (const [index, part] of parts.entries()) {
      const { partition } = part
      const { error, baseOffset, baseSequence } = settled[index] ?? LOST
      if (baseSequence >= 0) part.baseSequence = baseSequence
      for (const [step, place] of part.places.entries()) {
        taken.outcomes[place] = { error, partition, offset: error === null ? baseOffset + step : NO_OFFSET }
      }
    }
    taken.isSettled = true
    const failed = taken.outcomes.findIndex(({ error }) => error !== null)
    if (failed >= 0) taken.failedAfter = failed
    else taken.records = null
    this.#prune()
    return taken.outcomes
  }

  /** Only the last request is remembered beyond its end. */
  #prune(): void {
    let done = 0
    while (done < this.#requests.length - 1) {
      const { isSettled, failedAfter } = this.#requests[done] as Taken
      if (!isSettled || failedAfter !== null) break
      done++
    }
    if (done > 0) this.#requests.splice(0, done)
  }
}

const LOST: SequencedOutcome = {
  error: new MoonMQError('INTERNAL', { reason: 'a batch without an outcome' }),
  baseOffset: NO_OFFSET,
  baseSequence: -1,
}

function isSame(taken: Taken, from: number, records: readonly KeyValue[]): boolean {
  return records.every(({ key, value }, index) => {
    const before = taken.records?.[from + index]
    return before?.key.equals(key) === true && before.value.equals(value)
  })
}

/** Parts lie wholly in what is sent again, since those that failed begin at or behind `from`. */
function again(topic: string, taken: Taken, from: number, records: readonly KeyValue[]): Verdict {
  const parts = taken.parts.filter(({ places }) => places.some((place) => taken.outcomes[place]?.error !== null))
  const batches = parts.map(
    ({ partition, places, baseSequence }): SequencedBatch => ({
      topic,
      partition,
      baseSequence,
      records: places.map((place) => plain(records[place - from] as KeyValue)),
    }),
  )
  return { kind: 'again', batches, resend: { taken, from, parts } }
}

/** Version 1 has no null: an empty key is none. */
export function plain({ key, value }: KeyValue): { key: Buffer | null; value: Buffer } {
  return { key: key.length === 0 ? null : key, value }
}
