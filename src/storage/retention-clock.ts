const DAY_MS = 86_400_000

/** What survives a restart. */
export interface ClockState {
  /** The wall clock when it was looked at last. */
  readonly wallMs: number
  /** As much of it as was believed. */
  readonly believedMs: number
  /** Time that is known to have passed since the first look. */
  readonly steadyMs: number
}

export interface ClockLook {
  /** The time by which records are old. Never ahead of the wall clock. */
  readonly nowMs: number
  readonly steadyMs: number
  /** How far the wall clock is from what is believed; above 0 when it is ahead. */
  readonly doubtMs: number
  /** How far the wall clock moved on its own since the last look, without time passing. */
  readonly jumpMs: number
}

/** The longest stop of a broker that is believed at once. A longer one may as well be a clock that was set wrong. */
const MAX_GAP_MS = DAY_MS

/**
 * The time that retention goes by. A wall clock that jumps ahead by ten years must not delete what was written a minute ago, and one that
 * jumps back must not keep data for ever. So the wall clock is believed only as far as time passed on the monotonic one; what it is ahead
 * of that is made up for at double speed: while retention catches up it deletes at most twice as fast as it would have, never all at once.
 * A wall clock that is behind is taken as it is, which deletes less, and what was believed stands still until it has caught up. Over a
 * restart, up to a day is believed to have passed. Pure: times come in, times come out.
 */
export class RetentionClock {
  #believedMs: number
  #steadyMs: number
  #wallMs: number
  #monotonicMs: number
  #first: ClockLook | null

  constructor(before: ClockState | null, wallMs: number, monotonicMs: number) {
    const gapMs = before === null ? 0 : wallMs - before.wallMs
    const passedMs = Math.min(Math.max(0, gapMs), MAX_GAP_MS)
    this.#believedMs = before === null ? wallMs : before.believedMs + passedMs
    this.#steadyMs = (before?.steadyMs ?? 0) + passedMs
    this.#wallMs = wallMs
    this.#monotonicMs = monotonicMs
    this.#first = this.#shown(gapMs - passedMs)
  }

  look(wallMs: number, monotonicMs: number): ClockLook {
    const passedMs = Math.max(0, monotonicMs - this.#monotonicMs)
    // What was noticed at the start is told by the first look.
    const jumpMs = (this.#first?.jumpMs ?? 0) + wallMs - this.#wallMs - passedMs
    this.#first = null
    this.#steadyMs += passedMs
    const isBehind = wallMs < this.#believedMs + passedMs
    const reachedMs = isBehind ? Math.max(this.#believedMs, wallMs) : Math.min(wallMs, this.#believedMs + 2 * passedMs)
    this.#believedMs = reachedMs
    this.#wallMs = wallMs
    this.#monotonicMs = monotonicMs
    return this.#shown(jumpMs)
  }

  get state(): ClockState {
    return { wallMs: this.#wallMs, believedMs: this.#believedMs, steadyMs: this.#steadyMs }
  }

  #shown(jumpMs: number): ClockLook {
    return {
      nowMs: Math.min(this.#believedMs, this.#wallMs),
      steadyMs: this.#steadyMs,
      doubtMs: this.#wallMs - this.#believedMs,
      jumpMs,
    }
  }
}
