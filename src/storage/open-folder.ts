import type { Clock } from '../core/clock.ts'
import { isCode } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Disk } from '../io/disk.ts'
import { isDiskFull } from '../io/system-error.ts'
import { offsetKey, type PartitionOffset, ROOT_FILES, readOffsets } from './checkpoint.ts'
import { parsePartitionFolderName, RESERVE_FILE } from './files.ts'
import { discardJournal, ownerKey, type Replayed, replayJournal } from './journal-replay.ts'
import { DataFolderLock, type LockHost } from './lock.ts'

/** What the files at the root of a data folder tell a start, and what it does with them before any log is open. */
interface FolderDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly host: LockHost
}

/** Before any log is loaded. Nothing in a journal that outlived a stop in order is needed. */
export async function readOldJournal(
  deps: FolderDeps & { failpoint: Failpoint },
  folder: string,
  known: {
    wasClean: boolean
    points: readonly PartitionOffset[]
    starts: readonly PartitionOffset[]
    arePointsKnown: boolean
  },
): Promise<Replayed> {
  if (known.wasClean) {
    await discardJournal(deps.disk, folder)
    return { acknowledged: new Map(), synced: new Map(), kept: null, lost: null }
  }
  const byKey = (offsets: readonly PartitionOffset[]) =>
    new Map(offsets.map((each) => [offsetKey(each.topicId, each.partition), each.offset]))
  const settled = byKey(known.points)
  const starts = byKey(known.starts)
  return replayJournal(deps, {
    folder,
    settledBelow: (owner) => settled.get(ownerKey(owner)) ?? 0,
    logStartOf: (owner) => starts.get(ownerKey(owner)) ?? 0,
    // Before the first checkpoint is through there are none.
    arePointsKnown: known.arePointsKnown || (await deps.disk.stat(`${folder}/${ROOT_FILES['recovery-points']}`)) === null,
  })
}

/** On a disk that is full to the brim the reserve makes room for the lock: whoever had it is dead, or the lock is refused before it is written. */
export async function lockFolder(deps: FolderDeps, folder: string, recoveredBootId: string): Promise<DataFolderLock> {
  try {
    return await DataFolderLock.acquire(deps, folder, recoveredBootId)
  } catch (error) {
    if (!isDiskFull(error)) throw error
    await deps.disk.removeFile(`${folder}/${RESERVE_FILE}`)
    return DataFolderLock.acquire(deps, folder, recoveredBootId)
  }
}

/** Null when it is missing or damaged: it only spares work, and says nothing that the logs do not say once they are read whole. */
export async function readCheckpoint(
  { disk, log }: FolderDeps,
  folder: string,
  kind: 'recovery-points' | 'log-starts',
): Promise<Awaited<ReturnType<typeof readOffsets>>> {
  try {
    return await readOffsets(disk, folder, kind)
  } catch (error) {
    if (!isCode(error, 'DATA_DAMAGED')) throw error
    log.error('storage.checkpoint_damaged', `a checkpoint is damaged and made again from the logs: ${error.message}`, {
      ...error.details,
    })
    return null
  }
}

export async function partitionFolders(disk: Disk, dataFolder: string): Promise<TopicPartition[]> {
  const found: TopicPartition[] = []
  for (const entry of await disk.list(dataFolder)) {
    const partition = entry.kind === 'directory' ? parsePartitionFolderName(entry.name) : null
    if (partition !== null) found.push(partition)
  }
  return found
}

/** No lock was left: the last stop was in order, or there is nothing yet. Else nobody knows what the machine went through. */
export async function isSurelyWhole(disk: Disk, dataFolder: string): Promise<boolean> {
  if ((await disk.stat(`${dataFolder}/${ROOT_FILES['clean-shutdown']}`)) !== null) return true
  return (await partitionFolders(disk, dataFolder)).length === 0
}

export async function hasCheckpoints(disk: Disk, folder: string): Promise<boolean> {
  for (const name of [ROOT_FILES['recovery-points'], ROOT_FILES['log-starts']]) {
    if ((await disk.stat(`${folder}/${name}`)) !== null) return true
  }
  return false
}
