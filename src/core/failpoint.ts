/**
 * Named moments of work on the disk at which a test can end the process or make the step fail: one for every step that renames, swaps,
 * deletes, cuts or checkpoints. The list is the catalogue: a test kills the broker at each of them and fails for a name it does not reach.
 */
const FAILPOINTS = {
  'start.lock-taken': 'the data folder is locked, nothing was read',
  'start.marker-taken': 'the marker of the last stop in order is gone, no log was opened',
  'log.folder.made': 'the folder of a new partition is there and does not say yet whose it is',
  'log.append.written': 'batches are in the file and not synced',
  'log.append.synced': 'batches are synced and not acknowledged',
  'log.roll.created': 'a new segment was begun, its names are not durable',
  'segment.finish.indexes-synced': 'the indexes of a closed segment are durable, its snapshot is not written',
  'segment.finish.snapshot-written': 'the snapshot of a closed segment is durable, older ones are not removed',
  'log.roll.files-made': 'an empty segment was begun in an idle log and its files made, their names are not durable',
  'segment.remove.log-renamed': 'the log file of an old segment has left the log under another name, its indexes have not',
  'segment.remove.renamed': 'an old segment has left the log, the directory is not synced',
  'segment.remove.emptied': 'on a full disk: the log file of an old segment gave up its bytes before the start of the log was saved',
  'segment.remove.log-removed': 'the log file of an old segment is gone, its indexes are not',
  'retention.started': 'log starts were moved, they are not saved',
  'retention.clock-written': 'the clock of retention is saved',
  'checkpoint.log-starts-written': 'log starts are saved, recovery points are not',
  'checkpoint.written': 'recovery points are saved',
  'checkpoint.lowered': 'the recovery point of a log that is about to be cut is lowered, the log is whole',
  'file.written': 'a file was written under a temporary name and synced',
  'file.renamed': 'a file has its name, the directory is not synced',
  'file.removed': 'a file is gone, the directory is not synced',
  'folder.renamed': 'a folder has another name, the directory is not synced',
  'topic.delete.renamed': 'the folder of a deleted partition was renamed, its files are there',
  'topic.delete.removed': 'the files of a deleted partition are gone',
  'log.truncate.segment-removed': 'a truncation removed a segment, the one that it cuts is whole',
  'log.truncate.cut': 'a truncation cut the last file, nothing was synced since',
  'log.reopen.epoch-raised': 'a log that failed has its next leader epoch and is not open yet',
  'compaction.noted': 'the note says how far a compaction may leave holes, no segment was replaced',
  'compaction.seals-saved': 'the recovery points know the transaction index of a segment that is replaced and the one of the new segment',
  'compaction.cleaned-synced': "a compacted segment is whole on disk and takes nobody's place yet",
  'compaction.swap-renamed': 'the compacted segment has the name that decides, the directory is not synced',
  'compaction.swap-decided': 'the compacted segment durably takes the place of the old ones, which are all there',
  'compaction.old-removed': 'one file of the old segments is gone',
  'compaction.indexes-renamed': 'the indexes of the compacted segment have their names, the directory is not synced',
  'compaction.old-gone': 'the old segments are gone for good, the compacted log file has not its own name',
  'compaction.renamed': 'the compacted log file has its own name, the directory is not synced',
  'compaction.swapped': 'one swap is over, the note does not say yet how far the log is compacted',
  'compaction.note-updated': 'the note says how far the log is compacted',
  'recovery.indexes-reset': 'recovery emptied the indexes of a segment',
  'recovery.cut': 'recovery cut a torn end, nothing was synced since',
  'recovery.segment-synced': 'recovery made one segment durable, later ones were not looked at',
  'stop.logs-closed': 'every log was closed in order, their ends are not saved',
  'stop.summary-written': 'how every log was left is saved, the marker of a stop in order is not there yet',
  'stop.marker-written': 'the marker of a stop in order is there, the lock too',
  'journal.made': 'the journal is there, durably, and no note says that it is in use',
  'journal.prepared': 'the journal and its note were made, durably, nothing was written to it',
  'journal.written': 'a frame is in the journal and not synced',
  'journal.synced': 'a frame is durable in the journal and nobody was told',
  'journal.late-written': 'batches that the journal had first are in their file, those of other logs are not',
  'journal.turned': 'an area of the journal is about to be overwritten',
  'journal.forgotten': 'the journal no longer speaks of a log that is about to be cut, which is whole',
  'journal.replayed': 'a start wrote and synced what the journal held, the journal is there',
  'journal.noted': 'the note tells how many frames the journal has',
  'journal.note-removed': 'nothing says any more that the journal is in use, it is still there',
  'journal.removed': 'the journal is gone, the directory is not synced',
  'txn.partitions-added': 'partitions are durably part of a transaction and hold nothing of it',
  'txn.decided': 'the end of a transaction is decided, durably, and in no partition',
  'txn.marker-written': 'the end of a transaction is durable in one partition',
  'txn.markers-written': 'the end of a transaction is durable in every partition and the coordinator does not say so yet',
  'txn.completed': 'a transaction is over, durably',
  'metadata.snapshot-written': 'the metadata snapshot is there, older ones are not removed',
} as const

export type FailpointName = keyof typeof FAILPOINTS

/** Called at the moment; a test's throws or never returns. */
export type Failpoint = (name: FailpointName) => void

export const NO_FAILPOINT: Failpoint = () => {}

/** All names, for whoever reads one from text. */
export const FAILPOINT_NAMES: readonly FailpointName[] = Object.keys(FAILPOINTS) as FailpointName[]

/** What happens at a moment, the `nth` time that it comes. */
export interface PlannedFailure {
  readonly name: FailpointName
  readonly nth: number
  /** The code of the error that the step ends with, as a disk would give it; null: the process dies as with kill -9. */
  readonly errorCode: string | null
}
