import { isInMemory } from '../config/topic-settings.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import { readMetadataOffline } from '../metadata/offline.ts'
import type { MetadataImage } from '../metadata/types.ts'
import { Codecs } from '../record/compression.ts'
import { readIdentity } from '../storage/identity.ts'
import { dataFolderHolder } from '../storage/lock.ts'
import { type KnownPartition, type ValidateProgress, type ValidationReport, validateLogs } from '../storage/validate.ts'
import type { Finding } from '../storage/validate-findings.ts'
import type { Machine } from './machine.ts'

const METADATA_FOLDER = '__cluster_metadata-0'

export type { Finding, ValidateProgress, ValidationReport }

/**
 * Checks a data folder that no broker uses: the metadata log first, then every log against it. Changes nothing. Throws
 * DATA_FOLDER_LOCKED while a broker runs on it and DATA_DAMAGED when there is no data folder.
 */
export async function validateDataFolder(
  machine: Machine,
  folder: string,
  onProgress?: (progress: ValidateProgress) => void,
): Promise<ValidationReport> {
  await expectStopped(machine, folder)
  return (await examineDataFolder(machine, folder, onProgress === undefined ? {} : { onProgress })).report
}

/** Throws DATA_FOLDER_LOCKED naming the broker that runs on the folder, DATA_DAMAGED when there is none. */
export async function expectStopped({ disk, host }: Machine, folder: string): Promise<void> {
  if ((await disk.stat(folder))?.kind !== 'directory')
    throw new MoonMQError('DATA_DAMAGED', { path: folder, reason: 'there is no such folder' })
  const holder = await dataFolderHolder({ disk, host }, folder)
  if (holder !== null) throw new MoonMQError('DATA_FOLDER_LOCKED', { path: folder, pid: holder.pid })
}

export interface Examined {
  readonly report: ValidationReport
  /** Null when the metadata log says nothing that can be used. */
  readonly image: MetadataImage | null
  readonly known: readonly KnownPartition[] | null
}

export interface ExamineOptions {
  readonly onProgress?: (progress: ValidateProgress) => void
  /** Partitions to look at, by the names of their folders; absent: all. */
  readonly only?: ReadonlySet<string>
  /** Of the cluster, where `meta.properties` does not say it. */
  readonly clusterId?: Uuid
}

export async function examineDataFolder(machine: Machine, folder: string, options: ExamineOptions = {}): Promise<Examined> {
  const { disk, clock, loader } = machine
  const { onProgress, only } = options
  const metadata = await readMetadata(machine, folder, options.clusterId)
  const known = metadata.image === null ? null : knownPartitions(metadata.image)
  const report = await validateLogs(
    { disk, clock, codecs: new Codecs({ loader }) },
    { folder, known, ...(onProgress === undefined ? {} : { onProgress }), ...(only === undefined ? {} : { only }) },
  )
  return { report: { ...report, problems: [...metadata.problems, ...report.problems] }, image: metadata.image, known }
}

export async function readMetadata(
  machine: Machine,
  folder: string,
  clusterId?: Uuid,
): Promise<{ image: MetadataImage | null; problems: Finding[] }> {
  const { disk } = machine
  const problem = (file: string, reason: string): Finding => ({ file, position: null, reason })
  const directory = `${folder}/${METADATA_FOLDER}`
  if ((await disk.stat(directory)) === null) {
    return {
      image: null,
      problems: [problem(METADATA_FOLDER, 'there is no metadata log: this is no data folder, or its most important part is missing')],
    }
  }
  try {
    const id = clusterId ?? (await readIdentity(disk, folder))?.clusterId
    if (id === undefined)
      return { image: null, problems: [problem('meta.properties', 'without it the topics of this folder cannot be read')] }
    const { image, findings } = await readMetadataOffline(disk, { directory, clusterId: id })
    return { image, problems: findings.map(({ file, reason }) => problem(`${METADATA_FOLDER}/${file}`, reason)) }
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    return {
      image: null,
      problems: [problem(String(error.details['path'] ?? METADATA_FOLDER), String(error.details['reason'] ?? error.message))],
    }
  }
}

function knownPartitions(image: MetadataImage): KnownPartition[] {
  // A topic in memory has no folder, whether a broker runs or not.
  const onDisk = [...image.topics.values()].filter(({ config }) => !isInMemory(config))
  return onDisk.flatMap((topic) =>
    topic.partitions.map(({ partition, leaderEpoch }) => ({
      topic: topic.name,
      partition,
      topicId: topic.id,
      leaderEpoch,
    })),
  )
}
