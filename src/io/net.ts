/**
 * Streams of bytes between processes, or within one (DESIGN D6). `NodeNet` is the machine's TCP; `VirtualNet` connects inside
 * the process, so an embedded broker or a simulation needs no socket.
 */
export interface Net {
  listen(address: NetAddress, onConnection: (connection: NetConnection) => void): Promise<NetListener>
  connect(address: NetAddress, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<NetConnection>
}

export interface NetAddress {
  readonly host: string
  readonly port: number
}

export interface NetListener {
  /** Where it listens really: the port that the system chose for port 0. */
  readonly address: NetAddress
  /** Takes no more connections; open ones live on. */
  close(): Promise<void>
}

export interface NetHandlers {
  /** The bytes are the receiver's own; they are not reused. */
  data(bytes: Buffer): void
  /** What was queued has been handed to the system: `queuedBytes` is 0. */
  drain(): void
  /** The peer sends no more. */
  end(): void
  /** The last call. `error` when the connection broke. */
  closed(error: Error | null): void
}

/** One connection. Nothing is read before `start`. */
export interface NetConnection {
  readonly remote: NetAddress
  readonly local: NetAddress
  /** Bytes handed to `send` that the system has not taken yet. */
  readonly queuedBytes: number
  start(handlers: NetHandlers): void
  /** Queues the parts in order as one gathering write. `sent` is called once the system has taken them or they are lost. */
  send(parts: readonly Buffer[], sent?: () => void): void
  pause(): void
  resume(): void
  /** Sends what is queued, then closes. */
  end(): void
  /** Closes at once; what is queued is lost. */
  destroy(): void
}
