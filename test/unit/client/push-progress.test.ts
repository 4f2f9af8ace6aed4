import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PushProgress } from '../../../src/client/push-progress.ts'

const at = (offset: number) => ({ topic: 't', partition: 0, offset })

test('on another connection the position stays before what was not done, also until it has come again', () => {
  const progress = new PushProgress()
  for (const offset of [0, 1, 2, 3]) assert.equal(progress.deliver('t', 0, offset), 'new')
  for (const offset of [0, 1]) progress.take(at(offset))
  assert.ok(progress.done(at(0)))
  assert.ok(progress.fail(at(1)))
  assert.deepEqual(progress.restart().get('t'), [{ partition: 0, offset: 1 }])
  assert.ok(progress.isUnsure, 'the answer for 0 may not have got there')
  assert.deepEqual(progress.positions(), [at(1)])
  assert.equal(progress.deliver('t', 0, 1), 'new')
  assert.deepEqual(progress.positions(), [at(1)])
  progress.take(at(1))
  assert.ok(progress.done(at(1)))
  assert.deepEqual(progress.positions(), [at(2)])
})

test('a record that the loop has is not given to it twice, and holds the position back', () => {
  const progress = new PushProgress()
  for (const offset of [0, 1]) progress.deliver('t', 0, offset)
  for (const offset of [0, 1]) progress.take(at(offset))
  progress.done(at(1))
  progress.restart()
  assert.deepEqual(progress.positions(), [at(0)])
  assert.equal(progress.deliver('t', 0, 0), 'held')
  assert.equal(progress.deliver('t', 0, 1), 'done')
  progress.done(at(0))
  assert.deepEqual(progress.positions(), [at(2)])
})
