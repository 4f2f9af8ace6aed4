import { deepEqual, equal, ok } from 'node:assert/strict'
import test from 'node:test'
import type { Message } from '../../../src/wire/messages.ts'
import type { OpName } from '../../../src/wire/opcodes.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { type Received, type TestNativeConnection, testNativeDoor } from '../../support/native-door.ts'

interface Settings {
  /** Told with IDENTIFY_CLIENT. */
  readonly name?: string
  /** Without it there is no AUTH. Default a user. */
  readonly user?: string | null
  readonly idempotent?: boolean
  readonly producerName?: string
  /** Takes records that are pushed; without it they are dropped. */
  readonly onRecord?: (record: Received) => void
}

/**
 * A client as those of version 1 in the field behave: one request at a time; it reads until a frame has the id of its request, answers the
 * broker's heartbeats only meanwhile, gives records with the zero id to whoever wants them and drops everything else.
 */
class ReferenceClient {
  readonly #connection: TestNativeConnection
  readonly #settings: Settings
  /** Frames that were neither asked for nor wanted. */
  dropped = 0
  /** Of INIT_PRODUCER_ID. */
  producer = { pid: -1, epoch: -1 }
  #isAsking = false

  constructor(connection: TestNativeConnection, settings: Settings = {}) {
    this.#connection = connection
    this.#settings = settings
  }

