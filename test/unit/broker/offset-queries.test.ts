import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { MoonMQError } from '../../../src/core/errors.ts'
import { batchOf, contextOf, createTopic, fakeBroker, NOW_MS, produceOne } from '../../support/fake-broker.ts'

const code = (expected: string) => (error: unknown) => error instanceof MoonMQError && error.code === expected

async function orders() {
  const fake = await fakeBroker()
  await createTopic(fake.broker, 'orders')
  for (const [index, timestampMs] of [NOW_MS, NOW_MS + 20, NOW_MS + 10].entries()) {
    await produceOne(fake.broker, 'orders', 0, batchOf(2, { timestampMs }))
    assert.equal(fake.logs.at('orders', 0).logEndOffset, (index + 1) * 2)
  }
  return { ...fake, log: fake.logs.at('orders', 0), offsets: fake.broker.offsets }
}

describe('offset queries', () => {
  it('give the bounds of a partition', async () => {
    const { offsets, log } = await orders()
    log.logStartOffset = 2
    log.openTransactionAt = 4
    assert.deepEqual(offsets.bounds(contextOf(), 'orders', 0), {
      partition: 0,
      earliest: 2,
      logEndOffset: 6,
      highWatermark: 6,
      lastStableOffset: 4,
      leaderEpoch: 0,
    })
    assert.throws(() => offsets.bounds(contextOf(), 'missing', 0), code('TOPIC_MISSING'))
    assert.throws(() => offsets.bounds(contextOf(), 'orders', 1), code('PARTITION_MISSING'))
  })

  it('find the first record of a time that the reader can see', async () => {
    const { offsets, log } = await orders()
    const at = (timestampMs: number, isolation: 'read_committed' | 'read_uncommitted' = 'read_uncommitted') =>
      offsets.forTimestamp(contextOf(), 'orders', 0, timestampMs, isolation)
    assert.equal((await at(NOW_MS + 1))?.offset, 2)
    assert.equal(await at(NOW_MS + 100), null)
    log.openTransactionAt = 2
    assert.equal(await at(NOW_MS + 1, 'read_committed'), null)
  })

  it('find the record with the largest time, and wait for it to be durable', async () => {
    const { broker, offsets, log } = await orders()
    assert.equal((await offsets.ofMaxTimestamp(contextOf(), 'orders', 0))?.timestampMs, NOW_MS + 20)
    log.autoSync = false
    await produceOne(broker, 'orders', 0, batchOf(1, { timestampMs: NOW_MS + 50 }), 'none')
    const asked = offsets.ofMaxTimestamp(contextOf(), 'orders', 0)
    log.sync()
    assert.deepEqual(await asked, { offset: 6, timestampMs: NOW_MS + 50, leaderEpoch: 0 })
  })

  it('find where an epoch ends, for a reader that knows the current one', async () => {
    const { offsets, log } = await orders()
    log.leaderEpoch = 3
    log.epochEnd = { leaderEpoch: 1, endOffset: 4 }
    assert.deepEqual(offsets.endOfEpoch(contextOf(), 'orders', 0, 3, 2), { leaderEpoch: 1, endOffset: 4 })
    assert.deepEqual(offsets.endOfEpoch(contextOf(), 'orders', 0, -1, 2), { leaderEpoch: 1, endOffset: 4 })
    assert.throws(() => offsets.endOfEpoch(contextOf(), 'orders', 0, 2, 1), code('LEADER_EPOCH_FENCED'))
    assert.throws(() => offsets.endOfEpoch(contextOf(), 'orders', 0, 4, 1), code('LEADER_EPOCH_UNKNOWN'))
  })
})

describe('cluster', () => {
  it('shows the image and the settings in force', async () => {
    const { broker, metadata } = await fakeBroker({ settings: new Map([['num.partitions', '7']]) })
    assert.equal(broker.cluster.image, metadata.image)
    assert.equal(broker.cluster.clusterId, metadata.image.clusterId)
    assert.equal(broker.cluster.settings.get('num.partitions'), '7')
    assert.equal(broker.cluster.settings.get('offsets.topic.num.partitions'), '50')
  })

  it('deletes no topic where that is switched off', async () => {
    const { broker } = await fakeBroker({ settings: new Map([['delete.topic.enable', 'false']]) })
    await createTopic(broker, 'orders')
    await assert.rejects(broker.topics.delete(contextOf(), 'orders'), code('TOPIC_DELETION_DISABLED'))
  })
})
