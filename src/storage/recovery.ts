import { isCode, MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import type { BatchHeader } from '../record/batch.ts'
import type { BatchRules } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import type { EpochCache } from './epoch-cache.ts'
import { EpochDoubt, isOnlyEpochWrong } from './epoch-doubt.ts'
import { type ProducerState, readEndTransaction } from './producer-state.ts'
import { findBatch, isWholeBatch, scanBatches } from './scan.ts'
import type { Segment } from './segment.ts'

/** Bytes that recovery took away from the end of a log, and why. */
export interface CutReport {
  readonly file: string
  readonly fromPosition: number
  readonly toPosition: number
  /** The log now ends at this offset. */
  readonly atOffset: number
  readonly reason: string
  /** Whole batches lay behind the fault: writes reached the disk out of order before the power went. */
  readonly hadBatchesBehind: boolean
}

/** What a start knows to be durable, though recovery reads it. */
export interface SyncedBefore {
  /** By the checkpoint: the files up to here. */
  readonly below: number
  /** First offset of the segment that the replay of the journal has just made durable, with every name in the folder. */
  readonly segment: number | null
}

export interface RecoverOptions {
  /** Base of the first segment to verify. */
  readonly fromIndex: number
  /** The log has one segment. */
  readonly isOnly: boolean
  /** Below it compaction may have left holes. */
  readonly holesBelow: number
  /** Everything below was synced and acknowledged: a fault there is damage, never a torn tail. */
  readonly acknowledgedOffset: number
  readonly maxEpoch: number | null
  /** The epoch checkpoint was there and whole, so each batch must carry the epoch that it gives. */
  readonly areEpochsKnown: boolean
  /** Where batches contradict that checkpoint nothing is judged, and EpochDoubt thrown. */
  readonly doubtsEpochs: boolean
  /** The machine lost power since the last write, so unsynced writes may be there in any combination. */
  readonly hadPowerCut: boolean
  /** Bytes past this offset may look whole in memory and not be on disk: they are written again before the sync. */
  readonly rewriteFrom: number | null
  readonly indexIntervalBytes: number
  readonly synced?: SyncedBefore | null
}

export interface RecoverDeps {
  readonly disk: Disk
  readonly pool: BufferPool
  readonly log: Logger
  readonly failpoint: Failpoint
}

export interface Recovered {
  readonly segments: Segment[]
  readonly cuts: CutReport[]
}

/**
 * Verifies the segments from `fromIndex` on batch by batch, builds their indexes, producers and epochs anew, cuts a torn tail and
 * syncs what it kept. Afterwards everything that is left is durable. Throws DATA_DAMAGED when what is wrong is not a torn tail.
 */
export async function recoverSegments(
  deps: RecoverDeps,
  segments: readonly Segment[],
  state: { producers: ProducerState; epochs: EpochCache },
  options: RecoverOptions,
): Promise<Recovered> {
  const kept = [...segments]
  const cuts: CutReport[] = []
  for (let index = options.fromIndex; index < kept.length; index++) {
    const segment = kept[index] as Segment
    const cut = await recoverSegment(deps, segment, kept[index + 1] ?? null, state, options)
    if (cut === null) continue
    cuts.push(cut)
    for (const later of kept.splice(index + 1)) cuts.push(await removeSegment(deps, later, cut))
  }
  return { segments: kept, cuts }
}

async function recoverSegment(
  deps: RecoverDeps,
  segment: Segment,
  next: Segment | null,
  state: { producers: ProducerState; epochs: EpochCache },
  options: RecoverOptions,
): Promise<CutReport | null> {
  const hasIndex = deps.disk.statNow(segment.index.store.file.path) !== null
  const indexedOffset = next === null && !options.hadPowerCut && hasIndex ? lastIndexed(segment) : -1
  await resetIndexes(deps.disk, segment, options.isOnly)
  deps.failpoint('recovery.indexes-reset')
  const file = segment.log.acquire()
  try {
    const sizeBytes = file.sizeBytes
    const rebuild = new SegmentRebuild(segment, state, options)
    const rules: BatchRules = {
      expectedOffset: segment.baseOffset,
      holesBelow: options.holesBelow,
      epochFor: options.areEpochsKnown ? (offset) => state.epochs.epochFor(offset) : null,
      minEpoch: state.epochs.epochFor(segment.baseOffset - 1),
      maxEpoch: options.maxEpoch,
    }
    const scan = await scanBatches(file, deps.pool, { from: 0, to: sizeBytes, rules }, rebuild.add)
    const fault = scan.fault ?? missingEnd(scan.nextOffset, next, options)
    segment.nextOffset = scan.nextOffset
    segment.writtenOffset = scan.nextOffset
    segment.syncedOffset = scan.nextOffset
    segment.storedOffset = scan.nextOffset
    segment.sizeBytes = scan.endPosition
    segment.writtenBytes = scan.endPosition
    let cut: CutReport | null = null
    if (fault !== null) {
      const range = { position: scan.endPosition, to: sizeBytes }
      if (options.doubtsEpochs && (await isOnlyEpochWrong(file, deps.pool, range, { ...rules, expectedOffset: scan.nextOffset }))) {
        throw new EpochDoubt(fault)
      }
      cut = await judgeFault(
        deps,
        file,
        segment,
        next,
        { position: scan.endPosition, sizeBytes, offset: scan.nextOffset, reason: fault },
        options,
      )
      await file.truncate(scan.endPosition)
      deps.failpoint('recovery.cut')
      deps.log.warn('storage.tail_cut', `${segment.log.path} ended in bytes that are no whole batch; they were cut`, { ...cut })
    }
    if (indexedOffset >= scan.nextOffset) warnOfShortLog(deps.log, segment.log.path, scan.nextOffset, indexedOffset)
    if (rebuild.rewritePosition !== null) await rewrite(file, deps.pool, rebuild.rewritePosition, segment.writtenBytes)
    segment.finishTimeIndexWhenClosed(next !== null && cut === null)
    if (cut !== null || !isSynced(segment, options)) await file.datasync()
    await syncIndexes(segment, options.isOnly)
    deps.failpoint('recovery.segment-synced')
    return cut
  } finally {
    segment.log.release()
  }
}

/**
 * Whether all that the scan found is durable: a sync of a file without news costs a flush of the device all the same. A segment that begins
 * at the point may have been cut by a process that died before it synced that.
 */
export function isSynced(
  { baseOffset, nextOffset }: Segment,
  { rewriteFrom, synced = null }: Pick<RecoverOptions, 'rewriteFrom' | 'synced'>,
): boolean {
  return (
    rewriteFrom === null && synced !== null && (baseOffset === synced.segment || (baseOffset < synced.below && nextOffset <= synced.below))
  )
}

/** An only segment without entries has no index files: recovery makes them when there is something to say. */
async function syncIndexes(segment: Segment, isOnly: boolean): Promise<void> {
  if (isOnly && segment.index.store.isUnused && segment.timeIndex.store.isUnused) await segment.txnIndex.sync()
  else await segment.syncIndexes()
}

/** A closed segment must reach up to the next one's first offset. */
function missingEnd(nextOffset: number, next: Segment | null, options: RecoverOptions): string | null {
  if (next === null || nextOffset === next.baseOffset) return null
  if (nextOffset < next.baseOffset && next.baseOffset <= options.holesBelow) return null
  return `the file ends at offset ${nextOffset}, the next one starts at ${next.baseOffset}`
}

interface Fault {
  readonly position: number
  readonly sizeBytes: number
  readonly offset: number
  readonly reason: string
}

/** Tells a torn tail from damage; throws for damage. */
async function judgeFault(
  deps: RecoverDeps,
  file: DiskFile,
  segment: Segment,
  next: Segment | null,
  fault: Fault,
  options: RecoverOptions,
): Promise<CutReport> {
  const { path } = segment.log
  const damaged = (why: string) =>
    new MoonMQError('DATA_DAMAGED', { path, reason: `byte ${fault.position}, offset ${fault.offset}: ${fault.reason}; ${why}` })
  if (fault.offset < options.acknowledgedOffset) {
    throw damaged(
      `everything below offset ${options.acknowledgedOffset} was acknowledged, so this is damage and not a write that was cut short`,
    )
  }
  if (!options.hadPowerCut && (await isWholeBatch(file, deps.pool, fault.position, fault.sizeBytes))) {
    throw damaged('its checksum fits, so this is no write that was cut short')
  }
  const behind = await findBatch(file, deps.pool, { from: fault.position + 1, to: fault.sizeBytes, minOffset: fault.offset })
  const hadBatchesBehind = behind >= 0 || (next !== null && next.log.path !== path && next.sizeBytes > 0)
  // Without a power cut the system keeps every write in order, so nothing can be whole behind a torn write.
  if (hadBatchesBehind && !options.hadPowerCut) {
    throw damaged(behind >= 0 ? `a whole batch lies behind it at byte ${behind}` : `${next?.log.path} lies behind it`)
  }
  return {
    file: path,
    fromPosition: fault.position,
    toPosition: fault.sizeBytes,
    atOffset: fault.offset,
    reason: fault.reason,
    hadBatchesBehind,
  }
}

async function removeSegment(deps: RecoverDeps, segment: Segment, cut: CutReport): Promise<CutReport> {
  const { sizeBytes } = segment
  await segment.removeFiles(deps)
  return {
    file: segment.log.path,
    fromPosition: 0,
    toPosition: sizeBytes,
    atOffset: cut.atOffset,
    reason: `it lies behind the end of the log in ${cut.file}`,
    hadBatchesBehind: true,
  }
}

/** An index entry is written behind its batch, so without a power cut the batch was there; −1 when the index says nothing. */
function lastIndexed(segment: Segment): number {
  try {
    return segment.index.last()?.lastOffset ?? -1
  } catch (error) {
    if (isCode(error, 'CORRUPT_RECORDS')) return -1
    throw error
  }
}

function warnOfShortLog(log: Logger, file: string, endOffset: number, indexedOffset: number): void {
  const text = `${file} ends at offset ${endOffset}, but its index knew a batch up to ${indexedOffset}: what was acknowledged of these offsets is gone`
  log.error('storage.log_short', text, { file, fromOffset: endOffset, toOffset: indexedOffset })
}

/** Files that are not there are not made where there is one segment: a small log does without. */
async function resetIndexes(disk: Disk, segment: Segment, isOnly: boolean): Promise<void> {
  if (isOnly && disk.statNow(segment.index.store.file.path) === null) segment.index.store.forget()
  else await segment.index.store.reset()
  if (isOnly && disk.statNow(segment.timeIndex.store.file.path) === null) segment.timeIndex.forget()
  else await segment.timeIndex.reset()
  await segment.txnIndex.reset()
}

/** After a failed sync the system may hold bytes that it will never write; writing them again makes it. */
async function rewrite(file: DiskFile, pool: BufferPool, from: number, sizeBytes: number): Promise<void> {
  const chunk = pool.take(1024 * 1024)
  try {
    for (let position = from; position < sizeBytes; ) {
      const size = await file.read(chunk.subarray(0, Math.min(chunk.length, sizeBytes - position)), position)
      if (size === 0) break
      await file.write([chunk.subarray(0, size)], position)
      position += size
    }
  } finally {
    pool.give(chunk)
  }
}

/** Makes a segment's indexes and its share of producers and epochs from its batches, exactly as appending would have. */
class SegmentRebuild {
  readonly #segment: Segment
  readonly #state: { producers: ProducerState; epochs: EpochCache }
  readonly #options: RecoverOptions
  /** Where the first batch begins that must be written again. */
  rewritePosition: number | null = null

  constructor(segment: Segment, state: { producers: ProducerState; epochs: EpochCache }, options: RecoverOptions) {
    this.#segment = segment
    this.#state = state
    this.#options = options
    segment.forgetBatches()
  }

  readonly add = (header: BatchHeader, position: number, bytes: Buffer, at: number): void => {
    const segment = this.#segment
    const { indexIntervalBytes, rewriteFrom } = this.#options
    const lastOffset = header.baseOffset + header.lastOffsetDelta
    const addsIndexEntry = indexIntervalBytes === 0 || segment.bytesSinceIndexEntry > indexIntervalBytes
    segment.accept({ baseOffset: header.baseOffset, lastOffset, roll: null, position, addsIndexEntry }, header)
    segment.flushIndexesFrom(64 * 1024)
    if (rewriteFrom !== null && lastOffset >= rewriteFrom) this.rewritePosition ??= position
    foldBatch(segment, this.#state, header, bytes, at)
  }
}

/** Folds a stored batch into producers and epochs, and an aborted transaction into the segment's index where that is built anew. */
export function foldBatch(
  segment: Segment | null,
  state: { producers: ProducerState; epochs: EpochCache },
  header: BatchHeader,
  bytes: Buffer,
  at: number,
): void {
  // A checkpoint that was read knows later epochs too; assigning an earlier one again would take them for contradictions.
  if (!state.epochs.agrees(header.baseOffset, header.leaderEpoch)) state.epochs.assign(header.leaderEpoch, header.baseOffset)
  const completed = state.producers.update(header, header.baseOffset, readEndTransaction(bytes, at, header))
  if (segment !== null && completed?.aborted === true) segment.txnIndex.append(completed)
}
