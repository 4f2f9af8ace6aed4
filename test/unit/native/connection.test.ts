import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import { encodeFrame, ZERO_CORRELATION } from '../../../src/wire/frame.ts'
import { OPCODES } from '../../../src/wire/opcodes.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { FakeSocket } from '../../support/fake-socket.ts'
import { testNativeDoor } from '../../support/native-door.ts'

const ZERO = '0'.repeat(32)

function produce(value: string, topic = 't') {
  return { codec: 0, topic, key: Buffer.from('k'), value: Buffer.from(value) }
}

test('no login in time: code 8, whatever is sent meanwhile', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect('greeted')
  for (let second = 0; second < 5; second++) {
    await connection.exchange('HEARTBEAT_REQ', {})
    await at.clock.advance(1000)
  }
  const [error] = await connection.received()
  equal(error?.message['code'], 8)
  equal(error?.correlation, ZERO)
  ok(connection.socket.closed)
  equal(at.door.openConnections, 0)
})

test('a frame before login that is not complete in time: code 7', async () => {
  const at = await testNativeDoor({ handshakeDeadlineMs: 60_000 })
  const connection = await at.connect('greeted')
  connection.socket.push(Buffer.from('000000', 'hex'))
  await at.clock.advance(4999)
  equal(connection.socket.closed, false)
  await at.clock.advance(1)
  const [error] = await connection.received()
  equal(error?.message['code'], 7)
  ok(connection.socket.closed)
})

test('a frame that began must be complete within the idle deadline; silence between frames is not idle', async () => {
  const at = await testNativeDoor({ idleDeadlineMs: 1000 })
  const connection = await at.connect()
  await at.clock.advance(20_000)
  equal(connection.socket.closed, false)
  const frame = encodeFrame('LIST_TOPICS', connection.correlation(), {})
  for (const byte of frame.subarray(0, 10)) {
    connection.socket.push(Buffer.from([byte]))
    await at.clock.advance(90)
  }
  equal(connection.socket.closed, false)
  await at.clock.advance(100)
  const [error] = await connection.received()
  equal(error?.message['code'], 7)
  ok(connection.socket.closed)
})

test('a quiet client is asked, and dropped after interval times threshold', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect()
  await at.clock.advance(30_000)
  const [probe] = await connection.received()
  equal(probe?.op, 'HEARTBEAT_REQ')
  connection.send('HEARTBEAT_RESP', {}, Buffer.from(probe?.correlation ?? '', 'hex'))
  await at.clock.advance(30_000)
  equal((await connection.received())[0]?.op, 'HEARTBEAT_REQ')
  await at.clock.advance(59_999)
  equal(connection.socket.closed, false)
  await connection.received()
  await at.clock.advance(1)
  const [error] = await connection.received()
  equal(error?.op, 'ERROR')
  equal(error?.message['code'], 7)
  equal(error?.correlation, ZERO)
  ok(connection.socket.closed)
})

test('what is sent and not taken within the send deadline ends the connection without a frame', async () => {
  const at = await testNativeDoor({ sendDeadlineMs: 2000 })
  const connection = await at.connect()
  connection.socket.holding = true
  await connection.exchange('HEARTBEAT_REQ', {})
  await at.clock.advance(1999)
  equal(connection.socket.destroyed, false)
  await at.clock.advance(1)
  ok(connection.socket.destroyed)
  deepEqual(await connection.received(), [])
})

test('while a client does not read, its next requests wait, and memory with them', async () => {
  const at = await testNativeDoor({ maxPendingBytes: 400_000, maxWaitingBytes: 10_000, sendDeadlineMs: 1e9 })
  await createTopic(at.broker, 't')
  const connection = await at.connect('extended')
  const big = Buffer.alloc(60_000, 1)
  for (let i = 0; i < 4; i++) await connection.exchange('PRODUCE', { codec: 0, topic: 't', key: Buffer.from('k'), value: big })
  connection.socket.holding = true
  for (let i = 0; i < 200; i++) {
    connection.send('READ', {
      topic: 't',
      isolation: 0,
      maxRecords: 10,
      maxBytes: 1_000_000,
      maxWaitMs: 0,
      partitions: [{ partition: 0, start: 1, value: 0 }],
    })
  }
  const answered = (await connection.received()).length
  ok(answered < 3, `${answered} answers`)
  ok(connection.socket.queuedBytes <= 400_000)
  ok(connection.socket.paused)
  connection.socket.drain()
  let rest = 0
  for (let round = 0; round < 400 && rest < 200 - answered; round++) rest += (await connection.received()).length
  equal(rest + answered, 200)
  equal(connection.socket.paused, false)
})

