import type { Clock, Timer } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { TopicPartition } from '../core/types.ts'
import { directoryOf } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { isDiskFull, systemCode } from '../io/system-error.ts'
import type { PartitionLog } from './partition-log.ts'
import type { SpaceGuard } from './space-guard.ts'

const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 30_000
/** A full disk counts as having space again when this much can be written and synced. */
const PROBE_BYTES = 1024 * 1024
/** For a log that may use what is left of the reserve. */
const RESERVE_PROBE_BYTES = 64 * 1024
const PROBE_NAME = 'moonmq-space-probe.tmp'

/**
 * Decides what becomes of a log that failed (DESIGN D5). A full disk: tried again until there is space. A device error, or files that somebody removed:
 * offline until a restart verifies what is there. Anything else, such as a short write: opened again by recovery. Each time the leader epoch rises first.
 */
export class Reopener {
  readonly #disk: Disk
  readonly #clock: Clock
  readonly #log: Logger
  readonly #failpoint: Failpoint
  readonly #space: SpaceGuard | null
  readonly #timers = new Map<PartitionLog, Timer>()
  readonly #running = new Set<Promise<void>>()
  readonly #full = new Set<PartitionLog>()
  #isClosed = false
  nextLeaderEpoch: ((partition: TopicPartition) => Promise<number>) | null = null

  constructor(deps: { disk: Disk; clock: Clock; log: Logger; failpoint: Failpoint; space: SpaceGuard | null }) {
    this.#disk = deps.disk
    this.#clock = deps.clock
    this.#log = deps.log
    this.#failpoint = deps.failpoint
    this.#space = deps.space
  }

  /** Whether a log is down because the disk is full. */
  get isWaitingForSpace(): boolean {
    return this.#full.size > 0
  }

  failed(log: PartitionLog, error: unknown): void {
    const code = systemCode(error)
    if (code === 'EIO' || code === 'EROFS' || code === 'ENOENT') {
      this.#log.error('storage.offline', `${log.folder} stays offline until a restart has verified it`, { code })
      return
    }
    this.#schedule(log, FIRST_RETRY_MS)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    await Promise.all(this.#running)
  }

  #schedule(log: PartitionLog, delayMs: number): void {
    this.#full.delete(log)
    if (this.#isClosed || log.state !== 'failed') return
    if (isDiskFull(log.failure)) this.#full.add(log)
    const timer = this.#clock.setTimer(delayMs, () => {
      this.#timers.delete(log)
      const run = this.#try(log, delayMs)
      this.#running.add(run)
      void run.then(() => this.#running.delete(run))
    })
    this.#timers.set(log, timer)
  }

  /** Never rejects. */
  async #try(log: PartitionLog, delayMs: number): Promise<void> {
    try {
      if (this.nextLeaderEpoch === null) return
      await this.#expectSpace(log)
      const leaderEpoch = await this.nextLeaderEpoch({ topic: log.topic, partition: log.partition })
      this.#failpoint('log.reopen.epoch-raised')
      await log.reopen(leaderEpoch)
      this.#full.delete(log)
      this.#log.warn('storage.reopened', `${log.folder} is open again`, { leaderEpoch, logEndOffset: log.logEndOffset })
    } catch (error) {
      if (isCode(error, 'DATA_DAMAGED') || systemCode(error) === 'EIO') {
        this.#full.delete(log)
        this.#log.error('storage.offline', `${log.folder} stays offline until a restart has verified it`, { error })
        return
      }
      this.#log.warn('storage.reopen_failed', `${log.folder} could not be opened again yet`, { error })
      this.#schedule(log, Math.min(MAX_RETRY_MS, delayMs * 2))
    }
  }

  async #expectSpace({ folder, topic, partition, usesReserve }: PartitionLog): Promise<void> {
    if (this.#space !== null) {
      await this.#space.makeRoom()
      if (this.#space.isLow && !usesReserve) throw new MoonMQError('STORAGE_FULL', { topic, partition })
    }
    // The first write makes the folder, so when that failed there is none.
    const place = this.#disk.statNow(folder) === null ? directoryOf(folder) : folder
    const path = `${place}/${PROBE_NAME}`
    const bytes = usesReserve ? RESERVE_PROBE_BYTES : PROBE_BYTES
    try {
      const file = await this.#disk.open(path, 'write')
      try {
        await file.write([Buffer.alloc(bytes)], 0)
        await file.datasync()
      } finally {
        await file.close()
      }
    } finally {
      await this.#disk.removeFile(path)
    }
  }
}
