import assert from 'node:assert/strict'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { isCode } from '../../src/core/errors.ts'
import { startBroker } from '../../src/index.ts'

test('a damaged partition is shown as offline and hides no other', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-damaged-'))
  const dataDir = join(folder, 'data')
  try {
    {
      await using broker = await startBroker({ port: 0, dataDir })
      await using client = await connect({ address: broker.address })
      await client.admin.createTopic('t', { partitions: 2 })
      await using producer = client.producer()
      for (const partition of [0, 1]) await producer.send('t', { value: 'a', partition })
    }
    const file = await open(join(dataDir, 't-0', '00000000000000000000.log'), 'r+')
    await file.write(Buffer.from('x'), 0, 1, 30)
    await file.close()
    await using broker = await startBroker({ port: 0, dataDir })
    await using client = await connect({ address: broker.address })
    const { partitions } = await client.admin.describeTopic('t')
    assert.deepEqual(
      partitions.map(({ earliest, highWatermark, lastStableOffset, logEndOffset }) => [
        earliest,
        highWatermark,
        lastStableOffset,
        logEndOffset,
      ]),
      [
        [-1, -1, -1, -1],
        [0, 1, 1, 1],
      ],
    )
    const values: string[] = []
    for await (const record of client.reader({ topic: 't', partitions: [1] })) values.push(String(record.value))
    assert.deepEqual(values, ['a'])
    for (const chosen of [{ partitions: [0] }, {}]) {
      const read = async () => {
        for await (const _ of client.reader({ topic: 't', ...chosen }));
      }
      await assert.rejects(read(), (error) => isCode(error, 'DATA_DAMAGED'))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
