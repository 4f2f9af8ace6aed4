import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { createTopic } from '../support/fake-broker.ts'
import { NativeBroker, type NativePeer } from '../support/native-peer.ts'
import { offsetOf, TestProducer, valuesOf, whenSettled } from '../support/transactions.ts'

const IDEMPOTENT = 1

async function opened(partitions = 1): Promise<NativeBroker> {
  const at = await NativeBroker.open(new MemoryDisk({ clock: new SystemClock() }))
  await createTopic(at.broker, 't', partitions)
  return at
}

interface Identity {
  readonly pid: number
  readonly epoch: number
}

async function init(peer: NativePeer, producerName = ''): Promise<Identity> {
  const { message } = await peer.call('INIT_PRODUCER_ID', { producerName })
  return { pid: Number(message['pid']), epoch: Number(message['epoch']) }
}

function single(who: Identity, seq: number, value: string, key = '') {
  return { ...who, seq, codec: 0, topic: 't', key: Buffer.from(key), value: Buffer.from(value) }
}

function batch(who: Identity, baseSeq: number, values: readonly string[]) {
  const records = values.map((value) => ({ key: Buffer.from(value), value: Buffer.from(value) }))
  return { flags: IDEMPOTENT, codec: 0, topic: 't', ...who, baseSeq, records }
}

/** An ERROR's code, or what was acknowledged. */
async function put(peer: NativePeer, who: Identity, seq: number, value: string): Promise<unknown> {
  const { op, code, message } = await peer.call('PRODUCE_IDEMPOTENT', single(who, seq, value))
  return op === 'PRODUCE_ACK' ? message['offset'] : `code ${code}`
}

async function codeOf(asked: Promise<{ op: string; code: number }>): Promise<number | string> {
  const { op, code } = await asked
  return op === 'ERROR' ? code : op
}

const begin = (peer: NativePeer) => codeOf(peer.call('BEGIN_TXN', {}))
const end = (peer: NativePeer, commit: number) => codeOf(peer.call('END_TXN', { commit }))

test('single records: the next one, the last one again, and everything else', async () => {
  await using at = await opened()
  const peer = await at.connect()
  equal(await put(peer, { pid: 7, epoch: 0 }, 0, 'a'), 'code 10')
  const who = await init(peer)
  equal(who.pid >= 1, true)
  equal(who.epoch, 0)
  equal(await put(peer, { pid: who.pid + 1, epoch: 0 }, 0, 'a'), 'code 8')
  equal(await put(peer, who, 1, 'a'), 'code 11')
  equal(await put(peer, who, 0, 'a'), 0)
  equal(await put(peer, who, 0, 'a'), 0)
  equal(await put(peer, who, 1, 'b'), 1)
  equal(await put(peer, who, 0, 'a'), 'code 11')
  equal(await put(peer, who, 3, 'c'), 'code 11')
  // The epoch of a producer without a name is not looked at.
  equal(await put(peer, { ...who, epoch: 9 }, 2, 'c'), 2)
  equal(await put(peer, who, 2 ** 31, 'd'), 'code 11')
  deepEqual(await valuesOf(at.broker, 't', 0), ['a', 'b', 'c'])
  const next = await init(peer)
  equal(next.pid === who.pid, false)
  equal(await put(peer, who, 3, 'd'), 'code 8')
  equal(await put(peer, next, 0, 'd'), 3)
})

test('a batch goes to its partitions as one batch each, and its exact resend gets the same acks', async () => {
  await using at = await opened(4)
  const peer = await at.connect()
  const who = await init(peer)
  const values = Array.from({ length: 20 }, (_, index) => `v${index}`)
  const first = await peer.call('PRODUCE_BATCH', batch(who, 0, values))
  equal(first.op, 'PRODUCE_BATCH_ACK')
  equal(first.message['errorCode'], 0)
  equal((first.message['acks'] as unknown[]).length, 20)
  deepEqual((await peer.call('PRODUCE_BATCH', batch(who, 0, values))).message, first.message)
  // The last record of it, by itself.
  const last = { ...single(who, 19, 'v19', 'v19') }
  deepEqual((await peer.call('PRODUCE_IDEMPOTENT', last)).message, (first.message['acks'] as object[])[19])
  equal(await codeOf(peer.call('PRODUCE_BATCH', batch(who, 0, values.slice(1)))), 11)
  equal(await codeOf(peer.call('PRODUCE_BATCH', batch(who, 19, ['x', 'y']))), 11)
  equal((await peer.call('PRODUCE_BATCH', batch(who, 20, ['x']))).op, 'PRODUCE_BATCH_ACK')
  let stored = 0
  for (let partition = 0; partition < 4; partition++) {
    stored += (await valuesOf(at.broker, 't', partition)).length
    const [known] = at.broker.offsets.producers({} as never, 't', partition)
    equal(known?.batches[0]?.baseSequence, 0)
    equal((known?.batches.length ?? 0) <= 2, true)
  }
  equal(stored, 21)
  equal(
    await codeOf(
      peer.call(
        'PRODUCE_BATCH',
        batch(
          who,
          21,
          Array.from({ length: 1025 }, () => 'x'),
        ),
      ),
    ),
    14,
  )
  equal(await codeOf(peer.call('PRODUCE_BATCH', { ...batch(who, 21, ['x']), codec: 9 })), 7)
  equal(await codeOf(peer.call('PRODUCE_BATCH', { ...batch(who, 21, ['x']), topic: 'none' })), 5)
  equal(await codeOf(peer.call('PRODUCE_BATCH', { ...batch(who, 0, ['x']), topic: '__consumer_offsets' })), 18)
})

