import assert from 'node:assert/strict'
import { it } from 'node:test'
import { MoonMQError } from '../../../src/core/errors.ts'
import { contextOf, createTopic } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'

it('TxnOffsetCommit: topics that come and go until the answer leave each outcome with its partition', async () => {
  const door = await testDoor()
  await createTopic(door.broker, 'goes')
  await createTopic(door.broker, 'stays')
  const asked: string[] = []
  Object.assign(door.broker.transactions, {
    async commitOffsets(_context: unknown, _owner: unknown, { offsets }: { offsets: readonly { topic: string }[] }) {
      asked.push(...offsets.map(({ topic }) => topic))
      await door.broker.topics.delete(contextOf(), 'goes')
      await createTopic(door.broker, 'comes')
      return [new MoonMQError('OFFSET_METADATA_TOO_LARGE', { size: 2, limit: 1 }), null]
    },
  })
  const answer = await door.connect().call('TxnOffsetCommit', 3, {
    transactionalId: 't',
    groupId: 'g',
    producerId: 1,
    producerEpoch: 0,
    topics: ['goes', 'comes', 'stays'].map((name) => ({ name, partitions: [{ partitionIndex: 0, committedOffset: 5 }] })),
  })
  assert.deepEqual(asked, ['goes', 'stays'])
  assert.deepEqual(
    answer.topics.map(({ name, partitions }) => [name, partitions[0]?.errorCode]),
    [
      ['goes', 12],
      ['comes', 3],
      ['stays', 0],
    ],
  )
})

it('TxnOffsetCommit: a producer that was fenced hears of its epoch in every version, as from an append', async () => {
  const door = await testDoor()
  await createTopic(door.broker, 't')
  Object.assign(door.broker.transactions, { commitOffsets: async () => [new MoonMQError('PRODUCER_FENCED')] })
  const client = door.connect()
  for (const version of [0, 2, 3, 5]) {
    const answer = await client.call('TxnOffsetCommit', version, {
      transactionalId: 't',
      groupId: 'g',
      producerId: 1,
      producerEpoch: 0,
      topics: [{ name: 't', partitions: [{ partitionIndex: 0, committedOffset: 5 }] }],
    })
    assert.equal(answer.topics[0]?.partitions[0]?.errorCode, 47, `version ${version}`)
  }
})
