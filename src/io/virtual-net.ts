import type { Clock } from '../core/clock.ts'
import { deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Random } from '../core/random.ts'
import { type Completions, deferring } from './completions.ts'
import type { Net, NetAddress, NetConnection, NetHandlers, NetListener } from './net.ts'
import { systemError } from './system-error.ts'
import { type PipeDeps, type PipeReceiver, VirtualPipe } from './virtual-pipe.ts'

export interface VirtualNetDeps {
  readonly clock: Clock
  /** When a delivery or a connect arrives; each in a macrotask of its own by default. */
  readonly completions?: Completions
  /** Given in simulation: deliveries are then cut at any byte. */
  readonly random?: Random
}

export interface VirtualNetOptions {
  /** Bytes that a direction takes ahead of its receiver, as a kernel's buffers do. */
  readonly windowBytes?: number
  /** A connection with more than this queued is cut with ENOBUFS; 512 MiB unless given. */
  readonly maxQueuedBytes?: number
}

/** Which traffic a disturbance concerns; `from` and `to` are the addresses of sender and receiver. */
export type Route = (from: NetAddress, to: NetAddress) => boolean

interface Hold {
  readonly route: Route
  readonly released: Promise<void>
}

const FIRST_PORT = 49152
const CONNECT_MS = 10_000
const WINDOW_BYTES = 256 * 1024
const MAX_QUEUED_BYTES = 512 * 1024 * 1024
const ANYWHERE: Route = () => true

/**
 * A network inside the process: for a broker embedded in the program that uses it, and for simulation. As TCP does, it loses,
 * doubles and reorders nothing within a connection; what it can do is hold traffic back (`hold`), slow it down (`delay`) and break
 * connections with what is under way (`cut`).
 */
export class VirtualNet implements Net {
  readonly #deps: VirtualNetDeps
  readonly #completions: Completions
  readonly #windowBytes: number
  readonly #maxQueuedBytes: number
  readonly #listeners = new Map<string, (connection: NetConnection) => void>()
  readonly #open = new Set<VirtualConnection>()
  readonly #holds = new Set<Hold>()
  readonly #delays = new Set<{ route: Route; delayMs: number }>()
  #nextPort = FIRST_PORT

  constructor(deps: VirtualNetDeps, options: VirtualNetOptions = {}) {
    this.#deps = deps
    this.#completions = deps.completions ?? deferring(deps.clock)
    this.#windowBytes = options.windowBytes ?? WINDOW_BYTES
    this.#maxQueuedBytes = options.maxQueuedBytes ?? MAX_QUEUED_BYTES
  }

