import type { RecordPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import { deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import type { Resource } from '../core/types.ts'
import type { AcceptInfo, Door } from '../io/door.ts'
import type { NetConnection } from '../io/net.ts'
import { toWire } from '../wire/errors.ts'
import { encodeFrame, type PartialBudget, ZERO_CORRELATION } from '../wire/frame.ts'
import { type ConnectionDeps, NativeConnection } from './connection.ts'
import { Dispatch } from './dispatch.ts'
import { NATIVE_HANDLERS } from './handlers/index.ts'
import { Instruments } from './instruments.ts'
import { DEFAULT_NATIVE_DOOR, type NativeDoorOptions } from './options.ts'
import type { AnyHandler } from './session.ts'

/** For a client that is refused to take the reason, and how many are told at a time; the others are closed without a word. */
const TURN_AWAY_MS = 250
const MAX_TURNED_AWAY = 64
/** Memory of unfinished frames of all connections that have not logged in. */
const MAX_EARLY_PARTIAL_BYTES = 32 * MIB

export interface NativeDoorDeps {
  readonly broker: RecordPorts
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  /** What is served; the default is everything. Tests pass handlers of their own. */
  readonly handlers?: readonly AnyHandler[]
}

/** The native door: owns every native connection from the listener's hands to its end. */
export class NativeDoor implements Door, Resource {
  readonly #deps: NativeDoorDeps
  readonly #options: NativeDoorOptions
  readonly #connectionDeps: ConnectionDeps
  readonly #connections = new Set<NativeConnection>()
  readonly #instruments: Instruments
  readonly #allClosed = deferred()
  #turnedAway = 0
  #closing: Promise<void> | null = null

  constructor(deps: NativeDoorDeps, options: NativeDoorOptions = DEFAULT_NATIVE_DOOR) {
    this.#deps = deps
    this.#options = options
    this.#instruments = new Instruments(deps.metrics)
    this.#connectionDeps = {
      broker: deps.broker,
      clock: deps.clock,
      random: deps.random,
      log: deps.log,
      dispatch: new Dispatch(deps.handlers ?? NATIVE_HANDLERS),
      budget: new Budget(options.maxPartialBytes),
      earlyBudget: new Budget(Math.min(MAX_EARLY_PARTIAL_BYTES, options.maxPartialBytes)),
      instruments: this.#instruments,
      closed: (connection, reason) => this.#forget(connection, reason),
    }
  }

  get openConnections(): number {
    return this.#connections.size
  }

  accept(socket: NetConnection, head: Buffer, info: AcceptInfo): void {
    if (this.#closing !== null) {
      socket.destroy()
      return
    }
    const connection = new NativeConnection(this.#connectionDeps, this.#options, socket, info)
    this.#connections.add(connection)
    connection.start(head)
  }

  /** Too many connections: code 6 with the zero id, then the end (spec 4.1). */
  turnAway(socket: NetConnection): void {
    if (this.#closing !== null || this.#turnedAway >= MAX_TURNED_AWAY) {
      socket.destroy()
      return
    }
    this.#turnedAway++
    const timer = this.#deps.clock.setTimer(TURN_AWAY_MS, () => socket.destroy())
    const closed = () => {
      timer.cancel()
      this.#turnedAway--
    }
    socket.start({ data: () => {}, drain: () => {}, end: () => {}, closed })
    const { code, message } = toWire(new MoonMQError('RATE_LIMITED', { reason: 'too many connections; try again later' }))
    socket.send([encodeFrame('ERROR', ZERO_CORRELATION, { code, message })])
    socket.end()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    if (this.#connections.size === 0) return
    const cut = () => {
      for (const connection of [...this.#connections]) connection.destroy('shutdown')
    }
    const deadline = this.#deps.clock.setTimer(this.#options.drainMs, cut, { keepAlive: true })
    for (const connection of [...this.#connections]) connection.stop('shutdown', new MoonMQError('SHUTTING_DOWN'))
    await this.#allClosed.promise
    deadline.cancel()
  }

  #forget(connection: NativeConnection, reason: string): void {
    if (!this.#connections.delete(connection)) return
    this.#instruments.closed(reason)
    if (this.#closing !== null && this.#connections.size === 0) this.#allClosed.resolve()
  }
}

/** Memory of unfinished frames. A connection that would exceed it is closed: a paused one would hold what the others wait for. */
class Budget implements PartialBudget {
  readonly #limitBytes: number
  #takenBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#limitBytes) return false
    this.#takenBytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#takenBytes -= bytes
  }
}
