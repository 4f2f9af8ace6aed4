import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import { readSmallFile } from '../io/atomic-file.ts'
import { SMALL_LOG_BYTES } from './clean-logs.ts'
import { COMPACTION_NOTE_FILE, readCompactionNote } from './compaction/note.ts'
import { isCompactionLeftover, parseSwapFileName, type Swap, swapFileName } from './compaction/swap.ts'
import { EpochCache } from './epoch-cache.ts'
import { EPOCH_CHECKPOINT_NAME, readEpochCheckpoint } from './epoch-checkpoint.ts'
import {
  decodePartitionMetadata,
  IN_DOUBT_FILE,
  PARTITION_METADATA_FILE,
  parseSegmentFileName,
  partitionFolderName,
  segmentFileName,
} from './files.ts'
import { decodeProducerSnapshot, MAX_PRODUCER_SNAPSHOT_BYTES, producerSnapshotName } from './producer-snapshot.ts'
import { ProducerState } from './producer-state.ts'
import type { ProducerEntry } from './types.ts'
import { checkSegment, type SegmentCheckDeps, type SegmentTotals } from './validate-segment.ts'

/** What the rest of the data folder says of a partition; null where nothing does. */
export interface ExpectedPartition extends TopicPartition {
  readonly topicId: Uuid | null
  /** Leader epoch by the metadata log. */
  readonly leaderEpoch: number | null
  readonly recoveryPoint: number | null
  readonly logStart: number | null
}

export interface PartitionReport extends TopicPartition {
  readonly topicId: Uuid | null
  readonly segments: number
  readonly batches: number
  readonly records: number
  /** Of the `.log` files. */
  readonly bytes: number
  readonly startOffset: number
  readonly endOffset: number
}

export interface PartitionCheckDeps extends SegmentCheckDeps {
  readonly clock: Clock
  /** Called when a file was read up to a byte: 0 before its first one. */
  readonly onProgress: (file: string, endPosition: number) => void
}

const MAX_METADATA_BYTES = 1024
/** Files beside those of segments that belong in a partition's folder; `.cut-…` is what a repair took out and kept. */
const KNOWN_FILES =
  /^(moonmq-compaction|\d{20}\.log\.cut-\d+(\.\d+)?|leader-epoch-checkpoint|partition\.metadata|\d{20}-\d{10}\.checkpoint|.*\.(tmp|part))$/

/** Checks one partition's folder from its first byte to its last. Reads only. */
export async function checkPartition(
  deps: PartitionCheckDeps,
  options: { readonly dataFolder: string; readonly wasClean: boolean; readonly expected: ExpectedPartition },
): Promise<PartitionReport> {
  const check = new PartitionCheck(deps, options)
  return check.run()
}

class PartitionCheck {
  readonly #deps: PartitionCheckDeps
  readonly #expected: ExpectedPartition
  readonly #wasClean: boolean
  readonly #name: string
  readonly #folder: string
  readonly #producers: ProducerState
  readonly #epochs = new EpochCache()
  /** Snapshots by end offset, to be compared when the scan gets there. */
  readonly #snapshots = new Map<number, readonly ProducerEntry[]>()
  #bases: number[] = []
  /** Below it compaction may have left holes. */
  #holesBelow = 0
  /** A swap that was decided and is not over: the next start ends it. */
  #swap: Swap | null = null
  #totals = { batches: 0, records: 0, bytes: 0 }
  #nextOffset = 0
  #startOffset = 0
  #lastEpoch = -1

  constructor(deps: PartitionCheckDeps, options: { dataFolder: string; wasClean: boolean; expected: ExpectedPartition }) {
    this.#deps = deps
    this.#expected = options.expected
    this.#wasClean = options.wasClean
    this.#name = partitionFolderName(options.expected)
    this.#folder = `${options.dataFolder}/${this.#name}`
    this.#producers = new ProducerState(deps)
  }

