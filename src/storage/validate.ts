import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { inTurns } from '../core/in-turns.ts'
import type { TopicPartition } from '../core/types.ts'
import { METADATA_TOPIC_ID, type Uuid } from '../core/uuid.ts'
import { readSmallFile } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { CODEC, type Codecs } from '../record/compression.ts'
import { BufferPool } from './buffer-pool.ts'
import { decodeCleanShutdown, type PartitionOffset, ROOT_FILES, readOffsets } from './checkpoint.ts'
import { isDeletedFolder, isStrayFolder, parsePartitionFolderName, parseSegmentFileName, partitionFolderName } from './files.ts'
import { IDENTITY_NAME, readIdentity } from './identity.ts'
import { readJournal } from './journal-content.ts'
import { JOURNAL_FILE } from './journal-format.ts'
import { type Finding, Findings } from './validate-findings.ts'
import { checkPartition, type ExpectedPartition, type PartitionReport } from './validate-partition.ts'

/** A partition by the metadata log. */
export interface KnownPartition extends TopicPartition {
  readonly topicId: Uuid
  readonly leaderEpoch: number
}

export interface ValidateOptions {
  readonly folder: string
  /** What the metadata log knows; null when it could not be read: then topics are what the folders say. */
  readonly known: readonly KnownPartition[] | null
  readonly onProgress?: (progress: ValidateProgress) => void
  /** Partitions to look at, by the names of their folders; absent: all. */
  readonly only?: ReadonlySet<string>
}

export interface ValidateProgress {
  /** Being read, relative to the folder. */
  readonly file: string
  /** Bytes of `.log` files that were read, and of all. */
  readonly bytesDone: number
  readonly bytesTotal: number
}

export interface TopicReport {
  readonly topic: string
  readonly topicId: Uuid | null
  readonly partitions: readonly PartitionReport[]
}

export interface ValidationTotals {
  readonly topics: number
  readonly partitions: number
  readonly segments: number
  readonly batches: number
  readonly records: number
  /** Of the `.log` files. */
  readonly bytes: number
}

export interface ValidationReport {
  readonly folder: string
  /** The last stop was in order and nothing was written since. */
  readonly wasClean: boolean
  /** Sorted by name. */
  readonly topics: readonly TopicReport[]
  readonly totals: ValidationTotals
  /** What is wrong; the folder is sound when this is empty. */
  readonly problems: readonly Finding[]
  /** Problems beyond those listed. */
  readonly problemsLeftOut: number
  /** What the next start puts right by itself: torn tails that were never acknowledged, indexes that lag. */
  readonly repairs: readonly Finding[]
  readonly notes: readonly Finding[]
}

const METADATA_TOPIC = '__cluster_metadata'
const MAX_MARKER_BYTES = 4096
/** Partitions that are looked at together: small ones cost little but waiting for the disk. */
const PARALLEL = 16

/**
 * Checks the logs of a data folder byte by byte against themselves, their side files, the root checkpoints and the metadata log.
 * The folder must belong to no running broker. Opens files for reading only; nothing is changed. What the metadata log says is read
 * by the caller, one layer up.
 */
