import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { connect as dial, type Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/client/index.ts'
import { BrokerProcess } from '../support/broker-process.ts'

/**
 * Memory stays bounded while producers go as fast as they are acknowledged and consumers do not keep up: some read slowly, some ask
 * for megabytes and never read an answer. Topics are replaced as they grow, so the disk is bounded too. `SOAK_SECONDS` shortens it.
 */
const SECONDS = Number(process.env['SOAK_SECONDS'] ?? 600)
const VALUE_BYTES = 16 * 1024
const SEND_AT_ONCE = 64
const TOPIC_BYTES = 512 * 1024 * 1024
const DEAF_SOCKETS = 8
const LIMIT_MB = 512

test(`slow consumers and fast producers for ${SECONDS} s`, { timeout: (SECONDS + 120) * 1000 }, async (t) => {
  await using broker = await BrokerProcess.start()
  await using admin = await connect({ address: broker.address, name: 'soak-admin' })
  const stop = new AbortController()
  let topic = 'soak-0'
  let produced = 0
  await admin.admin.createTopic(topic, { partitions: 4 })

  const producing = [0, 1].map(async () => {
    await using client = await connect({ address: broker.address, name: 'soak-producer' })
    await using producer = client.producer()
    const records = Array.from({ length: SEND_AT_ONCE }, () => ({ value: Buffer.alloc(VALUE_BYTES, 120) }))
    while (!stop.signal.aborted) {
      try {
        await producer.sendMany(topic, records)
        produced += SEND_AT_ONCE * VALUE_BYTES
      } catch {
        // The topic was replaced meanwhile; the next round names the new one.
        await pause(1)
      }
    }
  })
  const slow = readSlowly(broker.address, () => topic, stop.signal)
  const deaf: Socket[] = []
  const rss: number[] = []
  let generation = 0
  let topicStart = 0
  for (let second = 0; second < SECONDS; second++) {
    await pause(1000)
    rss.push(await residentMb(broker.pid))
    if (deaf.length < DEAF_SOCKETS) deaf.push(neverReads(broker.address, topic))
    if (produced - topicStart > TOPIC_BYTES) {
      const old = topic
      const next = `soak-${++generation}`
      await admin.admin.createTopic(next, { partitions: 4 })
      topic = next
      topicStart = produced
      await admin.admin.deleteTopic(old)
      for (const socket of deaf.splice(0)) socket.destroy()
    }
  }
  stop.abort()
  await Promise.all(producing)
  const slowRecords = await slow
  for (const socket of deaf) socket.destroy()
  const third = Math.floor(rss.length / 3)
  const [early, late] = [Math.max(...rss.slice(0, third)), Math.max(...rss.slice(-third))]
  t.diagnostic(
    `${Math.round(produced / 1e6)} MB produced, ${slowRecords} records read slowly; RSS at most ${Math.max(...rss)} MB, ${early} MB in the first third, ${late} MB in the last`,
  )
  assert.ok(produced > 0 && slowRecords > 0)
  assert.ok(Math.max(...rss) < LIMIT_MB, `RSS reached ${Math.max(...rss)} MB`)
  assert.ok(late < early * 1.5 + 32, `RSS grew from ${early} MB to ${late} MB`)
  assert.equal(await broker.stop(), 0)
})

async function readSlowly(address: string, topic: () => string, stop: AbortSignal): Promise<number> {
  let count = 0
  await using client = await connect({ address, name: 'soak-reader' })
  while (!stop.aborted) {
    try {
      for await (const _ of client.reader({ topic: topic(), follow: true, signal: stop })) {
        count++
        await pause(20)
        if (stop.aborted) break
      }
    } catch {
      // Its topic was deleted; on to the next.
      await pause(50)
    }
  }
  return count
}

/** A connection that asks for up to 50 MiB again and again and reads nothing. */
function neverReads(address: string, topic: string): Socket {
  const [host = '', port = ''] = address.split(':')
  const socket = dial(Number(port), host)
  socket.pause()
  socket.on('error', () => {})
  const fetch = fetchRequest(topic)
  socket.on('connect', () => {
    for (let i = 0; i < 100; i++) socket.write(fetch)
  })
  return socket
}

/** Fetch version 4 of partition 0 from offset 0, up to 50 MiB. */
function fetchRequest(topic: string): Buffer {
  const name = Buffer.from(topic)
  const body = Buffer.alloc(14 + 17 + 4 + 2 + name.length + 4 + 16)
  let at = 0
  const int16 = (value: number) => (at = body.writeInt16BE(value, at))
  const int32 = (value: number) => (at = body.writeInt32BE(value, at))
  int16(1)
  int16(4)
  int32(1)
  int16(4)
  at += body.write('soak', at)
  int32(-1)
  int32(500)
  int32(1)
  int32(50 * 1024 * 1024)
  at = body.writeInt8(0, at)
  int32(1)
  int16(name.length)
  at += name.copy(body, at)
  int32(1)
  int32(0)
  int32(0)
  int32(0)
  int32(50 * 1024 * 1024)
  const frame = Buffer.alloc(4 + at)
  frame.writeInt32BE(at, 0)
  body.copy(frame, 4, 0, at)
  return frame
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
}
