import type { RecordPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import { asMoonMQError, type ErrorCode, MoonMQError } from '../core/errors.ts'
import { KIB } from '../core/limits.ts'
import type { LogFields, Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import type { AcceptInfo } from '../io/door.ts'
import type { NetConnection, NetHandlers } from '../io/net.ts'
import { toWire } from '../wire/errors.ts'
import { encodeFrame, type Frame, FrameCutter, type PartialBudget, ZERO_CORRELATION } from '../wire/frame.ts'
import { FRAME_HEADER_BYTES } from '../wire/limits.ts'
import { OPCODES } from '../wire/opcodes.ts'
import { ConnectionDeadlines, type Overdue } from './deadlines.ts'
import { closesConnection, type Dispatch, type Pace, paceOf } from './dispatch.ts'
import type { Instruments } from './instruments.ts'
import type { NativeDoorOptions } from './options.ts'
import type { PushChannel } from './push-delivery.ts'
import { type OpenReply, Replies } from './replies.ts'
import { ANONYMOUS, AndThen, type Answer, type Call, Later, Session } from './session.ts'

export interface ConnectionDeps {
  readonly broker: RecordPorts
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly dispatch: Dispatch
  readonly budget: PartialBudget
  /** The same for clients that have not logged in: strangers cannot take the memory of the others. */
  readonly earlyBudget: PartialBudget
  readonly instruments: Instruments
  readonly closed: (connection: NativeConnection, reason: string) => void
}

/** How long a peer may take to read the last answers of a connection that is being closed. */
const LINGER_MS = 2_000
/** What a client that has not logged in may have queued for it, and waiting. */
const EARLY_BYTES = 64 * KIB
/** What a frame that waits costs beside its payload. */
const FRAME_OVERHEAD_BYTES = 160

/**
 * One native connection. Its requests run strictly one after another (DESIGN section 4); only produce lets the next one start while
 * its acknowledgement is outstanding. Owns the socket, the frames read from it, the order of its answers and its deadlines.
 */
export class NativeConnection implements NetHandlers, PushChannel {
  readonly #deps: ConnectionDeps
  readonly #options: NativeDoorOptions
  readonly #socket: NetConnection
  readonly #info: AcceptInfo
  readonly #cutter: FrameCutter
  readonly #replies = new Replies()
  readonly #abort = new AbortController()
  readonly #session: Session
  readonly #deadlines: ConnectionDeadlines
  #waiting: Frame[] = []
  #waitingBytes = 0
  /** What made the stream unreadable; told once the requests before it are answered. */
  #streamError: MoonMQError | null = null
  /** A request that is not pipelined runs. */
  #busy = false
  #paused = false
  #flushQueued = false
  #peerEnded = false
  /** No further request is started. */
  #ending: string | null = null
  /** Sent after all answers, before the end. */
  #lastWord: Buffer | null = null
  #ended = false
  #closed = false

  constructor(deps: ConnectionDeps, options: NativeDoorOptions, socket: NetConnection, info: AcceptInfo) {
    this.#deps = deps
    this.#options = options
    this.#socket = socket
    this.#info = info
    this.#cutter = new FrameCutter(options.maxFrameBytes, this.#splitBudget())
    this.#session = new Session(
      {
        principal: ANONYMOUS,
        protocol: 'native',
        clientId: '',
        clientHost: socket.remote.host,
        listener: info.listener,
        signal: this.#abort.signal,
      },
      info.principal ?? null,
      () => {
        info.loggedIn()
        this.#deadlines.loggedIn()
      },
    )
    this.#deadlines = new ConnectionDeadlines(
      deps.clock,
      options,
      (overdue) => this.#late(overdue),
      () => this.#probe(),
    )
  }

  /** Begins with the bytes that the listener has read already. */
  start(head: Buffer): void {
    this.#deadlines.start()
    this.#socket.start(this)
    if (head.length > 0) this.data(head)
  }

  data(bytes: Buffer): void {
    if (this.#ending !== null || this.#closed || this.#streamError !== null) return
    this.#deps.instruments.bytesReceived.add(bytes.length)
    this.#cutter.push(bytes)
    let whole = 0
    try {
      for (let frame = this.#cutter.next(); frame !== null; frame = this.#cutter.next()) {
        whole++
        this.#waiting.push(frame)
        this.#waitingBytes += frame.payload.length + FRAME_OVERHEAD_BYTES
      }
    } catch (error) {
      this.#streamError = asMoonMQError(error)
    }
    this.#deadlines.received(whole, this.#cutter.inFrame)
    this.#pump()
    this.#flush()
    if (!this.#paused && !this.#ended && this.#waitingBytes > this.#maxWaitingBytes) {
      this.#paused = true
      this.#deadlines.reading(false)
      this.#socket.pause()
    }
  }

  drain(): void {
    this.#pump()
    this.#flush()
    this.#session.push?.drained()
  }

  get queuedBytes(): number {
    return this.#socket.queuedBytes
  }

  get isGone(): boolean {
    return this.#closed || this.#ended
  }

  /** Of pushed records. Behind the answers that are ready, whose requests came before what is pushed now was read. */
  send(frames: readonly Buffer[]): Promise<boolean> {
    this.#flush()
    if (this.#closed || this.#ended || this.#ending !== null) return Promise.resolve(false)
    const { clock } = this.#deps
    // What is lost is told before the end of the connection is; and others get their turn between two rounds.
    return new Promise((resolve) => {
      const taken = () => clock.defer(() => resolve(!this.#closed))
      if (frames.length === 0) taken()
      else this.#send(frames, taken)
    })
  }

  fail(error: MoonMQError): void {
    this.#deps.log.warn('native.push_failed', `connection closed: what it subscribed to cannot be read: ${error.message}`, this.#fields())
    this.stop('push_failed', error)
  }

  end(): void {
    // Whoever has sent its last byte may still read answers to what it sent; a parked read has nothing to wait for any more.
    this.#peerEnded = true
    this.#abort.abort()
    this.#pump()
    this.#flush()
  }

  closed(error: Error | null): void {
    if (this.#closed) return
    this.#closed = true
    this.#deadlines.close()
    this.#abort.abort()
    this.#session.close()
    this.#cutter.close()
    this.#waiting = []
    this.#replies.clear()
    if (error !== null) this.#deps.log.debug('native.connection_broke', `connection broke: ${error.message}`, this.#fields())
    this.#deps.closed(this, this.#ending ?? (error === null ? 'peer_closed' : 'broken'))
  }

  /** Answers what runs, says why, then closes. Requests that have arrived but not begun are dropped. */
  stop(reason: string, error: MoonMQError): void {
    this.#endWith(reason, this.#errorFrame(ZERO_CORRELATION, error))
  }

  destroy(reason: string): void {
    this.#ending ??= reason
    this.#socket.destroy()
  }

  #pump(): void {
    let next = 0
    while (this.#ending === null && !this.#closed && next < this.#waiting.length) {
      const frame = this.#waiting[next] as Frame
      const pace = paceOf(frame)
      // What many requests of one chunk are answered with goes out before it is more than a client may leave unread.
      if (this.#replies.readyBytes > this.#maxQueuedBytes) this.#flush()
      if (!this.#mayStart(frame, pace)) break
      next++
      this.#waitingBytes -= frame.payload.length + FRAME_OVERHEAD_BYTES
      this.#begin(frame, pace)
    }
    if (next > 0) this.#waiting = next === this.#waiting.length ? [] : this.#waiting.slice(next)
    if (this.#streamError !== null && this.#ending === null && this.#waiting.length === 0 && !this.#busy) {
      const error = this.#streamError
      this.#deps.log.warn('native.stream_unreadable', `connection closed: ${error.message}`, this.#fields())
      this.#endWith('malformed', this.#errorFrame(ZERO_CORRELATION, error))
    }
    if (this.#paused && this.#ending === null && this.#waitingBytes <= this.#maxWaitingBytes / 2) {
      this.#paused = false
      this.#deadlines.reading(true)
      this.#socket.resume()
    }
  }

  #mayStart({ payload }: Frame, pace: Pace): boolean {
    const replies = this.#replies
    if (this.#closed || this.#ending !== null || this.#busy) return false
    if (this.#socket.queuedBytes + replies.readyBytes > this.#maxQueuedBytes) return false
    if (pace === 'alone') return replies.unready === 0
    if (pace === 'placed' && replies.gathering > 0) return false
    if (replies.count >= this.#options.maxOpenRequests) return false
    return replies.unready === 0 || replies.unreadyBytes + payload.length <= this.#maxOpenBytes
  }

  /** Acknowledgements of a batch take half as much again as its smallest records: all that are outstanding must fit what may be pending. */
  get #maxOpenBytes(): number {
    const { maxOpenBytes, maxPendingBytes } = this.#options
    return Math.min(maxOpenBytes, maxPendingBytes / 2)
  }

  get #loggedIn(): boolean {
    return this.#session.state === 'authenticated'
  }

  get #maxWaitingBytes(): number {
    return this.#loggedIn ? this.#options.maxWaitingBytes : Math.min(EARLY_BYTES, this.#options.maxWaitingBytes)
  }

  /** With more than this queued no further request is started. */
  get #maxQueuedBytes(): number {
    const { maxPendingBytes } = this.#options
    return this.#loggedIn ? maxPendingBytes / 4 : Math.min(EARLY_BYTES, maxPendingBytes / 4)
  }

  /** A frame that began before the login gives back to where it took from. */
  #splitBudget(): PartialBudget {
    const { budget, earlyBudget } = this.#deps
    let early = 0
    return {
      take: (bytes) => {
        if (this.#loggedIn) return budget.take(bytes)
        if (!earlyBudget.take(bytes)) return false
        early += bytes
        return true
      },
      give: (bytes) => {
        const part = Math.min(bytes, early)
        early -= part
        earlyBudget.give(part)
        budget.give(bytes - part)
      },
    }
  }

  #begin(frame: Frame, pace: Pace): void {
    const { opcode, correlation } = frame
    this.#deps.instruments.received(opcode)
    if (opcode === OPCODES.HEARTBEAT_RESP.code) return
    if (opcode === OPCODES.GOODBYE.code) {
      this.#endWith('goodbye', null)
      return
    }
    const reply = this.#replies.begin(frame, pace, this.#deps.clock.monotonicMs())
    const call: Call = {
      correlation,
      session: this.#session,
      context: this.#session.context,
      broker: this.#deps.broker,
      clock: this.#deps.clock,
      options: this.#options,
      push: this.#push,
      channel: this,
    }
    let answer: Answer | Later | Promise<Answer | Later>
    try {
      const { handler, message } = this.#deps.dispatch.route(frame, this.#session)
      answer = handler.handle(call, message)
    } catch (error) {
      this.#failed(error, frame, reply)
      return
    }
    if (answer instanceof Later) this.#settleLater(answer, frame, reply)
    else if (answer instanceof Promise) this.#wait(answer, frame, reply)
    else this.#answered(answer, reply)
  }

  #settleLater(later: Later, frame: Frame, reply: OpenReply): void {
    later.answer.then(
      (answer) => {
        this.#answered(answer, reply)
        this.#resume()
      },
      (error: unknown) => {
        this.#failed(error, frame, reply)
        this.#resume()
      },
    )
  }

  #wait(answer: Promise<Answer | Later>, frame: Frame, reply: OpenReply): void {
    this.#busy = true
    answer.then(
      (settled) => {
        this.#busy = false
        if (settled instanceof Later) this.#settleLater(settled, frame, reply)
        else this.#answered(settled, reply)
        this.#resume()
      },
      (error: unknown) => {
        this.#busy = false
        this.#failed(error, frame, reply)
        this.#resume()
      },
    )
  }

  #answered(answer: Answer, reply: OpenReply): void {
    if (this.#closed) return
    this.#deps.instruments.answered(reply.opcode, this.#deps.clock.monotonicMs() - reply.startedMs)
    if (answer instanceof AndThen) {
      this.#replies.ready(reply, [answer.frames])
      answer.act()
    } else this.#replies.ready(reply, answer === null ? [] : Buffer.isBuffer(answer) ? [answer] : answer)
  }

  #failed(cause: unknown, frame: Frame, reply: OpenReply): void {
    if (this.#closed) return
    const error = asMoonMQError(cause)
    if (error.code === 'INTERNAL') {
      const stack = error.cause instanceof Error ? error.cause.stack : error.stack
      this.#deps.log.error('native.request_failed', `a request failed: ${error.message}`, { ...this.#fields(), op: frame.opcode, stack })
    }
    const answer = this.#errorFrame(frame.correlation, error)
    if (!closesConnection(frame.opcode, error)) {
      this.#replies.ready(reply, [answer])
      return
    }
    this.#replies.ready(reply, [])
    this.#deps.log.info('native.refused', `connection closed: ${error.message}`, this.#fields())
    this.#endWith('refused', answer)
  }

  #errorFrame(correlation: Buffer, error: MoonMQError): Buffer {
    const { code, message, name } = toWire(error)
    return encodeFrame('ERROR', correlation, this.#session.extended ? { code, message, name } : { code, message })
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
    if (this.#closed || this.#ended) return
    const frames = this.#replies.takeReady()
    if (frames !== null) this.#send(frames)
    if (this.#peerEnded && this.#replies.count === 0 && !this.#busy && this.#waiting.length === 0) this.#ending ??= 'peer_closed'
    if (this.#ending !== null) this.#endWhenQuiet()
  }

  #send(frames: readonly Buffer[], taken?: () => void): void {
    if (frames.length === 0) return
    let bytes = 0
    for (const frame of frames) bytes += frame.length
    if (this.#socket.queuedBytes + bytes > this.#options.maxPendingBytes) {
      this.#deps.log.warn('native.too_much_pending', 'connection closed: the client does not read what is sent to it', this.#fields())
      this.destroy('pending_bytes')
      taken?.()
      return
    }
    this.#deps.instruments.sent(frames.length, bytes)
    const sent = this.#deadlines.sending()
    this.#socket.send(
      frames,
      taken === undefined
        ? sent
        : () => {
            sent()
            taken()
          },
    )
  }

  readonly #push = (frame: Buffer): void => {
    this.#flush()
    if (!this.#closed && this.#ending === null) this.#send([frame])
  }

  #endWith(reason: string, lastWord: Buffer | null): void {
    if (this.#ending !== null || this.#closed) return
    this.#ending = reason
    this.#lastWord = lastWord
    this.#abort.abort()
    this.#resume()
  }

  #endWhenQuiet(): void {
    if (this.#ended || this.#closed || this.#busy || this.#replies.count > 0) return
    if (this.#lastWord !== null) this.#send([this.#lastWord])
    if (this.#closed) return
    this.#ended = true
    this.#cutter.close()
    this.#waiting = []
    this.#deadlines.linger(LINGER_MS, () => this.#socket.destroy())
    this.#socket.end()
  }

  /** Asks a client that has been quiet whether it is still there. */
  #probe(): void {
    if (this.#ending === null) this.#send([encodeFrame('HEARTBEAT_REQ', this.#deps.random.bytes(FRAME_HEADER_BYTES - 1), {})])
  }

  #late(overdue: Overdue): void {
    if (this.#ended || this.#closed) return
    const { what, code } = LATE[overdue]
    this.#deps.log.info('native.late', `connection closed: ${what}`, this.#fields())
    if (code === null || this.#ending !== null) this.destroy(overdue)
    else this.#endWith(overdue, this.#errorFrame(ZERO_CORRELATION, new MoonMQError(code, { reason: what })))
    // Whoever is cut off for silence need not wait for a request that runs.
    if (this.#busy && !this.#closed) this.#deadlines.linger(LINGER_MS, () => this.#socket.destroy())
  }

  #fields(): LogFields {
    const { remote } = this.#socket
    return {
      remote: `${remote.host}:${remote.port}`,
      listener: this.#info.listener,
      connection: this.#info.id,
      client: this.#session.context.clientId,
    }
  }
}

const LATE: Readonly<Record<Overdue, { what: string; code: ErrorCode | null }>> = {
  handshake: { what: 'no login in time', code: 'BAD_PROTOCOL' },
  pre_auth_read: { what: 'a frame before login was not complete in time', code: 'INTERNAL' },
  idle: { what: 'a frame that began was not complete in time', code: 'INTERNAL' },
  heartbeat: { what: 'nothing was received for too long', code: 'INTERNAL' },
  send: { what: 'what was sent was not taken in time', code: null },
}
