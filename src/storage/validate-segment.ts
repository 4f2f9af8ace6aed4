import { MoonMQError } from '../core/errors.ts'
import { readSmallFile } from '../io/atomic-file.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { type BatchHeader, codecOf, isControl, lastOffset, nextOffset } from '../record/batch.ts'
import { type Codecs, codecName } from '../record/compression.ts'
import { recordsSection, validateRecords } from '../record/record.ts'
import type { BatchRules } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import { SMALL_LOG_BYTES } from './clean-logs.ts'
import type { EpochCache } from './epoch-cache.ts'
import { type SegmentFileKind, segmentFileName } from './files.ts'
import { type CompletedTransaction, type ProducerState, readEndTransaction } from './producer-state.ts'
import { findBatch, scanBatches } from './scan.ts'
import type { Findings } from './validate-findings.ts'
import { checkTxnIndex, type IndexFault, OffsetIndexCheck, TimeIndexCheck } from './validate-indexes.ts'

export interface SegmentCheckDeps {
  readonly disk: Disk
  readonly pool: BufferPool
  readonly codecs: Codecs
  readonly findings: Findings
  /** Codecs whose package is missing: such batches are not looked into. */
  readonly missingCodecs: ReadonlySet<number>
}

export interface SegmentCheckOptions {
  /** Absolute, and how findings name it. */
  readonly folder: string
  readonly folderName: string
  readonly baseOffset: number
  /** Name of the log file, another one than usual while a compaction puts it in place: then its indexes are not looked at. */
  readonly logName: string
  /** Below it compaction may have left holes. */
  readonly holesBelow: number
  readonly isLast: boolean
  readonly isOnly: boolean
  /** The last stop was clean, so the indexes are ended. */
  readonly wasClean: boolean
  /** Everything below was synced; a start after an unclean stop makes the indexes of segments that reach beyond it anew. */
  readonly recoveryPoint: number
  readonly minEpoch: number
  readonly maxEpoch: number | null
  readonly scannedFrom: number
  readonly onBatch: (endPosition: number) => void
}

/** What a segment has; `state` was moved on by its batches. */
export interface SegmentTotals {
  readonly batches: number
  readonly records: number
  readonly bytes: number
  readonly nextOffset: number
  readonly lastEpoch: number
}

const MAX_INDEX_BYTES = 256 * 1024 * 1024

/** Checks one segment: every batch and record of its log, and its indexes against them. */
export async function checkSegment(
  deps: SegmentCheckDeps,
  state: { readonly producers: ProducerState; readonly epochs: EpochCache },
  options: SegmentCheckOptions,
): Promise<SegmentTotals> {
  const path = (kind: SegmentFileKind) => `${options.folder}/${segmentFileName(options.baseOffset, kind)}`
  const isInPlace = options.logName === segmentFileName(options.baseOffset, 'log')
  const indexes = isInPlace ? await readIndexes(deps, path) : NO_INDEXES
  const walk = new SegmentWalk(deps, state, options, indexes)
  const file = await deps.disk.open(`${options.folder}/${options.logName}`, 'read')
  try {
    await walk.run(file)
  } finally {
    await file.close()
  }
  if (isInPlace) walk.reportIndexes()
  return walk.totals
}

interface Indexes {
  readonly offset: Buffer | null
  readonly time: Buffer | null
  readonly txn: Buffer | null
}

const NO_INDEXES: Indexes = { offset: null, time: null, txn: null }

async function readIndexes(deps: SegmentCheckDeps, path: (kind: SegmentFileKind) => string): Promise<Indexes> {
  const read = (kind: SegmentFileKind) => readSmallFile(deps.disk, path(kind), MAX_INDEX_BYTES)
  return { offset: await read('index'), time: await read('timeindex'), txn: await read('txnindex') }
}

class SegmentWalk {
  readonly #deps: SegmentCheckDeps
  readonly #state: { readonly producers: ProducerState; readonly epochs: EpochCache }
  readonly #options: SegmentCheckOptions
  readonly #indexes: Indexes
  readonly #offsetCheck: OffsetIndexCheck
  readonly #timeCheck: TimeIndexCheck
  readonly #aborted: CompletedTransaction[] = []
  #batches = 0
  #records = 0
  #bytes = 0
  #nextOffset: number
  #lastEpoch: number
  /** Part of the log could not be read, so what the indexes say of it cannot be judged. */
  #hasHole = false
  /** Codecs of batches that were not looked into. */
  readonly #unread = new Set<number>()

  constructor(
    deps: SegmentCheckDeps,
    state: { readonly producers: ProducerState; readonly epochs: EpochCache },
    options: SegmentCheckOptions,
    indexes: Indexes,
  ) {
    this.#deps = deps
    this.#state = state
    this.#options = options
    this.#indexes = indexes
    this.#offsetCheck = new OffsetIndexCheck(indexes.offset ?? Buffer.alloc(0), options.baseOffset)
    this.#timeCheck = new TimeIndexCheck(indexes.time ?? Buffer.alloc(0), options.baseOffset)
    this.#nextOffset = options.baseOffset
    this.#lastEpoch = options.minEpoch
  }

