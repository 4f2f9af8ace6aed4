import { deepEqual, equal, rejects } from 'node:assert/strict'
import test from 'node:test'
import { Broker } from '../../src/broker/broker.ts'
import { connect } from '../../src/client/index.ts'
import type { Client, ClientRecord, ConsumerOptions } from '../../src/client/types.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { isCode } from '../../src/core/errors.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { ClientOperations } from '../../src/mql/client-operations.ts'
import { NativeDoor } from '../../src/native/listener.ts'
import { DEFAULT_NATIVE_DOOR } from '../../src/native/options.ts'
import { createTopic, fakeCodecs } from '../support/fake-broker.ts'
import { FakeLogs } from '../support/fake-log.ts'
import { FakeMetadata } from '../support/fake-metadata.ts'

/** A broker that speaks version 1 alone, and a client of it. */
async function version1(): Promise<{ client: Client; broker: Broker } & AsyncDisposable> {
  const clock = new SystemClock()
  const random = new SeededRandom(1)
  const common = { clock, random, log: SILENT, metrics: NO_METRICS }
  const broker = await Broker.open(
    { loader: new NodeLoader(), ...common, logs: new FakeLogs(), metadata: new FakeMetadata(), ...fakeCodecs() },
    { nodeId: 0, settings: new Map() },
  )
  await broker.loadGroups()
  const door = new NativeDoor({ ...common, broker }, { ...DEFAULT_NATIVE_DOOR, extension: false })
  const net = new VirtualNet({ clock })
  let id = 0
  await net.listen({ host: 'broker', port: 9092 }, (connection) =>
    door.accept(connection, Buffer.alloc(0), { id: ++id, listener: 'main', advertised: null, loggedIn: () => {} }),
  )
  const client = await connect({ address: 'broker:9092', net })
  return {
    client,
    broker,
    async [Symbol.asyncDispose]() {
      await client.close()
      await door.close()
      await broker.close()
    },
  }
}

async function take(client: Client, count: number, more: Partial<ConsumerOptions> = {}): Promise<ClientRecord[]> {
  const taken: ClientRecord[] = []
  for await (const record of client.consumer({ group: 'g', topics: ['t'], ...more })) {
    taken.push(record)
    if (taken.length === count) break
  }
  return taken
}

test('a broker of version 1: topics, records by key, a group that goes on', async () => {
  await using at = await version1()
  await at.client.admin.createTopic('t', { partitions: 4 })
  equal(at.broker.topics.get('t').partitions.length, 4)
  await using producer = at.client.producer()
  deepEqual(await producer.send('t', { key: 'k1', value: '0' }), { partition: 1, offset: 0 })
  await producer.sendMany(
    't',
    Array.from({ length: 9 }, (_, i) => ({ key: 'k1', value: String(i + 1) })),
  )
  const offsets = (records: readonly ClientRecord[]) => records.map((record) => record.offset)
  const first = await take(at.client, 4)
  deepEqual(offsets(first), [0, 1, 2, 3])
  deepEqual([first[0]?.partition, first[0]?.key?.toString(), first[3]?.value?.toString()], [1, 'k1', '3'])
  // The fourth was not done, though the broker had delivered all ten.
  deepEqual(offsets(await take(at.client, 100, { endWhenIdle: true })), [3, 4, 5, 6, 7, 8, 9])
  deepEqual(offsets(await take(at.client, 100, { endWhenIdle: true })), [])
})

test('a broker of version 1: commits by hand, and what it cannot do', async () => {
  await using at = await version1()
  await createTopic(at.broker, 't')
  await using producer = at.client.producer()
  await producer.sendMany('t', [{ value: '0' }, { value: '1' }, { value: '2' }])
  const consumer = at.client.consumer({ group: 'g', topics: ['t'], commit: 'manual' })
  for await (const record of consumer) {
    if (record.offset === 1) {
      await consumer.commit(record)
      break
    }
  }
  deepEqual(
    (await take(at.client, 100, { endWhenIdle: true, commit: 'manual' })).map((record) => record.offset),
    [2],
  )
  await rejects(producer.send('t', { value: null }), (error) => isCode(error, 'UNSUPPORTED_VERSION'))
  await rejects(producer.send('missing', { value: 'x' }), (error) => isCode(error, 'TOPIC_MISSING'))
  await rejects(
    async () => {
      for await (const _ of at.client.reader({ topic: 't' })) throw new Error('a record')
    },
    (error) => isCode(error, 'UNSUPPORTED_VERSION'),
  )
})

test('the console on a broker of version 1: groups read by asking, also where they would be pushed to; NACK and COMMIT follow', async () => {
  await using at = await version1()
  const deps = { client: at.client, clock: new SystemClock(), random: new SeededRandom(3) }
  await using operations = new ClientOperations(deps, 'broker')
  const { signal } = new AbortController()
  await operations.createTopic('t', 1, {}, signal)
  for (const value of ['a', 'b', 'c']) await operations.produce('t', { key: null, value, headers: [], partition: null }, signal)
  const values = (records: readonly ClientRecord[]) => records.map(({ value }) => value?.toString())
  deepEqual(values(await operations.fetch('t', 'g', { maxRecords: 1, maxBytes: 1000 }, signal)), ['a'])
  deepEqual(await operations.nack('t', 0, 0, '', signal), { deadLettered: false, attempts: 1, deadLetterTopic: '' })
  const limits = { idleMs: 500, totalMs: 60_000, maxRecords: 2, maxBytes: 1000 }
  const collected: ClientRecord[] = []
  for await (const record of operations.subscribe('t', 'other', limits, signal)) collected.push(record)
  deepEqual(values(collected), ['a', 'b'])
  deepEqual(values(await operations.fetch('t', 'other', { maxRecords: 9, maxBytes: 1000 }, signal)), ['c'])
  deepEqual(values(await operations.fetch('t', 'g', { maxRecords: 9, maxBytes: 1000 }, signal)), ['a', 'b', 'c'])
  await operations.commit('t', 0, 1, signal)
  await using session = at.client.session()
  deepEqual(values(await session.fetch('t', 'g', 9, { isolation: 'read_committed' })), ['b', 'c'])
})
