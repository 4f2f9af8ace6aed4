import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { NO_OFFSET } from '../core/types.ts'
import { ATTRIBUTE, addSequence, type BatchHeader, isControl, lastSequence } from '../record/batch.ts'
import { readControlKind, readCoordinatorEpoch } from '../record/control.ts'
import { RecordCursor, recordsSection } from '../record/record.ts'
import type { ProducerBatch, ProducerEntry } from './types.ts'

/** Batches of a producer that are remembered for recognising a resend (Kafka: `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`). */
export const PRODUCER_BATCHES_KEPT = 5

/**
 * Where a batch of an idempotent producer stands: null when it is to be appended, the stored batch when it is a resend of one of
 * the last five. Pure; nothing may be awaited between this call and the append. A producer that is not known may start with any
 * sequence, since its earlier batches may have been deleted; a higher epoch starts at 0 (Kafka, `ProducerAppendInfo`).
 * Throws INVALID_PRODUCER_EPOCH and OUT_OF_ORDER_SEQUENCE. A batch older than the five is out of order, not a duplicate: that it
 * was stored cannot be shown any more.
 */
export function checkSequence(entry: ProducerEntry | undefined, header: BatchHeader): ProducerBatch | null {
  if (header.baseSequence < 0) throw new MoonMQError('INVALID_RECORD', { reason: `base sequence ${header.baseSequence} is negative` })
  if (entry === undefined) return null
  const { producerId, producerEpoch, baseSequence } = header
  if (producerEpoch < entry.producerEpoch) {
    throw new MoonMQError('INVALID_PRODUCER_EPOCH', { epoch: producerEpoch, producerId, current: entry.producerEpoch })
  }
  if (producerEpoch > entry.producerEpoch) {
    if (baseSequence !== 0) throw new MoonMQError('OUT_OF_ORDER_SEQUENCE', { sequence: baseSequence, producerId, expected: 0 })
    return null
  }
  const endSequence = lastSequence(header)
  for (let index = entry.batches.length - 1; index >= 0; index--) {
    const batch = entry.batches[index] as ProducerBatch
    if (batch.baseSequence === baseSequence && batch.lastSequence === endSequence) return batch
  }
  const expected = nextSequence(entry, producerEpoch)
  if (baseSequence !== expected) throw new MoonMQError('OUT_OF_ORDER_SEQUENCE', { sequence: baseSequence, producerId, expected })
  return null
}

/** What a batch of this producer and epoch would begin with now. */
export function nextSequence(entry: ProducerEntry | undefined, producerEpoch: number): number {
  if (entry === undefined || entry.producerEpoch !== producerEpoch) return 0
  const last = entry.batches[entry.batches.length - 1]
  return last === undefined ? 0 : addSequence(last.lastSequence, 1)
}

/** What the control record of an EndTxn marker says (key type, value). */
export interface EndTransaction {
  readonly committed: boolean
  readonly coordinatorEpoch: number
}

/**
 * The marker in the batch at `position`, or null when the batch is none. Markers are never compressed. Throws INVALID_RECORD when the
 * batch says it is a control batch of a producer and its record is not one.
 */
export function readEndTransaction(batch: Buffer, position: number, header: BatchHeader): EndTransaction | null {
  if (!isControl(header) || header.producerId < 0) return null
  const cursor = new RecordCursor(recordsSection(batch, position, header), header)
  if (!cursor.next()) return null
  const kind = readControlKind(cursor.key())
  if (kind !== 'commit' && kind !== 'abort') return null
  return { committed: kind === 'commit', coordinatorEpoch: readCoordinatorEpoch(cursor.value()) }
}

/** A transaction that a marker ended. An aborted one goes into the transaction index of the marker's segment. */
export interface CompletedTransaction {
  readonly producerId: number
  readonly firstOffset: number
  /** Offset of the marker. */
  readonly lastOffset: number
  readonly aborted: boolean
  /** Last stable offset once the marker is below the high watermark. */
  readonly lastStableOffset: number
}

class Producer implements ProducerEntry {
  readonly producerId: number
  producerEpoch: number
  batches: ProducerBatch[] = []
  lastTimestampMs = -1
  coordinatorEpoch = -1
  currentTxnFirstOffset = NO_OFFSET
  touchedMs: number

