import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import { directoryOf, readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import { EpochCache } from './epoch-cache.ts'
import { readEpochCheckpoint, writeEpochCheckpoint } from './epoch-checkpoint.ts'
import {
  decodePartitionMetadata,
  encodePartitionMetadata,
  PARTITION_METADATA_FILE,
  parseSegmentFileName,
  segmentFileName,
} from './files.ts'
import type { HandleCache } from './handles.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from './offset-index.ts'
import { loadProducerSnapshot } from './producer-snapshot.ts'
import { ProducerState } from './producer-state.ts'
import { type CutReport, foldBatch, type RecoverDeps, recoverSegments } from './recovery.ts'
import { scanBatches } from './scan.ts'
import { Segment } from './segment.ts'
import { TIME_INDEX_ENTRY_BYTES } from './time-index.ts'

export interface LoadDeps extends RecoverDeps {
  readonly handles: HandleCache
  readonly clock: Clock
}

export interface LoadOptions extends TopicPartition {
  readonly folder: string
  readonly topicId: Uuid
  /** Every log was closed in order and nothing was written since: only the end of the active segment is read. */
  readonly wasClean: boolean
  /** By the checkpoint: all below was synced. After a clean stop it is the log's end. */
  readonly recoveryPoint: number
  readonly logStartOffset: number
  /** Leader epoch of the partition in the metadata log; null when nobody knows it yet. */
  readonly maxEpoch: number | null
  readonly hadPowerCut: boolean
  readonly isDense: boolean
  readonly indexIntervalBytes: number
  /** After a failed sync: bytes past this offset are written again. */
  readonly rewriteFrom: number | null
}

export interface LoadedLog {
  /** At least one; the last one takes appends. */
  readonly segments: Segment[]
  readonly nextOffset: number
  readonly logStartOffset: number
  readonly producers: ProducerState
  readonly epochs: EpochCache
  readonly cuts: readonly CutReport[]
}

const MAX_PARTITION_METADATA_BYTES = 1024

/** Makes the folder of a partition; durable, its name too, when it resolves. */
export async function createLogFolder(deps: LoadDeps, folder: string, topicId: Uuid): Promise<void> {
  await deps.disk.makeDirectory(folder)
  await writeFileAtomically(deps.disk, `${folder}/${PARTITION_METADATA_FILE}`, [encodePartitionMetadata(topicId)])
  await deps.disk.syncDirectory(directoryOf(folder))
}

/** The topic that a partition's folder belongs to; null when the folder does not say, as after a crash while it was made. */
export async function folderTopicId(deps: LoadDeps, folder: string): Promise<Uuid | null> {
  const bytes = await readSmallFile(deps.disk, `${folder}/${PARTITION_METADATA_FILE}`, MAX_PARTITION_METADATA_BYTES)
  return bytes === null ? null : decodePartitionMetadata(bytes)
}

/**
 * Opens what a folder holds: segments, producers, epochs. After a clean stop by reading the end of the active segment, else through
 * recovery; whatever does not fit after a clean stop is recovered too. Everything that is returned is durable. Throws DATA_DAMAGED.
 */
export async function loadLog(deps: LoadDeps, options: LoadOptions): Promise<LoadedLog> {
  const bases = await findBases(deps, options.folder)
  if (bases.length === 0) return emptyLog(deps, options)
  const epochs = await loadEpochs(deps, options)
  if (options.wasClean && epochs !== null) {
    const segments = await openSegments(deps, options.folder, bases, bases.length - 1)
    const loaded = await loadClean(deps, options, segments, epochs)
    if (loaded !== null) return loaded
    for (const segment of segments) await segment.close()
    deps.log.warn('storage.unclean', `${options.folder} does not fit its clean stop; it is recovered`, {})
  }
  return recover(deps, options, bases, epochs)
}

function emptyLog(deps: LoadDeps, options: LoadOptions): LoadedLog {
  const { folder, recoveryPoint, logStartOffset } = options
  if (recoveryPoint > logStartOffset) {
    throw new MoonMQError('DATA_DAMAGED', {
      path: folder,
      reason: `there are no segments, but everything from offset ${logStartOffset} to ${recoveryPoint} was synced`,
    })
  }
  const baseOffset = Math.max(logStartOffset, recoveryPoint)
  const segment = Segment.create(deps, { folder, baseOffset, createdMs: deps.clock.nowMs() })
  const producers = new ProducerState(deps)
  producers.clear(baseOffset)
  return { segments: [segment], nextOffset: baseOffset, logStartOffset: baseOffset, producers, epochs: new EpochCache(), cuts: [] }
}

/** First offsets of the segments, ascending. */
async function findBases(deps: LoadDeps, folder: string): Promise<number[]> {
  const bases: number[] = []
  for (const entry of await deps.disk.list(folder)) {
    const name = entry.kind === 'file' ? parseSegmentFileName(entry.name) : null
    if (name?.kind === 'log') bases.push(name.baseOffset)
  }
  return bases
}

/** Those before `writableFrom` are only read: what is missing of them is not made in passing. */
async function openSegments(deps: LoadDeps, folder: string, bases: readonly number[], writableFrom: number): Promise<Segment[]> {
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
        createdMs: deps.clock.nowMs(),
      }),
  )
}