  async listen(address: NetAddress, onConnection: (connection: NetConnection) => void): Promise<NetListener> {
    const bound = { host: canonical(address.host), port: address.port === 0 ? this.#nextPort++ : address.port }
    const key = keyOf(bound)
    if (this.#listeners.has(key)) throw systemError('EADDRINUSE', 'listen', key)
    this.#listeners.set(key, onConnection)
    return {
      address: bound,
      close: async () => {
        // The address may be another listener's by the second call.
        if (this.#listeners.get(key) === onConnection) this.#listeners.delete(key)
      },
    }
  }

  async connect(address: NetAddress, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<NetConnection> {
    const { signal, timeoutMs = CONNECT_MS } = options
    if (signal?.aborted) throw new MoonMQError('ABORTED')
    const remote = { host: canonical(address.host), port: address.port }
    const local = { host: remote.host, port: this.#nextPort++ }
    const failed = deferred<never>()
    const onAbort = () => failed.reject(new MoonMQError('ABORTED'))
    signal?.addEventListener('abort', onAbort, { once: true })
    const timer = this.#deps.clock.setTimer(timeoutMs, () => failed.reject(connectFailed(remote, `no answer within ${timeoutMs} ms`)))
    try {
      await Promise.race([this.#reach(local, remote), failed.promise])
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', onAbort)
    }
    const accept = this.#listeners.get(keyOf(remote)) ?? this.#listeners.get(`*:${remote.port}`)
    if (accept === undefined) throw connectFailed(remote, 'ECONNREFUSED', systemError('ECONNREFUSED', 'connect', keyOf(remote)))
    const near = new VirtualConnection(local, remote, this.#open, this.#maxQueuedBytes)
    const far = new VirtualConnection(remote, local, this.#open, this.#maxQueuedBytes)
    join(near, far, (from, to) => this.#pipeDeps(from, to), this.#windowBytes)
    accept(far)
    return near
  }

  /** Lets nothing through on these routes until the function returned is called; connects hang until their deadline. */
  hold(route: Route = ANYWHERE): () => void {
    const released = deferred()
    const hold = { route, released: released.promise }
    this.#holds.add(hold)
    return () => {
      this.#holds.delete(hold)
      released.resolve()
    }
  }

  /** Makes every delivery on these routes take this long. Returns how to end it. */
  delay(delayMs: number, route: Route = ANYWHERE): () => void {
    const delay = { route, delayMs }
    this.#delays.add(delay)
    return () => {
      this.#delays.delete(delay)
    }
  }

  /** Breaks the open connections of these routes; both sides see ECONNRESET, what is under way is lost. Returns how many. */
  cut(route: Route = ANYWHERE): number {
    const doomed = [...this.#open].filter(
      (connection) => route(connection.local, connection.remote) || route(connection.remote, connection.local),
    )
    for (const connection of doomed) connection.reset()
    return Math.ceil(doomed.length / 2)
  }

  /** Ends of connections that are open: a test's way to see that nothing was left behind. */
  get openEnds(): number {
    return this.#open.size
  }

  async #reach(from: NetAddress, to: NetAddress): Promise<void> {
    await this.#pipeDeps(from, to).hold()
    await this.#completions.arrive(`connect ${keyOf(to)}`)
  }

  #pipeDeps(from: NetAddress, to: NetAddress): PipeDeps {
    const { random } = this.#deps
    const hold = () => (this.#holds.size === 0 && this.#delays.size === 0 ? undefined : this.#wait(from, to))
    return random === undefined ? { completions: this.#completions, hold } : { completions: this.#completions, hold, random }
  }

  async #wait(from: NetAddress, to: NetAddress): Promise<void> {
    for (const { route, delayMs } of [...this.#delays]) {
      if (!route(from, to)) continue
      await new Promise<void>((resolve) => this.#deps.clock.setTimer(delayMs, resolve, { keepAlive: true }))
    }
    // A new hold may begin while one is waited for.
    for (;;) {
      const hold = [...this.#holds].find(({ route }) => route(from, to))
      if (hold === undefined) return
      await hold.released
    }
  }
}

/** `localhost` is the loopback address, and a listener on every address takes connections to any. */
function canonical(host: string): string {
  if (host === '' || host === '0.0.0.0' || host === '::') return '*'
  return host === 'localhost' ? '127.0.0.1' : host
}

function keyOf(address: NetAddress): string {
  return `${address.host}:${address.port}`
}

function connectFailed(address: NetAddress, reason: string, cause?: unknown): MoonMQError {
  return new MoonMQError('CONNECT_FAILED', { address: keyOf(address), reason }, cause)
}

function join(
  near: VirtualConnection,
  far: VirtualConnection,
  deps: (from: NetAddress, to: NetAddress) => PipeDeps,
  windowBytes: number,
): void {
  const pipe = (from: VirtualConnection, to: VirtualConnection) => {
    const label = `net ${keyOf(from.local)} ${keyOf(to.local)}`
    const made = new VirtualPipe(deps(from.local, to.local), { label, windowBytes, drained: () => from.drained() })
    made.attach(to)
    return made
  }
  const out = pipe(near, far)
  const back = pipe(far, near)
  near.joined(far, out, back)
  far.joined(near, back, out)
}

/** One end. Open until both directions have ended, or until it is destroyed or cut. */
class VirtualConnection implements NetConnection, PipeReceiver {
  readonly local: NetAddress
  readonly remote: NetAddress
  readonly #open: Set<VirtualConnection>
  readonly #maxQueuedBytes: number
  #peer: VirtualConnection | null = null
  #out: VirtualPipe | null = null
  #in: VirtualPipe | null = null
  #handlers: NetHandlers | null = null
  #paused = false
  #ended = false
  #closed = false
  #error: Error | null = null

  constructor(local: NetAddress, remote: NetAddress, open: Set<VirtualConnection>, maxQueuedBytes: number) {
    this.local = local
    this.remote = remote
    this.#open = open
    this.#maxQueuedBytes = maxQueuedBytes
    open.add(this)
  }

  joined(peer: VirtualConnection, out: VirtualPipe, back: VirtualPipe): void {
    this.#peer = peer
    this.#out = out
    this.#in = back
  }

  get queuedBytes(): number {
    return this.#closed ? 0 : (this.#out?.queuedBytes ?? 0)
  }

  /** After our own end all input is taken and thrown away, as over TCP. */
  get ready(): boolean {
    return !this.#closed && (this.#ended || (this.#handlers !== null && !this.#paused))
  }

  start(handlers: NetHandlers): void {
    if (this.#handlers !== null) throw new Error('a connection is started once')
    this.#handlers = handlers
    if (this.#closed) queueMicrotask(() => handlers.closed(this.#error))
    else this.#in?.wake()
  }

  send(parts: readonly Buffer[], sent?: () => void): void {
    if (this.#ended || this.#closed) {
      if (sent !== undefined) queueMicrotask(sent)
      return
    }
    this.#out?.send(parts, sent)
    // Nobody is there to take it, and what the peer left has been read: its system would answer with a reset.
    if (this.#peer?.gone === true && this.#in?.ended === true) this.reset()
    else if (this.queuedBytes > this.#maxQueuedBytes) {
      this.destroy(systemError('ENOBUFS', 'send', undefined, 'the peer does not read and too much is queued for it'))
    }
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#in?.wake()
  }

  end(): void {
    if (this.#ended || this.#closed) return
    this.#ended = true
    this.#out?.end()
    this.#in?.wake()
    this.closeWhenDone()
  }

  destroy(error: Error | null = null): void {
    if (this.#closed) return
    this.#ended = true
    this.#out?.abandon()
    this.#in?.cut()
    this.#close(error)
    this.#peer?.closeWhenDone()
  }

  /** Breaks this end; the other one is told by whoever broke it, or when it sends. */
  reset(): void {
    if (this.#closed) return
    this.#out?.cut()
    this.#in?.cut()
    this.#close(systemError('ECONNRESET', 'read'))
  }

  get gone(): boolean {
    return this.#closed
  }

  received(bytes: Buffer): void {
    if (!this.#ended) this.#handlers?.data(bytes)
  }

  receivedEnd(): void {
    if (!this.#ended) this.#handlers?.end()
    this.closeWhenDone()
    this.#peer?.closeWhenDone()
  }

  drained(): void {
    if (!this.#closed) this.#handlers?.drain()
  }

  /** Closes once both sides have ended and nothing can move any more. */
  closeWhenDone(): void {
    if (this.#closed || !this.#ended) return
    if (this.#in?.ended === true && (this.#out?.ended === true || this.#peer?.gone === true)) this.#close(null)
  }

  #close(error: Error | null): void {
    this.#closed = true
    this.#error = error
    this.#open.delete(this)
    const handlers = this.#handlers
    // After the `sent` calls of what was lost, and never from within a call of the owner.
    if (handlers !== null) queueMicrotask(() => handlers.closed(error))
  }
}
