import type { RequestContext } from '../broker/context.ts'
import type { GroupMembership, ProducerSession, RecordConsumer, RecordPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import { encodeFrame } from '../wire/frame.ts'
import { MAX_REPLY_FRAME_BYTES } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { FEATURE_EXTENSION, type OpName } from '../wire/opcodes.ts'
import type { NativeDoorOptions } from './options.ts'
import type { PushChannel, PushDelivery } from './push-delivery.ts'
import type { StreamSource } from './stream-source.ts'
import { WireSequences } from './wire-sequences.ts'

export type ConnectionState = 'new' | 'greeted' | 'authenticated'

export const ANONYMOUS = 'User:ANONYMOUS'

/** What a connection is known by, and what its requests have built up. Requests of one connection run one after another. */
export class Session {
  state: ConnectionState = 'new'
  /** Feature bits that the client said it understands. */
  features = 0
  context: RequestContext
  /** Made by the first FETCH: its group and isolation level hold for the connection. */
  consumer: RecordConsumer | null = null
  /** It was made by PULL. */
  pulls = false
  /** Made by JOIN_GROUP, and kept when it has lapsed: what the connection reads is refused until it joins again or leaves. */
  membership: GroupMembership | null = null
  /** Made by the first SUBSCRIBE or STREAM: records are pushed from then on, and FETCH is refused. */
  push: PushDelivery | null = null
  /** What is pushed, of a connection with STREAM. */
  stream: StreamSource | null = null
  /** Of INIT_PRODUCER_ID or OPEN_PRODUCER. */
  #producer: ProducerSession | null = null
  /** Of that producer, by topic. */
  #sequences = new Map<string, WireSequences>()
  #isClosed = false
  /** Who logs in, whatever the client says: a connection of this process, made for somebody who has logged in elsewhere. */
  readonly vouchedFor: string | null
  readonly #loggedIn: () => void

  constructor(context: RequestContext, vouchedFor: string | null, loggedIn: () => void) {
    this.context = context
    this.vouchedFor = vouchedFor
    this.#loggedIn = loggedIn
  }

  /** The client asked for the extension: its opcodes, and the names of errors. */
  get extended(): boolean {
    return (this.features & FEATURE_EXTENSION) !== 0
  }

  get producer(): ProducerSession | null {
    return this.#producer
  }

  /** Another producer from here on: the numbers of the one before are forgotten, and its open transaction aborted. */
  async produceAs(open: () => Promise<ProducerSession>): Promise<ProducerSession> {
    await this.#stopProducing()
    const producer = await open()
    this.#producer = producer
    // The connection ended while it was opened.
    if (this.#isClosed) await this.#stopProducing()
    return producer
  }

  sequencesOf(topic: string): WireSequences {
    let sequences = this.#sequences.get(topic)
    if (sequences === undefined) {
      sequences = new WireSequences()
      this.#sequences.set(topic, sequences)
    }
    return sequences
  }

  /** Never rejects. */
  async #stopProducing(): Promise<void> {
    const producer = this.#producer
    this.#producer = null
    this.#sequences = new Map()
    await producer?.close()
  }

  identify(clientId: string, features: number): void {
    this.context = { ...this.context, clientId }
    this.features = features
  }

  /** The connection is gone. */
  close(): void {
    this.#isClosed = true
    this.membership?.close()
    // Owned by the producer, and never rejects: its transaction is aborted.
    void this.#stopProducing()
  }

  login(principal: string): void {
    this.context = { ...this.context, principal }
    this.state = 'authenticated'
    this.#loggedIn()
  }
}

/** A request under way. */
export interface Call {
  readonly correlation: Buffer
  readonly session: Session
  readonly context: RequestContext
  readonly broker: RecordPorts
  readonly clock: Clock
  readonly options: NativeDoorOptions
  /** Sends a frame that answers nothing, now or later, behind the answers that are ready. */
  readonly push: (frame: Buffer) => void
  readonly channel: PushChannel
}

/** An answer, and what is done in the turn in which it takes its place: frames that are pushed later come after it. */
export class AndThen {
  readonly frames: Buffer
  readonly act: () => void

  constructor(frames: Buffer, act: () => void) {
    this.frames = frames
    this.act = act
  }
}

/** The frames that answer a request; null = it has no answer. */
export type Answer = Buffer | readonly Buffer[] | AndThen | null

/**
 * The request is done but for its answer, which the next request need not wait for. Only produce answers so; a promise of it holds the
 * next request until everything is in its place.
 */
export class Later {
  readonly answer: Promise<Answer>

  constructor(answer: Promise<Answer>) {
    this.answer = answer
  }
}

export interface Handler<N extends OpName> {
  readonly op: N
  /** Throws what the request is refused with. */
  handle(call: Call, message: Message<N>): Answer | Later | Promise<Answer | Later>
}

// A table of handlers is looked up by opcode; each decodes into its own message.
export interface AnyHandler {
  readonly op: OpName
  handle(call: Call, message: never): Answer | Later | Promise<Answer | Later>
}

export function reply<N extends OpName>(call: Call, name: N, message: Message<N>, sizeHint?: number): Buffer {
  return encodeFrame(name, call.correlation, message, sizeHint, MAX_REPLY_FRAME_BYTES)
}

export function ok(call: Call): Buffer {
  return reply(call, 'OK', {})
}
