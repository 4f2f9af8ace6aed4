/**
 * Named moments of work on the disk at which a test can end the process or make the step fail: one for every step that renames, swaps,
 * deletes, cuts or checkpoints. The list is the catalogue: a test kills the broker at each of them and fails for a name it does not reach.
 */
const FAILPOINTS = {
  'log.append.written': 'batches are in the file and not synced',
  'log.append.synced': 'batches are synced and not acknowledged',
  'log.roll.created': 'a new segment was begun, its names are not durable',
  'segment.finish.indexes-synced': 'the indexes of a closed segment are durable, its snapshot is not written',
  'segment.remove.log-removed': 'the log file of an old segment is gone, its indexes are not',
  'checkpoint.log-starts-written': 'log starts are saved, recovery points are not',
  'checkpoint.written': 'recovery points are saved',
  'file.written': 'a small file was written under a temporary name and synced',
  'file.renamed': 'a small file has its name, the directory is not synced',
  'topic.delete.renamed': 'the folder of a deleted partition was renamed, its files are there',
  'recovery.cut': 'recovery cut a torn end, nothing was synced since',
  'metadata.snapshot-written': 'the metadata snapshot is there, older ones are not removed',
} as const

export type FailpointName = keyof typeof FAILPOINTS

/** Called at the moment; a test's throws or never returns. */
export type Failpoint = (name: FailpointName) => void

export const NO_FAILPOINT: Failpoint = () => {}