  get totals(): SegmentTotals {
    return { batches: this.#batches, records: this.#records, bytes: this.#bytes, nextOffset: this.#nextOffset, lastEpoch: this.#lastEpoch }
  }

  /** Walks the file, going on behind each fault where the next whole batch begins. */
  async run(file: DiskFile): Promise<void> {
    this.#bytes = file.sizeBytes
    let from = 0
    while (from < file.sizeBytes) {
      const rules: BatchRules = {
        expectedOffset: this.#nextOffset,
        // Behind a fault the offsets of what was lost are missing too.
        holesBelow: this.#hasHole ? Number.POSITIVE_INFINITY : this.#options.holesBelow,
        epochFor: null,
        minEpoch: this.#lastEpoch,
        maxEpoch: this.#options.maxEpoch,
      }
      const scan = await scanBatches(file, this.#deps.pool, { from, to: file.sizeBytes, rules }, this.#add)
      if (scan.fault === null) return
      this.#hasHole = true
      const behind = await findBatch(file, this.#deps.pool, { from: scan.endPosition + 1, to: file.sizeBytes, minOffset: this.#nextOffset })
      this.#reportFault(scan.endPosition, file.sizeBytes, behind, scan.fault)
      if (behind < 0) return
      from = behind
    }
  }

  #reportFault(position: number, sizeBytes: number, behind: number, fault: string): void {
    const { isLast, wasClean, recoveryPoint } = this.#options
    const isTornTail = behind < 0 && isLast && !wasClean && this.#nextOffset >= recoveryPoint
    const rest =
      behind < 0 ? `; the ${sizeBytes - position} bytes to the end are no batch` : `; the next whole batch begins at byte ${behind}`
    const what = isTornTail
      ? `a torn tail from offset ${this.#nextOffset}, never acknowledged: ${fault}`
      : `offset ${this.#nextOffset}: ${fault}`
    this.#deps.findings.add(isTornTail, this.#name('log'), position, what + rest)
  }

  readonly #add = (header: BatchHeader, position: number, bytes: Buffer, at: number): void => {
    this.#batches++
    this.#records += header.recordCount
    this.#nextOffset = nextOffset(header)
    this.#lastEpoch = header.leaderEpoch
    const lastOffset = this.#nextOffset - 1
    this.#offsetCheck.batch(lastOffset, position)
    this.#timeCheck.batch(lastOffset, header.maxTimestampMs)
    this.#state.epochs.assign(header.leaderEpoch, header.baseOffset)
    try {
      this.#checkRecords(header, bytes, at)
      const completed = this.#state.producers.update(header, header.baseOffset, readEndTransaction(bytes, at, header))
      if (completed?.aborted === true) this.#aborted.push(completed)
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      this.#deps.findings.problem(this.#name('log'), position, `offset ${header.baseOffset}: ${error.message}`)
    }
    this.#options.onBatch(position + header.sizeBytes)
  }

  #checkRecords(header: BatchHeader, bytes: Buffer, at: number): void {
    if (header.recordCount === 0 && nextOffset(header) > this.#options.holesBelow && !isControl(header)) {
      this.#deps.findings.note(
        this.#name('log'),
        `the offsets ${header.baseOffset} to ${lastOffset(header)} hold no records; a repair left the gap`,
      )
      return
    }
    const codec = codecOf(header)
    if (this.#deps.missingCodecs.has(codec)) {
      this.#unread.add(codec)
      return
    }
    const section = this.#deps.codecs.inflate(codec, recordsSection(bytes, at, header))
    validateRecords(section, header, { dense: nextOffset(header) > this.#options.holesBelow })
  }

  reportIndexes(): void {
    for (const codec of this.#unread) {
      const name = codecName(codec) ?? codec
      this.#deps.findings.note(this.#name('log'), `batches compressed with ${name} were not looked into: the codec is not installed`)
    }
    if (this.#hasHole) return
    const { isLast, wasClean } = this.#options
    this.#offsetCheck.finish()
    // The summary of the stop, or recovery, stands in for the indexes of a small log.
    const isSpared = this.#options.isOnly && this.#bytes <= SMALL_LOG_BYTES
    this.#timeCheck.finish((wasClean || !isLast) && !isSpared)
    if (this.#indexes.offset === null) this.#reportMissing('index', isSpared)
    else this.#reportIndex('index', this.#offsetCheck.fault)
    if (this.#indexes.time === null) this.#reportMissing('timeindex', isSpared)
    else this.#reportIndex('timeindex', this.#timeCheck.fault)
    const { baseOffset, scannedFrom } = this.#options
    // Compaction takes batches of a transaction whose marker, and whose entry, lie in a later segment.
    const place = { file: this.#name('txnindex'), baseOffset, scannedFrom: Math.max(scannedFrom, this.#options.holesBelow) }
    this.#reportIndex('txnindex', checkTxnIndex(this.#indexes.txn ?? Buffer.alloc(0), place, this.#aborted))
  }

  #reportMissing(kind: SegmentFileKind, isSpared: boolean): void {
    if (!isSpared) this.#reportIndex(kind, { position: 0, reason: 'the file is missing' })
  }

  #reportIndex(kind: SegmentFileKind, fault: IndexFault | null): void {
    if (fault === null) return
    const isRebuilt = !this.#options.wasClean && this.#nextOffset > this.#options.recoveryPoint
    this.#deps.findings.add(isRebuilt || (!this.#options.wasClean && this.#options.isLast), this.#name(kind), fault.position, fault.reason)
  }

  #name(kind: SegmentFileKind): string {
    return `${this.#options.folderName}/${segmentFileName(this.#options.baseOffset, kind)}`
  }
}
