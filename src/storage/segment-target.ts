import type { Failpoint } from '../core/failpoint.ts'
import type { Disk } from '../io/disk.ts'
import type { SyncTarget } from './group-commit.ts'
import type { Segment } from './segment.ts'

export interface SegmentTargetHost {
  synced(target: SegmentTarget, offset: number): void
  failed(target: SegmentTarget, error: unknown): void
}

/** One segment's file as group commit sees it. The names in its folder are made durable with the first bytes. */
export class SegmentTarget implements SyncTarget {
  readonly segment: Segment
  readonly #deps: { disk: Disk; failpoint: Failpoint }
  readonly #host: SegmentTargetHost

  constructor(deps: { disk: Disk; failpoint: Failpoint }, segment: Segment, host: SegmentTargetHost) {
    this.#deps = deps
    this.segment = segment
    this.#host = host
  }

  get writtenOffset(): number {
    return this.segment.writtenOffset
  }

  async sync(): Promise<void> {
    const { segment } = this
    const file = segment.log.acquire()
    try {
      if (segment.areNamesDurable) await file.datasync()
      else {
        await Promise.all([file.datasync(), segment.syncNames(this.#deps.disk)])
      }
      this.#deps.failpoint('log.append.synced')
    } finally {
      segment.log.release()
    }
  }

  synced(offset: number): void {
    this.#host.synced(this, offset)
  }

  failed(error: unknown): void {
    this.#host.failed(this, error)
  }
}
