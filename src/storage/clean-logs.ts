import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { ByteReader } from '../core/reader.ts'
import type { Uuid } from '../core/uuid.ts'
import { ByteWriter } from '../core/writer.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { ROOT_FILES, seal, unseal } from './checkpoint.ts'
import { NEVER_COMPACTED } from './compaction/note.ts'
import { EpochCache, type EpochStart } from './epoch-cache.ts'
import { segmentFileName } from './files.ts'
import type { LoadDeps, LoadedLog, LoadOptions } from './load-types.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from './offset-index.ts'
import { decodeProducerSnapshot, encodeProducerSnapshot } from './producer-snapshot.ts'
import { ProducerState } from './producer-state.ts'
import { Segment } from './segment.ts'
import { TIME_INDEX_ENTRY_BYTES } from './time-index.ts'
import { isTxnIndexWhole } from './txn-index.ts'
import { sealsOf } from './txn-seals.ts'

/** A closed log's end is read from here and not from its files, which must look as they did: names, sizes and times. */
export interface CleanLog {
  readonly topicId: Uuid
  readonly partition: number
  readonly logStartOffset: number
  readonly endOffset: number
  /** Of the folder: a name that came or went since makes all this void. */
  readonly folderModifiedMs: number
  /** Of the active segment's log file. */
  readonly activeModifiedMs: number
  readonly segments: readonly CleanSegment[]
  /** Of the active segment; null when nobody counted, and then the files tell. */
  readonly indexEntries: number | null
  readonly timeIndexEntries: number | null
  readonly maxTimestamp: { readonly timestampMs: number; readonly lastOffset: number } | null
  readonly bytesSinceIndexEntry: number
  readonly epochs: readonly EpochStart[]
  /** As a `.snapshot` file has them. */
  readonly producers: Buffer
}

export interface CleanSegment {
  readonly baseOffset: number
  readonly sizeBytes: number
}

const MAX_BYTES = 256 * 1024 * 1024
/** Of one log. With more the snapshot in its folder is read. */
const MAX_PRODUCERS = 100
const NO_BYTES = Buffer.alloc(0)

/** Up to this size a log of one segment is read whole when its summary does not fit, so the stop syncs nothing in its folder. */
export const SMALL_LOG_BYTES = 64 * 1024

/** Last step before the marker of a stop in order. `atMs` is the marker's own: a summary of another stop is not believed. */
export function writeCleanLogs(disk: Disk, folder: string, atMs: number, logs: readonly CleanLog[]): Promise<void> {
  const writer = new ByteWriter(64 * 1024)
  writer.int64(atMs)
  writer.int32(logs.length)
  for (const log of logs) encode(writer, log)
  return writeFileAtomically(disk, `${folder}/${ROOT_FILES['clean-logs']}`, [seal('clean-logs', writer.toBuffer())])
}

function encode(writer: ByteWriter, log: CleanLog): void {
  writer.uuid(log.topicId)
  writer.int32(log.partition)
  for (const value of [log.logStartOffset, log.endOffset, log.folderModifiedMs, log.activeModifiedMs]) writer.int64(value)
  writer.int32(log.segments.length)
  for (const { baseOffset, sizeBytes } of log.segments) {
    writer.int64(baseOffset)
    writer.int64(sizeBytes)
  }
  writer.int32(log.indexEntries ?? -1)
  writer.int32(log.timeIndexEntries ?? -1)
  writer.int64(log.maxTimestamp?.timestampMs ?? -1)
  writer.int64(log.maxTimestamp?.lastOffset ?? -1)
  writer.int64(log.bytesSinceIndexEntry)
  writer.int32(log.epochs.length)
  for (const { leaderEpoch, startOffset } of log.epochs) {
    writer.int32(leaderEpoch)
    writer.int64(startOffset)
  }
  writer.int32(log.producers.length)
  writer.bytes(log.producers)
}

