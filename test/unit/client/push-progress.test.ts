import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OffsetRanges } from '../../../src/client/offset-ranges.ts'
import { PushPart, PushProgress } from '../../../src/client/push-progress.ts'
import { SeededRandom } from '../../../src/core/random.ts'

function partWith(...offsets: number[]): PushPart {
  const part = new PushPart('t', 0, offsets[0] ?? 0)
  for (const offset of offsets) assert.equal(part.deliver(offset), 'new')
  return part
}

function finish(part: PushPart, offset: number): void {
  part.take(offset)
  assert.ok(part.done(offset))
}

test('on another connection the position stays before what was not done, also until it has come again', () => {
  const progress = new PushProgress()
  const part = progress.part('t', 0, 0)
  for (const offset of [0, 1, 2, 3]) part.deliver(offset)
  finish(part, 0)
  part.take(1)
  assert.ok(part.fail(1))
  for (let broken = 0; broken < 3; broken++) {
    progress.restart()
    assert.ok(progress.isUnsure, 'the answer for 0 may not have got there')
    assert.equal(part.low, 1)
  }
  assert.equal(part.deliver(1), 'new')
  assert.equal(part.low, 1)
  finish(part, 1)
  assert.equal(part.low, 2)
})

test('a record that the loop has is not given to it twice, and holds the position back', () => {
  const part = partWith(0, 1)
  part.take(0)
  finish(part, 1)
  part.restart()
  assert.equal(part.low, 0)
  assert.equal(part.deliver(0), 'held')
  assert.equal(part.deliver(1), 'done')
  assert.ok(part.done(0))
  assert.equal(part.low, 2)
})

test('what is done before it has come again moves the position on', () => {
  const part = partWith(5, 6, 7)
  part.take(5)
  part.restart()
  assert.ok(part.done(5))
  assert.equal(part.low, 6)
})

test('a record waits for the loop once, however often it comes, and again when it was refused', () => {
  const part = partWith(0, 1)
  assert.equal(part.deliver(1), 'held')
  part.take(0)
  assert.ok(part.fail(0))
  assert.equal(part.fail(0), false)
  assert.equal(part.deliver(0), 'new')
  assert.equal(part.deliver(0), 'held')
  part.settled(0)
  assert.equal(part.low, 1)
})

test('offsets without records are passed with the record behind them', () => {
  const part = partWith(0, 4, 9)
  for (const offset of [0, 4, 9]) finish(part, offset)
  assert.deepEqual(part.takeDirty().ranges, [{ first: 0, last: 9 }])
  assert.equal(part.low, 10)
})

test('while one record stays in hand, what is done behind it is one range', () => {
  const part = partWith(0)
  part.take(0)
  for (let offset = 1; offset <= 200_000; offset += 2) {
    assert.equal(part.deliver(offset), 'new')
    finish(part, offset)
  }
  assert.equal(part.low, 0)
  assert.deepEqual(part.takeDirty().ranges, [{ first: 1, last: 199_999 }])
  part.restart()
  assert.equal(part.deliver(0), 'held')
  assert.equal(part.deliver(7), 'done')
})

test('a topic that was made again begins below what is stored', () => {
  const part = partWith(0, 1, 2)
  for (const offset of [0, 1, 2]) finish(part, offset)
  part.storedTo(3)
  assert.equal(part.deliver(0), 'new')
  assert.equal(part.low, 0)
})

test('ranges of offsets are as a set of them', () => {
  const random = new SeededRandom(3)
  for (let round = 0; round < 200; round++) {
    const ranges = new OffsetRanges()
    const all = new Set<number>()
    for (let step = 0; step < 30; step++) {
      const first = random.below(40)
      const last = first + random.below(4)
      if (random.below(8) === 0) {
        ranges.dropBelow(first)
        for (const offset of all) if (offset < first) all.delete(offset)
      } else {
        ranges.add(first, last)
        for (let offset = first; offset <= last; offset++) all.add(offset)
      }
      const listed = ranges.ranges.flatMap((range) => Array.from({ length: range.last - range.first + 1 }, (_, at) => range.first + at))
      assert.deepEqual(
        listed,
        [...all].sort((a, b) => a - b),
      )
      for (const [at, range] of ranges.ranges.entries()) assert.ok(at === 0 || range.first > (ranges.ranges[at - 1]?.last ?? 0) + 1)
      for (let offset = 0; offset < 45; offset++) assert.equal(ranges.has(offset), all.has(offset))
    }
  }
})
