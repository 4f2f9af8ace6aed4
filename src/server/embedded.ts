import { connect } from '../client/index.ts'
import type { Client, ClientOptions } from '../client/types.ts'
import { resolveConfig } from '../config/resolve.ts'
import { defined } from '../core/assert.ts'
import { type Logger, SILENT } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'
import { VirtualNet } from '../io/virtual-net.ts'
import { MetricsRegistry } from '../obs/metrics.ts'
import { Scrape } from '../obs/scrape.ts'
import { BrokerServer } from './broker-server.ts'
import { DEFAULT_POOL_SIZE, type Machine, thisMachine } from './machine.ts'

export interface StartBrokerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 9092; 0 = any free one. */
  readonly port?: number
  /** Default ./moonmq-data. Ignored with `memory`. */
  readonly dataDir?: string
  /** Keeps everything in memory. */
  readonly memory?: boolean
  /** `memory` is another word for `memory: true`. */
  readonly storage?: 'disk' | 'memory'
  /** Where metrics, health and statistics are served; null = nowhere, which is the default of an embedded broker. */
  readonly http?: { readonly host?: string; readonly port?: number } | null
  /** Any other setting, as it would stand in `moonmq.json`. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Gets the log; the default is silence. */
  readonly log?: Logger
  /** For tests and simulations: another clock, disk or network than the machine's. */
  readonly machine?: Partial<Machine>
}

/** What a client of an embedded broker may choose. */
export type EmbeddedClientOptions = Omit<ClientOptions, 'address' | 'net' | 'clock' | 'random'>

/** A broker inside this process. */
export interface EmbeddedBroker extends Resource {
  readonly host: string
  readonly port: number
  /** `host:port`, for any Kafka client and for `connect` of `moonmq/client`. */
  readonly address: string
  readonly httpAddress: { readonly host: string; readonly port: number } | null
  /** A client of this broker over a connection inside the process: no socket, no port, everything else the same. */
  connect(options?: EmbeddedClientOptions): Promise<Client>
  /** Resolves when the broker has ended, with the error if it had to end by itself. */
  readonly stopped: Promise<Error | null>
}

/** Where clients of the same process find the broker on its own little network. */
const INSIDE = { host: 'inside', port: 9092 }

/** Starts a broker in this process; resolves when clients can connect. Throws SETTING_INVALID, DATA_FOLDER_LOCKED, DATA_DAMAGED. */
export async function startBroker(options: StartBrokerOptions = {}): Promise<EmbeddedBroker> {
  const { log = SILENT, http = null } = options
  const { settings } = resolveConfig({ files: [configFile(options.config)], env: {}, flags: flags(options, http) })
  const memoryBytes = settings.server.memory ? Number.POSITIVE_INFINITY : null
  const machine = { ...thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes, log }), ...options.machine }
  const registry = new MetricsRegistry()
  // The process is the embedder's own: its memory and processor time are not ours to report.
  const scrape = new Scrape({ loader: machine.loader, registry }, { processMetrics: false })
  const server = await BrokerServer.start({ machine, log, metrics: registry, scrape: () => scrape.text() }, settings)
  const { address } = defined(server.listeners[0], 'the first listener')
  const host = address.host
  const { clock, random } = machine
  const net = new VirtualNet({ clock })
  const inside = await net.listen(INSIDE, (connection) => server.acceptInside(connection))
  const close = async () => {
    await inside.close()
    await server.close()
  }
  return {
    host,
    port: address.port,
    address: host.includes(':') ? `[${host}]:${address.port}` : `${host}:${address.port}`,
    httpAddress: server.httpAddress,
    connect: (chosen = {}) => connect({ ...chosen, address: INSIDE, net, clock, random }),
    stopped: server.stopped,
    close,
    [Symbol.asyncDispose]: close,
  }
}

function configFile(config: StartBrokerOptions['config']) {
  return { name: 'options.config', text: JSON.stringify(config ?? {}), style: 'moonmq' as const }
}

function flags(options: StartBrokerOptions, http: StartBrokerOptions['http']): { flag: string; path: string; value: unknown }[] {
  const list: { flag: string; path: string; value: unknown }[] = []
  const add = (flag: string, path: string, value: unknown) => {
    if (value !== undefined) list.push({ flag, path, value })
  }
  add('options.host', 'server.host', options.host)
  add('options.port', 'server.port', options.port)
  add('options.dataDir', 'server.dataDir', options.dataDir)
  add('options.memory', 'server.memory', options.memory ?? (options.storage === undefined ? undefined : options.storage === 'memory'))
  add('options.http', 'http.host', http?.host)
  add('options.http', 'http.port', http === null ? null : http?.port)
  return list
}
