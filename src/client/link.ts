import { Backoff } from '../core/backoff.ts'
import { sleep } from '../core/clock.ts'
import { asMoonMQError, type ErrorCode, MoonMQError } from '../core/errors.ts'
import type { Message } from '../wire/messages.ts'
import type { OpName } from '../wire/opcodes.ts'
import { abortable } from './abortable.ts'
import type { ClientConnection, RequestOptions, ServerInfo } from './connection.ts'
import { connectToLeader, leaderIn } from './leader.ts'
import type { ClientDeps, Target } from './options.ts'

export interface CallOptions {
  /** Beyond the client's own: how long the broker may take on purpose. */
  readonly waitMs?: number
  readonly signal?: AbortSignal | undefined
  readonly sizeHint?: number
}

/** What passes by itself: the broker restarts, or a log is being reopened. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'CONNECTION_CLOSED',
  'CONNECT_FAILED',
  'SHUTTING_DOWN',
  'RATE_LIMITED',
  'NOT_LEADER',
  'STORAGE_FAILED',
  'COORDINATOR_LOADING',
  'COORDINATOR_NOT_AVAILABLE',
  'REQUEST_TIMED_OUT',
  'CONCURRENT_TRANSACTIONS',
])
const RETRY_INITIAL_MS = 50
const RETRY_MAX_MS = 2_000

/** A connection that is made when it is needed and again after it broke. Owns it; one at a time. */
export class Link {
  readonly #deps: ClientDeps
  readonly #target: Target
  readonly #stop = new AbortController()
  #connection: ClientConnection | null = null
  #connecting: Promise<ClientConnection> | null = null

  constructor(deps: ClientDeps, target: Target) {
    this.#deps = deps
    this.#target = target
  }

  /** Fires when the link is closed. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** The live connection, or a new one. */
  connection(): ClientConnection | Promise<ClientConnection> {
    if (this.#stop.signal.aborted) return Promise.reject(new MoonMQError('CLOSED', { what: 'the client' }))
    if (this.#connection?.open === true && this.#connection.notLeader === null) return this.#connection
    this.#connecting ??= this.#connect()
    return this.#connecting
  }

  /** The same, for who does not wait on after its signal. */
  async connected(signal: AbortSignal | undefined): Promise<ClientConnection> {
    const found = this.connection()
    return found instanceof Promise ? await abortable(found, signal) : found
  }

  get server(): ServerInfo | null {
    return this.#connection?.server ?? null
  }

  async #connect(): Promise<ClientConnection> {
    try {
      const hint = leaderIn(this.#connection?.notLeader)
      const connection = await connectToLeader(this.#deps, this.#target, hint, this.#stop.signal)
      if (this.#stop.signal.aborted) {
        await connection.close()
        throw new MoonMQError('CLOSED', { what: 'the client' })
      }
      this.#connection = connection
      return connection
    } catch (error) {
      throw this.#stop.signal.aborted ? new MoonMQError('CLOSED', { what: 'the client' }, error) : error
    } finally {
      this.#connecting = null
    }
  }

  /** One attempt. */
  async request<N extends OpName, R extends OpName>(
    name: N,
    message: Message<N>,
    expects: R,
    options: CallOptions = {},
  ): Promise<Message<R>> {
    const found = this.connection()
    const connection = found instanceof Promise ? await abortable(found, options.signal) : found
    return connection.request(name, message, expects, this.optionsOf(options))
  }

  optionsOf(options: CallOptions): RequestOptions {
    return {
      timeoutMs: this.#target.timeoutMs + (options.waitMs ?? 0),
      signal: options.signal,
      ...(options.sizeHint === undefined ? {} : { sizeHint: options.sizeHint }),
    }
  }

  /** Tries what changes nothing again while the failure may pass, until the client's timeout has gone by without a success. */
  async retrying<T>(attempt: () => Promise<T>, signal?: AbortSignal, mayPass = passes): Promise<T> {
    const backoff = new Backoff(this.#deps.random, { initialMs: RETRY_INITIAL_MS, maxMs: RETRY_MAX_MS })
    const deadlineMs = this.#deps.clock.monotonicMs() + this.#target.timeoutMs
    for (;;) {
      try {
        return await attempt()
      } catch (cause) {
        const error = asMoonMQError(cause)
        const waitMs = backoff.nextMs()
        const over = this.#deps.clock.monotonicMs() + waitMs >= deadlineMs
        if (!mayPass(error) || over || this.#stop.signal.aborted || signal?.aborted) throw error
        this.#deps.log.debug('client.retry', `trying again: ${error.message}`)
        await this.pause(waitMs, signal)
      }
    }
  }

  /** ABORTED when the signal fires, CLOSED when the link is closed meanwhile. */
  async pause(delayMs: number, signal?: AbortSignal): Promise<void> {
    const either = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal])
    try {
      await sleep(this.#deps.clock, delayMs, either)
    } catch (error) {
      throw this.#stop.signal.aborted ? new MoonMQError('CLOSED', { what: 'the client' }) : error
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    // Whoever connects is aborted and hears of it itself.
    await this.#connecting?.catch(() => undefined)
    await this.#connection?.close()
  }
}

export function passes(error: MoonMQError): boolean {
  return PASSING.has(error.code)
}
