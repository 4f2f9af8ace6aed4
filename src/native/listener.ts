import type { RecordPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import type { Counter, Metrics } from '../core/counters.ts'
import { deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import type { Resource } from '../core/types.ts'
import type { AcceptInfo, Door } from '../io/door.ts'
import type { NetConnection } from '../io/net.ts'
import type { PartialBudget } from '../wire/frame.ts'
import { type ConnectionDeps, NativeConnection } from './connection.ts'
import { Dispatch, hex } from './dispatch.ts'
import { NATIVE_HANDLERS } from './handlers/index.ts'
import { DEFAULT_NATIVE_DOOR, type NativeDoorOptions } from './options.ts'
import type { AnyHandler } from './session.ts'

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
  readonly #received: (Counter | undefined)[] = []
  readonly #closings = new Map<string, Counter>()
  readonly #allClosed = deferred()
  #closing: Promise<void> | null = null

  constructor(deps: NativeDoorDeps, options: NativeDoorOptions = DEFAULT_NATIVE_DOOR) {
    this.#deps = deps
    this.#options = options
    const framesSent = deps.metrics.counter('moonmq_frames_sent_total')
    const bytesSent = deps.metrics.counter('moonmq_bytes_sent_total', { protocol: 'native' })
    this.#connectionDeps = {
      broker: deps.broker,
      clock: deps.clock,
      random: deps.random,
      log: deps.log,
      dispatch: new Dispatch(deps.handlers ?? NATIVE_HANDLERS),
      budget: new Budget(options.maxPartialBytes),
      received: (opcode) => this.#count(opcode),
      sent: (frames, bytes) => {
        framesSent.add(frames)
        bytesSent.add(bytes)
      },
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

  #count(opcode: number): void {
    let counter = this.#received[opcode]
    if (counter === undefined) {
      counter = this.#deps.metrics.counter('moonmq_frames_received_total', { op: hex(opcode) })
      this.#received[opcode] = counter
    }
    counter.add()
  }

  #forget(connection: NativeConnection, reason: string): void {
    if (!this.#connections.delete(connection)) return
    let counter = this.#closings.get(reason)
    if (counter === undefined) {
      counter = this.#deps.metrics.counter('moonmq_connections_closed_total', { reason })
      this.#closings.set(reason, counter)
    }
    counter.add()
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
