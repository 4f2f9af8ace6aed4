import assert from 'node:assert/strict'
import { MoonMQError } from '../../src/core/errors.ts'
import { type BatchHeader, isControl, isTransactional, lastSequence, readBatchHeader, timestampType } from '../../src/record/batch.ts'
import type { Codecs } from '../../src/record/compression.ts'
import { RecordCursor } from '../../src/record/record.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { readEndTransaction } from '../../src/storage/producer-state.ts'
import type { ProducerEntry } from '../../src/storage/types.ts'

/** A batch as the log took it. */
export interface StoredBatch {
  readonly bytes: Buffer
  readonly header: BatchHeader
  readonly lastOffset: number
}

interface Transaction {
  readonly producerId: number
  readonly firstOffset: number
  /** Offset of the marker; null while it is open. */
  markerOffset: number | null
  isAborted: boolean
}

/** What one partition must hold, told by nothing but the batches that were appended. */
export class PartitionModel {
  readonly topicId: string
  readonly #codecs: Codecs
  batches: StoredBatch[] = []
  transactions: Transaction[] = []
  /** Everything below was acknowledged as durable. */
  acknowledged = 0
  /** Written when the process was killed: it is there until the power goes. */
  written = 0
  /** The log start may be anything from the saved one up to the wanted one. */
  savedStart = 0
  wantedStart = 0
  /** Where the truncation that is under way will end, or null. */
  truncatingTo: number | null = null

  constructor(topicId: string, codecs: Codecs) {
    this.topicId = topicId
    this.#codecs = codecs
  }

  get end(): number {
    return (this.batches.at(-1)?.lastOffset ?? -1) + 1
  }

  /** The bytes as they are after the append, offsets and epoch set. */
  add(bytes: Buffer): StoredBatch {
    const header = readBatchHeader(bytes)
    const batch = { bytes: Buffer.from(bytes), header, lastOffset: header.baseOffset + header.lastOffsetDelta }
    assert.equal(header.baseOffset, this.end, 'an append got another offset than the next one')
    this.batches.push(batch)
    this.#follow(batch)
    return batch
  }

  acknowledge(offset: number): void {
    this.acknowledged = Math.max(this.acknowledged, Math.min(offset, this.truncatingTo ?? offset))
  }

  /** The log was found to end here: what lay behind it is gone for good. */
  cutTo(end: number): void {
    if (end >= this.end) return
    this.batches = this.batches.filter((batch) => batch.header.baseOffset < end)
    assert.equal(this.end, end, 'the log ends within a batch')
    this.transactions = []
    for (const batch of this.batches) this.#follow(batch)
    this.acknowledged = Math.min(this.acknowledged, end)
    this.written = Math.min(this.written, end)
  }

  /** Where a truncation to `offset` ends: batches go whole. */
  endOfTruncation(offset: number): number {
    return this.batches.find((batch) => batch.lastOffset >= offset)?.header.baseOffset ?? this.end
  }

  batchAt(baseOffset: number): StoredBatch | undefined {
    let low = 0
    let high = this.batches.length - 1
    while (low <= high) {
      const middle = (low + high) >>> 1
      const batch = this.batches[middle] as StoredBatch
      if (batch.header.baseOffset === baseOffset) return batch
      if (batch.header.baseOffset < baseOffset) low = middle + 1
      else high = middle - 1
    }
    return undefined
  }

  openTransaction(producerId: number): Transaction | undefined {
    return this.transactions.find((each) => each.producerId === producerId && each.markerOffset === null)
  }

  lastStableOffset(highWatermark: number): number {
    let stable = highWatermark
    for (const { firstOffset, markerOffset } of this.transactions) {
      if (markerOffset === null || markerOffset >= highWatermark) stable = Math.min(stable, firstOffset)
    }
    return stable
  }

  /** As `producerId firstOffset`, in the order of their markers. */
  aborted(from: number, to: number): string[] {
    return this.transactions
      .filter((each) => each.isAborted && each.firstOffset < to && (each.markerOffset as number) >= from)
      .sort((a, b) => (a.markerOffset as number) - (b.markerOffset as number))
      .map((each) => `${each.producerId} ${each.firstOffset}`)
  }

