import type { Clock, Timer } from '../core/clock.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Disk } from '../io/disk.ts'
import type { GroupCommit } from './group-commit.ts'
import { OffsetWaiters } from './offset-waiters.ts'
import type { Segment } from './segment.ts'
import { SegmentTarget } from './segment-target.ts'
import type { LogConfig } from './types.ts'

export interface DurabilityHost {
  config(): LogConfig
  /** The durable offset, and with it the high watermark, moved. */
  advanced(): void
  failed(error: unknown): void
}

/** Longer timers are none: only count, roll, checkpoint and close sync then. */
const NO_TIMER_FROM_MS = 2 ** 31

/**
 * How far a log is written, synced and durable, and who waits for it (DESIGN section 5). Synced is the end of the oldest segment that
 * has bytes which are not: a newer file may be on disk before an older one, and does not count until that follows.
 */
export class LogDurability {
  readonly #clock: Clock
  readonly #deps: { disk: Disk; failpoint: Failpoint }
  readonly #commit: GroupCommit
  readonly #host: DurabilityHost
  readonly #targets = new Map<Segment, SegmentTarget>()
  /** Segments with bytes that are not synced, oldest first; the active one is the last. */
  #unsynced: Segment[] = []
  #written = 0
  #synced = 0
  #durable = 0
  #highWatermark = 0
  /** Somebody waits for a sync up to here, whatever the flush setting says. */
  #syncWanted = 0
  /** Offsets below it were part of a sync that was asked for by count. */
  #countedOffset = 0
  #flushTimer: Timer | null = null
  /** After a failure the system may report bytes as synced that it has given up: no sync is begun until the log was opened again. */
  #isStopped = false
  readonly #durableWaiters = new OffsetWaiters()
  readonly #syncWaiters = new OffsetWaiters()

  constructor(deps: { clock: Clock; disk: Disk; commit: GroupCommit; failpoint: Failpoint }, host: DurabilityHost) {
    this.#clock = deps.clock
    this.#deps = deps
    this.#commit = deps.commit
    this.#host = host
  }

  get writtenOffset(): number {
    return this.#written
  }

  get syncedOffset(): number {
    return this.#synced
  }

  get durableOffset(): number {
    return this.#durable
  }

  get highWatermark(): number {
    return this.#highWatermark
  }

  /** The log was opened: everything below `endOffset` is durable. */
  restart(active: Segment, endOffset: number): void {
    this.#targets.clear()
    this.#isStopped = false
    this.#unsynced = [active]
    this.#written = endOffset
    this.#synced = endOffset
    this.#durable = endOffset
    this.#highWatermark = endOffset
    this.#syncWanted = 0
    this.#countedOffset = endOffset
  }

  began(segment: Segment): void {
    this.#unsynced.push(segment)
  }

  wrote(segment: Segment, endOffset: number): void {
    this.#written = endOffset
    if (this.#host.config().flushMessages === 1 || this.#syncWanted > this.#synced) {
      this.#commit.report(this.#target(segment))
      return
    }
    this.#syncLater(segment)
    this.#advance(endOffset)
  }

  /** What waits for a sync by the old count or time waits for one by the new; nothing that was durable becomes less so. */
  reconfigured(): void {
    if (this.#isStopped || this.#synced >= this.#written) return
    this.#flushTimer?.cancel()
    this.#flushTimer = null
    if (this.#host.config().flushMessages === 1) this.#syncAll()
    else this.#syncLater(this.#unsynced[this.#unsynced.length - 1] as Segment)
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

  /** Nobody waits any longer; syncs that still run are not believed. */
  stop(refusal: MoonMQError): void {
    this.#isStopped = true
    this.#flushTimer?.cancel()
    this.#flushTimer = null
    this.forget()
    this.#durableWaiters.fail(refusal)
    this.#syncWaiters.fail(refusal)
  }

  /** The files are about to be closed: whatever a running sync says of them does not count. */
  forget(): void {
    this.#targets.clear()
  }

  /** With another flush setting durable means written, and the sync comes by count or by time. */
  #syncLater(segment: Segment): void {
    const { flushMessages, flushMs } = this.#host.config()
    if (this.#written - this.#countedOffset >= flushMessages) {
      this.#countedOffset = this.#written
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
    for (const segment of this.#unsynced) {
      if (segment.writtenOffset > segment.syncedOffset) this.#commit.hurry(this.#target(segment))
    }
  }

  #target(segment: Segment): SegmentTarget {
    let target = this.#targets.get(segment)
    if (target === undefined) {
      target = new SegmentTarget(this.#deps, segment, {
        synced: (which, offset) => this.#segmentSynced(which, offset),
        failed: (which, error) => {
          if (this.#targets.get(which.segment) === which) this.#host.failed(error)
        },
      })
      this.#targets.set(segment, target)
    }
    return target
  }

  #segmentSynced(target: SegmentTarget, offset: number): void {
    const { segment } = target
    // The log failed, or was opened anew, while this sync ran: it no longer speaks for these files.
    if (this.#targets.get(segment) !== target) return
    segment.syncedOffset = Math.max(segment.syncedOffset, offset)
    if (segment.isPinned && segment.syncedOffset === segment.nextOffset) {
      segment.isPinned = false
      segment.log.release()
    }
    this.#moveSynced()
  }

  #moveSynced(): void {
    let first = this.#unsynced[0] as Segment
    while (this.#unsynced.length > 1 && first.syncedOffset === first.nextOffset) {
      this.#unsynced.shift()
      this.#targets.delete(first)
      first = this.#unsynced[0] as Segment
    }
    if (first.syncedOffset <= this.#synced) return
    this.#synced = first.syncedOffset
    this.#syncWaiters.reached(this.#synced)
    this.#advance(this.#synced)
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
