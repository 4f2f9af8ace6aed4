import type { Logger } from '../core/logger.ts'
import type { Disk } from '../io/disk.ts'
import type { Journal } from './journal.ts'
import { removeJournalNote } from './journal-note.ts'
import type { PartitionLog } from './partition-log.ts'

/**
 * A journal that was in use is not there. Which logs it held the end of nobody knows, after a kill too, since the files get their bytes
 * later; so each one that is opened is named with the end that is left of it. Until all were named the note stays, so that a start that dies meanwhile hides nothing, and no
 * other journal is begun.
 */
export class LostJournal {
  readonly #deps: { disk: Disk; log: Logger; journal: Journal }
  readonly #folder: string
  readonly #reason: string
  readonly #mayEnd: boolean

  constructor(deps: { disk: Disk; log: Logger; journal: Journal }, options: { folder: string; reason: string; mayEnd: boolean }) {
    this.#deps = deps
    this.#folder = options.folder
    this.#reason = options.reason
    this.#mayEnd = options.mayEnd
    deps.journal.isKept = true
  }

  /** What recovery found of a log is all that there is. */
  report({ folder, logEndOffset }: PartitionLog, recoveryPoint: number): void {
    const text = `${folder} ends at offset ${logEndOffset}; whether records were acknowledged behind it nobody knows: the journal is lost (${this.#reason})`
    this.#deps.log.error('storage.end_unknown', text, { folder, logEndOffset, recoveryPoint })
  }

  /** Every log was named. Unless the next start has to look at what is left of the journal again, another one may take its place. */
  async settle(): Promise<void> {
    if (!this.#mayEnd) return
    await removeJournalNote(this.#deps.disk, this.#folder)
    this.#deps.journal.isKept = false
  }
}
