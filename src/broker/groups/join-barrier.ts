const NEVER = Number.POSITIVE_INFINITY

/** How long a rebalance waits for members: never beyond its deadline, and in the first one of an empty group at least for a while. */
export class JoinBarrier {
  deadlineMs = NEVER
  #initial: { readonly delayMs: number; remainingMs: number; joinedMeanwhile: boolean } | null = null

  /** It may not open before the deadline even if everybody who is known has joined. */
  get waitsForCompany(): boolean {
    return this.#initial !== null && this.#initial.delayMs > 0
  }

  /** It is that of the first rebalance of an empty group. */
  get isInitial(): boolean {
    return this.#initial !== null
  }

  /** Waits for the members that are known, at most `timeoutMs`. */
  open(nowMs: number, timeoutMs: number): void {
    this.#initial = null
    this.deadlineMs = nowMs + timeoutMs
  }

  /** Waits `delayMs` for members that are not known yet, and again as long as some come, up to `timeoutMs` in all. */
  openForCompany(nowMs: number, timeoutMs: number, delayMs: number): void {
    this.#initial = { delayMs, remainingMs: Math.max(0, timeoutMs - delayMs), joinedMeanwhile: false }
    this.deadlineMs = nowMs + delayMs
  }

  joined(): void {
    if (this.#initial !== null) this.#initial.joinedMeanwhile = true
  }

  /** Nobody is left to wait for. */
  stopWaitingForCompany(): void {
    this.#initial = null
  }

  close(): void {
    this.#initial = null
    this.deadlineMs = NEVER
  }

  /** The deadline has passed. False: it was moved, since somebody came meanwhile. */
  isOver(nowMs: number): boolean {
    const initial = this.#initial
    if (!initial?.joinedMeanwhile || initial.remainingMs === 0) return true
    const delayMs = Math.min(initial.delayMs, initial.remainingMs)
    initial.remainingMs -= delayMs
    initial.joinedMeanwhile = false
    this.deadlineMs = nowMs + delayMs
    return false
  }
}
