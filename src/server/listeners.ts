import { formatAddress } from '../config/address.ts'
import type { Clock, Timer } from '../core/clock.ts'
import type { Counter, Histogram, Metrics } from '../core/counters.ts'
import { MoonMQError } from '../core/errors.ts'
import { LogGate } from '../core/log-gate.ts'
import type { Logger } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'
import type { AcceptInfo, Door } from '../io/door.ts'
import type { Net, NetAddress, NetConnection, NetHandlers, NetListener } from '../io/net.ts'
import { systemReason } from '../io/system-error.ts'
import { type ConnectionLimitOptions, ConnectionLimits } from './connection-limits.ts'
import { type Protocol, type Sniffed, sniff } from './sniff.ts'

export interface ListenerOptions {
  readonly name: string
  readonly host: string
  /** 0 = the system chooses. */
  readonly port: number
  readonly protocols: readonly Protocol[]
  /** What clients are told to connect to; null = the local address that each of them reached. */
  readonly advertised: NetAddress | null
}

export interface ListenersDeps {
  readonly net: Net
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
  readonly doors: Readonly<Partial<Record<Protocol, Door>>>
}

export interface ListenersOptions {
  readonly listeners: readonly ListenerOptions[]
  readonly limits: ConnectionLimitOptions
  /** Time to the first five bytes. */
  readonly firstBytesMs: number
  /** `host:port` of the HTTP listener for the answer to a browser on the wrong port, asked when needed; null = there is none. */
  readonly httpAddress: () => string | null
}

export const FIRST_BYTES_MS = 5_000
const REFUSALS_LOGGED_PER_SECOND = 20
/** How long a refused HTTP client may take to read its answer. */
const HTTP_ANSWER_MS = 2_000

export interface BoundListener {
  readonly name: string
  readonly address: NetAddress
  readonly protocols: readonly Protocol[]
}

/**
 * The shared listeners (DESIGN D2): tell the protocol of each new connection by its first bytes and hand it to its door. Owns the
 * connections until then, and counts all of them against the limits until they close.
 */
export class Listeners implements Resource {
  readonly #deps: ListenersDeps
  readonly #options: ListenersOptions
  readonly #limits: ConnectionLimits
  readonly #closedCounters = new Map<string, Counter>()
  readonly #openSeconds: Histogram
  readonly #sniffingDeps: SniffingDeps
  readonly #listening: { bound: BoundListener; listener: NetListener }[] = []
  readonly #sniffing = new Set<SharedConnection>()
  /** Connections that have a seat and wait to be served, in their order. */
  readonly #waiting: Sniffing[] = []
  #turnTimer: Timer | null = null
  #nextId = 1

  private constructor(deps: ListenersDeps, options: ListenersOptions) {
    this.#deps = deps
    this.#options = options
    this.#limits = new ConnectionLimits(deps.metrics, options.limits)
    this.#sniffingDeps = { ...deps, refusals: new LogGate(deps.clock, REFUSALS_LOGGED_PER_SECOND) }
    this.#openSeconds = deps.metrics.histogram('moonmq_connection_duration_seconds')
  }

