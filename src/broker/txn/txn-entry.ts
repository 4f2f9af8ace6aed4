import type { Clock, Timer } from '../../core/clock.ts'
import { type Deferred, deferred } from '../../core/deferred.ts'
import type { MoonMQError } from '../../core/errors.ts'
import type { Transaction } from './transaction.ts'

/** The session that speaks for a producer name of the native protocol. It is told when that is over. */
export interface NameHolder {
  /** Wall clock of its last request. */
  readonly usedAtMs: number
  /** `taken`: another session has the name. `timeout`: its transaction was aborted. `lost`: likewise, or it is unknown what became of it. */
  over(why: 'taken' | 'timeout' | 'lost'): void
}

/** A transactional id as its shard holds it, with who waits for the end of its transaction. */
export class TxnEntry {
  readonly id: string
  txn: Transaction
  /** Everything that the log holds of the id is below this offset. */
  endOffset: number
  /** Of a native name: who has it now. */
  holder: NameHolder | null = null
  /** Of a native name: wall clock of the last request of a session that has ended. */
  usedAtMs = 0
  #waiting: Deferred<void>[] = []
  #timer: Timer | null = null

  constructor(id: string, txn: Transaction, endOffset: number) {
    this.id = id
    this.txn = txn
    this.endOffset = endOffset
  }

  /** From here on this session, or nobody, speaks for the name. */
  holdBy(holder: NameHolder | null): void {
    const before = this.holder
    if (before === holder) return
    this.holder = holder
    if (before === null) return
    this.usedAtMs = Math.max(this.usedAtMs, before.usedAtMs)
    before.over('taken')
  }

  /** The session ends by itself. */
  releasedBy(holder: NameHolder): void {
    if (this.holder !== holder) return
    this.holder = null
    this.usedAtMs = Math.max(this.usedAtMs, holder.usedAtMs)
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
    this.holder?.over('lost')
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
