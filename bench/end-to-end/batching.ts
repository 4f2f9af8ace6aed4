import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ClientConnection } from '../../src/client/connection.ts'
import { connect } from '../../src/client/index.ts'
import { depsOf, targetOf } from '../../src/client/options.ts'
import type { Client, Producer } from '../../src/client/types.ts'
import { ACKS_LEADER, ANY_PARTITION } from '../../src/wire/opcodes.ts'
import { RawKafka } from '../../test/support/raw-kafka.ts'
import { freePort } from './moonmq-server.ts'
import { median } from './report.ts'

/**
 * What batching is worth: 400 records, acks leader, sent in every way that both doors have, with the syncs that each takes:
 * `node dist/bench/end-to-end/batching.js [rounds]`. The broker is a process of its own with its default settings. Rounds alternate between
 * the ways, each with a fresh topic of one partition and of four.
 */
const RECORDS = 400
const VALUE = Buffer.alloc(100, 'x')
const PARTITIONS = [1, 4] as const
const TIMEOUT_MS = 60_000

interface World {
  readonly connection: ClientConnection
  readonly producer: Producer
  readonly kafka: RawKafka
}

interface Way {
  readonly name: string
  readonly run: (world: World, topic: string, partitions: number) => Promise<unknown>
}

const plain = (index: number) => ({ key: Buffer.from(`key-${index}`), value: VALUE })
const options = { timeoutMs: TIMEOUT_MS }
const indexes = Array.from({ length: RECORDS }, (_, index) => index)

function produceOne({ connection }: World, topic: string, index: number) {
  return connection.request('PRODUCE', { codec: 0, topic, ...plain(index) }, 'PRODUCE_ACK', options)
}

async function oneByOne(each: (index: number) => Promise<unknown>): Promise<void> {
  for (const index of indexes) await each(index)
}

const WAYS: readonly Way[] = [
  { name: 'PRODUCE, one after the other', run: (world, topic) => oneByOne((index) => produceOne(world, topic, index)) },
  { name: 'PRODUCE, all sent at once', run: (world, topic) => Promise.all(indexes.map((index) => produceOne(world, topic, index))) },
  {
    name: 'PRODUCE_BATCH of 400',
    run: ({ connection }, topic) =>
      connection.request('PRODUCE_BATCH', { flags: 0, codec: 0, topic, records: indexes.map(plain) }, 'PRODUCE_BATCH_ACK', options),
  },
  {
    name: 'SEND of 400 (extension)',
    run: ({ connection }, topic) => {
      const records = indexes.map((index) => ({ partition: ANY_PARTITION, ...plain(index), headers: [] }))
      return connection.request('SEND', { acks: ACKS_LEADER, codec: 0, timeoutMs: TIMEOUT_MS, topic, records }, 'SENT', options)
    },
  },
  { name: 'client library, each awaited', run: ({ producer }, topic) => oneByOne((index) => producer.send(topic, plain(index))) },
  {
    name: 'client library, 400 calls of send',
    run: ({ producer }, topic) => Promise.all(indexes.map((index) => producer.send(topic, plain(index)))),
  },
  {
    name: 'Kafka Produce of one record, one after the other',
    run: ({ kafka }, topic, partitions) =>
      oneByOne((index) => kafka.produce(topic, index % partitions, [{ key: `key-${index}`, value: `${VALUE}` }])),
  },
  {
    name: 'Kafka Produce of one batch a partition',
    run: ({ kafka }, topic, partitions) =>
      Promise.all(
        Array.from({ length: partitions }, (_, partition) => {
          const mine = indexes.filter((index) => index % partitions === partition)
          return kafka.produce(
            topic,
            partition,
            mine.map((index) => ({ key: `key-${index}`, value: `${VALUE}` })),
          )
        }),
      ),
  },
]

interface Sample {
  readonly ms: number
  readonly syncs: number
}

