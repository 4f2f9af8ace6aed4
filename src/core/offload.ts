/** Inflates `bytes` to at most `maxBytes`. The codec has Kafka's number. */
export interface InflateJob {
  readonly kind: 'inflate'
  readonly codec: number
  readonly bytes: Buffer
  readonly maxBytes: number
}

/** Compresses `bytes`. */
export interface DeflateJob {
  readonly kind: 'deflate'
  readonly codec: number
  readonly bytes: Buffer
}

/** Walks every record of a batch from a producer, and compresses them anew when `to` says so. */
export interface CheckJob {
  readonly kind: 'check'
  readonly bytes: Buffer
  readonly maxBytes: number
  /** Every record needs a key. */
  readonly keyed: boolean
  readonly to: { readonly codec: number; readonly level: number | undefined } | null
  /** A record with more bytes is refused; absent: however large it is. */
  readonly maxRecordBytes?: number
}

export interface CheckedRecords {
  readonly maxTimestampMs: number
  /** −1 when no record has a time. */
  readonly minTimestampMs: number
  /** The records compressed anew; null when that was not asked for. */
  readonly records: Buffer | null
}

/** The first record of a batch at or after a time and an offset. */
export interface FindJob {
  readonly kind: 'find'
  readonly bytes: Buffer
  readonly maxBytes: number
  readonly timestampMs: number
  readonly fromOffset: number
}

export interface FoundRecord {
  readonly offset: number
  readonly timestampMs: number
}

export interface OffloadResults {
  readonly inflate: Buffer
  readonly deflate: Buffer
  readonly check: CheckedRecords
  readonly find: FoundRecord | null
}

export type OffloadJob = InflateJob | DeflateJob | CheckJob | FindJob
export type OffloadResult = OffloadResults[OffloadJob['kind']]

/**
 * Work that is too long for a turn of the event loop. `io/offload` runs it on a thread of its own, one job after another, so that what
 * jobs hold at once is what one job may hold; a simulation runs it inline. Inflating stops at `maxBytes` and never takes memory beyond
 * it: INFLATED_TOO_LARGE. Damaged input is CORRUPT_BATCH or INVALID_RECORD, and OFFLOAD_FAILED says that the thread is at fault.
 */
export interface Offload {
  run<J extends OffloadJob>(job: J): Promise<OffloadResults[J['kind']]>
  /** Ends the thread; jobs that wait fail. */
  close(): Promise<void>
}

export type RunJob = (job: OffloadJob) => OffloadResult | Promise<OffloadResult>
