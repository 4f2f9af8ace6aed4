import { FAILPOINT_NAMES, type FailpointName } from '../../src/core/failpoint.ts'

/** Rounds of work within which each moment must come, unless the start or the stop brings it. */
export const TURNS = 12

/** Small enough that a few rounds of work pass every step. */
export const SETTINGS = {
  kafka: {
    'offsets.topic.num.partitions': '2',
    'offsets.topic.segment.bytes': '1024',
    // Retention looks all the time.
    'log.initial.task.delay.ms': '0',
    'log.retention.check.interval.ms': '1',
  },
}

/** A broker with one replica does not come here by requests; `test/unit/storage/failpoints.test.ts` dies there with a log of its own, `journal-crash.test.ts` with several. */
export const IN_PROCESS_ONLY: ReadonlySet<FailpointName> = new Set([
  ...FAILPOINT_NAMES.filter((name) => name.startsWith('compaction.')),
  'checkpoint.lowered',
  'log.truncate.segment-removed',
  'log.truncate.cut',
  'log.reopen.epoch-raised',
  // Needs a disk that is full.
  'segment.remove.emptied',
  ...FAILPOINT_NAMES.filter((name) => name.startsWith('journal.')),
])

/** The general moments mean many steps: each of the first ones is another file. */
export function nthsOf(name: FailpointName): readonly number[] {
  if (name === 'folder.renamed') return [1, 3]
  return name.startsWith('file.') ? [1, 2, 3, 5, 8] : [1]
}
