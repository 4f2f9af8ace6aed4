import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import * as v from 'valibot'
import { bytes, json, nullable, type Serde, TopicFormat, text } from '../../../src/client/index.ts'
import type { ClientRecord, RecordToSend } from '../../../src/client/types.ts'
import { isCode } from '../../../src/core/errors.ts'

const ORDER = v.object({ id: v.pipe(v.number(), v.integer()), note: v.optional(v.string(), 'none') })

function record(value: string | Buffer | null, offset = 7): ClientRecord {
  const found = typeof value === 'string' ? Buffer.from(value) : value
  return { topic: 'orders', partition: 2, offset, timestampMs: 5, key: Buffer.from('k'), value: found, headers: [] }
}

async function* source(...records: ClientRecord[]): AsyncGenerator<ClientRecord> {
  yield* records
}

async function roundTrip<T>(serde: Serde<T>, value: T): Promise<T> {
  const encoded = await serde.encode(value)
  return serde.decode(encoded === null ? null : Buffer.from(encoded))
}

const invalid = (text: string | RegExp) => (error: unknown) => {
  ok(isCode(error, 'INVALID_RECORD'), String(error))
  if (typeof text === 'string') equal(error.message, text)
  else ok(text.test(error.message), error.message)
  return true
}

test('text, bytes and JSON come back as they were, tombstones and empty values told apart', async () => {
  for (const value of ['', 'é\u0000𝄞', null]) equal(await roundTrip(text, value), value)
  deepEqual(await roundTrip(bytes, Buffer.from([0, 255])), Buffer.from([0, 255]))
  equal(await roundTrip(bytes, null), null)
  for (const value of [{ a: [1, null] }, 'x', 0, false, null]) deepEqual(await roundTrip(json(), value), value)
  equal(await json().encode(null), 'null')
  equal(await nullable(json()).encode(null), null)
  equal(await nullable(json(ORDER)).decode(null), null)
})

test('what cannot be encoded or decoded is refused', async () => {
  await rejects(async () => text.decode(Buffer.from([0xff])), invalid('the bytes are no UTF-8 text'))
  await rejects(async () => json().decode(Buffer.from('{')), invalid(/^no JSON: /))
  await rejects(async () => json().encode(undefined), invalid('a undefined has no JSON form'))
})

test('a validator checks what is sent and gives its output of what is read', async () => {
  const format = new TopicFormat('orders', { key: text, value: json(ORDER) })
  const sent: RecordToSend[] = []
  const producer = {
    send: async (topic: string, each: RecordToSend) => {
      equal(topic, 'orders')
      sent.push(each)
      return { partition: 0, offset: sent.length - 1 }
    },
  }
  deepEqual(await format.send(producer, { key: 'a', value: { id: 1, note: 'n' }, partition: 3 }), { partition: 0, offset: 0 })
  deepEqual(sent, [{ partition: 3, key: 'a', value: '{"id":1,"note":"n"}' }])
  await rejects(format.send(producer, { key: 'a', value: { id: 1.5, note: 'n' } }), invalid(/^id: /))
  equal(sent.length, 1)

  const read = []
  for await (const each of format.read(source(record('{"id":4}')))) read.push(each)
  deepEqual(
    read.map(({ record: raw, ...rest }) => rest),
    [{ topic: 'orders', partition: 2, offset: 7, timestampMs: 5, headers: [], key: 'k', value: { id: 4, note: 'none' } }],
  )
  equal(read[0]?.record.value?.toString(), '{"id":4}')
})

test('a record without the form of the topic ends the loop, or goes to onInvalid and the loop goes on', async () => {
  const format = new TopicFormat('orders', { key: text, value: json(ORDER) })
  const records = () => source(record('{"id":1}', 1), record('{"id":"x"}', 2), record(null, 3), record('{"id":4}', 4))
  const seen: number[] = []
  const all = async () => {
    for await (const { offset } of format.read(records())) seen.push(offset)
  }
  await rejects(all(), invalid(/^the record at offset 2 of orders-2 does not have the form of the topic: id: /))
  deepEqual(seen.splice(0), [1])
  const told: number[] = []
  const onInvalid = (each: ClientRecord, error: unknown) => {
    ok(isCode(error, 'INVALID_RECORD'))
    told.push(each.offset)
  }
  for await (const { offset } of format.read(records(), { onInvalid })) seen.push(offset)
  deepEqual(
    [seen, told],
    [
      [1, 4],
      [2, 3],
    ],
  )
})

test('a validator that answers later is waited for', async () => {
  const schema = { '~standard': { version: 1, vendor: 'test', validate: async () => ({ value: 'later' }) } } as const
  equal(await json(schema).decode(Buffer.from('1')), 'later')
  const refusing = {
    '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no', path: ['a', { key: 0 }] }] }) },
  } as const
  await rejects(async () => json(refusing).decode(Buffer.from('1')), invalid('a.0: no'))
})
