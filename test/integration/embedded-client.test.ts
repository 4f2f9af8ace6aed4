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

test('a session: joining again is the same member with the share that it has now; once its connection is gone it is over', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('t', { partitions: 1 })
  await client.producer().send('t', { value: 'v' })
  await using session = client.session()
  const first = await session.join('g', ['t'])
  assert.deepEqual(first.assignment, [{ topic: 't', partitions: [0] }])
  await client.admin.createPartitions('t', 3)
  assert.deepEqual(await session.join('g', ['t']), { memberId: first.memberId, assignment: [{ topic: 't', partitions: [0, 1, 2] }] })
  await session.heartbeat('g', first.memberId)
  assert.equal((await session.fetch('t', 'g', 10)).length, 1)
  await session.commit('t', 0, 1)
  assert.deepEqual((await client.admin.describeGroup('g')).offsets, [{ topic: 't', partition: 0, offset: 1, end: 1 }])
  await session.leave('g', first.memberId)
  await session.close()
  assert.equal(session.open, false)
  await assert.rejects(session.fetch('t', 'g', 1), (error) => isCode(error, 'CLOSED') || isCode(error, 'CONNECTION_CLOSED'))
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
