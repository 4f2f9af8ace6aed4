import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  addPartitions,
  complete,
  type End,
  endTransaction,
  fence,
  initProducer,
  isPart,
  type Step,
} from '../../../../src/broker/txn/rules.ts'
import { listPartitions, type Transaction, TWO_PHASE_TIMEOUT_MS } from '../../../../src/broker/txn/transaction.ts'

const P0 = { topic: 't', partition: 0 }
const P1 = { topic: 't', partition: 1 }

function next<T>(step: Step<T>): Transaction {
  assert.ok('next' in step && step.next !== undefined, step.kind)
  return step.next
}

function answer<T>(step: Step<T>): T {
  assert.equal(step.kind, 'done')
  return (step as { answer: T }).answer
}

function init(txn: Transaction | undefined, options: Partial<Parameters<typeof initProducer>[1]> = {}) {
  return initProducer(txn, { timeoutMs: 1000, expected: null, keepPrepared: false, freshId: null, goesOnAfterAbort: false, ...options }, 10)
}

const EMPTY = next(init(undefined, { freshId: 7 }))
const OPEN = next(addPartitions(EMPTY, EMPTY, [P0], 0, 20))

function end(txn: Transaction | undefined, options: Partial<End> = {}) {
  const { producerId = 7, producerEpoch = 0 } = txn ?? {}
  return endTransaction(txn, { producerId, producerEpoch, commit: true, clientVersion: 0, freshId: null, ...options }, 30)
}

function withEpoch(txn: Transaction, producerEpoch: number): Transaction {
  return { ...txn, producerEpoch }
}

describe('a producer begins', () => {
  it('gets a fresh id with epoch 0, then a later epoch each time', () => {
    assert.equal(init(undefined).kind, 'needsId')
    assert.deepEqual(answer(init(undefined, { freshId: 7 })), { producerId: 7, producerEpoch: 0, kept: null })
    assert.deepEqual(answer(init(EMPTY)), { producerId: 7, producerEpoch: 1, kept: null })
  })

  it('fences whoever has a transaction open, under an epoch that no client gets', () => {
    const step = init(OPEN)
    assert.equal(step.kind, 'fence')
    const aborting = next(step)
    assert.deepEqual([aborting.state, aborting.producerEpoch, listPartitions(aborting.partitions)], ['PrepareAbort', 1, [P0]])
    assert.equal(init(aborting).kind, 'concurrent')
    assert.deepEqual(answer(init(complete(aborting, 40))), { producerId: 7, producerEpoch: 2, kept: null })
  })

  it('that says what it had goes on with the next epoch, a resend of it with the same, and an older one is fenced', () => {
    const bumped = next(init(EMPTY, { expected: { producerId: 7, producerEpoch: 0 } }))
    assert.equal(bumped.producerEpoch, 1)
    assert.equal(answer(init(bumped, { expected: { producerId: 7, producerEpoch: 0 } })).producerEpoch, 1)
    const another = next(init(bumped))
    assert.throws(() => init(another, { expected: { producerId: 7, producerEpoch: 0 } }), { code: 'PRODUCER_FENCED' })
    assert.throws(() => init(EMPTY, { expected: { producerId: 8, producerEpoch: 0 } }), { code: 'PRODUCER_FENCED' })
  })

  it('that the broker has fenced goes on after the abort where transactions have an epoch each, and not before', () => {
    const expected = { producerId: 7, producerEpoch: 0 }
    const aborted = complete(next(init(OPEN, { expected, goesOnAfterAbort: true })), 40)
    const again = init(aborted, { expected, goesOnAfterAbort: true })
    assert.deepEqual(answer(again), { producerId: 7, producerEpoch: 1, kept: null })
    // Its own resend; and who has come since fences it.
    assert.deepEqual(answer(init(next(again), { expected })), answer(again))
    assert.throws(() => init(next(init(aborted)), { expected }), { code: 'PRODUCER_FENCED' })
    assert.throws(() => init(complete(next(init(OPEN, { expected })), 40), { expected }), { code: 'PRODUCER_FENCED' })
    // Where only the epoch is left that no client gets, another id.
    const last = { producerId: 7, producerEpoch: 32_766 }
    const spent = complete(fence(withEpoch(OPEN, 32_766), { goesOnAfterAbort: true }, 40), 50)
    assert.equal(init(spent, { expected: last }).kind, 'needsId')
    const rotated = init(spent, { expected: last, freshId: 9 })
    assert.deepEqual(answer(rotated), { producerId: 9, producerEpoch: 0, kept: null })
    assert.deepEqual(answer(init(next(rotated), { expected: last })), answer(rotated))
  })

  it('gets another id when the epochs are used up, and the resend of that is known', () => {
    const last = withEpoch(EMPTY, 32_766)
    const expected = { producerId: 7, producerEpoch: 32_766 }
    assert.equal(init(last, { expected }).kind, 'needsId')
    const rotated = next(init(last, { expected, freshId: 9 }))
    assert.deepEqual([rotated.producerId, rotated.producerEpoch, rotated.previousProducerId], [9, 0, 7])
    assert.deepEqual(answer(init(rotated, { expected })), { producerId: 9, producerEpoch: 0, kept: null })
    // The epoch that is kept back fences the last user of the id.
    const fenced = fence(withEpoch(OPEN, 32_766), { goesOnAfterAbort: false }, 40)
    assert.equal(fenced.producerEpoch, 32_767)
    assert.equal(init(complete(fenced, 50)).kind, 'needsId')
  })
})

