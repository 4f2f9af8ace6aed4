import { resolve } from 'node:path'
import type { Broker } from '../broker/broker.ts'
import { BrokerSettings } from '../broker/settings.ts'
import { formatAddress, parseAddress } from '../config/address.ts'
import type { Settings } from '../config/keys.ts'
import type { Metrics } from '../core/counters.ts'
import { deferred } from '../core/deferred.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Logger, LogLevels } from '../core/logger.ts'
import type { Offload } from '../core/offload.ts'
import type { Resource } from '../core/types.ts'
import { HttpDoor } from '../http/app.ts'
import type { Statements } from '../http/statements.ts'
import type { Door } from '../io/door.ts'
import type { NetConnection } from '../io/net.ts'
import { DEFAULT_KAFKA_DOOR, KafkaDoor } from '../kafka/listener.ts'
import { NativeDoor } from '../native/listener.ts'
import { DEFAULT_NATIVE_DOOR, type NativeDoorOptions } from '../native/options.ts'
import { Codecs } from '../record/compression.ts'
import type { LogManager } from '../storage/log-manager.ts'
import type { Retention } from '../storage/retention-pass.ts'
import { Background } from './background.ts'
import { startCompaction } from './compaction.ts'
import { kafkaConnectionLimits } from './connection-limits.ts'
import { Data } from './data.ts'
import { type BoundListener, FIRST_BYTES_MS, Listeners } from './listeners.ts'
import type { Machine } from './machine.ts'
import { openBroker } from './open-broker.ts'
import type { ServerStatementsDeps } from './statements.ts'
import { Status } from './status.ts'
import { VERSION } from './version.ts'

export interface ServerDeps {
  readonly machine: Machine
  readonly log: Logger
  /** Absent: the log is not the broker's to change. */
  readonly logLevels?: LogLevels
  readonly metrics: Metrics
  /** Text of `/metrics`. */
  readonly scrape: () => Promise<string>
}

/** Files of logs that are open at once, where the descriptor limit allows. */
const MAX_OPEN_FILES = 32_768

/**
 * A whole broker: data, rules, doors, listeners, in the order in which each needs the one before. `stopped` resolves when it has ended,
 * with the error when it had to end by itself.
 */
export class BrokerServer implements Resource {
  readonly broker: Broker
  readonly data: Data
  readonly status: Status
  readonly stopped: Promise<MoonMQError | null>
  readonly #log: Logger
  readonly #background: Background
  readonly #firstTaskMs: number
  readonly #doors: readonly Door[]
  readonly #listeners: Listeners
  readonly #http: HttpDoor | null
  readonly #offload: Offload
  readonly #end: (error: MoonMQError | null) => void
  #failure: MoonMQError | null = null
  #closing: Promise<void> | null = null

  private constructor(parts: Parts) {
    this.broker = parts.broker
    this.data = parts.data
    this.status = parts.status
    this.#log = parts.log
    this.#background = parts.background
    this.#firstTaskMs = parts.firstTaskMs
    this.#doors = parts.doors
    this.#listeners = parts.listeners
    this.#http = parts.http
    this.#offload = parts.offload
    const ended = deferred<MoonMQError | null>()
    this.stopped = ended.promise
    this.#end = ended.resolve
  }

  /** Resolves when every listener takes connections. Offsets of groups are read after that. */
  static async start(deps: ServerDeps, settings: Settings): Promise<BrokerServer> {
    const { machine, metrics } = deps
    const log = deps.log
    const codecs = new Codecs({ loader: machine.loader })
    let server: BrokerServer | null = null
    let early: MoonMQError | null = null
    const onFatal = (error: MoonMQError) => {
      early = error
      server?.fail(error)
    }
    const data = await Data.open(
      { machine, log, metrics, codecs, onFatal },
      {
        folder: dataFolder(settings),
        nodeId: new BrokerSettings(settings.kafka).number('node.id'),
        kafka: settings.kafka,
        groupCommit: settings.server.groupCommit,
        maxOpenFiles: openFiles(machine),
        memoryTopicBytes: settings.server.memoryTopicBytes,
      },
    )
    const undo: (() => Promise<void>)[] = [() => data.close(), () => machine.offload.close()]
    try {
      const parts = await compose({ ...deps, log }, settings, data, codecs, undo)
      server = new BrokerServer(parts)
      if (early !== null) throw early
      server.#startBackground()
      return server
    } catch (error) {
      for (const close of undo.reverse()) await close()
      throw error
    }
  }