export async function validateLogs(
  deps: { readonly disk: Disk; readonly clock: Clock; readonly codecs: Codecs },
  options: ValidateOptions,
): Promise<ValidationReport> {
  const findings = new Findings()
  const root = await readRoot(deps.disk, options.folder, findings)
  await checkJournal(deps.disk, options.folder, root.wasClean, findings)
  const { only } = options
  const isAsked = (tp: TopicPartition) => only === undefined || only.has(partitionFolderName(tp))
  const folders = (await findPartitions(deps.disk, options.folder, findings)).filter(isAsked)
  const known = options.known?.filter(isAsked) ?? null
  const expected = expectations(known, root)
  const progress = await startProgress(deps, options, folders)
  const missingCodecs = await loadCodecs(deps.codecs)
  const pool = new BufferPool({ maxKeptBytes: 16 * 1024 * 1024 })
  const topics = new Map<string, PartitionReport[]>()
  const checkOne = async (tp: TopicPartition) => {
    const name = partitionFolderName(tp)
    const own = new Findings()
    const found = expected.get(name)
    if (found === undefined && options.known !== null && tp.topic !== METADATA_TOPIC) {
      own.note(name, 'no topic of the metadata log has this partition; the next start sets the folder aside')
      return { own, partition: null }
    }
    expected.delete(name)
    const check = { ...deps, pool, findings: own, missingCodecs, onProgress: progress }
    const of = { dataFolder: options.folder, wasClean: root.wasClean, expected: found ?? unknownPartition(tp, root) }
    return { own, partition: await checkPartition(check, of) }
  }
  for (const { own, partition } of await inTurns(deps.clock, folders, checkOne, PARALLEL)) {
    findings.append(own)
    if (partition === null) continue
    const partitions = topics.get(partition.topic) ?? []
    partitions.push(partition)
    topics.set(partition.topic, partitions)
  }
  reportMissing(expected, findings)
  return report(options.folder, root.wasClean, topics, findings)
}

// ---- the root -------------------------------------------------------------------------------------------------------------

interface Root {
  readonly wasClean: boolean
  readonly recoveryPoints: ReadonlyMap<string, number> | null
  readonly logStarts: ReadonlyMap<string, number> | null
}

async function readRoot(disk: Disk, folder: string, findings: Findings): Promise<Root> {
  const guarded = async <T>(file: string, read: () => Promise<T>): Promise<T | null> => {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      findings.problem(file, null, String(error.details.reason ?? error.message))
      return null
    }
  }
  if ((await disk.stat(folder))?.kind !== 'directory')
    throw new MoonMQError('DATA_DAMAGED', { path: folder, reason: 'there is no such folder' })
  const identity = await guarded(IDENTITY_NAME, async () => ({ found: await readIdentity(disk, folder) }))
  if (identity !== null && identity.found === null) findings.problem(IDENTITY_NAME, null, 'the file is missing')
  const points = await guarded(ROOT_FILES['recovery-points'], () => readOffsets(disk, folder, 'recovery-points'))
  const starts = await guarded(ROOT_FILES['log-starts'], () => readOffsets(disk, folder, 'log-starts'))
  const marker = await guarded(ROOT_FILES['clean-shutdown'], async () => {
    const path = `${folder}/${ROOT_FILES['clean-shutdown']}`
    const bytes = await readSmallFile(disk, path, MAX_MARKER_BYTES)
    return bytes === null ? null : decodeCleanShutdown(bytes, path)
  })
  const wasClean = marker !== null && points !== null && marker.recoveryPointsChecksum === points.checksum
  if (marker !== null && !wasClean) {
    findings.note(ROOT_FILES['clean-shutdown'], 'the recovery points are not those of the clean stop; the next start recovers every log')
  }
  return { wasClean, recoveryPoints: points && byPartition(points.entries), logStarts: starts && byPartition(starts.entries) }
}

async function checkJournal(disk: Disk, folder: string, wasClean: boolean, findings: Findings): Promise<void> {
  const content = await readJournal(disk, folder)
  if (content === null) return
  if (content.noteReason !== null) findings.problem(ROOT_FILES['journal-note'], null, content.noteReason)
  if (content.reason !== null && !wasClean) findings.problem(JOURNAL_FILE, null, content.reason)
  let entries = 0
  for (const frame of content.frames) entries += frame.entries.length
  if (wasClean && content.isThere) findings.note(JOURNAL_FILE, 'the last stop was in order; the next start removes it')
  else if (!wasClean && entries > 0)
    findings.repair(JOURNAL_FILE, null, `the next start writes what its ${entries} entries hold into the logs`)
}

function byPartition(entries: readonly PartitionOffset[]): Map<string, number> {
  return new Map(entries.map((entry) => [`${entry.topicId}-${entry.partition}`, entry.offset]))
}

