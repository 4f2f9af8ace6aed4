import type { RequestContext } from '../broker/context.ts'
import type { Timer } from '../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { inSteps } from '../core/in-turns.ts'
import { KIB, MIB } from '../core/limits.ts'
import type { LogGate } from '../core/log-gate.ts'
import type { LogFields } from '../core/logger.ts'
import type { AcceptInfo } from '../io/door.ts'
import type { NetConnection, NetHandlers } from '../io/net.ts'
import { advertisedFor } from './advertised.ts'
import type { DecodedRequest, Dispatch } from './dispatch.ts'
import { type FrameBudget, FrameReader } from './frames.ts'
import type { LargeRequests } from './large-requests.ts'
import { giveBack, type OpenReply, Replies } from './replies.ts'
import { RequestRunner, type RunnerDeps } from './runner.ts'

export interface ConnectionLimits {
  /** Kafka's `socket.request.max.bytes`. */
  readonly maxRequestBytes: number
  /** The same before the first valid request. */
  readonly maxFirstRequestBytes: number
  /** Kafka's `connections.max.idle.ms`: without a whole request and without an answer taken. */
  readonly idleMs: number
  /** Time to the first valid request. */
  readonly firstRequestMs: number
  /** Requests, and bytes of them, that may await their answers before the next is started. */
  readonly maxOpenRequests: number
  readonly maxOpenBytes: number
  /** Input that may wait behind a request before the socket is paused. */
  readonly maxWaitingBytes: number
  /** Answers that the peer has not taken before no further request is started. */
  readonly maxQueuedBytes: number
}

export interface ConnectionDeps extends RunnerDeps {
  /** For connections that have sent a valid request, and for those that have not: strangers cannot use up what clients need. */
  readonly budget: FrameBudget
  readonly firstBudget: FrameBudget
  readonly large: LargeRequests
  /** Holds back log lines about input that cannot be read. */
  readonly refusals: LogGate
  /** Principal of a connection without login. */
  readonly principal: string
  readonly closed: (connection: KafkaConnection, reason: string) => void
}

/** How long a peer may take to read the last answers of a connection that is being closed. */
const LINGER_MS = 5_000
/** Answers of one turn are sent together, unless they reach this much. */
const FLUSH_BYTES = 256 * KIB
/** Larger requests than these are read in steps, but for Produce, whose bytes are records. */
const LARGE_FRAME_BYTES = 16 * KIB
/** Still larger ones wait for a place among those of all connections. */
const HUGE_FRAME_BYTES = MIB
/** Fetch, JoinGroup, SyncGroup and ShareFetch may wait for records or for other clients. */
const PARKING_KEYS: ReadonlySet<number> = new Set([1, 11, 14, 78])

/**
 * One Kafka connection. Its requests run strictly one after another (DESIGN section 4); only Produce lets the next one start while
 * its answer is outstanding, and every other request waits until all earlier answers are sent. Owns the socket, the frames read
 * from it and the order of its answers.
 */
export class KafkaConnection implements NetHandlers {
  readonly #deps: ConnectionDeps
  readonly #limits: ConnectionLimits
  readonly #socket: NetConnection
  readonly #info: AcceptInfo
  readonly #frames: FrameReader
  readonly #replies = new Replies()
  readonly #runner: RequestRunner
  readonly #abort = new AbortController()
  #context: RequestContext
  #timer: Timer | null = null
  #lastActivityMs: number
  #valid = false
  /** A request other than Produce runs. */
  #busy = false
  /** A frame that was cut and must wait for earlier answers. */
  #held: Buffer | null = null
  #paused = false
  #flushQueued = false
  #peerEnded = false
  /** No further request is started: the broker stops, the peer is done, or a request was refused. */
  #ending: string | null = null
  #ended = false
  #closed = false

