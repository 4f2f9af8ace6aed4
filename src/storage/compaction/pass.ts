import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { NO_OFFSET, type TopicPartition } from '../../core/types.ts'
import type { Disk } from '../../io/disk.ts'
import { type BatchHeader, codecOf, isControl, isTransactional, lastOffset, readBatchHeader } from '../../record/batch.ts'
import type { Inflater } from '../../record/inflater.ts'
import { RecordCursor } from '../../record/record.ts'
import type { BufferPool } from '../buffer-pool.ts'
import type { HandleCache } from '../handles.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from '../offset-index.ts'
import { ProducerState, readEndTransaction } from '../producer-state.ts'
import type { Segment } from '../segment.ts'
import { TIME_INDEX_ENTRY_BYTES } from '../time-index.ts'
import type { LogConfig, ProducerEntry } from '../types.ts'
import { AbortedTransactions, findAborted } from './aborted.ts'
import { walkSegment } from './batch-walk.ts'
import { CleanedSegment } from './cleaned-segment.ts'
import { groupSegments } from './groups.ts'
import { KeyMap } from './key-map.ts'
import type { LogCompaction } from './log-compaction.ts'
import type { Pace } from './pace.ts'
import { emptyBatch, RecordFilter, rebuildBatch } from './rebatch.ts'
import { deleteHorizonOf, judgeBatch, lastOfProducers, type Survival } from './survivors.ts'

/** A log as compaction sees it; `PartitionLog` is one. */
export interface CompactableLog extends TopicPartition {
  readonly folder: string
  readonly config: LogConfig
  readonly segments: readonly Segment[]
  readonly compaction: LogCompaction
  producers(): Iterable<ProducerEntry>
}

export interface PassDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly handles: HandleCache
  readonly pool: BufferPool
  readonly inflater: Inflater
  readonly pace: Pace
}

export interface PassOptions {
  /** Compacted before. */
  readonly fromOffset: number
  /** A segment begins here: nothing at or behind it is looked at but markers. */
  readonly toOffset: number
  readonly keyBudgetBytes: number
}

export interface PassResult {
  /** Everything below is compacted now. Below `toOffset` when there were more keys than fit the budget: another pass goes on. */
  readonly cleanedOffset: number
  readonly keys: number
  readonly recordsBefore: number
  readonly recordsAfter: number
  readonly bytesBefore: number
  readonly bytesAfter: number
  readonly segmentsBefore: number
  readonly segmentsAfter: number
}

/** Records judged or noted between two looks at the clock. */
const RECORDS_AT_ONCE = 256

/**
 * One pass over a log: the latest offset of each key is noted from the part that is not compacted, as far as memory allows; then every
 * segment up to there is written anew without what is out of date. Throws what the log or the disk says; CORRUPT_RECORDS for damage.
 * Whatever happens, each segment is the old or the new one.
 */
export function compactOnce(deps: PassDeps, log: CompactableLog, options: PassOptions): Promise<PassResult> {
  return new CompactionPass(deps, log, options).run()
}

class CompactionPass {
  readonly #deps: PassDeps
  readonly #log: CompactableLog
  readonly #options: PassOptions
  /** The log's segments as they were when the pass began. */
  readonly #segments: readonly Segment[]
  /** What was found of producers in the batches that stay: whether a marker has data left, and the transaction indexes. */
  readonly #after: ProducerState
  #nextHorizonMs = -1
  #recordsBefore = 0
  #recordsAfter = 0

  constructor(deps: PassDeps, log: CompactableLog, options: PassOptions) {
    this.#deps = deps
    this.#log = log
    this.#options = options
    this.#segments = [...log.segments]
    this.#after = new ProducerState(deps)
  }