describe('partitions of a transaction', () => {
  it('are added by their owner alone, and adding them again changes nothing', () => {
    assert.deepEqual([OPEN.state, OPEN.startedAtMs], ['Ongoing', 20])
    assert.deepEqual(addPartitions(OPEN, OPEN, [P0], 0, 25), { kind: 'done', answer: null })
    const more = next(addPartitions(OPEN, OPEN, [P1], 0, 25))
    assert.deepEqual([listPartitions(more.partitions), more.startedAtMs], [[P0, P1], 20])
    assert.throws(() => addPartitions(undefined, EMPTY, [P0], 0, 25), { code: 'PRODUCER_ID_MAPPING' })
    assert.throws(() => addPartitions(OPEN, { producerId: 8, producerEpoch: 0 }, [P0], 0, 25), { code: 'PRODUCER_ID_MAPPING' })
    assert.throws(() => addPartitions(OPEN, { producerId: 7, producerEpoch: 1 }, [P0], 0, 25), { code: 'PRODUCER_FENCED' })
  })

  it('wait for the end of the transaction before', () => {
    const ending = next(end(OPEN))
    assert.deepEqual(addPartitions(ending, ending, [P1], 0, 40), { kind: 'concurrent' })
    const begun = next(addPartitions(complete(ending, 40), ending, [P1], 0, 50))
    assert.deepEqual([listPartitions(begun.partitions), begun.startedAtMs], [[P1], 50])
  })

  it('are looked up', () => {
    assert.equal(isPart(OPEN, OPEN, P0), true)
    assert.equal(isPart(OPEN, OPEN, P1), false)
    assert.equal(isPart(EMPTY, EMPTY, P0), false)
    assert.equal(isPart(next(end(OPEN)), OPEN, P0), 'concurrent')
    assert.throws(() => isPart(OPEN, { producerId: 7, producerEpoch: 1 }, P0), { code: 'PRODUCER_FENCED' })
  })
})

describe('the end of a transaction, one epoch for many', () => {
  it('is decided once, and a resend gets the same answer', () => {
    const ending = next(end(OPEN))
    assert.deepEqual([ending.state, ending.producerEpoch], ['PrepareCommit', 0])
    assert.equal(end(ending).kind, 'concurrent')
    const done = complete(ending, 40)
    assert.deepEqual([done.state, done.producerEpoch, done.partitions.size], ['CompleteCommit', 0, 0])
    assert.deepEqual(end(done), { kind: 'done', answer: { producerId: 7, producerEpoch: 0 } })
    for (const txn of [ending, done]) assert.throws(() => end(txn, { commit: false }), { code: 'INVALID_TXN_STATE' })
    for (const commit of [true, false]) assert.throws(() => end(EMPTY, { commit }), { code: 'INVALID_TXN_STATE' })
    assert.throws(() => end(OPEN, { producerEpoch: 1 }), { code: 'PRODUCER_FENCED' })
  })
})

