import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PendingOffsets } from '../../../../src/broker/offsets/pending-offsets.ts'
import { ZERO_UUID } from '../../../../src/core/uuid.ts'

function at(offset: number, partition = 0) {
  return { topic: 't', partition, value: { offset, leaderEpoch: -1, metadata: '', commitTimestampMs: 0, topicId: ZERO_UUID } }
}

function ended(pending: PendingOffsets, producerId: number, committed = true): [string, number][] {
  return [...pending.end(producerId, committed)].flatMap(([group, offsets]) =>
    offsets.map(({ value }): [string, number] => [group, value.offset]),
  )
}

test('what waits is told by group, once', () => {
  const pending = new PendingOffsets()
  pending.add(1, 'g', at(10))
  pending.add(1, 'g', at(11))
  pending.add(1, 'h', at(5, 1))
  assert.deepEqual([pending.has('g'), pending.isPending('g', 't', 0), pending.isPending('g', 't', 1)], [true, true, false])
  assert.deepEqual(ended(pending, 1), [
    ['g', 11],
    ['h', 5],
  ])
  assert.deepEqual([pending.has('g'), ended(pending, 1)], [false, []])
})

test('a commit outside of transactions takes the place of what waits', () => {
  const pending = new PendingOffsets()
  pending.add(1, 'g', at(10))
  pending.add(1, 'g', at(20, 1))
  pending.overtake('g', 't', 0)
  assert.deepEqual(ended(pending, 1), [['g', 20]])
})

test('of two transactions the later commit stands, whichever ends first', () => {
  for (const order of [
    [1, 2],
    [2, 1],
  ]) {
    const pending = new PendingOffsets()
    pending.add(1, 'g', at(10))
    pending.add(2, 'g', at(20))
    const all = order.flatMap((producerId) => ended(pending, producerId))
    assert.deepEqual(all.at(-1), ['g', 20])
  }
})

test('an aborted transaction overtakes nothing', () => {
  const pending = new PendingOffsets()
  pending.add(1, 'g', at(10))
  pending.add(2, 'g', at(20))
  ended(pending, 2, false)
  assert.deepEqual(ended(pending, 1), [['g', 10]])
})

test('everything that waits in a group can be named', () => {
  const pending = new PendingOffsets()
  pending.add(1, 'g', at(10))
  pending.add(2, 'g', at(20, 3))
  pending.add(2, 'h', at(20, 4))
  assert.deepEqual(
    pending.ofGroup('g').map(({ partition }) => partition),
    [0, 3],
  )
})
