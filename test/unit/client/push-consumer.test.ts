import { deepEqual, equal, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import type { PushConsumerOptions } from '../../../src/client/types.ts'
import { isCode } from '../../../src/core/errors.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../../src/wire/frame.ts'
import { type Asked, ScriptedBroker } from '../../support/scripted-broker.ts'

const record = (offset: number) => ({ offset, timestampMs: 0, key: null, value: Buffer.from(`${offset}`), headers: [] })
const streamed = (...offsets: number[]) =>
  encodeFrame('STREAMED', ZERO_CORRELATION, { topic: 't', partition: 0, records: offsets.map(record) })

/** Answers STREAM, and pushes records of one partition in the same breath. */
function streams(asked: Asked, ...offsets: number[]): void {
  asked.connection.send([Buffer.concat([encodeFrame('OK', asked.correlation, {}), streamed(...offsets)])])
}

async function scripted(options: Partial<PushConsumerOptions> = {}) {
  const broker = await new ScriptedBroker().listen()
  const client = await connect({ address: broker.address, net: broker.net })
  // Outside of membership: a start of its own.
  const consumer = client.pushConsumer({ group: 'g', topics: ['t'], from: { offset: 0 }, ...options })
  return { broker, consumer, each: consumer[Symbol.asyncIterator](), [Symbol.asyncDispose]: () => client.close() }
}

test('a record that is in hand when the connection breaks gives its credit to the next connection', async () => {
  await using at = await scripted({ commit: 'manual', maxRecords: 1 })
  at.broker.script = (asked) => {
    if (asked.op === 'STREAM') streams(asked, 0)
    else if (asked.op === 'CREDIT' && asked.connection === at.broker.connections[2]) asked.connection.send([streamed(1)])
    else if (asked.op === 'SETTLE') asked.answer('SETTLED', { failed: [] })
  }
  equal((await at.each.next()).value.offset, 0)
  at.broker.connections.at(-1)?.destroy()
  equal((await at.each.next()).value.offset, 1)
})

test('a stream that is refused after a broken connection leaves nothing out', async () => {
  await using at = await scripted({ commit: 'manual' })
  const asked: unknown[] = []
  at.broker.script = (each) => {
    if (each.op === 'STREAM') {
      const [{ positions }] = each.message['topics'] as [{ positions: unknown }]
      asked.push(positions)
      if (asked.length === 1) streams(each, 0, 1, 2)
      else if (asked.length === 2) each.answer('ERROR', { code: 7, message: 'not now', name: 'STORAGE_FAILED' })
      else streams(each, 1, 2)
    } else if (each.op === 'SETTLE') each.answer('SETTLED', { failed: [] })
    else if (each.op === 'STORE_POSITIONS') each.answer('OK', {})
  }
  await (await at.each.next()).value.ack()
  equal((await at.each.next()).value.offset, 1)
  at.broker.connections.at(-1)?.destroy()
  equal((await at.each.next()).value.offset, 2)
  const ended = at.each.next()
  while (asked.length < 3) await new Promise((resolve) => setImmediate(resolve))
  await at.consumer.close()
  equal((await ended).done, true)
  deepEqual(asked.slice(1), [[{ partition: 0, offset: 1 }], [{ partition: 0, offset: 1 }]])
})

test('a signal ends the waiting for an ack and for the answer to a nack', async () => {
  await using at = await scripted({ commit: 'manual' })
  at.broker.script = (asked) => {
    if (asked.op === 'STREAM') streams(asked, 0, 1)
    else if (asked.op === 'STORE_POSITIONS') asked.answer('OK', {})
  }
  const stop = new AbortController()
  const records = [(await at.each.next()).value, (await at.each.next()).value]
  const waiting = [records[0].ack({ signal: stop.signal }), records[1].nack('no', { signal: stop.signal })]
  stop.abort()
  for (const each of waiting) await rejects(each, (error) => isCode(error, 'ABORTED'))
  at.broker.connections.at(-1)?.destroy()
})
