import { isCode, MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import { readSmallFileNow } from '../io/atomic-file.ts'
import { type CleanLog, loadSummarized, SMALL_LOG_BYTES } from './clean-logs.ts'
import { COMPACTION_NOTE_FILE, type CompactionNote, loadCompactionNote, NEVER_COMPACTED, writeCompactionNote } from './compaction/note.ts'
import { settleCompaction } from './compaction/swap.ts'
import { EpochCache } from './epoch-cache.ts'
import { decodeEpochCheckpoint, EPOCH_CHECKPOINT_NAME, writeEpochCheckpoint } from './epoch-checkpoint.ts'
import { EpochDoubt, epochsByBatches } from './epoch-doubt.ts'
import {
  decodePartitionMetadata,
  IN_DOUBT_FILE,
  PARTITION_METADATA_FILE,
  parseSegmentFileName,
  segmentBases,
  segmentFileName,
} from './files.ts'
import { giveBackIndexes, removeLeftovers, removeReturned, startAfterRemoved } from './leftovers.ts'
import type { LoadDeps, LoadedLog, Loading, LoadOptions } from './load-types.ts'
import { syncTopicId } from './log-folder.ts'
import type { OffsetEntry } from './offset-index.ts'
import { decodeProducerSnapshot, loadProducerSnapshot, producerSnapshotName } from './producer-snapshot.ts'
import { ProducerState } from './producer-state.ts'
import { type CutReport, foldBatch, isSynced, recoverSegments } from './recovery.ts'
import { scanBatches } from './scan.ts'
import { Segment } from './segment.ts'
import { isTxnIndexWhole } from './txn-index.ts'
import { isSettled, sealsOf } from './txn-seals.ts'
import type { ProducerEntry } from './types.ts'

const MAX_PARTITION_METADATA_BYTES = 1024
const MAX_EPOCH_CHECKPOINT_BYTES = 8 * 1024 * 1024
const MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024

/** The topic that a partition's folder belongs to; null when the folder does not say, as after a crash while it was made. */
export function folderTopicId(deps: LoadDeps, folder: string): Uuid | null {
  const bytes = readSmallFileNow(deps.disk, `${folder}/${PARTITION_METADATA_FILE}`, MAX_PARTITION_METADATA_BYTES)
  return bytes === null ? null : decodePartitionMetadata(bytes)
}

/**
 * Opens what a folder holds: segments, producers, epochs. After a clean stop from its summary, `clean`, else by reading the end of the active segment, else through
 * recovery; whatever does not fit after a clean stop is recovered too. Everything that is returned is durable. Throws DATA_DAMAGED.
 */
export async function loadLog(deps: LoadDeps, asked: LoadOptions, clean: CleanLog | null = null): Promise<LoadedLog> {
  const { folder } = asked
  const isSure = asked.wasClean && asked.txnSeals !== null
  const summarized = clean === null || !isSure ? null : loadSummarized(deps, asked, clean)
  if (summarized !== null) return summarized
  let names = asked.isThere ? await findNames(deps, folder) : new Set<string>()
  if (await settleCompaction(deps, folder, names)) names = await findNames(deps, folder)
  if (await giveBackIndexes(deps, folder, names)) names = await findNames(deps, folder)
  let bases = segmentBases(names)
  if (asked.hadPowerCut && asked.logStartOffset !== null && (await removeReturned(deps, folder, names, bases, asked.logStartOffset)) > 0) {
    names = await findNames(deps, folder)
    bases = segmentBases(names)
  }
  const note = names.has(COMPACTION_NOTE_FILE) ? await loadCompactionNote(deps, folder, bases.at(-1) ?? 0) : NEVER_COMPACTED
  const logStartOffset = startAfterRemoved(names, bases, asked.logStartOffset)
  const loaded = await loadSegments(deps, { ...asked, logStartOffset, holesBelow: note.holesBelow }, { names, bases })
  // A process that was killed right after it made the folder synced nothing of it. Its name is durable since the lock was taken.
  if (asked.isThere && !loaded.wasClean && asked.recoveryPoint === 0) await syncTopicId(deps.disk, folder)
  const compaction = fitted(note, loaded.nextOffset)
  // Durable before anything is appended: what is written at these offsets now was not compacted.
  if (compaction !== note) await writeCompactionNote(deps.disk, folder, compaction)
  // While the start is not saved these names are all that tells of it.
  if (logStartOffset === asked.logStartOffset) await removeLeftovers(deps, folder, names, bases)
  return { ...loaded, compaction }
}

/** A note may outlive what it tells of, when the log was begun anew or its end was cut. */
function fitted(note: CompactionNote, endOffset: number): CompactionNote {
  if (note.holesBelow <= endOffset && note.cleanedOffset <= endOffset) return note
  return {
    ...note,
    holesBelow: Math.min(note.holesBelow, endOffset),
    cleanedOffset: note.cleanedOffset <= endOffset ? note.cleanedOffset : 0,
  }
}

type LoadedSegments = Omit<LoadedLog, 'compaction'>

async function loadSegments(
  deps: LoadDeps,
  options: Loading,
  { names, bases }: { names: ReadonlySet<string>; bases: readonly number[] },
): Promise<LoadedSegments> {
  if (bases.length === 0) {
    const empty = emptyLog(deps, options, names)
    await removeOrphans(deps, options, names, bases)
    return empty
  }
  if (isTornFromStart(options, bases)) {
    const begun = await beginAgain(deps, options, bases)
    await removeOrphans(deps, options, names, bases)
    return begun
  }
  const epochs = loadEpochs(deps, options)
  if (options.wasClean && options.txnSeals !== null && epochs !== null && !names.has(IN_DOUBT_FILE)) {
    const segments = await openSegments(deps, options, bases, { writableFrom: bases.length - 1, sealedUpTo: bases.length })
    // The stop left its indexes unsynced: they are built again.
    const wasLeft = segments.length === 1 && (segments[0] as Segment).sizeBytes <= SMALL_LOG_BYTES
    const loaded = wasLeft ? null : await loadClean(deps, options, { segments, names, epochs })
    if (loaded !== null) return loaded
    for (const segment of segments) await segment.close()
    if (!wasLeft) deps.log.warn('storage.unclean', `${options.folder} does not fit its clean stop; it is recovered`, {})
  }
  const isInDoubt = names.has(IN_DOUBT_FILE)
  const rewriteFrom = options.rewriteFrom ?? (isInDoubt ? options.recoveryPoint : null)
  const loaded = await recoverTrusting(deps, { ...options, rewriteFrom }, { names, bases }, epochs)
  await removeOrphans(deps, options, names, bases)
  if (isInDoubt) await deps.disk.removeFile(`${options.folder}/${IN_DOUBT_FILE}`)
  return loaded
}

/**
 * Takes away indexes whose log file is not there: a power cut may keep their names and not the log's. A later segment of the same
 * name would take their entries for its own.
 */
async function removeOrphans(
  deps: LoadDeps,
  { folder, hadPowerCut, logStartOffset }: Loading,
  names: ReadonlySet<string>,
  bases: readonly number[],
): Promise<void> {
  const known = new Set(bases)
  let hasRemoved = false
  for (const name of names) {
    const parsed = parseSegmentFileName(name)
    if (parsed === null || parsed.kind === 'log' || parsed.kind === 'snapshot' || known.has(parsed.baseOffset)) continue
    await deps.disk.removeFile(`${folder}/${name}`)
    hasRemoved = true
    const text = `${folder}/${name} belongs to no log file and was removed`
    // Below the log's start they were about to go with their log file.
    const isLeft = logStartOffset !== null && parsed.baseOffset < logStartOffset
    if (hadPowerCut || isLeft) deps.log.warn('storage.index_orphaned', text, { folder, file: name })
    else deps.log.error('storage.index_orphaned', `${text}; what was acknowledged in that log file is gone`, { folder, file: name })
  }
  if (hasRemoved) await deps.disk.syncDirectory(folder)
}

/**
 * A power cut took the name of the first segment and left later ones. Nothing was acknowledged then: what is left is a tail whose
 * beginning is gone, like batches behind a torn one.
 */
function isTornFromStart(options: Loading, bases: readonly number[]): boolean {
  const { hadPowerCut, holesBelow, logStartOffset, recoveryPoint, acknowledgedOffset } = options
  // Only what was synced is ever compacted.
  if (!hadPowerCut || logStartOffset === null || holesBelow > logStartOffset) return false
  return (bases[0] as number) > logStartOffset && Math.max(recoveryPoint, acknowledgedOffset ?? 0) <= logStartOffset
}

async function beginAgain(deps: LoadDeps, options: Loading, bases: readonly number[]): Promise<LoadedSegments> {
  const { folder, logStartOffset } = options
  const segments = await openSegments(deps, options, bases, { writableFrom: 0, sealedUpTo: 0 })
  const cuts: CutReport[] = []
  for (const { baseOffset, log, sizeBytes } of segments) {
    const reason = `the segments from offset ${logStartOffset} up to ${baseOffset} are missing after a power cut, and nothing was synced`
    const file = log.path
    cuts.push({ file, fromPosition: 0, toPosition: sizeBytes, atOffset: logStartOffset ?? 0, reason, hadBatchesBehind: true })
    deps.log.warn('storage.tail_cut', `${file} lies behind a beginning that never reached the disk; it was removed`, { reason })
  }
  // The last one first, so that a crash in between leaves no hole that looks whole.
  for (const segment of segments.reverse()) await segment.removeFiles(deps)
  await loadProducerSnapshot(deps, { directory: folder, maxOffset: logStartOffset ?? 0 })
  await deps.disk.syncDirectory(folder)
  return { ...emptyLog(deps, options, new Set()), cuts }
}

function emptyLog(deps: LoadDeps, options: Loading, names: ReadonlySet<string>): LoadedSegments {
  const { folder, recoveryPoint } = options
  const logStartOffset = options.logStartOffset ?? 0
  if (recoveryPoint > logStartOffset) {
    throw new MoonMQError('DATA_DAMAGED', {
      path: folder,
      reason: `there are no segments, but everything from offset ${logStartOffset} to ${recoveryPoint} was synced`,
    })
  }
  warnOfOrphans(deps, options, names)
  const baseOffset = Math.max(logStartOffset, recoveryPoint)
  const segment = Segment.create(deps, { folder, baseOffset, createdMs: deps.clock.nowMs() })
  const producers = new ProducerState(deps, deps.producerOptions)
  producers.clear(baseOffset)
  return {
    segments: [segment],
    nextOffset: baseOffset,
    logStartOffset: baseOffset,
    producers,
    epochs: new EpochCache(),
    cuts: [],
    wasClean: options.wasClean,
  }
}

/** A log file is there before its first epoch and its indexes, so only a power cut right after leaves these alone. */
function warnOfOrphans(deps: LoadDeps, options: Loading, names: ReadonlySet<string>): void {
  const { folder } = options
  const isIndex = (name: string) => parseSegmentFileName(name) !== null
  const hasEpochs = names.has(EPOCH_CHECKPOINT_NAME) && (loadEpochs(deps, options)?.entries.length ?? 0) > 0
  const file = hasEpochs ? EPOCH_CHECKPOINT_NAME : [...names].find(isIndex)
  if (file === undefined) return
  const text = `${folder} has ${file} but no log; the log begins anew, empty: if records were acknowledged here, they are gone`
  deps.log.error('storage.log_missing', text, { folder, file })
}

async function findNames(deps: LoadDeps, folder: string): Promise<Set<string>> {
  const names = new Set<string>()
  for (const entry of await deps.disk.list(folder)) if (entry.kind === 'file') names.add(entry.name)
  return names
}

/**
 * Those before `writableFrom` are only read: what is missing of them is not made in passing. The transaction indexes of those before
 * `sealedUpTo` must be what was saved of them.
 */
async function openSegments(
  deps: LoadDeps,
  { folder, txnSeals }: Loading,
  bases: readonly number[],
  { writableFrom, sealedUpTo }: { writableFrom: number; sealedUpTo: number },
): Promise<Segment[]> {
  const sizes = await Promise.all(bases.map((base) => sizeOf(deps, `${folder}/${segmentFileName(base, 'log')}`)))
  return bases.map(
    (baseOffset, index) =>
      new Segment(deps, {
        folder,
        baseOffset,
        writable: index >= writableFrom,
        sizeBytes: sizes[index] ?? 0,
        indexEntries: null,
        timeIndexEntries: null,
        nextOffset: bases[index + 1] ?? baseOffset,
        txnSeals: txnSeals !== null && index < sealedUpTo ? sealsOf(baseOffset, txnSeals) : null,
        createdMs: deps.clock.nowMs(),
      }),
  )
}

async function sizeOf(deps: LoadDeps, path: string): Promise<number> {
  return (await deps.disk.stat(path))?.sizeBytes ?? 0
}

/** Null when the checkpoint is missing or damaged. */
function loadEpochs(deps: LoadDeps, options: Loading): EpochCache | null {
  const path = `${options.folder}/${EPOCH_CHECKPOINT_NAME}`
  try {
    const bytes = readSmallFileNow(deps.disk, path, MAX_EPOCH_CHECKPOINT_BYTES)
    return bytes === null ? null : new EpochCache(decodeEpochCheckpoint(bytes, path))
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    deps.log.warn('storage.epochs_damaged', 'the leader epoch checkpoint is damaged; it is made again from the batches', {
      reason: error.message,
    })
    return null
  }
}

/** Null when anything does not fit. Small files and the log's end are read at once: a start has nothing else to do meanwhile. */
async function loadClean(
  deps: LoadDeps,
  options: Loading,
  found: { segments: Segment[]; names: ReadonlySet<string>; epochs: EpochCache },
): Promise<LoadedSegments | null> {
  const { segments, names, epochs } = found
  const active = segments[segments.length - 1] as Segment
  for (const kind of ['index', 'timeindex'] as const) if (!names.has(segmentFileName(active.baseOffset, kind))) return null
  const hasTransactions = names.has(segmentFileName(active.baseOffset, 'txnindex')) || !active.txnIndex.isSealedEmpty
  if (hasTransactions && !isTxnIndexWhole(active.txnIndex, deps.log)) return null
  if (!(await readEnd(deps, options, active, epochs))) return null
  active.isFinished = false
  const producers = new ProducerState(deps, deps.producerOptions)
  const snapshot = await findSnapshot(deps, options, names)
  if (snapshot !== null) producers.load(snapshot.producers, snapshot.endOffset)
  if (snapshot?.endOffset !== options.recoveryPoint) {
    await foldFrom(deps, options, segments, { producers, epochs }, snapshot?.endOffset ?? 0, Number.POSITIVE_INFINITY)
  }
  return { ...finish(deps, options, segments, producers, epochs, []), wasClean: true }
}

/** Reads the active segment from its last index entry to its end. False when it does not end where the checkpoint says. */
async function readEnd(deps: LoadDeps, options: Loading, active: Segment, epochs: EpochCache): Promise<boolean> {
  const last = lastIndexEntry(active)
  if (last === undefined || (last !== null && last.position >= active.sizeBytes)) return false
  const from = last?.position ?? 0
  const file = active.log.acquire()
  try {
    const rules = {
      expectedOffset: active.baseOffset,
      holesBelow: options.holesBelow,
      epochFor: (offset: number) => epochs.epochFor(offset),
      minEpoch: -1,
      maxEpoch: options.maxEpoch,
    }
    const end = { from, to: active.sizeBytes, rules, readsNow: true }
    const scan = await scanBatches(file, deps.pool, last === null ? end : { ...end, firstLastOffset: last.lastOffset }, () => {})
    if (scan.fault !== null || scan.nextOffset !== options.recoveryPoint) return false
    active.nextOffset = scan.nextOffset
    active.writtenOffset = scan.nextOffset
    active.syncedOffset = scan.nextOffset
    active.storedOffset = scan.nextOffset
    active.bytesSinceIndexEntry = active.sizeBytes - from
    return true
  } finally {
    active.log.release()
  }
}

/** Null: there is none. Undefined: an index file ends within an entry. */
function lastIndexEntry(active: Segment): OffsetEntry | null | undefined {
  try {
    active.timeIndex.last()
    return active.index.last()
  } catch (error) {
    if (isCode(error, 'CORRUPT_RECORDS')) return undefined
    throw error
  }
}

/** The snapshot of the stop, else the newest one that is whole. */
async function findSnapshot(
  deps: LoadDeps,
  options: Loading,
  names: ReadonlySet<string>,
): Promise<{ readonly endOffset: number; readonly producers: readonly ProducerEntry[] } | null> {
  const endOffset = options.recoveryPoint
  const name = producerSnapshotName(endOffset)
  if (names.has(name)) {
    const path = `${options.folder}/${name}`
    try {
      const bytes = readSmallFileNow(deps.disk, path, MAX_SNAPSHOT_BYTES)
      if (bytes !== null) return { endOffset, producers: decodeProducerSnapshot(bytes, { file: path, endOffset }) }
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
    }
  }
  return loadProducerSnapshot(deps, { directory: options.folder, minOffset: options.holesBelow, maxOffset: endOffset })
}

interface FoundFiles {
  readonly names: ReadonlySet<string>
  readonly bases: readonly number[]
}

/**
 * Recovers with the leader epochs of the checkpoint. Where batches contradict it they win, unless they contradict each other: a checkpoint
 * that is damaged, old or another's never costs a whole batch.
 */
async function recoverTrusting(deps: LoadDeps, options: Loading, files: FoundFiles, found: EpochCache | null): Promise<LoadedSegments> {
  const { bases } = files
  try {
    return await recover(deps, options, files, { found, doubtsEpochs: found !== null })
  } catch (error) {
    if (!(error instanceof EpochDoubt)) throw error
    const segments = await openSegments(deps, options, bases, { writableFrom: bases.length, sealedUpTo: 0 })
    const told = await epochsByBatches(deps.pool, segments, options)
    for (const segment of segments) await segment.close()
    if (told === null) return recover(deps, options, files, { found, doubtsEpochs: false })
    const file = `${options.folder}/${EPOCH_CHECKPOINT_NAME}`
    const text = `${file} contradicts the batches of the log; it is made again from them`
    deps.log.warn('storage.epochs_contradicted', text, { file, reason: error.message })
    return recover(deps, options, files, { found: null, doubtsEpochs: false })
  }
}

async function recover(
  deps: LoadDeps,
  options: Loading,
  { names, bases }: FoundFiles,
  { found, doubtsEpochs }: { found: EpochCache | null; doubtsEpochs: boolean },
): Promise<LoadedSegments> {
  const epochs = new EpochCache(found?.entries)
  const fromIndex = found === null ? 0 : firstUnverified(bases, options)
  const segments = await openSegments(deps, options, bases, { writableFrom: fromIndex, sealedUpTo: fromIndex })
  const from = segments[fromIndex] as Segment
  const snapshot = await loadProducerSnapshot(deps, {
    directory: options.folder,
    minOffset: options.holesBelow,
    maxOffset: from.baseOffset,
  })
  const producers = new ProducerState(deps, deps.producerOptions)
  if (snapshot !== null) producers.load(snapshot.producers, snapshot.endOffset)
  const state = { producers, epochs }
  await foldFrom(deps, options, segments.slice(0, fromIndex), state, snapshot?.endOffset ?? 0, from.baseOffset)
  const acknowledgedOffset = Math.max(options.acknowledgedOffset ?? 0, options.recoveryPoint)
  const how = { ...options, fromIndex, acknowledgedOffset, areEpochsKnown: found !== null, doubtsEpochs, isOnly: segments.length === 1 }
  const recovered = await recoverSegments(deps, segments, state, how).catch(async (error: unknown) => {
    await Promise.all(segments.map((segment) => segment.close()))
    throw error
  })
  const active = recovered.segments[recovered.segments.length - 1] as Segment
  if (active.nextOffset < acknowledgedOffset) {
    const reason = `the log ends at offset ${active.nextOffset}, but everything below ${acknowledgedOffset} was synced`
    throw new MoonMQError('DATA_DAMAGED', { path: options.folder, reason })
  }
  active.isFinished = false
  const changed = epochs.truncateFromEnd(active.nextOffset)
  if (changed || found === null) await writeEpochCheckpoint(deps.disk, options.folder, epochs.entries)
  const isAsFound = recovered.cuts.length === 0 && segments.length === 1 && hasNoIndex(names, active)
  if (!isAsFound || !isSynced(active, options)) await deps.disk.syncDirectory(options.folder)
  return finish(deps, options, recovered.segments, producers, epochs, recovered.cuts)
}

/** No index was found of the segment and none was made: no name in the folder changed. */
function hasNoIndex(names: ReadonlySet<string>, { baseOffset, index, timeIndex, txnIndex }: Segment): boolean {
  const kinds = ['index', 'timeindex', 'txnindex'] as const
  if (kinds.some((kind) => names.has(segmentFileName(baseOffset, kind)))) return false
  return index.store.isUnused && timeIndex.store.isUnused && txnIndex.load().length === 0
}

function finish(
  deps: LoadDeps,
  options: Loading,
  segments: Segment[],
  producers: ProducerState,
  epochs: EpochCache,
  cuts: readonly CutReport[],
): LoadedSegments {
  const first = segments[0] as Segment
  const { nextOffset } = segments[segments.length - 1] as Segment
  const logStartOffset = Math.min(options.logStartOffset ?? first.baseOffset, nextOffset)
  if (logStartOffset < first.baseOffset) {
    const { folder } = options
    const { baseOffset } = first
    const text = `${folder} begins with offset ${baseOffset}, but nothing from ${logStartOffset} on was deleted: segments are missing`
    deps.log.error('storage.segments_missing', text, { folder, logStartOffset, baseOffset })
  }
  return { segments, nextOffset, logStartOffset, producers, epochs, cuts, wasClean: false }
}

/** Segments that end below the recovery point were synced with their indexes; the one that holds it is verified whole. */
function firstUnverified(bases: readonly number[], { recoveryPoint, txnSeals }: Loading): number {
  let index = 0
  if (txnSeals === null) return index
  for (; index + 1 < bases.length; index++) {
    const segment = { baseOffset: bases[index] as number, endOffset: bases[index + 1] as number }
    if (!isSettled(segment, recoveryPoint, txnSeals)) break
  }
  return index
}

/** Folds the stored batches of [from, to) into producers, where no snapshot spares it. */
async function foldFrom(
  deps: LoadDeps,
  options: Loading,
  segments: readonly Segment[],
  state: { producers: ProducerState; epochs: EpochCache },
  from: number,
  to: number,
): Promise<void> {
  for (const segment of segments) {
    if (segment.nextOffset <= from || segment.baseOffset >= to) continue
    const file = segment.log.acquire()
    try {
      const rules = {
        expectedOffset: segment.baseOffset,
        holesBelow: options.holesBelow,
        epochFor: null,
        minEpoch: -1,
        maxEpoch: options.maxEpoch,
      }
      const scan = await scanBatches(file, deps.pool, { from: 0, to: file.sizeBytes, rules }, (header, _position, bytes, at) => {
        if (header.baseOffset >= from) foldBatch(null, state, header, bytes, at)
      })
      if (scan.fault !== null) {
        const reason = `byte ${scan.endPosition}, offset ${scan.nextOffset}: ${scan.fault}; it was synced, so this is damage`
        throw new MoonMQError('DATA_DAMAGED', { path: segment.log.path, reason })
      }
    } finally {
      segment.log.release()
    }
  }
}
