import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import type { NameExpiry } from '../../src/broker/txn/txn-options.ts'
import { decodeTxnRecord, txnHeaders, txnKey, txnValue } from '../../src/broker/txn/txn-records.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { type Metrics, NO_METRICS } from '../../src/core/counters.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { NativeBroker, type NativePeer } from '../support/native-peer.ts'
import { valuesOf, whenSettled } from '../support/transactions.ts'

const SETTINGS = { 'transaction.state.log.num.partitions': '1' }
const INTERNAL = contextOf({ protocol: 'internal' })
const STATE = '__transaction_state'

async function init(peer: NativePeer, producerName: string): Promise<{ pid: number; epoch: number }> {
  const { message } = await peer.call('INIT_PRODUCER_ID', { producerName })
  return { pid: Number(message['pid']), epoch: Number(message['epoch']) }
}

/** Writes the name's state again, in another epoch. */
async function putEpoch({ broker }: NativeBroker, name: string, producerEpoch: number): Promise<void> {
  const request = {
    topic: STATE,
    partition: 0,
    offset: 0,
    isolation: 'read_uncommitted',
    maxRecords: 100,
    maxBytes: 1e6,
    maxWaitMs: 0,
  } as const
  const read = await broker.records.read(INTERNAL, request)
  const { key, value, headers } = read.records.at(-1) ?? { key: null, value: null, headers: [] }
  const known = key === null ? null : decodeTxnRecord(key, value, headers)
  if (known?.txn?.isNative !== true || known.transactionalId !== name) throw new Error(`the last record of ${STATE} is not of ${name}`)
  const txn = { ...known.txn, producerEpoch }
  read.release()
  const batch = buildBatch([{ key: txnKey(name), value: txnValue(txn, 1), headers: txnHeaders(txn), timestampMs: Date.now() }])
  const ticket = await broker.produce.append(INTERNAL, {
    acks: 'all',
    timeoutMs: 1000,
    transactionalId: null,
    partitions: [{ topic: STATE, partition: 0, batch }],
  })
  for (const { error } of await ticket.settled()) if (error !== null) throw error
}

test('a name whose epochs are used up gets another id with epoch 0, and its last session is fenced', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  const before = await NativeBroker.open(disk, SETTINGS)
  await createTopic(before.broker, 't')
  const first = await init(await before.connect(), 'name')
  equal(first.epoch, 0)
  await putEpoch(before, 'name', 32_765)
  await before.close()

  await using at = await NativeBroker.open(disk, SETTINGS)
  const [last, next] = [await at.connect(), await at.connect()]
  deepEqual(await init(last, 'name'), { pid: first.pid, epoch: 32_766 })
  const record = (who: { pid: number; epoch: number }, seq: number, value: string) =>
    ({ ...who, seq, codec: 0, topic: 't', key: Buffer.alloc(0), value: Buffer.from(value) }) as const
  equal((await last.call('BEGIN_TXN', {})).op, 'OK')
  equal((await last.call('PRODUCE_IDEMPOTENT', record({ pid: first.pid, epoch: 32_766 }, 0, 'of the last session'))).op, 'PRODUCE_ACK')

  const fresh = await init(next, 'name')
  ok(fresh.pid !== first.pid)
  equal(fresh.epoch, 0)
  equal((await last.call('PRODUCE_IDEMPOTENT', record({ pid: first.pid, epoch: 32_766 }, 1, 'too late'))).code, 50)
  equal((await last.call('END_TXN', { commit: 1 })).code, 50)
  equal((await next.call('PRODUCE_IDEMPOTENT', record(fresh, 0, 'of the new id'))).op, 'PRODUCE_ACK')
  await whenSettled(at.broker)
  deepEqual(await valuesOf(at.broker, 't', 0), ['of the new id'])
  // It goes on from there.
  deepEqual(await init(await at.connect(), 'name'), { pid: fresh.pid, epoch: 1 })
})

/** How many names were forgotten after so many hours, by the metric, and whether the name has another id then. */
async function idleFor(hours: number, producerNames: NameExpiry): Promise<[expired: number, isNew: boolean]> {
  let expired = 0
  const count = (amount = 1) => {
    expired += amount
  }
  const metrics: Metrics = {
    ...NO_METRICS,
    counter: (name, labels) => (name === 'moonmq_producers_expired_total' ? { add: count } : NO_METRICS.counter(name, labels)),
  }
  await using at = await NativeBroker.open(new MemoryDisk({ clock: new SystemClock() }), SETTINGS, undefined, { producerNames, metrics })
  const peer = await at.connect()
  const first = await init(peer, 'idle')
  peer.socket.close()
  for (let hour = 0; hour < hours; hour++) {
    at.clock.leap(3_600_000)
    // Looks are taken in turns of their own, and what they forget is stored.
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  const { pid } = await init(await at.connect(), 'idle')
  return [expired, pid !== first.pid]
}

test('idle names are forgotten after server.producerExpirySeconds, counted, and never where that is 0', async () => {
  const checkIntervalMs = 300_000
  deepEqual(await idleFor(3, { afterMs: 2 * 3_600_000, checkIntervalMs }), [1, true])
  deepEqual(await idleFor(1, { afterMs: 2 * 3_600_000, checkIntervalMs }), [0, false])
  deepEqual(await idleFor(48, { afterMs: 0, checkIntervalMs }), [0, false])
})
