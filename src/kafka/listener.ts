import type { BrokerPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import { deferred } from '../core/deferred.ts'
import { KIB, MAX_PRE_AUTH_FRAME_BYTES, MAX_REQUEST_BYTES, MIB } from '../core/limits.ts'
import { LogGate } from '../core/log-gate.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import type { Resource } from '../core/types.ts'
import type { AcceptInfo, Door } from '../io/door.ts'
import type { NetConnection } from '../io/net.ts'
import { type ConnectionDeps, type ConnectionLimits, KafkaConnection } from './connection.ts'
import { Dispatch } from './dispatch.ts'
import { FetchSessions } from './fetch-sessions.ts'
import { FrameBudget } from './frames.ts'
import { type AnyApi, withOptional } from './handler.ts'
import { KAFKA_APIS } from './handlers/index.ts'
import { Instruments } from './instruments.ts'
import { LargeRequests } from './large-requests.ts'
import { LentMemory } from './lent-memory.ts'

export interface KafkaDoorDeps {
  readonly broker: BrokerPorts
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  /** What is served; the default is everything. Tests pass handlers of their own. */
  readonly apis?: readonly AnyApi[]
}

export interface KafkaDoorOptions extends ConnectionLimits {
  /** Memory of unfinished frames, over all connections that have sent a valid request; and over those that have not. */
  readonly maxPartialBytes: number
  readonly maxFirstPartialBytes: number
  /** Requests of more than 1 MiB that are served at once, records apart, over all connections; see LargeRequests. */
  readonly maxLargeRequestBytes: number
  /** Record bytes that answers to readers may hold, over all connections. */
  readonly maxLentBytes: number
  /** Fetch sessions, and memory of them, over all connections. */
  readonly maxFetchSessions: number
  readonly maxFetchSessionBytes: number
  /** How long requests that run may take at the end before their connections are cut. */
  readonly drainMs: number
}

export const DEFAULT_KAFKA_DOOR: KafkaDoorOptions = {
  maxRequestBytes: MAX_REQUEST_BYTES,
  maxFirstRequestBytes: MAX_PRE_AUTH_FRAME_BYTES,
  idleMs: 600_000,
  firstRequestMs: 30_000,
  maxOpenRequests: 128,
  maxOpenBytes: 32 * MIB,
  maxWaitingBytes: 128 * KIB,
  maxQueuedBytes: 4 * MIB,
  maxPartialBytes: 512 * MIB,
  maxFirstPartialBytes: 64 * MIB,
  maxLargeRequestBytes: 16 * MIB,
  maxLentBytes: 512 * MIB,
  maxFetchSessions: 1000,
  maxFetchSessionBytes: 128 * MIB,
  drainMs: 5_000,
}

const REFUSALS_LOGGED_PER_SECOND = 20
const ANONYMOUS = 'User:ANONYMOUS'

const PROTOCOL = { protocol: 'kafka' }

/** The Kafka door: owns every Kafka connection from the listener's hands to its end. */
export class KafkaDoor implements Door, Resource {
  readonly dispatch: Dispatch
  readonly #deps: KafkaDoorDeps
  readonly #options: KafkaDoorOptions
  readonly #connectionDeps: ConnectionDeps
  readonly #connections = new Set<KafkaConnection>()
  readonly #instruments: Instruments
  readonly #budget: FrameBudget
  readonly #firstBudget: FrameBudget
  readonly #sessions: FetchSessions
  readonly #unobserve: readonly (() => void)[]
  readonly #allClosed = deferred()
  #closing: Promise<void> | null = null

  constructor(deps: KafkaDoorDeps, options: KafkaDoorOptions = DEFAULT_KAFKA_DOOR) {
    this.#deps = deps
    this.#options = options
    const { settings } = deps.broker.cluster
    this.dispatch = new Dispatch((deps.apis ?? KAFKA_APIS).map((each) => withOptional(each, settings)))
    this.#instruments = new Instruments(deps.metrics, this.dispatch.apis)
    this.#budget = new FrameBudget(options.maxPartialBytes)
    this.#firstBudget = new FrameBudget(options.maxFirstPartialBytes)
    this.#sessions = new FetchSessions(deps, { maxSessions: options.maxFetchSessions, maxBytes: options.maxFetchSessionBytes })
    const pending = () => [...this.#connections].map((connection) => connection.pendingBytes)
    this.#unobserve = [
      deps.metrics.observed('moonmq_pending_bytes', () => pending().reduce((sum, bytes) => sum + bytes, 0), PROTOCOL),
      deps.metrics.observed('moonmq_pending_bytes_max', () => Math.max(0, ...pending()), PROTOCOL),
    ]
    this.#connectionDeps = {
      broker: deps.broker,
      clock: deps.clock,
      log: deps.log,
      dispatch: this.dispatch,
      budget: this.#budget,
      firstBudget: this.#firstBudget,
      large: new LargeRequests(options.maxLargeRequestBytes),
      refusals: new LogGate(deps.clock, REFUSALS_LOGGED_PER_SECOND),
      principal: ANONYMOUS,
      instruments: this.#instruments,
      lent: new LentMemory(options.maxLentBytes),
      sessions: this.#sessions,
      closed: (connection, reason) => this.#forget(connection, reason),
    }
  }

  get openConnections(): number {
    return this.#connections.size
  }

  /** Memory held by frames that have begun and are not complete. */
  get partialBytes(): number {
    return this.#budget.takenBytes + this.#firstBudget.takenBytes
  }

  accept(socket: NetConnection, head: Buffer, info: AcceptInfo): void {
    if (this.#closing !== null) {
      socket.destroy()
      return
    }
    const connection = new KafkaConnection(this.#connectionDeps, this.#options, socket, info)
    this.#connections.add(connection)
    connection.start(head)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    for (const stop of this.#unobserve) stop()
    this.#sessions.close()
    if (this.#connections.size === 0) return
    const deadline = this.#deps.clock.setTimer(
      this.#options.drainMs,
      () => {
        for (const connection of [...this.#connections]) connection.destroy('shutdown')
      },
      { keepAlive: true },
    )
    for (const connection of [...this.#connections]) connection.stop('shutdown')
    await this.#allClosed.promise
    deadline.cancel()
  }

  #forget(connection: KafkaConnection, reason: string): void {
    if (!this.#connections.delete(connection)) return
    this.#instruments.closed(reason)
    if (this.#closing !== null && this.#connections.size === 0) this.#allClosed.resolve()
  }
}
