import { Broker } from '../../src/broker/broker.ts'
import type { RequestContext } from '../../src/broker/context.ts'
import type { ProduceRequest } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { thisMachine } from '../../src/server/machine.ts'
import { FakeMetadata } from '../../test/support/fake-metadata.ts'
import { NullLogs } from './null-log.ts'

/** The broker's own cost of a produce request: everything between the door's decoding and the log's append, on a log that takes all. */
const CONTEXT: RequestContext = {
  principal: 'User:ANONYMOUS',
  protocol: 'kafka',
  clientId: 'bench',
  clientHost: '127.0.0.1',
  listener: 'main',
  signal: new AbortController().signal,
}
const ROUNDS = 5
const ROUND_MS = 400
const STEP = 1000

function batch(count: number, valueBytes: number, codec = 0): Buffer {
  const timestampMs = new SystemClock().nowMs()
  const records = Array.from({ length: count }, () => ({ key: null, value: Buffer.alloc(valueBytes, 97), timestampMs }))
  const codecs = new Codecs({ loader: new NodeLoader() })
  return buildBatch(records, { codec, compress: (number, bytes) => codecs.deflate(number, bytes) })
}

function requestOf(bytes: Buffer, acks: ProduceRequest['acks']): ProduceRequest {
  return { acks, timeoutMs: 30_000, transactionalId: null, partitions: [{ topic: 'bench', partition: 0, batch: bytes }] }
}

/** The best of some rounds, in units a second of processor time; `step` does `perStep` units. */
async function best(perStep: number, step: () => Promise<unknown>): Promise<number> {
  let most = 0
  for (let round = 0; round <= ROUNDS; round++) {
    // Time of the processor, so that what else runs on the machine does not count.
    const start = process.cpuUsage()
    let units = 0
    let usedMs = 0
    while (usedMs < ROUND_MS) {
      await step()
      units += perStep
      const used = process.cpuUsage(start)
      usedMs = (used.user + used.system) / 1000
    }
    // The first round warms up.
    if (round > 0) most = Math.max(most, units / (usedMs / 1000))
  }
  return most
}

function print(what: string, rate: number, unit: string): void {
  process.stdout.write(`${what.padEnd(52)} ${Math.round(rate).toLocaleString('en').padStart(12)} ${unit}/s\n`)
}

async function appends(broker: Broker, what: string, bytes: Buffer, acks: ProduceRequest['acks'], records: number): Promise<void> {
  const request = requestOf(bytes, acks)
  const rate = await best(STEP, async () => {
    for (let i = 0; i < STEP; i++) {
      const ticket = await awaitIfPromise(broker.produce.append(CONTEXT, request))
      if (acks === 'none') ticket.settled()
      else await ticket.settled()
    }
  })
  print(`${what}, acks ${acks}`, rate, 'batches')
  if (records > 1) print('', rate * records, 'records')
}

function awaitIfPromise<T>(value: T | Promise<T>): T | Promise<T> {
  return value
}

/** Values as services send them: JSON with fields that repeat and numbers that do not. */
function jsonBatch(count: number, codecs: Codecs, codec: number): Buffer {
  const timestampMs = new SystemClock().nowMs()
  const random = new SeededRandom(7)
  const records = Array.from({ length: count }, (_, i) => {
    const order = {
      id: i,
      customer: random.below(1e6),
      status: 'shipped',
      amount: random.below(1e5) / 100,
      note: random.below(1e9).toString(36),
    }
    return { key: Buffer.from(`order-${random.below(1e6)}`), value: Buffer.from(JSON.stringify(order).padEnd(200, '.')), timestampMs }
  })
  return buildBatch(records, { codec, compress: (number, bytes) => codecs.deflate(number, bytes) })
}

/** What a look at every record costs beside what a look at the header does. The thread's time counts. */
async function validations(broker: Broker, codecs: Codecs): Promise<void> {
  const config = (value: string) => new Map([['moonmq.record.validation', value]])
  const topic = (name: string) => ({ name, partitions: 1, replicationFactor: 1, assignments: new Map(), config: config(name) })
  for (const name of ['full', 'header']) await broker.topics.create(CONTEXT, topic(name))
  for (const count of [200, 2000]) {
    for (const [codecTitle, codec] of Object.entries(CODEC)) {
      await codecs.ready(codec)
      const bytes = jsonBatch(count, codecs, codec)
      const rates: number[] = []
      for (const name of ['full', 'header']) {
        const request = { ...requestOf(bytes, 'none'), partitions: [{ topic: name, partition: 0, batch: bytes }] }
        rates.push(
          await best(20, async () => {
            for (let i = 0; i < 20; i++) (await awaitIfPromise(broker.produce.append(CONTEXT, request))).settled()
          }),
        )
      }
      const [full = 1, header = 1] = rates
      print(`validation, ${count} records of 210 B, ${codecTitle}, full`, full, 'batches')
      print(`  header only (${(1e6 / full - 1e6 / header).toFixed(0)} us a batch less)`, header, 'batches')
    }
  }
}

async function main(): Promise<void> {
  const clock = new SystemClock()
  const codecs = new Codecs({ loader: new NodeLoader() })
  const { offload } = thisMachine({ poolSize: 4, memoryBytes: 0 })
  const broker = await Broker.open(
    {
      loader: new NodeLoader(),
      metadata: new FakeMetadata(),
      logs: new NullLogs(),
      codecs,
      offload,
      clock,
      random: new SeededRandom(1),
      log: SILENT,
      metrics: NO_METRICS,
    },
    { nodeId: 0, settings: new Map() },
  )
  await broker.topics.create(CONTEXT, { name: 'bench', partitions: 1, replicationFactor: 1, assignments: new Map(), config: new Map() })
  await appends(broker, 'append, 1 record of 100 B', batch(1, 100), 'none', 1)
  await appends(broker, 'append, 1 record of 100 B', batch(1, 100), 'all', 1)
  await appends(broker, 'append, 1 record of 1 KiB', batch(1, 1024), 'none', 1)
  await appends(broker, 'append, 100 records of 1 KiB', batch(100, 1024), 'none', 100)
  await appends(broker, 'append, 100 records of 1 KiB, gzip', batch(100, 1024, 1), 'none', 100)
  await appends(broker, 'append, 100 records of 1 KiB, lz4', batch(100, 1024, 3), 'none', 100)
  const value = Buffer.alloc(100, 97)
  const single = await best(64, () =>
    Promise.all(
      Array.from({ length: 64 }, () =>
        broker.records.produce(CONTEXT, [{ topic: 'bench', partition: null, key: null, value }], {
          acks: 'leader',
          codec: 0,
          timeoutMs: 1000,
        }),
      ),
    ),
  )
  print('single records of 64 clients at a time', single, 'records')
  await validations(broker, codecs)
  await broker.close()
  await offload.close()
}

await main()
