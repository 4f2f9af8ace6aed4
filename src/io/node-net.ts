import { connect, createServer, isIPv6, type Server, type Socket } from 'node:net'
import type { Clock, Timer } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Net, NetAddress, NetConnection, NetHandlers, NetListener } from './net.ts'
import { systemCode, systemError } from './system-error.ts'

const KEEP_ALIVE_MS = 60_000
const BACKLOG = 1024
const CONNECT_MS = 10_000
/** How long a peer may take, after our last byte, to close its side. */
const LINGER_MS = 10_000
/** How long it may take, after our end, to read any of what is still queued. */
const STALL_MS = 60_000
/** More than callers ever queue on purpose: a peer that does not read must not fill memory if one forgets to look. */
const MAX_QUEUED_BYTES = 512 * 1024 * 1024
/** Parts that are small together are copied into one buffer: cheaper than a vector of them. */
const JOIN_BYTES = 16 * 1024

export interface NodeNetDeps {
  readonly clock: Clock
  readonly log: Logger
}

export interface NodeNetOptions {
  /** A connection with more than this queued is cut with ENOBUFS; 512 MiB unless given. Callers keep far below by `queuedBytes`. */
  readonly maxQueuedBytes?: number
}

/** TCP of the machine. */
export class NodeNet implements Net {
  readonly #deps: NodeNetDeps
  readonly #maxQueuedBytes: number

  constructor(deps: NodeNetDeps, options: NodeNetOptions = {}) {
    this.#deps = deps
    this.#maxQueuedBytes = options.maxQueuedBytes ?? MAX_QUEUED_BYTES
  }

