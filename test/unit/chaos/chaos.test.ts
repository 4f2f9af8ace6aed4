import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChaosNet, type ChaosOptions, ChaosPlan, ChaosProducer, FAULTS, type Fault, type Found, judge } from '../../../src/chaos/index.ts'
import { connect } from '../../../src/client/index.ts'
import type { Acked, RecordToSend } from '../../../src/client/types.ts'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode, MoonMQError } from '../../../src/core/errors.ts'
import { VirtualNet } from '../../../src/io/virtual-net.ts'
import { ScriptedBroker } from '../../support/scripted-broker.ts'

const ALL: ChaosOptions['rates'] = { drop: 0.1, delay: 0.1, duplicate: 0.1, reorder: 0.2, corrupt: 0.1, disconnect: 0.1 }

/** A log in an array, which fails when the connection is cut. */
function world(options: ChaosOptions) {
  const log: string[] = []
  const net = { isCut: false, cutNextAnswer: () => (net.isCut = true), disarm: () => (net.isCut = false) }
  const producer = {
    send: async (_topic: string, { value }: RecordToSend): Promise<Acked> => {
      const offset = log.push(Buffer.from(value ?? '').toString('latin1')) - 1
      await Promise.resolve()
      if (net.isCut) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'cut' })
      return { partition: 0, offset }
    },
    flush: async () => {},
  }
  const chaos = new ChaosProducer({ producer, clock: new SystemClock(), net: net as unknown as ChaosNet }, { maxDelayMs: 1, ...options })
  return { chaos, log }
}

async function outcomes(chaos: ChaosProducer, count: number): Promise<string[]> {
  const sending = Array.from({ length: count }, (_, n) =>
    chaos.send('t', { value: `v${n}` }).then(
      ({ offset }) => `${n}@${offset}`,
      (error: unknown) => (isCode(error, 'CONNECTION_CLOSED') ? `${n} lost` : assert.fail(String(error))),
    ),
  )
  await chaos.flush()
  return Promise.all(sending)
}

test('the same seed does the same, another one something else', async () => {
  const run = async (seed: number) => {
    const { chaos, log } = world({ seed, rates: ALL })
    return { outcomes: await outcomes(chaos, 100), log, counts: chaos.counts }
  }
  const one = await run(3)
  assert.deepEqual(await run(3), one)
  assert.notDeepEqual((await run(4)).log, one.log)
  for (const fault of FAULTS) assert.ok(one.counts[fault] > 0, fault)
})

test('a rate changes nothing about other faults, and none is no chaos', async () => {
  const faultsOf = (rates: ChaosOptions['rates'], fault: Fault) => {
    const plan = new ChaosPlan({ seed: 9, rates })
    return Array.from({ length: 200 }, () => plan.next().faults.has(fault))
  }
  assert.deepEqual(faultsOf({ corrupt: 0.3, delay: 0.9 }, 'corrupt'), faultsOf({ corrupt: 0.3 }, 'corrupt'))
  const { chaos, log } = world({ seed: 1, rates: {} })
  assert.deepEqual(await outcomes(chaos, 5), ['0@0', '1@1', '2@2', '3@3', '4@4'])
  assert.deepEqual(log, ['v0', 'v1', 'v2', 'v3', 'v4'])
  for (const rate of [-0.1, 1.1, Number.NaN]) {
    assert.throws(
      () => new ChaosPlan({ seed: 1, rates: { drop: rate } }),
      (error) => isCode(error, 'INVALID_REQUEST'),
    )
  }
})

/** One fault for every record: what the log holds and what the program is told. */
const SINGLE: readonly (readonly [Fault, string[], string[]])[] = [
  ['drop', [], ['0 lost', '1 lost']],
  ['delay', ['v0', 'v1'], ['0@0', '1@1']],
  ['duplicate', ['v0', 'v0', 'v1', 'v1'], ['0@0', '1@2']],
  ['disconnect', ['v0', 'v1'], ['0 lost', '1 lost']],
]

test('each fault does what it says', async () => {
  for (const [fault, log, told] of SINGLE) {
    const at = world({ seed: 1, rates: { [fault]: 1 } })
    assert.deepEqual(await outcomes(at.chaos, 2), told, fault)
    assert.deepEqual(at.log, log, fault)
    assert.equal(at.chaos.counts[fault], 2, fault)
  }
  const corrupt = world({ seed: 1, rates: { corrupt: 1 } })
  await outcomes(corrupt.chaos, 1)
  const turned = [...(corrupt.log[0] ?? '')].map((char, at) => char.charCodeAt(0) ^ 'v0'.charCodeAt(at))
  assert.equal(
    turned.reduce((bits, byte) => bits + byte.toString(2).replaceAll('0', '').length, 0),
    1,
  )
})

