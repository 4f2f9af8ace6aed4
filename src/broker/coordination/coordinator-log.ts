import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { MIB } from '../../core/limits.ts'
import { codecOf, isControl, isTransactional, nextOffset, readBatchHeader, verifyBatchCrc } from '../../record/batch.ts'
import { type BatchOptions, buildBatch, type NewRecord } from '../../record/builder.ts'
import { RecordCursor, type RecordHeader, recordsSection } from '../../record/record.ts'
import { readEndTransaction } from '../../storage/producer-state.ts'
import type { Log } from '../../storage/types.ts'

/** What a coordinator needs of its topic; the broker's internal topics give it. */
export interface CoordinatorTopic {
  /** Partitions of the topic; before it is made, those that it would get. */
  readonly partitionCount: number
  /** The log of a partition that was written to before, in whatever state it is; undefined: there is nothing to read. */
  existing(partition: number): Promise<Log | undefined>
  /** The log of a partition for appending. Makes topic and folder at the first call. */
  open(partition: number): Promise<Log>
  leaderEpoch(partition: number): number
}

/** What a replay meets, in the order of the log. */
export interface ReplaySink {
  /** `transaction` is the producer whose transaction the record waits for the end of; null: it holds at once. */
  record(
    key: Buffer,
    value: Buffer | null,
    timestampMs: number,
    transaction: PendingOf | null,
    offset: number,
    headers: readonly RecordHeader[],
  ): void
  ended(producerId: number, committed: boolean): void
}

export interface PendingOf {
  readonly producerId: number
  readonly producerEpoch: number
}

const READ_BYTES = MIB

/**
 * One partition of an internal topic as its coordinator writes it. Order of becoming durable: what is appended first is durable first, so
 * waiting for the last record of an entry waits for all of them.
 */
export class CoordinatorLog {
  readonly log: Log
  readonly #leaderEpoch: () => number

  constructor(log: Log, leaderEpoch: () => number) {
    this.log = log
    this.#leaderEpoch = leaderEpoch
  }

  /** Appends the records as one batch; returns the offset after them. Throws STORAGE_FAILED. */
  append(records: readonly NewRecord[], options: BatchOptions = {}): number {
    return this.appendBatch(buildBatch(records, options))
  }

  /** The same for a batch that was built already, a transaction's marker say. */
  appendBatch(batch: Buffer): number {
    return this.log.append(batch, readBatchHeader(batch), { leaderEpoch: this.#leaderEpoch() }).lastOffset + 1
  }

  /** Undefined when everything below `offset` is durable already. */
  whenDurable(offset: number): Promise<void> | undefined {
    return this.log.durableOffset >= offset ? undefined : this.log.whenDurable(offset)
  }

  /**
   * Reads everything, in order. Goes back to the event loop between reads, so a long log does not hold up other work. Throws
   * CORRUPT_BATCH and what the log throws.
   */
  async replay(clock: Clock, sink: ReplaySink, signal: AbortSignal): Promise<void> {
    const end = this.log.logEndOffset
    await this.whenDurable(end)
    let offset = this.log.logStartOffset
    while (offset < end) {
      const read = await this.log.read({ offset, maxBytes: READ_BYTES, minOneBatch: true, limitOffset: end })
      try {
        if (read.sizeBytes === 0) return
        replayBatches(read.buffers.length === 1 ? (read.buffers[0] as Buffer) : Buffer.concat(read.buffers), sink)
        offset = read.nextOffset
      } finally {
        read.release()
      }
      if (signal.aborted) throw new MoonMQError('ABORTED')
      await new Promise<void>((resolve) => clock.defer(resolve))
    }
  }
}

function replayBatches(bytes: Buffer, sink: ReplaySink): void {
  let position = 0
  while (position < bytes.length) {
    const header = readBatchHeader(bytes, position)
    verifyBatchCrc(bytes, position, header)
    if (codecOf(header) !== 0) {
      throw new MoonMQError('CORRUPT_BATCH', { reason: `the coordinator never compresses; the batch before ${nextOffset(header)} is` })
    }
    if (isControl(header)) {
      const marker = readEndTransaction(bytes, position, header)
      if (marker !== null) sink.ended(header.producerId, marker.committed)
    } else {
      const { producerId, producerEpoch } = header
      const transaction = isTransactional(header) ? { producerId, producerEpoch } : null
      const cursor = new RecordCursor(recordsSection(bytes, position, header), header)
      while (cursor.next()) {
        const key = cursor.key()
        if (key !== null) sink.record(key, cursor.value(), cursor.timestampMs, transaction, cursor.offset, cursor.headers())
      }
    }
    position += header.sizeBytes
  }
}
