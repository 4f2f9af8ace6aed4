import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Disk } from '../io/disk.ts'
import { readMetadataOffline } from '../metadata/offline.ts'
import type { MetadataImage } from '../metadata/types.ts'
import type { Codecs } from '../record/compression.ts'
import { readIdentity } from '../storage/identity.ts'
import { dataFolderHolder, type LockHost } from '../storage/lock.ts'
import { type KnownPartition, type ValidateOptions, type ValidationReport, validateLogs } from '../storage/validate.ts'

const METADATA_FOLDER = '__cluster_metadata-0'

/**
 * Checks a stopped or copied data folder byte by byte: logs, indexes, side files, checkpoints, and the metadata log with its snapshots.
 * Changes nothing. Throws DATA_FOLDER_LOCKED when a broker runs on it, DATA_DAMAGED when there is no such folder.
 */
export async function validateData(
  deps: { readonly disk: Disk; readonly clock: Clock; readonly codecs: Codecs; readonly host: LockHost },
  options: Omit<ValidateOptions, 'known'>,
): Promise<ValidationReport> {
  const { folder } = options
  const holder = await dataFolderHolder(deps, folder)
  if (holder !== null) throw new MoonMQError('DATA_FOLDER_LOCKED', { path: folder, pid: holder.pid })
  const metadata = await readMetadata(deps.disk, folder)
  const known = metadata.image === null ? null : knownPartitions(metadata.image)
  const report = await validateLogs(deps, { ...options, known })
  const found = metadata.findings.map(({ file, reason }) => ({ file: `${METADATA_FOLDER}/${file}`, position: null, reason }))
  return { ...report, problems: [...found, ...report.problems] }
}

async function readMetadata(disk: Disk, folder: string) {
  const directory = `${folder}/${METADATA_FOLDER}`
  if ((await disk.stat(directory)) === null) return { image: null, findings: [] }
  try {
    const identity = await readIdentity(disk, folder)
    if (identity !== null) return await readMetadataOffline(disk, { directory, clusterId: identity.clusterId })
  } catch (error) {
    // A damaged identity is reported with the other files of the root.
    if (!(error instanceof MoonMQError)) throw error
  }
  return { image: null, findings: [] }
}

function knownPartitions(image: MetadataImage): KnownPartition[] {
  const known: KnownPartition[] = []
  for (const topic of image.topics.values()) {
    for (const { partition, leaderEpoch } of topic.partitions) {
      // Nothing compacts logs in this version, so offsets have no gaps.
      known.push({ topic: topic.name, partition, topicId: topic.id, leaderEpoch, isCompacted: false, isLazy: topic.internal })
    }
  }
  return known
}
