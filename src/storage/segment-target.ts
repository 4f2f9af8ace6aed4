import type { Failpoint } from '../core/failpoint.ts'
import type { Disk } from '../io/disk.ts'
import { systemError } from '../io/system-error.ts'
import type { JournalItem } from './journal.ts'
import type { JournalOwner } from './journal-format.ts'
import type { Segment } from './segment.ts'
import type { SyncTarget } from './sync-target.ts'

export interface SegmentTargetHost {
  readonly owner: JournalOwner
  /** Everything of the log below it is durable. */
  syncedOffset(): number
  /** Everything of the segment below `offset` is durable in its file. */
  stored(target: SegmentTarget, offset: number): void
  /** The same, in its file or in the journal. */
  synced(target: SegmentTarget, offset: number): void
  failed(target: SegmentTarget, error: unknown): void
  /** Writes into the files what only the journal was to have so far. Throws when that fails. */
  writeLate(): void
}

/** More than that is not worth writing twice: the file is synced. */
const JOURNAL_MAX_BYTES = 64 * 1024
const NO_PARTS: Buffer[] = []

/**
 * One segment's file as group commit sees it. The names in its folder are made durable with the first bytes. It keeps the batches that
 * were written since the last sync or journal frame took what there was, as long as they are few.
 */
export class SegmentTarget implements SyncTarget {
  readonly segment: Segment
  readonly #deps: { disk: Disk; failpoint: Failpoint }
  readonly #host: SegmentTargetHost
  #parts: Buffer[] = NO_PARTS
  #bytes = 0
  #fromOffset: number
  #isStopped = false

  /** Made at the first write: all before is durable. */
  constructor(deps: { disk: Disk; failpoint: Failpoint }, segment: Segment, host: SegmentTargetHost) {
    this.#deps = deps
    this.segment = segment
    this.#host = host
    this.#fromOffset = segment.syncedOffset
  }

  get takenOffset(): number {
    return this.segment.takenOffset
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Nothing that is still to come is said of this file: it is about to be closed. */
  stop(): void {
    this.#isStopped = true
    this.#parts = NO_PARTS
  }

  /** Batches are in the file or on their way, in one piece with what came before. */
  took(parts: readonly Buffer[], bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > JOURNAL_MAX_BYTES) this.#parts = NO_PARTS
    else if (this.#parts.length === 0) this.#parts = parts.slice()
    else this.#parts.push(...parts)
  }

  get journalBytes(): number {
    return this.#bytes <= JOURNAL_MAX_BYTES ? this.#bytes : Number.POSITIVE_INFINITY
  }

  takeForJournal(): JournalItem {
    const { segment } = this
    const sizeBytes = this.#bytes
    const endOffset = segment.takenOffset
    const entry = {
      kind: 'records',
      owner: this.#host.owner,
      segmentBase: segment.baseOffset,
      position: segment.writtenBytes + segment.lateBytes - sizeBytes,
      startOffset: this.#fromOffset,
      endOffset,
      syncedOffset: this.#host.syncedOffset(),
      parts: this.#parts,
      sizeBytes,
    } as const
    this.#begin()
    return { entry, member: this, upTo: endOffset, isGone: () => !this.isNeeded || segment.storedOffset >= endOffset }
  }

  /** Of a log that failed the journal may hold the only copy, until recovery has seen to it. */
  isNeeded = true

  #begin(): void {
    this.#parts = NO_PARTS
    this.#bytes = 0
    this.#fromOffset = this.segment.takenOffset
  }

  async sync(): Promise<void> {
    await this.#syncFile(() => this.#begin())
  }

  async syncBehind(): Promise<void> {
    await this.#syncFile(null)
  }

  async #syncFile(begin: (() => void) | null): Promise<void> {
    const { segment } = this
    this.#host.writeLate()
    const file = segment.log.acquire()
    begin?.()
    try {
      if (segment.areNamesDurable) await file.datasync()
      else {
        await Promise.all([file.datasync(), segment.syncNames(this.#deps.disk)])
      }
      this.#expectName()
      this.#deps.failpoint('log.append.synced')
    } finally {
      segment.log.release()
    }
  }

  /** A file that somebody removed takes bytes and syncs like any other until it is closed. Only the file that grows is looked at: others leave a log by themselves. */
  #expectName(): void {
    const { segment } = this
    if (this.#isStopped || !this.isNeeded || segment.isFinished) return
    const { path } = segment.log
    if (this.#deps.disk.statNow(path) === null)
      throw systemError('ENOENT', 'fdatasync', path, 'somebody removed the file while it was written')
  }

  synced(offset: number): void {
    this.#host.stored(this, offset)
  }

  journaled(offset: number): void {
    this.#host.synced(this, offset)
  }

  failed(error: unknown): void {
    this.#host.failed(this, error)
  }
}