  async run(): Promise<PassResult> {
    const { latest, mapEndOffset, aborted } = await this.#findLatest()
    const survival: Survival = {
      latest,
      mapEndOffset,
      nowMs: this.#deps.clock.nowMs(),
      lastOfProducers: lastOfProducers(this.#log.producers()),
      isAborted: aborted.isAborted,
    }
    const segments = this.#segments.filter((each) => each.baseOffset < mapEndOffset)
    const endOffset = this.#endOf(segments.length - 1)
    const bytesBefore = sizeOf(segments)
    if (!(await this.#log.compaction.expectHoles(endOffset))) throw this.#changed()
    let bytesAfter = 0
    const groups = this.#groups(segments, endOffset)
    for (const group of groups) bytesAfter += await this.#rewrite(group, survival)
    await this.#log.compaction.finished({ cleanedOffset: mapEndOffset, nextHorizonMs: this.#nextHorizonMs })
    return {
      cleanedOffset: mapEndOffset,
      keys: latest.size,
      recordsBefore: this.#recordsBefore,
      recordsAfter: this.#recordsAfter,
      bytesBefore,
      bytesAfter,
      segmentsBefore: segments.length,
      segmentsAfter: groups.length,
    }
  }

  get #holesBelow(): number {
    return this.#log.compaction.note.holesBelow
  }

  #endOf(index: number): number {
    const next = this.#segments[index + 1]
    if (next === undefined) throw this.#changed()
    return next.baseOffset
  }

  #changed(): MoonMQError {
    return new MoonMQError('CLOSED', { what: `what is compacted of ${this.#log.topic}-${this.#log.partition}` })
  }

