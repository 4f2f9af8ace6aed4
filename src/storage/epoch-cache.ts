import { NO_LEADER_EPOCH, NO_OFFSET } from '../core/types.ts'
import type { EpochEnd } from './types.ts'

/** A leader epoch and the offset of its first record. */
export interface EpochStart {
  readonly leaderEpoch: number
  readonly startOffset: number
}

/**
 * Which leader epoch wrote which offsets (KIP-101). Epochs and offsets both rise strictly along the list. It follows from the
 * batch headers: the file `leader-epoch-checkpoint` only saves reading them all, and what it says is compared with the headers
 * that are read anyway (`agrees`).
 */
export class EpochCache {
  #entries: EpochStart[] = []

  constructor(entries: readonly EpochStart[] = []) {
    for (const each of entries) this.assign(each.leaderEpoch, each.startOffset)
  }

  get entries(): readonly EpochStart[] {
    return this.#entries
  }

  get latest(): EpochStart | undefined {
    return this.#entries[this.#entries.length - 1]
  }

  /**
   * A batch of this epoch starts at this offset. True when that is news, which the checkpoint must hear of before a truncation
   * may rely on it. A batch that the list already accounts for changes nothing, so that a recovery may fold batches again into a list
   * that came from the file. Entries that contradict it (same or later epoch, same or later offset) go.
   */
  assign(leaderEpoch: number, startOffset: number): boolean {
    if (leaderEpoch < 0) return false
    if (this.agrees(startOffset, leaderEpoch)) return false
    while (this.#entries.length > 0) {
      const last = this.latest as EpochStart
      if (last.leaderEpoch < leaderEpoch && last.startOffset < startOffset) break
      this.#entries.pop()
    }
    this.#entries.push({ leaderEpoch, startOffset })
    return true
  }

  /** The epoch that wrote `offset`, or −1 when the list does not reach back so far. */
  epochFor(offset: number): number {
    const { latest } = this
    if (latest !== undefined && latest.startOffset <= offset) return latest.leaderEpoch
    const at = this.#lastIndex((entry) => entry.startOffset <= offset)
    return this.#entries[at]?.leaderEpoch ?? NO_LEADER_EPOCH
  }

  /** Whether a batch header read at `baseOffset` fits the list. */
  agrees(baseOffset: number, leaderEpoch: number): boolean {
    return this.epochFor(baseOffset) === leaderEpoch
  }

  /**
   * The largest epoch ≤ `leaderEpoch` and the offset after its last record. For the latest epoch that is `logEndOffset`; for one
   * above it, or −1, nothing is known: (−1, −1). Below the first known epoch, that epoch with the first start offset (KIP-279).
   * `currentEpoch`: the leader's of now, which begins at the end of the log while nothing was written in it.
   */
  endOffsetFor(leaderEpoch: number, logEndOffset: number, currentEpoch: number): EpochEnd {
    if (leaderEpoch < 0) return UNKNOWN
    const latest = Math.max(this.latest?.leaderEpoch ?? NO_LEADER_EPOCH, currentEpoch)
    if (leaderEpoch > latest) return UNKNOWN
    if (leaderEpoch === latest) return { leaderEpoch, endOffset: logEndOffset }
    const floor = this.#lastIndex((entry) => entry.leaderEpoch <= leaderEpoch)
    const endOffset = this.#entries[floor + 1]?.startOffset ?? logEndOffset
    return { leaderEpoch: this.#entries[floor]?.leaderEpoch ?? leaderEpoch, endOffset }
  }

  /** The log now ends at `endOffset`. True when something went. */
  truncateFromEnd(endOffset: number): boolean {
    const keep = this.#lastIndex((entry) => entry.startOffset < endOffset) + 1
    if (keep === this.#entries.length) return false
    this.#entries.length = keep
    return true
  }

  /** The log now starts at `startOffset`: the epoch that holds it begins there, earlier ones go. True when something changed. */
  truncateFromStart(startOffset: number): boolean {
    const at = this.#lastIndex((entry) => entry.startOffset <= startOffset)
    const holder = this.#entries[at]
    if (holder === undefined || (at === 0 && holder.startOffset === startOffset)) return false
    this.#entries = [{ leaderEpoch: holder.leaderEpoch, startOffset }, ...this.#entries.slice(at + 1)]
    return true
  }

  clear(): void {
    this.#entries = []
  }

  /** Index of the last entry for which `holds`, given that it holds for a prefix of the list; −1 when for none. */
  #lastIndex(holds: (entry: EpochStart) => boolean): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (holds(this.#entries[middle] as EpochStart)) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}

const UNKNOWN: EpochEnd = { leaderEpoch: NO_LEADER_EPOCH, endOffset: NO_OFFSET }
