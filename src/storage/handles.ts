import { assert, defined } from '../core/assert.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { Semaphore } from '../core/semaphore.ts'
import type { Disk, DiskFile } from '../io/disk.ts'

/** Logs whose indexes are synced at the same time. */
const PARALLEL_INDEX_SYNCS = 16

/**
 * The open files of every log, kept within one budget of descriptors. A file is opened when it is used and the one that was used
 * longest ago is closed for it. A file in use is pinned: while it is read, written, or holds bytes that are not synced. When all
 * are pinned the budget is exceeded rather than a request failed; the broker's limit on connections leaves room for that. With twice
 * the budget in use, whoever would keep one more file open for a while waits in `room`.
 */
export class HandleCache {
  readonly #disk: Disk
  readonly #log: Logger
  readonly #maxOpen: number
  /** Open and not pinned, least recently used first. */
  readonly #idle = new Set<CachedFile>()
  #open = 0
  readonly #waiting: (() => void)[] = []
  /** For work that opens several files of a log and may come for all logs at once. */
  readonly indexSyncs = new Semaphore(PARALLEL_INDEX_SYNCS)
  /** Called when more are open than the budget allows, since all are in use: whoever can give some back should. */
  onCrowded: (() => void) | null = null

  constructor(deps: { disk: Disk; log: Logger }, options: { maxOpen: number }) {
    this.#disk = deps.disk
    this.#log = deps.log
    this.#maxOpen = options.maxOpen
  }

  /** The budget is used up, or more than that. */
  get isCrowded(): boolean {
    return this.#open >= this.#maxOpen
  }

  /** Null when one more file may be kept open; else it resolves when that may be so, and whoever waits asks again. */
  room(): Promise<void> | null {
    if (this.#hasRoom) return null
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  get #hasRoom(): boolean {
    return this.#open < 2 * this.#maxOpen || this.#idle.size > 0
  }

  get openFiles(): number {
    return this.#open
  }

  /** A writable file is made when it is missing; any other must be there. */
  file(path: string, options: { writable: boolean }): CachedFile {
    return new CachedFile(path, this, options.writable)
  }

  /** For `CachedFile` only. */
  openNow(path: string, access: 'read' | 'write'): DiskFile {
    while (this.#open >= this.#maxOpen && this.#closeOldest()) {}
    const file = this.#disk.openNow(path, access)
    this.#open++
    if (this.#open === this.#maxOpen + 1) this.onCrowded?.()
    return file
  }

  pinned(file: CachedFile): void {
    this.#idle.delete(file)
  }

  unpinned(file: CachedFile): void {
    this.#idle.add(file)
    if (this.#open > this.#maxOpen) this.#closeOldest()
    else this.#wake()
  }

  async close(file: DiskFile): Promise<void> {
    this.#open--
    this.#wake()
    try {
      await file.close()
    } catch (error) {
      this.#log.warn('storage.close_failed', `closing ${file.path} failed`, { error })
    }
  }

  /** All of them: one that was stopped meanwhile must not keep the room to itself. */
  #wake(): void {
    if (this.#waiting.length > 0 && this.#hasRoom) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #closeOldest(): boolean {
    for (const file of this.#idle) {
      void file.evict()
      return true
    }
    return false
  }
}

/** One file of a log, open or not. `acquire` opens and pins it, `release` ends the pin; they come in pairs. */
export class CachedFile {
  #path: string
  readonly #cache: HandleCache
  readonly #writable: boolean
  #file: DiskFile | null = null
  #pins = 0
  /** Set once the file was discarded: it is closed when the last pin ends and never opened again. */
  #gone = false
  #onClosed: (() => void) | null = null

  constructor(path: string, cache: HandleCache, writable: boolean) {
    this.#path = path
    this.#cache = cache
    this.#writable = writable
  }

  get path(): string {
    return this.#path
  }

  /** The file has another name. Whoever renames it holds a pin meanwhile, so nobody opens it by the old one. */
  moved(path: string): void {
    this.#path = path
  }

  /** Throws the error of the system when the file cannot be opened, CLOSED after `discard`. */
  acquire(): DiskFile {
    if (this.#gone) throw new MoonMQError('CLOSED', { what: this.path })
    if (this.#file === null) this.#file = this.#cache.openNow(this.path, this.#writable ? 'write' : 'read')
    else if (this.#pins === 0) this.#cache.pinned(this)
    this.#pins++
    return this.#file
  }

  release(): void {
    assert(this.#pins > 0, `a pin of ${this.path} is released once`)
    this.#pins--
    if (this.#pins > 0) return
    if (this.#gone) void this.evict()
    else this.#cache.unpinned(this)
  }

  /** Closes the file for good, once whoever uses it now has finished. */
  async discard(): Promise<void> {
    if (this.#gone) return
    this.#gone = true
    if (this.#file === null) return
    if (this.#pins === 0) return this.evict()
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve
    })
  }

  /** For `HandleCache`: closes the handle; the next `acquire` opens it again. */
  async evict(): Promise<void> {
    this.#cache.pinned(this)
    const file = defined(this.#file, 'an open file')
    this.#file = null
    await this.#cache.close(file)
    this.#onClosed?.()
  }
}
