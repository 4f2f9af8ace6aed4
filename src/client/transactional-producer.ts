import type { Clock } from '../core/clock.ts'
import { deferred } from '../core/deferred.ts'
import { asMoonMQError, type ErrorCode, isCode, MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import { Serial } from '../core/serial.ts'
import { MAX, MAX_COUNT } from '../wire/limits.ts'
import { ACKS_LEADER, SEND_TRANSACTIONAL } from '../wire/opcodes.ts'
import { hastened } from './abortable.ts'
import { checkList, checkText, wrong } from './arguments.ts'
import type { ClientConnection } from './connection.ts'
import { DEFAULT_DELIVERY_TIMEOUT_MS } from './idempotent-producer.ts'
import type { Identity } from './lane.ts'
import { type Link, passes } from './link.ts'
import { invalid } from './options.ts'
import { encodeFor } from './outgoing.ts'
import { DEFAULT_BATCH_BYTES, DEFAULT_PENDING_BYTES } from './producer.ts'
import { SendWindow } from './send-window.ts'
import { type SenderHost, SequencedSender } from './sequenced-sender.ts'
import type {
  Acked,
  RecordToSend,
  RequestControl,
  Transaction,
  TransactionalProducer,
  TransactionalProducerOptions,
  TransactionOffset,
} from './types.ts'

/** How long the broker may take for the markers, beyond a usual answer. */
const END_WAIT_MS = 30_000

/** Answers to END_TXN that leave no doubt: it has committed nothing. */
const REFUSED_END: ReadonlySet<ErrorCode> = new Set([
  'PRODUCER_FENCED',
  'INVALID_PRODUCER_EPOCH',
  'INVALID_TXN_STATE',
  'TRANSACTION_TIMED_OUT',
])

interface Deps {
  readonly link: Link
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
}

/**
 * The producer of a name, on a connection of its own: the broker aborts a transaction whose connection is lost. Only the end of one is
 * asked for again over another connection, under the identity that the producer had, so that its outcome is known.
 */
export class NamedProducer implements TransactionalProducer, SenderHost {
  readonly name: string
  readonly #deps: Deps
  readonly #link: Link
  readonly #options: TransactionalProducerOptions
  readonly #window: SendWindow
  readonly #sender: SequencedSender
  readonly #onClose: () => void
  readonly #queue = new Serial()
  #identity: Identity | null = null
  /** That of the identity; the transaction that is open lives on it. */
  #connection: ClientConnection | null = null
  #running: RunningTransaction | null = null
  /** Another client has the name. */
  #fenced: MoonMQError | null = null
  #closing: Promise<void> | null = null

  constructor(deps: Deps, name: string, options: TransactionalProducerOptions, onClose: () => void) {
    if (Buffer.byteLength(name) > MAX.producerName) throw invalid(`the name of a producer has at most ${MAX.producerName} bytes`)
    this.name = name
    this.#deps = deps
    this.#link = deps.link
    this.#options = options
    this.#onClose = onClose
    this.#window = new SendWindow(options.maxPendingBytes ?? DEFAULT_PENDING_BYTES)
    this.#sender = new SequencedSender(
      { ...deps, host: this },
      {
        flags: SEND_TRANSACTIONAL,
        acks: ACKS_LEADER,
        lingerMs: options.lingerMs ?? 0,
        batchBytes: options.batchBytes ?? DEFAULT_BATCH_BYTES,
        deliveryTimeoutMs: options.deliveryTimeoutMs ?? DEFAULT_DELIVERY_TIMEOUT_MS,
      },
    )
  }

  /** Takes the name. */
  async open(): Promise<void> {
    await this.#take(null, this.#options.signal)
  }

  transaction<T>(body: (transaction: Transaction) => Promise<T>, options: { readonly signal?: AbortSignal } = {}): Promise<T> {
    if (this.#closing !== null) return Promise.reject(new MoonMQError('CLOSED', { what: 'the producer' }))
    if (typeof body !== 'function')
      return Promise.reject(wrong('the body of a transaction', body, 'give a function that takes the transaction'))
    const signals = [options.signal, this.#options.signal].filter((signal) => signal !== undefined)
    return this.#queue.run(() => this.#run(body, signals.length === 0 ? undefined : AbortSignal.any(signals)))
  }

  /** Waits for the transactions that run, then gives the name up. */
  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, () => void this.#link.close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#running?.fail(new MoonMQError('CLOSED', { what: 'the producer' }))
    await this.#queue.idle()
    await this.#link.close()
    this.#onClose()
  }

  // ---- one transaction --------------------------------------------------------------------------------------------------------

  async #run<T>(body: (transaction: Transaction) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#fenced !== null) throw this.#fenced
    if (signal?.aborted) throw new MoonMQError('ABORTED')
    await this.#begin(signal)
    const running = new RunningTransaction(this, signal)
    this.#running = running
    try {
      const result = await running.until(body(running))
      await this.#window.flush(() => this.#sender.hurry())
      running.check()
      running.isOver = true
      await this.#commit(running, signal)
      return result
    } catch (error) {
      throw await this.#abort(running, error)
    } finally {
      this.#running = null
      running.close()
    }
  }

  async #begin(signal: AbortSignal | undefined): Promise<void> {
    await this.#link.retrying(async () => {
      if (this.#connection?.open !== true) await this.#take(null, signal)
      const connection = this.#connection as ClientConnection | null
      if (connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'it was lost again' })
      try {
        await this.#noted(connection.request('BEGIN_TXN', {}, 'OK', this.#link.optionsOf({ signal })))
      } catch (error) {
        // It may have begun, and nobody would end it: opening the name again does.
        this.#connection = null
        throw error
      }
    }, signal)
  }

  /** Opens the name, or goes on with the identity given. */
  async #take(had: Identity | null, signal: AbortSignal | undefined): Promise<void> {
    const connection = await this.#link.connected(signal)
    const message = {
      name: this.name,
      transactionTimeoutMs: this.#options.transactionTimeoutMs ?? 0,
      ...(had ?? { producerId: -1, producerEpoch: 0 }),
    }
    const open = () => connection.request('OPEN_PRODUCER', message, 'PRODUCER_OPENED', this.#link.optionsOf({ signal }))
    this.#identity = await this.#noted(this.#link.retrying(open, signal))
    this.#connection = connection
    if (had === null) this.#sender.reset()
  }

  /** Asked for again, over other connections too, until its outcome is known. */
  async #commit(running: RunningTransaction, signal: AbortSignal | undefined): Promise<void> {
    const options = this.#link.optionsOf({ waitMs: END_WAIT_MS, signal })
    // A request was not answered, or not by a refusal: it may have committed all the same.
    let isUnclear = false
    try {
      await this.#link.retrying(async () => {
        if (signal?.aborted) throw new MoonMQError('ABORTED')
        if (this.#connection?.open !== true) await this.#take(this.#identity, signal)
        const connection = this.#connection
        if (connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'it was lost again' })
        running.isEndAsked = true
        try {
          await this.#noted(connection.request('END_TXN', { commit: 1 }, 'OK', options))
        } catch (error) {
          isUnclear ||= !REFUSED_END.has(asMoonMQError(error).code)
          throw error
        }
      }, signal)
    } catch (cause) {
      const error = asMoonMQError(cause)
      if (error.code === 'TRANSACTION_TIMED_OUT') throw error
      if (error.code === 'INVALID_TXN_STATE') throw new MoonMQError('TRANSACTION_ABORTED', { reason: error.message }, error)
      // Nobody asked for the commit, or the answer was no.
      if (!running.isEndAsked || (!isUnclear && this.#fenced !== null)) throw error
      throw new MoonMQError('TRANSACTION_OUTCOME_UNKNOWN', { reason: error.message }, error)
    }
  }

  /** Ends what cannot be committed; what is to be thrown. */
  async #abort(running: RunningTransaction, cause: unknown): Promise<unknown> {
    const error = running.failure ?? cause
    running.fail(asMoonMQError(error))
    this.#sender.fail(asMoonMQError(error))
    await this.#window.flush(() => {})
    // Once its end was asked for it is over, or ended by opening the name again; else it is ended here, before the next begins.
    const connection = this.#connection
    try {
      if (connection?.open === true && !running.isEndAsked) {
        await connection.request('END_TXN', { commit: 0 }, 'OK', this.#link.optionsOf({ waitMs: END_WAIT_MS }))
      }
    } catch (refusal) {
      this.#deps.log.debug('client.abort_failed', `the transaction of "${this.name}" is aborted by the broker: ${String(refusal)}`)
    }
    // Numbers of what failed are not known: the next transaction begins with others.
    this.#connection = null
    return error
  }

  async #noted<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      if (isCode(error, 'PRODUCER_FENCED') || isCode(error, 'INVALID_PRODUCER_EPOCH')) this.#fenced = asMoonMQError(error)
      throw error
    }
  }

  async sendIn(running: RunningTransaction, topic: string, record: RecordToSend): Promise<Acked> {
    running.check()
    try {
      const encoded = encodeFor(this.#link, topic, record)
      return await this.#window.run(encoded.bytes, () => {
        running.check()
        const acked = deferred<Acked>()
        this.#sender.add(topic, encoded.record, { ...encoded, acked, isGivenUp: false })
        return acked.promise
      })
    } catch (error) {
      running.fail(asMoonMQError(error))
      throw error
    }
  }

  async commitOffsetsIn(running: RunningTransaction, group: string, offsets: readonly TransactionOffset[]): Promise<void> {
    running.check()
    try {
      checkText('group', group, 'give the name of the group as a text')
      checkList('offsets', offsets, 'give a list, such as [{ topic: "orders", partition: 0, offset: 1 }]')
      for (let at = 0; at < offsets.length; at += MAX_COUNT.txnOffsets) {
        const connection = this.#connection
        if (connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'it was lost in a transaction' })
        const message = { group, offsets: offsets.slice(at, at + MAX_COUNT.txnOffsets) }
        const ask = () => connection.request('TXN_OFFSET_COMMIT', message, 'OK', this.#link.optionsOf({}))
        await this.#noted(connection.open ? this.#link.retrying(ask, running.signal) : ask())
      }
    } catch (error) {
      running.fail(asMoonMQError(error))
      throw error
    }
  }

  // ---- what the sender asks ---------------------------------------------------------------------------------------------------

  get isFlushing(): boolean {
    return this.#window.isFlushing
  }

  identity(): Promise<Identity> {
    if (this.#identity === null) return Promise.reject(new MoonMQError('NO_PRODUCER_ID'))
    return Promise.resolve(this.#identity)
  }

  renew(): Promise<Identity> {
    return Promise.reject(new MoonMQError('INVALID_TXN_STATE', { reason: 'records of the transaction are lost: it can only be aborted' }))
  }

  check(connection: ClientConnection): void {
    if (connection !== this.#connection) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'it was lost in a transaction' })
  }

  isOver(error: MoonMQError): boolean {
    return this.#connection?.open !== true || !(passes(error) || error.retriable || isCode(error, 'OUT_OF_ORDER_SEQUENCE'))
  }
}

/** What the body of a transaction is given. */
class RunningTransaction implements Transaction {
  readonly #producer: NamedProducer
  readonly #over = new AbortController()
  readonly #failed = deferred<never>()
  readonly #outer: AbortSignal | undefined
  readonly #onAbort = () => this.fail(new MoonMQError('ABORTED'))
  failure: MoonMQError | null = null
  /** Its body has returned: nothing more belongs to it. */
  isOver = false
  /** The broker was asked to commit it. */
  isEndAsked = false

  constructor(producer: NamedProducer, signal: AbortSignal | undefined) {
    this.#producer = producer
    this.#outer = signal
    // Who only waits for the body hears of it there.
    this.#failed.promise.catch(() => {})
    signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#over.signal
  }

  send(topic: string, record: RecordToSend): Promise<Acked> {
    return this.#owned(this.#producer.sendIn(this, topic, record))
  }

  sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]> {
    return this.#owned(Promise.all(records.map((record) => this.send(topic, record))))
  }

  commitOffsets(group: string, offsets: readonly TransactionOffset[]): Promise<void> {
    return this.#owned(this.#producer.commitOffsetsIn(this, group, offsets))
  }

  /** A body need not wait for it: `transaction` tells its failure. Not so when it comes too late to fail anything. */
  #owned<T>(work: Promise<T>): Promise<T> {
    if (!this.isOver || this.failure !== null) work.catch(() => {})
    return work
  }

  /** Throws when nothing more belongs to it. */
  check(): void {
    if (this.failure !== null) throw this.failure
    if (this.isOver) throw invalid('the transaction is over')
  }

  fail(error: MoonMQError): void {
    if (this.failure !== null || this.isOver) return
    this.failure = error
    this.#over.abort(error)
    this.#failed.reject(error)
  }

  /** A body that goes on after its transaction has failed is not waited for. */
  until<T>(body: Promise<T>): Promise<T> {
    body.catch(() => {})
    return Promise.race([body, this.#failed.promise])
  }

  close(): void {
    this.isOver = true
    this.#outer?.removeEventListener('abort', this.#onAbort)
  }
}
