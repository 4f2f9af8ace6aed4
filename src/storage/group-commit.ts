import type { Clock, Timer } from '../core/clock.ts'
import { type Counter, type Histogram, type Metrics, NO_METRICS } from '../core/counters.ts'

/** A file with bytes that are to become durable. What it belongs to learns from `synced` how far that got. */
export interface SyncTarget {
  /** Offset below which everything is in the file. */
  readonly writtenOffset: number
  /** Makes what is in the file now durable, its size and its names included. */
  sync(): Promise<void>
  /** Everything below `offset` is durable. Called in the order of the syncs of this file. */
  synced(offset: number): void
  /** The sync failed: nothing may be said of bytes written since the last good one. No further sync of this target follows. */
  failed(error: unknown): void
}

/** Something that has bytes queued and writes them when asked. */
export interface QueuedWriter {
  writeQueued(): void
}

export interface GroupCommitOptions {
  /** Syncs that run at the same time in the whole data folder. */
  readonly maxSyncs: number
  /** How long the first report of an idle file waits for company. 0: the sync in flight is the only window. */
  readonly lingerMs: number
  /** Reports that end the wait early. */
  readonly maxWaiters: number
}

export const DEFAULT_GROUP_COMMIT: GroupCommitOptions = { maxSyncs: 4, lingerMs: 0, maxWaiters: 64 }

type State = 'lingering' | 'queued' | 'syncing'

interface Slot {
  readonly target: SyncTarget
  state: State
  /** Reported again while its sync ran. */
  again: boolean
  reports: number
  timer: Timer | null
}

/**
 * Decides which sync makes which bytes durable, for the whole data folder (DESIGN D5). Logs say "this file is written up to here";
 * each file has at most one sync in flight, and all that is reported meanwhile shares the next one. Nothing but this class calls for
 * a sync on the way of a request, so a journal shared by all partitions can take its place.
 *
 * It also runs the writers: what all connections queue in one turn of the event loop is written at the end of that turn, one
 * gathering write for each log.
 */
export class GroupCommit {
  readonly #clock: Clock
  readonly #options: GroupCommitOptions
  readonly #slots = new Map<SyncTarget, Slot>()
  readonly #queue: Slot[] = []
  #running = 0
  readonly #writers = new Set<QueuedWriter>()
  #isWriteDue = false
  readonly #syncs: Counter
  readonly #syncSeconds: Histogram

  constructor(deps: { clock: Clock; metrics?: Metrics }, options: GroupCommitOptions = DEFAULT_GROUP_COMMIT) {
    this.#clock = deps.clock
    this.#options = options
    const metrics = deps.metrics ?? NO_METRICS
    this.#syncs = metrics.counter('moonmq_fsync_total')
    this.#syncSeconds = metrics.histogram('moonmq_fsync_duration_seconds')
  }

  /** Syncs that run or wait. */
  get pending(): number {
    return this.#slots.size
  }

  /** Calls `writeQueued` in a macrotask of its own, after everything that this turn of the event loop still brings. */
  writeSoon(writer: QueuedWriter): void {
    this.#writers.add(writer)
    if (this.#isWriteDue) return
    this.#isWriteDue = true
    this.#clock.defer(this.#writeAll)
  }

  /** The target has bytes that are not durable. */
  report(target: SyncTarget): void {
    const slot = this.#slots.get(target)
    if (slot === undefined) {
      this.#begin(target)
      return
    }
    slot.reports++
    if (slot.state === 'syncing') slot.again = true
    else if (slot.state === 'lingering' && slot.reports >= this.#options.maxWaiters) this.#enqueue(slot)
  }

  /** Like `report`, without any linger: somebody waits for it now. */
  hurry(target: SyncTarget): void {
    this.report(target)
    const slot = this.#slots.get(target)
    if (slot?.state === 'lingering') this.#enqueue(slot)
  }

  readonly #writeAll = (): void => {
    this.#isWriteDue = false
    const writers = [...this.#writers]
    this.#writers.clear()
    for (const writer of writers) writer.writeQueued()
  }

  #begin(target: SyncTarget): void {
    const slot: Slot = { target, state: 'queued', again: false, reports: 1, timer: null }
    this.#slots.set(target, slot)
    if (this.#options.lingerMs > 0 && this.#options.maxWaiters > 1) {
      slot.state = 'lingering'
      slot.timer = this.#clock.setTimer(this.#options.lingerMs, () => this.#enqueue(slot), { keepAlive: true })
    } else this.#enqueue(slot)
  }

  #enqueue(slot: Slot): void {
    slot.timer?.cancel()
    slot.timer = null
    slot.state = 'queued'
    this.#queue.push(slot)
    this.#startMore()
  }

  #startMore(): void {
    while (this.#running < this.#options.maxSyncs) {
      const slot = this.#queue.shift()
      if (slot === undefined) return
      this.#running++
      // Owned: #sync reports every failure to the target and never rejects.
      void this.#sync(slot)
    }
  }

  async #sync(slot: Slot): Promise<void> {
    const { target } = slot
    slot.state = 'syncing'
    slot.again = false
    slot.reports = 0
    const upTo = target.writtenOffset
    const startedMs = this.#clock.monotonicMs()
    try {
      await target.sync()
    } catch (error) {
      this.#end(slot)
      this.#slots.delete(target)
      target.failed(error)
      return
    }
    this.#syncs.add()
    this.#syncSeconds.observe((this.#clock.monotonicMs() - startedMs) / 1000)
    this.#end(slot)
    if (slot.again) this.#enqueue(slot)
    else this.#slots.delete(target)
    target.synced(upTo)
  }

  #end(slot: Slot): void {
    slot.state = 'queued'
    this.#running--
    this.#startMore()
  }
}
