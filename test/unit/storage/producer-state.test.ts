import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isCode } from '../../../src/core/errors.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { addSequence, type BatchHeader, readBatchHeader } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import { decodeProducerSnapshot, encodeProducerSnapshot } from '../../../src/storage/producer-snapshot.ts'
import { checkSequence, ProducerState, readEndTransaction } from '../../../src/storage/producer-state.ts'

const MAX = 2 ** 31 - 1

function data(producer: { id?: number; epoch?: number; sequence: number; count?: number; transactional?: boolean }): BatchHeader {
  const { id = 7, epoch = 0, sequence, count = 1, transactional = false } = producer
  const records = Array.from({ length: count }, () => ({ key: null, value: Buffer.from('v'), timestampMs: 1000 }))
  return readBatchHeader(buildBatch(records, { producerId: id, producerEpoch: epoch, baseSequence: sequence, transactional }))
}

function state(options?: { expirationMs: number; maxProducers: number }): { producers: ProducerState; clock: VirtualClock } {
  const clock = new VirtualClock()
  return { producers: new ProducerState({ clock }, options), clock }
}

/** Appends as the broker does: check, then fold in. Returns the offset, the original one for a resend. */
function append(producers: ProducerState, header: BatchHeader): number {
  const stored = checkSequence(producers.get(header.producerId), header)
  if (stored !== null) return stored.baseOffset
  const offset = producers.endOffset
  producers.update(header, offset)
  return offset
}

function end(producers: ProducerState, commit: boolean, id = 7, epoch = 0) {
  const batch = buildEndTxnMarker({ commit, producerId: id, producerEpoch: epoch, coordinatorEpoch: 3, timestampMs: 1000 })
  const header = readBatchHeader(batch)
  return producers.update(header, producers.endOffset, readEndTransaction(batch, 0, header))
}

test('a batch of n records moves the sequence by n', () => {
  const { producers } = state()
  assert.equal(append(producers, data({ sequence: 0 })), 0)
  assert.equal(append(producers, data({ sequence: 1, count: 2 })), 1)
  assert.equal(append(producers, data({ sequence: 3, count: 5 })), 3)
  assert.equal(append(producers, data({ sequence: 8 })), 8)
  assert.throws(
    () => append(producers, data({ sequence: 10 })),
    (error) => isCode(error, 'OUT_OF_ORDER_SEQUENCE'),
  )
})

test('a producer that is not known may start anywhere, a negative sequence is never valid', () => {
  const { producers } = state()
  assert.equal(append(producers, data({ id: 1, sequence: 0 })), 0)
  assert.equal(append(producers, data({ id: 2, sequence: 4711 })), 1)
  assert.throws(
    () => checkSequence(undefined, { ...data({ sequence: 0 }), baseSequence: -1 }),
    (error) => isCode(error, 'INVALID_RECORD'),
  )
})

test('each of the last five batches is answered with its first offset and stores nothing; an older one is out of order', () => {
  const { producers } = state()
  for (let sequence = 0; sequence < 7; sequence++) append(producers, data({ sequence }))
  for (let sequence = 2; sequence < 7; sequence++) assert.equal(append(producers, data({ sequence })), sequence)
  assert.equal(producers.endOffset, 7)
  for (const sequence of [0, 1]) {
    assert.throws(
      () => append(producers, data({ sequence })),
      (error) => isCode(error, 'OUT_OF_ORDER_SEQUENCE'),
    )
  }
  // Another split of the same sequences is no resend.
  assert.throws(
    () => append(producers, data({ sequence: 5, count: 2 })),
    (error) => isCode(error, 'OUT_OF_ORDER_SEQUENCE'),
  )
})

test('sequences go from 2^31-1 to 0, and resends are recognised across the border, from a snapshot too', () => {
  const { producers } = state()
  assert.equal(append(producers, data({ sequence: MAX - 1, count: 4 })), 0)
  assert.equal(append(producers, data({ sequence: 2 })), 4)
  assert.equal(append(producers, data({ sequence: MAX - 1, count: 4 })), 0)
  assert.equal(append(producers, data({ id: 8, sequence: MAX })), 5)
  assert.equal(append(producers, data({ id: 8, sequence: 0 })), 6)
  const restarted = state().producers
  const bytes = encodeProducerSnapshot(producers.entries())
  restarted.load(decodeProducerSnapshot(bytes, { file: 'x', endOffset: 7 }), 7)
  assert.equal(append(restarted, data({ sequence: MAX - 1, count: 4 })), 0)
  assert.equal(append(restarted, data({ id: 8, sequence: MAX })), 5)
  assert.equal(append(restarted, data({ id: 8, sequence: 1 })), 7)
})

test('an older epoch is fenced, a newer one starts at 0', () => {
  const { producers } = state()
  append(producers, data({ epoch: 3, sequence: 0 }))
  assert.throws(
    () => append(producers, data({ epoch: 2, sequence: 1 })),
    (error) => isCode(error, 'INVALID_PRODUCER_EPOCH'),
  )
  assert.throws(
    () => append(producers, data({ epoch: 4, sequence: 1 })),
    (error) => isCode(error, 'OUT_OF_ORDER_SEQUENCE'),
  )
  assert.equal(append(producers, data({ epoch: 4, sequence: 0 })), 1)
  assert.equal(producers.get(7)?.batches.length, 1)
})

