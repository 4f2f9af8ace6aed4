import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AppendPlan, planAppend, type SegmentShape } from '../../../src/storage/append-plan.ts'
import type { LogConfig } from '../../../src/storage/types.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { batchOf } from '../../support/storage.ts'

const SHAPE: SegmentShape = {
  baseOffset: 100,
  sizeBytes: 1000,
  indexEntries: 1,
  timeIndexEntries: 1,
  bytesSinceIndexEntry: 1000,
  rollBaseTimestampMs: null,
  createdMs: 0,
  jitterShare: 0,
}
const { header } = batchOf(['a', 'b', 'c'], { timestampMs: 10_000 })

function plan(shape: Partial<SegmentShape>, config: Partial<LogConfig> = {}, nextOffset = 150, nowMs = 0): AppendPlan {
  return planAppend({ ...SHAPE, ...shape }, nextOffset, header, { ...LOG_CONFIG, ...config }, nowMs)
}

test('a batch goes behind the last one', () => {
  assert.deepEqual(plan({}), { baseOffset: 150, lastOffset: 152, roll: null, position: 1000, addsIndexEntry: false })
})

test('rolls by size, but an empty segment takes any batch', () => {
  assert.equal(plan({}, { segmentBytes: 1000 + header.sizeBytes }).roll, null)
  assert.deepEqual(plan({}, { segmentBytes: 999 + header.sizeBytes }), { ...plan({}), roll: 'size', position: 0 })
  assert.equal(plan({ sizeBytes: 0 }, { segmentBytes: 1 }).roll, null)
  assert.equal(plan({ sizeBytes: 0x7fffffff - header.sizeBytes + 1 }, { segmentBytes: Number.MAX_SAFE_INTEGER }).roll, 'size')
})

test('rolls by time: of records where they have one, else of the clock', () => {
  assert.equal(plan({ rollBaseTimestampMs: 9_000 }, { segmentMs: 1000 }, 150, 1e9).roll, null)
  assert.equal(plan({ rollBaseTimestampMs: 8_999 }, { segmentMs: 1000 }).roll, 'time')
  assert.equal(plan({ createdMs: 500 }, { segmentMs: 1000 }, 150, 1500).roll, null)
  assert.equal(plan({ createdMs: 500 }, { segmentMs: 1000 }, 150, 1501).roll, 'time')
})

test('rolls when an index is full; the time index keeps a place for its last entry', () => {
  assert.equal(plan({ indexEntries: 9 }, { indexMaxBytes: 80 }).roll, null)
  assert.equal(plan({ indexEntries: 10 }, { indexMaxBytes: 80 }).roll, 'index-full')
  assert.equal(plan({ timeIndexEntries: 8 }, { indexMaxBytes: 120 }).roll, null)
  assert.equal(plan({ timeIndexEntries: 9 }, { indexMaxBytes: 120 }).roll, 'index-full')
})

test('rolls when the last offset does not fit 31 bits above the base', () => {
  assert.equal(plan({}, {}, 100 + 0x7fffffff - 2).roll, null)
  assert.equal(plan({}, {}, 100 + 0x7fffffff - 1).roll, 'offset-range')
  assert.equal(plan({ sizeBytes: 0 }, {}, 100 + 0x7fffffff).roll, 'offset-range')
})

test('an index entry comes after more than the interval; an interval of 0 indexes every batch', () => {
  assert.equal(plan({ bytesSinceIndexEntry: 4096 }).addsIndexEntry, false)
  assert.equal(plan({ bytesSinceIndexEntry: 4097 }).addsIndexEntry, true)
  assert.equal(plan({ sizeBytes: 0, bytesSinceIndexEntry: 0 }, { indexIntervalBytes: 0 }).addsIndexEntry, true)
  assert.equal(plan({ bytesSinceIndexEntry: 4097 }, { segmentBytes: 1 }).addsIndexEntry, false)
})
