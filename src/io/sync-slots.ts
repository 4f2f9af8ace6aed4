import type { SyncUrgency } from './disk.ts'

/** Counts the syncs that run. Each caller brings its own limit on the common count, since disks may have been told different ones. */
export class SyncSlots {
  #running = 0
  readonly #waiting: { limit: number; start: () => void }[] = []

  async run(limit: number, sync: () => Promise<void>, urgency: SyncUrgency = 'usual'): Promise<void> {
    const isUrgent = urgency === 'urgent'
    if (this.#running >= limit || (this.#waiting.length > 0 && !isUrgent)) {
      await new Promise<void>((start) => {
        if (isUrgent) this.#waiting.unshift({ limit, start })
        else this.#waiting.push({ limit, start })
      })
    } else this.#running++
    try {
      await sync()
    } finally {
      this.#running--
      this.#startNext()
    }
  }

  /** In order of arrival, behind what is urgent. The slot is taken before the waiter runs, so nobody slips in between. */
  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#running < next.limit; next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#running++
      next.start()
    }
  }
}
