import type { FailpointName } from '../../src/core/failpoint.ts'

/** Rounds of work within which each moment must come, unless the start or the stop brings it. */
export const TURNS = 12

/** Small enough that a few rounds of work pass every step. */
export const SETTINGS = {
  kafka: {
    'offsets.topic.num.partitions': '2',
    'offsets.topic.segment.bytes': '1024',
    'transaction.state.log.num.partitions': '2',
    'transaction.state.log.segment.bytes': '1024',
    // Retention looks all the time.
    'log.initial.task.delay.ms': '0',
    'log.retention.check.interval.ms': '1',
  },
}

/**
 * No request to a broker with one replica comes here: it never cuts a log that it serves, which a follower will, and its disk is in order.
 * `test/unit/storage/failpoints.test.ts` dies there with a log of its own, `journal-crash.test.ts` with several,
 * `test/fuzz/compaction-crash.ci.test.ts` at each moment of a compaction.
 */
export const IN_PROCESS_ONLY: ReadonlySet<FailpointName> = new Set([
  // Nothing but a truncation lowers a checkpoint, cuts the files of an open log or makes the journal forget one that stays.
  'checkpoint.lowered',
  'log.truncate.segment-removed',
  'log.truncate.cut',
  'journal.forgotten',
  // Checkpoints of a running broker are a minute apart.
  'journal.noted',
  // Needs an aborted transaction in a part that is compacted.
  'compaction.seals-saved',
  // Needs a write or a sync that failed.
  'log.reopen.epoch-raised',
  // Needs a disk that is full.
  'segment.remove.emptied',
])

/**
 * What brings a moment: `work` on topics of every kind; a start of the `cleaner` on logs whose recovery points a stop in order has saved;
 * a `journal` that many partitions wait for at the same time; the `replay` of one that a kill left.
 */
export type WayThere = 'work' | 'cleaner' | 'journal' | 'replay'

export function wayTo(name: FailpointName): WayThere {
  if (name === 'journal.replayed' || name === 'journal.removed') return 'replay'
  if (name.startsWith('journal.')) return 'journal'
  return name.startsWith('compaction.') ? 'cleaner' : 'work'
}

/** The general moments mean many steps: each of the first ones is another file. */
export function nthsOf(name: FailpointName): readonly number[] {
  if (name === 'folder.renamed') return [1, 3]
  if (name === 'txn.marker-written') return [1, 2]
  return name.startsWith('file.') ? [1, 3, 8] : [1]
}
