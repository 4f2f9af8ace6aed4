import type { Clock, Timer } from '../core/clock.ts'
import { type Counter, type Histogram, type Metrics, NO_METRICS } from '../core/counters.ts'
import type { Journal } from './journal.ts'
import type { JournalOwner } from './journal-format.ts'
import { JournalRounds, type RoundsHost } from './journal-rounds.ts'
import { LateWrites } from './late-writes.ts'
import type { SmallFile, SyncTarget } from './sync-target.ts'

/** Something that has bytes queued and writes them when asked. */
export interface QueuedWriter {
  /** `mayBeLate`: the journal will have the bytes, so the file may get them later. */
  writeQueued(mayBeLate: boolean): void
}

export interface GroupCommitOptions {
  /** Syncs that run at the same time in the whole data folder. */
  readonly maxSyncs: number
  /** How long the first report of an idle file waits for company. 0: the sync in flight is the only window. */
  readonly lingerMs: number
  /** Reports that end the wait early. */
  readonly maxWaiters: number
  /** So many files that wait at the same time go to the journal, if there is one; 0: none ever does. */
  readonly journalFrom: number
}

export const DEFAULT_GROUP_COMMIT: GroupCommitOptions = { maxSyncs: 4, lingerMs: 0, maxWaiters: 64, journalFrom: 8 }

type State = 'lingering' | 'queued' | 'syncing'

interface Slot {
  readonly target: SyncTarget
  state: State
  /** Reported again while its sync ran. */
  again: boolean
  /** The journal does not do: its own file is wanted durable. */
  isForFile: boolean
  reports: number
  timer: Timer | null
}

/**
 * Decides which sync makes which bytes durable, for the whole data folder (DESIGN D5). Logs say "this file is written up to here";
 * each file has at most one sync in flight, and all that is reported meanwhile shares the next one. Nothing but this class calls for
 * a sync on the way of a request. When many files wait, each with few bytes, these go to the journal, where one sync makes them all
 * durable, and the files follow in the background.
 *
 * It also runs the writers: what all connections queue in one turn of the event loop is written at the end of that turn, one
 * gathering write for each log. Where the journal will have it, its frame goes first and the writes into files follow beside its sync.
 */
export class GroupCommit {
  readonly #clock: Clock
  readonly #options: GroupCommitOptions
  readonly #slots = new Map<SyncTarget, Slot>()
  /** Wait for a sync of their file. */
  readonly #queue: Slot[] = []
  readonly #journal: Journal | null
  readonly #rounds: JournalRounds<Slot> | null
  /** Reports are being gathered; what to sync is decided once all are there. */
  #isGathering = false
  #running = 0
  /** Whose sync runs: two of one file would each be told a part of what goes wrong. */
  readonly #syncing = new Set<SyncTarget>()
  #maxSyncs: number
  readonly #writers = new Set<QueuedWriter>()
  readonly late: LateWrites
  #isWriteDue = false
  readonly #syncs: Counter
  readonly #syncSeconds: Histogram
  readonly #frames: Counter

  constructor(deps: { clock: Clock; metrics?: Metrics; journal?: Journal }, options: GroupCommitOptions = DEFAULT_GROUP_COMMIT) {
    this.#clock = deps.clock
    this.#options = options
    this.#maxSyncs = options.maxSyncs
    this.late = new LateWrites(deps)
    const { journal, metrics = NO_METRICS } = deps
    const fromFiles = options.journalFrom
    this.#journal = journal ?? null
    this.#rounds = journal === undefined || fromFiles === 0 ? null : new JournalRounds(journal, { fromFiles }, this.#roundsHost())
    this.#frames = metrics.counter('moonmq_journal_frames_total')
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

  /** Like `hurry`, and the journal does not do: the file itself is to be durable. */
  hurryFile(target: SyncTarget): void {
    this.#gather(() => {
      this.report(target)
      const slot = this.#slots.get(target)
      if (slot === undefined) return
      slot.isForFile = true
      if (slot.state === 'lingering') this.#enqueue(slot)
      else if (this.#rounds?.giveBack(slot) === true) this.#toFile(slot)
    })
  }

