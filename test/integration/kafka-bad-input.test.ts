import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { framed, frames, rawRequest, readResponse, requestFrame } from '../support/kafka-frames.ts'
import { type LiveKafka, liveKafka } from '../support/live-kafka.ts'

const MIB = 1024 * 1024

async function open(live: LiveKafka): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: live.port })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Everything that the broker sends until it closes. */
async function untilClosed(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  if (!socket.closed) await once(socket, 'close')
  return Buffer.concat(chunks)
}

/** Shows that the broker serves: a fresh connection is answered. */
async function assertServes(live: LiveKafka): Promise<void> {
  const socket = await open(live)
  socket.write(requestFrame('Metadata', 1, { topics: [] }))
  const chunks: Buffer[] = []
  for (;;) {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    if (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE(0)) break
  }
  const [answer] = frames(Buffer.concat(chunks))
  assert.ok(answer)
  assert.equal(readResponse('Metadata', 1, answer).body.brokers.length, 1)
  socket.destroy()
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value | 0)
  return bytes
}

const zero = Buffer.from([0])

describe('bad input at the Kafka door, over sockets', () => {
  const BAD: readonly [string, Buffer][] = [
    ['a negative length', Buffer.concat([int32(-5), zero])],
    ['a length of 2 GiB', Buffer.concat([int32(2 ** 31 - 1), zero])],
    ['a length of 100 MiB before a valid request', Buffer.concat([int32(100 * MIB), zero])],
    ['a key that nobody knows', rawRequest(255, 0, Buffer.alloc(20))],
    ['a topic count that lies', framed(Buffer.from('0003000100000001ffff7fffffff', 'hex'))],
    ['a negative topic count', framed(Buffer.from('0003000100000001fffffffffff0', 'hex'))],
    ['a string length that lies', framed(Buffer.from('0003000100000001ffff000000017fff41', 'hex'))],
    ['random bytes', framed(Buffer.concat([Buffer.from([0, 3, 0, 12]), Buffer.alloc(200, 0xa5)]))],
  ]
  for (const [what, bytes] of BAD) {
    it(`${what}: closed without an answer, and the broker serves on`, async () => {
      await using live = await liveKafka()
      const socket = await open(live)
      const rest = untilClosed(socket)
      socket.write(bytes)
      assert.equal((await rest).length, 0)
      await assertServes(live)
      assert.ok(live.log.lines.some(({ level }) => level === 'warn'))
      assert.ok(!live.log.lines.some(({ level }) => level === 'error'))
    })
  }

  it('500 connections that announce a frame and send one byte of it take next to no memory', async () => {
    await using live = await liveKafka()
    const sockets = await Promise.all(Array.from({ length: 500 }, () => open(live)))
    for (const socket of sockets) socket.write(Buffer.concat([int32(512 * 1024), zero]))
    await assertServes(live)
    assert.ok(live.door.partialBytes <= 500 * 65_536, String(live.door.partialBytes))
    for (const socket of sockets) socket.destroy()
  })

  it('a sender that never completes its first request is cut, others are served meanwhile', async () => {
    await using live = await liveKafka({ door: { firstRequestMs: 50 } })
    const socket = await open(live)
    socket.write(requestFrame('Metadata', 1, { topics: [] }).subarray(0, 12))
    await assertServes(live)
    assert.equal((await untilClosed(socket)).length, 0)
  })

  it('a reader that takes nothing is held at a bound, and gets everything when it reads', async () => {
    await using live = await liveKafka({ door: { maxQueuedBytes: MIB, maxWaitingBytes: 64 * 1024 } })
    const socket = await open(live)
    socket.pause()
    const request = requestFrame('ApiVersions', 0, {})
    const count = 200_000
    for (let sent = 0; sent < count; sent += 10_000) socket.write(Buffer.concat(Array.from({ length: 10_000 }, () => request)))
    await assertServes(live)
    let received = 0
    let size = 0
    socket.resume()
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      if (size === 0) size = 4 + chunk.readInt32BE(0)
      received += chunk.length
      if (received >= size * count) break
    }
    assert.equal(received, size * count)
    socket.destroy()
  })

  it('clients that go in the middle of a request leave nothing behind', async () => {
    await using live = await liveKafka()
    const bytes = requestFrame('Produce', 7, {
      acks: 1,
      topicData: [{ name: 't', partitionData: [{ index: 0, records: Buffer.alloc(200_000) }] }],
    })
    const sockets = await Promise.all(Array.from({ length: 50 }, () => open(live)))
    for (const [index, socket] of sockets.entries()) {
      socket.write(bytes.subarray(0, 1 + Math.floor((bytes.length / 50) * index)))
      socket.end()
    }
    await Promise.all(sockets.map(untilClosed))
    await assertServes(live)
    assert.equal(live.door.partialBytes, 0)
  })
})
