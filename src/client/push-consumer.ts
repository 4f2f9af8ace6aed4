import { type Clock, withDeadline } from '../core/clock.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { asMoonMQError, isCode, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import { cutUtf8 } from '../core/text.ts'
import { fromWire } from '../wire/errors.ts'
import { decodePayload } from '../wire/frame.ts'
import { MAX } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { FATE_AGAIN, FATE_REFUSED, ISOLATION_READ_COMMITTED, START_COMMITTED } from '../wire/opcodes.ts'
import { readRecordBytes } from '../wire/records.ts'
import { abortable, eitherSignal, hastened } from './abortable.ts'
import { describe } from './admin.ts'
import { checkText } from './arguments.ts'
import type { ClientConnection } from './connection.ts'
import { type Link, passes } from './link.ts'
import { invalid } from './options.ts'
import { PushMembership } from './push-membership.ts'
import { type DoneRange, type PushPart, PushProgress } from './push-progress.ts'
import { type Place, placeOf } from './topic-cursor.ts'
import type { AssignedPartitions, NackResult, PushConsumer, PushConsumerOptions, PushedRecord, RequestControl } from './types.ts'

const DEFAULT_BYTES = 4 * MIB
const DEFAULT_RECORDS = 10_000
/** How long an `ack` waits for another connection, beyond a usual answer. */
const ACK_WAIT_MS = 30_000
const COMES_AGAIN: NackResult = { deadLettered: false, attempts: 0, deadLetterTopic: '' }

interface Waiting {
  readonly record: PushedRecord
  readonly part: PushPart
  readonly bytes: number
}

/** Who hears when it is stored that a record is done. */
interface Acking {
  readonly part: PushPart
  readonly offset: number
  readonly told: Deferred<void>
}

/**
 * Records as the broker pushes them, as far as there is credit: given back when the loop takes a record. What the loop is done with is
 * answered for in the background, one request at a time. After a broken connection the stream goes on at the first record that is not done.
 */
export class StreamConsumer implements PushConsumer {
  readonly #link: Link
  readonly #clock: Clock
  readonly #options: PushConsumerOptions
  readonly #onClose: () => void
  readonly #progress = new PushProgress()
  /** Null: it reads every partition, whoever else does. */
  readonly #membership: PushMembership | null
  readonly #creditBytes: number
  readonly #creditRecords: number
  /** That of the stream, once the broker has said yes to it. */
  #connection: ClientConnection | null = null
  #opening: Promise<void> | null = null
  #queue: Waiting[] = []
  #wake: (() => void) | null = null
  /** Taken and not given back as credit yet, to the connection that it was taken from. */
  #taken = { connection: null as ClientConnection | null, records: 0, bytes: 0 }
  #settling: Promise<void> | null = null
  /** What SETTLE under way answers for. */
  #underWay: readonly DoneRange[] = []
  #acking: Acking[] = []
  #failure: MoonMQError | null = null
  #started = false
  #closing: Promise<void> | null = null

  constructor(deps: { readonly link: Link; readonly clock: Clock }, options: PushConsumerOptions, onClose: () => void) {
    const { link, clock } = deps
    this.#link = link
    this.#clock = clock
    this.#options = options
    this.#onClose = onClose
    this.#creditBytes = Math.max(1, options.maxBytes ?? DEFAULT_BYTES)
    this.#creditRecords = Math.max(1, options.maxRecords ?? DEFAULT_RECORDS)
    const isMember = options.member !== false && options.group !== '' && (options.from ?? 'committed') === 'committed'
    const host = {
      progress: this.#progress,
      revoked: (parts: readonly PushPart[]) => this.#unqueue(parts),
      stored: (part: PushPart) => this.#confirm((each) => each.part === part && each.offset < part.stored),
      gone: (part: PushPart, error: MoonMQError) => this.#refuse((each) => each.part === part, error),
      failed: (error: MoonMQError) => this.#fail(error),
    }
    this.#membership = isMember ? new PushMembership({ link, clock, host }, options) : null
  }

  get memberId(): string {
    return this.#membership?.memberId ?? ''
  }

