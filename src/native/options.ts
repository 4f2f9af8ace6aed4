import type { Acks } from '../broker/ports.ts'
import { MIB } from '../core/limits.ts'
import { MAX_FRAME_BYTES } from '../wire/limits.ts'

/** Bounds of one connection. Times in milliseconds. */
export interface NativeLimits {
  /** Largest frame that a client may send (`server.maxFrameSize`). */
  readonly maxFrameBytes: number
  /** Queued outbound bytes; a frame that would exceed it closes the connection. */
  readonly maxPendingBytes: number
  /** Time for a client to take a frame that was sent to it. */
  readonly sendDeadlineMs: number
  /** From accept to login. */
  readonly handshakeDeadlineMs: number
  /** For each frame before login, counted from the end of the one before. */
  readonly preAuthReadDeadlineMs: number
  /** To finish a frame once its first byte has arrived. */
  readonly idleDeadlineMs: number
  readonly heartbeatIntervalMs: number
  /** Intervals without a byte after which the client is gone. */
  readonly heartbeatMissThreshold: number
  /** Input that waits behind a request before the socket is paused. */
  readonly maxWaitingBytes: number
  /** Produce requests, and bytes of them, whose acknowledgements are outstanding before the next is started. */
  readonly maxOpenRequests: number
  readonly maxOpenBytes: number
}

export interface NativeDoorOptions extends NativeLimits {
  /** When PRODUCE and PRODUCE_BATCH are acknowledged; SEND says it for itself. */
  readonly acks: Acks
  /** Longest that a produce waits for its acknowledgement. */
  readonly produceTimeoutMs: number
  /** Names in a TOPIC_LIST. */
  readonly maxListTopics: number
  /** Memory of unfinished frames, over all connections. */
  readonly maxPartialBytes: number
  /** How long requests that run may take at the end before their connections are cut. */
  readonly drainMs: number
  /** False: version 1 alone, as a broker that has never heard of the extension. */
  readonly extension: boolean
  /** What IDENTIFY_ACK says. */
  readonly server: { readonly name: string; readonly version: string }
}

export const DEFAULT_NATIVE_DOOR: NativeDoorOptions = {
  maxFrameBytes: MAX_FRAME_BYTES,
  maxPendingBytes: 16 * MIB,
  sendDeadlineMs: 30_000,
  handshakeDeadlineMs: 5_000,
  preAuthReadDeadlineMs: 5_000,
  idleDeadlineMs: 60_000,
  heartbeatIntervalMs: 30_000,
  heartbeatMissThreshold: 3,
  maxWaitingBytes: MIB,
  maxOpenRequests: 1024,
  maxOpenBytes: 16 * MIB,
  acks: 'leader',
  produceTimeoutMs: 30_000,
  maxListTopics: 1024,
  maxPartialBytes: 256 * MIB,
  drainMs: 5_000,
  extension: true,
  server: { name: 'MoonMQ', version: '0.1.0' },
}