test('a record that is held back goes behind the next one, or by itself when nobody follows', async () => {
  const rates = { reorder: 0.3 }
  const decided = new ChaosPlan({ seed: 5, rates })
  const isHeld = Array.from({ length: 30 }, () => decided.next().faults.has('reorder'))
  const expected: string[] = []
  let held: string[] = []
  for (const [n, isOne] of isHeld.entries()) {
    if (isOne) held.push(`v${n}`)
    else {
      expected.push(`v${n}`, ...held)
      held = []
    }
  }
  const { chaos, log } = world({ seed: 5, rates })
  await outcomes(chaos, 30)
  assert.deepEqual(log, [...expected, ...held])
  const alone = world({ seed: 1, rates: { reorder: 1 } })
  assert.deepEqual(await alone.chaos.send('t', { value: 'x' }), { partition: 0, offset: 0 })
  assert.equal(alone.chaos.counts.reorder, 0)
  await alone.chaos.close()
  await assert.rejects(alone.chaos.send('t', { value: 'y' }), (error) => isCode(error, 'CLOSED'))
})

test('the connection breaks after the broker has answered a request that stores, and the next one makes a new one', async () => {
  const inner = new VirtualNet({ clock: new SystemClock() })
  const broker = await new ScriptedBroker(inner).listen()
  const net = new ChaosNet(inner)
  await using client = await connect({ address: broker.address, net })
  await using producer = client.producer({ idempotent: false })
  broker.script = (asked) => {
    if (asked.op === 'SEND') asked.answer('SENT', { results: [{ partition: 0, offset: 0, error: 0 }], errors: [] })
    else asked.answer('OK', {})
  }
  await producer.send('a', { value: 'v' })
  net.cutNextAnswer()
  // Other requests pass.
  await client.admin.deleteTopic('b')
  const lost = (error: unknown) => isCode(error, 'CONNECTION_CLOSED') && /chaos/.test(error.message)
  await assert.rejects(producer.send('c', { value: 'v' }), lost)
  // The login of the new connection passes too.
  net.cutNextAnswer()
  await assert.rejects(producer.send('d', { value: 'v' }), lost)
  net.cutNextAnswer()
  net.disarm()
  await producer.send('e', { value: 'v' })
  assert.deepEqual(
    broker.asked.map(({ message }) => message['topic'] ?? message['name']),
    ['a', 'b', 'c', 'd', 'e'],
  )
  assert.deepEqual([net.cuts, broker.connections.length], [2, 3])
})

const at = (partition: number, offset: number) => ({ partition, offset })

test('the judge: lost, duplicated, out of order, changed, unknown, at another place', () => {
  const sent = ['a', 'b', 'c', 'd', 'e', 'f'].map((id, index) => ({ id, value: id, acked: index === 5 ? null : at(index % 2, index) }))
  const found = (id: string | null, partition: number, offset: number, value = id ?? ''): Found => ({ id, value, partition, offset })
  const truth = judge(sent, [found('a', 0, 0), found('c', 0, 2), found('e', 0, 4), found('b', 1, 1), found('d', 1, 3)])
  assert.deepEqual(
    [truth.holds, truth.totals],
    [true, { acked: 5, read: 5, lost: 0, duplicated: 0, reordered: 0, corrupted: 0, unacked: 0, misplaced: 0 }],
  )
  // c is gone, e comes before a, b is there twice and changed, f nobody knew of, d at another offset, and one that nobody knows.
  const lie = judge(sent, [
    found('e', 0, 4),
    found('a', 0, 5),
    found('b', 1, 0, 'x'),
    found('b', 1, 1),
    found('f', 1, 2),
    found('d', 1, 7),
    found(null, 1, 8),
  ])
  assert.equal(lie.holds, false)
  assert.deepEqual(lie.partitions, [
    { partition: 0, acked: 3, read: 2, lost: 1, duplicated: 0, reordered: 1, corrupted: 0, unacked: 0, misplaced: 1 },
    { partition: 1, acked: 2, read: 5, lost: 0, duplicated: 1, reordered: 1, corrupted: 2, unacked: 1, misplaced: 1 },
  ])
})
