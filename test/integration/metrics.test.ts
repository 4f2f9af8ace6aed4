import assert from 'node:assert/strict'
import { test } from 'node:test'
import { METRICS } from '../../src/obs/catalogue.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { kafkaClient } from '../support/kafkajs.ts'

/** Value of a series in Prometheus text, by its name and labels. */
function seriesValue(text: string, series: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

test('a scrape shows what clients did, consumer lag among it, and forgets a topic that is deleted', async () => {
  await using broker = await startTestBroker({ http: { port: 0 } })
  const { port } = broker.httpAddress ?? assert.fail('there is an HTTP listener')
  const scrape = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`)
    assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
    return response.text()
  }
  const client = kafkaClient(broker.address, 'metrics-test')
  const admin = client.admin()
  const producer = client.producer()
  try {
    await admin.connect()
    await producer.connect()
    await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 1 }] })
    await producer.send({ topic: 'orders', messages: [{ value: 'a' }, { value: 'b' }, { value: 'c' }] })
    await admin.setOffsets({ groupId: 'readers', topic: 'orders', partitions: [{ partition: 0, offset: '1' }] })
    const text = await scrape()
    assert.equal(seriesValue(text, 'moonmq_produce_records_total{topic="orders"}'), 3)
    assert.equal(seriesValue(text, 'moonmq_produce_batches_total{topic="orders"}'), 1)
    assert.equal(seriesValue(text, 'moonmq_consumer_lag{group="readers",topic="orders",partition="0"}'), 2)
    assert.equal(seriesValue(text, 'moonmq_topic_count'), 1)
    assert.ok((seriesValue(text, 'moonmq_fsync_total') ?? 0) > 0)
    assert.ok((seriesValue(text, 'moonmq_connections_open') ?? 0) > 0)
    assert.equal(seriesValue(text, 'moonmq_pending_bytes{protocol="kafka"}'), 0)
    for (const { name, type } of METRICS) assert.ok(text.includes(`# TYPE ${name} ${type}\n`), name)

    await admin.deleteTopics({ topics: ['orders'] })
    assert.doesNotMatch(await scrape(), /"orders"/)
  } finally {
    await producer.disconnect()
    await admin.disconnect()
  }
})
