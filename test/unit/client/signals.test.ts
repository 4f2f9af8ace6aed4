import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import type { ProducerOptions } from '../../../src/client/types.ts'
import { SystemClock } from '../../../src/core/clock.ts'
import { type ErrorCode, isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { ClientOperations } from '../../../src/mql/client-operations.ts'
import { type Asked, ScriptedBroker } from '../../support/scripted-broker.ts'

type Batch = { baseSequence: number; records: { value: Buffer }[] }

const failsWith = (code: ErrorCode) => (error: unknown) => isCode(error, code)
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Says yes to everything but what is silenced. */
function willing(asked: Asked): void {
  const { op, message } = asked
  if (op === 'OPEN_PRODUCER') asked.answer('PRODUCER_OPENED', { producerId: 7, producerEpoch: 0 })
  else if (op === 'DESCRIBE') {
    const partitions = [{ partition: 0, earliest: 0, highWatermark: 0, lastStable: 0, logEnd: 0 }]
    asked.answer('DESCRIPTION', { name: 't', id: 'A'.repeat(22), partitions, config: new Map() })
  } else if (op === 'DESCRIBE_CONFIG') asked.answer('CONFIG', { settings: [] })
  else if (op === 'SEND') {
    asked.answer('SENT', {
      results: (message['records'] as unknown[]).map((_, offset) => ({ partition: 0, offset, error: 0 })),
      errors: [],
    })
  } else if (op === 'SEND_SEQUENCED') {
    asked.answer('SENT_SEQUENCED', { results: (message['batches'] as Batch[]).map(() => ({ baseOffset: 0, error: 0 })), errors: [] })
  } else asked.answer('OK', {})
}

async function scripted() {
  const broker = await new ScriptedBroker().listen()
  const silent = new Set<string>()
  broker.script = (asked) => {
    if (!silent.has(asked.op)) willing(asked)
  }
  const client = await connect({ address: broker.address, net: broker.net })
  const asked = async (op: string) => {
    while (!broker.asked.some((each) => each.op === op)) await turn()
  }
  const values = () =>
    broker.asked.flatMap(({ op, message }) => {
      if (op === 'SEND') return (message['records'] as Batch['records']).map(({ value }) => String(value))
      return op === 'SEND_SEQUENCED'
        ? (message['batches'] as Batch[]).flatMap(({ records }) => records.map(({ value }) => String(value)))
        : []
    })
  return { broker, client, silent, asked, values, [Symbol.asyncDispose]: () => client.close() }
}

const SORTS: readonly ProducerOptions[] = [{ idempotent: true }, { idempotent: false }]

for (const options of SORTS) {
  const name = options.idempotent ? 'idempotent producer' : 'plain producer'
  const sends = options.idempotent ? 'SEND_SEQUENCED' : 'SEND'

  test(`${name}: a signal gives a record up: what has not left is not sent, and nobody waits for it`, async () => {
    await using at = await scripted()
    at.silent.add(sends)
    const producer = at.client.producer({ ...options, maxPendingBytes: 100 })
    const stop = new AbortController()
    const control = { signal: stop.signal }
    const first = producer.send('t', { value: 'x'.repeat(90) }, control)
    const waiting = [producer.send('t', { value: 'no room' }, control), producer.send('t', { value: 'kept' })]
    await at.asked(sends)
    at.silent.clear()
    stop.abort()
    await rejects(first, failsWith('ABORTED'))
    await rejects(waiting[0] ?? first, failsWith('ABORTED'))
    await rejects(producer.send('t', { value: 'late' }, control), failsWith('ABORTED'))
    if (options.idempotent) at.broker.connections[0]?.destroy()
    ok(await waiting[1])
    deepEqual(at.values().slice(1), ['kept'])
    await producer.close()
  })

  test(`${name}: what gathers goes without what was given up`, async () => {
    await using at = await scripted()
    const producer = at.client.producer({ ...options, lingerMs: 1e6 })
    await Promise.all([producer.send('t', { value: 'before' }), turn().then(() => producer.flush())])
    const stop = new AbortController()
    const two = producer.sendMany('t', [{ value: 'a' }, { value: 'b' }], { signal: stop.signal })
    const other = producer.send('t', { value: 'c' })
    await turn()
    stop.abort()
    await rejects(two, failsWith('ABORTED'))
    await producer.flush()
    await other
    deepEqual(at.values(), ['before', 'c'])
    await producer.close()
  })

  test(`${name}: its own signal ends it, a signal for close or flush only the waiting`, async () => {
    await using at = await scripted()
    at.silent.add(sends)
    const stop = new AbortController()
    const producer = at.client.producer({ ...options, signal: stop.signal })
    const sent = rejects(producer.send('t', { value: 'x' }), failsWith('ABORTED'))
    await at.asked(sends)
    await rejects(producer.flush({ signal: AbortSignal.abort() }), failsWith('ABORTED'))
    stop.abort()
    await sent
    await rejects(producer.send('t', { value: 'y' }), failsWith('ABORTED'))
    await producer.close()
    const other = at.client.producer(options)
    const lost = rejects(other.send('t', { value: 'z' }), failsWith('ABORTED'))
    await turn()
    await other.close({ signal: AbortSignal.abort() })
    await lost
  })
}

test('one listener on a signal for however many records', async () => {
  await using at = await scripted()
  const { signal } = new AbortController()
  let listeners = 0
  const add = signal.addEventListener.bind(signal)
  signal.addEventListener = (...given: Parameters<typeof add>) => {
    listeners++
    add(...given)
  }
  const records = Array.from({ length: 50 }, (_, at) => ({ value: `${at}` }))
  equal((await at.client.producer().sendMany('t', records, { signal })).length, 50)
  equal(listeners, 1)
})

test('a client closes at once when it is told to, whatever is outstanding', async () => {
  const at = await scripted()
  at.silent.add('SEND_SEQUENCED').add('SETTLE').add('MEMBER_JOIN')
  const sent = rejects(at.client.producer().send('t', { value: 'x' }))
  const loop = at.client
    .pushConsumer({ group: 'g', topics: ['t'] })
    [Symbol.asyncIterator]()
    .next()
  await at.asked('MEMBER_JOIN')
  await at.asked('SEND_SEQUENCED')
  await at.client.close({ signal: AbortSignal.abort() })
  await sent
  equal((await loop).done, true)
})

test('whoever waits for a connection is let go by a signal', async () => {
  await using at = await scripted()
  const stop = new AbortController()
  at.broker.connections[0]?.destroy()
  while (at.broker.net.openEnds > 0) await turn()
  const asking = [at.client.admin.createTopic('t', { signal: stop.signal }), at.client.admin.listTopics({ signal: stop.signal })]
  stop.abort()
  for (const each of asking) await rejects(each, failsWith('ABORTED'))
})

test('the console gives up PRODUCE, BEGIN, COMMIT and ROLLBACK', async () => {
  const at = await scripted()
  const random = new SeededRandom(1)
  const operations = new ClientOperations({ client: at.client, clock: new SystemClock(), random }, 'here')
  const record = { key: null, value: 'v', headers: [], partition: null }
  const givenUp = async (op: string, run: (signal: AbortSignal) => Promise<unknown>) => {
    at.silent.add(op)
    at.broker.asked.length = 0
    const stop = new AbortController()
    const running = run(stop.signal)
    running.catch(() => {})
    await at.asked(op)
    stop.abort()
    at.silent.delete(op)
    return running
  }
  const never = new AbortController().signal
  await rejects(
    givenUp('SEND_SEQUENCED', (signal) => operations.produce('t', record, signal)),
    failsWith('ABORTED'),
  )
  for (const op of ['OPEN_PRODUCER', 'BEGIN_TXN']) {
    await rejects(
      givenUp(op, (signal) => operations.begin(null, signal)),
      failsWith('ABORTED'),
    )
  }
  await operations.begin(null, never)
  await rejects(
    givenUp('SEND_SEQUENCED', (signal) => operations.produce('t', record, signal)),
    failsWith('ABORTED'),
  )
  await rejects(
    givenUp('END_TXN', (signal) => operations.endTransaction(false, signal)),
    failsWith('ABORTED'),
  )
  await operations.begin(null, never)
  await rejects(
    givenUp('END_TXN', (signal) => operations.endTransaction(true, signal)),
    failsWith('TRANSACTION_OUTCOME_UNKNOWN'),
  )
  for (const connection of at.broker.connections) connection.destroy()
  await operations.close()
})