async function findPartitions(disk: Disk, folder: string, findings: Findings): Promise<TopicPartition[]> {
  const found: TopicPartition[] = []
  for (const entry of await disk.list(folder)) {
    if (entry.kind !== 'directory') continue
    const partition = parsePartitionFolderName(entry.name)
    if (isStrayFolder(entry.name)) findings.note(entry.name, 'it was set aside by a start, because no topic had it')
    else if (isDeletedFolder(entry.name)) findings.note(entry.name, 'it belongs to a deleted topic; the next start removes it')
    else if (partition === null) findings.note(entry.name, 'it is no folder of a partition')
    else found.push(partition)
  }
  return found.sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1))
}

// ---- partitions -----------------------------------------------------------------------------------------------------------

function expectations(known: readonly KnownPartition[] | null, root: Root): Map<string, ExpectedPartition> {
  const expected = new Map<string, ExpectedPartition>()
  for (const each of known ?? []) {
    const key = `${each.topicId}-${each.partition}`
    const recoveryPoint = root.recoveryPoints?.get(key) ?? null
    expected.set(partitionFolderName(each), { ...each, recoveryPoint, logStart: root.logStarts?.get(key) ?? null })
  }
  return expected
}

/** Nothing but the folder speaks of it: the metadata log itself, or every partition when that log cannot be read. */
function unknownPartition(tp: TopicPartition, root: Root): ExpectedPartition {
  const key = tp.topic === METADATA_TOPIC ? `${METADATA_TOPIC_ID}-${tp.partition}` : ''
  const recoveryPoint = root.recoveryPoints?.get(key) ?? null
  return { ...tp, topicId: null, leaderEpoch: null, recoveryPoint, logStart: root.logStarts?.get(key) ?? null }
}

/** A partition that nobody wrote to has no folder. */
function reportMissing(left: ReadonlyMap<string, ExpectedPartition>, findings: Findings): void {
  for (const [name, expected] of left) {
    const hasRecords = (expected.recoveryPoint ?? 0) > (expected.logStart ?? 0)
    if (hasRecords) findings.problem(name, null, `the folder is missing, but everything below offset ${expected.recoveryPoint} was synced`)
  }
}

async function loadCodecs(codecs: Codecs): Promise<Set<number>> {
  const missing = new Set<number>()
  for (const codec of Object.values(CODEC)) {
    try {
      await codecs.ready(codec)
    } catch {
      missing.add(codec)
    }
  }
  return missing
}

async function startProgress(
  { disk, clock }: { readonly disk: Disk; readonly clock: Clock },
  options: ValidateOptions,
  folders: readonly TopicPartition[],
): Promise<(file: string, endPosition: number) => void> {
  const { onProgress } = options
  if (onProgress === undefined) return () => {}
  let bytesTotal = 0
  const measure = async (tp: TopicPartition) => {
    const path = `${options.folder}/${partitionFolderName(tp)}`
    for (const entry of await disk.list(path)) {
      if (parseSegmentFileName(entry.name)?.kind === 'log') bytesTotal += disk.statNow(`${path}/${entry.name}`)?.sizeBytes ?? 0
    }
  }
  await inTurns(clock, folders, measure, PARALLEL)
  let bytesDone = 0
  const ends = new Map<string, number>()
  return (file, endPosition) => {
    bytesDone += endPosition - (ends.get(file) ?? 0)
    ends.set(file, endPosition)
    onProgress({ file, bytesDone, bytesTotal })
  }
}

function report(folder: string, wasClean: boolean, topics: ReadonlyMap<string, PartitionReport[]>, findings: Findings): ValidationReport {
  const totals = { topics: topics.size, partitions: 0, segments: 0, batches: 0, records: 0, bytes: 0 }
  const reports: TopicReport[] = []
  for (const [topic, partitions] of topics) {
    reports.push({ topic, topicId: partitions[0]?.topicId ?? null, partitions })
    for (const each of partitions) {
      totals.partitions++
      totals.segments += each.segments
      totals.batches += each.batches
      totals.records += each.records
      totals.bytes += each.bytes
    }
  }
  const { problems, problemsLeftOut, repairs, notes } = findings
  return { folder, wasClean, topics: reports, totals, problems, problemsLeftOut, repairs, notes }
}
