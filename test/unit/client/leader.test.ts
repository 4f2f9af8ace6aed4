import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode } from '../../../src/core/errors.ts'
import { VirtualNet } from '../../../src/io/virtual-net.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../../src/wire/frame.ts'
import { ScriptedBroker } from '../../support/scripted-broker.ts'

/** Brokers on one network; those with a hint say that they are not the leader. */
async function brokers(hints: Readonly<Record<string, string | null>>) {
  const net = new VirtualNet({ clock: new SystemClock() })
  const asked: string[] = []
  for (const [host, hint] of Object.entries(hints)) {
    const broker = new ScriptedBroker(net)
    broker.refusal = () => {
      asked.push(host)
      return hint
    }
    broker.script = (request) => request.answer('LISTING', { topics: [] })
    await broker.listen(host)
  }
  return { net, asked }
}

const refusal = (leader: string) => `not the leader; leader=${leader}`

test('hints are followed to the leader', async () => {
  const { net, asked } = await brokers({ a: refusal('b:9092'), b: `${refusal('[c]:9092')} please`, c: null })
  await using client = await connect({ address: 'a', net })
  deepEqual(await client.admin.listTopics(), [])
  deepEqual(asked, ['a', 'b', 'c'])
})

test('three hints at most from each address of the list, then the next one', async () => {
  const { net, asked } = await brokers({ a: refusal('b:9092'), b: refusal('a:9092'), c: null, d: 'not the leader; no leader elected yet' })
  await rejects(connect({ address: 'a', net }), (error) => isCode(error, 'NOT_LEADER'))
  deepEqual(asked.splice(0), ['a', 'b', 'a', 'b'])
  await using client = await connect({ address: ['d', 'nobody:1', 'a', { host: 'c', port: 9092 }], net })
  equal(client.server.name, 'Scripted')
  deepEqual(asked, ['d', 'a', 'b', 'a', 'b', 'c'])
})

test('a leader that steps down is left for the one that it names, and a read asks there', async () => {
  const net = new VirtualNet({ clock: new SystemClock() })
  const old = await new ScriptedBroker(net).listen('a')
  const next = await new ScriptedBroker(net).listen('b')
  next.script = (request) => request.answer('LISTING', { topics: [] })
  await using client = await connect({ address: 'a', net })
  old.script = (request) => {
    request.connection.send([encodeFrame('ERROR', ZERO_CORRELATION, { code: 20, message: refusal('b:9092') })])
    request.connection.end()
  }
  deepEqual(await client.admin.listTopics(), [])
  equal(next.asked.length, 1)
})

test('a refusal of one request names the leader as well', async () => {
  const net = new VirtualNet({ clock: new SystemClock() })
  const old = await new ScriptedBroker(net).listen('a')
  const next = await new ScriptedBroker(net).listen('b')
  next.script = (request) => request.answer('OK', {})
  await using client = await connect({ address: 'a', net })
  old.script = (request) => request.answer('ERROR', { code: 20, message: refusal('b:9092') })
  // What changes something is not tried again by itself; the next request goes to the leader.
  await rejects(client.admin.deleteTopic('t'), (error) => isCode(error, 'NOT_LEADER') && error.retriable)
  await client.admin.deleteTopic('t')
  deepEqual([old.asked.length, next.asked.length], [1, 1])
})

test('a hint that is no address is no hint; a refusal that every broker would give ends the search', async () => {
  const { net, asked } = await brokers({ a: refusal('::'), c: null })
  await using client = await connect({ address: ['a', 'c'], net })
  deepEqual(asked, ['a', 'c'])
  await rejects(connect({ address: [], net }), (error) => isCode(error, 'INVALID_REQUEST'))
  const stopped = new AbortController()
  stopped.abort()
  await rejects(connect({ address: ['a', 'c'], net, signal: stopped.signal }), (error) => isCode(error, 'ABORTED'))
  ok(client.server.version !== '')
})