test('an answer that would exceed the pending bytes ends the connection without a frame', async () => {
  const at = await testNativeDoor({ maxPendingBytes: 2000 })
  const connection = await at.connect()
  for (let i = 0; i < 30; i++) await createTopic(at.broker, `a-topic-with-a-long-name-that-fills-the-list-${i}`.padEnd(80, 'x'))
  deepEqual(await connection.exchange('LIST_TOPICS', {}), [])
  ok(connection.socket.destroyed)
})

test('produce does not wait for the acknowledgement before; what follows waits for all of them', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  const connection = await at.connect()
  const log = at.logs.at('t', 0)
  log.autoSync = false
  const ids = [connection.send('PRODUCE', produce('1')), connection.send('PRODUCE', produce('2')), connection.send('LIST_TOPICS', {})]
  deepEqual(await connection.received(), [])
  equal(log.logEndOffset, 2)
  log.sync()
  const answers = await connection.received()
  deepEqual(
    answers.map((answer) => [answer.correlation, answer.op]),
    [
      [ids[0], 'PRODUCE_ACK'],
      [ids[1], 'PRODUCE_ACK'],
      [ids[2], 'TOPIC_LIST'],
    ],
  )
})

test('a refused request in the midst keeps its place, and the connection', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  const connection = await at.connect()
  connection.send('PRODUCE', produce('1'))
  connection.send('PRODUCE', produce('2', 'missing'))
  connection.send('PRODUCE', produce('3'))
  const answers = await connection.received()
  deepEqual(
    answers.map((answer) => answer.op),
    ['PRODUCE_ACK', 'ERROR', 'PRODUCE_ACK'],
  )
  equal(answers[1]?.message['code'], 5)
})

test('a stream that breaks off is told after the answers before it', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect()
  const good = encodeFrame('LIST_TOPICS', connection.correlation(), {})
  connection.socket.push(Buffer.concat([good, Buffer.from('ffffffff', 'hex'), Buffer.alloc(100)]))
  const answers = await connection.received()
  deepEqual(
    answers.map((answer) => answer.op),
    ['TOPIC_LIST', 'ERROR'],
  )
  equal(answers[1]?.message['code'], 9)
  ok(connection.socket.closed)
})

test('a login that fails answers the request by its id, then closes', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect('greeted')
  const correlation = connection.send('AUTH_SCRAM', { mechanism: 'scram-sha-256', message: 'n,,n=u,r=x' })
  const [error] = await connection.received()
  equal(error?.correlation, correlation)
  equal(error?.message['code'], 4)
  ok(connection.socket.closed)
})

test('goodbye closes without a reply, after the answers before it', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect()
  connection.send('LIST_TOPICS', {})
  connection.send('GOODBYE', {})
  connection.send('LIST_TOPICS', {})
  deepEqual(
    (await connection.received()).map((answer) => answer.op),
    ['TOPIC_LIST'],
  )
  ok(connection.socket.closed)
})

test('the extension is unknown to whoever did not ask for it', async () => {
  const at = await testNativeDoor()
  const plain = await at.connect('authenticated')
  equal(await plain.error('LIST', { flags: 0 }), 2)
  const extended = await at.connect('extended')
  equal((await extended.call('LIST', { flags: 0 })).op, 'LISTING')
  const refused = await extended.call('DESCRIBE', { name: 'missing' })
  deepEqual([refused.message['code'], refused.message['name']], [5, 'TOPIC_MISSING'])
})

test('the first login frees the seat of the address, once', async () => {
  const at = await testNativeDoor()
  const connection = await at.connect('greeted')
  equal(connection.logins, 0)
  await connection.call('AUTH', { username: '', password: Buffer.alloc(0) })
  equal(await connection.error('AUTH', { username: '', password: Buffer.alloc(0) }), 1)
  equal(connection.logins, 1)
})