  constructor(deps: ConnectionDeps, limits: ConnectionLimits, socket: NetConnection, info: AcceptInfo) {
    this.#deps = deps
    this.#limits = limits
    this.#socket = socket
    this.#info = info
    this.#frames = new FrameReader(deps.firstBudget, Math.min(limits.maxFirstRequestBytes, limits.maxRequestBytes))
    this.#lastActivityMs = deps.clock.monotonicMs()
    this.#context = this.#contextFor('')
    this.#runner = new RequestRunner(deps, {
      advertised: advertisedFor(info.advertised, socket.local),
      ready: (reply, parts) => this.#ready(reply, parts),
      resume: () => this.#resume(),
      lose: (reason) => this.#lose(reason),
      fields: () => this.#fields(),
    })
  }

  /** Bytes of answers that the system has not taken yet. */
  get pendingBytes(): number {
    return this.#closed ? 0 : this.#socket.queuedBytes
  }

  /** Begins with the bytes that the listener has read already. */
  start(head: Buffer): void {
    this.#armTimer(this.#limits.firstRequestMs)
    this.#socket.start(this)
    this.data(head)
  }

  data(bytes: Buffer): void {
    if (this.#ending !== null || this.#closed) return
    this.#deps.instruments.bytesReceived.add(bytes.length)
    this.#frames.push(bytes)
    this.#pump()
    this.#flush()
    if (!this.#paused && this.#frames.waitingBytes > this.#limits.maxWaitingBytes) {
      this.#paused = true
      this.#socket.pause()
    }
  }

  drain(): void {
    this.#lastActivityMs = this.#deps.clock.monotonicMs()
    this.#pump()
    this.#flush()
  }

  end(): void {
    // Whoever has sent its last byte may still read answers to what it sent; parked requests have nothing to wait for any more.
    this.#peerEnded = true
    this.#abort.abort()
    this.#pump()
    this.#flush()
  }

  closed(error: Error | null): void {
    if (this.#closed) return
    this.#closed = true
    this.#timer?.cancel()
    this.#abort.abort()
    this.#frames.close()
    this.#held = null
    this.#replies.clear()
    if (error !== null) this.#deps.log.debug('kafka.connection_broke', `connection broke: ${error.message}`, this.#fields())
    this.#deps.closed(this, this.#ending ?? (error === null ? 'peer_closed' : 'broken'))
  }

  /** Answers what runs, then closes. Requests that have arrived but not begun are dropped; parked ones end at once. */
  stop(reason: string): void {
    if (this.#ending !== null || this.#closed) return
    this.#ending = reason
    this.#abort.abort()
    this.#endWhenQuiet()
  }

  destroy(reason: string): void {
    this.#ending ??= reason
    this.#socket.destroy()
  }

  #pump(): void {
    while (this.#ending === null && !this.#closed && this.#mayStart()) {
      let frame: Buffer | null
      try {
        frame = this.#held ?? this.#frames.next()
      } catch (error) {
        this.#refuseStream(asMoonMQError(error))
        return
      }
      if (frame === null) break
      this.#held = null
      this.#lastActivityMs = this.#deps.clock.monotonicMs()
      this.#begin(frame)
      if (this.#replies.readyBytes > FLUSH_BYTES) this.#flush()
    }
    if (this.#paused && this.#frames.waitingBytes <= this.#limits.maxWaitingBytes / 2) {
      this.#paused = false
      this.#socket.resume()
    }
  }

  #mayStart(): boolean {
    if (this.#busy || this.#socket.queuedBytes > this.#limits.maxQueuedBytes) return false
    // Everything that is not Produce waits for earlier answers, and so does what the table refuses.
    if (this.#held !== null) return this.#replies.unready === 0
    return this.#replies.count < this.#limits.maxOpenRequests && this.#replies.unreadyBytes < this.#limits.maxOpenBytes
  }

  #begin(frame: Buffer): void {
    if (this.#replies.unready > 0 && !isProduce(frame)) {
      this.#held = frame
      return
    }
    if (frame.length > LARGE_FRAME_BYTES && !isProduce(frame)) {
      this.#busy = true
      // Owned: it never rejects.
      void this.#beginInSteps(frame)
      return
    }
    let request: ReturnType<Dispatch['decode']>
    try {
      request = this.#deps.dispatch.decode(frame)
    } catch (error) {
      if (this.#replies.unready > 0) this.#held = frame
      else this.#refuseStream(asMoonMQError(error))
      return
    }
    // Owned: it never rejects, and its end starts the next request.
    void this.#take(request, frame)
  }

  /** A request that may name so much that reading it in one go would hold everybody up. */
  async #beginInSteps(frame: Buffer): Promise<void> {
    const { clock, dispatch, large } = this.#deps
    const placeBytes = frame.length > HUGE_FRAME_BYTES ? frame.length : 0
    if (placeBytes > 0 && !(await this.#awaitPlace(placeBytes))) return
    let running: Promise<void> | null = null
    try {
      const request = await inSteps(clock, dispatch.decodeInSteps(frame), () => this.#closed || this.#ending !== null)
      this.#busy = false
      if (this.#ending === null && !this.#closed) running = this.#take(request, frame)
    } catch (error) {
      this.#busy = false
      if (this.#ending === null && !this.#closed) this.#refuseStream(asMoonMQError(error))
    }
    this.#resume()
    // What may wait for others keeps no place meanwhile. It never rejects.
    if (running !== null && !mayPark(frame)) await running
    if (placeBytes > 0) large.leave(placeBytes)
  }

  /** False when there is no memory to wait with. */
  async #awaitPlace(bytes: number): Promise<boolean> {
    const { large, budget } = this.#deps
    const turn = large.enter(bytes)
    if (turn === null) return true
    if (!budget.take(bytes)) {
      // Its turn comes all the same, and is passed on.
      void turn.then(() => large.leave(bytes))
      this.#busy = false
      this.#refuseStream(new MoonMQError('RATE_LIMITED', { reason: 'too much memory is held by requests that wait' }))
      return false
    }
    await turn
    budget.give(bytes)
    return true
  }

  #take(request: ReturnType<Dispatch['decode']>, frame: Buffer): Promise<void> | null {
    const reply = this.#replies.begin(frame.length, this.#lastActivityMs)
    if (request.route === null) {
      this.#replies.ready(reply, this.#deps.dispatch.encodeDowngrade(request.correlationId))
      return null
    }
    this.#accepted()
    return this.#run(request, reply)
  }

  /** The first valid request stands for a login where there is none: full frame size, no limit per address. */
  #accepted(): void {
    if (this.#valid) return
    this.#valid = true
    this.#frames.trust(this.#deps.budget, this.#limits.maxRequestBytes)
    this.#info.loggedIn()
    this.#armTimer(this.#limits.idleMs)
  }

  #run(request: DecodedRequest, reply: OpenReply): Promise<void> | null {
    if (this.#context.clientId !== request.clientId) this.#context = this.#contextFor(request.clientId)
    const running = this.#runner.run(request, this.#context, reply)
    if (running === null) return null
    this.#busy = true
    running.then(this.#ranOn, this.#ranOn)
    return running
  }

  readonly #ranOn = (): void => {
    this.#busy = false
    this.#resume()
  }

  #ready(reply: OpenReply, parts: readonly Buffer[]): void {
    if (this.#closed) giveBack(reply)
    else this.#replies.ready(reply, parts)
  }

  /** After an answer became ready outside of `data`: one write for all that became ready in this turn. */
  #resume(): void {
    if (this.#closed || this.#flushQueued) return
    this.#flushQueued = true
    queueMicrotask(() => {
      this.#flushQueued = false
      if (this.#closed) return
      this.#flush()
      this.#pump()
      this.#flush()
    })
  }

  #flush(): void {
    if (this.#closed) return
    this.#sendReady()
    if (this.#peerEnded && this.#replies.count === 0 && !this.#busy && this.#held === null && this.#frames.waitingBytes === 0) {
      this.#ending ??= 'peer_closed'
    }
    if (this.#ending !== null) this.#endWhenQuiet()
  }

  #sendReady(): void {
    const ready = this.#replies.takeReady()
    if (ready === null) return
    const { parts, sizeBytes, afterSent } = ready
    this.#lastActivityMs = this.#deps.clock.monotonicMs()
    this.#deps.instruments.bytesSent.add(sizeBytes)
    const sent = () => {
      for (const run of afterSent) run()
    }
    if (parts.length === 0) sent()
    else if (afterSent.length === 0) this.#socket.send(parts)
    else this.#socket.send(parts, sent)
  }

  #endWhenQuiet(): void {
    if (this.#ended || this.#closed || this.#busy) return
    this.#sendReady()
    if (this.#replies.count > 0) return
    this.#ended = true
    this.#frames.close()
    this.#timer?.cancel()
    this.#timer = this.#deps.clock.setTimer(LINGER_MS, () => this.#socket.destroy())
    this.#socket.end()
  }

  /** The stream cannot be read on: earlier answers go out, then the connection closes without one to this request. */
  #refuseStream(error: MoonMQError): void {
    const note = this.#deps.refusals.pass()
    if (note !== null) this.#deps.log.warn('kafka.request_unreadable', `connection closed: ${error.message}${note}`, this.#fields())
    this.#lose(error.code === 'UNSUPPORTED_VERSION' || error.code === 'UNKNOWN_OP' ? 'unsupported' : 'malformed')
  }

  #lose(reason: string): void {
    if (this.#ending !== null) return
    this.#ending = reason
    this.#abort.abort()
    this.#endWhenQuiet()
  }

  /** One timer a connection, set again by what it finds: requests only note their time. */
  #armTimer(limitMs: number): void {
    this.#timer?.cancel()
    const dueMs = this.#lastActivityMs + limitMs - this.#deps.clock.monotonicMs()
    this.#timer = this.#deps.clock.setTimer(Math.max(1, dueMs), () => this.#checkIdle(limitMs))
  }

  #checkIdle(limitMs: number): void {
    if (this.#closed || this.#ended) return
    const working = (this.#replies.count > 0 || this.#busy) && this.#socket.queuedBytes === 0
    const nowMs = this.#deps.clock.monotonicMs()
    if (working) this.#lastActivityMs = nowMs
    if (nowMs - this.#lastActivityMs < limitMs) {
      this.#armTimer(limitMs)
      return
    }
    const what = this.#valid ? `idle for ${limitMs} ms` : `no valid request within ${limitMs} ms`
    this.#deps.log.debug('kafka.connection_idle', `connection closed: ${what}`, this.#fields())
    this.destroy('idle')
  }

  #contextFor(clientId: string): RequestContext {
    return {
      principal: this.#deps.principal,
      protocol: 'kafka',
      clientId,
      // As Kafka shows it: tools and their users know the slash.
      clientHost: `/${this.#socket.remote.host}`,
      listener: this.#info.listener,
      signal: this.#abort.signal,
    }
  }

  #fields(): LogFields {
    const { remote } = this.#socket
    return {
      remote: `${remote.host}:${remote.port}`,
      listener: this.#info.listener,
      connection: this.#info.id,
      client: this.#context.clientId,
    }
  }
}

/** API key 0, the only request that may start while earlier answers are outstanding. */
function isProduce(frame: Buffer): boolean {
  return frame[0] === 0 && frame[1] === 0
}

function mayPark(frame: Buffer): boolean {
  return PARKING_KEYS.has(frame.readInt16BE(0))
}
