import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import type { Message } from '../../../src/wire/messages.ts'
import type { OpName } from '../../../src/wire/opcodes.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

/**
 * A client as those of version 1 in the field behave: one request at a time; it reads until a frame has the id of its request, answers the
 * broker's heartbeats only meanwhile, gives records with the zero id to whoever wants them and drops everything else.
 */
class ReferenceClient {
  readonly #connection: TestNativeConnection
  readonly pushed: Received[] = []
  #waiting: Received[] = []

  constructor(connection: TestNativeConnection) {
    this.#connection = connection
  }

  async request<N extends OpName>(op: N, message: Message<N>): Promise<Received[]> {
    const correlation = this.#connection.send(op, message)
    this.#waiting.push(...(await this.#connection.received()))
    const answer: Received[] = []
    for (const frame of this.#waiting.splice(0)) {
      if (frame.op === 'HEARTBEAT_REQ') this.#connection.send('HEARTBEAT_RESP', {}, Buffer.from(frame.correlation, 'hex'))
      else if (frame.correlation === correlation) answer.push(frame)
      else if (frame.op === 'RECORD' && /^0+$/.test(frame.correlation)) this.pushed.push(frame)
    }
    return answer
  }

  async ok<N extends OpName>(op: N, message: Message<N>): Promise<Received> {
    const last = (await this.request(op, message)).at(-1)
    ok(last !== undefined && last.op !== 'ERROR', `${op}: ${JSON.stringify(last?.message)}`)
    return last
  }

  /** HELLO, who it is, AUTH, and with a name a producer id. */
  async open(): Promise<this> {
    equal((await this.ok('HELLO', { version: 1 })).op, 'WELCOME')
    equal((await this.ok('IDENTIFY_CLIENT', { name: 'reference', version: '1' })).op, 'IDENTIFY_ACK')
    equal((await this.ok('AUTH', { username: 'u', password: Buffer.from('p') })).op, 'AUTH_OK')
    return this
  }

  async fetch(group: string, maxRecords = 100): Promise<string[]> {
    const frames = await this.request('FETCH', { topic: 't', group, maxRecords, isolation: 0, flags: 1 })
    equal(frames.at(-1)?.op, 'OK')
    return frames.flatMap(({ message }) => ((message['records'] ?? []) as { value: Buffer }[]).map(({ value }) => value.toString()))
  }
}

async function door() {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 2)
  const client = async () => await new ReferenceClient(await at.connect('new')).open()
  return { at, client }
}

test('a working day of a client of version 1: produce, a transaction, fetch, commit, a group, a push, the end', async () => {
  const { at, client } = await door()
  const producer = await client()
  const { pid, epoch } = (await producer.ok('INIT_PRODUCER_ID', { producerName: 'billing' })).message as { pid: number; epoch: number }
  await producer.ok('BEGIN_TXN', {})
  await producer.ok('PRODUCE_IDEMPOTENT', { pid, seq: 0, epoch, codec: 0, topic: 't', key: Buffer.from('k'), value: Buffer.from('one') })
  await producer.ok('TXN_OFFSET_COMMIT', { group: 'other', offsets: [{ topic: 't', partition: 0, offset: 0 }] })
  equal((await producer.ok('END_TXN', { commit: 1 })).op, 'OK')
  await producer.ok('PRODUCE', { codec: 0, topic: 't', key: Buffer.from('k'), value: Buffer.from('two') })

  const [first, second] = [await client(), await client()]
  const assigned = (frame: Received) => (frame.message['assignment'] as { partitions: number[] }[]).flatMap(({ partitions }) => partitions)
  deepEqual(assigned(await first.ok('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t'] })), [0, 1])
  deepEqual(assigned(await second.ok('JOIN_GROUP', { group: 'g', memberId: 'b', topics: ['t'] })), [1])
  const read = [...(await first.fetch('g')), ...(await second.fetch('g'))]
  deepEqual(read.sort(), ['one', 'two'])
  // It finds out about a change by joining again, and about its end by code 12.
  await at.clock.advance(25_000)
  await first.ok('GROUP_HEARTBEAT', { group: 'g', memberId: 'a' })
  await at.clock.advance(20_000)
  const [lapsed] = await second.request('FETCH', { topic: 't', group: 'g', maxRecords: 1, isolation: 0, flags: 1 })
  deepEqual([lapsed?.op, lapsed?.message['code']], ['ERROR', 12])
  deepEqual(assigned(await first.ok('JOIN_GROUP', { group: 'g', memberId: 'a', topics: ['t'] })), [0, 1])

  const subscriber = await client()
  await subscriber.ok('SUBSCRIBE', { topic: 't', group: 'pushed', isolation: 1 })
  await subscriber.ok('LIST_OFFSETS', { topic: 't' })
  deepEqual(
    subscriber.pushed.map(({ message }) => String(message['value'])),
    ['one', 'two'],
  )
  deepEqual(await first.request('GOODBYE', {}), [])
})

test('whoever answers the heartbeats of the broker while it asks stays; a silent one goes', async () => {
  const { at, client } = await door()
  const [busy, silent] = [await client(), await at.connect()]
  for (let minute = 0; minute < 5; minute++) {
    await at.clock.advance(60_000)
    await busy.ok('LIST_TOPICS', {})
  }
  equal(silent.socket.closed, true)
  const frames = await silent.received()
  deepEqual([frames.at(-1)?.op, frames.at(-1)?.message['code'], Number(`0x${frames.at(-1)?.correlation}`)], ['ERROR', 7, 0])
})
