import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { Client, PushConsumerOptions, PushedRecord } from '../../src/client/types.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { startTestBroker } from '../../src/testing/index.ts'

const GROUP = 'g'

async function setUp(config: Record<string, string> = {}) {
  const net = new VirtualNet({ clock: new SystemClock() })
  const broker = await startTestBroker({ machine: { net } })
  const client = await connect({ address: broker.address, net })
  await client.admin.createTopic('t', { partitions: 2, config })
  return {
    net,
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await broker.close()
    },
  }
}

async function send(client: Client, values: readonly string[], partition = 0): Promise<void> {
  await client.producer().sendMany(
    't',
    values.map((value) => ({ value, partition })),
  )
}

/** Takes so many records; the loop's body is `each`. */
async function take(
  client: Client,
  count: number,
  each: (record: PushedRecord) => unknown = () => undefined,
  options: Partial<PushConsumerOptions> = {},
): Promise<string[]> {
  const seen: string[] = []
  for await (const record of client.pushConsumer({ group: GROUP, topics: ['t'], ...options })) {
    seen.push(String(record.value))
    await each(record)
    if (seen.length === count) break
  }
  return seen
}

const committed = async (client: Client, topic = 't') => (await client.admin.committedOffsets(GROUP, [topic]))[0]?.offsets

test('push consumer: what the loop has asked past is done, what it was in is not', async () => {
  await using at = await setUp()
  await send(at.client, ['a', 'b', 'c'])
  await send(at.client, ['d'], 1)
  assert.deepEqual((await take(at.client, 4)).sort(), ['a', 'b', 'c', 'd'])
  const rest = await take(at.client, 1)
  await send(at.client, ['e', 'f'])
  const more = await take(at.client, 2)
  assert.deepEqual([...new Set([...rest, ...more])].length, 3)
})

test('push consumer: records come the moment that they are there, however little credit there is', async () => {
  await using at = await setUp()
  const sending = (async () => {
    for (let i = 0; i < 50; i++) await send(at.client, [`${i}`], i % 2)
  })()
  const seen = await take(at.client, 50, undefined, { maxRecords: 3, maxBytes: 100 })
  await sending
  assert.deepEqual(
    seen.map(Number).sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, i) => i),
  )
})

test('push consumer: nack brings a record again and makes it a dead letter at last, and holds nothing up', async () => {
  await using at = await setUp()
  await send(at.client, ['a', 'bad', 'c'])
  const fates: [boolean, number, string][] = []
  const seen = await take(at.client, 5, async (record) => {
    if (String(record.value) !== 'bad') return
    const { deadLettered, attempts, deadLetterTopic } = await record.nack('it is bad')
    fates.push([deadLettered, attempts, deadLetterTopic])
    await assert.rejects(record.nack(), /answered for already/)
  })
  assert.deepEqual(seen, ['a', 'bad', 'c', 'bad', 'bad'])
  assert.deepEqual(fates, [
    [false, 1, ''],
    [false, 2, ''],
    [true, 3, 't.dlq'],
  ])
  assert.deepEqual(await committed(at.client), [3, -1])
})

test('push consumer: with manual commit only ack says that a record is done', async () => {
  await using at = await setUp()
  await send(at.client, ['a', 'b', 'c'])
  await take(at.client, 3, async (record) => String(record.value) === 'b' || record.ack(), { commit: 'manual' })
  assert.deepEqual(await committed(at.client), [1, -1])
  await take(at.client, 2, (record) => record.ack(), { commit: 'manual' })
  assert.deepEqual(await committed(at.client), [3, -1])
})

test('push consumer: a broken connection takes nothing away and gives nothing twice', async () => {
  await using at = await setUp()
  await send(
    at.client,
    Array.from({ length: 100 }, (_, i) => `${i}`),
  )
  let count = 0
  const seen = await take(at.client, 100, () => {
    if (++count % 7 === 0) at.net.cut()
  })
  assert.deepEqual(
    seen,
    Array.from({ length: 100 }, (_, i) => `${i}`),
  )
  assert.deepEqual(await committed(at.client), [99, -1], 'the last one was broken off in')
})

test('push consumer: where it begins, and how it ends', async () => {
  await using at = await setUp()
  await send(at.client, ['a', 'b', 'c'])
  assert.deepEqual(await take(at.client, 1, undefined, { from: { offset: 2 } }), ['c'])
  const late = take(at.client, 1, undefined, { from: 'latest', group: 'late' })
  const aborting = new AbortController()
  const waiting = take(at.client, 1, undefined, { group: 'none', from: { offset: 3 }, signal: aborting.signal })
  aborting.abort()
  await assert.rejects(waiting, (error) => error instanceof MoonMQError && error.code === 'ABORTED')
  let isDone = false
  void late.then(() => {
    isDone = true
  })
  while (!isDone) await send(at.client, ['d'])
  assert.deepEqual(await late, ['d'])
  await assert.rejects(take(at.client, 1, undefined, { topics: ['missing'] }), (error) => (error as MoonMQError).code === 'TOPIC_MISSING')
  await assert.rejects(take(at.client, 1, undefined, { topics: [] }), /needs a topic/)
})

test('delayed retry through the client: what failed comes back from its tier', async () => {
  await using at = await setUp({ 'moonmq.retry.delays': '1ms,1ms' })
  await send(at.client, ['a', 'bad'])
  const seen: string[] = []
  for await (const record of at.client.pushConsumer({ group: GROUP, topics: ['t'] })) {
    seen.push(`${record.topic}:${record.value}`)
    if (String(record.value) !== 'bad') continue
    const { deadLetterTopic } = await record.nack('again')
    if (deadLetterTopic === 't.dlq') break
  }
  assert.deepEqual(seen, ['t:a', 't:bad', 't.retry.1:bad', 't.retry.2:bad'])
})
