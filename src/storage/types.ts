import type { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import type { BatchHeader } from '../record/batch.ts'

/** Settings of one log, already resolved from topic, broker and default. Sizes in bytes, times in milliseconds. */
export interface LogConfig {
  readonly segmentBytes: number
  readonly segmentMs: number
  /** Most that is taken off `segmentMs`, another share for each segment, so that not all logs roll at once. */
  readonly segmentJitterMs: number
  /** 0 = an index entry for every batch. */
  readonly indexIntervalBytes: number
  /** Largest size of an offset index; a segment rolls when its index is full. */
  readonly indexMaxBytes: number
  /** 1 = acknowledge after the sync (the default); anything else acknowledges at once and syncs in the background. */
  readonly flushMessages: number
  readonly flushMs: number
  readonly maxMessageBytes: number
  readonly timestampType: 'CreateTime' | 'LogAppendTime'
  /** Old segments are deleted by `retentionMs` and `retentionBytes`. */
  readonly isDeleted: boolean
  /** Closed segments keep only the latest record of each key. Both may be set; with neither, everything stays. */
  readonly isCompacted: boolean
  /** −1 = no limit. */
  readonly retentionMs: number
  /** −1 = no limit. */
  readonly retentionBytes: number
  /** Between a segment leaving the log and its files going away. */
  readonly fileDeleteDelayMs: number
  /** How long compaction keeps a tombstone, and a transaction marker without data. */
  readonly deleteRetentionMs: number
  /** Share of uncompacted bytes that starts a compaction, 0 to 1. */
  readonly minCleanableDirtyRatio: number
  /** A record younger than this is safe from compaction. */
  readonly minCompactionLagMs: number
  /** A record older than this is compacted whatever the ratio says. */
  readonly maxCompactionLagMs: number
  /** Time between two looks at this log by retention and compaction; 0 = whenever the broker looks at all of them. */
  readonly cleanerIntervalMs: number
}

/**
 * The offsets of a partition (DESIGN section 5):
 * log start ≤ last stable ≤ high watermark ≤ durable ≤ log end; synced and written ≤ log end. Written is what is in the files; what the
 * journal made durable may be written later.
 */
export interface LogOffsets {
  readonly logStartOffset: number
  readonly lastStableOffset: number
  readonly highWatermark: number
  readonly durableOffset: number
  readonly syncedOffset: number
  readonly writtenOffset: number
  readonly logEndOffset: number
}

export interface AppendOptions {
  /** Put into the batch. Never lower than the epoch of an earlier batch. */
  readonly leaderEpoch: number
}

/** What an append assigned. It is durable once `whenDurable(lastOffset + 1)` resolves. */
export interface Appended {
  readonly baseOffset: number
  readonly lastOffset: number
  /** −1 where the topic keeps the producer's time. */
  readonly logAppendTimeMs: number
  readonly logStartOffset: number
}

export interface ReadRequest {
  readonly offset: number
  /** Soft: the first batch is returned whole even if larger, when `minOneBatch` is set. */
  readonly maxBytes: number
  readonly minOneBatch: boolean
  /** Nothing at or above this offset is returned: the high watermark, the last stable offset, or the log end for a follower. */
  readonly limitOffset: number
}

/** Whole batches, verbatim. Valid until `release()`, which the caller owes once. */
export interface LogRead {
  readonly buffers: readonly Buffer[]
  readonly sizeBytes: number
  /** First offset of the first batch, or the offset asked for when there is none. */
  readonly baseOffset: number
  /** Offset after the last batch returned. */
  readonly nextOffset: number
  release(): void
}

export interface AbortedTransaction {
  readonly producerId: number
  readonly firstOffset: number
}

export interface TimestampOffset {
  readonly offset: number
  readonly timestampMs: number
  readonly leaderEpoch: number
}

export interface EpochEnd {
  readonly leaderEpoch: number
  readonly endOffset: number
}

/** One of the last five batches of a producer, for recognising a resend. */
export interface ProducerBatch {
  readonly baseSequence: number
  readonly lastSequence: number
  readonly baseOffset: number
  readonly lastOffset: number
  readonly timestampMs: number
}

/** What the log knows of a producer: rebuilt from the batches, so it can never disagree with them (DESIGN D10). */
export interface ProducerEntry {
  readonly producerId: number
  readonly producerEpoch: number
  /** Oldest first, at most five. */
  readonly batches: readonly ProducerBatch[]
  readonly lastTimestampMs: number
  readonly coordinatorEpoch: number
  /** First offset of the open transaction, or −1. */
  readonly currentTxnFirstOffset: number
}

export type LogState = 'online' | 'failed' | 'closed'

/** `advance`: high watermark or last stable offset moved. `state`: it failed, was reopened or closed. `start`: log start moved. */
export type LogEvent = 'advance' | 'state' | 'start'

/** What `broker` uses of a partition's log; `PartitionLog` implements it. */
export interface Log extends LogOffsets {
  readonly topic: string
  readonly partition: number
  readonly topicId: Uuid
  readonly state: LogState
  /** Why it takes no records: what an append is refused with. Null while it takes them. */
  readonly refusal: MoonMQError | null
  readonly config: LogConfig
  /** Epoch of the last batch, or of the leader that opened it. */
  readonly leaderEpoch: number
  readonly sizeBytes: number
  readonly segmentCount: number

  /**
   * Assigns offsets at once and queues the batch; throws STORAGE_FAILED when the log is not online. The log owns `batch` from
   * here on and sets base offset, leader epoch (and append time) in place. The header was parsed and its CRC checked before.
   */
  append(batch: Buffer, header: BatchHeader, options: AppendOptions): Appended
  /** Undefined when an append has room, else resolves once half of what waits to be written is written, or the log fails. */
  ready(): Promise<void> | undefined
  /** Resolves when every offset below `offset` is durable; rejects when the log fails first. */
  whenDurable(offset: number): Promise<void>
  /** Resolves when every offset below `offset` is synced to disk, whatever `flush.messages` says. */
  whenSynced(offset: number): Promise<void>
  /** At once when the bytes are in memory. OFFSET_OUT_OF_RANGE outside log start..log end; CORRUPT_RECORDS on damage. */
  read(request: ReadRequest): LogRead | Promise<LogRead>
  /** Aborted transactions that overlap [from, to). */
  abortedTransactions(from: number, to: number): readonly AbortedTransaction[]
  producer(producerId: number): ProducerEntry | undefined
  producers(): Iterable<ProducerEntry>
  /** First record whose time is at or after `timestampMs`, below `limitOffset`; null when there is none. */
  offsetForTimestamp(timestampMs: number, limitOffset: number): Promise<TimestampOffset | null>
  /** The record with the largest timestamp; null in an empty log. */
  offsetOfMaxTimestamp(): Promise<TimestampOffset | null>
  /** Largest epoch ≤ `leaderEpoch` and the offset where it ends (KIP-101); `currentEpoch` has begun, even without a record. */
  endOffsetForEpoch(leaderEpoch: number, currentEpoch: number): EpochEnd
  /** Called after each event; several within one turn may come as one. Returns how to stop. */
  watch(listener: (event: LogEvent) => void): () => void
  reconfigure(config: LogConfig): void
  /**
   * Moves the log's start up to `offset`, at most to the high watermark: nothing below is readable from now on. Durable once the checkpoint
   * of log starts was saved; whole segments below go in the background.
   */
  advanceLogStart(offset: number): void
}
