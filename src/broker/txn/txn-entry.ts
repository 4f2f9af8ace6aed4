import type { Clock, Timer } from '../../core/clock.ts'
import { type Deferred, deferred } from '../../core/deferred.ts'
import type { MoonMQError } from '../../core/errors.ts'
import type { Transaction } from './transaction.ts'

/** A transactional id as its shard holds it, with who waits for the end of its transaction. */
export class TxnEntry {
  readonly id: string
  txn: Transaction
  /** Everything that the log holds of the id is below this offset. */
  endOffset: number
  #waiting: Deferred<void>[] = []
  #timer: Timer | null = null

  constructor(id: string, txn: Transaction, endOffset: number) {
    this.id = id
    this.txn = txn
    this.endOffset = endOffset
  }

  /** Resolves when the end that is under way is over; rejects when the shard fails first. */
  whenEnded(): Promise<void> {
    const waiting = deferred()
    this.#waiting.push(waiting)
    return waiting.promise
  }

  ended(): void {
    for (const waiting of this.#waiting.splice(0)) waiting.resolve()
  }

  /** The shard no longer holds it. */
  dropped(error: MoonMQError): void {
    this.disarm()
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error)
  }

  arm(clock: Clock, delayMs: number, fire: () => void): void {
    this.disarm()
    this.#timer = clock.setTimer(Math.max(0, delayMs), () => {
      this.#timer = null
      fire()
    })
  }

  disarm(): void {
    this.#timer?.cancel()
    this.#timer = null
  }
}
