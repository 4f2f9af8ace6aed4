import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { METADATA_TOPIC_ID, newUuid, type Uuid } from '../core/uuid.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { readClusterId } from '../metadata/offline.ts'
import { CODEC, Codecs } from '../record/compression.ts'
import { BufferPool } from '../storage/buffer-pool.ts'
import {
  type CleanShutdown,
  type PartitionOffset,
  ROOT_FILES,
  readOffsets,
  takeCleanShutdown,
  writeCleanShutdown,
  writeOffsets,
} from '../storage/checkpoint.ts'
import { isCompactionLeftover } from '../storage/compaction/swap.ts'
import { decodePartitionMetadata, PARTITION_METADATA_FILE, parsePartitionFolderName, partitionFolderName } from '../storage/files.ts'
import { encodeIdentity, IDENTITY_NAME, readIdentity } from '../storage/identity.ts'
import { JOURNAL_FILE } from '../storage/journal-format.ts'
import { discardJournal, replayJournal } from '../storage/journal-replay.ts'
import { DataFolderLock, decodeLock, LOCK_NAME } from '../storage/lock.ts'
import { type PartitionRepair, planRepair, type RepairDeps, type RepairTarget, repairPartition } from '../storage/repair.ts'
import type { MiddleChoice } from '../storage/repair-plan.ts'
import type { Machine } from './machine.ts'
import { type Examined, examineDataFolder, expectStopped, type Finding, type ValidateProgress } from './offline.ts'

export type { LogRepair } from '../storage/repair-plan.ts'
export type { MiddleChoice, PartitionRepair }

const METADATA = { topic: '__cluster_metadata', partition: 0 }
const METADATA_NAME = partitionFolderName(METADATA)
const SNAPSHOT_FILE = /^(\d{20})-\d{10}\.checkpoint$/
const DEFAULT_INDEX_INTERVAL_BYTES = 4096
/** An empty one would be a lie: the next start would set every partition aside as one that no topic has. */
const NO_METADATA =
  'the metadata log is missing, and nothing else knows which topics there are and how they are set. Put back a copy of its folder, or take ' +
  'the logs over into a new data folder with "moonmq import THIS_FOLDER --data NEW_FOLDER", which asks partition.metadata instead'

/** What a repair does besides partitions. */
export type RootRepair =
  | { readonly kind: 'identity'; readonly clusterId: Uuid; readonly nodeId: number; readonly reason: string }
  /** Renamed, since what it says cannot be believed and can be made again. */
  | { readonly kind: 'set-aside'; readonly file: string; readonly reason: string }

export interface RepairPlan {
  readonly folder: string
  /** What the check found that led to this. */
  readonly findings: readonly Finding[]
  readonly root: readonly RootRepair[]
  readonly partitions: readonly PartitionRepair[]
  /** What cannot be repaired, or not this way, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[]
  /** Acknowledged writes are in the journal still. They go into the logs first, as at a start, and then the plan is made again. */
  readonly hasJournal: boolean
  /** For `applyRepair`: settings that count for what is built anew, and how the plan was asked for. */
  readonly indexIntervalBytes: ReadonlyMap<string, number>
  readonly options: PlanOptions
}

export interface PlanOptions {
  readonly middle: MiddleChoice
  /** Folders of partitions; absent: all, and what lies beside them. */
  readonly only?: ReadonlySet<string>
  readonly onProgress?: (progress: ValidateProgress) => void
}

/** Finds out what the data folder of a stopped broker needs. Reads only. Throws DATA_FOLDER_LOCKED, DATA_DAMAGED. */
export async function planDataFolderRepair(machine: Machine, folder: string, options: PlanOptions): Promise<RepairPlan> {
  await expectStopped(machine, folder)
  return makePlan(machine, folder, options, new Map())
}

