import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Disk } from '../io/disk.ts'
import { isDiskFull } from '../io/system-error.ts'
import { IN_DOUBT_FILE } from './files.ts'
import { storageFull } from './space-guard.ts'
import type { LogState } from './types.ts'

/** What ended a log, and how that is told: to those who ask for records, to the operator, and to the next process. */
export class LogFault {
  readonly #disk: Disk
  readonly #log: Logger
  readonly #of: TopicPartition & { readonly folder: string }
  /** Null while nothing is wrong. */
  cause: unknown = null

  constructor(deps: { disk: Disk; log: Logger }, of: TopicPartition & { readonly folder: string }) {
    this.#disk = deps.disk
    this.#log = deps.log
    this.#of = of
  }

  /** The error for whoever wants something of a log in this state. */
  refusal(state: LogState): MoonMQError {
    if (state === 'closed') return this.because('the log is closed')
    if (isDiskFull(this.cause)) return storageFull(this.#of, this.cause)
    return this.because(this.cause instanceof Error ? this.cause.message : 'the log is not open')
  }

  because(reason: string): MoonMQError {
    const { topic, partition } = this.#of
    return new MoonMQError('STORAGE_FAILED', { topic, partition, reason }, this.cause ?? undefined)
  }

  report(): void {
    const { topic, partition } = this.#of
    const text = `the log of ${topic}-${partition} failed and takes no more records`
    this.#log.error('storage.failed', text, { topic, partition, error: this.cause })
  }

  /** For a later process, as far as the disk still takes a note: it must write again what this one could not sync. */
  leaveNote(): void {
    const { folder } = this.#of
    try {
      const note = this.#disk.openNow(`${folder}/${IN_DOUBT_FILE}`, 'write')
      note.close().catch(() => {})
    } catch (error) {
      this.#log.warn('storage.note_failed', `no note of the failure could be left in ${folder}`, { error })
    }
  }
}
