import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { INTERNAL_CONTEXT } from '../../../src/broker/context.ts'
import { batchOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'

async function setup(config: Record<string, string> = {}) {
  const door = await testDoor()
  await createTopic(door.broker, 't', 2, config)
  for (let count = 0; count < 10; count++) await produceOne(door.broker, 't', 0, batchOf(1))
  const client = door.connect()
  const remove = async (offsets: readonly (readonly [topic: string, partition: number, offset: number])[], version = 2) => {
    const topics = offsets.map(([name, partitionIndex, offset]) => ({ name, partitions: [{ partitionIndex, offset }] }))
    const answer = await client.call('DeleteRecords', version, { topics, timeoutMs: 1000 })
    return answer.topics.flatMap(({ partitions }) => partitions.map(({ errorCode, lowWatermark }) => [errorCode, lowWatermark]))
  }
  return { ...door, client, remove }
}

describe('DeleteRecords', () => {
  it('moves the start up and answers it once it is saved, in every version', async () => {
    const { remove, logs } = await setup()
    for (const version of [0, 1, 2]) {
      assert.deepEqual(await remove([['t', 0, version + 1]], version), [[0, version + 1]])
      assert.equal(logs.savedStarts.get('t-0'), version + 1, 'saved before it was answered')
    }
    assert.deepEqual(await remove([['t', 0, 2]]), [[0, 3]], 'an earlier offset changes nothing')
    assert.deepEqual(await remove([['t', 0, 0]]), [[0, 3]])
  })

  it('-1 is the high watermark, and what lies beyond it is out of range', async () => {
    const { remove, logs } = await setup()
    assert.deepEqual(await remove([['t', 0, 11]]), [[1, -1]])
    assert.deepEqual(await remove([['t', 0, -2]]), [[1, -1]])
    assert.deepEqual(await remove([['t', 0, Number.MAX_SAFE_INTEGER]]), [[1, -1]])
    assert.equal(logs.at('t', 0).logStartOffset, 0)
    assert.deepEqual(await remove([['t', 0, -1]]), [[0, 10]])
    assert.deepEqual(await remove([['t', 1, -1]]), [[0, 0]], 'an empty partition')
  })

  it('answers each partition for itself', async () => {
    const { remove } = await setup()
    assert.deepEqual(
      await remove([
        ['nope', 0, 1],
        ['t', 7, 1],
        ['t', 0, 4],
      ]),
      [
        [3, -1],
        [3, -1],
        [0, 4],
      ],
    )
  })

  it('refuses where the policy keeps every key, and takes compact,delete', async () => {
    const { remove } = await setup({ 'cleanup.policy': 'compact,delete' })
    assert.deepEqual(await remove([['t', 1, -1]]), [[0, 0]])
    const compacted = await testDoor()
    await createTopic(compacted.broker, 'c', 1, { 'cleanup.policy': 'compact' })
    const answer = await compacted
      .connect()
      .call('DeleteRecords', 2, { topics: [{ name: 'c', partitions: [{ partitionIndex: 0, offset: 0 }] }], timeoutMs: 0 })
    assert.deepEqual(answer.topics[0]?.partitions[0]?.errorCode, 44)
  })

  it('refuses internal topics as Kafka does', async () => {
    const { broker, remove } = await setup()
    await broker.topics.create(INTERNAL_CONTEXT, {
      name: '__consumer_offsets',
      partitions: 1,
      replicationFactor: 1,
      assignments: new Map(),
      config: new Map(),
    })
    assert.deepEqual(await remove([['__consumer_offsets', 0, -1]]), [[17, -1]])
  })
})