  /** Rejects with the error of the system: EADDRINUSE, EACCES, EADDRNOTAVAIL, …. */
  listen(address: NetAddress, onConnection: (connection: NetConnection) => void): Promise<NetListener> {
    const { log } = this.#deps
    // Sockets stay paused, so nothing is read before `start`; half-open, so a peer that has sent all it had still gets its answers.
    const options = { allowHalfOpen: true, pauseOnConnect: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS }
    const server = createServer(options, (socket) => onConnection(this.#wrap(socket)))
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: address.host, port: address.port, backlog: BACKLOG }, () => {
        server.off('error', reject)
        // Accepting can fail later, for want of descriptors for example; the listener lives on.
        server.on('error', (error) => log.warn('net.accept_failed', `a connection could not be accepted: ${error.message}`))
        resolve(new NodeListener(server, address))
      })
    })
  }

  /** CONNECT_FAILED with the system's error as cause, or ABORTED. Ten seconds unless `timeoutMs` says otherwise. */
  connect(address: NetAddress, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<NetConnection> {
    const { signal, timeoutMs = CONNECT_MS } = options
    const { clock } = this.#deps
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(new MoonMQError('ABORTED'))
        return
      }
      const keep = { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS }
      const socket = connect({ host: address.host, port: address.port, ...keep })
      const settle = () => {
        timer.cancel()
        signal?.removeEventListener('abort', onAbort)
        socket.off('connect', onConnect)
        socket.off('error', onError)
      }
      const fail = (error: MoonMQError) => {
        settle()
        socket.on('error', () => {})
        socket.destroy()
        reject(error)
      }
      const onConnect = () => {
        settle()
        resolve(this.#wrap(socket))
      }
      const onError = (error: Error) => fail(connectFailed(address, systemCode(error) ?? error.message, error))
      const onAbort = () => fail(new MoonMQError('ABORTED'))
      const onTimeout = () => fail(connectFailed(address, `no answer within ${timeoutMs} ms`))
      const timer = clock.setTimer(timeoutMs, onTimeout)
      socket.once('connect', onConnect)
      socket.once('error', onError)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #wrap(socket: Socket): NetConnection {
    return new NodeConnection(this.#deps.clock, socket, this.#maxQueuedBytes)
  }
}

function connectFailed(address: NetAddress, reason: string, cause?: unknown): MoonMQError {
  const host = isIPv6(address.host) ? `[${address.host}]` : address.host
  return new MoonMQError('CONNECT_FAILED', { address: `${host}:${address.port}`, reason }, cause)
}

class NodeListener implements NetListener {
  readonly address: NetAddress
  readonly #server: Server

  constructor(server: Server, asked: NetAddress) {
    this.#server = server
    const bound = server.address()
    this.address = bound === null || typeof bound === 'string' ? asked : { host: bound.address, port: bound.port }
  }

  /** The port is free at once. The runtime's own end of closing waits for open connections, which live on here. */
  async close(): Promise<void> {
    if (this.#server.listening) this.#server.close()
  }
}

interface Sending {
  readonly bytes: number
  readonly sent: (() => void) | undefined
}

/** Owns the socket. Every `sent` is called exactly once, in order, and before `closed`. */
class NodeConnection implements NetConnection {
  readonly remote: NetAddress
  readonly local: NetAddress
  readonly #clock: Clock
  readonly #socket: Socket
  readonly #maxQueuedBytes: number
  readonly #sending: Sending[] = []
  #first = 0
  #queuedBytes = 0
  /** Sends that the system has taken. */
  #sent = 0
  #handlers: NetHandlers | null = null
  #error: Error | null = null
  #ended = false
  #closed = false
  #deadline: Timer | null = null

  constructor(clock: Clock, socket: Socket, maxQueuedBytes: number) {
    this.#clock = clock
    this.#socket = socket
    this.#maxQueuedBytes = maxQueuedBytes
    this.remote = addressOf(socket.remoteAddress, socket.remotePort)
    this.local = addressOf(socket.localAddress, socket.localPort)
    socket.on('error', (error) => {
      this.#error = error
    })
    socket.on('close', () => this.#onClose())
  }

  get queuedBytes(): number {
    return this.#queuedBytes
  }

  start(handlers: NetHandlers): void {
    if (this.#handlers !== null) throw new Error('a connection is started once')
    this.#handlers = handlers
    if (this.#closed) {
      queueMicrotask(() => handlers.closed(this.#error))
      return
    }
    const socket = this.#socket
    socket.on('data', (bytes: Buffer) => {
      if (!this.#ended) handlers.data(bytes)
    })
    socket.on('end', () => {
      if (!this.#ended) handlers.end()
    })
    socket.resume()
  }

  send(parts: readonly Buffer[], sent?: () => void): void {
    let bytes = 0
    for (const part of parts) bytes += part.length
    if (this.#ended || this.#closed || this.#socket.destroyed) {
      if (sent !== undefined) queueMicrotask(sent)
      return
    }
    this.#sending.push({ bytes, sent })
    this.#queuedBytes += bytes
    const socket = this.#socket
    if (this.#queuedBytes > this.#maxQueuedBytes) {
      socket.destroy(systemError('ENOBUFS', 'send', undefined, 'the peer does not read and too much is queued for it'))
      return
    }
    const first = parts[0]
    if (first === undefined) socket.write('', this.#onSent)
    else if (parts.length === 1) socket.write(first, this.#onSent)
    else if (bytes <= JOIN_BYTES) socket.write(Buffer.concat(parts as Buffer[], bytes), this.#onSent)
    else {
      const last = parts.length - 1
      socket.cork()
      for (let i = 0; i < last; i++) socket.write(parts[i] as Buffer)
      socket.write(parts[last] as Buffer, this.#onSent)
      socket.uncork()
    }
  }

  pause(): void {
    // What comes after our end is thrown away; it must be read all the same, or the peer's end is never seen.
    if (!this.#ended) this.#socket.pause()
  }

  resume(): void {
    if (this.#handlers !== null) this.#socket.resume()
  }

  end(): void {
    if (this.#ended || this.#closed) return
    this.#ended = true
    this.#socket.end()
    this.#socket.resume()
    // Closing while input is unread would reset the connection and could destroy the last answer on its way; a peer that neither
    // reads nor closes must still not hold the socket for ever.
    this.#socket.once('finish', () => this.#cutAfter(LINGER_MS))
    this.#cutStalled(this.#sent)
  }

  #cutAfter(delayMs: number): void {
    this.#deadline?.cancel()
    if (!this.#closed) this.#deadline = this.#clock.setTimer(delayMs, () => this.destroy())
  }

  #cutStalled(sentBefore: number): void {
    this.#deadline = this.#clock.setTimer(STALL_MS, () => {
      if (this.#sent === sentBefore) this.destroy()
      else this.#cutStalled(this.#sent)
    })
  }

  destroy(): void {
    this.#ended = true
    this.#socket.destroy()
  }

  readonly #onSent = (): void => {
    // After the end of the connection everything has been called already.
    if (this.#closed) return
    const sending = this.#sending[this.#first]
    if (sending === undefined) return
    this.#first++
    this.#sent++
    if (this.#first === this.#sending.length) {
      this.#sending.length = 0
      this.#first = 0
    } else if (this.#first > 1024) {
      this.#sending.splice(0, this.#first)
      this.#first = 0
    }
    this.#queuedBytes -= sending.bytes
    sending.sent?.()
    if (this.#queuedBytes === 0 && this.#sending.length === 0 && !this.#closed && !this.#socket.destroyed) this.#handlers?.drain()
  }

  #onClose(): void {
    this.#closed = true
    this.#deadline?.cancel()
    this.#queuedBytes = 0
    for (const { sent } of this.#sending.splice(this.#first)) sent?.()
    this.#sending.length = 0
    this.#handlers?.closed(this.#error)
  }
}

/** IPv4 addresses that a socket for both families reports are shown as what they are. Empty when the peer is gone already. */
function addressOf(host: string | undefined, port: number | undefined): NetAddress {
  return { host: (host ?? '').replace(/^::ffff:(?=\d+\.)/, ''), port: port ?? 0 }
}
