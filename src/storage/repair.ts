import type { Clock } from '../core/clock.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import { writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { noHolesFrom } from './compaction/note.ts'
import { EPOCH_CHECKPOINT_NAME } from './epoch-checkpoint.ts'
import {
  encodePartitionMetadata,
  PARTITION_METADATA_FILE,
  parseSegmentFileName,
  partitionFolderName,
  segmentBases,
  segmentFileName,
} from './files.ts'
import { HandleCache } from './handles.ts'
import { loadLog } from './load.ts'
import type { LoadedLog } from './load-types.ts'
import { writeProducerSnapshot } from './producer-snapshot.ts'
import { applyToSegment, keepBytes } from './repair-files.ts'
import { type Diagnosis, type DiagnosisDeps, diagnoseLog, type LogRepair, type MiddleChoice } from './repair-plan.ts'

/** What a partition needs. Nothing was changed yet. */
export interface PartitionRepair extends TopicPartition {
  /** By the metadata log, else by the folder. */
  readonly topicId: Uuid
  readonly maxEpoch: number | null
  readonly log: Diagnosis
  /** The folder's `partition.metadata` must be written: it is missing, damaged or names nobody. */
  readonly writesTopicId: boolean
  /** Where readers may begin, when that must move up because what lies before is missing. */
  readonly logStart: number | null
  readonly oldLogStart: number
  /** Everything below it was synced, as the checkpoint says. */
  readonly acknowledgedOffset: number
}

export interface RepairDeps extends DiagnosisDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly failpoint: Failpoint
}

export interface RepairTarget extends TopicPartition {
  readonly topicId: Uuid
  readonly maxEpoch: number | null
  readonly acknowledgedOffset: number
  readonly logStart: number | null
  readonly writesTopicId: boolean
}

/** Finds out what a partition needs. Reads only. */
export async function planRepair(
  deps: DiagnosisDeps,
  target: RepairTarget,
  options: { readonly dataFolder: string; readonly middle: MiddleChoice },
): Promise<PartitionRepair> {
  const folder = `${options.dataFolder}/${partitionFolderName(target)}`
  const { topic, partition, topicId, maxEpoch, writesTopicId } = target
  const bases = await basesIn(deps.disk, folder)
  const holesBelow = await noHolesFrom(deps.disk, folder, bases.at(-1) ?? 0)
  const acknowledgedOffset = Math.max(target.acknowledgedOffset, target.logStart ?? 0)
  const log = await diagnoseLog(deps, { folder, bases, holesBelow, acknowledgedOffset, maxEpoch, middle: options.middle })
  const oldLogStart = target.logStart ?? 0
  const first = bases[0] ?? acknowledgedOffset
  const logStart = target.logStart !== null && first > target.logStart ? first : null
  return { topic, partition, topicId, maxEpoch, writesTopicId, log, logStart, oldLogStart, acknowledgedOffset }
}

/**
 * Repairs one partition; everything is durable when it resolves. The order: bytes that will go are kept beside; the epoch checkpoint goes,
 * so that any start from here on reads the whole log; the log files change, the last one first; recovery builds indexes, snapshots and
 * epochs anew. A crash in between leaves a log that another repair, or the next start, goes on with. Returns what was kept, by path.
 */