  constructor(producerId: number, producerEpoch: number, touchedMs: number) {
    this.producerId = producerId
    this.producerEpoch = producerEpoch
    this.touchedMs = touchedMs
  }

  moveToEpoch(producerEpoch: number): void {
    if (this.producerEpoch === producerEpoch) return
    this.producerEpoch = producerEpoch
    this.batches = []
  }
}

export interface ProducerStateOptions {
  /** A producer without an open transaction is forgotten after this long without a batch (`producer.id.expiration.ms`). */
  readonly expirationMs: number
  /** Producers that one partition remembers. Beyond it the longest idle tenth goes, never one with an open transaction. */
  readonly maxProducers: number
}

export const DEFAULT_PRODUCER_STATE: ProducerStateOptions = { expirationMs: 86_400_000, maxProducers: 100_000 }

/**
 * Producers and open transactions of one partition, folded from its batches in offset order, so it can never disagree with the
 * log (DESIGN D10). The same calls serve appending and recovery. All synchronous; no disk.
 */
export class ProducerState {
  readonly #clock: Clock
  readonly #options: ProducerStateOptions
  readonly #producers = new Map<number, Producer>()
  /** First offset → producer id of open transactions. Insertion order is offset order. */
  readonly #open = new Map<number, number>()
  /** Transactions whose marker may still be at or above the high watermark, in the order of their markers. */
  #ended: CompletedTransaction[] = []
  #endedMinFirst = Number.POSITIVE_INFINITY
  #endOffset = 0

  constructor(deps: { clock: Clock }, options: ProducerStateOptions = DEFAULT_PRODUCER_STATE) {
    this.#clock = deps.clock
    this.#options = options
  }

  /** Offset after the last batch folded in. */
  get endOffset(): number {
    return this.#endOffset
  }

  get size(): number {
    return this.#producers.size
  }

  /** A live view: it changes with the next update. */
  get(producerId: number): ProducerEntry | undefined {
    return this.#producers.get(producerId)
  }

  entries(): Iterable<ProducerEntry> {
    return this.#producers.values()
  }

  /**
   * Folds in a batch that was appended or recovered. `marker` is what the control record says when the batch is an EndTxn marker;
   * control batches of other kinds and batches without a producer only move the end. Returns the transaction that it ended.
   */
  update(header: BatchHeader, baseOffset: number, marker: EndTransaction | null = null): CompletedTransaction | null {
    const lastOffset = baseOffset + header.lastOffsetDelta
    this.#endOffset = lastOffset + 1
    if (header.producerId < 0) return null
    if (isControl(header)) return marker === null ? null : this.#end(header, lastOffset, marker)
    const producer = this.#producer(header)
    const { baseSequence } = header
    if (baseSequence >= 0) {
      if (producer.batches.length === PRODUCER_BATCHES_KEPT) producer.batches.shift()
      producer.batches.push({
        baseSequence,
        lastSequence: lastSequence(header),
        baseOffset,
        lastOffset,
        timestampMs: header.maxTimestampMs,
      })
    }
    if ((header.attributes & ATTRIBUTE.transactional) !== 0 && producer.currentTxnFirstOffset === NO_OFFSET) {
      producer.currentTxnFirstOffset = baseOffset
      this.#open.set(baseOffset, header.producerId)
    }
    return null
  }

