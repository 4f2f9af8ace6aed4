import type { Clock, Timer } from '../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { KIB, MIB } from '../core/limits.ts'
import { fromWire } from '../wire/errors.ts'
import { MAX_COUNT } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { ACKS_ALL, ACKS_LEADER, ACKS_NONE } from '../wire/opcodes.ts'
import { AbortListeners, abortable, hastened } from './abortable.ts'
import { checkList } from './arguments.ts'
import type { ClientConnection } from './connection.ts'
import type { Link } from './link.ts'
import { type Outgoing, type SendPath, sendThrough } from './outgoing.ts'
import { FRAME_OVERHEAD_BYTES } from './records.ts'
import { SendWindow } from './send-window.ts'
import type { Acked, ProduceAcks, Producer, ProducerOptions, RecordToSend, RequestControl } from './types.ts'
import { sendPlain } from './version-1.ts'

export const ACKS: Readonly<Record<ProduceAcks, number>> = { none: ACKS_NONE, leader: ACKS_LEADER, all: ACKS_ALL }
/** How long the broker may take for the acknowledgement. */
export const ACK_TIMEOUT_MS = 30_000
export const DEFAULT_PENDING_BYTES = 16 * MIB
export const DEFAULT_BATCH_BYTES = 128 * KIB

interface Batch {
  readonly topic: string
  readonly records: Outgoing[]
  bytes: number
}

/**
 * Gathers records of a topic into one request, and bounds what is not acknowledged yet. Requests are sent without waiting for each
 * other, in order. A record whose request was lost with its connection is rejected: whether it was stored is not known.
 */
export class BatchingProducer implements Producer {
  readonly #link: Link
  readonly #clock: Clock
  readonly #acks: number
  readonly #lingerMs: number
  readonly #batchBytes: number
  readonly #onClose: () => void
  readonly #batches = new Map<string, Batch>()
  readonly #window: SendWindow
  readonly #path: SendPath
  readonly #signal: AbortSignal | undefined
  readonly #onAbort = () => this.#giveUp()
  /** Sent, and not answered. */
  readonly #underWay = new Set<readonly Outgoing[]>()
  #timer: Timer | null = null
  #deferred = false
  #closing: Promise<void> | null = null
  #isGivenUp = false