async function sizeOf(deps: LoadDeps, path: string): Promise<number> {
  return (await deps.disk.stat(path))?.sizeBytes ?? 0
}

/** Null when the checkpoint is missing or damaged. */
async function loadEpochs(deps: LoadDeps, options: LoadOptions): Promise<EpochCache | null> {
  try {
    const entries = await readEpochCheckpoint(deps.disk, options.folder)
    return entries === null ? null : new EpochCache(entries)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    deps.log.warn('storage.epochs_damaged', 'the leader epoch checkpoint is damaged; it is made again from the batches', {
      reason: error.message,
    })
    return null
  }
}

/** Null when anything does not fit. */
async function loadClean(deps: LoadDeps, options: LoadOptions, segments: Segment[], epochs: EpochCache): Promise<LoadedLog | null> {
  const active = segments[segments.length - 1] as Segment
  const sizes = await Promise.all([sizeOf(deps, active.index.store.file.path), sizeOf(deps, active.timeIndex.store.file.path)])
  if (sizes[0] % OFFSET_INDEX_ENTRY_BYTES !== 0 || sizes[1] % TIME_INDEX_ENTRY_BYTES !== 0) return null
  const last = active.index.last()
  if (last !== null && last.position >= active.sizeBytes) return null
  const from = last?.position ?? 0
  const file = active.log.acquire()
  const snapshot = await loadProducerSnapshot(deps, { directory: options.folder, maxOffset: options.recoveryPoint })
  const isSnapshotExact = snapshot?.endOffset === options.recoveryPoint
  try {
    const rules = {
      expectedOffset: active.baseOffset,
      isDense: options.isDense,
      epochFor: (offset: number) => epochs.epochFor(offset),
      minEpoch: -1,
      maxEpoch: options.maxEpoch,
    }
    const request = { from, to: active.sizeBytes, rules, ...(last === null ? {} : { firstLastOffset: last.lastOffset }) }
    const scan = await scanBatches(file, deps.pool, request, () => {})
    if (scan.fault !== null || scan.nextOffset !== options.recoveryPoint) return null
    active.nextOffset = scan.nextOffset
    active.writtenOffset = scan.nextOffset
    active.syncedOffset = scan.nextOffset
    active.bytesSinceIndexEntry = active.sizeBytes - from
  } finally {
    active.log.release()
  }
  active.isFinished = false
  const producers = new ProducerState(deps)
  if (snapshot !== null) producers.load(snapshot.producers, snapshot.endOffset)
  if (!isSnapshotExact) await foldFrom(deps, options, segments, { producers, epochs }, snapshot?.endOffset ?? 0, Number.POSITIVE_INFINITY)
  return finish(options, segments, producers, epochs, [])
}

async function recover(deps: LoadDeps, options: LoadOptions, bases: readonly number[], found: EpochCache | null): Promise<LoadedLog> {
  const epochs = found ?? new EpochCache()
  const fromIndex = found === null ? 0 : firstUnverified(bases, options.recoveryPoint)
  const segments = await openSegments(deps, options.folder, bases, fromIndex)
  const from = segments[fromIndex] as Segment
  const snapshot = await loadProducerSnapshot(deps, { directory: options.folder, maxOffset: from.baseOffset })
  const producers = new ProducerState(deps)
  if (snapshot !== null) producers.load(snapshot.producers, snapshot.endOffset)
  const state = { producers, epochs }
  await foldFrom(deps, options, segments.slice(0, fromIndex), state, snapshot?.endOffset ?? 0, from.baseOffset)
  const recovered = await recoverSegments(deps, segments, state, { ...options, fromIndex, areEpochsKnown: found !== null })
  const active = recovered.segments[recovered.segments.length - 1] as Segment
  if (active.nextOffset < options.recoveryPoint) {
    const reason = `the log ends at offset ${active.nextOffset}, but everything below ${options.recoveryPoint} was synced`
    throw new MoonMQError('DATA_DAMAGED', { path: options.folder, reason })
  }
  active.isFinished = false
  const changed = epochs.truncateFromEnd(active.nextOffset)
  if (changed || found === null) await writeEpochCheckpoint(deps.disk, options.folder, epochs.entries)
  await deps.disk.syncDirectory(options.folder)
  return finish(options, recovered.segments, producers, epochs, recovered.cuts)
}

function finish(
  options: LoadOptions,
  segments: Segment[],
  producers: ProducerState,
  epochs: EpochCache,
  cuts: readonly CutReport[],
): LoadedLog {
  const first = segments[0] as Segment
  const { nextOffset } = segments[segments.length - 1] as Segment
  const logStartOffset = Math.min(Math.max(options.logStartOffset, first.baseOffset), nextOffset)
  return { segments, nextOffset, logStartOffset, producers, epochs, cuts }
}

/** Segments that end at or below the recovery point were synced with their indexes; the one that holds it is verified whole. */
function firstUnverified(bases: readonly number[], recoveryPoint: number): number {
  let index = 0
  while (index + 1 < bases.length && (bases[index + 1] as number) <= recoveryPoint) index++
  return index
}

/** Folds the stored batches of [from, to) into producers, where no snapshot spares it. */
async function foldFrom(
  deps: LoadDeps,
  options: LoadOptions,
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
        isDense: options.isDense,
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
