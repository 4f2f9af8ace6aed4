import { abortable } from '../client/abortable.ts'
import type { Acked, Client, RecordToSend, Transaction, TransactionalProducer, TransactionOffset } from '../client/types.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'

/** A person thinks before COMMIT. */
const TRANSACTION_TIMEOUT_MS = 10 * 60_000

interface Parts {
  readonly producer: TransactionalProducer
  readonly decided: Deferred<void>
  readonly running: Promise<void>
  readonly stop: AbortController
}

/** A transaction between BEGIN and COMMIT or ROLLBACK: the body of the client's transaction waits for the person. Owns the producer. */
export class OpenTransaction {
  readonly #producer: TransactionalProducer
  readonly #transaction: Transaction
  readonly #decided: Deferred<void>
  /** Ends with the transaction; rejects with what ROLLBACK threw, or with why there can be no commit. */
  readonly #running: Promise<void>
  /** Fired when whoever waits for its beginning or its end gives it up. */
  readonly #stop: AbortController

  private constructor(parts: Parts, transaction: Transaction) {
    this.#producer = parts.producer
    this.#transaction = transaction
    this.#decided = parts.decided
    this.#running = parts.running
    this.#stop = parts.stop
  }

  /** Takes the name, which fences whoever had it, and begins. */
  static async begin(client: Client, name: string, signal: AbortSignal): Promise<OpenTransaction> {
    const stop = new AbortController()
    const giveUp = () => stop.abort()
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      if (signal.aborted) throw new MoonMQError('ABORTED')
      return await OpenTransaction.#begin(client, name, stop)
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  static async #begin(client: Client, name: string, stop: AbortController): Promise<OpenTransaction> {
    const { signal } = stop
    const producer = await client.transactionalProducer(name, { transactionTimeoutMs: TRANSACTION_TIMEOUT_MS, signal })
    const begun = deferred<Transaction>()
    const decided = deferred()
    // Nobody hears of it where the body never ran.
    decided.promise.catch(() => {})
    const running = producer.transaction(async (transaction) => {
      begun.resolve(transaction)
      await decided.promise
    })
    // Told to whoever ends it; and to BEGIN, when it never came so far.
    running.catch((error: unknown) => begun.reject(error))
    try {
      return new OpenTransaction({ producer, decided, running, stop }, await begun.promise)
    } catch (error) {
      decided.reject(error)
      await producer.close({ signal })
      throw error
    }
  }

  /** A signal only ends the waiting: the record may belong to the transaction. */
  send(topic: string, record: RecordToSend, signal: AbortSignal): Promise<Acked> {
    return abortable(this.#transaction.send(topic, record), signal)
  }

  commitOffsets(group: string, offsets: readonly TransactionOffset[]): Promise<void> {
    return this.#transaction.commitOffsets(group, offsets)
  }

  /**
   * Given up, it goes on in the background as far as it can: a commit that was asked for already may have happened
   * (TRANSACTION_OUTCOME_UNKNOWN); anything else is aborted, by the broker at the latest.
   */
  async end(commit: boolean, signal?: AbortSignal): Promise<void> {
    const giveUp = () => this.#stop.abort()
    if (signal?.aborted) giveUp()
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      await (commit ? this.#end(true) : abortable(this.#end(false), signal))
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

  async #end(commit: boolean): Promise<void> {
    const rollback = new MoonMQError('ABORTED')
    if (commit) this.#decided.resolve()
    else this.#decided.reject(rollback)
    try {
      await this.#running
    } catch (error) {
      if (error !== rollback) throw error
    } finally {
      await this.#producer.close({ signal: this.#stop.signal })
    }
  }
}