  /** What the log must say of the producer, by its last batch with a sequence; null when none is left. */
  lastOf(producerId: number): { readonly epoch: number; readonly batch: StoredBatch | null } | null {
    let epoch = -1
    let last: StoredBatch | null = null
    for (const batch of this.batches) {
      if (batch.header.producerId !== producerId) continue
      if (batch.header.producerEpoch !== epoch) last = null
      epoch = batch.header.producerEpoch
      if (batch.header.baseSequence >= 0) last = batch
    }
    return epoch < 0 ? null : { epoch, batch: last }
  }

  /** Compares what the log knows of a producer, unless its last batch was deleted. */
  checkProducer(producerId: number, found: ProducerEntry | undefined, firstOffset: number): void {
    const expected = this.lastOf(producerId)
    const last = expected?.batch ?? null
    if (expected === null || last === null || last.header.baseOffset < firstOffset) return
    assert.ok(found !== undefined, `producer ${producerId} was forgotten`)
    assert.equal(found.producerEpoch, expected.epoch)
    const { header } = last
    const batch = found.batches.at(-1)
    assert.deepEqual(
      [batch?.baseSequence, batch?.lastSequence, batch?.baseOffset, batch?.lastOffset],
      [header.baseSequence, lastSequence(header), header.baseOffset, last.lastOffset],
      `producer ${producerId}`,
    )
    assert.equal(found.currentTxnFirstOffset, this.openTransaction(producerId)?.firstOffset ?? -1)
  }

  /** First record at or after the time in [from, limit), as Kafka finds it. */
  offsetForTimestamp(timestampMs: number, from: number, limit: number): number | null {
    for (const { bytes, header, lastOffset } of this.batches) {
      if (lastOffset < from || header.maxTimestampMs < timestampMs) continue
      if (lastOffset >= limit) return null
      if (timestampType(header) === 'LogAppendTime') return Math.max(from, header.baseOffset)
      const cursor = new RecordCursor(this.#codecs.inflateRecords(bytes, 0, header), header)
      while (cursor.next()) if (cursor.timestampMs >= timestampMs && cursor.offset >= from) return cursor.offset
    }
    return null
  }

  /**
   * Of a transaction that began in a segment that is gone, recovery without a snapshot sees what is left: a later first offset, or
   * nothing at all. Whether a record that is left was aborted does not depend on it. `knows` says what the log has.
   */
  settleDeleted(firstOffset: number, knows: (transaction: Transaction) => boolean): void {
    this.transactions = this.transactions.flatMap((transaction) => {
      if (transaction.firstOffset >= firstOffset || knows(transaction)) return [transaction]
      const { producerId, markerOffset } = transaction
      const left = this.batches.find(
        ({ header }) => header.producerId === producerId && isTransactional(header) && header.baseOffset >= firstOffset,
      )
      if (left === undefined || left.header.baseOffset >= (markerOffset ?? Number.POSITIVE_INFINITY)) return []
      return [{ ...transaction, firstOffset: left.header.baseOffset }]
    })
  }

  #follow({ bytes, header, lastOffset }: StoredBatch): void {
    if (header.producerId < 0 || !isTransactional(header)) return
    const open = this.openTransaction(header.producerId)
    if (!isControl(header)) {
      const { producerId, baseOffset: firstOffset } = header
      if (open === undefined) this.transactions.push({ producerId, firstOffset, markerOffset: null, isAborted: false })
    } else if (open !== undefined) {
      open.markerOffset = lastOffset
      open.isAborted = readEndTransaction(bytes, 0, header)?.committed === false
    }
  }
}

export function abortedOf(log: PartitionLog, from: number, to: number): string[] {
  return log.abortedTransactions(from, to).map((each) => `${each.producerId} ${each.firstOffset}`)
}

/** Rethrows what is no answer of a log that is closed, has failed or was moved. */
export function expectRefusal(error: unknown, ...more: readonly string[]): void {
  if (error instanceof MoonMQError && [...REFUSALS, ...more].includes(error.code)) return
  throw error
}

const REFUSALS = ['STORAGE_FAILED', 'STORAGE_FULL']
