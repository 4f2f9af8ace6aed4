import { asMoonMQError, type MoonMQError } from '../core/errors.ts'
import { KIB } from '../core/limits.ts'

/** Where pushed frames go: after every answer that is ready, in the order of the calls. */
export interface PushChannel {
  /** Bytes that the client has not taken. */
  readonly queuedBytes: number
  /** Nothing reaches the client any more. */
  readonly isGone: boolean
  /** Resolves in a turn of its own, when the system has taken them: false when they are lost with the connection. */
  send(frames: readonly Buffer[]): Promise<boolean>
  /** Tells the client with the zero id, and closes. */
  fail(error: MoonMQError): void
}

/** Records that leave together. */
export interface PushRound {
  readonly frames: readonly Buffer[]
  /** More may be there already. */
  readonly isMore: boolean
  /** The client's system has taken them. */
  taken(): Promise<void>
  /** They were sent or will not be: gives back their memory. */
  release(): void
}

/** What is pushed: the consumer or the stream of a connection. */
export interface PushSource {
  /** What there is now, in at most this many bytes but for a single record. Null: nothing. Throws what ends the push. */
  next(maxBytes: number): Promise<PushRound | null>
  /** Calls `wake` when `next` may find something. Returns how to stop. */
  watch(wake: () => void): () => void
}

export interface PushDeps {
  readonly channel: PushChannel
  readonly source: PushSource
  /** Fires when the connection is gone or ends. */
  readonly signal: AbortSignal
}

export interface PushOptions {
  /** Bytes that the client has not taken above which nothing is read for it. */
  readonly maxQueuedBytes: number
}

/** Of one round, so that other connections get their turn between two. */
const MAX_ROUND_BYTES = 256 * KIB

/**
 * Pushes what a source gives to one connection, round after round: from the moment that a record is durable, woken by its log. One round is
 * on its way at a time, and none is read while the client leaves too much unread. Owns the loop, which ends with the connection.
 */
export class PushDelivery {
  readonly #deps: PushDeps
  readonly #options: PushOptions
  /** Something happened since the source was last asked. */
  #woken = true
  #waiter: (() => void) | null = null

  constructor(deps: PushDeps, options: PushOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** Never rejects: what goes wrong ends the connection. */
  start(): void {
    const { signal, source } = this.#deps
    const stop = source.watch(() => this.wake())
    const onAbort = () => this.#resume()
    signal.addEventListener('abort', onAbort, { once: true })
    void this.#run()
      .catch((error: unknown) => {
        if (!signal.aborted) this.#deps.channel.fail(asMoonMQError(error))
      })
      .finally(() => {
        signal.removeEventListener('abort', onAbort)
        stop()
      })
  }

  /** There may be more to push. */
  wake(): void {
    this.#woken = true
    this.#resume()
  }

  /** The client has taken everything that was queued. */
  drained(): void {
    this.#resume()
  }

  #resume(): void {
    const waiter = this.#waiter
    this.#waiter = null
    waiter?.()
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiter = resolve
    })
  }

  async #run(): Promise<void> {
    const { channel, source, signal } = this.#deps
    const { maxQueuedBytes } = this.#options
    while (!signal.aborted) {
      if (channel.queuedBytes > maxQueuedBytes || !this.#woken) {
        await this.#wait()
        continue
      }
      this.#woken = false
      const round = await source.next(Math.min(MAX_ROUND_BYTES, maxQueuedBytes))
      if (round === null) continue
      if (round.isMore) this.#woken = true
      try {
        if (signal.aborted) return
        if (await channel.send(round.frames)) await round.taken()
      } finally {
        round.release()
      }
    }
  }
}
