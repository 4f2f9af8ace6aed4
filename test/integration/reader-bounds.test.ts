import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { isCode } from '../../src/core/errors.ts'
import { startTestBroker } from '../../src/testing/index.ts'

test('an offset at the end reads nothing, one behind it is an error, in an empty partition too', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic('t', { partitions: 2 })
  await using producer = client.producer()
  for (const value of ['a', 'b']) await producer.send('t', { value, partition: 0 })
  const read = async (partition: number, offset: number) => {
    let count = 0
    for await (const _ of client.reader({ topic: 't', partitions: [partition], from: { offset } })) count++
    return count
  }
  assert.deepEqual([await read(0, 0), await read(0, 1), await read(0, 2), await read(1, 0)], [2, 1, 0, 0])
  for (const partition of [0, 1]) await assert.rejects(read(partition, 10), (error) => isCode(error, 'OFFSET_OUT_OF_RANGE'))
})