  /** Listens on every address, or on none: what was opened is closed again when one of them cannot be had. */
  static async open(deps: ListenersDeps, options: ListenersOptions): Promise<Listeners> {
    const listeners = new Listeners(deps, options)
    try {
      for (const each of options.listeners) {
        const listener = await deps.net
          .listen({ host: each.host, port: each.port }, (connection) => listeners.#accept(connection, each))
          .catch((error: unknown) => {
            const reason = `cannot listen on ${formatAddress(each)} (listener "${each.name}"): ${systemReason(error)}; choose another with --listen HOST:PORT`
            throw new MoonMQError('SETTING_INVALID', { reason }, error)
          })
        listeners.#listening.push({ bound: { name: each.name, address: listener.address, protocols: each.protocols }, listener })
      }
    } catch (error) {
      await listeners.close()
      throw error
    }
    return listeners
  }

  get bound(): readonly BoundListener[] {
    return this.#listening.map((each) => each.bound)
  }

  get openConnections(): number {
    return this.#limits.open
  }

  /** A connection of the same process, for the native door. It takes no descriptor, so it counts against no limit. `principal`: who has logged in elsewhere. */
  acceptInside(connection: NetConnection, principal?: string): void {
    const { native } = this.#deps.doors
    const vouched = principal === undefined ? {} : { principal }
    const info: AcceptInfo = { id: this.#nextId++, listener: 'inside', advertised: null, loggedIn: () => {}, ...vouched }
    if (native === undefined) connection.destroy()
    else native.accept(connection, Buffer.alloc(0), info)
  }

  /** Takes no more connections and drops those that have not shown a protocol yet. The doors close their own. */
  async close(): Promise<void> {
    this.#turnTimer?.cancel()
    this.#waiting.length = 0
    for (const shared of [...this.#sniffing]) shared.destroy()
    await Promise.all(this.#listening.map((each) => each.listener.close()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #accept(connection: NetConnection, listener: ListenerOptions): void {
    const seat = this.#limits.enter(connection.remote.host)
    const { log } = this.#deps
    if (typeof seat === 'string') {
      log.debug('connection.refused', 'connection refused: too many connections', { reason: seat, remote: text(connection.remote) })
      // Out of descriptors nothing is said: that would hold one a while longer.
      const door = seat === 'descriptors' ? undefined : this.#onlyDoor(listener)
      if (door?.turnAway === undefined) connection.destroy()
      else door.turnAway(connection)
      return
    }
    const openedMs = this.#deps.clock.monotonicMs()
    const shared = new SharedConnection(connection, () => {
      seat.leave()
      this.#openSeconds.observe((this.#deps.clock.monotonicMs() - openedMs) / 1000)
    })
    this.#sniffing.add(shared)
    const info: AcceptInfo = { id: this.#nextId++, listener: listener.name, advertised: listener.advertised, loggedIn: seat.loggedIn }
    const sniffing = new Sniffing(this.#sniffingDeps, this.#options, shared, listener, info, (reason) => {
      this.#sniffing.delete(shared)
      this.#closed(reason)
    })
    this.#waiting.push(sniffing)
    if (this.#turnTimer === null) this.#serveWaiting()
  }

  /** Asks for each anew: the rate may have changed since it came. */
  #serveWaiting(): void {
    this.#turnTimer = null
    const nowMs = this.#deps.clock.monotonicMs()
    while (this.#waiting.length > 0) {
      const waitMs = this.#limits.turnInMs(nowMs)
      if (waitMs > 0) {
        this.#turnTimer = this.#deps.clock.setTimer(waitMs, () => this.#serveWaiting())
        return
      }
      this.#waiting.shift()?.start()
    }
  }

  /** Of a listener for the native protocol alone: that one follows its specification from the first byte on. */
  #onlyDoor({ protocols }: ListenerOptions): Door | undefined {
    return protocols.length === 1 && protocols[0] === 'native' ? this.#deps.doors.native : undefined
  }

  #closed(reason: string | null): void {
    if (reason === null) return
    let counter = this.#closedCounters.get(reason)
    if (counter === undefined) {
      counter = this.#deps.metrics.counter('moonmq_connections_closed_total', { reason })
      this.#closedCounters.set(reason, counter)
    }
    counter.add()
  }
}

interface SniffingDeps extends ListenersDeps {
  /** Holds back log lines about connections that are refused. */
  readonly refusals: LogGate
}

/** The first five bytes of one connection. `ended` is called once: with null when a door took it, else with why it was closed. */
class Sniffing implements NetHandlers {
  readonly #deps: SniffingDeps
  readonly #options: ListenersOptions
  readonly #connection: SharedConnection
  readonly #listener: ListenerOptions
  readonly #info: AcceptInfo
  readonly #ended: (reason: string | null) => void
  #head: Buffer = Buffer.alloc(0)
  #timer: Timer | null = null
  #over = false

  constructor(
    deps: SniffingDeps,
    options: ListenersOptions,
    connection: SharedConnection,
    listener: ListenerOptions,
    info: AcceptInfo,
    ended: (reason: string | null) => void,
  ) {
    this.#deps = deps
    this.#options = options
    this.#connection = connection
    this.#listener = listener
    this.#info = info
    this.#ended = ended
  }

  start(): void {
    const { protocols } = this.#listener
    // A listener for the native protocol alone follows its specification from the first byte on, its deadlines included.
    const native = protocols.length === 1 && protocols[0] === 'native' ? this.#deps.doors.native : undefined
    if (native !== undefined) {
      this.#handOver(native)
      return
    }
    this.#timer = this.#deps.clock.setTimer(this.#options.firstBytesMs, () => {
      this.#refuse('first_bytes_late', 'sent no complete first bytes in time', this.#head.length > 0)
    })
    this.#connection.start(this)
  }

  data(bytes: Buffer): void {
    if (this.#over) return
    this.#head = this.#head.length === 0 ? bytes : Buffer.concat([this.#head, bytes])
    const sniffed = sniff(this.#head)
    if (sniffed.kind === 'more') return
    if (sniffed.kind === 'protocol') this.#protocol(sniffed.protocol)
    else if (sniffed.kind === 'http') this.#answerHttp()
    else this.#refuse(REFUSED[sniffed.kind].reason, describe(sniffed), true)
  }

  drain(): void {}

  end(): void {
    if (this.#over) return
    if (this.#head.length > 0) this.#refuse('first_bytes_short', `closed after ${this.#head.length} byte(s)`, false)
    else this.#refuse('silent', 'closed without a byte', false)
  }

  closed(): void {
    this.end()
    this.#timer?.cancel()
  }

  #protocol(protocol: Protocol): void {
    const door = this.#listener.protocols.includes(protocol) ? this.#deps.doors[protocol] : undefined
    if (door === undefined) {
      const reason = `speaks the ${protocol} protocol, which listener "${this.#listener.name}" does not serve`
      this.#refuse('protocol_not_served', reason, true)
      return
    }
    this.#handOver(door)
  }

  #handOver(door: Door): void {
    this.#finish(null)
    const head = this.#head
    this.#head = Buffer.alloc(0)
    door.accept(this.#connection, head, this.#info)
  }

  #answerHttp(): void {
    const http = this.#options.httpAddress()
    const where = http === null ? 'HTTP is switched off here' : `HTTP is at http://${http}/`
    const body = `This port speaks the MoonMQ and Kafka protocols. ${where}\n`
    const head = `HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
    this.#logClose('speaks HTTP on the broker port', true)
    this.#finish('http')
    // The answer must get out, but a client that never reads it must not keep its seat.
    this.#timer = this.#deps.clock.setTimer(HTTP_ANSWER_MS, () => this.#connection.destroy())
    this.#connection.send([Buffer.from(`${head}Connection: close\r\n\r\n${body}`)])
    this.#connection.end()
  }

  #refuse(reason: string, text: string, loud: boolean): void {
    if (this.#over) return
    this.#logClose(text, loud)
    this.#finish(reason)
    this.#connection.destroy()
  }

  #logClose(what: string, loud: boolean): void {
    const fields = { remote: text(this.#connection.remote), listener: this.#listener.name, connection: this.#info.id }
    const note = loud ? this.#deps.refusals.pass() : null
    if (note !== null) this.#deps.log.warn('connection.refused', `connection closed: the client ${what}${note}`, fields)
    else this.#deps.log.debug('connection.refused', `connection closed: the client ${what}`, fields)
  }

  #finish(reason: string | null): void {
    this.#over = true
    this.#timer?.cancel()
    this.#timer = null
    this.#ended(reason)
  }
}

const REFUSED = {
  tls: { reason: 'tls' },
  proxy: { reason: 'proxy' },
  length: { reason: 'bad_length' },
} as const

function describe(sniffed: Exclude<Sniffed, { kind: 'more' | 'protocol' | 'http' }>): string {
  if (sniffed.kind === 'tls') return 'started TLS, which this version does not serve; connect in plain text'
  if (sniffed.kind === 'proxy') return 'sent a PROXY protocol header, which is not supported; switch it off at the load balancer'
  return `announced a frame of ${sniffed.length} bytes; frames have 5 bytes to 100 MiB`
}

function text(address: NetAddress): string {
  return `${address.host}:${address.port}`
}

/** The connection as a door sees it: handlers pass from the sniffing to the door, and the seat is given back at its end. */
class SharedConnection implements NetConnection {
  readonly #inner: NetConnection
  readonly #left: () => void
  #handlers: NetHandlers | null = null

  constructor(inner: NetConnection, left: () => void) {
    this.#inner = inner
    this.#left = left
  }

  get remote(): NetAddress {
    return this.#inner.remote
  }

  get local(): NetAddress {
    return this.#inner.local
  }

  get queuedBytes(): number {
    return this.#inner.queuedBytes
  }

  start(handlers: NetHandlers): void {
    const started = this.#handlers !== null
    this.#handlers = handlers
    if (started) return
    this.#inner.start({
      data: (bytes) => this.#handlers?.data(bytes),
      drain: () => this.#handlers?.drain(),
      end: () => this.#handlers?.end(),
      closed: (error) => {
        this.#left()
        this.#handlers?.closed(error)
      },
    })
  }

  send(parts: readonly Buffer[], sent?: () => void): void {
    this.#inner.send(parts, sent)
  }

  pause(): void {
    this.#inner.pause()
  }

  resume(): void {
    this.#inner.resume()
  }

  end(): void {
    this.#inner.end()
  }

  destroy(): void {
    this.#inner.destroy()
    // Before `start` there is nobody whom the connection could tell that it closed.
    if (this.#handlers === null) this.#left()
  }
}