test('the last stable offset is held by open transactions, and by ended ones until their marker is below the high watermark', () => {
  const { producers } = state()
  append(producers, data({ id: 1, sequence: 0, transactional: true })) // 0
  append(producers, data({ id: 2, sequence: 0, transactional: true })) // 1
  append(producers, data({ id: 3, sequence: 0 })) // 2
  assert.equal(producers.lastStableOffset(3), 0)
  assert.equal(producers.lastStableOffset(0), 0)
  const aborted = end(producers, false, 1) // marker at 3
  assert.deepEqual(aborted, { producerId: 1, firstOffset: 0, lastOffset: 3, aborted: true, lastStableOffset: 1 })
  assert.equal(producers.firstOpenTransactionOffset(), 1)
  assert.equal(producers.lastStableOffset(3), 0)
  assert.equal(producers.lastStableOffset(4), 1)
  assert.deepEqual(end(producers, true, 2), { producerId: 2, firstOffset: 1, lastOffset: 4, aborted: false, lastStableOffset: 5 })
  assert.equal(producers.lastStableOffset(4), 1)
  assert.equal(producers.lastStableOffset(5), 5)
  assert.equal(producers.get(2)?.coordinatorEpoch, 3)
  assert.equal(end(producers, true, 2), null)
})

test('a marker with a higher epoch fences the producer that it ended', () => {
  const { producers } = state()
  append(producers, data({ sequence: 0, transactional: true }))
  end(producers, false, 7, 1)
  assert.throws(
    () => append(producers, data({ sequence: 1, transactional: true })),
    (error) => isCode(error, 'INVALID_PRODUCER_EPOCH'),
  )
  assert.equal(append(producers, data({ epoch: 1, sequence: 0 })), 2)
})

test('idle producers expire, those with an open transaction never, and a jump of the wall clock expires nobody', async () => {
  const { producers, clock } = state({ expirationMs: 1000, maxProducers: 10 })
  append(producers, data({ id: 1, sequence: 0, transactional: true }))
  append(producers, data({ id: 2, sequence: 0 }))
  clock.jumpWallClock(10 * 365 * 86_400_000)
  assert.equal(producers.expire(), 0)
  await clock.advance(600)
  append(producers, data({ id: 3, sequence: 0 }))
  await clock.advance(600)
  assert.equal(producers.expire(), 1)
  assert.deepEqual(
    [...producers.entries()].map((entry) => entry.producerId),
    [1, 3],
  )
})

test('the number of producers is bounded: the longest idle make room', async () => {
  const { producers, clock } = state({ expirationMs: 1_000_000, maxProducers: 20 })
  append(producers, data({ id: 1, sequence: 0, transactional: true }))
  for (let id = 2; id <= 100; id++) {
    await clock.advance(1)
    append(producers, data({ id, sequence: 0 }))
    assert.ok(producers.size <= 20)
  }
  assert.notEqual(producers.get(1), undefined)
  assert.notEqual(producers.get(100), undefined)
  assert.equal(producers.get(2), undefined)
})

test('a truncation below the end empties the state, one at the end keeps it', () => {
  const { producers } = state()
  append(producers, data({ sequence: 0, count: 3 }))
  assert.equal(producers.truncateTo(3), true)
  assert.equal(producers.truncateTo(2), false)
  assert.equal(producers.size, 0)
  assert.equal(producers.endOffset, 0)
})

test('folding a history in one go, or from a snapshot taken anywhere, gives the same producers and the same last stable offset', () => {
  const step = fc.record({
    id: fc.integer({ min: 1, max: 3 }),
    kind: fc.constantFrom('data', 'transactional', 'commit', 'abort', 'epoch'),
    count: fc.integer({ min: 1, max: 3 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.nat(40), (steps, cut) => {
      const whole = state().producers
      let resumed = state().producers
      const next = new Map<number, { epoch: number; sequence: number }>()
      for (const [index, { id, kind, count }] of steps.entries()) {
        const producer = next.get(id) ?? { epoch: 0, sequence: MAX - 3 }
        next.set(id, producer)
        for (const producers of [whole, resumed]) {
          if (kind === 'commit' || kind === 'abort') end(producers, kind === 'commit', id, producer.epoch)
          else if (kind !== 'epoch') {
            append(
              producers,
              data({ id, epoch: producer.epoch, sequence: producer.sequence, count, transactional: kind === 'transactional' }),
            )
          }
        }
        // A producer of which only a marker is known starts at 0, as after a new epoch.
        if ((kind === 'commit' || kind === 'abort') && whole.get(id)?.batches.length === 0) producer.sequence = 0
        if (kind === 'epoch') next.set(id, { epoch: producer.epoch + 1, sequence: 0 })
        else if (kind === 'data' || kind === 'transactional') producer.sequence = addSequence(producer.sequence, count)
        if (index === cut) {
          const bytes = encodeProducerSnapshot(resumed.entries())
          const endOffset = resumed.endOffset
          resumed = state().producers
          resumed.load(decodeProducerSnapshot(bytes, { file: 'x', endOffset }), endOffset)
        }
      }
      const view = (producers: ProducerState) =>
        [...producers.entries()].map(({ ...entry }) => JSON.stringify({ ...entry, touchedMs: 0 })).sort()
      assert.deepEqual(view(resumed), view(whole))
      assert.equal(resumed.lastStableOffset(resumed.endOffset), whole.lastStableOffset(whole.endOffset))
      assert.equal(resumed.firstOpenTransactionOffset(), whole.firstOpenTransactionOffset())
    }),
    { numRuns: 300 },
  )
})
