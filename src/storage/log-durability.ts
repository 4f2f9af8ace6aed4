import type { Clock, Timer } from '../core/clock.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Disk } from '../io/disk.ts'
import type { GroupCommit } from './group-commit.ts'
import type { HandleCache } from './handles.ts'
import type { JournalOwner } from './journal-format.ts'
import { OffsetWaiters } from './offset-waiters.ts'
import type { Segment } from './segment.ts'
import { SegmentTarget, type SegmentTargetHost } from './segment-target.ts'
import type { LogConfig } from './types.ts'

export interface DurabilityHost {
  readonly owner: JournalOwner
  writeLate(): void
  config(): LogConfig
  /** The durable offset, and with it the high watermark, moved. */
  advanced(): void
  failed(error: unknown): void
}

/** Longer timers are none: only count, roll, checkpoint and close sync then. */
const NO_TIMER_FROM_MS = 2 ** 31

/**
 * How far a log is written, synced and durable, and who waits for it (DESIGN section 5). Synced is the end of the oldest segment that
 * has bytes which are not: a newer file may be on disk before an older one, and does not count until that follows. Synced bytes are in
 * the segments' files or in the journal; stored ones, and only these may a recovery point cover, are in the files.
 */
export class LogDurability {
  readonly #clock: Clock
  readonly #deps: { disk: Disk; failpoint: Failpoint; handles: HandleCache }
  readonly #commit: GroupCommit
  readonly #host: DurabilityHost
  readonly #targets = new Map<Segment, SegmentTarget>()
  /** Of files that were closed before all that the journal holds of them was in them: recovery must see to it first. */
  #left: SegmentTarget[] = []
  /** Segments with bytes that are not stored, oldest first; the active one is the last. */
  #unstored: Segment[] = []
  #taken = 0
  #written = 0
  #stored = 0
  #synced = 0
  #durable = 0
  #highWatermark = 0
  /** Somebody waits for a sync up to here, whatever the flush setting says. */
  #syncWanted = 0
  /** Somebody waits for the files to have everything up to here. */
  #storeWanted = 0
  /** Offsets below it were part of a sync that was asked for by count. */
  #countedOffset = 0
  #flushTimer: Timer | null = null
  /** After a failure the system may report bytes as synced that it has given up: no sync is begun until the log was opened again. */
  #isStopped = false
  readonly #durableWaiters = new OffsetWaiters()
  readonly #syncWaiters = new OffsetWaiters()
  readonly #storeWaiters = new OffsetWaiters()

  readonly #targetHost: SegmentTargetHost

