import type { Failpoint } from '../core/failpoint.ts'
import { fnv1a } from '../core/hash.ts'
import { readInt64 } from '../core/int64.ts'
import { BATCH_HEADER_BYTES } from '../core/limits.ts'
import type { Disk } from '../io/disk.ts'
import { systemCode } from '../io/system-error.ts'
import { AT, type BatchHeader } from '../record/batch.ts'
import type { AppendPlan, SegmentShape } from './append-plan.ts'
import { REMOVED_SUFFIX, type SegmentFileKind, segmentFileName } from './files.ts'
import type { CachedFile, HandleCache } from './handles.ts'
import { findLargestTimestamp } from './largest-timestamp.ts'
import type { LogFolder } from './log-folder.ts'
import { OffsetIndex } from './offset-index.ts'
import { TimeIndex } from './time-index.ts'
import { TxnIndex } from './txn-index.ts'
import { sealsOf, type TxnSeal } from './txn-seals.ts'

export interface SegmentOptions {
  readonly folder: string
  readonly baseOffset: number
  /** False: only read, until a truncation makes it the last one. */
  readonly writable: boolean
  readonly sizeBytes: number
  /** Null: the file tells when it is needed. */
  readonly indexEntries: number | null
  readonly timeIndexEntries: number | null
  /** Offset after its last batch. */
  readonly nextOffset: number
  readonly createdMs: number
  /** Of its transaction index, one for each state that may be on disk; null: recovery builds it anew. */
  readonly txnSeals: readonly TxnSeal[] | null
  /** Behind the names of its files, until `takeFinalNames`. */
  readonly suffix?: string
}

/**
 * One stretch of a log: the `.log` file, its indexes, and what is known of them. Owns the files; the order in which they become
 * durable is: log bytes, then indexes when the segment is closed, names before either counts.
 */
export class Segment implements SegmentShape {
  readonly folder: string
  readonly baseOffset: number
  readonly log: CachedFile
  /** Replaced as a whole when they are built again. */
  index: OffsetIndex
  timeIndex: TimeIndex
  readonly txnIndex: TxnIndex
  readonly createdMs: number
  /** When the broker appended to it last, by the wall clock; null when it was found on disk: then the file tells. */
  appendedMs: number | null = null
  /** Bytes given to it, whether written or not. */
  sizeBytes: number
  /** Bytes in the file. */
  writtenBytes: number
  nextOffset: number
  writtenOffset: number
  /** Bytes behind those that the journal gets first and the file later, and the offset behind them. */
  lateBytes = 0
  lateOffset = 0
  /** Below it everything is durable, in the file or in the journal. */
  syncedOffset: number
  /** Below it everything is durable in the file. */
  storedOffset: number
  bytesSinceIndexEntry = 0
  #jitterShare = -1
  /** Undefined while the first batch has not been looked at. */
  #rollBaseMs: number | null | undefined
  /** Told when the time index was found wrong. */
  onIndexDamage: ((reason: string) => void) | null = null
  /** Largest timestamp and the last offset of its batch; null while only the time index knows it. */
  maxTimestamp: { timestampMs: number; lastOffset: number } | null = null
  /** False until the directory was synced after the files appeared. */
  areNamesDurable = true
  /** Where it lies, for a folder whose own name may not be durable yet. */
  logFolder: LogFolder | null = null
  /** Held open while bytes are written and not synced. */
  isPinned = false
  /** Closed, and all of it durable with its indexes: a recovery point may lie behind it. */
  isFinished = true

  constructor(deps: { disk: Disk; handles: HandleCache }, options: SegmentOptions) {
    const { folder, baseOffset, writable } = options
    const path = (kind: SegmentFileKind) => `${folder}/${segmentFileName(baseOffset, kind)}${options.suffix ?? ''}`
    const file = (kind: SegmentFileKind) => deps.handles.file(path(kind), { writable })
    this.folder = folder
    this.baseOffset = baseOffset
    this.log = file('log')
    this.index = new OffsetIndex(file('index'), baseOffset, options.indexEntries)
    this.timeIndex = new TimeIndex(file('timeindex'), baseOffset, options.timeIndexEntries)
    this.txnIndex = new TxnIndex(deps, { path: path('txnindex'), baseOffset, seals: options.txnSeals })
    this.createdMs = options.createdMs
    this.sizeBytes = options.sizeBytes
    this.writtenBytes = options.sizeBytes
    this.nextOffset = options.nextOffset
    this.writtenOffset = options.nextOffset
    this.syncedOffset = options.nextOffset
    this.storedOffset = options.nextOffset
  }

