import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acksOf } from '../../../src/kafka/share-acks.ts'

function asked(types: readonly (readonly number[])[]) {
  const partitions = types.map((acknowledgeTypes, partitionIndex) => ({
    partitionIndex,
    acknowledgementBatches: [{ firstOffset: 0, lastOffset: acknowledgeTypes.length - 1, acknowledgeTypes }],
  }))
  return [{ topicId: 'AAAAAAAAAAAAAAAAAAAAAQ', partitions }]
}

test('a type that the version does not know is a fault of its partition alone', () => {
  const read = acksOf(asked([[1, 0, 2, 3], [1, 7], [4]]), 2)
  assert.deepEqual(read[0]?.batches, [{ first: 0, last: 3, types: ['accept', 'gap', 'release', 'reject'] }])
  assert.deepEqual(
    read.map(({ unreadable }) => unreadable),
    [undefined, 'acknowledgements of type 7 are not known in version 2', undefined],
  )
  assert.deepEqual(
    acksOf(asked([[4], [-1]]), 1).map(({ unreadable }) => unreadable),
    ['acknowledgements of type 4 are not known in version 1', 'acknowledgements of type -1 are not known in version 1'],
  )
})
