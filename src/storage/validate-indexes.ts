import { MoonMQError } from '../core/errors.ts'
import { readInt64 } from '../core/int64.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from './offset-index.ts'
import type { CompletedTransaction } from './producer-state.ts'
import { TIME_INDEX_ENTRY_BYTES } from './time-index.ts'
import { type AbortedTxnEntry, decodeTxnIndex, TXN_INDEX_ENTRY_BYTES } from './txn-index.ts'

/** The first thing wrong with an index: later entries cannot be judged by then. */
export interface IndexFault {
  readonly position: number
  readonly reason: string
}

/** Compares the bytes of an `.index` with the batches of its segment as a scan meets them, in order. */
export class OffsetIndexCheck {
  readonly #bytes: Buffer
  readonly #baseOffset: number
  #at = 0
  fault: IndexFault | null = null

  constructor(bytes: Buffer, baseOffset: number) {
    this.#bytes = bytes
    this.#baseOffset = baseOffset
    const rest = bytes.length % OFFSET_INDEX_ENTRY_BYTES
    if (rest !== 0)
      this.fault = { position: bytes.length - rest, reason: `${rest} bytes are left, an entry has ${OFFSET_INDEX_ENTRY_BYTES}` }
  }

  batch(lastOffset: number, position: number): void {
    if (this.fault !== null || this.#at === this.#bytes.length) return
    const entry = this.#entry()
    if (entry.position > position) return
    if (entry.position < position) this.#fail(`the entry points at byte ${entry.position}, where no batch begins`)
    else if (entry.lastOffset !== lastOffset) {
      this.#fail(`the entry says offset ${entry.lastOffset}, the batch at byte ${position} ends at ${lastOffset}`)
    } else this.#at += OFFSET_INDEX_ENTRY_BYTES
  }

  finish(): void {
    if (this.fault !== null || this.#at === this.#bytes.length) return
    this.#fail(`the entry points at byte ${this.#entry().position}, the last batch begins before it`)
  }

  #entry(): { lastOffset: number; position: number } {
    const bytes = this.#bytes
    return { lastOffset: this.#baseOffset + bytes.readUInt32BE(this.#at), position: bytes.readUInt32BE(this.#at + 4) }
  }

  #fail(reason: string): void {
    this.fault = { position: this.#at, reason }
  }
}

/** The same for a `.timeindex`: both columns rise, and each entry is true of the batch that it names. */
export class TimeIndexCheck {
  readonly #bytes: Buffer
  readonly #baseOffset: number
  #at = 0
  #maxTimestampMs = -1
  fault: IndexFault | null = null

  constructor(bytes: Buffer, baseOffset: number) {
    this.#bytes = bytes
    this.#baseOffset = baseOffset
    const rest = bytes.length % TIME_INDEX_ENTRY_BYTES
    if (rest !== 0) this.fault = { position: bytes.length - rest, reason: `${rest} bytes are left, an entry has ${TIME_INDEX_ENTRY_BYTES}` }
  }

  batch(lastOffset: number, timestampMs: number): void {
    const isLargest = timestampMs > this.#maxTimestampMs
    if (isLargest) this.#maxTimestampMs = timestampMs
    if (this.fault !== null || this.#at === this.#bytes.length) return
    const entry = this.#entry(this.#at)
    if (entry.lastOffset > lastOffset) return
    if (entry.lastOffset < lastOffset) this.#fail(`the entry names offset ${entry.lastOffset}, where no batch ends`)
    else if (entry.timestampMs !== timestampMs || !isLargest) {
      this.#fail(`the entry says ${entry.timestampMs} is the largest time up to offset ${lastOffset}; it is ${this.#maxTimestampMs}`)
    } else this.#at += TIME_INDEX_ENTRY_BYTES
  }

  /** `isClosed`: the segment's index was ended, so that its last entry tells the largest time of the segment. */
  finish(isClosed: boolean): void {
    if (this.fault !== null) return
    if (this.#at < this.#bytes.length) {
      this.#fail(`the entry names offset ${this.#entry(this.#at).lastOffset}, the log ends before it`)
    } else if (isClosed && this.#maxTimestampMs >= 0) {
      const last = this.#at === 0 ? -1 : this.#entry(this.#at - TIME_INDEX_ENTRY_BYTES).timestampMs
      if (last !== this.#maxTimestampMs)
        this.#fail(`the last entry says ${last}, the largest time of the segment is ${this.#maxTimestampMs}`)
    }
  }

  #entry(at: number): { timestampMs: number; lastOffset: number } {
    return { timestampMs: readInt64(this.#bytes, at), lastOffset: this.#baseOffset + this.#bytes.readUInt32BE(at + 8) }
  }

  #fail(reason: string): void {
    this.fault = { position: this.#at, reason }
  }
}

/**
 * Compares a `.txnindex` with the aborted transactions that the batches gave. Transactions that began before `scannedFrom` are known
 * by their markers only, so entries for them are believed.
 */
export function checkTxnIndex(
  bytes: Buffer,
  place: { file: string; baseOffset: number; scannedFrom: number },
  aborted: readonly CompletedTransaction[],
): IndexFault | null {
  let entries: AbortedTxnEntry[]
  try {
    entries = decodeTxnIndex(bytes, { ...place, position: 0 }, undefined)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    return { position: Number(error.details.position), reason: String(error.details.reason) }
  }
  let at = 0
  for (const [index, entry] of entries.entries()) {
    const expected = aborted[at]
    const isSameEnd = expected?.producerId === entry.producerId && expected.lastOffset === entry.lastOffset
    // Where a transaction began may be told by batches that are gone.
    if (isSameEnd && (expected.firstOffset === entry.firstOffset || entry.firstOffset < place.scannedFrom)) at++
    else if (entry.firstOffset >= place.scannedFrom) {
      const what = `producer ${entry.producerId} from ${entry.firstOffset} to ${entry.lastOffset}`
      return {
        position: index * TXN_INDEX_ENTRY_BYTES,
        reason: `the entry tells of an aborted transaction of ${what} that the log does not have`,
      }
    }
  }
  const missing = aborted[at]
  if (missing === undefined) return null
  const reason = `the transaction of producer ${missing.producerId} that was aborted at offset ${missing.lastOffset} has no entry`
  return { position: bytes.length, reason }
}
