import type { Clock, Timer } from '../core/clock.ts'
import { type Metrics, NO_METRICS } from '../core/counters.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { Serial } from '../core/serial.ts'
import type { Resource, TopicPartition } from '../core/types.ts'
import type { Disk } from '../io/disk.ts'
import { systemReason } from '../io/system-error.ts'
import { RESERVE_FILE } from './files.ts'

export interface SpaceGuardOptions {
  readonly dataFolder: string
  /** Space that ordinary topics leave alone; by default a sixteenth of the volume, at most 64 MiB. */
  readonly keptBytes?: number
}

const KEPT_SHARE = 16
const KEPT_BYTES_MAX = 64 * 1024 * 1024
const RESERVE_BYTES_MAX = 4 * 1024 * 1024
/** Appends between two looks, where there is room for more. */
const LOOK_BYTES_MIN = 64 * 1024
const LOOK_MS = 10_000
const LOOK_WHEN_LOW_MS = 500

/**
 * Keeps a full disk from stopping what would free it. Ordinary topics take no more records while less than a part of the volume is
 * free; commits, metadata, deletions, indexes and checkpoints go on in what is left. Should somebody else fill the disk to the brim,
 * a file of zeros is there to be given up for them. Between two looks at the volume it counts what was appended, so no burst of
 * records gets past it.
 */
export class SpaceGuard implements Resource {
  readonly #deps: { readonly disk: Disk; readonly clock: Clock; readonly log: Logger }
  readonly #folder: string
  /** Called when it becomes so that ordinary topics take no records. */
  onLow: (() => void) | null = null
  readonly #keptBytesGiven: number | null
  readonly #looks = new Serial()
  #keptBytes = 0
  #freeBytes = Number.POSITIVE_INFINITY
  /** Bytes that logs were given since the start, when the volume was looked at last, and when that is due again. */
  #appended = 0
  #appendedAtLook = 0
  #lookDueAt = Number.POSITIVE_INFINITY
  #isLow = false
  #hasReserve = false
  #isLooking = false
  #timer: Timer | null = null
  #isClosed = false
  readonly #stopObserving: () => void

  private constructor(deps: { disk: Disk; clock: Clock; log: Logger; metrics?: Metrics }, options: SpaceGuardOptions) {
    this.#deps = deps
    this.#folder = options.dataFolder
    this.#keptBytesGiven = options.keptBytes ?? null
    this.#stopObserving = (deps.metrics ?? NO_METRICS).observed('moonmq_storage_free_bytes', () => this.#freeBytes)
  }

  /** Looks at the volume of the data folder, which exists and is locked. A volume that does not tell its space is not guarded. */
  static async open(deps: { disk: Disk; clock: Clock; log: Logger; metrics?: Metrics }, options: SpaceGuardOptions): Promise<SpaceGuard> {
    const guard = new SpaceGuard(deps, options)
    guard.#hasReserve = (await deps.disk.stat(guard.#reservePath)) !== null
    await guard.#looks.run(() => guard.#look())
    guard.#lookLater()
    return guard
  }

  /** Ordinary topics take no records. */
  get isLow(): boolean {
    return this.#isLow || this.#leftBytes < this.#keptBytes
  }

  get freeBytes(): number {
    return this.#freeBytes
  }

  get #leftBytes(): number {
    return this.#freeBytes - (this.#appended - this.#appendedAtLook)
  }

  get #reservePath(): string {
    return `${this.#folder}/${RESERVE_FILE}`
  }

  /** Whether a log may be given so many bytes. `usesReserve`: it keeps what the broker needs to go on, and always may. */
  admit(bytes: number, usesReserve: boolean): boolean {
    if (this.isLow && !usesReserve) return false
    this.#appended += bytes
    if (this.#appended >= this.#lookDueAt) this.lookSoon()
    return true
  }

  /** A write found no space, or is about to be made that must not fail: the volume is looked at, and the reserve given up if it has to be. */
  async makeRoom(): Promise<void> {
    await this.#looks.run(() => this.#look())
  }

  lookSoon(): void {
    if (this.#isLooking || this.#isClosed) return
    this.#isLooking = true
    // Failures are logged by the look itself.
    void this.#looks.run(() => this.#look())
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#stopObserving()
    await this.#looks.idle()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const { disk, log } = this.#deps
    this.#isLooking = true
    // What is appended while the system counts may be in its number or not: it counts as not.
    const appended = this.#appended
    try {
      const { freeBytes, totalBytes } = await disk.space(this.#folder)
      this.#freeBytes = freeBytes
      this.#appendedAtLook = appended
      this.#keptBytes = this.#keptBytesGiven ?? Math.min(KEPT_BYTES_MAX, Math.floor(totalBytes / KEPT_SHARE))
      await this.#keepReserve(freeBytes, Math.min(RESERVE_BYTES_MAX, Math.floor(this.#keptBytes / 4)))
    } catch (error) {
      log.warn('storage.space_unknown', `the space of ${this.#folder} could not be told: ${systemReason(error)}`)
      this.#freeBytes = Number.POSITIVE_INFINITY
    } finally {
      this.#isLooking = false
    }
    this.#lookDueAt = this.#appendedAtLook + Math.max(LOOK_BYTES_MIN, (this.#freeBytes - this.#keptBytes) / 2)
    this.#judge()
  }

  /** Half of what is kept must come free before records are taken again: a disk at the limit does not flap. */
  #judge(): void {
    const { log } = this.#deps
    const isLow = this.#leftBytes < (this.#isLow ? this.#keptBytes * 1.5 : this.#keptBytes)
    if (isLow === this.#isLow) return
    this.#isLow = isLow
    const fields = { freeBytes: this.#freeBytes, keptBytes: this.#keptBytes }
    if (isLow) {
      log.error(
        'storage.space_low',
        `${this.#folder} has less than ${this.#keptBytes} bytes left: topics take no records until there is space`,
        fields,
      )
      this.onLow?.()
    } else log.warn('storage.space_back', `${this.#folder} has space again: topics take records`, fields)
    this.#lookLater()
  }

  async #keepReserve(freeBytes: number, reserveBytes: number): Promise<void> {
    const { disk, log } = this.#deps
    if (this.#hasReserve && freeBytes < reserveBytes) {
      await disk.removeFile(this.#reservePath)
      this.#hasReserve = false
      this.#freeBytes = (await disk.space(this.#folder)).freeBytes
      log.warn('storage.reserve_given_up', `the disk of ${this.#folder} is full; the file that was kept for that is given up`, {
        freeBytes,
      })
      return
    }
    if (this.#hasReserve || !Number.isFinite(freeBytes) || freeBytes < this.#keptBytes * 2 || reserveBytes === 0) return
    const file = await disk.open(this.#reservePath, 'write')
    try {
      await file.write([Buffer.alloc(reserveBytes)], 0)
      this.#hasReserve = true
      this.#freeBytes -= reserveBytes
    } finally {
      await file.close()
    }
  }

  #lookLater(): void {
    this.#timer?.cancel()
    if (this.#isClosed) return
    this.#timer = this.#deps.clock.setTimer(this.#isLow ? LOOK_WHEN_LOW_MS : LOOK_MS, () => {
      this.lookSoon()
      this.#lookLater()
    })
  }
}

export function storageFull({ topic, partition }: TopicPartition, cause?: unknown): MoonMQError {
  return new MoonMQError('STORAGE_FULL', { topic, partition }, cause ?? undefined)
}