  #groups(segments: readonly Segment[], endOffset: number): Segment[][] {
    const { segmentBytes, indexMaxBytes } = this.#log.config
    return groupSegments(segments, endOffset, {
      segmentBytes,
      offsetIndexEntries: Math.floor(indexMaxBytes / OFFSET_INDEX_ENTRY_BYTES),
      timeIndexEntries: Math.floor(indexMaxBytes / TIME_INDEX_ENTRY_BYTES) - 1,
    })
  }

  // ---- which record is the latest of its key ------------------------------------------------------------------------------

  /** Aborted transactions are looked for only where there are transactions: then what was noted so far is noted again without them. */
  async #findLatest(): Promise<{ latest: KeyMap; mapEndOffset: number; aborted: AbortedTransactions }> {
    const { fromOffset, toOffset } = this.#options
    const found = await this.#noteLatest(null)
    if (found !== null) return { ...found, aborted: new AbortedTransactions() }
    const range = { from: fromOffset, to: toOffset, holesBelow: this.#holesBelow }
    const aborted = await findAborted(this.#deps, this.#segments, range)
    const again = await this.#noteLatest(aborted)
    if (again === null) throw this.#changed()
    return { ...again, aborted }
  }

  /** Null: there are transactions, and it is not known yet which were aborted. */
  async #noteLatest(aborted: AbortedTransactions | null): Promise<{ latest: KeyMap; mapEndOffset: number } | null> {
    const { fromOffset, toOffset, keyBudgetBytes } = this.#options
    const latest = new KeyMap({ maxKeys: Math.max(1, toOffset - fromOffset), budgetBytes: keyBudgetBytes })
    let mapEndOffset = toOffset
    let isUnknown = false
    const note = async (header: BatchHeader, bytes: Buffer, at: number): Promise<boolean> => {
      if (isTransactional(header) && aborted === null) {
        isUnknown = true
        return false
      }
      if (isControl(header) || lastOffset(header) < fromOffset) return true
      if (isTransactional(header) && aborted?.isAborted(header.producerId, header.baseOffset) === true) return true
      const full = await this.#noteBatch(latest, header, bytes, at)
      if (full === null) return true
      mapEndOffset = full
      return false
    }
    for (const [index, segment] of this.#segments.entries()) {
      if (segment.baseOffset >= toOffset) break
      if (this.#endOf(index) <= fromOffset) continue
      if (!(await walkSegment(this.#deps, segment, this.#holesBelow, note))) break
    }
    return isUnknown ? null : { latest, mapEndOffset }
  }

  /** The offset of the first record that found no room, or null. */
  async #noteBatch(latest: KeyMap, header: BatchHeader, bytes: Buffer, at: number): Promise<number | null> {
    const section = this.#deps.inflater.section(bytes.subarray(at, at + header.sizeBytes), header)
    const cursor = new RecordCursor(section instanceof Promise ? await section : section, header)
    for (let count = 1; cursor.next(); count++) {
      if (count % RECORDS_AT_ONCE === 0 && this.#deps.pace.isSliceOver) await this.#deps.pace.rest()
      const key = cursor.key()
      if (key === null || cursor.offset < this.#options.fromOffset) continue
      if (!latest.put(key, cursor.offset)) return cursor.offset
    }
    return null
  }

  // ---- writing segments anew ----------------------------------------------------------------------------------------------

  /** Returns how many bytes the segments have now. */
  async #rewrite(old: readonly Segment[], survival: Survival): Promise<number> {
    const { folder, compaction } = this.#log
    const baseOffset = (old[0] as Segment).baseOffset
    const endOffset = this.#endOf(this.#segments.indexOf(old[old.length - 1] as Segment))
    const cleaned = new CleanedSegment(this.#deps, {
      folder,
      old,
      endOffset,
      indexIntervalBytes: this.#log.config.indexIntervalBytes,
      createdMs: this.#deps.clock.nowMs(),
    })
    let isWhole = false
    try {
      for (const segment of old) {
        await walkSegment(this.#deps, segment, this.#holesBelow, (header, bytes, at) => this.#judge(cleaned, survival, header, bytes, at))
      }
      isWhole = await cleaned.finish()
    } catch (error) {
      await compaction.abandon(cleaned.segment)
      throw error
    }
    if (!isWhole) {
      await cleaned.segment.close()
      return sizeOf(old)
    }
    if (!(await compaction.replace(old, cleaned.segment, { baseOffset, endOffset }))) throw this.#changed()
    return cleaned.segment.sizeBytes
  }

  async #judge(to: CleanedSegment, survival: Survival, header: BatchHeader, bytes: Buffer, at: number): Promise<true> {
    this.#recordsBefore += header.recordCount
    const { fate, isLast } = judgeBatch(header, survival, this.#hasData(header))
    if (fate === 'keep') await this.#keep(to, header, bytes, at)
    else if (fate === 'drop') await this.#dropBatch(to, isLast, header, bytes, at)
    else await this.#filter(to, survival, fate === 'marker', isLast, header, bytes, at)
    return true
  }

  #hasData(header: BatchHeader): boolean {
    return isControl(header) && (this.#after.get(header.producerId)?.currentTxnFirstOffset ?? NO_OFFSET) !== NO_OFFSET
  }

  async #filter(
    to: CleanedSegment,
    survival: Survival,
    isMarker: boolean,
    isLast: boolean,
    header: BatchHeader,
    bytes: Buffer,
    at: number,
  ): Promise<void> {
    const { inflater, pace } = this.#deps
    const section = inflater.section(bytes.subarray(at, at + header.sizeBytes), header)
    const filter = new RecordFilter(section instanceof Promise ? await section : section, header, survival, isMarker)
    while (filter.step(RECORDS_AT_ONCE)) if (pace.isSliceOver) await pace.rest()
    const horizonMs = filter.newHorizon(this.#log.config.deleteRetentionMs)
    if (isMarker || filter.hasTombstones) this.#meetHorizon(horizonMs ?? deleteHorizonOf(header))
    if (filter.keptCount === 0) await this.#dropBatch(to, isLast, header, bytes, at)
    else if (filter.keptCount === header.recordCount && horizonMs === null) await this.#keep(to, header, bytes, at)
    else {
      const packed = await inflater.deflate(codecOf(header), filter.section(horizonMs))
      const { keptCount: recordCount, maxTimestampMs } = filter
      await this.#replaceBatch(to, rebuildBatch(bytes, at, header, { recordCount, maxTimestampMs, horizonMs, packed }))
    }
  }

  async #keep(to: CleanedSegment, header: BatchHeader, bytes: Buffer, at: number): Promise<void> {
    this.#fold(to, header, bytes, at)
    await to.keep(header, bytes, at)
  }

  async #replaceBatch(to: CleanedSegment, batch: Buffer): Promise<void> {
    const header = readBatchHeader(batch)
    this.#fold(to, header, batch, 0)
    await to.replace(header, batch)
  }

  async #dropBatch(to: CleanedSegment, isLast: boolean, header: BatchHeader, bytes: Buffer, at: number): Promise<void> {
    if (!isLast) await to.drop()
    else if (header.recordCount === 0) await this.#keep(to, header, bytes, at)
    else await this.#replaceBatch(to, emptyBatch(bytes, at, header))
  }

  #fold(to: CleanedSegment, header: BatchHeader, bytes: Buffer, at: number): void {
    this.#recordsAfter += header.recordCount
    const completed = this.#after.update(header, header.baseOffset, readEndTransaction(bytes, at, header))
    if (completed === null) return
    this.#after.advanceStart(completed.lastOffset + 1)
    if (completed.aborted) to.aborted(completed)
  }

  #meetHorizon(horizonMs: number | null): void {
    if (horizonMs === null) return
    this.#nextHorizonMs = this.#nextHorizonMs < 0 ? horizonMs : Math.min(this.#nextHorizonMs, horizonMs)
  }
}

function sizeOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, segment) => sum + segment.sizeBytes, 0)
}
