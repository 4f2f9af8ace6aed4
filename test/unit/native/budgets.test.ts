import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { batchOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

/** The least that may be configured. */
const PENDING = 65_536
const LONG = 't'.repeat(249)

async function door(partitions = 1, records = 400) {
  const at = await testNativeDoor({ maxPendingBytes: PENDING })
  await createTopic(at.broker, LONG, partitions)
  for (let partition = 0; partition < partitions; partition++) {
    await produceOne(at.broker, LONG, partition, batchOf(records / partitions, { valueBytes: 10 }))
  }
  return at
}

/** Asks until nothing new comes; never may the connection be closed for what was sent to it. */
async function all(connection: TestNativeConnection, ask: () => Promise<number>): Promise<number> {
  let total = 0
  for (let round = 0; round < 200; round++) {
    const got = await ask()
    ok(!connection.socket.closed, `closed after ${total}`)
    if (got === 0) return total
    total += got
  }
  throw new Error('no end')
}

const recordsOf = (frames: readonly Received[]) =>
  frames.flatMap(({ op, message }) => (op === 'RECORD' ? [message] : ((message['records'] ?? []) as object[])))

for (const [what, flags] of [
  ['RECORD', 0],
  ['RECORD_BATCH', 1],
] as const) {
  test(`FETCH by ${what}: small records with a long name of a topic are given within what may be pending, none lost`, async () => {
    const connection = await (await door()).connect()
    const fetched = () => connection.exchange('FETCH', { topic: LONG, group: 'g', maxRecords: 10_000, isolation: 0, flags })
    equal(await all(connection, async () => recordsOf(await fetched()).length), 400)
  })
}

test('READ: small records come within what may be pending, and always some', async () => {
  const at = await door(2)
  const connection = await at.connect('extended')
  const places = [0, 0]
  const read = async () => {
    const partitions = places.map((value, partition) => ({ partition, start: 0, value }))
    const request = { topic: LONG, isolation: 0, maxRecords: 10_000, maxBytes: 2 ** 31, maxWaitMs: 0, partitions }
    const { message } = await connection.call('READ', request)
    let count = 0
    for (const part of message['partitions'] as { partition: number; nextOffset: number; records: object[] }[]) {
      places[part.partition] = part.nextOffset
      count += part.records.length
    }
    return count
  }
  equal(await all(connection, read), 400)
  // Room for nothing but the parts themselves.
  const many = { topic: LONG, isolation: 0, maxRecords: 1, maxBytes: 1, maxWaitMs: 0 }
  const partitions = Array.from({ length: 600 }, (_, partition) => ({ partition, start: 0, value: 0 }))
  equal(await connection.error('READ', { ...many, partitions }), 1)
  // Refusals have a length too.
  equal(await connection.error('READ', { ...many, partitions: partitions.slice(2, 500) }), 1)
})

test('SUBSCRIBE: a round of small records stays within what may be pending', async () => {
  const connection = await (await door()).connect()
  connection.send('SUBSCRIBE', { topic: LONG, group: 'g' })
  connection.socket.holding = true
  let pushed = 0
  let most = 0
  for (let round = 0; round < 200 && pushed < 400; round++) {
    pushed += recordsOf(await connection.received()).length
    most = Math.max(most, connection.socket.queuedBytes)
    ok(!connection.socket.closed)
    connection.socket.drain()
    connection.socket.holding = true
  }
  equal(pushed, 400)
  ok(most <= PENDING / 4, `${most} bytes pending`)
})

test('STREAM: many partitions, each with a frame of its own, stay within what may be pending', async () => {
  const connection = await (await door(100)).connect('extended')
  const credit = { records: 1000, bytes: 1 << 20 }
  const topics = [{ topic: LONG, start: 1, value: 0, positions: [] }]
  connection.send('STREAM', { group: 'g', isolation: 0, ...credit, topics })
  connection.socket.holding = true
  let pushed = 0
  let most = 0
  for (let round = 0; round < 400 && pushed < 400; round++) {
    pushed += recordsOf(await connection.received()).length
    most = Math.max(most, connection.socket.queuedBytes)
    connection.socket.drain()
    connection.socket.holding = true
  }
  deepEqual([pushed, connection.socket.closed], [400, false])
  ok(most <= PENDING / 3, `${most} bytes pending`)
})

test('a record that is larger than what may be pending is refused by its offset, and what came before it is given', async () => {
  const at = await testNativeDoor({ maxPendingBytes: PENDING })
  await createTopic(at.broker, 't')
  for (const valueBytes of [10, 50_000]) await produceOne(at.broker, 't', 0, batchOf(1, { valueBytes }))
  const connection = await at.connect()
  const fetch = () => connection.exchange('FETCH', { topic: 't', group: 'g', maxRecords: 10 })
  deepEqual(
    (await fetch()).map(({ op }) => op),
    ['RECORD', 'OK'],
  )
  for (let round = 0; round < 2; round++) {
    const [{ op, message }] = (await fetch()) as [Received]
    deepEqual([op, message['code'], /offset 1 of t-0 has a record of 50/.test(String(message['message']))], ['ERROR', 7, true])
  }
  const reader = await at.connect('extended')
  const request = { topic: 't', isolation: 0, maxRecords: 10, maxBytes: 1, maxWaitMs: 0 }
  const errorAt = async (value: number) => {
    const { message } = await reader.call('READ', { ...request, partitions: [{ partition: 0, start: 0, value }] })
    const [part] = message['partitions'] as { errorName?: string; nextOffset: number }[]
    return [part?.errorName, part?.nextOffset]
  }
  deepEqual(await errorAt(0), [undefined, 1])
  deepEqual(await errorAt(1), ['VALUE_TOO_LARGE_FOR_CLIENT', 1])
  const pushed = await at.connect()
  pushed.send('SUBSCRIBE', { topic: 't', group: 'h' })
  const frames = await pushed.received()
  deepEqual(
    frames.map(({ op, message }) => [op, message['code']]),
    [
      ['OK', undefined],
      ['RECORD', undefined],
      ['ERROR', 7],
    ],
  )
})

test('a round over many partitions does not keep what it read of each of them', async () => {
  const at = await testNativeDoor()
  const partitions = 48
  await createTopic(at.broker, 't', partitions)
  for (let partition = 0; partition < partitions; partition++) {
    await produceOne(at.broker, 't', partition, batchOf(30, { valueBytes: 2000 }))
  }
  const [batch] = at.logs.at('t', 0).batches
  const connection = await at.connect()
  connection.socket.holding = true
  const held = () => {
    let bytes = 0
    for (const log of at.logs.logs.values()) bytes += log.unreleased * (batch?.bytes.length ?? 0)
    return bytes
  }
  // The round is with the socket, which takes nothing: a few records of each partition, of batches of 60 KiB.
  connection.send('SUBSCRIBE', { topic: 't', group: 'g' })
  const frames = await connection.received()
  ok(recordsOf(frames).length > 100)
  ok(held() <= 4 * 256 * 1024, `${held()} bytes held`)
  equal(
    recordsOf(frames).every((record) => (record as { value: Buffer }).value.equals(Buffer.alloc(2000, 97))),
    true,
  )
  connection.socket.drain()
  await connection.received()
  equal(held(), 0)
})
