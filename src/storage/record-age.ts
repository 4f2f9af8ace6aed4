/** How far ahead of the broker's clock the time of a record may lie and still be believed; Kafka's default bound on what is accepted. */
export const MAX_AHEAD_MS = 3_600_000
/** 2000-01-01. No record broker ran before: an earlier time is seconds taken for milliseconds, a zero, or a clock that was never set. */
export const EARLIEST_MS = 946_684_800_000

/** Whether a time may be the one at which a record was written. */
export function isPlausibleTime(timestampMs: number, nowMs: number): boolean {
  return timestampMs >= EARLIEST_MS && timestampMs <= nowMs + MAX_AHEAD_MS
}

/** What is known of when the newest record of a segment was written. */
export interface SegmentTimes {
  /** Largest timestamp of its records; negative when they have none. */
  readonly largestMs: number
  /** When the broker wrote the file last, by the wall clock of that moment. */
  readonly appendedMs: number
}

/**
 * Age of the newest record: by its own time, which is never later than the broker wrote it; where that time is impossible (the future,
 * microseconds, none at all) by when the broker wrote the file. Null when both are impossible: then only how long the broker has known the
 * segment can tell.
 */
export function ageOf(times: SegmentTimes, nowMs: number): number | null {
  const { largestMs, appendedMs } = times
  const isAppendKnown = isPlausibleTime(appendedMs, nowMs)
  if (!isPlausibleTime(largestMs, nowMs)) return isAppendKnown ? nowMs - appendedMs : null
  return nowMs - (isAppendKnown ? Math.min(largestMs, appendedMs + MAX_AHEAD_MS) : largestMs)
}

/** Stamps of one log. They do not go back when the clock is corrected; a clock that was wrong by more than an hour is followed. */
export class AppendClock {
  #lastMs = Number.NEGATIVE_INFINITY

  stamp(nowMs: number): number {
    const isCorrection = nowMs < this.#lastMs && this.#lastMs - nowMs <= MAX_AHEAD_MS
    if (!isCorrection) this.#lastMs = nowMs
    return this.#lastMs
  }
}