  /** Makes a small file durable: in the journal when many want something, else by writing it. */
  async save(file: SmallFile): Promise<void> {
    if (this.#rounds === null) await file.store()
    else await this.#rounds.save(file)
  }

  /** Makes what the journal says of a log void, durably. Whatever of it was not in the log's files must be there before. */
  async forget(owner: JournalOwner): Promise<void> {
    if (this.#journal?.isSealed === true) return this.#journal.forgetSealed(owner)
    await this.#rounds?.forget(owner)
  }

  /** A file that the journal stood in for is durable up to `upTo`, or is not needed any more. */
  release(member: SyncTarget | SmallFile, upTo: number): void {
    this.#rounds?.release(member, upTo)
  }

  /** Syncs, in the background, every file that the journal stands in for. */
  drain(): void {
    this.#rounds?.drainAll()
  }

  /** At a stop: nobody else wants the disk, so more files are synced at the same time. */
  widen(maxSyncs: number): void {
    this.#maxSyncs = Math.max(this.#maxSyncs, maxSyncs)
  }

  /** Many logs are open: sooner or later the journal is wanted. */
  prepareJournal(): void {
    this.#rounds?.prepare()
  }

  /** At a checkpoint: what the journal must hold is said beside it. */
  async noteJournal(): Promise<void> {
    await this.#rounds?.noteFrames()
  }

  /** Every log is closed. Removes the journal when nothing in it is needed. */
  async close(): Promise<void> {
    await this.#rounds?.close()
  }

  readonly #writeAll = (): void => {
    this.#isWriteDue = false
    const writers = [...this.#writers]
    this.#writers.clear()
    const mayBeLate = this.late.hasRoom && this.#rounds?.takesMany(writers.length) === true
    this.#gather(() => {
      for (const writer of writers) writer.writeQueued(mayBeLate)
    })
    this.late.start()
  }

  /** Nothing is begun while `work` reports one file after another. */
  #gather(work: () => void): void {
    const wasGathering = this.#isGathering
    this.#isGathering = true
    work()
    this.#isGathering = wasGathering
    this.#start()
  }

  #begin(target: SyncTarget): void {
    const slot: Slot = { target, state: 'queued', again: false, isForFile: false, reports: 1, timer: null }
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
    if (this.#rounds === null || !this.#rounds.take(slot)) this.#queue.push(slot)
    this.#start()
  }

  #toFile(slot: Slot): void {
    slot.state = 'queued'
    this.#queue.push(slot)
    this.#start()
  }

  #start(): void {
    if (this.#isGathering) return
    if (this.#rounds !== null) {
      this.#isGathering = true
      this.#rounds.start()
      this.#isGathering = false
    }
    while (this.#running < this.#maxSyncs) {
      const slot = this.#takeNext()
      if (slot === undefined) return
      this.#running++
      // Owned: #sync reports every failure to the target and never rejects.
      void this.#sync(slot)
    }
  }

  /** The first whose file is not being synced behind the journal. */
  #takeNext(): Slot | undefined {
    const at = this.#queue.findIndex((slot) => !this.#syncing.has(slot.target))
    return at === 0 ? this.#queue.shift() : at < 0 ? undefined : this.#queue.splice(at, 1)[0]
  }

  async #sync(slot: Slot): Promise<void> {
    const { target } = slot
    this.#syncing.add(target)
    slot.state = 'syncing'
    slot.again = false
    slot.isForFile = false
    slot.reports = 0
    const upTo = target.takenOffset
    const startedMs = this.#clock.monotonicMs()
    try {
      await target.sync()
    } catch (error) {
      this.#running--
      this.#syncing.delete(target)
      this.#slots.delete(target)
      target.failed(error)
      this.#start()
      return
    }
    this.#synced(startedMs)
    this.#running--
    this.#syncing.delete(target)
    this.#gather(() => this.#ended(slot))
    target.synced(upTo)
    this.#start()
  }

  /** What comes meanwhile goes to the journal as if nothing were synced. */
  #syncBehind(target: SyncTarget): boolean {
    if (this.#syncing.has(target)) return false
    this.#syncing.add(target)
    const upTo = target.takenOffset
    const startedMs = this.#clock.monotonicMs()
    const ended = (tell: () => void) => {
      this.#syncing.delete(target)
      this.#gather(tell)
      this.#rounds?.behindEnded(target)
      this.#start()
    }
    target.syncBehind().then(
      () => {
        this.#synced(startedMs)
        ended(() => target.synced(upTo))
      },
      (error: unknown) => ended(() => target.failed(error)),
    )
    return true
  }

  #synced(startedMs: number): void {
    this.#syncs.add()
    this.#syncSeconds.observe((this.#clock.monotonicMs() - startedMs) / 1000)
  }

  #ended(slot: Slot): void {
    slot.state = 'queued'
    if (slot.again || slot.isForFile) this.#enqueue(slot)
    else this.#slots.delete(slot.target)
  }

  #roundsHost(): RoundsHost<Slot> {
    return {
      toFile: (slot) => this.#toFile(slot),
      began: (slot) => {
        slot.state = 'syncing'
        slot.again = false
        slot.reports = 0
        return slot.target.takenOffset
      },
      ended: (slots, upTo, startedMs) => {
        this.#synced(startedMs)
        this.#frames.add()
        this.#gather(() => {
          for (const [index, slot] of slots.entries()) {
            slot.target.journaled(upTo[index] as number)
            this.#ended(slot)
          }
        })
      },
      failed: (slots, error) => {
        for (const { target } of slots) this.#slots.delete(target)
        for (const { target } of slots) target.failed(error)
      },
      syncBehind: (target) => this.#syncBehind(target),
      busy: () => this.#running + this.#queue.length,
      start: () => this.#start(),
      monotonicMs: () => this.#clock.monotonicMs(),
    }
  }
}
