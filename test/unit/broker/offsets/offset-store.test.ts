import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OffsetStore } from '../../../../src/broker/offsets/offset-store.ts'
import { ZERO_UUID } from '../../../../src/core/uuid.ts'

const at = (offset: number) => ({ offset, leaderEpoch: -1, metadata: '', commitTimestampMs: 0, topicId: ZERO_UUID })

test('the latest wins, also when it goes back', () => {
  const store = new OffsetStore()
  store.set('t', 0, at(10))
  store.set('t', 0, at(4))
  assert.equal(store.get('t', 0)?.offset, 4)
  assert.equal(store.size, 1)
})

test('what was taken away is gone, and only that', () => {
  const store = new OffsetStore()
  store.set('t', 0, at(1))
  store.set('t', 1, at(2))
  store.delete('t', 0)
  store.delete('t', 7)
  store.delete('u', 0)
  assert.equal(store.get('t', 0), undefined)
  assert.equal(store.size, 1)
  store.delete('t', 1)
  assert.deepEqual(store.ofTopic('t'), [])
  assert.equal(store.size, 0)
})

test('entries come by topic and partition, as numbers', () => {
  const store = new OffsetStore()
  for (const [topic, partition] of [
    ['b', 10],
    ['b', 2],
    ['a', 1],
  ] as const)
    store.set(topic, partition, at(partition))
  assert.deepEqual(
    store.entries().map(({ topic, partition }) => `${topic}-${partition}`),
    ['a-1', 'b-2', 'b-10'],
  )
})
