import { Broker, type BrokerOptions } from '../../src/broker/broker.ts'
import type { RequestContext } from '../../src/broker/context.ts'
import type { ProduceOutcome } from '../../src/broker/ports.ts'
import { type Metrics, NO_METRICS } from '../../src/core/counters.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { type Logger, SILENT } from '../../src/core/logger.ts'
import type { Offload } from '../../src/core/offload.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { InlineOffload } from '../../src/io/offload.ts'
import { type BatchCodecs, runBatchJob } from '../../src/record/batch-jobs.ts'
import { type BatchOptions, buildBatch, type NewRecord } from '../../src/record/builder.ts'
import { FakeLogs } from './fake-log.ts'
import { FakeMetadata } from './fake-metadata.ts'

export const NOW_MS = 1_700_000_000_000

export function contextOf(overrides: Partial<RequestContext> = {}): RequestContext {
  return {
    principal: 'User:ANONYMOUS',
    protocol: 'kafka',
    clientId: 'test',
    clientHost: '127.0.0.1',
    listener: 'main',
    signal: new AbortController().signal,
    ...overrides,
  }
}

/** A codec (number 1) whose packed form is the bytes turned around, and one (2) that must be loaded first. */
export class FakeCodecs implements BatchCodecs {
  loaded = false
  load: () => Promise<void> = async () => {}

  ready(codec: number): Promise<void> | undefined {
    if (codec === 2 && !this.loaded) {
      return this.load().then(() => {
        this.loaded = true
      })
    }
    return undefined
  }

  inflate(codec: number, bytes: Buffer, maxBytes: number): Buffer {
    if (codec === 0) return bytes
    if (bytes.length > maxBytes) throw new MoonMQError('INFLATED_TOO_LARGE', { limit: maxBytes })
    return Buffer.from(bytes).reverse()
  }

  sizeHint(): undefined {}

  deflate(_codec: number, bytes: Buffer): Buffer {
    return Buffer.from(bytes).reverse()
  }
}

/** Fake codecs with what runs their jobs. */
export function fakeCodecs(): { codecs: FakeCodecs; offload: Offload } {
  const codecs = new FakeCodecs()
  return { codecs, offload: new InlineOffload({ run: (job) => runBatchJob(codecs, job) }) }
}

export interface FakeBroker {
  readonly broker: Broker
  readonly logs: FakeLogs
  readonly metadata: FakeMetadata
  readonly clock: VirtualClock
  readonly codecs: FakeCodecs
}

/** The real broker over logs and metadata in arrays, on virtual time. With `former`, a restart of that one, which is closed. */
export async function fakeBroker(
  options: Partial<BrokerOptions> = {},
  metrics: Metrics = NO_METRICS,
  former: Pick<FakeBroker, 'logs' | 'metadata' | 'clock'> | null = null,
  log: Logger = SILENT,
): Promise<FakeBroker> {
  const logs = former?.logs ?? new FakeLogs()
  const metadata = former?.metadata ?? new FakeMetadata()
  const clock = former?.clock ?? new VirtualClock(NOW_MS)
  logs.keepsLogs = former !== null
  const { codecs, offload } = fakeCodecs()
  const broker = await Broker.open(
    {
      loader: new NodeLoader(),
      logs,
      metadata,
      clock,
      codecs,
      offload,
      // Ids of an earlier start do not come again.
      random: new SeededRandom(former === null ? 1 : 2 + metadata.image.nextOffset),
      log,
      logLevels: { level: 'info' },
      metrics,
    },
    { nodeId: 0, settings: new Map(), ...options },
  )
  return { broker, logs, metadata, clock, codecs }
}

export function createTopic(broker: Broker, name: string, partitions = 1, config: Record<string, string> = {}) {
  return broker.topics.create(contextOf(), {
    name,
    partitions,
    replicationFactor: 1,
    assignments: new Map(),
    config: new Map(Object.entries(config)),
  })
}

export function recordsOf(count: number, valueBytes = 10, timestampMs = NOW_MS): NewRecord[] {
  return Array.from({ length: count }, (_, i) => ({ key: Buffer.from(`k${i}`), value: Buffer.alloc(valueBytes, 97), timestampMs }))
}

export function batchOf(count: number, options: BatchOptions & { valueBytes?: number; timestampMs?: number } = {}): Buffer {
  const { valueBytes, timestampMs, ...batch } = options
  return buildBatch(recordsOf(count, valueBytes, timestampMs), batch)
}

export async function produceOne(
  broker: Broker,
  topic: string,
  partition: number,
  batch: Buffer,
  acks: 'none' | 'leader' | 'all' = 'all',
): Promise<ProduceOutcome> {
  const ticket = await broker.produce.append(contextOf(), {
    acks,
    timeoutMs: 1000,
    transactionalId: null,
    partitions: [{ topic, partition, batch }],
  })
  const outcome = (await ticket.settled())[0]
  if (outcome === undefined) throw new Error('no outcome')
  return outcome
}
