import { deepEqual, equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordOutcome, SequencedOutcome } from '../../../src/broker/ports.ts'
import { deferred } from '../../../src/core/deferred.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { type Verdict, WireSequences } from '../../../src/native/wire-sequences.ts'
import type { KeyValue } from '../../../src/wire/records.ts'

const FAILED = new MoonMQError('STORAGE_FAILED', { topic: 't', partition: 0, reason: 'test' })

function records(...values: string[]): KeyValue[] {
  return values.map((value) => ({ key: Buffer.alloc(0), value: Buffer.from(value) }))
}

/** Values alternate between two partitions. */
function spread(values: readonly KeyValue[]) {
  const parts = [0, 1].map((partition) => ({ partition, places: [...values.keys()].filter((place) => place % 2 === partition) }))
  return parts.filter(({ places }) => places.length > 0)
}

class Producer {
  readonly sequences = new WireSequences()

  judge(base: number, ...values: string[]): Verdict {
    return this.sequences.judge('t', 1, base, records(...values))
  }

  /** Takes a fresh request; the answer settles it. */
  take(base: number, ...values: string[]) {
    equal(this.judge(base, ...values).kind, 'fresh')
    const settling = deferred<readonly SequencedOutcome[]>()
    const outcomes = this.sequences.take(base, records(...values), spread(records(...values)), settling.promise)
    return { outcomes, settle: (...all: SequencedOutcome[]) => settling.resolve(all) }
  }
}

function stored(baseSequence: number, baseOffset: number): SequencedOutcome {
  return { error: null, baseSequence, baseOffset }
}

function failed(baseSequence: number): SequencedOutcome {
  return { error: FAILED, baseSequence, baseOffset: -1 }
}

function offsets(outcomes: readonly RecordOutcome[]): number[] {
  return outcomes.map(({ offset }) => offset)
}

async function replayed(verdict: Verdict): Promise<number[]> {
  equal(verdict.kind, 'replay')
  return verdict.kind === 'replay' ? offsets(await verdict.settled) : []
}

test('the last request again is answered as before, also while it is on its way', async () => {
  const producer = new Producer()
  const first = producer.take(0, 'a', 'b', 'c')
  const early = producer.judge(0, 'a', 'b', 'c')
  first.settle(stored(0, 10), stored(0, 20))
  deepEqual(offsets(await first.outcomes), [10, 20, 11])
  deepEqual(await replayed(early), [10, 20, 11])
  // By its numbers alone: the reference looks at nothing else.
  deepEqual(await replayed(producer.judge(0, 'x', 'y', 'z')), [10, 20, 11])
  deepEqual(await replayed(producer.judge(2, 'c')), [11])
  for (const [base, ...values] of [
    [0, 'a'],
    [1, 'b'],
    [1, 'b', 'c'],
    [2, 'c', 'd'],
    [4, 'd'],
  ] as [number, ...string[]][]) {
    throws(() => producer.judge(base, ...values), { code: 'OUT_OF_ORDER_SEQUENCE' }, `${base} ${values}`)
  }
  equal(producer.judge(3, 'd').kind, 'fresh')
})

test('of requests that follow each other only the last is remembered once they are durable', async () => {
  const producer = new Producer()
  const [first, second] = [producer.take(0, 'a'), producer.take(1, 'b')]
  deepEqual(producer.judge(0, 'a').kind, 'replay')
  second.settle(stored(1, 1))
  first.settle(stored(0, 0))
  await Promise.all([first.outcomes, second.outcomes])
  throws(() => producer.judge(0, 'a'), { code: 'OUT_OF_ORDER_SEQUENCE' })
  deepEqual(await replayed(producer.judge(1, 'b')), [1])
})

test('what failed goes again under its numbers in the log, whole or from where it failed', async () => {
  for (const from of [0, 1]) {
    const producer = new Producer()
    const values = ['a', 'b', 'c', 'd']
    const request = producer.take(0, ...values)
    request.settle(stored(4, 100), failed(7))
    deepEqual(offsets(await request.outcomes), [100, -1, 101, -1])
    const verdict = producer.judge(from, ...values.slice(from))
    equal(verdict.kind, 'again')
    if (verdict.kind !== 'again') return
    // Only the partition that failed.
    deepEqual(
      verdict.batches.map(({ partition, baseSequence, records: again }) => [
        partition,
        baseSequence,
        again.map(({ value }) => value?.toString()),
      ]),
      [[1, 7, ['b', 'd']]],
    )
    const again = producer.sequences.retake(verdict.resend, Promise.resolve([stored(7, 50)]))
    deepEqual(offsets(await again), [100, 50, 101, 51].slice(from))
    deepEqual(await replayed(producer.judge(0, ...values)), [100, 50, 101, 51])
    equal(producer.judge(4, 'e').kind, 'fresh')
  }
})

test('other records under the numbers of what failed are new ones, and what never came into the log gets new numbers', async () => {
  const producer = new Producer()
  const request = producer.take(0, 'a')
  request.settle(failed(-1))
  await request.outcomes
  const same = producer.judge(0, 'a')
  equal(same.kind === 'again' && same.batches[0]?.baseSequence, null)
  equal(producer.judge(0, 'other').kind, 'fresh')
  throws(() => producer.judge(1, 'b'), { code: 'OUT_OF_ORDER_SEQUENCE' })
  const other = producer.take(0, 'other')
  other.settle(stored(0, 5))
  deepEqual(offsets(await other.outcomes), [5])
  deepEqual(await replayed(producer.judge(0, 'other')), [5])
})

test('a failure in front of what was stored behind it is repaired first', async () => {
  const producer = new Producer()
  const [first, second] = [producer.take(0, 'a'), producer.take(1, 'b')]
  first.settle(failed(3))
  second.settle(stored(4, 9))
  await Promise.all([first.outcomes, second.outcomes])
  throws(() => producer.judge(2, 'c'), { code: 'OUT_OF_ORDER_SEQUENCE' })
  deepEqual(await replayed(producer.judge(1, 'b')), [9])
  const verdict = producer.judge(0, 'a')
  equal(verdict.kind, 'again')
  if (verdict.kind === 'again') await producer.sequences.retake(verdict.resend, Promise.resolve([stored(3, 8)]))
  equal(producer.judge(2, 'c').kind, 'fresh')
})

test('sequences end at 2^31 - 1', () => {
  const producer = new Producer()
  throws(() => producer.judge(2 ** 31 - 1, 'a', 'b'), { code: 'OUT_OF_ORDER_SEQUENCE', message: /take a new producer id/ })
  throws(() => producer.judge(2 ** 31, 'a'), { message: /take a new producer id/ })
})