  get assignment(): readonly AssignedPartitions[] {
    return this.#membership?.assignment ?? []
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<PushedRecord> {
    if (this.#started) throw invalid('a consumer is read once')
    this.#started = true
    const { signal } = this.#options
    const onAbort = () => this.#resume()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      for (;;) {
        const { record, part } = await this.#next()
        yield record
        if ((this.#options.commit ?? 'after') === 'after') this.#done(part, record.offset)
        if (this.#failure !== null) throw this.#failure
      }
    } catch (error) {
      // Closing it is how its owner ends the loop from elsewhere, also one that is still joining.
      const isEnded = isCode(error, 'CLOSED') || (isCode(error, 'ABORTED') && signal?.aborted !== true)
      if (!(isEnded && (this.#closing !== null || this.#link.signal.aborted))) throw error
    } finally {
      signal?.removeEventListener('abort', onAbort)
      await this.close()
    }
  }

  /** Answers for what is done, leaves the group, then ends. */
  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, () => void this.#link.close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    try {
      while (this.#settling !== null) await this.#settling
      if (this.#failure !== null) throw this.#failure
      const membership = this.#membership
      if (this.#progress.isUnsure)
        await this.#link.retrying(
          async () => (membership === null ? this.#storePositions() : membership.begin()),
          undefined,
          (error) => this.#mayGoOn(error),
        )
      await membership?.end()
    } finally {
      this.#queue = []
      const closing = this.#link.close()
      this.#resume()
      await closing
      this.#refuse(() => true, new MoonMQError('CLOSED', { what: 'the consumer' }))
      this.#onClose()
    }
  }

  async #next(): Promise<Waiting> {
    for (;;) {
      if (this.#options.signal?.aborted) throw new MoonMQError('ABORTED')
      if (this.#link.signal.aborted) throw new MoonMQError('CLOSED', { what: 'the client' })
      if (this.#failure !== null) throw this.#failure
      const waiting = this.#queue.shift()
      if (waiting !== undefined) {
        this.#giveBack(waiting.bytes)
        waiting.part.take(waiting.record.offset)
        return waiting
      }
      if (this.#connection?.open !== true) await this.#reopen()
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

  #fail(error: MoonMQError): void {
    this.#failure ??= error
    this.#refuse(() => true, error)
    this.#resume()
  }

  // ---- the stream -------------------------------------------------------------------------------------------------------------

  #reopen(): Promise<void> {
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  /** The stream, from where it is: begins at the group's offsets, or goes on. Throws what does not pass by itself. */
  async #open(): Promise<void> {
    const reason = this.#connection?.failure ?? null
    if (reason !== null && !this.#mayGoOn(reason)) throw reason
    await this.#findEnds()
    await this.#link.retrying(
      async () => {
        const membership = this.#membership
        this.#queue = []
        this.#progress.restart()
        const connection = membership === null ? await this.#link.connected(this.#options.signal) : await membership.begin()
        this.#taken = { connection, records: 0, bytes: 0 }
        connection.onPush = (name, payload) => {
          if (name === 'STREAMED') this.#pushed(payload)
          else membership?.pushed(name, payload)
        }
        void connection.gone.then(() => this.#lost())
        const { group, topics, isolation, signal } = this.#options
        const positions = membership === null ? this.#positionsByTopic() : NO_POSITIONS
        const message = {
          group,
          isolation: isolation === 'read_committed' ? ISOLATION_READ_COMMITTED : 0,
          records: this.#creditRecords,
          bytes: this.#creditBytes,
          topics: topics.map((topic) => ({ topic, ...startOf(this.#options), positions: positions.get(topic) ?? [] })),
        }
        await connection.request('STREAM', message, 'OK', this.#link.optionsOf({ signal }))
        this.#connection = connection
        if (membership !== null) membership.began()
        else if (this.#progress.isUnsure) await this.#storePositions()
      },
      this.#options.signal,
      (error) => this.#mayGoOn(error),
    )
  }

  /** A member that the broker has dropped joins again, also one that has only just joined. */
  #mayGoOn(reason: MoonMQError): boolean {
    return passes(reason) || (this.#membership !== null && reason.code === 'GROUP_MEMBER_UNKNOWN')
  }

  /** Whoever waits for an answer waits for the next connection; else it is made when the loop wants a record. */
  #lost(): void {
    this.#resume()
    if (this.#acking.length === 0 || this.#connection?.open === true || this.#link.signal.aborted) return
    this.#reopen().catch((error: unknown) => this.#refuse(() => true, asMoonMQError(error)))
  }

  #positionsByTopic(): Map<string, { partition: number; offset: number }[]> {
    const positions = new Map<string, { partition: number; offset: number }[]>()
    for (const { topic, partition, low: offset } of this.#progress.parts) {
      const places = positions.get(topic) ?? []
      places.push({ partition, offset })
      positions.set(topic, places)
    }
    return positions
  }

  /** What was answered for on a connection that broke may not have got there. */
  async #storePositions(): Promise<void> {
    this.#progress.isUnsure = false
    const lows = this.#progress.parts.map((part) => ({ part, offset: part.low }))
    const offsets = lows.map(({ part: { topic, partition }, offset }) => ({ topic, partition, offset }))
    try {
      if (offsets.length > 0) await this.#link.request('STORE_POSITIONS', { group: this.#options.group, offsets }, 'OK')
    } catch (error) {
      this.#progress.isUnsure = true
      throw error
    }
    for (const { part, offset } of lows) this.#stored(part, offset)
  }

  #stored(part: PushPart, offset: number): void {
    part.storedTo(offset)
    this.#confirm((each) => each.part === part && each.offset < offset)
  }

  /** The end is where it was at the beginning, also for who connects again. */
  async #findEnds(): Promise<void> {
    const { from, topics, signal } = this.#options
    if (from !== 'latest' || this.#connection !== null) return
    for (const topic of topics) {
      const { partitions } = await describe(this.#link, topic, signal)
      for (const { partition, highWatermark } of partitions) this.#progress.part(topic, partition, Math.max(0, highWatermark))
    }
  }

  #pushed(payload: Buffer): void {
    const { topic, partition, records } = decodePayload('STREAMED', payload)
    for (const record of records) {
      const bytes = readRecordBytes(record)
      const part = this.#progress.part(topic, partition, record.offset)
      const seen = part.isRevoked ? 'held' : part.deliver(record.offset)
      if (seen === 'new') this.#queue.push({ record: this.#recordOf(part, record), part, bytes })
      else {
        this.#giveBack(bytes)
        if (seen === 'done') this.#settleLater()
      }
    }
    this.#resume()
  }

  #recordOf(part: PushPart, record: Message<'STREAMED'>['records'][number]): PushedRecord {
    const { topic, partition } = part
    const { offset } = record
    return {
      topic,
      partition,
      ...record,
      ack: (control) => this.#ack(part, offset, control),
      nack: (reason = '', control = {}) => this.#nack(part, offset, reason, control),
    }
  }

  /** Credit, to the connection that brought it. */
  #giveBack(bytes: number): void {
    const taken = this.#taken
    taken.records++
    taken.bytes += bytes
    if (taken.records * 2 < this.#creditRecords && taken.bytes * 2 < this.#creditBytes) return
    taken.connection?.tell('CREDIT', { records: taken.records, bytes: taken.bytes })
    taken.records = 0
    taken.bytes = 0
  }

  #unqueue(parts: readonly PushPart[]): void {
    const gone = new Set(parts)
    for (const { part, bytes } of this.#queue) if (gone.has(part)) this.#giveBack(bytes)
    this.#queue = this.#queue.filter(({ part }) => !gone.has(part))
  }

  // ---- answers ----------------------------------------------------------------------------------------------------------------

  /** False when it was answered for before. */
  #done(part: PushPart, offset: number): boolean {
    if (!part.done(offset)) return false
    if (part.isRevoked) this.#membership?.want()
    else if (!part.isGone) this.#settleLater()
    return true
  }

  async #ack(part: PushPart, offset: number, { signal }: RequestControl = {}): Promise<void> {
    const isNew = this.#done(part, offset)
    if (part.isGone) throw this.#gone()
    if (this.#failure !== null) throw this.#failure
    const isOpen = isNew || this.#progress.isUnsure || part.isDirtyAt(offset) || this.#underWay.some((each) => covers(each, part, offset))
    if (!isOpen || offset < part.stored) return
    const acking = { part, offset, told: deferred() }
    this.#acking.push(acking)
    this.#lost()
    const { timeoutMs } = this.#link.optionsOf({ waitMs: ACK_WAIT_MS })
    try {
      await withDeadline(this.#clock, timeoutMs, abortable(acking.told.promise, signal))
    } finally {
      this.#acking = this.#acking.filter((each) => each !== acking)
    }
  }

  #gone(): MoonMQError {
    return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.#options.group, member: this.memberId })
  }

  #confirm(isStored: (acking: Acking) => boolean): void {
    for (const acking of this.#acking) if (isStored(acking)) acking.told.resolve()
  }

  #refuse(isOver: (acking: Acking) => boolean, error: MoonMQError): void {
    for (const acking of this.#acking) if (isOver(acking)) acking.told.reject(error)
  }

  async #nack(part: PushPart, offset: number, reason: string, control: RequestControl): Promise<NackResult> {
    checkText('reason', reason, 'give a text, such as String(error)')
    const { topic, partition } = part
    if (part.isGone) return COMES_AGAIN
    if (!part.fail(offset)) throw invalid(`offset ${offset} of ${topic}-${partition} was answered for already`)
    try {
      if (part.isRevoked) return COMES_AGAIN
      if (this.#connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'there is none' })
      const message = { done: [], failed: [{ topic, partition, offset, reason: cutUtf8(reason, MAX.nackReason) }] }
      const signal = eitherSignal(this.#options.signal, control.signal)
      const { failed } = await this.#connection.request('SETTLE', message, 'SETTLED', this.#link.optionsOf({ signal }))
      return await this.#fated(part, offset, failed[0])
    } catch (error) {
      // It was not answered for, so it comes again on the next connection.
      if (passes(asMoonMQError(error))) return COMES_AGAIN
      throw error
    } finally {
      if (part.isRevoked) this.#membership?.want()
    }
  }

  async #fated(part: PushPart, offset: number, fate: Message<'SETTLED'>['failed'][number] | undefined): Promise<NackResult> {
    if (fate === undefined) throw new MoonMQError('BAD_PROTOCOL', { reason: 'a NACK without an answer' })
    if (fate.fate === FATE_REFUSED) {
      // A partition that was taken away meanwhile is another member's, and so is the record.
      await this.#membership?.settledDown()
      if (part.isRevoked || part.isGone) return COMES_AGAIN
      throw fromWire({ code: fate.code, message: fate.errorMessage, name: fate.errorName })
    }
    if (fate.fate !== FATE_AGAIN) part.settled(offset)
    return { deadLettered: fate.fate !== FATE_AGAIN, attempts: fate.attempts, deadLetterTopic: fate.topic }
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
      const changes = this.#membership?.changes
      this.#underWay = done
      try {
        if (this.#connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'there is none' })
        const ranges = done.map(({ part: { topic, partition }, first, last }) => ({ topic, partition, first, last }))
        const lows = new Map(done.filter(({ part }) => !part.isDirty).map(({ part }) => [part, part.low]))
        await this.#connection.request('SETTLE', { done: ranges, failed: [] }, 'SETTLED', this.#link.optionsOf({}))
        if (this.#membership?.changes === changes) {
          for (const [part, low] of lows) part.storedTo(low)
          this.#confirm(({ part, offset }) => done.some((each) => covers(each, part, offset)))
        } else {
          // The broker may have passed over a partition that it had taken away.
          for (const { part, first, last } of done) part.dirtyAgain(first, last)
          await this.#membership?.settledDown()
        }
      } catch (cause) {
        const error = asMoonMQError(cause)
        this.#progress.isUnsure = true
        if (this.#mayGoOn(error)) this.#lost()
        else this.#fail(error)
        return
      } finally {
        this.#underWay = []
      }
    }
  }
}

const NO_POSITIONS: ReadonlyMap<string, never[]> = new Map()

function covers(range: DoneRange, part: PushPart, offset: number): boolean {
  return range.part === part && range.first <= offset && offset <= range.last
}

function startOf({ from = 'committed' }: PushConsumerOptions): Place {
  return from === 'committed' ? { start: START_COMMITTED, value: 0 } : placeOf(from)
}
