import { asMoonMQError, isCode, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import { fromWire } from '../wire/errors.ts'
import { decodePayload } from '../wire/frame.ts'
import type { Message } from '../wire/messages.ts'
import { FATE_AGAIN, FATE_REFUSED, ISOLATION_READ_COMMITTED, type OpName, START_COMMITTED } from '../wire/opcodes.ts'
import { readRecordBytes } from '../wire/records.ts'
import { describe } from './admin.ts'
import type { ClientConnection } from './connection.ts'
import { type Link, passes } from './link.ts'
import { invalid } from './options.ts'
import { PushProgress } from './push-progress.ts'
import { type Place, placeOf } from './topic-cursor.ts'
import type { NackResult, PushConsumer, PushConsumerOptions, PushedRecord } from './types.ts'

const DEFAULT_BYTES = 4 * MIB
const DEFAULT_RECORDS = 10_000

interface Waiting {
  readonly record: PushedRecord
  readonly bytes: number
}

/**
 * Records as the broker pushes them, as far as there is credit: given back when the loop takes a record. What the loop is done with is
 * answered for in the background, one request at a time. After a broken connection the stream goes on at the first record that is not done.
 */
export class StreamConsumer implements PushConsumer {
  readonly #link: Link
  readonly #options: PushConsumerOptions
  readonly #onClose: () => void
  readonly #progress: PushProgress
  readonly #creditBytes: number
  readonly #creditRecords: number
  #connection: ClientConnection | null = null
  #queue: Waiting[] = []
  #wake: (() => void) | null = null
  /** Taken by the loop and not given back as credit yet. */
  #takenRecords = 0
  #takenBytes = 0
  #settling: Promise<void> | null = null
  #failure: MoonMQError | null = null
  #started = false
  #closing: Promise<void> | null = null

  constructor(link: Link, options: PushConsumerOptions, onClose: () => void) {
    if (options.topics.length === 0) throw invalid('a consumer needs a topic')
    this.#link = link
    this.#options = options
    this.#onClose = onClose
    this.#progress = new PushProgress()
    this.#creditBytes = Math.max(1, options.maxBytes ?? DEFAULT_BYTES)
    this.#creditRecords = Math.max(1, options.maxRecords ?? DEFAULT_RECORDS)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<PushedRecord> {
    if (this.#started) throw invalid('a consumer is read once')
    this.#started = true
    const { signal } = this.#options
    const onAbort = () => this.#resume()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      for (;;) {
        const record = await this.#next()
        yield record
        if ((this.#options.commit ?? 'after') === 'after') this.#done(record)
        if (this.#failure !== null) throw this.#failure
      }
    } catch (error) {
      if (!(isCode(error, 'CLOSED') && this.#link.signal.aborted)) throw error
    } finally {
      signal?.removeEventListener('abort', onAbort)
      await this.close()
    }
  }

  /** Answers for what is done, then ends. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    try {
      while (this.#settling !== null) await this.#settling
      if (this.#failure !== null) throw this.#failure
      if (this.#progress.isUnsure) await this.#link.retrying(() => this.#storePositions())
    } finally {
      this.#queue = []
      const closing = this.#link.close()
      this.#resume()
      await closing
      this.#onClose()
    }
  }

  async #next(): Promise<PushedRecord> {
    for (;;) {
      if (this.#options.signal?.aborted) throw new MoonMQError('ABORTED')
      if (this.#link.signal.aborted) throw new MoonMQError('CLOSED', { what: 'the client' })
      const waiting = this.#queue.shift()
      if (waiting !== undefined) {
        this.#taken(waiting.bytes)
        this.#progress.take(waiting.record)
        return waiting.record
      }
      if (this.#connection?.open !== true) await this.#open()
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }

  #resume(): void {
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }

  /** The stream, from where it is: begins at the group's offsets, or goes on. Throws what does not pass by itself. */
  async #open(): Promise<void> {
    const reason = this.#connection?.failure ?? null
    if (reason !== null && !passes(reason)) throw reason
    await this.#findEnds()
    await this.#link.retrying(async () => {
      const connection = await this.#link.connection()
      this.#queue = []
      this.#takenRecords = 0
      this.#takenBytes = 0
      const positions = this.#progress.restart()
      connection.onPush = (name, payload) => this.#pushed(name, payload)
      void connection.gone.then(() => this.#resume())
      const { group, topics, isolation, signal } = this.#options
      const message = {
        group,
        isolation: isolation === 'read_committed' ? ISOLATION_READ_COMMITTED : 0,
        records: this.#creditRecords,
        bytes: this.#creditBytes,
        topics: topics.map((topic) => ({ topic, ...startOf(this.#options), positions: positions.get(topic) ?? [] })),
      }
      await connection.request('STREAM', message, 'OK', this.#link.optionsOf({ signal }))
      this.#connection = connection
      if (this.#progress.isUnsure) await this.#storePositions()
    }, this.#options.signal)
  }

  /** What was answered for on a connection that broke may not have got there. */
  async #storePositions(): Promise<void> {
    const message = { group: this.#options.group, offsets: this.#progress.positions() }
    if (message.offsets.length > 0) await this.#link.request('STORE_POSITIONS', message, 'OK')
    this.#progress.isUnsure = false
  }

  /** The end is where it was at the beginning, also for who connects again. */
  async #findEnds(): Promise<void> {
    const { from, topics, signal } = this.#options
    if (from !== 'latest' || this.#connection !== null) return
    for (const topic of topics) {
      const { partitions } = await describe(this.#link, topic, signal)
      for (const { partition, highWatermark } of partitions) this.#progress.begin(topic, partition, Math.max(0, highWatermark))
    }
  }

  #pushed(name: OpName, payload: Buffer): void {
    if (name !== 'STREAMED') return
    const { topic, partition, records } = decodePayload('STREAMED', payload)
    for (const record of records) {
      const bytes = readRecordBytes(record)
      const seen = this.#progress.deliver(topic, partition, record.offset)
      if (seen === 'new') this.#queue.push({ record: this.#recordOf(topic, partition, record), bytes })
      else {
        this.#taken(bytes)
        if (seen === 'done') this.#settleLater()
      }
    }
    this.#resume()
  }

  #recordOf(topic: string, partition: number, record: Message<'STREAMED'>['records'][number]): PushedRecord {
    const pushed: PushedRecord = {
      topic,
      partition,
      ...record,
      ack: () => this.#ack(pushed),
      nack: (reason = '') => this.#nack(pushed, reason),
    }
    return pushed
  }

  #taken(bytes: number): void {
    this.#takenRecords++
    this.#takenBytes += bytes
    if (this.#takenRecords * 2 < this.#creditRecords && this.#takenBytes * 2 < this.#creditBytes) return
    this.#connection?.tell('CREDIT', { records: this.#takenRecords, bytes: this.#takenBytes })
    this.#takenRecords = 0
    this.#takenBytes = 0
  }

  #done(record: PushedRecord): void {
    if (this.#progress.done(record)) this.#settleLater()
  }

  async #ack(record: PushedRecord): Promise<void> {
    this.#done(record)
    while (this.#settling !== null && this.#progress.isDirty(record)) await this.#settling
    if (this.#failure !== null) throw this.#failure
  }

  async #nack(record: PushedRecord, reason: string): Promise<NackResult> {
    const { topic, partition, offset } = record
    if (!this.#progress.fail(record)) throw invalid(`offset ${offset} of ${topic}-${partition} was answered for already`)
    try {
      if (this.#connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'there is none' })
      const message = { done: [], failed: [{ topic, partition, offset, reason }] }
      const { failed } = await this.#connection.request(
        'SETTLE',
        message,
        'SETTLED',
        this.#link.optionsOf({ signal: this.#options.signal }),
      )
      const fate = failed[0]
      if (fate === undefined) throw new MoonMQError('BAD_PROTOCOL', { reason: 'a NACK without an answer' })
      if (fate.fate === FATE_REFUSED) throw fromWire({ code: fate.code, message: fate.errorMessage, name: fate.errorName })
      if (fate.fate !== FATE_AGAIN) this.#progress.settled(record)
      return { deadLettered: fate.fate !== FATE_AGAIN, attempts: fate.attempts, deadLetterTopic: fate.topic }
    } catch (error) {
      // It was not answered for, so it comes again on the next connection.
      if (passes(asMoonMQError(error))) return { deadLettered: false, attempts: 0, deadLetterTopic: '' }
      throw error
    }
  }

  #settleLater(): void {
    this.#settling ??= this.#settleDirty().finally(() => {
      this.#settling = null
      this.#resume()
    })
  }

  /** Runs until everything is answered for. Never rejects: the loop and `close` tell the failure. */
  async #settleDirty(): Promise<void> {
    // What the loop is done with within one turn travels together.
    await Promise.resolve()
    for (let done = this.#progress.takeDirty(); done.length > 0; done = this.#progress.takeDirty()) {
      try {
        if (this.#connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'there is none' })
        await this.#connection.request('SETTLE', { done, failed: [] }, 'SETTLED', this.#link.optionsOf({}))
      } catch (cause) {
        const error = asMoonMQError(cause)
        this.#progress.isUnsure = true
        if (!passes(error)) this.#failure ??= error
        return
      }
    }
  }
}

function startOf({ from = 'committed' }: PushConsumerOptions): Place {
  return from === 'committed' ? { start: START_COMMITTED, value: 0 } : placeOf(from)
}