  /** First offset of the oldest transaction without a marker, or null. */
  firstOpenTransactionOffset(): number | null {
    for (const offset of this.#open.keys()) return offset
    return null
  }

  /**
   * The limit of read committed: first offset of the oldest transaction that is open or whose marker is not yet below
   * `highWatermark`, else the high watermark.
   */
  lastStableOffset(highWatermark: number): number {
    this.#forgetEnded(highWatermark)
    return Math.min(this.firstOpenTransactionOffset() ?? highWatermark, this.#endedMinFirst, highWatermark)
  }

  /** Forgets producers that were idle for the expiration time and have no open transaction. Returns how many. */
  expire(): number {
    return this.#evictIdleSince(this.#clock.monotonicMs() - this.#options.expirationMs)
  }

  /**
   * After a truncation of the log to `offset`. True when the state lies at or below it and stays; else it is emptied, and the
   * caller loads a snapshot and folds the batches from there on, because what a later batch replaced is not kept.
   */
  truncateTo(offset: number): boolean {
    if (this.#endOffset <= offset) return true
    this.clear(0)
    return false
  }

  /** Empties the state; the next batch folded in is at or after `endOffset`. */
  clear(endOffset: number): void {
    this.#producers.clear()
    this.#open.clear()
    this.#ended = []
    this.#endedMinFirst = Number.POSITIVE_INFINITY
    this.#endOffset = endOffset
  }

  /** Starts from a snapshot taken at `endOffset`. */
  load(entries: Iterable<ProducerEntry>, endOffset: number): void {
    this.clear(endOffset)
    const open: [number, number][] = []
    const now = this.#clock.monotonicMs()
    for (const entry of entries) {
      const producer = new Producer(entry.producerId, entry.producerEpoch, now)
      producer.batches = entry.batches.slice(-PRODUCER_BATCHES_KEPT)
      producer.lastTimestampMs = entry.lastTimestampMs
      producer.coordinatorEpoch = entry.coordinatorEpoch
      producer.currentTxnFirstOffset = entry.currentTxnFirstOffset
      this.#producers.set(entry.producerId, producer)
      if (entry.currentTxnFirstOffset !== NO_OFFSET) open.push([entry.currentTxnFirstOffset, entry.producerId])
    }
    open.sort((a, b) => a[0] - b[0])
    for (const [offset, producerId] of open) this.#open.set(offset, producerId)
  }

  /** After log start moved to `offset`: ended transactions below it no longer hold anything back. */
  advanceStart(offset: number): void {
    this.#forgetEnded(offset)
    if (this.#endOffset < offset) this.#endOffset = offset
  }

  #producer(header: BatchHeader): Producer {
    const now = this.#clock.monotonicMs()
    let producer = this.#producers.get(header.producerId)
    if (producer === undefined) {
      if (this.#producers.size >= this.#options.maxProducers) this.#makeRoom()
      producer = new Producer(header.producerId, header.producerEpoch, now)
      this.#producers.set(header.producerId, producer)
    } else producer.moveToEpoch(header.producerEpoch)
    producer.lastTimestampMs = header.maxTimestampMs
    producer.touchedMs = now
    return producer
  }

  #end(header: BatchHeader, markerOffset: number, marker: EndTransaction): CompletedTransaction | null {
    const producer = this.#producer(header)
    producer.coordinatorEpoch = marker.coordinatorEpoch
    const firstOffset = producer.currentTxnFirstOffset
    // A marker without data before it holds nothing back and hides nothing (Kafka, `appendEndTxnMarker`).
    if (firstOffset === NO_OFFSET) return null
    producer.currentTxnFirstOffset = NO_OFFSET
    this.#open.delete(firstOffset)
    const completed: CompletedTransaction = {
      producerId: header.producerId,
      firstOffset,
      lastOffset: markerOffset,
      aborted: !marker.committed,
      lastStableOffset: this.firstOpenTransactionOffset() ?? markerOffset + 1,
    }
    this.#ended.push(completed)
    this.#endedMinFirst = Math.min(this.#endedMinFirst, firstOffset)
    return completed
  }

  #forgetEnded(highWatermark: number): void {
    let count = 0
    while (count < this.#ended.length && (this.#ended[count] as CompletedTransaction).lastOffset < highWatermark) count++
    if (count === 0) return
    this.#ended = this.#ended.slice(count)
    this.#endedMinFirst = this.#ended.reduce((least, each) => Math.min(least, each.firstOffset), Number.POSITIVE_INFINITY)
  }

  #makeRoom(): void {
    const idle: number[] = []
    for (const producer of this.#producers.values()) {
      if (producer.currentTxnFirstOffset === NO_OFFSET) idle.push(producer.touchedMs)
    }
    idle.sort((a, b) => a - b)
    const boundary = idle[Math.floor(idle.length / 10)]
    if (boundary !== undefined) this.#evictIdleSince(boundary)
  }

  #evictIdleSince(monotonicMs: number): number {
    let count = 0
    for (const producer of this.#producers.values()) {
      if (producer.touchedMs > monotonicMs || producer.currentTxnFirstOffset !== NO_OFFSET) continue
      this.#producers.delete(producer.producerId)
      count++
    }
    return count
  }
}
