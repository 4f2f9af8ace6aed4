import type { ClientOptions } from '../client/types.ts'

type Net = NonNullable<ClientOptions['net']>
type NetConnection = Awaited<ReturnType<Net['connect']>>
type NetHandlers = Parameters<NetConnection['start']>[0]

/**
 * A network whose connections break on demand: `cutNextAnswer` lets the request out, waits until the broker answers, and breaks the
 * connection instead of handing the answer over. The broker has done its part then, and the client does not know it.
 */
export class ChaosNet implements Net {
  readonly #inner: Net
  #isArmed = false
  #cuts = 0

  constructor(inner: Net) {
    this.#inner = inner
  }

  /** Connections that were broken so far. */
  get cuts(): number {
    return this.#cuts
  }

  cutNextAnswer(): void {
    this.#isArmed = true
  }

  /** Takes it back, when nothing was asked after all. */
  disarm(): void {
    this.#isArmed = false
  }

  listen(address: Parameters<Net['listen']>[0], onConnection: Parameters<Net['listen']>[1]): ReturnType<Net['listen']> {
    return this.#inner.listen(address, onConnection)
  }

  async connect(address: Parameters<Net['connect']>[0], options?: Parameters<Net['connect']>[1]): Promise<NetConnection> {
    return new ChaosConnection(await this.#inner.connect(address, options), () => {
      if (!this.#isArmed) return false
      this.#isArmed = false
      this.#cuts++
      return true
    })
  }
}

class ChaosConnection implements NetConnection {
  readonly #inner: NetConnection
  readonly #cuts: () => boolean
  #isCut = false
  /** Only what comes after a request is its answer. */
  #hasAsked = false

  constructor(inner: NetConnection, cuts: () => boolean) {
    this.#inner = inner
    this.#cuts = cuts
  }

  get remote() {
    return this.#inner.remote
  }

  get local() {
    return this.#inner.local
  }

  get queuedBytes(): number {
    return this.#inner.queuedBytes
  }

  start(handlers: NetHandlers): void {
    this.#inner.start({
      data: (bytes) => {
        if (this.#isCut) return
        if (this.#hasAsked && this.#cuts()) {
          this.#isCut = true
          this.#inner.destroy()
          return
        }
        handlers.data(bytes)
      },
      drain: () => handlers.drain(),
      end: () => {
        if (!this.#isCut) handlers.end()
      },
      closed: (error) => handlers.closed(this.#isCut ? new Error('chaos: the connection broke before the answer') : error),
    })
  }

  send(parts: readonly Buffer[], sent?: () => void): void {
    this.#hasAsked = true
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
  }
}
