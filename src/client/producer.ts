import type { Clock, Timer } from '../core/clock.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { KIB, MIB } from '../core/limits.ts'
import { fromWire } from '../wire/errors.ts'
import { MAX_COUNT } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { ACKS_ALL, ACKS_LEADER, ACKS_NONE, ANY_PARTITION } from '../wire/opcodes.ts'
import type { SendRecord } from '../wire/records.ts'
import type { ClientConnection } from './connection.ts'
import type { Link } from './link.ts'
import { invalid } from './options.ts'
import type { Acked, Bytes, ProduceAcks, Producer, ProducerOptions, RecordToSend } from './types.ts'
import { sendPlain } from './version-1.ts'

const ACKS: Readonly<Record<ProduceAcks, number>> = { none: ACKS_NONE, leader: ACKS_LEADER, all: ACKS_ALL }
/** What a record and a frame take besides their bytes, at most. */
const RECORD_OVERHEAD_BYTES = 16
const FRAME_OVERHEAD_BYTES = 512
/** How long the broker may take for the acknowledgement. */
const ACK_TIMEOUT_MS = 30_000

interface Waiting {
  readonly record: SendRecord
  readonly bytes: number
  readonly generation: number
  readonly acked: Deferred<Acked>
}

interface Batch {
  readonly topic: string
  readonly records: Waiting[]
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
  readonly #maxPendingBytes: number
  readonly #onClose: () => void
  readonly #batches = new Map<string, Batch>()
  /** Sends that wait for room, in order. */
  readonly #queue: { readonly bytes: number; readonly go: Deferred<void> }[] = []
  /** Records by the flush that will wait for them. */
  readonly #open = new Map<number, number>()
  #flushes: { readonly generation: number; readonly done: Deferred<void> }[] = []
  #generation = 0
  #pendingBytes = 0
  #timer: Timer | null = null
  #deferred = false
  #closed = false

  constructor(deps: { link: Link; clock: Clock }, options: ProducerOptions, onClose: () => void) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#acks = ACKS[options.acks ?? 'leader']
    this.#lingerMs = options.lingerMs ?? 0
    this.#batchBytes = options.batchBytes ?? 128 * KIB
    this.#maxPendingBytes = options.maxPendingBytes ?? 16 * MIB
    this.#onClose = onClose
  }

  async send(topic: string, record: RecordToSend): Promise<Acked> {
    if (this.#closed) throw new MoonMQError('CLOSED', { what: 'the producer' })
    const encoded = encode(record)
    const bytes = sizeOf(encoded)
    this.#checkSize(bytes)
    const generation = this.#generation
    this.#opened(generation)
    try {
      if (this.#queue.length > 0 || (this.#pendingBytes > 0 && this.#pendingBytes + bytes > this.#maxPendingBytes)) {
        const go = deferred()
        this.#queue.push({ bytes, go })
        await go.promise
      } else this.#pendingBytes += bytes
      const acked = deferred<Acked>()
      try {
        this.#add(topic, { record: encoded, bytes, generation, acked })
        return await acked.promise
      } finally {
        this.#pendingBytes -= bytes
        this.#admit()
      }
    } finally {
      this.#settled(generation)
    }
  }

  async sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]> {
    return Promise.all(records.map((record) => this.send(topic, record)))
  }

  async flush(): Promise<void> {
    const generation = this.#generation++
    this.#sendAll()
    if (!this.#isOpen(generation)) return
    const done = deferred()
    this.#flushes.push({ generation, done })
    await done.promise
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

  #checkSize(bytes: number): void {
    const limit = (this.#link.server?.maxFrameBytes ?? MIB) - FRAME_OVERHEAD_BYTES
    if (bytes > limit)
      throw MoonMQError.withText('RECORD_TOO_LARGE', `a record of ${bytes} bytes exceeds the broker's limit of ${limit} bytes`)
  }

  #add(topic: string, waiting: Waiting): void {
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

  /** Lets those in that there is room for; one always fits when nothing is pending. */
  #admit(): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      if (this.#pendingBytes > 0 && this.#pendingBytes + first.bytes > this.#maxPendingBytes) return
      this.#queue.shift()
      this.#pendingBytes += first.bytes
      first.go.resolve()
    }
  }

  #opened(generation: number): void {
    this.#open.set(generation, (this.#open.get(generation) ?? 0) + 1)
  }

  #settled(generation: number): void {
    const left = (this.#open.get(generation) ?? 1) - 1
    if (left > 0) {
      this.#open.set(generation, left)
      return
    }
    this.#open.delete(generation)
    this.#flushes = this.#flushes.filter((flush) => {
      if (this.#isOpen(flush.generation)) return true
      flush.done.resolve()
      return false
    })
  }

  #isOpen(upTo: number): boolean {
    for (const generation of this.#open.keys()) if (generation <= upTo) return true
    return false
  }
}

function settle(records: readonly Waiting[], sent: Message<'SENT'>): void {
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

function encode(record: RecordToSend): SendRecord {
  const { partition } = record
  if (partition !== undefined && (!Number.isInteger(partition) || partition < 0))
    throw invalid(`partition ${partition} is not a number from 0`)
  return {
    partition: partition ?? ANY_PARTITION,
    key: buffer(record.key ?? null),
    value: buffer(record.value),
    headers: (record.headers ?? []).map(({ key, value }) => ({ key, value: buffer(value) })),
  }
}

function buffer(value: Bytes | null): Buffer | null {
  if (value === null) return null
  if (typeof value === 'string') return Buffer.from(value)
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}

function sizeOf(record: SendRecord): number {
  let bytes = RECORD_OVERHEAD_BYTES + (record.key?.length ?? 0) + (record.value?.length ?? 0)
  for (const { key, value } of record.headers) bytes += 8 + Buffer.byteLength(key) + (value?.length ?? 0)
  return bytes
}