test('requests that follow each other without waiting keep their order', async () => {
  await using at = await opened()
  const peer = await at.connect()
  const who = await init(peer)
  const ids = Array.from({ length: 50 }, (_, seq) => peer.send('PRODUCE_IDEMPOTENT', single(who, seq, `${seq}`)))
  for (const [offset, id] of ids.entries()) equal((await peer.answer(id)).message['offset'], offset)
})

test('a name keeps its id, and each session of it fences the one before', async () => {
  await using at = await opened()
  const [one, two] = [await at.connect(), await at.connect()]
  const first = await init(one, 'name')
  equal(first.epoch, 0)
  equal(await put(one, first, 0, 'a'), 0)
  equal(await put(one, { ...first, epoch: 1 }, 1, 'b'), 'code 50')
  const second = await init(two, 'name')
  deepEqual(second, { pid: first.pid, epoch: 1 })
  equal(await put(one, first, 1, 'b'), 'code 50')
  equal(await begin(one), 50)
  equal(await end(one, 1), 50)
  equal(await put(two, second, 0, 'b'), 1)
  // Its own name again: one epoch more, and numbers from the start.
  deepEqual(await init(two, 'name'), { pid: first.pid, epoch: 2 })
  equal(await put(two, { ...first, epoch: 2 }, 0, 'c'), 2)
})

test('a transaction: all or nothing, with its offsets, under one epoch', async () => {
  await using at = await opened(2)
  await createTopic(at.broker, 'u')
  const peer = await at.connect()
  equal(await begin(peer), 51)
  const nameless = await init(peer)
  equal(await begin(peer), 51)
  equal(await end(peer, 1), 51)
  equal(await codeOf(peer.call('TXN_OFFSET_COMMIT', { group: 'g', offsets: [] })), 51)
  equal(await put(peer, nameless, 0, 'x'), 0)
  const who = await init(peer, 'tx')
  equal(await end(peer, 1), 51)
  for (const [round, commit] of [1, 0, 1].entries()) {
    equal(await begin(peer), 'OK')
    equal(await begin(peer), 51)
    const values = [`a${round}`, `b${round}`, `c${round}`]
    equal((await peer.call('PRODUCE_BATCH', batch(who, round * 3, values))).message['errorCode'], 0)
    const offsets = [
      { topic: 'u', partition: 0, offset: round + 1 },
      { topic: 'gone', partition: 3, offset: 5 },
      { topic: 'u', partition: 9, offset: 5 },
    ]
    equal(await codeOf(peer.call('TXN_OFFSET_COMMIT', { group: 'g', offsets })), 'OK')
    equal((await at.broker.offsets.bounds({} as never, 't', 0)).lastStableOffset < 100, true)
    equal(
      (await seen(at)).some((value) => value.endsWith(`${round}`)),
      false,
    )
    equal(await end(peer, commit), 'OK')
    equal(await end(peer, commit), 51)
  }
  deepEqual((await seen(at)).sort(), ['a0', 'a2', 'b0', 'b2', 'c0', 'c2', 'x'])
  equal(await offsetOf(at.broker, 'g', 'u', 0), 3)
  // Nothing in it at all.
  equal(await begin(peer), 'OK')
  equal(await end(peer, 0), 'OK')
  const bad = { topic: 'u', partition: 0, offset: 2n ** 63n }
  equal(await begin(peer), 'OK')
  equal(await codeOf(peer.call('TXN_OFFSET_COMMIT', { group: 'g', offsets: [bad] })), 1)
  equal((await init(peer, 'tx')).epoch, who.epoch + 1)
})

async function seen(at: NativeBroker): Promise<string[]> {
  return [...(await valuesOf(at.broker, 't', 0)), ...(await valuesOf(at.broker, 't', 1))]
}

test('FETCH with read committed sees what was committed, and waits for nothing', async () => {
  await using at = await opened()
  const [writer, reader] = [await at.connect(), await at.connect()]
  const who = await init(writer, 'tx')
  const read = async (isolation: number, group: string) =>
    (await reader.fetch({ topic: 't', group, maxRecords: 10, isolation })).flatMap(({ message }) => message['value']?.toString() ?? [])
  equal(await begin(writer), 'OK')
  equal(await put(writer, who, 0, 'no'), 0)
  deepEqual(await read(1, 'g'), [])
  equal(await end(writer, 0), 'OK')
  equal(await begin(writer), 'OK')
  // The marker has an offset.
  equal(await put(writer, who, 1, 'yes'), 2)
  deepEqual(await read(1, 'g'), [])
  equal(await end(writer, 1), 'OK')
  deepEqual(await read(1, 'g'), ['yes'])
  const all = await at.connect()
  const frames = await all.fetch({ topic: 't', group: 'h', maxRecords: 10, isolation: 0 })
  deepEqual(
    frames.flatMap(({ message }) => message['value']?.toString() ?? []),
    ['no', 'yes'],
  )
})