/** `acknowledged`: by the journal, everything below; by topic id and partition. */
async function makePlan(
  machine: Machine,
  folder: string,
  options: PlanOptions,
  acknowledged: ReadonlyMap<string, number>,
): Promise<RepairPlan> {
  const { disk } = machine
  const root: RootRepair[] = []
  const lost = await lostClusterId(disk, folder, root)
  const { onProgress, only } = options
  const examined = await examineDataFolder(machine, folder, {
    ...(lost === null ? {} : { clusterId: lost.clusterId }),
    ...(onProgress === undefined ? {} : { onProgress }),
    ...(only === undefined ? {} : { only }),
  })
  if (lost !== null) root.push({ kind: 'identity', ...lost, nodeId: nodeIdBy(examined) })
  const findings = [...examined.report.problems, ...examined.report.repairs]
  const rootNames: readonly string[] = Object.values(ROOT_FILES)
  for (const { file, reason } of findings) if (rootNames.includes(file)) root.push({ kind: 'set-aside', file, reason })
  const partitions: PartitionRepair[] = []
  const refused: { name: string; reason: string }[] = []
  const deps = await diagnosisDeps(machine)
  const offsets = { ...(await rootOffsets(disk, folder)), acknowledged }
  for (const name of affected(findings, only)) {
    const target = await targetOf(disk, folder, name, examined, offsets)
    if (typeof target === 'string') refused.push({ name, reason: target })
    else {
      const repair = await planRepair(deps, target, { dataFolder: folder, middle: options.middle })
      const reason = name === METADATA_NAME ? await metadataRefusal(repair, options.middle) : null
      if (reason !== null) refused.push({ name, reason })
      else partitions.push(repair)
    }
  }
  await metadataSnapshots(disk, folder, findings, partitions, root)
  const hasJournal = (await disk.stat(`${folder}/${JOURNAL_FILE}`)) !== null
  return { folder, findings, root, partitions, refused, hasJournal, indexIntervalBytes: intervals(examined), options }
}

/**
 * Carries a plan out, holding the folder's lock. The marker of a clean stop goes first, so that a crash in between makes the next start
 * read what was not finished; recovery points are lowered before a log is cut. Returns the files that keep what was taken out.
 */
export async function applyRepair(machine: Machine, asked: RepairPlan, log: Logger): Promise<string[]> {
  const { disk, host, clock } = machine
  const { folder } = asked
  const left = await readSmallFile(disk, `${folder}/${LOCK_NAME}`, 4096)
  const recoveredBootId = left === null ? undefined : decodeLock(left)?.recoveredBootId
  const lock = await DataFolderLock.acquire({ disk, host }, folder, recoveredBootId)
  const kept: string[] = []
  let wasStopped = false
  try {
    const marker = await takeCleanShutdown(disk, folder)
    wasStopped = marker !== null
    // It tells of files as the stop left them.
    await disk.removeFile(`${folder}/${ROOT_FILES['clean-logs']}`)
    const plan = asked.hasJournal ? await emptyJournal(machine, asked, marker, log) : asked
    for (const step of plan.root) {
      if (step.kind === 'set-aside') {
        // The journal's note went with the journal.
        if ((await disk.stat(`${folder}/${step.file}`)) !== null) kept.push(await renameAside(disk, `${folder}/${step.file}`))
      } else {
        const identity = { clusterId: step.clusterId, nodeId: step.nodeId, directoryId: newUuid(machine.random) }
        await writeFileAtomically(disk, `${folder}/${IDENTITY_NAME}`, [encodeIdentity(identity)])
      }
    }
    // Without what was said of transaction indexes, which may not be what they are built into now.
    await moveOffsets(disk, folder, 'recovery-points', plan.partitions, ({ log, acknowledgedOffset }, known) =>
      known !== null && log.endOffset < acknowledgedOffset ? log.endOffset : known,
    )
    const deps: RepairDeps = { ...(await diagnosisDeps(machine)), clock, log, failpoint: machine.failpoint }
    for (const repair of plan.partitions) {
      const indexIntervalBytes = plan.indexIntervalBytes.get(repair.topic) ?? DEFAULT_INDEX_INTERVAL_BYTES
      kept.push(...(await repairPartition(deps, repair, { dataFolder: folder, indexIntervalBytes })))
    }
    await moveOffsets(disk, folder, 'log-starts', plan.partitions, (repair, known) => newLogStart(repair, known))
  } finally {
    // The next start must know whether the power went since the last write, and that not everything is as the stop left it.
    if (wasStopped) await writeCleanShutdown(disk, folder, await unbelievedMarker(disk, folder, clock.nowMs()))
    else if (left !== null) await writeFileAtomically(disk, `${folder}/${LOCK_NAME}`, [left])
    await lock.release()
  }
  return kept
}