/** What the stop at `atMs` left, by topic id and partition. Empty when it is missing, damaged or of another stop: it only spares work. */
export async function readCleanLogs(deps: { disk: Disk; log: Logger }, folder: string, atMs: number): Promise<Map<string, CleanLog>> {
  const logs = new Map<string, CleanLog>()
  const path = `${folder}/${ROOT_FILES['clean-logs']}`
  try {
    const bytes = await readSmallFile(deps.disk, path, MAX_BYTES)
    if (bytes === null) return logs
    const found = decodeCleanLogs(bytes, path)
    if (found.atMs !== atMs) return logs
    for (const log of found.logs) logs.set(`${log.topicId}-${log.partition}`, log)
    return logs
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    deps.log.warn('storage.clean_logs_damaged', `${path} is damaged; the ends of logs are read from the logs`, { reason: error.message })
    return new Map()
  }
}

/** Throws DATA_DAMAGED. */
export function decodeCleanLogs(bytes: Buffer, path: string): { readonly atMs: number; readonly logs: readonly CleanLog[] } {
  const reader = unseal('clean-logs', bytes, path)
  const atMs = reader.int64()
  const logs: CleanLog[] = []
  for (let count = reader.int32(); count > 0; count--) logs.push(decode(reader))
  return { atMs, logs }
}

function decode(reader: ByteReader): CleanLog {
  const id = { topicId: reader.uuid(), partition: reader.int32(), logStartOffset: reader.int64(), endOffset: reader.int64() }
  const times = { folderModifiedMs: reader.int64(), activeModifiedMs: reader.int64() }
  const segments: CleanSegment[] = []
  for (let count = reader.int32(); count > 0; count--) segments.push({ baseOffset: reader.int64(), sizeBytes: reader.int64() })
  const [indexEntries, timeIndexEntries] = [reader.int32(), reader.int32()]
  const [timestampMs, lastOffset] = [reader.int64(), reader.int64()]
  const bytesSinceIndexEntry = reader.int64()
  const epochs: EpochStart[] = []
  for (let count = reader.int32(); count > 0; count--) epochs.push({ leaderEpoch: reader.int32(), startOffset: reader.int64() })
  const size = reader.int32()
  const at = reader.take(size)
  return {
    ...id,
    ...times,
    segments,
    indexEntries: indexEntries < 0 ? null : indexEntries,
    timeIndexEntries: timeIndexEntries < 0 ? null : timeIndexEntries,
    maxTimestamp: lastOffset < 0 ? null : { timestampMs, lastOffset },
    bytesSinceIndexEntry,
    epochs,
    producers: Buffer.from(reader.bytes.subarray(at, at + size)),
  }
}

/** What the stop saves of a log that was closed in order; null when it has no files, or more producers than are worth it. */
export function summarize(
  disk: Disk,
  log: {
    readonly topicId: Uuid
    readonly partition: number
    readonly folder: string
    readonly logStartOffset: number
    readonly endOffset: number
    readonly segments: readonly Segment[]
    readonly epochs: readonly EpochStart[]
    readonly producers: ProducerState
  },
): CleanLog | null {
  const { topicId, partition, folder, logStartOffset, endOffset, epochs } = log
  const active = log.segments[log.segments.length - 1]
  const times = active === undefined ? null : cleanTimes(disk, folder, active.baseOffset)
  if (active === undefined || times === null || log.producers.size > MAX_PRODUCERS) return null
  return {
    topicId,
    partition,
    logStartOffset,
    endOffset,
    ...times,
    segments: log.segments.map(({ baseOffset, sizeBytes }) => ({ baseOffset, sizeBytes })),
    indexEntries: active.index.store.written,
    timeIndexEntries: active.timeIndex.store.written,
    maxTimestamp: active.maxTimestamp,
    bytesSinceIndexEntry: active.bytesSinceIndexEntry,
    epochs,
    producers: log.producers.size === 0 ? NO_BYTES : encodeProducerSnapshot(log.producers.entries()),
  }
}

/** Whether the summary alone makes the next start fast: nothing in the folder has to be durable at the stop but the log. */
export function isSmall(segments: readonly Segment[], producers: ProducerState): boolean {
  const [active] = segments
  if (active === undefined || segments.length > 1 || active.sizeBytes > SMALL_LOG_BYTES || producers.size > MAX_PRODUCERS) return false
  return active.areNamesDurable && !active.txnIndex.isDirty && !active.index.store.isHeld && !active.timeIndex.store.isHeld
}