test('closing the connection, taking the name over and INIT_PRODUCER_ID abort what is open', async () => {
  await using at = await opened()
  for (const [round, give] of [
    (peer: NativePeer) => peer.socket.close(),
    async (_peer: NativePeer) => void (await init(await at.connect(), 'tx')),
    async (peer: NativePeer) => void (await init(peer, 'tx')),
    async (peer: NativePeer) => void (await init(peer)),
  ].entries()) {
    const peer = await at.connect()
    const who = await init(peer, 'tx')
    equal(await begin(peer), 'OK')
    equal(typeof (await put(peer, who, 0, `${round}`)), 'number')
    await give(peer)
    await (await at.connect()).call('HEARTBEAT_REQ', {})
    await closedTransactions(at)
  }
  deepEqual(await valuesOf(at.broker, 't', 0), [])
  const peer = await at.connect()
  const who = await init(peer, 'tx')
  // The last one that the name had was aborted: its end may be asked for again, until a new one begins.
  equal(await end(peer, 0), 'OK')
  equal(await end(peer, 1), 51)
  equal(await begin(peer), 'OK')
  equal(typeof (await put(peer, who, 0, 'in')), 'number')
  equal(await end(peer, 1), 'OK')
  const next = await at.connect()
  await init(next, 'tx')
  equal(await end(next, 0), 51)
  equal(await end(next, 1), 'OK')
  deepEqual(await valuesOf(at.broker, 't', 0), ['in'])
})

/** Nothing is open and nothing is being ended. */
async function closedTransactions(at: NativeBroker): Promise<void> {
  for (;;) {
    const states = ['Ongoing', 'PrepareCommit', 'PrepareAbort']
    const open = await at.broker.transactions.list({} as never, { states, producerIds: [], minDurationMs: -1, pattern: null })
    if (open.length === 0) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('a transaction that is open for more than a minute is aborted: code 52, and the name goes on', async () => {
  await using at = await opened()
  const peer = await at.connect()
  const who = await init(peer, 'tx')
  for (const [round, commit] of [1, 0].entries()) {
    equal(await begin(peer), 'OK')
    equal(typeof (await put(peer, who, round * 2, 'late')), 'number')
    at.clock.leap(61_000)
    await whenSettled(at.broker)
    equal(await put(peer, who, round * 2 + 1, 'later'), 'code 52')
    equal(await codeOf(peer.call('TXN_OFFSET_COMMIT', { group: 'g', offsets: [{ topic: 't', partition: 0, offset: 0 }] })), 52)
    equal(await end(peer, commit), 52)
    equal(await end(peer, commit), 51)
    equal(await begin(peer), 'OK')
    equal(typeof (await put(peer, who, round * 2 + 1, `in time ${round}`)), 'number')
    equal(await end(peer, 1), 'OK')
  }
  deepEqual(await valuesOf(at.broker, 't', 0), ['in time 0', 'in time 1'])
})

test('names and transactional ids are one namespace, and each side fences the other', async () => {
  await using at = await opened()
  const peer = await at.connect()
  const who = await init(peer, 'shared')
  equal(await begin(peer), 'OK')
  equal(await put(peer, who, 0, 'native'), 0)
  const kafka = await TestProducer.begin(at.broker, 'shared', 'bumping')
  equal(kafka.owner.producerId, who.pid)
  equal(await end(peer, 1), 50)
  await kafka.write('t', 0, 'kafka')
  await kafka.end(true)
  await whenSettled(at.broker)
  const again = await init(peer, 'shared')
  equal(again.pid, who.pid)
  equal(again.epoch > kafka.owner.producerEpoch, true)
  deepEqual(await valuesOf(at.broker, 't', 0), ['kafka'])
})

test('a name that nobody uses for a day is forgotten, one that is used stays', async () => {
  await using at = await opened()
  const [idle, busy] = [await at.connect(), await at.connect()]
  const first = await init(idle, 'idle')
  const second = await init(busy, 'busy')
  idle.socket.close()
  for (let hours = 0; hours < 30; hours++) {
    at.clock.leap(3_600_000)
    equal(await put(busy, second, hours, 'x'), hours)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const listed = await at.broker.transactions.list({} as never, { states: [], producerIds: [], minDurationMs: -1, pattern: null })
  deepEqual(
    listed.map(({ transactionalId }) => transactionalId),
    ['busy'],
  )
  const renamed = await init(await at.connect(), 'idle')
  equal(renamed.pid === first.pid, false)
  equal(renamed.epoch, 0)
})
