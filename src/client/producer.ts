import type { Clock, Timer } from '../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { KIB, MIB } from '../core/limits.ts'
import { fromWire } from '../wire/errors.ts'
import { MAX_COUNT } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { ACKS_ALL, ACKS_LEADER, ACKS_NONE } from '../wire/opcodes.ts'
import type { ClientConnection } from './connection.ts'
import type { Link } from './link.ts'
import { type Outgoing, sendThrough } from './outgoing.ts'
import { FRAME_OVERHEAD_BYTES } from './records.ts'
import { SendWindow } from './send-window.ts'
import type { Acked, ProduceAcks, Producer, ProducerOptions, RecordToSend } from './types.ts'
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
  #timer: Timer | null = null
  #deferred = false
  #closed = false

  constructor(deps: { link: Link; clock: Clock }, options: ProducerOptions, onClose: () => void) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#acks = ACKS[options.acks ?? 'leader']
    this.#lingerMs = options.lingerMs ?? 0
    this.#batchBytes = options.batchBytes ?? DEFAULT_BATCH_BYTES
    this.#window = new SendWindow(options.maxPendingBytes ?? DEFAULT_PENDING_BYTES)
    this.#onClose = onClose
  }

  async send(topic: string, record: RecordToSend): Promise<Acked> {
    if (this.#closed) throw new MoonMQError('CLOSED', { what: 'the producer' })
    return await sendThrough({ window: this.#window, link: this.#link }, record, (outgoing) => this.#add(topic, outgoing))
  }

  async sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]> {
    return Promise.all(records.map((record) => this.send(topic, record)))
  }

  flush(): Promise<void> {
    return this.#window.flush(() => this.#sendAll())
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.flush()
    this.#timer?.cancel()
    this.#onClose()
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
    if (this.#lingerMs > 0) {
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
    sending.then(
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
