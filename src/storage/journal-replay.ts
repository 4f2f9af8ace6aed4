import { isCode, MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import { Semaphore } from '../core/semaphore.ts'
import { readSmallFileNow } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { systemCode } from '../io/system-error.ts'
import { ROOT_FILES } from './checkpoint.ts'
import type { EpochStart } from './epoch-cache.ts'
import { placeEpochCheckpoint, readEpochCheckpointNow } from './epoch-checkpoint.ts'
import {
  decodePartitionMetadata,
  PARTITION_METADATA_FILE,
  partitionFolderName,
  REMOVED_SUFFIX,
  segmentBases,
  segmentFileName,
} from './files.ts'
import { type JournalContent, readJournal } from './journal-content.ts'
import { JOURNAL_FILE, type JournalOwner, type RecordsEntry } from './journal-format.ts'
import { type JournalNote, type LogId, removeJournalNote } from './journal-note.ts'
import { makeLogFolder } from './log-folder.ts'

export interface ReplayOptions {
  readonly folder: string
  /** The recovery point: an entry wholly below is in the files, or was deleted or compacted since. */
  settledBelow(owner: JournalOwner): number
  /** By the checkpoint; segments below it may have left the log. */
  logStartOf(owner: JournalOwner): number
  /** False when they are damaged, so that nobody knows what was deleted or compacted since. */
  readonly arePointsKnown: boolean
}

export interface Replayed {
  /** By topic id and partition: everything below was acknowledged. */
  readonly acknowledged: ReadonlyMap<string, number>
  /** By the same key: the first offset of the newest segment that was written and made durable, with every name in its folder. */
  readonly synced: ReadonlyMap<string, number>
  /** What the note says of it, if not all that it holds could be written: then it stays as it is. */
  readonly kept: JournalNote | null
  /** Why what it held is not known, though logs may need it. The note stays until somebody said so for every log. */
  readonly lost: string | null
}

interface ReplayDeps {
  readonly disk: Disk
  readonly log: Logger
  readonly failpoint: Failpoint
}

const MAX_METADATA_BYTES = 1024
const DAMAGED_SUFFIX = '.damaged'
const PARALLEL = 16
const NOTHING: Replayed = { acknowledged: new Map(), synced: new Map(), kept: null, lost: null }

/**
 * Writes what the journal holds into the files that it stood in for, makes them durable, and removes it; before any log is loaded. May be
 * done again from the start at any time. Entries of topics that are gone, or below the checkpoints, are passed over. A log that lacks bytes
 * before an entry's is left alone: what was acknowledged of it is returned, so that recovery takes it for damaged. Throws DATA_DAMAGED
 * when another version wrote it.
 */
export async function replayJournal(deps: ReplayDeps, options: ReplayOptions): Promise<Replayed> {
  const { disk, log } = deps
  const content = await readJournal(disk, options.folder)
  if (content === null) return NOTHING
  if (content.isForeign) throw new MoonMQError('DATA_DAMAGED', { path: `${options.folder}/${JOURNAL_FILE}`, reason: content.reason ?? '' })
  const logs = gather(content, options)
  const acknowledged = new Map<string, number>()
  const synced = new Map<string, number>()
  let records = 0
  let isKept = false
  const slots = new Semaphore(PARALLEL)
  const one = async (each: Replay) => {
    acknowledged.set(ownerKey(each.owner), each.acknowledged)
    try {
      const written = await replayLog(deps, options, each)
      records += written.entries
      if (written.newestSegment !== null) synced.set(ownerKey(each.owner), written.newestSegment)
    } catch (error) {
      if (systemCode(error) === null && !(error instanceof MoonMQError)) throw error
      isKept = true
      const text = `${partitionFolderName(each.owner)} could not be written from the journal, which stays; the next start tries again`
      log.error('storage.journal_not_replayed', text, { ...each.owner, error })
    }
  }
  await Promise.all([...logs.values()].map((each) => slots.run(() => one(each))))
  if (records > 0) log.info('storage.journal_replayed', `${records} writes of ${logs.size} partitions were taken from the journal`, {})
  deps.failpoint('journal.replayed')
  const lost = content.isLost ? content.reason : null
  if (!isKept) await finish(deps, options.folder, content, lost !== null)
  return { acknowledged, synced, kept: isKept ? content.note : null, lost }
}

/** The journal is not needed any more. The note goes first, durably: alone, it would say that a journal is lost. */
async function finish(deps: ReplayDeps, folder: string, content: JournalContent, keepsNote: boolean): Promise<void> {
  const { disk, log } = deps
  const path = `${folder}/${JOURNAL_FILE}`
  if (content.noteReason !== null) {
    const note = `${folder}/${ROOT_FILES['journal-note']}`
    log.error('storage.journal_note_damaged', `${note} is damaged: ${content.noteReason}; the journal was taken as it is`, {})
  }
  if (content.reason !== null) {
    const fate = content.isThere ? 'what could be read of it was used, the file is set aside' : 'the logs are taken as their files are'
    log.error('storage.journal_damaged', `${path} is damaged: ${content.reason}; ${fate}`, {})
  }
  if (!keepsNote) await removeJournalNote(disk, folder)
  deps.failpoint('journal.note-removed')
  if (!content.isThere) return
  if (content.reason === null) await disk.removeFile(path)
  else await disk.rename(path, path + DAMAGED_SUFFIX)
  deps.failpoint('journal.removed')
  await disk.syncDirectory(folder)
}

/** After a stop in order nothing in it is needed. */
export async function discardJournal(disk: Disk, folder: string): Promise<void> {
  const path = `${folder}/${JOURNAL_FILE}`
  await removeJournalNote(disk, folder)
  if ((await disk.stat(path)) === null) return
  await disk.removeFile(path)
  await disk.syncDirectory(folder)
}

interface Replay {
  readonly owner: JournalOwner
  readonly records: RecordsEntry[]
  epochs: readonly EpochStart[] | null
  acknowledged: number
}

export function ownerKey({ topicId, partition }: LogId): string {
  return `${topicId}-${partition}`
}

function gather({ frames, note }: JournalContent, options: ReplayOptions): Map<string, Replay> {
  const logs = new Map<string, Replay>()
  const forgotten = new Set(note?.forgotten.map(ownerKey))
  for (const { entries } of frames) {
    for (const entry of entries) {
      const key = ownerKey(entry.owner)
      if (forgotten.has(key)) continue
      if (entry.kind === 'forget') {
        logs.delete(key)
        continue
      }
      const known = logs.get(key) ?? { owner: entry.owner, records: [], epochs: null, acknowledged: 0 }
      logs.set(key, known)
      if (entry.kind === 'epochs') known.epochs = entry.epochs
      else {
        // One that does not follow what was durable, such as a new segment's beside the old one's sync, was not acknowledged by itself.
        known.acknowledged = Math.max(known.acknowledged, entry.syncedOffset)
        if (entry.startOffset <= known.acknowledged) known.acknowledged = Math.max(known.acknowledged, entry.endOffset)
        if (entry.endOffset > options.settledBelow(entry.owner)) known.records.push(entry)
      }
    }
  }
  return logs
}

interface Written {
  entries: number
  newestSegment: number | null
}

/** The journal stays until all of it is durable, so names need one sync, at the end. */
async function replayLog(deps: ReplayDeps, options: ReplayOptions, replay: Replay): Promise<Written> {
  const { disk } = deps
  const folder = `${options.folder}/${partitionFolderName(replay.owner)}`
  const metadata = readSmallFileNow(disk, `${folder}/${PARTITION_METADATA_FILE}`, MAX_METADATA_BYTES)
  const written: Written = { entries: 0, newestSegment: null }
  const topicId = metadata === null ? null : decodePartitionMetadata(metadata)
  // A topic of the same name was deleted since.
  if (topicId !== null && topicId !== replay.owner.topicId) return written
  // The folder is as new as the first bytes of its log: its name, or what it is for, may be gone with the power.
  if (topicId === null) await makeLogFolder(deps, folder, replay.owner.topicId)
  const hasEpochs = await replayEpochs(disk, folder, replay.epochs)
  const names = new Set((await disk.list(folder)).map((entry) => entry.name))
  const segments = bySegment(replay.records)
  const bases = [...segments.keys(), ...segmentBases(names)].sort((a, b) => a - b)
  for (const [base, entries] of segments) {
    const isThere = names.has(segmentFileName(base, 'log'))
    const nextBase = bases.find((each) => each > base)
    if (!isThere && hasLeft({ names, base, nextBase, entries, logStart: options.logStartOf(replay.owner) })) continue
    // Where nobody knows what was compacted since, only an end may be put back.
    const mayChange = options.arePointsKnown || nextBase === undefined
    if (!mayChange && !isThere) continue
    written.entries += await replaySegment(deps, folder, entries, mayChange)
    written.newestSegment = Math.max(base, written.newestSegment ?? 0)
  }
  if (written.newestSegment !== null || hasEpochs) await disk.syncDirectory(folder)
  return written
}

function bySegment(records: readonly RecordsEntry[]): Map<number, RecordsEntry[]> {
  const segments = new Map<number, RecordsEntry[]>()
  for (const entry of records) {
    const known = segments.get(entry.segmentBase)
    if (known === undefined) segments.set(entry.segmentBase, [entry])
    else known.push(entry)
  }
  return segments
}

/**
 * Whether a segment that is not there was taken out of the log. Else a power cut took its name: then it was never synced, and the journal
 * has all of it up to where the next one begins.
 */
function hasLeft(segment: {
  names: ReadonlySet<string>
  base: number
  nextBase: number | undefined
  entries: readonly RecordsEntry[]
  logStart: number
}): boolean {
  const { names, base, nextBase, entries, logStart } = segment
  if (names.has(segmentFileName(base, 'log') + REMOVED_SUFFIX)) return true
  let position = 0
  let endOffset = base
  for (const entry of entries) {
    if (entry.position !== position) return entry.endOffset <= logStart
    position += entry.sizeBytes
    endOffset = entry.endOffset
  }
  return endOffset <= logStart && nextBase !== undefined && endOffset !== nextBase
}

async function replaySegment(
  deps: { disk: Disk; log: Logger },
  folder: string,
  entries: readonly RecordsEntry[],
  mayChange: boolean,
): Promise<number> {
  const path = `${folder}/${segmentFileName((entries[0] as RecordsEntry).segmentBase, 'log')}`
  const file = await deps.disk.open(path, 'write')
  let written = 0
  try {
    for (const { position, startOffset, endOffset, parts, sizeBytes } of entries) {
      if (position > file.sizeBytes) {
        const text = `${path} has ${file.sizeBytes} bytes, the journal continues it at byte ${position}: records ${startOffset} to ${endOffset - 1} cannot be put back`
        deps.log.error('storage.journal_gap', text, { path, position, startOffset, endOffset })
        break
      }
      if (!mayChange && position < file.sizeBytes) continue
      if (sizeBytes > 0) await file.write(parts, position)
      written++
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  return written
}

/** The file may know later epochs already. Its name is not durable yet when it was written, and true is returned. */
async function replayEpochs(disk: Disk, folder: string, epochs: readonly EpochStart[] | null): Promise<boolean> {
  const newest = epochs?.[epochs.length - 1]
  if (epochs === null || newest === undefined) return false
  let known: readonly EpochStart[] = []
  try {
    known = readEpochCheckpointNow(disk, folder) ?? []
  } catch (error) {
    if (!isCode(error, 'DATA_DAMAGED')) throw error
  }
  if ((known[known.length - 1]?.leaderEpoch ?? -1) >= newest.leaderEpoch) return false
  await placeEpochCheckpoint(disk, folder, epochs)
  return true
}