test('at the end of the broker a parked read is answered, the reason told, and every connection closed', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  const reading = await at.connect('extended')
  const idle = await at.connect()
  reading.send('READ', {
    topic: 't',
    isolation: 0,
    maxRecords: 1,
    maxBytes: 100,
    maxWaitMs: 30_000,
    partitions: [{ partition: 0, start: 1, value: 0 }],
  })
  deepEqual(await reading.received(), [])
  const closing = at.door.close()
  const [result, error] = await reading.received()
  equal(result?.op, 'READ_RESULT')
  equal(error?.message['code'], 7)
  deepEqual([(await idle.received())[0]?.correlation, idle.socket.closed, reading.socket.closed], [ZERO, true, true])
  await closing
  equal(at.door.openConnections, 0)
})

test('nothing is left behind when connections end', async () => {
  const at = await testNativeDoor()
  const before = at.clock.pendingTimers
  for (let i = 0; i < 5; i++) {
    const connection = await at.connect()
    connection.socket.push(Buffer.from('0000ffff', 'hex'))
    connection.socket.close(i % 2 === 0 ? null : new Error('ECONNRESET'))
  }
  equal(at.clock.pendingTimers, before)
  equal(at.door.openConnections, 0)
})

test('strangers with unfinished frames share a bound of their own, and whoever logs in is not concerned', async () => {
  const at = await testNativeDoor({ maxPartialBytes: 100_000 })
  await createTopic(at.broker, 't')
  const strangers = []
  for (let i = 0; i < 10; i++) {
    const stranger = await at.connect('greeted')
    strangers.push(stranger)
    stranger.socket.push(Buffer.concat([Buffer.from('000fffff', 'hex'), Buffer.alloc(30_000)]))
  }
  const refused = []
  for (const stranger of strangers) refused.push((await stranger.received())[0]?.message['code'])
  deepEqual(refused.slice(3), [6, 6, 6, 6, 6, 6, 6])
  ok(!strangers[0]?.socket.closed && strangers[9]?.socket.closed)
  const client = await at.connect()
  const frame = encodeFrame('PRODUCE', client.correlation(), { ...produce('x'.repeat(60_000)) })
  client.socket.push(frame.subarray(0, 50_000))
  client.socket.push(frame.subarray(50_000))
  equal((await client.received())[0]?.op, 'PRODUCE_ACK')
})

test('a stranger who asks and does not read gets little', async () => {
  const at = await testNativeDoor()
  const stranger = await at.connect('greeted')
  stranger.socket.holding = true
  for (let i = 0; i < 5000; i++) stranger.send('LIST_TOPICS', {})
  await stranger.received()
  ok(stranger.socket.paused)
  ok(stranger.socket.queuedBytes < 80_000, `${stranger.socket.queuedBytes}`)
})

test('a read that waits ends with its connection', async () => {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't')
  const before = at.clock.pendingTimers
  const connection = await at.connect('extended')
  connection.send('READ', {
    topic: 't',
    isolation: 0,
    maxRecords: 1,
    maxBytes: 100,
    maxWaitMs: 30_000,
    partitions: [{ partition: 0, start: 1, value: 0 }],
  })
  await connection.received()
  ok(at.clock.pendingTimers > before + 1)
  connection.socket.close()
  await connection.received()
  equal(at.clock.pendingTimers, before)
})

test('one connection too many is told so with the zero id and closed, also when it does not read; a flood of them is closed silently', async () => {
  const at = await testNativeDoor()
  const polite = new FakeSocket()
  at.door.turnAway(polite)
  const bytes = polite.take()
  equal(bytes[4], OPCODES.ERROR.code)
  deepEqual(bytes.subarray(5, 21), ZERO_CORRELATION)
  equal(bytes.readUInt16BE(21), 6)
  equal(polite.closed, true)
  const deaf = Array.from({ length: 70 }, () => {
    const socket = new FakeSocket()
    socket.holding = true
    at.door.turnAway(socket)
    return socket
  })
  equal(deaf.filter(({ destroyed }) => destroyed).length, 6)
  await at.clock.advance(250)
  equal(deaf.filter(({ closed }) => closed).length, 70)
  const next = new FakeSocket()
  at.door.turnAway(next)
  equal(next.take().length > 0, true)
})
