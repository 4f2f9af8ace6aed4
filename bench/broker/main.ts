import { Broker } from '../../src/broker/broker.ts'
import type { RequestContext } from '../../src/broker/context.ts'
import type { ProduceRequest } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { InlineOffload } from '../../src/io/offload.ts'
import { runBatchJob } from '../../src/record/batch-jobs.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { Codecs } from '../../src/record/compression.ts'
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

async function main(): Promise<void> {
  const clock = new SystemClock()
  const codecs = new Codecs({ loader: new NodeLoader() })
  const broker = await Broker.open(
    {
      metadata: new FakeMetadata(),
      logs: new NullLogs(),
      codecs,
      offload: new InlineOffload({ run: (job) => runBatchJob(codecs, job) }),
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
  await broker.close()
}

await main()
