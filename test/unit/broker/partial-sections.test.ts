import assert from 'node:assert/strict'
import { it } from 'node:test'
import { PartialSections } from '../../../src/broker/consume/partial-sections.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { batchOf } from '../../support/fake-broker.ts'

const headerAt = (baseOffset: number, count = 1) => readBatchHeader(batchOf(count, { baseOffset }))

it('a section is given once, and only for the same batch', () => {
  const partial = new PartialSections({ maxBytes: 100 })
  const section = Buffer.alloc(40)
  partial.put('a', 0, headerAt(5), section)
  assert.equal(partial.take('a', 1, headerAt(5)), undefined)
  assert.equal(partial.take('a', 0, headerAt(6)), undefined)
  assert.equal(partial.take('a', 0, headerAt(5, 2)), undefined)
  assert.equal(partial.take('a', 0, headerAt(5)), section)
  assert.equal(partial.take('a', 0, headerAt(5)), undefined)
  assert.equal(partial.bytes, 0)
})

it('bytes are bounded: the oldest goes, what is too large is not kept', () => {
  const partial = new PartialSections({ maxBytes: 100 })
  for (let offset = 0; offset < 4; offset++) partial.put('a', 0, headerAt(offset), Buffer.alloc(40))
  partial.put('a', 0, headerAt(3), Buffer.alloc(40))
  partial.put('a', 0, headerAt(9), Buffer.alloc(101))
  assert.equal(partial.bytes, 80)
  assert.deepEqual(
    [0, 1, 2, 3, 9].map((offset) => partial.take('a', 0, headerAt(offset)) !== undefined),
    [false, false, true, true, false],
  )
})
