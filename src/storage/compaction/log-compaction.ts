import type { Failpoint } from '../../core/failpoint.ts'
import type { Serial } from '../../core/serial.ts'
import type { Disk } from '../../io/disk.ts'
import type { Inflater } from '../../record/inflater.ts'
import type { BufferPool } from '../buffer-pool.ts'
import type { HandleCache } from '../handles.ts'
import type { Segment } from '../segment.ts'
import { isSameSeal, type TxnSeal } from '../txn-seals.ts'
import { type CompactionNote, NEVER_COMPACTED, writeCompactionNote } from './note.ts'
import { decideSwap, finishSwap, removeCleaned, type Swap, swapFileName } from './swap.ts'

export interface CompactedLogDeps {
  readonly disk: Disk
  readonly handles: HandleCache
  readonly pool: BufferPool
  readonly inflater: Inflater
  readonly failpoint: Failpoint
}

export interface CompactedLogHost {
  readonly folder: string
  /** The log's queue: swaps, truncation, removal of old segments and closing come one after another. */
  readonly serial: Serial
  /** The log's own list. */
  segments(): Segment[]
  isOnline(): boolean
  /** Segments below `endOffset` were replaced: reads under way begin again, and batches in memory are not what the log has. */
  replaced(endOffset: number): void
  /** A swap stopped behind the step that decides it: only a recovery knows how to go on. */
  failed(error: unknown): void
  /** Saves what transaction indexes hold, with `withPending`; durable when it resolves. */
  reseal(): Promise<void>
}

/**
 * What one log knows of its compaction, and the one place where compaction changes the log. Order on disk: the note that there may be
 * holes, then each segment in place, then the note how far the log is compacted.
 */
export class LogCompaction {
  /** Where the log lies: another disk for a topic in memory. */
  readonly deps: CompactedLogDeps
  readonly #host: CompactedLogHost
  #note: CompactionNote = NEVER_COMPACTED
  /**
   * The recovery point as the checkpoint on disk has it. Only segments wholly below it are compacted: whatever replays or verifies the
   * end of a log after a crash never meets a segment that was replaced meanwhile.
   */
  savedRecoveryPoint = 0
  /** Of a segment that is being replaced, as it was and as it will be: either may be on disk until the swap is over. */
  #pendingSeals: readonly TxnSeal[] = []

  constructor(deps: CompactedLogDeps, host: CompactedLogHost) {
    this.deps = deps
    this.#host = host
  }

  get note(): CompactionNote {
    return this.#note
  }

  /** The log was opened. */
  restart(note: CompactionNote): void {
    this.#note = note
    this.#pendingSeals = []
  }

  /** Durably says that there may be holes below `offset`. False when the log is not in a state to be changed. */
  expectHoles(offset: number): Promise<boolean> {
    return this.#host.serial.run(async () => {
      if (!this.#host.isOnline() || offset > this.savedRecoveryPoint) return false
      if (offset > this.#note.holesBelow) await this.#save({ ...this.#note, holesBelow: offset })
      this.deps.failpoint('compaction.noted')
      return true
    })
  }

  /** Durably says how far the log is compacted. */
  finished(note: Omit<CompactionNote, 'holesBelow'>): Promise<void> {
    return this.#host.serial.run(async () => {
      if (!this.#host.isOnline()) return
      await this.#save({ ...note, holesBelow: this.#note.holesBelow })
      this.deps.failpoint('compaction.note-updated')
    })
  }

  /** Before the log is cut at `offset`: what comes there later was not compacted. Within the log's queue. */
  async truncating(offset: number): Promise<void> {
    this.savedRecoveryPoint = Math.min(this.savedRecoveryPoint, offset)
    if (this.#note.cleanedOffset > offset) await this.#save({ ...this.#note, cleanedOffset: offset })
  }

  /**
   * Puts `cleaned`, which is whole and synced, in the place of `old`. False, and nothing is changed, when these are not segments of the
   * log any more. The new segment serves reads from the step that decides on; its files stay open until they have their names.
   */
  replace(old: readonly Segment[], cleaned: Segment, swap: Swap): Promise<boolean> {
    const { folder } = this.#host
    return this.#host.serial.run(async () => {
      const at = this.#placeOf(old)
      if (at < 0 || swap.endOffset > Math.min(this.savedRecoveryPoint, this.#note.holesBelow)) return false
      const files = [cleaned.log, cleaned.index.store.file, cleaned.timeIndex.store.file]
      for (const file of files) file.acquire()
      let isDecided = false
      try {
        cleaned.txnIndex.load()
        await this.#reseal(old, cleaned)
        await decideSwap(this.deps, folder, swap)
        isDecided = true
        cleaned.log.moved(`${folder}/${swapFileName(swap)}`)
        this.#host.segments().splice(at, old.length, cleaned)
        this.#host.replaced(swap.endOffset)
        await Promise.all(old.map((segment) => segment.close()))
        await finishSwap(this.deps, folder, swap)
        cleaned.takeFinalNames()
      } catch (error) {
        if (isDecided) this.#host.failed(error)
        throw error
      } finally {
        for (const file of files) file.release()
        // When it failed behind the step that decides it, the next checkpoint waits for the recovery.
        if (!isDecided || this.#host.isOnline()) this.#pendingSeals = []
      }
      return true
    })
  }

  /** What checkpoints say of transaction indexes while a swap is under way. */
  withPending(seals: readonly TxnSeal[] | undefined): readonly TxnSeal[] | undefined {
    if (seals === undefined || this.#pendingSeals.length === 0) return seals
    return [...seals.filter((seal) => !this.#pendingSeals.some((pending) => isSameSeal(seal, pending))), ...this.#pendingSeals]
  }

  /** A start may find either segment, and must know both indexes. */
  async #reseal(old: readonly Segment[], cleaned: Segment): Promise<void> {
    const indexes = [...old, cleaned].map((each) => each.txnIndex)
    if (indexes.every((index) => index.isSealedEmpty)) return
    this.#pendingSeals = indexes.flatMap((index) => index.seals ?? [])
    await this.#host.reseal()
    this.deps.failpoint('compaction.seals-saved')
  }

  /** Takes away what was written for a segment that is not wanted after all. */
  async abandon(cleaned: Segment): Promise<void> {
    await cleaned.close()
    await removeCleaned(this.deps.disk, this.#host.folder, cleaned.baseOffset)
  }

  /** Where `old` lies in the log, all of it in one piece and behind it at least the active segment; −1 when it does not. */
  #placeOf(old: readonly Segment[]): number {
    const segments = this.#host.segments()
    const first = old[0]
    const at = first === undefined || !this.#host.isOnline() ? -1 : segments.indexOf(first)
    if (at < 0 || at + old.length >= segments.length) return -1
    return old.every((segment, index) => segments[at + index] === segment && segment.isFinished) ? at : -1
  }

  async #save(note: CompactionNote): Promise<void> {
    await writeCompactionNote(this.deps.disk, this.#host.folder, note)
    this.#note = note
  }
}