/** What a start does before it opens a log; afterwards the files are those that the plan must be made for. */
async function emptyJournal(machine: Machine, asked: RepairPlan, marker: CleanShutdown | null, log: Logger): Promise<RepairPlan> {
  const { disk, failpoint } = machine
  const { folder, options } = asked
  const points = await readOffsets(disk, folder, 'recovery-points').catch(nullWhenDamaged)
  if (marker !== null && points !== null && marker.recoveryPointsChecksum === points.checksum) {
    await discardJournal(disk, folder)
    return asked
  }
  const offsets = await rootOffsets(disk, folder)
  // What may be missing the next start says.
  const replayed = await replayJournal(
    { disk, log, failpoint },
    {
      folder,
      settledBelow: (owner) => offsets.points.get(offsetKey(owner)) ?? 0,
      logStartOf: (owner) => offsets.starts?.get(offsetKey(owner)) ?? 0,
      arePointsKnown: points !== null || (await disk.stat(`${folder}/${ROOT_FILES['recovery-points']}`)) === null,
    },
  )
  return makePlan(machine, folder, options, replayed.acknowledged)
}

function nullWhenDamaged(error: unknown): null {
  if (error instanceof MoonMQError) return null
  throw error
}

/** Fits no checkpoint: the next start recovers, raises the leader epochs, and still knows that no write was cut short. */
async function unbelievedMarker(disk: Disk, folder: string, atMs: number): Promise<{ recoveryPointsChecksum: number; atMs: number }> {
  const checksum = (await readOffsets(disk, folder, 'recovery-points').catch(() => null))?.checksum ?? 0
  return { recoveryPointsChecksum: ~checksum >>> 0, atMs }
}

function newLogStart({ logStart, log }: PartitionRepair, known: number | null): number | null {
  if (logStart !== null) return logStart
  return known !== null && known > log.endOffset ? log.endOffset : null
}

// ---- what there is --------------------------------------------------------------------------------------------------------

async function diagnosisDeps({ disk, loader }: Machine) {
  const codecs = new Codecs({ loader })
  const missingCodecs = new Set<number>()
  for (const codec of Object.values(CODEC)) {
    try {
      await codecs.ready(codec)
    } catch {
      missingCodecs.add(codec)
    }
  }
  return { disk, codecs, missingCodecs, pool: new BufferPool({ maxKeptBytes: 16 * 1024 * 1024 }) }
}

/** The cluster's id by the metadata log, when the folder does not say it; null when it does, or nobody knows. */
async function lostClusterId(disk: Disk, folder: string, root: RootRepair[]): Promise<{ clusterId: Uuid; reason: string } | null> {
  let reason = 'the file is missing'
  try {
    if ((await readIdentity(disk, folder)) !== null) return null
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    reason = String(error.details['reason'] ?? error.message)
    root.push({ kind: 'set-aside', file: IDENTITY_NAME, reason })
  }
  const clusterId = await readClusterId(disk, `${folder}/${METADATA_NAME}`)
  return clusterId === null ? null : { clusterId, reason }
}

function affected(findings: readonly Finding[], only: ReadonlySet<string> | undefined): string[] {
  const names = new Set<string>()
  for (const { file } of findings) {
    const name = file.split('/')[0] as string
    if (parsePartitionFolderName(name) !== null && (only === undefined || only.has(name))) names.add(name)
  }
  return [...names]
}

interface RootOffsets {
  readonly points: ReadonlyMap<string, number>
  readonly starts: ReadonlyMap<string, number> | null
}

async function rootOffsets(disk: Disk, folder: string): Promise<RootOffsets> {
  const read = async (kind: 'recovery-points' | 'log-starts') => {
    const found = await readOffsets(disk, folder, kind).catch(nullWhenDamaged)
    return found === null ? null : new Map(found.entries.map((each) => [offsetKey(each), each.offset]))
  }
  return { points: (await read('recovery-points')) ?? new Map(), starts: await read('log-starts') }
}

function offsetKey({ topicId, partition }: Pick<PartitionOffset, 'topicId' | 'partition'>): string {
  return `${topicId}-${partition}`
}

