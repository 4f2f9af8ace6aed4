import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import kafkajs from 'kafkajs'
import { startTestBroker } from '../../src/testing/index.ts'

const { Kafka, logLevel } = kafkajs

describe('transactions of kafkajs', () => {
  it('are read by read committed when they are committed, and never when they are aborted', async () => {
    await using live = await startTestBroker()
    const kafka = new Kafka({
      clientId: 'it',
      brokers: [live.address],
      logLevel: logLevel.NOTHING,
      retry: { retries: 5, initialRetryTime: 20 },
    })
    const admin = kafka.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic: 'out', numPartitions: 2 }] })
    const producer = kafka.producer({ transactionalId: 'tx', idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    for (let round = 0; round < 4; round++) {
      const transaction = await producer.transaction()
      await transaction.send({ topic: 'out', messages: [0, 1].map((partition) => ({ partition, value: `${round}` })) })
      await transaction.sendOffsets({
        consumerGroupId: 'g',
        topics: [{ topic: 'out', partitions: [{ partition: 0, offset: `${round + 10}` }] }],
      })
      if (round % 2 === 0) await transaction.commit()
      else await transaction.abort()
    }
    await producer.send({
      topic: 'out',
      messages: [
        { partition: 0, value: 'end' },
        { partition: 1, value: 'end' },
      ],
    })
    const [offsets] = await admin.fetchOffsets({ groupId: 'g', topics: ['out'] })
    assert.equal(offsets?.partitions.find(({ partition }) => partition === 0)?.offset, '12')
    const seen: string[] = []
    const consumer = kafka.consumer({ groupId: 'reader', readUncommitted: false })
    await consumer.connect()
    await consumer.subscribe({ topic: 'out', fromBeginning: true })
    await new Promise<void>((resolve) => {
      void consumer.run({
        eachMessage: async ({ partition, message }) => {
          seen.push(`${partition}:${message.value}`)
          if (seen.filter((each) => each.endsWith('end')).length === 2) resolve()
        },
      })
    })
    await Promise.all([consumer.disconnect(), producer.disconnect(), admin.disconnect()])
    assert.deepEqual(seen.sort(), ['0:0', '0:2', '0:end', '1:0', '1:2', '1:end'])
  })
})
