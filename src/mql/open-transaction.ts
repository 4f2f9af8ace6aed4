import type { Acked, Client, RecordToSend, Transaction, TransactionalProducer, TransactionOffset } from '../client/types.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'

/** A person thinks before COMMIT. */
const TRANSACTION_TIMEOUT_MS = 10 * 60_000

/** A transaction between BEGIN and COMMIT or ROLLBACK: the body of the client's transaction waits for the person. Owns the producer. */
export class OpenTransaction {
  readonly #producer: TransactionalProducer
  readonly #transaction: Transaction
  readonly #decided: Deferred<void>
  /** Ends with the transaction; rejects with what ROLLBACK threw, or with why there can be no commit. */
  readonly #running: Promise<void>

  private constructor(producer: TransactionalProducer, transaction: Transaction, decided: Deferred<void>, running: Promise<void>) {
    this.#producer = producer
    this.#transaction = transaction
    this.#decided = decided
    this.#running = running
  }

  /** Takes the name, which fences whoever had it, and begins. */
  static async begin(client: Client, name: string, signal: AbortSignal): Promise<OpenTransaction> {
    const producer = await client.transactionalProducer(name, { transactionTimeoutMs: TRANSACTION_TIMEOUT_MS })
    const begun = deferred<Transaction>()
    const decided = deferred()
    const running = producer.transaction(async (transaction) => {
      begun.resolve(transaction)
      await decided.promise
    })
    // Told to whoever ends it; and to BEGIN, when it never came so far.
    running.catch((error: unknown) => begun.reject(error))
    try {
      if (signal.aborted) throw new MoonMQError('ABORTED')
      return new OpenTransaction(producer, await begun.promise, decided, running)
    } catch (error) {
      decided.reject(error)
      await producer.close()
      throw error
    }
  }

  send(topic: string, record: RecordToSend): Promise<Acked> {
    return this.#transaction.send(topic, record)
  }

  commitOffsets(group: string, offsets: readonly TransactionOffset[]): Promise<void> {
    return this.#transaction.commitOffsets(group, offsets)
  }

  async end(commit: boolean): Promise<void> {
    const rollback = new MoonMQError('ABORTED')
    if (commit) this.#decided.resolve()
    else this.#decided.reject(rollback)
    try {
      await this.#running
    } catch (error) {
      if (error !== rollback) throw error
    } finally {
      await this.#producer.close()
    }
  }
}
