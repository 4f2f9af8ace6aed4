import type { NetAddress, NetConnection, NetHandlers } from '../../src/io/net.ts'

/** One end of a connection whose other end is the test: bytes come when told to, and what is sent is kept. */
export class FakeSocket implements NetConnection {
  readonly remote: NetAddress
  readonly local: NetAddress
  /** While true, what is sent stays queued, as with a peer that does not read. */
  holding = false
  paused = false
  ended = false
  destroyed = false
  /** Number of gathering writes. */
  writes = 0
  #handlers: NetHandlers | null = null
  #sent: Buffer[] = []
  #held: { bytes: number; sent: (() => void) | undefined }[] = []
  #closed = false

  constructor(options: { remote?: NetAddress; local?: NetAddress } = {}) {
    this.remote = options.remote ?? { host: '127.0.0.1', port: 50_000 }
    this.local = options.local ?? { host: '127.0.0.1', port: 9092 }
  }

  get queuedBytes(): number {
    return this.#held.reduce((sum, each) => sum + each.bytes, 0)
  }

  get started(): boolean {
    return this.#handlers !== null
  }

  get closed(): boolean {
    return this.#closed
  }

  start(handlers: NetHandlers): void {
    if (this.#handlers !== null) throw new Error('a connection is started once')
    this.#handlers = handlers
  }

  send(parts: readonly Buffer[], sent?: () => void): void {
    this.writes++
    const bytes = Buffer.concat(parts as Buffer[])
    this.#sent.push(bytes)
    if (this.holding) this.#held.push({ bytes: bytes.length, sent })
    else sent?.()
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }

  end(): void {
    this.ended = true
    if (!this.holding) this.close()
  }

  destroy(): void {
    this.destroyed = true
    this.close()
  }

  // ---- what the test does ----

  /** Bytes from the peer; each call is a chunk of its own memory, as the network gives them. */
  push(bytes: Buffer): void {
    if (!this.#closed) this.#handlers?.data(Buffer.from(bytes))
  }

  peerEnds(): void {
    this.#handlers?.end()
  }

  /** The peer reads everything that is queued. */
  drain(): void {
    this.holding = false
    for (const { sent } of this.#held.splice(0)) sent?.()
    this.#handlers?.drain()
    if (this.ended) this.close()
  }

  /** The connection is gone. */
  close(error: Error | null = null): void {
    if (this.#closed) return
    this.#closed = true
    for (const { sent } of this.#held.splice(0)) sent?.()
    this.#handlers?.closed(error)
  }

  /** What was sent since the last call. */
  take(): Buffer {
    const bytes = Buffer.concat(this.#sent)
    this.#sent = []
    return bytes
  }
}

/** Lets promise reactions run, as far as they go without time or input. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 500; i++) await Promise.resolve()
}
