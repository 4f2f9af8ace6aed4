import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startBroker } from '../../src/index.ts'
import { cliIn } from '../support/cli.ts'
import { kafkaClient } from '../support/kafkajs.ts'

test('a broker has the id that it was given; its folder remembers it, is refused to another one, and is mended with it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-node-id-'))
  const dataDir = join(folder, 'data')
  const start = (id: string) => startBroker({ port: 0, dataDir, config: { kafka: { 'node.id': id } } })
  const broker = await start('7')
  const admin = kafkaClient(broker.address, 'node-id').admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'placed', replicaAssignment: [{ partition: 0, replicas: [7] }] }] })
  assert.deepEqual(
    (await admin.describeCluster()).brokers.map(({ nodeId }) => nodeId),
    [7],
  )
  const [placed] = (await admin.fetchTopicMetadata({ topics: ['placed'] })).topics
  assert.equal(placed?.partitions[0]?.leader, 7)
  await admin.disconnect()
  await broker.close()

  await assert.rejects(start('0'), (error) => error instanceof Error && error.message.includes('node 7'))
  rmSync(join(dataDir, 'meta.properties'))
  const { code, out, err } = await cliIn(folder, ['log', 'repair', 'data', '--yes'])
  assert.equal(code, 0, out + err)
  assert.match(readFileSync(join(dataDir, 'meta.properties'), 'utf8'), /^node\.id=7$/m)
  const again = await start('7')
  await again.close()
  rmSync(folder, { recursive: true })
})
