import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ANOMALIES, type AnomalyKind, findAnomalies, type History, type HistoryPoll, type HistoryTxn } from '../../../support/history.ts'

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

const poll = { consumer: 'x', partition: 'p' }

/** One history each, in which that alone is wrong. */
const WRONG: readonly { readonly name: string; readonly kinds: AnomalyKind[]; readonly change: Parameters<typeof kinds>[0] }[] = [
  { name: 'a committed transaction is gone', kinds: ['lost write', 'lost write'], change: { p: P.slice(1), q: Q.slice(1) } },
  {
    name: 'what somebody has read is gone, of a transaction whose end nobody knows',
    kinds: ['lost write'],
    change: { p: P.slice(0, 1), q: Q.slice(0, 1), polls: [{ ...poll, records: P }] },
  },
  { name: 'a write is there twice', kinds: ['duplicate'], change: { p: [...P, { offset: 6, value: 'a1' }] } },
  {
    name: 'a write of an aborted transaction is there at the end',
    kinds: ['aborted read'],
    change: { p: [...P, { offset: 6, value: 'b1' }] },
  },
  {
    name: 'a write of an aborted transaction was read, and is gone',
    kinds: ['aborted read'],
    change: { polls: [{ ...poll, records: [{ offset: 1, value: 'b1' }] }] },
  },
  {
    name: 'a write was read before its transaction was to end',
    kinds: ['precommitted read'],
    change: { polls: [{ ...poll, openTxns: ['C'], records: P }] },
  },
  {
    name: 'two values stood at one offset',
    kinds: ['inconsistent offsets'],
    change: { polls: [{ ...poll, records: [{ offset: 0, value: 'c1' }] }] },
  },
  { name: 'a poll goes back', kinds: ['nonmonotonic poll'], change: { polls: [{ ...poll, records: P.toReversed() }] } },
  {
    name: 'the next poll begins where the last one was',
    kinds: ['nonmonotonic poll'],
    change: {
      polls: [
        { ...poll, records: P },
        { ...poll, records: P.slice(1) },
      ],
    },
  },
  { name: 'half of a transaction is there whose end nobody knows', kinds: ['torn transaction'], change: { q: Q.slice(0, 1) } },
  { name: 'half of a committed transaction is there', kinds: ['lost write', 'torn transaction'], change: { q: Q.slice(1) } },
  { name: 'a value is there that nobody wrote', kinds: ['phantom'], change: { p: [...P, { offset: 6, value: 'z' }] } },
]

for (const each of WRONG) {
  test(`found in a history: ${each.name}`, () => assert.deepEqual(kinds(each.change), each.kinds))
}

test('there is a history for each anomaly', () => {
  assert.deepEqual(new Set(WRONG.flatMap((each) => each.kinds)), new Set(ANOMALIES))
})

test('a consumer that seeks may go back, and another one begins where it likes', () => {
  const again = { ...poll, records: P, isSeek: true }
  assert.deepEqual(kinds({ polls: [again, again, { ...poll, consumer: 'y', records: P }] }), [])
})