export async function repairPartition(
  deps: RepairDeps,
  repair: PartitionRepair,
  options: { readonly dataFolder: string; readonly indexIntervalBytes: number },
): Promise<string[]> {
  const { disk } = deps
  const folder = `${options.dataFolder}/${partitionFolderName(repair)}`
  await disk.makeDirectory(folder)
  await disk.syncDirectory(options.dataFolder)
  const kept: string[] = []
  for (const step of repair.log.steps) {
    if (step.kind === 'drop' || step.kind === 'cut') {
      if (step.endPosition > step.position) kept.push(await keepBytes(deps, `${folder}/${step.file}`, step.position, step.endPosition))
    }
  }
  await forgetDerived(deps, folder)
  if (repair.writesTopicId) {
    await writeFileAtomically(disk, `${folder}/${PARTITION_METADATA_FILE}`, [encodePartitionMetadata(repair.topicId)])
  }
  for (const step of [...repair.log.steps].reverse())
    if (step.kind === 'set-aside') kept.push(await setAside(deps, `${folder}/${step.file}`))
  for (const [file, steps] of [...bySegment(repair.log.steps)].reverse()) await applyToSegment(deps, `${folder}/${file}`, steps)
  for (const step of repair.log.steps) if (step.kind === 'begin') await beginAt(disk, folder, step.baseOffset)
  await rebuild(deps, repair, folder, options.indexIntervalBytes)
  return kept
}

async function basesIn(disk: Disk, folder: string): Promise<number[]> {
  if ((await disk.stat(folder)) === null) return []
  const files = (await disk.list(folder)).filter((entry) => entry.kind === 'file')
  return segmentBases(files.map((entry) => entry.name))
}

/** What can be made again from the batches: the epoch checkpoint first, since without it a start reads every byte. */
async function forgetDerived({ disk }: RepairDeps, folder: string): Promise<void> {
  await disk.removeFile(`${folder}/${EPOCH_CHECKPOINT_NAME}`)
  await disk.syncDirectory(folder)
  for (const entry of await disk.list(folder)) {
    const kind = parseSegmentFileName(entry.name)?.kind
    if (kind === 'snapshot' || kind === 'txnindex') await disk.removeFile(`${folder}/${entry.name}`)
  }
  await disk.syncDirectory(folder)
}

/** A segment behind the new end of its log is no segment any more, and keeps its bytes. */
async function setAside({ disk }: RepairDeps, path: string): Promise<string> {
  let side = `${path}.cut-0`
  for (let number = 2; (await disk.stat(side)) !== null; number++) side = `${path}.cut-0.${number}`
  await disk.rename(path, side)
  await disk.syncDirectory(path.slice(0, path.lastIndexOf('/')))
  return side
}

async function beginAt(disk: Disk, folder: string, baseOffset: number): Promise<void> {
  const file = await disk.open(`${folder}/${segmentFileName(baseOffset, 'log')}`, 'write')
  await file.datasync()
  await file.close()
  await disk.syncDirectory(folder)
}

type SegmentStep = Extract<LogRepair, { kind: 'header' | 'drop' | 'fill' | 'cut' }>

function bySegment(steps: readonly LogRepair[]): Map<string, SegmentStep[]> {
  const segments = new Map<string, SegmentStep[]>()
  for (const step of steps) {
    if (step.kind === 'begin' || step.kind === 'set-aside') continue
    const list = segments.get(step.file) ?? []
    list.push(step)
    segments.set(step.file, list)
  }
  return segments
}

/** Recovery from the first byte, as a start does it: what a repaired log must stand is that, and it builds everything that follows from batches. */
async function rebuild(deps: RepairDeps, repair: PartitionRepair, folder: string, indexIntervalBytes: number): Promise<void> {
  const { disk, log } = deps
  const { topic, partition, topicId, maxEpoch } = repair
  const handles = new HandleCache({ disk, log }, { maxOpen: 64 })
  const endOffset = repair.log.endOffset
  const loaded: LoadedLog = await loadLog(
    { ...deps, handles },
    {
      topic,
      partition,
      topicId,
      folder,
      isThere: true,
      maxEpoch,
      indexIntervalBytes,
      wasClean: false,
      recoveryPoint: Math.min(repair.acknowledgedOffset, endOffset),
      txnSeals: null,
      logStartOffset: repair.logStart ?? repair.oldLogStart,
      hadPowerCut: false,
      rewriteFrom: null,
    },
  )
  try {
    await writeProducerSnapshot(disk, folder, loaded.nextOffset, loaded.producers.entries())
  } finally {
    for (const segment of loaded.segments) await segment.close()
  }
}
