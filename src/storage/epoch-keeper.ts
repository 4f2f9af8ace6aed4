import { Serial } from '../core/serial.ts'
import type { Disk } from '../io/disk.ts'
import type { EpochStart } from './epoch-cache.ts'
import { writeEpochCheckpoint } from './epoch-checkpoint.ts'
import type { GroupCommit } from './group-commit.ts'
import type { JournalItem } from './journal.ts'
import type { JournalOwner } from './journal-format.ts'
import type { SmallFile } from './sync-target.ts'

export interface EpochKeeperHost {
  readonly owner: JournalOwner
  readonly folder: string
  /** As they are now. */
  entries(): readonly EpochStart[]
}

/**
 * Sees to it that the leader epoch checkpoint of one log is durable before a batch of a new epoch is written. Where many logs begin an
 * epoch at once the journal holds it first, and the file follows: before the journal lets go of it, and before the file is read again.
 */
export class EpochKeeper implements SmallFile {
  readonly #disk: Disk
  readonly #commit: GroupCommit
  readonly #host: EpochKeeperHost
  readonly #serial = new Serial()
  /** Changes of the list; how many of them are durable in the file, and how many in the file or the journal. */
  #changes = 0
  #stored = 0
  #saved = 0
  #isGone = false
  /** Whether there may be a file. One that is missing is made again from the batches, one that is old contradicts them. */
  #mayBeOnDisk = false

  constructor(deps: { disk: Disk; commit: GroupCommit }, host: EpochKeeperHost) {
    this.#disk = deps.disk
    this.#commit = deps.commit
    this.#host = host
  }

  changed(): void {
    this.#changes++
  }

  /** The file does not say yet what the list says. */
  get isBehind(): boolean {
    return this.#stored < this.#changes
  }

  /** What must be durable before the next write, or null when nothing is. */
  beforeWrite(): Promise<void> | null {
    if (this.#saved === this.#changes) return null
    this.#saved = this.#changes
    return this.#commit.save(this)
  }

  takeForJournal(): JournalItem {
    const { owner } = this.#host
    const entry = { kind: 'epochs', owner, epochs: [...this.#host.entries()] } as const
    return { entry, member: this, upTo: this.#changes, isGone: () => this.#isGone }
  }

  /** Writes the file; durable when it resolves. Returns up to which change. */
  store(): Promise<number> {
    return this.#serial.run(async () => {
      const changes = this.#changes
      if (this.#isGone || this.#stored === changes) return changes
      this.#mayBeOnDisk = true
      await writeEpochCheckpoint(this.#disk, this.#host.folder, this.#host.entries())
      this.#stored = changes
      this.#saved = Math.max(this.#saved, changes)
      return changes
    })
  }

  /** Before the file is read again: what only the journal has goes into it. */
  async settleSaved(): Promise<void> {
    if (this.#saved > this.#stored) await this.settle()
  }

  /** At the end. */
  async settle(): Promise<void> {
    if (this.isBehind) this.#commit.release(this, await this.store())
  }

  /** At the end, when a summary says them to the next start and all batches are durable: a first file is not worth two syncs. */
  async leave(): Promise<void> {
    if (this.#mayBeOnDisk) await this.settle()
    else this.#commit.release(this, this.#changes)
  }

  /** The file was read, or written by recovery: it says what the list says. */
  restart(mayBeOnDisk: boolean): void {
    this.#mayBeOnDisk = mayBeOnDisk
    this.#stored = this.#changes
    this.#saved = this.#changes
    this.#commit.release(this, this.#changes)
  }

  /** The log is deleted. */
  abandon(): void {
    this.#isGone = true
    this.#commit.release(this, Number.POSITIVE_INFINITY)
  }
}
