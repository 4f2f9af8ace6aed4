import type { Timer } from '../core/clock.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { readUInt64, writeUInt64 } from '../core/int64.ts'
import type { NetAddress, NetConnection, NetHandlers } from '../io/net.ts'
import { fromWire } from '../wire/errors.ts'
import { decodePayload, encodeFrame, type Frame, FrameCutter } from '../wire/frame.ts'
import { CORRELATION_BYTES, MAX_FRAME_BYTES, MAX_REPLY_FRAME_BYTES } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { FEATURE_EXTENSION, OPCODES, type OpName, opName, PROTOCOL_VERSION } from '../wire/opcodes.ts'
import { CLIENT_VERSION, type ClientDeps, type Target } from './options.ts'

/** The broker's name for itself, and what it takes. */
export interface ServerInfo {
  readonly name: string
  readonly version: string
  readonly maxFrameBytes: number
  /** It serves the extension; without it the client speaks plain version 1 as far as that goes. */
  readonly extended: boolean
}

export interface RequestOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** Bytes of the payload when it is large. */
  readonly sizeHint?: number
}

interface Pending {
  readonly expects: OpName
  readonly answer: Deferred<unknown>
  /** Frames that may come before the one expected: the records of FETCH. */
  readonly before: { readonly op: OpName; readonly messages: unknown[] } | null
}

/** `HTTP`, with which an answer to what is no HTTP begins, taken for the length of a frame. */
const HTTP_AS_LENGTH = Buffer.from('HTTP').readUInt32BE(0)

/**
 * One connection to a broker. Requests may be sent without waiting for each other; answers find theirs by correlation id. Answers
 * heartbeats by itself. Once closed it stays closed.
 */
export class ClientConnection implements NetHandlers {
  readonly #deps: ClientDeps
  readonly #socket: NetConnection
  readonly #address: string
  readonly #cutter = new FrameCutter(MAX_REPLY_FRAME_BYTES)
  readonly #pending = new Map<number, Pending>()
  /** Makes the ids of this connection different from those of others. */
  readonly #salt: Buffer
  readonly #gone = deferred()
  /** Takes frames that answer nothing. */
  onPush: ((name: OpName, payload: Buffer) => void) | null = null
  #next = 1
  #failure: MoonMQError | null = null
  #server: ServerInfo | null = null
  /** Frames of the login, which leave in one write: who answers the first one by closing is read before a second write could fail. */
  #together: Buffer[] | null = null
  #refusal: MoonMQError | null = null

  private constructor(deps: ClientDeps, socket: NetConnection, { host, port }: NetAddress) {
    this.#deps = deps
    this.#address = `${host}:${port}`
    this.#socket = socket
    this.#salt = deps.random.bytes(CORRELATION_BYTES - 8)
  }

  /** Connects and logs in. CONNECT_FAILED, ABORTED, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, or what the broker refuses with. */
  static async open(deps: ClientDeps, target: Target, address: NetAddress, signal?: AbortSignal): Promise<ClientConnection> {
    const { timeoutMs } = target
    const socket = await deps.net.connect(address, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
    const connection = new ClientConnection(deps, socket, address)
    socket.start(connection)
    try {
      await connection.#login(target, signal)
      return connection
    } catch (error) {
      connection.destroy(asMoonMQError(error))
      throw error
    }
  }

  get open(): boolean {
    return this.#failure === null
  }

  /** NOT_LEADER, once the broker has said so: it closes, and nothing more is to be asked here. */
  get notLeader(): MoonMQError | null {
    return this.#refusal
  }

  /** Why it has ended; null while it is open. */
  get failure(): MoonMQError | null {
    return this.#failure
  }

  /** Sends what has no answer. */
  tell<N extends OpName>(name: N, message: Message<N>): void {
    if (this.#failure === null) this.#socket.send([encodeFrame(name, this.#deps.random.bytes(CORRELATION_BYTES), message)])
  }

  /** Resolves when the connection has ended. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  get server(): ServerInfo {
    return this.#server ?? { name: '', version: '', maxFrameBytes: MAX_FRAME_BYTES, extended: false }
  }

  /** All three at once: the broker takes them in order, so the login costs one round trip. */
  async #login(target: Target, signal: AbortSignal | undefined): Promise<void> {
    const options: RequestOptions = { timeoutMs: target.timeoutMs, signal }
    const frames: Buffer[] = []
    this.#together = frames
    const hello = this.request('HELLO', { version: PROTOCOL_VERSION }, 'WELCOME', options)
    const identity = { name: target.name, version: CLIENT_VERSION, features: FEATURE_EXTENSION }
    const identified = this.request('IDENTIFY_CLIENT', identity, 'IDENTIFY_ACK', options)
    const { username, password } = target
    const auth = this.request('AUTH', { username, password }, 'AUTH_OK', options)
    this.#together = null
    this.#socket.send(frames)
    const [, ack] = await Promise.all([hello, identified, auth])
    const extended = ((ack.features ?? 0) & FEATURE_EXTENSION) !== 0
    this.#server = { name: ack.name, version: ack.version, maxFrameBytes: ack.maxFrameBytes ?? MAX_FRAME_BYTES, extended }
  }

  /** Sends now; resolves with the answer. Rejects with what the broker refuses with, CONNECTION_CLOSED, REQUEST_TIMED_OUT or ABORTED. */
  request<N extends OpName, R extends OpName>(name: N, message: Message<N>, expects: R, options: RequestOptions): Promise<Message<R>> {
    return this.#request(name, message, expects, null, options)
  }

  /** FETCH: resolves with the batches that came before its OK. */
  async fetch(message: Message<'FETCH'>, options: RequestOptions): Promise<readonly Message<'RECORD_BATCH'>[]> {
    const messages: Message<'RECORD_BATCH'>[] = []
    await this.#request('FETCH', message, 'OK', { op: 'RECORD_BATCH', messages }, options)
    return messages
  }

  #request<N extends OpName, R extends OpName>(
    name: N,
    message: Message<N>,
    expects: R,
    before: Pending['before'],
    options: RequestOptions,
  ): Promise<Message<R>> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    if (OPCODES[name].extension && !this.server.extended) return Promise.reject(notExtended(name))
    const { signal, timeoutMs } = options
    if (signal?.aborted) return Promise.reject(new MoonMQError('ABORTED'))
    const id = this.#next++
    const correlation = Buffer.allocUnsafe(CORRELATION_BYTES)
    this.#salt.copy(correlation)
    writeUInt64(correlation, id, 8)
    let frame: Buffer
    try {
      frame = encodeFrame(name, correlation, message, options.sizeHint)
    } catch (error) {
      return Promise.reject(asMoonMQError(error))
    }
    const answer = deferred<unknown>()
    this.#pending.set(id, { expects, answer, before })
    if (this.#together === null) this.#socket.send([frame])
    else this.#together.push(frame)
    return this.#bounded(id, answer as Deferred<Message<R>>, timeoutMs, signal)
  }

