import { storesRecords } from '../client/index.ts'
import type { ClientOptions } from '../client/types.ts'

type Net = NonNullable<ClientOptions['net']>
type NetConnection = Awaited<ReturnType<Net['connect']>>
type NetHandlers = Parameters<NetConnection['start']>[0]

/**
 * A network whose connections break on demand: `cutNextAnswer` lets the next request that stores records out, waits until the broker
 * answers, and breaks the connection instead of handing the answer over. The broker has done its part then, and the client does not know it.
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
    return new ChaosConnection(await this.#inner.connect(address, options), {
      isArmed: () => this.#isArmed,
      cut: () => {
        this.#isArmed = false
        this.#cuts++
      },
    })
  }
}

interface Trigger {
  isArmed(): boolean
  cut(): void
}

class ChaosConnection implements NetConnection {
  readonly #inner: NetConnection
  readonly #trigger: Trigger
  #isCut = false
  /** A request went out whose answer is to be cut. */
  #isDoomed = false

  constructor(inner: NetConnection, trigger: Trigger) {
    this.#inner = inner
    this.#trigger = trigger
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
        if (this.#isDoomed && this.#trigger.isArmed()) {
          this.#isCut = true
          this.#trigger.cut()
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
    this.#isDoomed ||= this.#trigger.isArmed() && storesRecords(parts)
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
