import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { ClientRecord, Consumer, ConsumerOptions, GroupChange } from '../../src/client/types.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { type EmbeddedBroker, startBroker } from '../../src/server/embedded.ts'

const PARTITIONS = 3

/** A broker that is stopped and started again over one disk, at one address. */
async function setUp() {
  const clock = new SystemClock()
  const machine = { net: new VirtualNet({ clock }), disk: new MemoryDisk({ clock }) }
  const start = (port: number): Promise<EmbeddedBroker> => startBroker({ port, dataDir: '/data', machine })
  let broker = await start(0)
  const client = await connect({ address: broker.address, net: machine.net })
  await client.admin.createTopic('t', { partitions: PARTITIONS })
  const producer = client.producer()
  let sent = 0
  return {
    client,
    consumer: (options: Partial<ConsumerOptions> = {}): Consumer => client.consumer({ group: 'g', topics: ['t'], ...options }),
    async send(count: number): Promise<void> {
      const records = Array.from({ length: count }, (_, index) => ({ value: `${sent + index}`, partition: index % PARTITIONS }))
      sent += count
      await producer.sendMany('t', records)
    },
    committed: async () => (await client.admin.committedOffsets('g', ['t']))[0]?.offsets,
    async restart(): Promise<void> {
      await broker.close()
      broker = await start(broker.port)
    },
    async [Symbol.asyncDispose]() {
      await client.close()
      await broker.close()
    },
  }
}

const numberOf = (record: ClientRecord) => Number(String(record.value))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

test('a consumer of a group goes on over restarts of the broker, and gives nothing twice that it has done', async () => {
  await using at = await setUp()
  await at.send(6)
  const changes: GroupChange['kind'][] = []
  const seen: number[] = []
  for await (const record of at.consumer({ onChange: ({ kind }) => void changes.push(kind) })) {
    seen.push(numberOf(record))
    if (seen.length === 24) break
    if (seen.length % 6 > 0) continue
    // In hand when its connection goes: it is done all the same.
    await at.restart()
    await at.send(6)
  }
  assert.deepEqual(
    [...seen].sort((left, right) => left - right),
    upTo(24),
  )
  // A place that was taken while the broker was still going is lost once more.
  assert.ok(changes.filter((kind) => kind === 'lost').length >= 3)
  // The last one was in hand when the loop was left.
  assert.equal(
    (await at.committed())?.reduce((sum, offset) => sum + offset),
    23,
  )
})

test('a consumer that ends when it is idle does not take a restart of the broker for the end', async () => {
  await using at = await setUp()
  await at.send(9)
  const seen: number[] = []
  for await (const record of at.consumer({ endWhenIdle: true, maxRecords: 2, idleMs: 1 })) {
    seen.push(numberOf(record))
    if (seen.length === 3) await at.restart()
  }
  assert.deepEqual(
    seen.sort((left, right) => left - right),
    upTo(9),
  )
  assert.deepEqual(await at.committed(), [3, 3, 3])
})

test('a commit by hand goes on over a restart of the broker', async () => {
  await using at = await setUp()
  await at.send(6)
  const seen: number[] = []
  const consumer = at.consumer({ commit: 'manual' })
  for await (const record of consumer) {
    seen.push(numberOf(record))
    if (seen.length === 2) await at.restart()
    await consumer.commit(record)
    if (new Set(seen).size === 6) break
  }
  assert.deepEqual(await at.committed(), [2, 2, 2])
})

test('a commit by hand in the callback of a lost place is refused, not waited for', async () => {
  await using at = await setUp()
  await at.send(3)
  let last: ClientRecord | null = null
  const refused: unknown[] = []
  const consumer: Consumer = at.consumer({
    commit: 'manual',
    onChange: async ({ kind }) => {
      if (kind === 'lost' && last !== null) await consumer.commit(last).catch((error: unknown) => refused.push(error))
    },
  })
  for await (const record of consumer) {
    last = record
    if (refused.length > 0) break
    await at.restart()
    await at.send(3)
  }
  assert.ok(refused.length > 0 && isCode(refused[0], 'GROUP_MEMBER_UNKNOWN'))
})
