import { deepEqual, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import type { Client, ClientOptions } from '../../../src/client/types.ts'
import { type ErrorCode, isCode } from '../../../src/core/errors.ts'
import { type Asked, ScriptedBroker } from '../../support/scripted-broker.ts'

const FENCED = { code: 50, message: 'a newer session', name: 'PRODUCER_FENCED' }

async function scripted(options: Partial<ClientOptions> = {}): Promise<{ broker: ScriptedBroker; client: Client } & AsyncDisposable> {
  const broker = await new ScriptedBroker().listen()
  broker.script = willing
  const client = await connect({ address: broker.address, net: broker.net, ...options })
  return { broker, client, [Symbol.asyncDispose]: () => client.close() }
}

/** Says yes to whatever a producer asks. */
function willing(asked: Asked): void {
  if (asked.op === 'OPEN_PRODUCER') asked.answer('PRODUCER_OPENED', { producerId: 7, producerEpoch: 0 })
  else asked.answer('OK', {})
}

const failsWith = (code: ErrorCode) => (error: unknown) => isCode(error, code)
const opsOf = ({ broker }: { broker: ScriptedBroker }) => broker.asked.map(({ op }) => op)

async function untilAsked(broker: ScriptedBroker, op: string): Promise<Asked> {
  for (;;) {
    const found = broker.asked.find((asked) => asked.op === op)
    if (found !== undefined) return found
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('a commit whose answer was lost may have happened, also when another producer has the name since', async () => {
  await using at = await scripted()
  await using producer = await at.client.transactionalProducer('tx')
  at.broker.script = (asked) => {
    if (asked.op === 'END_TXN') asked.connection.destroy()
    else if (asked.op === 'OPEN_PRODUCER') asked.answer('ERROR', FENCED)
    else willing(asked)
  }
  await rejects(
    producer.transaction(async () => {}),
    failsWith('TRANSACTION_OUTCOME_UNKNOWN'),
  )
  deepEqual(opsOf(at), ['OPEN_PRODUCER', 'BEGIN_TXN', 'END_TXN', 'OPEN_PRODUCER'])
})

test('a commit that was refused has not happened, and neither has one that nobody asked for', async () => {
  await using at = await scripted()
  await using producer = await at.client.transactionalProducer('tx')
  at.broker.script = (asked) => (asked.op === 'OPEN_PRODUCER' ? asked.answer('ERROR', FENCED) : willing(asked))
  await rejects(
    producer.transaction(async () => {
      const ends = at.broker.net.openEnds
      at.broker.connections.at(-1)?.destroy()
      while (at.broker.net.openEnds > ends - 2) await new Promise((resolve) => setImmediate(resolve))
    }),
    failsWith('PRODUCER_FENCED'),
  )
  at.broker.script = willing
  await using other = await at.client.transactionalProducer('other')
  at.broker.script = (asked) => (asked.op === 'END_TXN' ? asked.answer('ERROR', FENCED) : willing(asked))
  await rejects(
    other.transaction(async () => {}),
    failsWith('PRODUCER_FENCED'),
  )
})

test('a signal that fires before the commit is asked for aborts; afterwards the outcome is not known', async () => {
  await using at = await scripted()
  await using producer = await at.client.transactionalProducer('tx')
  const before = new AbortController()
  const aborted = producer.transaction(async () => before.abort(), { signal: before.signal })
  await rejects(aborted, failsWith('ABORTED'))
  deepEqual(at.broker.asked.find(({ op }) => op === 'END_TXN')?.message, { commit: 0 })
  at.broker.asked.length = 0
  const during = new AbortController()
  at.broker.script = (asked) => (asked.op === 'END_TXN' ? during.abort() : willing(asked))
  await rejects(
    producer.transaction(async () => {}, { signal: during.signal }),
    failsWith('TRANSACTION_OUTCOME_UNKNOWN'),
  )
})

test('a transaction that was given up while it began is ended before the next one begins', async () => {
  await using at = await scripted()
  await using producer = await at.client.transactionalProducer('tx')
  let isOpen = false
  at.broker.script = (asked) => {
    if (asked.op === 'OPEN_PRODUCER') isOpen = false
    if (asked.op !== 'BEGIN_TXN') return willing(asked)
    if (isOpen) return asked.answer('ERROR', { code: 51, message: 'a transaction is open already', name: 'INVALID_TXN_STATE' })
    isOpen = true
    if (at.broker.asked.filter(({ op }) => op === 'BEGIN_TXN').length > 1) willing(asked)
  }
  const stop = new AbortController()
  const given = rejects(
    producer.transaction(async () => {}, { signal: stop.signal }),
    failsWith('ABORTED'),
  )
  await untilAsked(at.broker, 'BEGIN_TXN')
  stop.abort()
  await given
  await producer.transaction(async () => {})
})

test('a body need not wait for what it sends: a failure is told once, by the transaction', async () => {
  await using at = await scripted()
  await using producer = await at.client.transactionalProducer('tx')
  at.broker.script = (asked) => {
    if (asked.op === 'TXN_OFFSET_COMMIT') asked.answer('ERROR', { code: 18, message: 'no', name: 'TOPIC_FORBIDDEN' })
    else willing(asked)
  }
  for (const work of ['send', 'offsets'] as const) {
    await rejects(
      producer.transaction(async (tx) => {
        // An unhandled rejection would fail this test.
        if (work === 'send') void tx.sendMany('t', [{ partition: -1, value: 'no partition' }])
        else void tx.commitOffsets('g', [{ topic: 't', partition: 0, offset: 1 }])
        await new Promise((resolve) => tx.signal.addEventListener('abort', resolve))
      }),
    )
  }
})
