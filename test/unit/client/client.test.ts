import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import type { Client, ClientOptions } from '../../../src/client/types.ts'
import { type ErrorCode, isCode } from '../../../src/core/errors.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../../src/wire/frame.ts'
import { type Asked, ScriptedBroker } from '../../support/scripted-broker.ts'

async function scripted(options: Partial<ClientOptions> = {}): Promise<{ broker: ScriptedBroker; client: Client } & AsyncDisposable> {
  const broker = await new ScriptedBroker().listen()
  const client = await connect({ address: broker.address, net: broker.net, ...options })
  return { broker, client, [Symbol.asyncDispose]: () => client.close() }
}

function failsWith(code: ErrorCode, text?: string) {
  return (error: unknown) => isCode(error, code) && (text === undefined || error.message.includes(text))
}

type SentRecord = { partition: number; value: Buffer }

function recordsOf(asked: Asked): string[] {
  return (asked.message['records'] as SentRecord[]).map((record) => record.value.toString())
}

function acknowledge(asked: Asked): void {
  const results = recordsOf(asked).map((_, offset) => ({ partition: 0, offset, error: 0 }))
  asked.answer('SENT', { results, errors: [] })
}

test('a broker without the extension is told apart', async () => {
  const broker = await new ScriptedBroker().listen()
  broker.identity = {}
  const client = await connect({ address: broker.address, net: broker.net })
  await rejects(client.admin.describeTopic('t'), failsWith('UNSUPPORTED_VERSION', 'DESCRIBE'))
  await rejects(client.producer({ idempotent: false }).send('t', { partition: 1, value: 'v' }), failsWith('UNSUPPORTED_VERSION'))
  equal(broker.asked.length, 0)
  await client.close()
  ok(await broker.allGone())
})

test('nobody at the address, a bad address, a signal that has fired', async () => {
  const broker = await new ScriptedBroker().listen()
  await rejects(connect({ address: 'broker:1', net: broker.net }), failsWith('CONNECT_FAILED'))
  for (const address of ['', ':9092', 'a:b', 'a:0', 'a:70000', 'a:1:2']) {
    await rejects(connect({ address, net: broker.net }), failsWith('INVALID_REQUEST'), address)
  }
  await rejects(connect({ address: broker.address, net: broker.net, signal: AbortSignal.abort() }), failsWith('ABORTED'))
  const client = await connect({ address: { host: 'broker', port: 9092 }, net: broker.net })
  deepEqual(client.server, { name: 'Scripted', version: '9' })
  await client.close()
  ok(await broker.allGone())
})

test('an error keeps its name and its words; without a name its code says what it is', async () => {
  await using at = await scripted()
  at.broker.script = (asked) => asked.answer('ERROR', { code: 7, message: 'it is there', name: 'TOPIC_EXISTS' })
  await rejects(at.client.admin.createTopic('t'), failsWith('TOPIC_EXISTS', 'it is there'))
  at.broker.script = (asked) => asked.answer('ERROR', { code: 18, message: 'not this one' })
  await rejects(at.client.admin.deleteTopic('t'), failsWith('TOPIC_FORBIDDEN', 'not this one'))
  at.broker.script = (asked) => asked.answer('ERROR', { code: 999, message: 'from later', name: 'NOT_INVENTED_YET' })
  await rejects(at.client.admin.deleteTopic('t'), failsWith('INTERNAL', 'from later'))
})

test('heartbeats are answered with their id', async () => {
  await using at = await scripted()
  const id = Buffer.alloc(16, 3)
  at.broker.script = (asked) => {
    if (asked.op !== 'LIST') return
    asked.connection.send([encodeFrame('HEARTBEAT_REQ', id, {})])
    asked.answer('LISTING', { topics: [] })
  }
  deepEqual(await at.client.admin.listTopics(), [])
  await at.client.admin.listTopics()
  const beat = at.broker.asked.find((asked) => asked.op === 'HEARTBEAT_RESP')
  deepEqual(beat?.correlation, id)
})

