import type { Clock, Timer } from '../../core/clock.ts'
import { SharePartition } from './share-partition.ts'
import { type SharePartitionId, type StoredSnapshot, stateKey } from './share-state-records.ts'
import type { DeadRange } from './share-types.ts'

/** Dead records that are to be moved. `mayRepeat`: a move of them may have come through before. */
export interface DeadWork extends DeadRange {
  readonly mayRepeat: boolean
}

/** One share partition in memory: its machine, where its state stands in the log, who waits for records of it, and its one timer. */
export class ShareEntry {
  readonly id: SharePartitionId
  readonly key: string
  machine: SharePartition
  snapshotEpoch = 0
  stateEpoch = 0
  createdAtMs: number
  /** Updates since the last snapshot. */
  updates = 0
  /** Where the last snapshot stands in the log: nothing before it is needed. −1: nothing is stored. */
  snapshotOffset = -1
  /** Everything that is stored of it is below this offset of the log. */
  endOffset = 0
  /** A read for one member is under way: another would find the same records. */
  isReading = false
  /** The log failed and it was thrown away, or its group or topic is gone: whoever holds on to it must look it up again. */
  isGone = false
  readonly dead: DeadWork[] = []
  isMoving = false
  readonly #waiters = new Set<() => void>()
  #timer: Timer | null = null
  #timerAtMs = Number.POSITIVE_INFINITY

  constructor(id: SharePartitionId, createdAtMs: number) {
    this.id = id
    this.key = stateKey(id)
    this.createdAtMs = createdAtMs
    this.machine = new SharePartition({ startOffset: -1, batches: [] })
  }

  /** Takes over a snapshot that was read back. */
  restore(snapshot: StoredSnapshot, offset: number): void {
    this.machine = new SharePartition(snapshot)
    this.snapshotEpoch = snapshot.snapshotEpoch
    this.stateEpoch = snapshot.stateEpoch
    this.createdAtMs = snapshot.createdAtMs
    this.snapshotOffset = offset
    this.updates = 0
  }

  /** Nobody has chosen yet where the group begins. */
  get isUnset(): boolean {
    return this.machine.startOffset < 0
  }

  /** Calls `wake` when there may be something to give out. Returns how to stop. */
  onAvailable(wake: () => void): () => void {
    this.#waiters.add(wake)
    return () => this.#waiters.delete(wake)
  }

  wake(): void {
    for (const wake of [...this.#waiters]) wake()
  }

  /** Sees to it that `fire` is called when the next lock ends. A timer that comes too early only looks again. */
  arm(clock: Clock, fire: () => void): void {
    const atMs = this.machine.nextDeadlineMs()
    if (this.#timer !== null && this.#timerAtMs <= atMs) return
    this.disarm()
    if (atMs === Number.POSITIVE_INFINITY) return
    this.#timerAtMs = atMs
    this.#timer = clock.setTimer(Math.ceil(atMs - clock.monotonicMs()), () => {
      this.disarm()
      fire()
    })
  }

  disarm(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAtMs = Number.POSITIVE_INFINITY
  }

  drop(): void {
    this.isGone = true
    this.disarm()
    this.wake()
  }
}
