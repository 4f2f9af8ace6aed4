import type { Clock, Timer } from '../core/clock.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import { directoryOf } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'

/** Files or a folder that have their last name already and go away together. */
export interface Removal {
  readonly paths: readonly string[]
  readonly kind: 'files' | 'folder'
  readonly delayMs: number
}

export interface RemovalDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly failpoint: Failpoint
  /** Whether somebody waits for space. */
  readonly isFull: () => boolean
}

interface Waiting extends Removal {
  readonly dueMs: number
}

/**
 * What was deleted and still takes space: it waits for `file.delete.delay.ms`, so that whoever made a mistake, or reads the files, has
 * that long. When the disk is full nothing waits. What still waits at the stop goes with the next start.
 */
export class Removals {
  readonly #deps: RemovalDeps
  #waiting: Waiting[] = []
  #timer: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  #isClosed = false
  readonly #left = new Set<string>()

  constructor(deps: RemovalDeps) {
    this.#deps = deps
  }

  /** Removals that wait for their time. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Folders with files that only the next start removes, once this is closed. */
  get left(): ReadonlySet<string> {
    return this.#left
  }

  add(removal: Removal): void {
    if (this.#isClosed || removal.paths.length === 0) return
    const delayMs = this.#deps.isFull() ? 0 : removal.delayMs
    this.#waiting.push({ ...removal, dueMs: this.#deps.clock.monotonicMs() + delayMs })
    if (delayMs <= 0) this.#removeDue()
    else this.#wake()
  }

  /** Nothing waits any longer. Resolves when all of it is gone, or could not be removed and was reported. */
  hurry(): Promise<void> {
    if (!this.#isClosed) this.#remove(this.#waiting.splice(0))
    return this.#running
  }

  /** Resolves when no removal runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    for (const { kind, paths } of this.#waiting) if (kind === 'files') for (const path of paths) this.#left.add(directoryOf(path))
    this.#waiting = []
    await this.#running
  }

  #wake(): void {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#isClosed || this.#waiting.length === 0) return
    const nextMs = this.#waiting.reduce((soonest, each) => Math.min(soonest, each.dueMs), Number.POSITIVE_INFINITY)
    this.#timer = this.#deps.clock.setTimer(nextMs - this.#deps.clock.monotonicMs(), () => this.#removeDue())
  }

  #removeDue(): void {
    const nowMs = this.#deps.clock.monotonicMs()
    const due = this.#waiting.filter((each) => each.dueMs <= nowMs)
    this.#waiting = this.#waiting.filter((each) => each.dueMs > nowMs)
    this.#remove(due)
    this.#wake()
  }

  #remove(due: readonly Waiting[]): void {
    if (due.length === 0) return
    this.#running = this.#running.then(async () => {
      for (const each of due) await this.#removeOne(each)
    })
  }

  /** Never rejects. */
  async #removeOne({ kind, paths }: Removal): Promise<void> {
    const { disk, log, failpoint } = this.#deps
    for (const path of paths) {
      try {
        if (kind === 'folder') await disk.removeTree(path)
        else await disk.removeFile(path)
        failpoint(kind === 'folder' ? 'topic.delete.removed' : 'segment.remove.log-removed')
      } catch (error) {
        this.#left.add(directoryOf(path))
        log.warn('storage.remove_failed', `${path} could not be removed; the next start tries again`, { error })
      }
    }
  }
}