test('no answer in time: the request fails, and its late answer finds nobody', async () => {
  const clock = new VirtualClock()
  await using at = await scripted({ clock, timeoutMs: 1000 })
  const deleting = rejects(at.client.admin.deleteTopic('t'), failsWith('REQUEST_TIMED_OUT'))
  while (at.broker.asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
  await clock.advance(1000)
  await deleting
  at.broker.asked[0]?.answer('OK', {})
  at.broker.script = (asked) => asked.answer('OK', {})
  await at.client.admin.deleteTopic('u')
  equal(at.broker.connections.length, 1)
})

test('what makes no sense ends the connection; the next request makes another', async () => {
  for (const garbage of [Buffer.from('ffffffff', 'hex'), Buffer.from('00000003010203', 'hex'), Buffer.alloc(30)]) {
    await using at = await scripted()
    at.broker.script = (asked) => asked.connection.send([garbage])
    await rejects(at.client.admin.deleteTopic('t'))
    at.broker.script = (asked) => asked.answer('OK', {})
    await at.client.admin.deleteTopic('t')
    equal(at.broker.connections.length, 2)
  }
})

test('an answer of another kind ends the connection', async () => {
  await using at = await scripted()
  at.broker.script = (asked) => asked.answer('TOPIC_LIST', { names: [] })
  await rejects(at.client.admin.deleteTopic('t'), failsWith('BAD_PROTOCOL'))
})

test('an error that no request caused is why everything outstanding fails', async () => {
  await using at = await scripted()
  at.broker.script = (asked) => asked.connection.send([encodeFrame('ERROR', ZERO_CORRELATION, { code: 9, message: 'too long' })])
  await rejects(at.client.admin.deleteTopic('t'), failsWith('FRAME_TOO_LARGE', 'too long'))
})

test('looking is tried again after a lost connection, changing is not', async () => {
  await using at = await scripted()
  at.broker.script = (asked) => asked.connection.destroy()
  await rejects(at.client.admin.deleteTopic('t'), failsWith('CONNECTION_CLOSED'))
  at.broker.script = (asked) => {
    if (at.broker.connections.length < 4) asked.connection.destroy()
    else asked.answer('LISTING', { topics: [{ name: 't', id: 'A'.repeat(22), partitions: 2 }] })
  }
  deepEqual(await at.client.admin.listTopics(), [{ name: 't', partitions: 2 }])
  equal(at.broker.connections.length, 4)
})

test('records sent in one turn travel together, by topic and in order', async () => {
  await using at = await scripted()
  at.broker.script = acknowledge
  const producer = at.client.producer({ idempotent: false })
  const sends = ['1', '2', '3'].map((value) => producer.send('a', { value }))
  sends.push(producer.send('b', { value: '4' }))
  await Promise.all(sends)
  deepEqual(
    at.broker.asked.map((asked) => [asked.message['topic'], ...recordsOf(asked)]),
    [
      ['a', '1', '2', '3'],
      ['b', '4'],
    ],
  )
})

test('a full batch goes at once, and the next does not wait for its answer', async () => {
  await using at = await scripted()
  const producer = at.client.producer({ idempotent: false, batchBytes: 100, lingerMs: 5 })
  const done = Promise.all(Array.from({ length: 10 }, (_, i) => producer.send('t', { value: `${i}`.padEnd(40) })))
  while (at.broker.asked.length < 10) await new Promise((resolve) => setImmediate(resolve))
  for (const asked of at.broker.asked) acknowledge(asked)
  await done
  deepEqual(
    at.broker.asked.flatMap(recordsOf).map((value) => value.trim()),
    Array.from({ length: 10 }, (_, i) => `${i}`),
  )
  ok(at.broker.asked.every((asked) => recordsOf(asked).length === 1))
})

test('send waits while too much is outstanding, and keeps its order', async () => {
  await using at = await scripted()
  let open = 0
  let most = 0
  at.broker.script = (asked) => {
    open += recordsOf(asked).join('').length
    most = Math.max(most, open)
    setImmediate(() => {
      open -= recordsOf(asked).join('').length
      acknowledge(asked)
    })
  }
  const producer = at.client.producer({ idempotent: false, maxPendingBytes: 1000, batchBytes: 200 })
  const sends = Array.from({ length: 200 }, (_, i) => producer.send('t', { value: `${i}`.padEnd(60) }))
  sends.push(producer.send('t', { value: 'x'.repeat(5000) }))
  await producer.flush()
  await Promise.all(sends)
  ok(most <= 5000, `${most}`)
  deepEqual(
    at.broker.asked.flatMap(recordsOf).map((value) => value.trim().slice(0, 10)),
    [...Array.from({ length: 200 }, (_, i) => `${i}`), 'xxxxxxxxxx'],
  )
})

test('each record of a request succeeds or fails by itself', async () => {
  await using at = await scripted()
  at.broker.script = (asked) =>
    asked.answer('SENT', {
      results: [
        { partition: 0, offset: 5, error: 0 },
        { partition: 9, offset: -1, error: 1 },
        { partition: 1, offset: -1, error: 3 },
      ],
      errors: [{ code: 1, name: 'PARTITION_MISSING', message: 'no 9' }],
    })
  const producer = at.client.producer({ idempotent: false })
  const sends = Array.from({ length: 4 }, () => producer.send('t', { value: 'v' }))
  const settled = await Promise.allSettled(sends)
  deepEqual(
    settled.map((each) => (each.status === 'fulfilled' ? each.value.offset : (each.reason as { code: string }).code)),
    [5, 'PARTITION_MISSING', 'BAD_PROTOCOL', 'BAD_PROTOCOL'],
  )
})

test('a record above what the broker takes is refused here', async () => {
  const broker = await new ScriptedBroker().listen()
  broker.identity = { ...broker.identity, maxFrameBytes: 2048 }
  broker.script = acknowledge
  await using client = await connect({ address: broker.address, net: broker.net })
  const producer = client.producer({ idempotent: false })
  await rejects(producer.send('t', { value: 'x'.repeat(2000) }), failsWith('RECORD_TOO_LARGE'))
  await Promise.all(Array.from({ length: 20 }, () => producer.send('t', { value: 'x'.repeat(400) })))
  ok(broker.asked.length > 5)
})

test('closing waits for what was sent; afterwards nothing is taken', async () => {
  const broker = await new ScriptedBroker().listen()
  broker.script = (asked) => setImmediate(() => acknowledge(asked))
  const client = await connect({ address: broker.address, net: broker.net })
  const producer = client.producer({ idempotent: false })
  const sent = producer.send('t', { value: 'v' })
  await client.close()
  deepEqual(await sent, { partition: 0, offset: 0 })
  await rejects(producer.send('t', { value: 'v' }), failsWith('CLOSED'))
  await rejects(client.admin.listTopics(), failsWith('CLOSED'))
  ok(await broker.allGone())
})

test('a lost connection fails what is outstanding, and the producer goes on with another', async () => {
  await using at = await scripted()
  const producer = at.client.producer({ idempotent: false })
  at.broker.script = (asked) => asked.connection.destroy()
  await rejects(producer.send('t', { value: '1' }), failsWith('CONNECTION_CLOSED'))
  at.broker.script = acknowledge
  await Promise.all([producer.send('t', { value: '2' }), producer.send('t', { value: '3' })])
  deepEqual(at.broker.asked.flatMap(recordsOf), ['1', '2', '3'])
})

test('the signal of the client ends what waits', async () => {
  const abort = new AbortController()
  const broker = await new ScriptedBroker().listen()
  const client = await connect({ address: broker.address, net: broker.net, signal: abort.signal })
  const waiting = client.producer({ idempotent: false }).send('t', { value: 'v' })
  abort.abort()
  await rejects(waiting)
  await client.close()
  ok(await broker.allGone())
})
