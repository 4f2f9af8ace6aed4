import type { Clock, Timer } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { OffsetStore } from '../offsets/offset-store.ts'
import type { JoinedGroup, SyncedGroup } from '../ports.ts'
import type { GroupMachine, StoredPair } from './machine.ts'

/** A join or sync whose answer is not known yet. */
interface Parked {
  readonly memberId: string
  readonly kind: 'join' | 'sync'
  settle(result: JoinedGroup | SyncedGroup | MoonMQError): void
}

/** A timer that fires so much later than it was set for tells that the whole process stood still, and with it the members' heartbeats. */
const STOOD_STILL_MS = 1000
/** What members then get to be heard before their sessions are judged. */
const GRACE_MS = 1000

/** A group with its machine, offsets, parked requests and the one timer that serves all its deadlines. */
export class GroupEntry {
  readonly group: string
  /** Another one takes its place when the group goes over to another kind. */
  machine: GroupMachine
  readonly offsets: OffsetStore
  /** Keys of the records that the log holds of the group itself, besides those of its offsets, each byte a character. */
  readonly keys = new Set<string>()
  /** Wall time of the last change of state. */
  stateChangedAtMs: number
  /** Everything that the log holds of the group is below this offset. */
  endOffset = 0
  /** The last answer that waits for the disk, settled when it was given; null when none does. */
  answering: Promise<void> | null = null
  /** The machine's epoch up to which rebalances are counted. */
  countedEpoch: number
  readonly #parked = new Map<number, Parked>()
  #timer: Timer | null = null
  #timerAtMs = Number.POSITIVE_INFINITY

  constructor(machine: GroupMachine, offsets: OffsetStore, stateChangedAtMs: number) {
    this.group = machine.group
    this.machine = machine
    this.offsets = offsets
    this.stateChangedAtMs = stateChangedAtMs
    this.countedEpoch = machine.epoch
  }

  /** Nobody can tell that the group is there. */
  get forgettable(): boolean {
    return this.machine.isVacant && this.keys.size === 0 && this.offsets.size === 0
  }

  /** What the log holds of the group after these records. */
  noteStored(pairs: readonly StoredPair[]): void {
    for (const { key, value } of pairs) {
      if (value === null) this.keys.delete(key.toString('latin1'))
      else this.keys.add(key.toString('latin1'))
    }
  }

  /** Takes everything away that the log holds of the group itself. */
  tombstones(): StoredPair[] {
    return [...this.keys].map((key) => ({ key: Buffer.from(key, 'latin1'), value: null }))
  }

  /** Members, joins and syncs in waiting. */
  get parkedCount(): number {
    return this.#parked.size
  }

  /**
   * Parks a request until `take(ticket)` is settled. `onGone` is called instead when the connection goes first; the promise then
   * rejects with ABORTED.
   */
  park<T extends JoinedGroup | SyncedGroup>(
    ticket: number,
    request: { memberId: string; kind: 'join' | 'sync' },
    signal: AbortSignal,
    onGone: () => void,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        // Not there any more: the answer is on its way to a connection that will not read it.
        if (!this.#parked.delete(ticket)) return
        reject(new MoonMQError('ABORTED'))
        onGone()
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#parked.set(ticket, {
        ...request,
        settle: (result) => {
          signal.removeEventListener('abort', onAbort)
          if (result instanceof MoonMQError) reject(result)
          else resolve(result as T)
        },
      })
    })
  }

  /** Takes a parked request out, to be settled by the caller; undefined when its connection went away. */
  take(ticket: number): Parked | undefined {
    const parked = this.#parked.get(ticket)
    this.#parked.delete(ticket)
    return parked
  }

  takeAll(): Parked[] {
    const all = [...this.#parked.values()]
    this.#parked.clear()
    return all
  }

  /** Sees to it that `fire` is called at the group's next deadline. A timer that comes too early is left: it only looks again. */
  arm(clock: Clock, fire: () => void): void {
    const atMs = this.machine.nextDeadlineMs()
    if (this.#timer !== null && this.#timerAtMs <= atMs) return
    this.disarm()
    if (atMs === Number.POSITIVE_INFINITY) return
    this.#setTimer(clock, atMs, fire, true)
  }

  #setTimer(clock: Clock, atMs: number, fire: () => void, grace: boolean): void {
    this.#timerAtMs = atMs
    this.#timer = clock.setTimer(Math.ceil(atMs - clock.monotonicMs()), () => {
      const nowMs = clock.monotonicMs()
      if (grace && nowMs - atMs > STOOD_STILL_MS) {
        this.#setTimer(clock, nowMs + GRACE_MS, fire, false)
        return
      }
      this.#timer = null
      fire()
    })
  }

  disarm(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAtMs = Number.POSITIVE_INFINITY
  }
}