async function measure(world: World, client: Client, http: string, way: Way, partitions: number, topic: string): Promise<Sample> {
  await client.admin.createTopic(topic, { partitions })
  // The first write to a file makes it, which is not what is measured.
  const first = Array.from({ length: partitions }, (_, partition) => ({ value: 'first', partition }))
  await client.producer().sendMany(topic, first)
  const before = await syncsOf(http)
  const startMs = performance.now()
  await way.run(world, topic, partitions)
  const ms = performance.now() - startMs
  const syncs = (await syncsOf(http)) - before
  const stored = (await client.admin.describeTopic(topic)).partitions.reduce((sum, { logEndOffset }) => sum + logEndOffset, 0)
  if (stored !== RECORDS + partitions) throw new Error(`${way.name}: ${stored} records are stored`)
  await client.admin.deleteTopic(topic)
  return { ms, syncs }
}

async function syncsOf(http: string): Promise<number> {
  const text = await (await fetch(`http://${http}/metrics`)).text()
  return Number(/^moonmq_fsync_total (\d+)/m.exec(text)?.[1] ?? Number.NaN)
}

async function main(rounds: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-batching-'))
  const [address, http] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const bin = resolve('dist/bin/moonmq.cjs')
  const child = spawn(process.execPath, [bin, 'start', '--listen', address, '--http', http, '--data', join(folder, 'data')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  try {
    const client = await started(address)
    const given = { address, timeoutMs: TIMEOUT_MS }
    const target = targetOf(given)
    const connection = await ClientConnection.open(depsOf(given), target, target.addresses[0] ?? { host: '127.0.0.1', port: 9092 })
    using kafka = await RawKafka.connect(address)
    // A connection that says nothing for five seconds is closed.
    await kafka.request('ApiVersions', 0, {})
    const world: World = { connection, producer: client.producer(), kafka }
    const samples = new Map<string, Sample[]>()
    for (let round = 0; round <= rounds; round++) {
      for (const partitions of PARTITIONS) {
        for (const [index, way] of WAYS.entries()) {
          const sample = await measure(world, client, http, way, partitions, `t-${round}-${partitions}-${index}`)
          const key = `${partitions} ${way.name}`
          // The first round only warms up.
          if (round > 0) samples.set(key, [...(samples.get(key) ?? []), sample])
        }
      }
    }
    print(samples, rounds)
    await connection.close()
    await client.close()
  } finally {
    child.kill('SIGTERM')
    await once(child, 'exit')
    await rm(folder, { recursive: true, force: true })
  }
}

async function started(address: string): Promise<Client> {
  for (let tries = 0; ; tries++) {
    try {
      return await connect({ address, timeoutMs: TIMEOUT_MS })
    } catch (error) {
      if (tries > 100) throw error
      await pause(100)
    }
  }
}

function print(samples: ReadonlyMap<string, readonly Sample[]>, rounds: number): void {
  const out = (text: string) => process.stdout.write(`${text}\n`)
  out(`${RECORDS} records of ${VALUE.length} bytes, acks leader; medians of ${rounds} rounds\n`)
  for (const partitions of PARTITIONS) {
    out(`| ${partitions} partition${partitions === 1 ? '' : 's'} | ms | records/s | syncs | times as fast as the first |`)
    out('| --- | --- | --- | --- | --- |')
    let slowest = Number.NaN
    for (const { name } of WAYS) {
      const of = samples.get(`${partitions} ${name}`) ?? []
      const ms = median(of.map((sample) => sample.ms))
      if (Number.isNaN(slowest)) slowest = ms
      const syncs = median(of.map((sample) => sample.syncs))
      out(
        `| ${name} | ${ms.toFixed(1)} | ${Math.round((RECORDS / ms) * 1000).toLocaleString('en-US')} | ${syncs} | ${(slowest / ms).toFixed(1)} |`,
      )
    }
    out('')
  }
}

await main(Number(process.argv[2] ?? '5'))
