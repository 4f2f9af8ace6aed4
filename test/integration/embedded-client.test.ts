import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode } from '../../src/core/errors.ts'
import { startTestBroker } from '../../src/testing/index.ts'

test('a client inside the process: the same log as over a socket, and no connection of the listener is taken', async () => {
  await using broker = await startTestBroker({ http: { port: 0 } })
  await using client = await broker.connect({ name: 'inside' })
  await client.admin.createTopic('t', { partitions: 2 })
  const value = Buffer.alloc(300_000, 'x')
  const acked = await client.producer().sendMany('t', [
    { value, partition: 1 },
    { value: 'b', partition: 1 },
  ])
  assert.deepEqual(
    acked.map(({ offset }) => offset),
    [0, 1],
  )
  const lengths: number[] = []
  for await (const record of client.reader({ topic: 't' })) lengths.push(record.value?.length ?? -1)
  assert.deepEqual(lengths, [300_000, 1])
  const http = broker.httpAddress
  const metrics = await (await fetch(`http://${http?.host}:${http?.port}/metrics`)).text()
  assert.match(metrics, /^moonmq_connections_accepted_total 0$/m)
})

test('clients of a broker that closes are told, and a closed broker takes none', async () => {
  const broker = await startTestBroker()
  const client = await broker.connect({ timeoutMs: 200 })
  await client.admin.createTopic('t')
  const reading = (async () => {
    for await (const record of client.reader({ topic: 't', follow: true })) assert.fail(`a record: ${record.offset}`)
  })()
  const refused = assert.rejects(reading, (error) => isCode(error, 'CONNECT_FAILED') || isCode(error, 'SHUTTING_DOWN'))
  await broker.close()
  await refused
  await assert.rejects(broker.connect(), (error) => isCode(error, 'CONNECT_FAILED'))
  await client.close()
})