  constructor(deps: { link: Link; clock: Clock }, options: ProducerOptions, onClose: () => void) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#acks = ACKS[options.acks ?? 'leader']
    this.#lingerMs = options.lingerMs ?? 0
    this.#batchBytes = options.batchBytes ?? DEFAULT_BATCH_BYTES
    this.#window = new SendWindow(options.maxPendingBytes ?? DEFAULT_PENDING_BYTES)
    this.#onClose = onClose
    this.#path = {
      window: this.#window,
      link: this.#link,
      listeners: new AbortListeners(),
      add: (topic, outgoing) => this.#add(topic, outgoing),
      withdraw: () => this.#withdraw(),
    }
    this.#signal = options.signal
    this.#signal?.addEventListener('abort', this.#onAbort, { once: true })
    this.#isGivenUp = this.#signal?.aborted === true
  }

  async send(topic: string, record: RecordToSend, { signal }: RequestControl = {}): Promise<Acked> {
    if (this.#isGivenUp) throw new MoonMQError('ABORTED')
    if (this.#closing !== null) throw new MoonMQError('CLOSED', { what: 'the producer' })
    return await sendThrough(this.#path, topic, record, signal)
  }

  async sendMany(topic: string, records: readonly RecordToSend[], control?: RequestControl): Promise<readonly Acked[]> {
    checkList('records', records, 'give a list of records')
    return Promise.all(records.map((record) => this.send(topic, record, control)))
  }

  flush({ signal }: RequestControl = {}): Promise<void> {
    return abortable(
      this.#window.flush(() => this.#sendAll()),
      signal,
    )
  }

  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, this.#onAbort)
  }

  async #close(): Promise<void> {
    await this.flush()
    this.#timer?.cancel()
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#onClose()
  }

  /** What is not acknowledged is rejected; what was sent may be stored. */
  #giveUp(): void {
    this.#isGivenUp = true
    const error = new MoonMQError('ABORTED')
    this.#window.fail(error)
    for (const { records } of this.#batches.values()) for (const { acked } of records) acked.reject(error)
    this.#batches.clear()
    for (const records of this.#underWay) for (const { acked } of records) acked.reject(error)
  }

  #withdraw(): void {
    for (const batch of this.#batches.values()) {
      const left = batch.records.filter(({ isGivenUp }) => !isGivenUp)
      if (left.length === batch.records.length) continue
      batch.records.splice(0, batch.records.length, ...left)
      batch.bytes = left.reduce((sum, { bytes }) => sum + bytes, 0)
      if (left.length === 0) this.#batches.delete(batch.topic)
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #add(topic: string, waiting: Outgoing): void {
    let batch = this.#batches.get(topic)
    if (batch !== undefined && (batch.bytes + waiting.bytes > this.#limitBytes() || batch.records.length >= MAX_COUNT.batchRecords)) {
      this.#sendBatch(batch)
      batch = undefined
    }
    if (batch === undefined) {
      batch = { topic, records: [], bytes: 0 }
      this.#batches.set(topic, batch)
    }
    batch.records.push(waiting)
    batch.bytes += waiting.bytes
    if (batch.bytes >= this.#batchBytes) this.#sendBatch(batch)
    else this.#schedule()
  }

  #limitBytes(): number {
    return Math.min(this.#batchBytes, (this.#link.server?.maxFrameBytes ?? MIB) - FRAME_OVERHEAD_BYTES)
  }

  #schedule(): void {
    if (this.#lingerMs > 0 && !this.#window.isFlushing) {
      this.#timer ??= this.#clock.setTimer(this.#lingerMs, () => this.#sendAll(), { keepAlive: true })
      return
    }
    if (this.#deferred) return
    this.#deferred = true
    this.#clock.defer(() => {
      this.#deferred = false
      this.#sendAll()
    })
  }

  #sendAll(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const batch of [...this.#batches.values()]) this.#sendBatch(batch)
  }

  #sendBatch(batch: Batch): void {
    this.#batches.delete(batch.topic)
    const { topic, records } = batch
    const message: Message<'SEND'> = {
      acks: this.#acks,
      codec: 0,
      timeoutMs: ACK_TIMEOUT_MS,
      topic,
      records: records.map(({ record }) => record),
    }
    const options = this.#link.optionsOf({ sizeHint: batch.bytes + FRAME_OVERHEAD_BYTES })
    const exchange = (connection: ClientConnection) =>
      connection.server.extended
        ? connection.request('SEND', message, 'SENT', options)
        : sendPlain(connection, topic, message.records, options)
    const found = this.#link.connection()
    const sending = found instanceof Promise ? found.then(exchange) : exchange(found)
    this.#underWay.add(records)
    sending
      .finally(() => this.#underWay.delete(records))
      .then(
        (sent) => settle(records, sent),
        (error: unknown) => {
          for (const { acked } of records) acked.reject(asMoonMQError(error))
        },
      )
  }
}

function settle(records: readonly Outgoing[], sent: Message<'SENT'>): void {
  for (const [index, { acked }] of records.entries()) {
    const result = sent.results[index]
    if (result === undefined) {
      acked.reject(new MoonMQError('BAD_PROTOCOL', { reason: 'an answer with fewer results than records' }))
      continue
    }
    const error = result.error === 0 ? undefined : sent.errors[result.error - 1]
    if (result.error === 0) acked.resolve({ partition: result.partition, offset: result.offset })
    else acked.reject(error === undefined ? new MoonMQError('BAD_PROTOCOL', { reason: 'a result with an unknown error' }) : fromWire(error))
  }
}