  /** A new one. */
  static create(
    deps: { disk: Disk; handles: HandleCache },
    options: { folder: string; baseOffset: number; createdMs: number; suffix?: string },
  ): Segment {
    const segment = new Segment(deps, {
      ...options,
      writable: true,
      sizeBytes: 0,
      indexEntries: 0,
      timeIndexEntries: 0,
      nextOffset: options.baseOffset,
      txnSeals: sealsOf(options.baseOffset, []),
    })
    segment.appendedMs = options.createdMs
    segment.areNamesDurable = false
    segment.isFinished = false
    segment.maxTimestamp = { timestampMs: -1, lastOffset: options.baseOffset }
    return segment
  }

  /** The same after a restart, and another one for each segment. */
  get jitterShare(): number {
    // Each append asks, and few segments are ever appended to.
    if (this.#jitterShare < 0) this.#jitterShare = fnv1a(Buffer.from(`${this.folder}/${segmentFileName(this.baseOffset, 'log')}`)) / 2 ** 32
    return this.#jitterShare
  }

  get rollBaseTimestampMs(): number | null {
    if (this.#rollBaseMs === undefined) this.#rollBaseMs = this.#firstTimestamp()
    return this.#rollBaseMs
  }

  /** Empties what is known of the batches, before a scan tells it anew. */
  forgetBatches(): void {
    this.sizeBytes = 0
    this.bytesSinceIndexEntry = 0
    this.#rollBaseMs = null
    this.maxTimestamp = { timestampMs: -1, lastOffset: this.baseOffset }
  }

  /** Everything below it is in the file, or will be before the file is synced. */
  get takenOffset(): number {
    return this.lateBytes > 0 ? this.lateOffset : this.writtenOffset
  }

  get indexEntries(): number {
    return this.index.entries
  }

  get timeIndexEntries(): number {
    return this.timeIndex.entries
  }

  /** Takes the batch that `plan` places here. The header's base offset may still be the producer's. */
  accept(plan: AppendPlan, header: BatchHeader): void {
    const max = this.largestTimestamp()
    if (header.maxTimestampMs > max.timestampMs) this.maxTimestamp = { timestampMs: header.maxTimestampMs, lastOffset: plan.lastOffset }
    if (this.sizeBytes === 0) this.#rollBaseMs = header.maxTimestampMs >= 0 ? header.maxTimestampMs : null
    if (plan.addsIndexEntry) this.#index(plan.lastOffset, plan.position)
    this.sizeBytes = plan.position + header.sizeBytes
    this.bytesSinceIndexEntry += header.sizeBytes
    this.nextOffset = plan.lastOffset + 1
  }

  largestTimestamp(): { readonly timestampMs: number; readonly lastOffset: number } {
    if (this.maxTimestamp === null) {
      const { largest, isDamaged } = findLargestTimestamp(this)
      this.maxTimestamp = largest
      if (isDamaged) this.onIndexDamage?.('the last entry of the time index does not fit its batch')
    }
    return this.maxTimestamp
  }

  /** The entry that tells the segment's largest timestamp once it is closed. */
  finishTimeIndex(): void {
    const max = this.largestTimestamp()
    if (max.timestampMs >= 0) this.timeIndex.maybeAppend(max.timestampMs, max.lastOffset)
  }

  /** For recovery: a segment with one behind it gets its last time index entry. */
  finishTimeIndexWhenClosed(isClosed: boolean): void {
    if (isClosed) this.finishTimeIndex()
  }

  /** Writes the entries of batches below `writtenOffset`, which are in the file, once enough wait to be worth a call. */
  flushIndexesFrom(bytes: number, writtenOffset = this.nextOffset): void {
    if (this.index.store.pendingBytes >= bytes) this.index.flushBelow(writtenOffset)
    if (this.timeIndex.store.pendingBytes >= bytes) this.timeIndex.flushBelow(writtenOffset)
  }

  /** Makes the names of its files durable. */
  async syncNames(disk: Disk): Promise<void> {
    await (this.logFolder === null ? disk.syncDirectory(this.folder) : this.logFolder.sync())
    this.areNamesDurable = true
  }

  /** Writes all that indexes have in memory, without a sync. Those that have nothing are not made. */
  leaveIndexes(): void {
    if (this.index.store.isUnused && this.timeIndex.store.isUnused) return
    if (this.sizeBytes > 0) this.finishTimeIndex()
    this.index.store.leave()
    this.timeIndex.store.leave()
  }

  /** Makes all indexes durable. */
  async syncIndexes(): Promise<void> {
    await Promise.all([this.index.store.sync(), this.timeIndex.store.sync(), this.txnIndex.sync()])
  }

  /** Closes every file, once readers are done. Index entries that were not flushed are lost: recovery rebuilds them. */
  async close(): Promise<void> {
    if (this.isPinned) {
      this.isPinned = false
      this.log.release()
    }
    await Promise.all([this.log.discard(), this.index.store.file.discard(), this.timeIndex.store.file.discard(), this.txnIndex.close()])
  }

  /** Its files were renamed to what a segment's files are called. */
  takeFinalNames(): void {
    const path = (kind: SegmentFileKind) => `${this.folder}/${segmentFileName(this.baseOffset, kind)}`
    this.log.moved(path('log'))
    this.index.store.file.moved(path('index'))
    this.timeIndex.store.file.moved(path('timeindex'))
    this.txnIndex.moved(path('txnindex'))
  }

  /** Takes every file away. */
  async removeFiles({ disk, failpoint }: { disk: Disk; failpoint: Failpoint }): Promise<void> {
    await this.close()
    for (const kind of ['log', 'index', 'timeindex', 'txnindex'] as const) {
      await disk.removeFile(`${this.folder}/${segmentFileName(this.baseOffset, kind)}`)
      if (kind === 'log') failpoint('segment.remove.log-removed')
    }
  }

  /** Gives every file the name of one that has left the log; the log file first. Returns the new names. */
  async setAside({ disk, failpoint }: { disk: Disk; failpoint: Failpoint }): Promise<string[]> {
    await this.close()
    const paths: string[] = []
    for (const kind of ['log', 'index', 'timeindex', 'txnindex'] as const) {
      const path = `${this.folder}/${segmentFileName(this.baseOffset, kind)}`
      try {
        await disk.rename(path, `${path}${REMOVED_SUFFIX}`)
        paths.push(`${path}${REMOVED_SUFFIX}`)
      } catch (error) {
        if (systemCode(error) !== 'ENOENT') throw error
      }
      if (kind === 'log') failpoint('segment.remove.log-renamed')
    }
    return paths
  }

  /** Makes the files of a segment that nothing was appended to yet, durably: its name alone then tells where the log ends. */
  async makeFiles({ disk, failpoint }: { disk: Disk; failpoint: Failpoint }): Promise<void> {
    for (const file of [this.log, this.index.store.file, this.timeIndex.store.file]) {
      file.acquire()
      file.release()
    }
    failpoint('log.roll.files-made')
    await disk.syncDirectory(this.folder)
    this.areNamesDurable = true
  }

  #firstTimestamp(): number | null {
    if (this.writtenBytes < BATCH_HEADER_BYTES) return null
    const bytes = Buffer.alloc(BATCH_HEADER_BYTES)
    const file = this.log.acquire()
    try {
      file.readNow(bytes, 0)
    } finally {
      this.log.release()
    }
    const timestampMs = readInt64(bytes, AT.maxTimestamp)
    return timestampMs >= 0 ? timestampMs : null
  }

  #index(lastOffset: number, position: number): void {
    this.index.append(lastOffset, position)
    const max = this.largestTimestamp()
    if (max.timestampMs >= 0) this.timeIndex.maybeAppend(max.timestampMs, max.lastOffset)
    this.bytesSinceIndexEntry = 0
  }
}