  /** Where clients connect. */
  get listeners(): readonly BoundListener[] {
    return this.#listeners.bound
  }

  get httpAddress(): { readonly host: string; readonly port: number } | null {
    return this.#http?.address ?? null
  }

  /** Takes a connection of the same process. */
  acceptInside(connection: NetConnection): void {
    this.#listeners.acceptInside(connection)
  }

  /** Ends the broker because it cannot go on. */
  fail(error: MoonMQError): void {
    this.#failure ??= error
    // Whoever waits for `stopped` gets the first error; a second one while closing changes nothing.
    this.close().catch((failure: unknown) =>
      this.#log.error('server.close_failed', 'the stop was not in order', { error: String(failure) }),
    )
  }

  /** Takes no new requests, answers those that run, closes every log. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.status.stopping()
    try {
      await this.#listeners.close()
      await Promise.all(this.#doors.map((door) => door.close()))
      await this.#http?.close()
      await this.broker.close()
      await this.#offload.close()
    } finally {
      try {
        await this.#background.close()
        await this.data.close()
      } finally {
        this.#end(this.#failure)
      }
    }
  }

  #retain(name: string, { logs, retention }: { logs: LogManager; retention: Retention }): void {
    const loop = this.#background.start({
      name,
      intervalMs: () => retention.nextDelayMs(),
      firstMs: this.#firstTaskMs,
      pass: (signal) => retention.pass(signal),
    })
    logs.onDiskFull = () => {
      retention.hurry()
      loop.soon()
    }
  }

  #startBackground(): void {
    this.#retain('retention', this.data)
    this.#retain('retention of memory topics', this.data.memory)
    this.broker.loadGroups().then(
      () => this.status.groupsLoaded(),
      (error: unknown) => this.#log.error('groups.load_failed', 'the offsets of groups could not be read', { error: String(error) }),
    )
    this.data
      .settleFolders()
      .catch((error: unknown) =>
        this.#log.error('storage.settle_failed', 'folders without a topic could not be settled', { error: String(error) }),
      )
  }
}

interface Parts {
  readonly log: Logger
  readonly background: Background
  readonly firstTaskMs: number
  readonly data: Data
  readonly broker: Broker
  readonly status: Status
  readonly doors: readonly Door[]
  readonly listeners: Listeners
  readonly http: HttpDoor | null
  readonly offload: Offload
}

/** `undo` gets how to close each part, in the order in which they were opened. */
async function compose(deps: ServerDeps, settings: Settings, data: Data, codecs: Codecs, undo: (() => Promise<void>)[]): Promise<Parts> {
  const { machine, log, metrics } = deps
  const { clock, random, offload } = machine
  const kafka = data.settings
  const broker = await openBroker(
    { machine, data, codecs, log, logLevels: deps.logLevels ?? null, metrics },
    {
      nodeId: kafka.number('node.id'),
      settings: settings.kafka,
      defaultBackend: settings.server.storageBackend,
      dlqSuffix: settings.server.dlq.suffix,
      maxDeliveries: settings.server.dlq.maxDeliveries,
      producerNames: {
        afterMs: settings.server.producerExpirySeconds * 1000,
        checkIntervalMs: settings.server.producerExpiryCheckIntervalSeconds * 1000,
      },
    },
  )
  undo.push(() => broker.close())
  const kafkaDoor = new KafkaDoor(
    { broker, clock, random, log, metrics },
    {
      ...DEFAULT_KAFKA_DOOR,
      maxRequestBytes: kafka.number('socket.request.max.bytes'),
      idleMs: kafka.number('connections.max.idle.ms'),
      maxFetchSessions: kafka.number('max.incremental.fetch.session.cache.slots'),
    },
  )
  const nativeDoor = new NativeDoor({ broker, clock, random, log, metrics }, nativeOptions(settings))
  const status = new Status({ clock, metrics, data, broker, connections: () => listeners.openConnections }, settings)
  let httpAddress: string | null = null
  const listeners = await Listeners.open(
    { net: machine.net, clock, log, metrics, doors: { kafka: kafkaDoor, native: nativeDoor } },
    {
      listeners: settings.listeners.map((each) => ({
        ...each,
        advertised: each.advertised === null ? null : parseAddress(each.advertised),
      })),
      limits: {
        maxConnections: settings.server.maxConnections,
        maxPerAddressBeforeLogin: settings.server.maxConnectionsPerIp,
        kafka: kafkaConnectionLimits(kafka),
        descriptorLimit: machine.host.descriptorLimit,
        descriptorReserve: settings.server.fdReserve + openFiles(machine),
      },
      firstBytesMs: FIRST_BYTES_MS,
      httpAddress: () => httpAddress,
    },
  )
  undo.push(() => listeners.close())
  const statements = lateStatements({
    accept: (connection, principal) => listeners.acceptInside(connection, principal),
    clock,
    random,
  })
  const http = await openHttp(deps, settings, status, statements)
  if (http !== null) {
    undo.push(() => http.close())
    httpAddress = formatAddress(http.address)
  }
  const background = new Background({ clock, log, metrics })
  undo.push(() => background.close())
  startCompaction({ data, background, clock, log, metrics })
  const firstTaskMs = kafka.number('log.initial.task.delay.ms')
  return { log, background, firstTaskMs, data, broker, status, doors: [kafkaDoor, nativeDoor], listeners, http, offload }
}

/** The language and the client are loaded with the first statement: a start does without them. */
function lateStatements(deps: ServerStatementsDeps): Statements {
  let loaded: Promise<Statements> | null = null
  return {
    run: async (principal, request, signal) => {
      loaded ??= import('./statements.ts').then(({ ServerStatements }) => new ServerStatements(deps))
      return (await loaded).run(principal, request, signal)
    },
  }
}

function openHttp(deps: ServerDeps, settings: Settings, status: Status, statements: Statements): Promise<HttpDoor | null> {
  const { host, port } = settings.http
  if (port === null) return Promise.resolve(null)
  const sources = { metrics: deps.scrape, checks: () => status.checks(), stats: () => status.stats() }
  const bearerToken = settings.server.metricsAuth.token === '' ? null : settings.server.metricsAuth.token
  return HttpDoor.open({ log: deps.log, metrics: deps.metrics, sources, statements }, { host, port, version: VERSION, bearerToken })
}

function nativeOptions({ server }: Settings): NativeDoorOptions {
  return {
    ...DEFAULT_NATIVE_DOOR,
    maxFrameBytes: server.maxFrameSize,
    maxPendingBytes: server.maxPendingBytes,
    sendDeadlineMs: server.sendDeadline * 1000,
    handshakeDeadlineMs: server.handshakeDeadline * 1000,
    preAuthReadDeadlineMs: server.preAuthReadDeadline * 1000,
    idleDeadlineMs: server.idleDeadline * 1000,
    heartbeatIntervalMs: server.heartbeatInterval * 1000,
    heartbeatMissThreshold: server.heartbeatMissThreshold,
    maxListTopics: server.maxListTopics,
    acks: server.acks,
    server: { name: 'MoonMQ', version: VERSION },
  }
}

/** Absolute, as every path of the disk is. In memory the name is of no matter. */
export function dataFolder(settings: Settings): string {
  return settings.server.memory ? '/moonmq-data' : resolve(settings.server.dataDir)
}

/** Half of the descriptors is for files, the rest for connections. */
function openFiles(machine: Machine): number {
  const limit = machine.host.descriptorLimit
  return limit === null ? 4096 : Math.max(64, Math.min(MAX_OPEN_FILES, Math.floor(limit / 2)))
}