  async run(): Promise<PartitionReport> {
    await this.#listFiles()
    await this.#readCompactionNote()
    const topicId = await this.#checkTopicId()
    this.#startOffset = this.#bases[0] ?? 0
    this.#nextOffset = this.#startOffset
    this.#producers.clear(this.#startOffset)
    this.#compareSnapshot()
    for (const [index, baseOffset] of this.#bases.entries()) await this.#checkSegment(index, baseOffset)
    await this.#checkEpochs()
    this.#checkOffsets()
    for (const endOffset of this.#snapshots.keys()) {
      if (endOffset < this.#startOffset || endOffset <= this.#holesBelow) continue
      const reason = endOffset > this.#nextOffset ? `the log ends at offset ${this.#nextOffset}` : 'no batch ends before this offset'
      this.#snapshotFault(endOffset, reason)
    }
    const { topic, partition, logStart } = this.#expected
    const startOffset = Math.max(this.#startOffset, logStart ?? 0)
    return { topic, partition, topicId, segments: this.#bases.length, ...this.#totals, startOffset, endOffset: this.#nextOffset }
  }

  async #listFiles(): Promise<void> {
    const { disk, findings } = this.#deps
    const logs = new Set<number>()
    const others: { name: string; baseOffset: number }[] = []
    for (const entry of await disk.list(this.#folder)) {
      const name = entry.kind === 'file' ? parseSegmentFileName(entry.name) : null
      if (entry.name === IN_DOUBT_FILE) {
        findings.note(`${this.#name}/${entry.name}`, 'a sync failed here; the next start writes again what it was to make durable')
      } else if (isCompactionLeftover(entry.name)) {
        this.#swap ??= parseSwapFileName(entry.name)
        findings.repair(`${this.#name}/${entry.name}`, null, 'a compaction was cut short here; the next start ends it or takes it back')
      } else if (name === null) {
        if (entry.kind === 'directory' || !KNOWN_FILES.test(entry.name))
          findings.note(`${this.#name}/${entry.name}`, 'it is no file of a partition')
      } else if (name.kind === 'log') logs.add(name.baseOffset)
      else if (name.kind === 'snapshot') await this.#readSnapshot(name.baseOffset)
      else others.push({ name: entry.name, baseOffset: name.baseOffset })
    }
    const swap = this.#swap
    const isReplaced = (base: number) => swap !== null && base >= swap.baseOffset && base < swap.endOffset
    this.#bases = [...logs].filter((base) => !isReplaced(base)).sort((a, b) => a - b)
    if (swap !== null) this.#bases = [...this.#bases, swap.baseOffset].sort((a, b) => a - b)
    for (const { name, baseOffset } of others) {
      if (!logs.has(baseOffset) && !isReplaced(baseOffset))
        findings.add(!this.#wasClean, `${this.#name}/${name}`, null, 'the segment that it belongs to has no .log file')
    }
  }

  async #readCompactionNote(): Promise<void> {
    try {
      this.#holesBelow = (await readCompactionNote(this.#deps.disk, this.#folder))?.holesBelow ?? 0
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      this.#holesBelow = this.#bases[this.#bases.length - 1] ?? 0
      const file = `${this.#name}/${COMPACTION_NOTE_FILE}`
      this.#deps.findings.repair(file, null, `${String(error.details.reason ?? error.message)}; compaction begins anew`)
    }
  }

  async #checkTopicId(): Promise<Uuid | null> {
    const { disk, findings } = this.#deps
    const file = `${this.#name}/${PARTITION_METADATA_FILE}`
    const bytes = await readSmallFile(disk, `${this.#folder}/${PARTITION_METADATA_FILE}`, MAX_METADATA_BYTES)
    const topicId = bytes === null ? null : decodePartitionMetadata(bytes)
    if (topicId === null) findings.problem(file, null, bytes === null ? 'the file is missing' : 'it names no topic id')
    else if (this.#expected.topicId !== null && topicId !== this.#expected.topicId) {
      findings.problem(file, null, `it names topic id ${topicId}, the metadata log ${this.#expected.topicId}`)
    }
    return topicId
  }

  async #checkSegment(index: number, baseOffset: number): Promise<void> {
    const { findings } = this.#deps
    const logName = this.#swap?.baseOffset === baseOffset ? swapFileName(this.#swap) : segmentFileName(baseOffset, 'log')
    const file = `${this.#name}/${logName}`
    if (baseOffset < this.#nextOffset || (baseOffset > this.#nextOffset && baseOffset > this.#holesBelow)) {
      findings.problem(file, null, `the segment before it ends at offset ${this.#nextOffset}`)
    }
    this.#deps.onProgress(file, 0)
    const totals: SegmentTotals = await checkSegment(
      this.#deps,
      { producers: this.#producers, epochs: this.#epochs },
      {
        folder: this.#folder,
        folderName: this.#name,
        baseOffset,
        holesBelow: this.#holesBelow,
        logName,
        isLast: index === this.#bases.length - 1,
        isOnly: this.#bases.length === 1,
        wasClean: this.#wasClean,
        recoveryPoint: this.#recoveryPoint,
        minEpoch: this.#lastEpoch,
        maxEpoch: this.#expected.leaderEpoch,
        scannedFrom: this.#startOffset,
        onBatch: (endPosition) => {
          this.#deps.onProgress(file, endPosition)
          this.#compareSnapshot()
        },
      },
    )
    this.#totals.batches += totals.batches
    this.#totals.records += totals.records
    this.#totals.bytes += totals.bytes
    this.#nextOffset = totals.nextOffset
    this.#lastEpoch = totals.lastEpoch
  }

  /** Without a checkpoint nothing is known to be synced. */
  get #recoveryPoint(): number {
    return this.#expected.recoveryPoint ?? 0
  }

  // ---- producer snapshots -------------------------------------------------------------------------------------------------

  async #readSnapshot(endOffset: number): Promise<void> {
    const path = `${this.#folder}/${producerSnapshotName(endOffset)}`
    try {
      const bytes = await readSmallFile(this.#deps.disk, path, MAX_PRODUCER_SNAPSHOT_BYTES)
      if (bytes !== null) this.#snapshots.set(endOffset, decodeProducerSnapshot(bytes, { file: path, endOffset }))
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      this.#snapshotFault(endOffset, String(error.details.reason ?? error.message))
    }
  }

  #compareSnapshot(): void {
    const endOffset = this.#producers.endOffset
    const entries = this.#snapshots.get(endOffset)
    if (entries === undefined) return
    this.#snapshots.delete(endOffset)
    // Nobody reads it any more: compaction may have taken markers behind it.
    if (endOffset < this.#holesBelow) return
    for (const entry of entries) {
      const last = entry.batches[entry.batches.length - 1]
      // What lies before the scan cannot be compared, nor what compaction may have taken: those batches are no longer in the log.
      if (last === undefined || last.baseOffset < Math.max(this.#startOffset, this.#holesBelow)) continue
      const found = this.#producers.get(entry.producerId)
      const newest = found?.batches[found.batches.length - 1]
      const isSame =
        found?.producerEpoch === entry.producerEpoch && newest?.lastOffset === last.lastOffset && newest.lastSequence === last.lastSequence
      if (
        isSame &&
        (found.currentTxnFirstOffset === entry.currentTxnFirstOffset ||
          entry.currentTxnFirstOffset < Math.max(this.#startOffset, this.#holesBelow))
      )
        continue
      this.#snapshotFault(endOffset, `what it says of producer ${entry.producerId} differs from the batches`)
      return
    }
  }

  #snapshotFault(endOffset: number, reason: string): void {
    const isRepaired = !this.#wasClean && endOffset > this.#recoveryPoint
    this.#deps.findings.add(isRepaired, `${this.#name}/${producerSnapshotName(endOffset)}`, null, reason)
  }

  // ---- epochs and offsets -------------------------------------------------------------------------------------------------

  async #checkEpochs(): Promise<void> {
    const { findings, disk } = this.#deps
    const file = `${this.#name}/${EPOCH_CHECKPOINT_NAME}`
    let stored: EpochCache | null
    try {
      const entries = await readEpochCheckpoint(disk, this.#folder)
      stored = entries === null ? null : new EpochCache(entries)
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      findings.add(!this.#wasClean, file, null, String(error.details.reason ?? error.message))
      return
    }
    if (stored === null) {
      // A stop leaves the first one of a small log to its summary, and to recovery.
      const isSpared = this.#bases.length === 1 && this.#totals.bytes <= SMALL_LOG_BYTES
      if (this.#epochs.entries.length > 0 && !isSpared) findings.add(!this.#wasClean, file, null, 'the file is missing')
      return
    }
    for (const { leaderEpoch, startOffset } of this.#epochs.entries) {
      if (stored.epochFor(startOffset) === leaderEpoch) continue
      findings.problem(
        file,
        null,
        `offset ${startOffset} was written in epoch ${leaderEpoch}, the file says ${stored.epochFor(startOffset)}`,
      )
      return
    }
    for (const { leaderEpoch, startOffset } of stored.entries) {
      // The first batch of an epoch may have been compacted away.
      if (startOffset < Math.max(this.#startOffset, this.#holesBelow) || startOffset >= this.#nextOffset) continue
      if (this.#epochs.epochFor(startOffset) === leaderEpoch) continue
      findings.problem(file, null, `it says that epoch ${leaderEpoch} starts at offset ${startOffset}; no batch there has that epoch`)
      return
    }
  }

  #checkOffsets(): void {
    const { findings } = this.#deps
    const { recoveryPoint, logStart } = this.#expected
    if (recoveryPoint !== null && recoveryPoint > this.#nextOffset) {
      findings.problem(this.#name, null, `the log ends at offset ${this.#nextOffset}, but everything below ${recoveryPoint} was synced`)
    } else if (this.#wasClean && recoveryPoint !== null && recoveryPoint !== this.#nextOffset) {
      findings.problem(this.#name, null, `the log ends at offset ${this.#nextOffset}, at the clean stop it ended at ${recoveryPoint}`)
    }
    if (logStart !== null && this.#bases.length > 0 && (logStart < this.#startOffset || logStart > this.#nextOffset)) {
      findings.problem(this.#name, null, `log start ${logStart} is outside ${this.#startOffset} to ${this.#nextOffset}`)
    }
  }
}