  #bounded<T>(id: number, answer: Deferred<T>, timeoutMs: number, signal: AbortSignal | undefined): Promise<T> {
    const give = (error: MoonMQError) => {
      if (this.#pending.delete(id)) answer.reject(error)
    }
    const onAbort = () => give(new MoonMQError('ABORTED'))
    const late = () => give(new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs }))
    const timer: Timer = this.#deps.clock.setTimer(timeoutMs, late, { keepAlive: true })
    signal?.addEventListener('abort', onAbort, { once: true })
    return answer.promise.finally(() => {
      timer.cancel()
      signal?.removeEventListener('abort', onAbort)
    })
  }

  data(bytes: Buffer): void {
    if (this.#failure !== null) return
    this.#cutter.push(bytes)
    try {
      for (let frame = this.#cutter.next(); frame !== null; frame = this.#cutter.next()) this.#received(frame)
    } catch (thrown) {
      const error = asMoonMQError(thrown)
      this.destroy(this.#server === null && error.details?.['size'] === HTTP_AS_LENGTH ? this.#speaksHttp(error) : error)
    }
  }

  #speaksHttp(cause: MoonMQError): MoonMQError {
    const reason =
      'it speaks HTTP: that is a port of metrics or a web server, and the broker listens on another, 9092 unless server.port says otherwise'
    return new MoonMQError('CONNECT_FAILED', { address: this.#address, reason }, cause)
  }

  #received(frame: Frame): void {
    if (frame.opcode === OPCODES.HEARTBEAT_REQ.code) {
      this.#socket.send([encodeFrame('HEARTBEAT_RESP', frame.correlation, {})])
      return
    }
    const id = Number(readUInt64(frame.correlation, 8))
    const pending = this.#pending.get(id)
    if (frame.opcode === OPCODES.ERROR.code) {
      const error = fromWire(decodePayload('ERROR', frame.payload))
      if (error.code === 'NOT_LEADER') this.#refusal ??= error
      // One that no request caused is the reason why the broker closes.
      if (id === 0) this.destroy(error)
      else if (pending !== undefined) this.#settle(id, () => pending.answer.reject(error))
      return
    }
    const name = opName(frame.opcode)
    if (id === 0 && name !== undefined) this.onPush?.(name, frame.payload)
    // Late answers find nobody.
    if (pending === undefined) return
    if (pending.before !== null && name === pending.before.op) {
      pending.before.messages.push(decodePayload(name, frame.payload))
      return
    }
    if (name !== pending.expects) throw new MoonMQError('BAD_PROTOCOL', { reason: `${name ?? frame.opcode} answers no ${pending.expects}` })
    const message = decodePayload(name, frame.payload)
    this.#settle(id, () => pending.answer.resolve(message))
  }

  #settle(id: number, act: () => void): void {
    this.#pending.delete(id)
    act()
  }

  drain(): void {}

  end(): void {
    this.destroy(new MoonMQError('CONNECTION_CLOSED', { reason: 'the broker closed it' }))
  }

  closed(error: Error | null): void {
    this.#fail(new MoonMQError('CONNECTION_CLOSED', { reason: error?.message ?? 'the broker closed it' }, error ?? undefined))
    this.#gone.resolve()
  }

  /** Says goodbye and closes; what is outstanding is rejected. */
  async close(): Promise<void> {
    if (this.#failure === null) {
      this.#socket.send([encodeFrame('GOODBYE', this.#deps.random.bytes(CORRELATION_BYTES), {})])
      this.#fail(new MoonMQError('CLOSED', { what: 'the client' }))
      this.#socket.end()
    }
    await this.#gone.promise
  }

  destroy(error: MoonMQError): void {
    this.#fail(error)
    this.#socket.destroy()
  }

  #fail(error: MoonMQError): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#cutter.close()
    for (const { answer } of this.#pending.values()) answer.reject(error)
    this.#pending.clear()
  }
}

function notExtended(name: OpName): MoonMQError {
  return MoonMQError.withText('UNSUPPORTED_VERSION', `the broker speaks version 1 of the protocol without its extension: no ${name}`)
}
