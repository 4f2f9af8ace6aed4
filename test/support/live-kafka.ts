import { Broker } from '../../src/broker/broker.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { NodeNet } from '../../src/io/node-net.ts'
import type { AnyApi } from '../../src/kafka/handler.ts'
import { DEFAULT_KAFKA_DOOR, KafkaDoor, type KafkaDoorOptions } from '../../src/kafka/listener.ts'
import { DEFAULT_CONNECTION_LIMITS } from '../../src/server/connection-limits.ts'
import { FIRST_BYTES_MS, Listeners } from '../../src/server/listeners.ts'
import { fakeCodecs } from './fake-broker.ts'
import { FakeLogs } from './fake-log.ts'
import { FakeMetadata } from './fake-metadata.ts'
import { LinesLogger } from './kafka-door.ts'

export interface LiveKafka extends AsyncDisposable {
  readonly address: string
  readonly port: number
  readonly broker: Broker
  readonly logs: FakeLogs
  readonly log: LinesLogger
  readonly door: KafkaDoor
}

/** The shared listener and the Kafka door on a port of the machine, the real broker behind them, its logs in arrays. */
export async function liveKafka(
  options: { apis?: readonly AnyApi[]; door?: Partial<KafkaDoorOptions>; settings?: Record<string, string> } = {},
): Promise<LiveKafka> {
  const clock = new SystemClock()
  const log = new LinesLogger()
  const logs = new FakeLogs()
  const random = new SeededRandom(1)
  const broker = await Broker.open(
    { loader: new NodeLoader(), logs, metadata: new FakeMetadata(), clock, random, log, metrics: NO_METRICS, ...fakeCodecs() },
    { nodeId: 0, settings: new Map(Object.entries(options.settings ?? {})) },
  )
  await broker.loadGroups()
  const apis = options.apis === undefined ? {} : { apis: options.apis }
  const door = new KafkaDoor({ broker, clock, random, log, metrics: NO_METRICS, ...apis }, { ...DEFAULT_KAFKA_DOOR, ...options.door })
  const listeners = await Listeners.open(
    { net: new NodeNet({ clock, log }), clock, log, metrics: NO_METRICS, doors: { kafka: door } },
    {
      listeners: [{ name: 'main', host: '127.0.0.1', port: 0, protocols: ['native', 'kafka'], advertised: null }],
      limits: DEFAULT_CONNECTION_LIMITS,
      firstBytesMs: FIRST_BYTES_MS,
      httpAddress: () => '127.0.0.1:9090',
    },
  )
  const port = listeners.bound[0]?.address.port ?? 0
  return {
    address: `127.0.0.1:${port}`,
    port,
    broker,
    logs,
    log,
    door,
    async [Symbol.asyncDispose]() {
      await listeners.close()
      await door.close()
      await broker.close()
    },
  }
}