function cleanTimes(disk: Disk, folder: string, activeBase: number): Pick<CleanLog, 'folderModifiedMs' | 'activeModifiedMs'> | null {
  const directory = disk.statNow(folder)
  const active = disk.statNow(`${folder}/${segmentFileName(activeBase, 'log')}`)
  return directory === null || active === null ? null : { folderModifiedMs: directory.modifiedMs, activeModifiedMs: active.modifiedMs }
}

/**
 * The log as its summary tells, without reading a file of it; null when anything looks other than it did. The folder is the same one. What was damaged inside a file
 * meanwhile is found like all damage to closed segments: by the checksum when it is read, and by `validate`.
 */
export function loadSummarized(deps: LoadDeps, options: LoadOptions, clean: CleanLog): LoadedLog | null {
  const active = clean.segments[clean.segments.length - 1]
  const seals = options.txnSeals
  if (
    active === undefined ||
    seals === null ||
    clean.endOffset !== options.recoveryPoint ||
    clean.logStartOffset !== options.logStartOffset
  )
    return null
  if ((options.acknowledgedOffset ?? 0) > clean.endOffset) return null
  if (!looksUnchanged(deps.disk, options.folder, clean, active)) return null
  const producers = new ProducerState(deps, deps.producerOptions)
  if (clean.producers.length === 0) producers.clear(clean.endOffset)
  else {
    const place = { file: ROOT_FILES['clean-logs'], endOffset: clean.endOffset }
    producers.load(decodeProducerSnapshot(clean.producers, place), clean.endOffset)
  }
  const segments = clean.segments.map(({ baseOffset, sizeBytes }, index) => {
    const isActive = index === clean.segments.length - 1
    return new Segment(deps, {
      folder: options.folder,
      baseOffset,
      writable: isActive,
      sizeBytes,
      indexEntries: isActive ? clean.indexEntries : null,
      timeIndexEntries: isActive ? clean.timeIndexEntries : null,
      nextOffset: clean.segments[index + 1]?.baseOffset ?? clean.endOffset,
      txnSeals: sealsOf(baseOffset, seals),
      createdMs: deps.clock.nowMs(),
    })
  })
  const last = segments[segments.length - 1] as Segment
  // Without aborted transactions there is no file, and one that came would be a name, which the folder's time tells.
  if (!last.txnIndex.isSealedEmpty && !isTxnIndexWhole(last.txnIndex, deps.log)) return null
  last.isFinished = false
  last.maxTimestamp = clean.maxTimestamp
  last.bytesSinceIndexEntry = clean.bytesSinceIndexEntry
  const { logStartOffset, endOffset: nextOffset } = clean
  const compaction = NEVER_COMPACTED
  return { segments, nextOffset, logStartOffset, producers, epochs: new EpochCache(clean.epochs), cuts: [], compaction, wasClean: true }
}

/** Whether the folder is the one that was closed: names of files in it did not change since. */
export function isSameFolder(disk: Disk, folder: string, clean: CleanLog): boolean {
  return disk.statNow(folder)?.modifiedMs === clean.folderModifiedMs
}

function looksUnchanged(disk: Disk, folder: string, clean: CleanLog, active: CleanSegment): boolean {
  const sizeOf = (kind: 'index' | 'timeindex') => disk.statNow(`${folder}/${segmentFileName(active.baseOffset, kind)}`)?.sizeBytes ?? 0
  if (clean.indexEntries !== null && sizeOf('index') !== clean.indexEntries * OFFSET_INDEX_ENTRY_BYTES) return false
  if (clean.timeIndexEntries !== null && sizeOf('timeindex') !== clean.timeIndexEntries * TIME_INDEX_ENTRY_BYTES) return false
  return clean.segments.every(({ baseOffset, sizeBytes }) => {
    const file = disk.statNow(`${folder}/${segmentFileName(baseOffset, 'log')}`)
    return file?.sizeBytes === sizeBytes && (baseOffset !== active.baseOffset || file.modifiedMs === clean.activeModifiedMs)
  })
}