  async request<N extends OpName>(op: N, message: Message<N>): Promise<Received[]> {
    ok(!this.#isAsking, 'one request at a time')
    this.#isAsking = true
    const correlation = this.#connection.send(op, message)
    const answer: Received[] = []
    for (const frame of await this.#connection.received()) {
      if (frame.op === 'HEARTBEAT_REQ') this.#connection.send('HEARTBEAT_RESP', {}, Buffer.from(frame.correlation, 'hex'))
      else if (frame.correlation === correlation) answer.push(frame)
      else if (frame.op === 'RECORD' && /^0+$/.test(frame.correlation) && this.#settings.onRecord !== undefined)
        this.#settings.onRecord(frame)
      else this.dropped++
    }
    this.#isAsking = false
    return answer
  }

  /** Any answer but an error will do. */
  async ok<N extends OpName>(op: N, message: Message<N>): Promise<Received> {
    const last = (await this.request(op, message)).at(-1)
    ok(last !== undefined && last.op !== 'ERROR', `${op}: ${JSON.stringify(last?.message)}`)
    return last
  }

  /** HELLO, who it is, AUTH, and a producer id for whoever numbers its records or has a name to. */
  async open(): Promise<this> {
    const { name, user = 'u', idempotent = false, producerName = '' } = this.#settings
    equal((await this.ok('HELLO', { version: 1 })).op, 'WELCOME')
    if (name !== undefined) equal((await this.ok('IDENTIFY_CLIENT', { name, version: '1' })).op, 'IDENTIFY_ACK')
    if (user === null) return this
    equal((await this.ok('AUTH', { username: user, password: Buffer.from('p') })).op, 'AUTH_OK')
    if (idempotent || producerName !== '') {
      this.producer = (await this.ok('INIT_PRODUCER_ID', { producerName })).message as { pid: number; epoch: number }
    }
    return this
  }

  /** Always with isolation and flags; batches, and a hundred records, unless told otherwise. */
  async fetch(group: string, maxRecords = 100): Promise<string[]> {
    const frames = await this.request('FETCH', { topic: 't', group, maxRecords, isolation: 0, flags: 1 })
    equal(frames.at(-1)?.op, 'OK')
    return frames.flatMap(({ message }) => ((message['records'] ?? []) as { value: Buffer }[]).map(({ value }) => value.toString()))
  }

  /** Says farewell and does not wait for anything. */
  close(): void {
    this.#connection.send('GOODBYE', {})
    this.#connection.socket.close()
  }
}

async function door() {
  const at = await testNativeDoor()
  await createTopic(at.broker, 't', 2)
  const client = async (settings: Settings = { name: 'reference' }) => await new ReferenceClient(await at.connect('new'), settings).open()
  return { at, client }
}

test('a working day of a client of version 1: produce, a transaction, fetch, commit, a group, a push, the end', async () => {
  const { at, client } = await door()
  const producer = await client({ producerName: 'billing' })
  const { pid, epoch } = producer.producer
  equal((await producer.ok('BEGIN_TXN', {})).op, 'OK')
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

  const pushed: string[] = []
  const subscriber = await client({ onRecord: ({ message }) => pushed.push(String(message['value'])) })
  await subscriber.ok('SUBSCRIBE', { topic: 't', group: 'pushed', isolation: 1 })
  await subscriber.ok('LIST_OFFSETS', { topic: 't' })
  deepEqual(pushed, ['one', 'two'])
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

test('a client without a user sends no AUTH, and can then use nothing but heartbeats', async () => {
  const { at, client } = await door()
  const stranger = await client({ user: null })
  for (const [op, message] of [
    ['LIST_TOPICS', {}],
    ['PRODUCE', { codec: 0, topic: 't', key: Buffer.alloc(0), value: Buffer.alloc(0) }],
    ['INIT_PRODUCER_ID', { producerName: '' }],
  ] as const) {
    const [answer] = await stranger.request(op, message as never)
    deepEqual([answer?.op, answer?.message['code']], ['ERROR', 1], op)
  }
  equal((await stranger.ok('HEARTBEAT_REQ', {})).op, 'HEARTBEAT_RESP')
  equal(at.door.openConnections, 1)
  await at.clock.advance(5_000)
  equal(at.door.openConnections, 0)
})

test('an idempotent client without a name sends an empty one, and numbers its records', async () => {
  const { client } = await door()
  const producer = await client({ idempotent: true })
  const { pid, epoch } = producer.producer
  equal(epoch, 0)
  const records = ['a', 'b'].map((value) => ({ key: Buffer.from('k'), value: Buffer.from(value) }))
  const batch = { flags: 1, codec: 0, topic: 't', pid, baseSeq: 0, epoch, records }
  const first = await producer.ok('PRODUCE_BATCH', batch)
  deepEqual((await producer.ok('PRODUCE_BATCH', batch)).message, first.message)
  deepEqual(await producer.fetch('g'), ['a', 'b'])
})

test('records that nobody wants are dropped, between the answers to whatever else is asked', async () => {
  const { client } = await door()
  const [producer, subscriber] = [await client(), await client()]
  await subscriber.ok('SUBSCRIBE', { topic: 't', group: 'g', isolation: 0 })
  for (const value of ['a', 'b', 'c']) {
    await producer.ok('PRODUCE', { codec: 0, topic: 't', key: Buffer.from('k'), value: Buffer.from(value) })
    equal((await subscriber.ok('LIST_OFFSETS', { topic: 't' })).op, 'OFFSETS')
  }
  equal(subscriber.dropped, 3)
  // They were delivered: the group is behind them.
  deepEqual(await (await client()).fetch('g'), [])
})

test('a client that says farewell and closes at once leaves nothing behind: no member, no open transaction', async () => {
  const { at, client } = await door()
  const leaving = await client({ producerName: 'billing' })
  const { pid, epoch } = leaving.producer
  await leaving.ok('JOIN_GROUP', { group: 'g', memberId: '', topics: ['t'] })
  await leaving.ok('BEGIN_TXN', {})
  await leaving.ok('PRODUCE_IDEMPOTENT', { pid, seq: 0, epoch, codec: 0, topic: 't', key: Buffer.alloc(0), value: Buffer.from('undone') })
  leaving.close()
  equal(at.door.openConnections, 0)
  const other = await client()
  deepEqual((await other.request('DESCRIBE_GROUP', { group: 'g' }))[0]?.message['code'], 15)
  // The marker of the abort is behind the record.
  const ends = [0, 1].map((partition) => at.logs.at('t', partition).logEndOffset)
  deepEqual(ends.sort(), [0, 2])
  equal((await other.request('FETCH', { topic: 't', group: 'h', maxRecords: 10, isolation: 1, flags: 1 })).at(-1)?.op, 'OK')
})