describe('the end of a transaction, an epoch for each (KIP-890)', () => {
  const bumping = { clientVersion: 2 } as const

  it('gives the next epoch, which the markers carry already; a resend gets it again and a late request is fenced', () => {
    const step = end(OPEN, bumping)
    const ending = next(step)
    assert.deepEqual(answer(step), { producerId: 7, producerEpoch: 1 })
    assert.deepEqual([ending.state, ending.producerEpoch], ['PrepareCommit', 1])
    assert.equal(end(ending, { ...bumping, producerEpoch: 0 }).kind, 'concurrent')
    const done = complete(ending, 40)
    assert.deepEqual(end(done, { ...bumping, producerEpoch: 0 }), { kind: 'done', answer: { producerId: 7, producerEpoch: 1 } })
    assert.throws(() => end(done, { ...bumping, producerEpoch: 0, commit: false }), { code: 'INVALID_TXN_STATE' })
    const second = next(addPartitions(done, done, [P1], 2, 50))
    assert.throws(() => end(second, { ...bumping, producerEpoch: 0 }), { code: 'PRODUCER_FENCED' })
  })

  it('takes an abort of nothing, each with an epoch of its own, but no commit of nothing', () => {
    for (const txn of [EMPTY, complete(next(end(OPEN, bumping)), 40)]) {
      const step = end(txn, { ...bumping, commit: false })
      assert.equal(next(step).state, 'PrepareAbort')
      assert.equal(answer(step).producerEpoch, txn.producerEpoch + 1)
      assert.throws(() => end(txn, bumping), { code: 'INVALID_TXN_STATE' })
    }
  })

  it('gives another id when the epochs are used up, after the markers of the old one', () => {
    const last = withEpoch(OPEN, 32_766)
    assert.equal(end(last, bumping).kind, 'needsId')
    const step = end(last, { ...bumping, freshId: 9 })
    assert.deepEqual(answer(step), { producerId: 9, producerEpoch: 0 })
    const ending = next(step)
    assert.deepEqual([ending.producerId, ending.producerEpoch, ending.nextProducerId], [7, 32_767, 9])
    // The client goes on with what it was given before the old markers are written.
    const coming = { producerId: 9, producerEpoch: 0 }
    assert.deepEqual(addPartitions(ending, coming, [P1], 2, 40), { kind: 'concurrent' })
    assert.equal(isPart(ending, coming, P1), 'concurrent')
    assert.equal(end(ending, { ...bumping, ...coming, commit: false }).kind, 'concurrent')
    const done = complete(ending, 40)
    assert.deepEqual([done.producerId, done.producerEpoch, done.nextProducerId], [9, 0, -1])
    const resend = endTransaction(done, { producerId: 7, producerEpoch: 32_766, commit: true, freshId: null, ...bumping }, 50)
    assert.deepEqual(resend, { kind: 'done', answer: { producerId: 9, producerEpoch: 0 } })
  })
})

describe('a transaction that another system decides (KIP-939)', () => {
  const open = { ...OPEN, timeoutMs: TWO_PHASE_TIMEOUT_MS }
  const kept = () => init(open, { keepPrepared: true, timeoutMs: TWO_PHASE_TIMEOUT_MS })

  it('outlives its client, and only the one that kept it may end it', () => {
    const step = kept()
    assert.deepEqual(answer(step), { producerId: 7, producerEpoch: 1, kept: { producerId: 7, producerEpoch: 0 } })
    const txn = next(step)
    assert.deepEqual([txn.state, txn.producerEpoch, listPartitions(txn.partitions)], ['Ongoing', 0, [P0]])
    assert.throws(() => end(txn, { clientVersion: 2, producerEpoch: 0 }), { code: 'PRODUCER_FENCED' })
    assert.throws(() => addPartitions(txn, { producerId: 7, producerEpoch: 1 }, [P1], 2, 40), { code: 'INVALID_TXN_STATE' })
    assert.equal(isPart(txn, { producerId: 7, producerEpoch: 1 }, P0), false)
    const ending = end(txn, { clientVersion: 2, producerEpoch: 1 })
    assert.deepEqual(answer(ending), { producerId: 7, producerEpoch: 2 })
    assert.deepEqual([next(ending).state, next(ending).producerEpoch], ['PrepareCommit', 2])
  })

  it('is kept again by the next client, and aborted by one that does not ask for it', () => {
    const again = init(next(kept()), { keepPrepared: true })
    assert.deepEqual(answer(again), { producerId: 7, producerEpoch: 2, kept: { producerId: 7, producerEpoch: 0 } })
    const step = init(next(again))
    assert.equal(step.kind, 'fence')
    assert.deepEqual([next(step).state, next(step).producerEpoch], ['PrepareAbort', 3])
  })

  it('keeps its own id when those of its keepers are used up', () => {
    const last = withEpoch(open, 32_766)
    assert.equal(init(last, { keepPrepared: true }).kind, 'needsId')
    const txn = next(init(last, { keepPrepared: true, freshId: 9 }))
    assert.deepEqual([txn.producerId, txn.producerEpoch, txn.nextProducerId, txn.nextProducerEpoch], [7, 32_766, 9, 0])
    const step = end(txn, { clientVersion: 2, producerId: 9, producerEpoch: 0 })
    assert.deepEqual(answer(step), { producerId: 9, producerEpoch: 1 })
    assert.deepEqual([next(step).producerId, next(step).producerEpoch], [7, 32_767])
  })

  it('without an open transaction keeping is an ordinary begin', () => {
    assert.deepEqual(answer(init(EMPTY, { keepPrepared: true })), { producerId: 7, producerEpoch: 1, kept: null })
  })
})