/** What is known of a partition, or why it cannot be repaired. */
async function targetOf(
  disk: Disk,
  folder: string,
  name: string,
  { image, known }: Examined,
  { points, starts, acknowledged }: RootOffsets & { readonly acknowledged: ReadonlyMap<string, number> },
): Promise<RepairTarget | string> {
  const tp = parsePartitionFolderName(name)
  if (tp === null) return 'it is no folder of a partition'
  const isThere = (await disk.stat(`${folder}/${name}`)) !== null
  if (isThere && (await disk.list(`${folder}/${name}`)).some((entry) => isCompactionLeftover(entry.name)))
    return 'a compaction was cut short here, which the next start brings to its end; start the broker once, then repair'
  const bytes = await readSmallFile(disk, `${folder}/${name}/${PARTITION_METADATA_FILE}`, 1024)
  const folderId = bytes === null ? null : decodePartitionMetadata(bytes)
  const entry = known?.find((each) => each.topic === tp.topic && each.partition === tp.partition)
  const isMetadata = name === METADATA_NAME
  if (isMetadata && !isThere) return NO_METADATA
  if (!isMetadata && image !== null && entry === undefined)
    return 'the metadata log knows no such partition; the next start sets the folder aside'
  const topicId = isMetadata ? METADATA_TOPIC_ID : (entry?.topicId ?? folderId)
  if (topicId === null) return 'neither the metadata log nor partition.metadata tell which topic it belongs to'
  if (folderId !== null && folderId !== topicId) {
    return `its files belong to topic ${folderId}, the metadata log says ${topicId}; the next start sets the folder aside`
  }
  const key = offsetKey({ topicId, partition: tp.partition })
  return {
    ...tp,
    topicId,
    maxEpoch: entry?.leaderEpoch ?? null,
    acknowledgedOffset: Math.max(points.get(key) ?? 0, acknowledged.get(key) ?? 0),
    logStart: starts === null ? null : (starts.get(key) ?? 0),
    writesTopicId: folderId === null,
  }
}

/** Records of the metadata log stand on those before: one that is left out may change what all later ones mean. */
async function metadataRefusal({ log }: PartitionRepair, middle: MiddleChoice): Promise<string | null> {
  if (!log.isMiddleDamaged || middle === 'cut') return null
  return (
    'the metadata log is damaged before its end, and its records build on each other, so none may be left out. Put back a copy of the ' +
    'folder, or cut the log at the damage with --middle cut: topics, settings and producer ids then are as they were at that moment; ' +
    'partitions of topics made later are set aside by the next start, and moonmq import can take them back'
  )
}

/** Snapshots that contradict the log, or lie behind its new end. The log must reach back to its beginning to do without them. */
async function metadataSnapshots(
  disk: Disk,
  folder: string,
  findings: readonly Finding[],
  partitions: readonly PartitionRepair[],
  root: RootRepair[],
): Promise<void> {
  const directory = `${folder}/${METADATA_NAME}`
  if ((await disk.stat(`${directory}/${'0'.repeat(20)}.log`)) === null) return
  const end = partitions.find((each) => partitionFolderName(each) === METADATA_NAME)?.log.endOffset ?? Number.POSITIVE_INFINITY
  for (const entry of await disk.list(directory)) {
    const match = SNAPSHOT_FILE.exec(entry.name)
    if (match === null) continue
    const file = `${METADATA_NAME}/${entry.name}`
    const finding = findings.find((each) => each.file === file)
    const reason = finding?.reason ?? (Number(match[1]) > end ? `the log ends at offset ${end} from now on` : null)
    if (reason !== null) root.push({ kind: 'set-aside', file, reason })
  }
}

/** The broker that the metadata's partitions are on; 0, the default, when there are none. */
function nodeIdBy({ image }: Examined): number {
  for (const topic of image?.topics.values() ?? []) for (const { leader } of topic.partitions) return leader
  return 0
}

function intervals({ image }: Examined): Map<string, number> {
  const found = new Map<string, number>()
  for (const topic of image?.topics.values() ?? []) {
    const value = Number(topic.config.get('index.interval.bytes') ?? Number.NaN)
    if (Number.isSafeInteger(value)) found.set(topic.name, value)
  }
  return found
}

// ---- changing it ----------------------------------------------------------------------------------------------------------

async function renameAside(disk: Disk, path: string): Promise<string> {
  let side = `${path}.cut-0`
  for (let number = 2; (await disk.stat(side)) !== null; number++) side = `${path}.cut-0.${number}`
  await disk.rename(path, side)
  await disk.syncDirectory(path.slice(0, path.lastIndexOf('/')))
  return side
}

/** Replaces the entries for which `change` gives an offset. Writes nothing when nothing moves. */
async function moveOffsets(
  disk: Disk,
  folder: string,
  kind: 'recovery-points' | 'log-starts',
  repairs: readonly PartitionRepair[],
  change: (repair: PartitionRepair, known: number | null) => number | null,
): Promise<void> {
  const entries = new Map(((await readOffsets(disk, folder, kind))?.entries ?? []).map((each) => [offsetKey(each), each]))
  let hasMoved = false
  for (const repair of repairs) {
    const { topicId, partition } = repair
    const offset = change(repair, entries.get(offsetKey(repair))?.offset ?? null)
    if (offset === null) continue
    entries.set(offsetKey(repair), { topicId, partition, offset })
    hasMoved = true
  }
  if (hasMoved) await writeOffsets(disk, folder, kind, [...entries.values()])
}