  constructor(deps: { clock: Clock; disk: Disk; commit: GroupCommit; failpoint: Failpoint; handles: HandleCache }, host: DurabilityHost) {
    this.#clock = deps.clock
    this.#deps = deps
    this.#commit = deps.commit
    this.#host = host
    const isCurrent = (target: SegmentTarget) => this.#targets.get(target.segment) === target
    this.#targetHost = {
      owner: host.owner,
      writeLate: () => host.writeLate(),
      syncedOffset: () => this.#synced,
      stored: (target, offset) => {
        // The log failed, or was opened anew, while this sync ran: it no longer speaks for these files.
        if (isCurrent(target)) this.#segmentStored(target, offset)
      },
      synced: (target, offset) => {
        if (isCurrent(target)) this.#segmentSynced(target, offset)
      },
      failed: (target, error) => {
        if (isCurrent(target)) this.#host.failed(error)
      },
    }
  }

  get writtenOffset(): number {
    return this.#written
  }

  get syncedOffset(): number {
    return this.#synced
  }

  /** Everything below is durable in the segments' own files. */
  get storedOffset(): number {
    return this.#stored
  }

  get durableOffset(): number {
    return this.#durable
  }

  get highWatermark(): number {
    return this.#highWatermark
  }

  /** The log was opened: everything below `endOffset` is durable in the files. */
  restart(active: Segment, endOffset: number): void {
    this.abandon()
    this.#isStopped = false
    this.#unstored = [active]
    this.#taken = endOffset
    this.#written = endOffset
    this.#stored = endOffset
    this.#synced = endOffset
    this.#durable = endOffset
    this.#highWatermark = endOffset
    this.#syncWanted = 0
    this.#storeWanted = 0
    this.#countedOffset = endOffset
  }

  began(segment: Segment): void {
    this.#unstored.push(segment)
  }

  written(endOffset: number): void {
    this.#written = endOffset
  }

  took(segment: Segment, endOffset: number, parts: readonly Buffer[], bytes: number): void {
    this.#taken = endOffset
    const target = this.#target(segment)
    target.took(parts, bytes)
    const isStoreWanted = this.#storeWanted > this.#stored
    if (isStoreWanted) this.#commit.hurryFile(target)
    if (this.#host.config().flushMessages === 1 || this.#syncWanted > this.#synced) {
      if (!isStoreWanted) this.#commit.report(target)
      return
    }
    this.#syncLater(segment)
    this.#advance(endOffset)
  }

  /** What waits for a sync by the old count or time waits for one by the new; nothing that was durable becomes less so. */
  reconfigured(): void {
    if (this.#isStopped || this.#synced >= this.#taken) return
    this.#flushTimer?.cancel()
    this.#flushTimer = null
    if (this.#host.config().flushMessages === 1) this.#syncAll()
    else this.#syncLater(this.#unstored[this.#unstored.length - 1] as Segment)
  }

  whenDurable(offset: number): Promise<void> {
    return this.#durableWaiters.wait(offset, this.#durable)
  }

  whenSynced(offset: number): Promise<void> {
    if (offset > this.#synced) {
      this.#syncWanted = Math.max(this.#syncWanted, offset)
      this.#syncAll()
    }
    return this.#syncWaiters.wait(offset, this.#synced)
  }

  /** Like `whenSynced`, and the journal does not do. */
  whenStored(offset: number): Promise<void> {
    if (offset > this.#stored && !this.#isStopped) {
      this.#storeWanted = Math.max(this.#storeWanted, offset)
      for (const segment of this.#unstored) {
        if (segment.baseOffset < offset && segment.takenOffset > segment.storedOffset) this.#commit.hurryFile(this.#target(segment))
      }
    }
    return this.#storeWaiters.wait(offset, this.#stored)
  }

  /** Nobody waits any longer; syncs that still run are not believed. */
  stop(refusal: MoonMQError): void {
    this.#isStopped = true
    this.#flushTimer?.cancel()
    this.#flushTimer = null
    this.forget()
    this.#durableWaiters.fail(refusal)
    this.#syncWaiters.fail(refusal)
    this.#storeWaiters.fail(refusal)
  }

  /** The files are about to be closed: whatever a running sync says of them does not count. */
  forget(): void {
    for (const target of this.#targets.values()) {
      target.stop()
      this.#left.push(target)
    }
    this.#targets.clear()
  }

  /** What the journal holds of the log is not needed: recovery made everything durable, or the log is deleted. */
  abandon(): void {
    this.forget()
    for (const target of this.#left) {
      target.isNeeded = false
      this.#commit.release(target, Number.POSITIVE_INFINITY)
    }
    this.#left = []
  }

  /** With another flush setting durable means written, and the sync comes by count or by time. */
  #syncLater(segment: Segment): void {
    const { flushMessages, flushMs } = this.#host.config()
    if (this.#taken - this.#countedOffset >= flushMessages) {
      this.#countedOffset = this.#taken
      this.#commit.report(this.#target(segment))
      return
    }
    if (this.#flushTimer !== null || flushMs >= NO_TIMER_FROM_MS) return
    this.#flushTimer = this.#clock.setTimer(flushMs, () => {
      this.#flushTimer = null
      this.#syncAll()
    })
  }

  #syncAll(): void {
    if (this.#isStopped) return
    for (const segment of this.#unstored) {
      if (segment.takenOffset > segment.syncedOffset) this.#commit.hurry(this.#target(segment))
    }
  }

  #target(segment: Segment): SegmentTarget {
    let target = this.#targets.get(segment)
    if (target === undefined) {
      target = new SegmentTarget(this.#deps, segment, this.#targetHost)
      this.#targets.set(segment, target)
    }
    return target
  }

  #segmentStored(target: SegmentTarget, offset: number): void {
    const { segment } = target
    segment.storedOffset = Math.max(segment.storedOffset, offset)
    segment.syncedOffset = Math.max(segment.syncedOffset, offset)
    if (segment.isPinned && segment.storedOffset === segment.nextOffset) {
      segment.isPinned = false
      segment.log.release()
    }
    this.#commit.release(target, offset)
    this.#moveStored()
    this.#moveSynced()
  }

  #segmentSynced(target: SegmentTarget, offset: number): void {
    const { segment } = target
    segment.syncedOffset = Math.max(segment.syncedOffset, offset)
    // The journal would keep the file open for as long as it stands in for it.
    if (segment.isPinned && this.#deps.handles.isCrowded) this.#commit.hurryFile(target)
    this.#moveSynced()
  }

  #moveStored(): void {
    let first = this.#unstored[0] as Segment
    while (this.#unstored.length > 1 && first.storedOffset === first.nextOffset) {
      this.#unstored.shift()
      this.#targets.delete(first)
      first = this.#unstored[0] as Segment
    }
    if (first.storedOffset <= this.#stored) return
    this.#stored = first.storedOffset
    this.#storeWaiters.reached(this.#stored)
  }

  #moveSynced(): void {
    let synced = this.#synced
    for (const segment of this.#unstored) {
      synced = segment.syncedOffset
      if (synced < segment.nextOffset) break
    }
    if (synced <= this.#synced) return
    this.#synced = synced
    this.#syncWaiters.reached(synced)
    this.#advance(synced)
  }

  /** One replica: the high watermark follows what is durable at once. */
  #advance(durableOffset: number): void {
    if (durableOffset <= this.#durable) return
    this.#durable = durableOffset
    this.#highWatermark = durableOffset
    this.#durableWaiters.reached(durableOffset)
    this.#host.advanced()
  }
}
