import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findAnomalies, type History, type HistoryPoll, type HistoryTxn } from '../../../support/history.ts'

const A: HistoryTxn = {
  id: 'A',
  outcome: 'committed',
  writes: [
    { partition: 'p', value: 'a1' },
    { partition: 'q', value: 'a2' },
  ],
}
const B: HistoryTxn = { id: 'B', outcome: 'aborted', writes: [{ partition: 'p', value: 'b1' }] }
const C: HistoryTxn = {
  id: 'C',
  outcome: 'unknown',
  writes: [
    { partition: 'p', value: 'c1' },
    { partition: 'q', value: 'c2' },
  ],
}
const P = [
  { offset: 0, value: 'a1' },
  { offset: 4, value: 'c1' },
]
const Q = [
  { offset: 0, value: 'a2' },
  { offset: 2, value: 'c2' },
]

function kinds(change: { txns?: HistoryTxn[]; polls?: HistoryPoll[]; p?: typeof P; q?: typeof Q }): string[] {
  const history: History = {
    txns: change.txns ?? [A, B, C],
    polls: change.polls ?? [],
    final: new Map([
      ['p', change.p ?? P],
      ['q', change.q ?? Q],
    ]),
  }
  return findAnomalies(history).map(({ kind }) => kind)
}

test('a history in order has no anomaly, whether the unknown transaction is there or not', () => {
  const polls = [{ consumer: 'x', partition: 'p', records: P }]
  assert.deepEqual(kinds({ polls }), [])
  assert.deepEqual(kinds({ p: P.slice(0, 1), q: Q.slice(0, 1) }), [])
})

test('each anomaly is found', () => {
  assert.deepEqual(kinds({ p: P.slice(1), q: Q.slice(1) }), ['lost write', 'lost write'])
  assert.deepEqual(kinds({ q: Q.slice(1) }), ['lost write', 'torn transaction'])
  assert.deepEqual(kinds({ q: Q.slice(0, 1) }), ['torn transaction'])
  assert.deepEqual(kinds({ p: [...P, { offset: 6, value: 'a1' }] }), ['duplicate'])
  assert.deepEqual(kinds({ p: [...P, { offset: 6, value: 'b1' }] }), ['aborted read'])
  assert.deepEqual(kinds({ p: [...P, { offset: 6, value: 'z' }] }), ['phantom'])
  const poll = { consumer: 'x', partition: 'p' }
  assert.deepEqual(kinds({ polls: [{ ...poll, records: [{ offset: 1, value: 'b1' }] }] }), ['aborted read'])
  assert.deepEqual(kinds({ polls: [{ ...poll, openTxns: ['C'], records: P }] }), ['precommitted read'])
  assert.deepEqual(kinds({ polls: [{ ...poll, records: [{ offset: 0, value: 'c1' }] }] }), ['inconsistent offsets'])
  assert.deepEqual(kinds({ polls: [{ ...poll, records: P.toReversed() }] }), ['nonmonotonic poll'])
  const twice = [
    { ...poll, records: P },
    { ...poll, records: P },
  ]
  assert.deepEqual(kinds({ polls: twice }), ['nonmonotonic poll'])
  assert.deepEqual(kinds({ polls: twice.map((each) => ({ ...each, isSeek: true })) }), [])
})
