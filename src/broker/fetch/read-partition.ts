import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { type IsolationLevel, NO_OFFSET } from '../../core/types.ts'
import type { EpochEnd, Log, LogRead } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { FetchedPartition, FetchPartition } from '../ports.ts'
import { leaderEpochOf, type Partitions } from '../topics/partitions.ts'

export interface ReadLimits {
  readonly isolation: IsolationLevel
  readonly maxBytes: number
  /** Nothing was found yet: the first batch comes whole. */
  readonly minOneBatch: boolean
}

/** What one partition gives to one pass. `starved`: there is data, but no room for it. */
export interface PartitionRead extends FetchedPartition {
  readonly log: Log | null
  readonly starved: boolean
}

/** Throws LEADER_EPOCH_FENCED for an epoch that is over, LEADER_EPOCH_UNKNOWN for one to come (KIP-320); -1 is not checked. */
export function checkLeaderEpoch(topic: string, partition: number, epoch: number, current: number): void {
  if (epoch < 0 || epoch === current) return
  throw new MoonMQError(epoch < current ? 'LEADER_EPOCH_FENCED' : 'LEADER_EPOCH_UNKNOWN', { epoch, topic, partition, current })
}

/** Where the log of a reader at (lastFetchedEpoch, offset) left ours (KIP-595), or null when it did not. Throws OFFSET_OUT_OF_RANGE for an epoch that never was. */
function divergence(log: Log, wanted: FetchPartition, currentEpoch: number): EpochEnd | null {
  const { lastFetchedEpoch, fetchOffset } = wanted
  if (lastFetchedEpoch < 0) return null
  const end = log.endOffsetForEpoch(lastFetchedEpoch, currentEpoch)
  if (end.endOffset < 0) throw outOfRange(wanted, log)
  return end.endOffset < fetchOffset || end.leaderEpoch < lastFetchedEpoch ? end : null
}

/** At once when the bytes are in memory. Never throws: what is wrong with one partition is in its result. */
export function readPartition(
  partitions: Partitions,
  context: RequestContext,
  wanted: FetchPartition,
  limits: ReadLimits,
): PartitionRead | Promise<PartitionRead> {
  try {
    const served = partitions.forClient(context, wanted.topic, wanted.partition)
    const { log } = served
    // A log that failed still gives what is durable; one that was closed gives nothing.
    if (log.state === 'closed') throw closed(wanted)
    const currentEpoch = leaderEpochOf(served)
    checkLeaderEpoch(wanted.topic, wanted.partition, wanted.currentLeaderEpoch, currentEpoch)
    const diverging = divergence(log, wanted, currentEpoch)
    if (diverging !== null) return outcome(wanted, log, null, { diverging })
    if (!Number.isSafeInteger(wanted.fetchOffset) || wanted.fetchOffset < log.logStartOffset || wanted.fetchOffset > log.logEndOffset) {
      throw outOfRange(wanted, log)
    }
    const limitOffset = limits.isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark
    if (wanted.fetchOffset >= limitOffset) return outcome(wanted, log, null, {})
    if (limits.maxBytes <= 0 && !limits.minOneBatch) return outcome(wanted, log, null, { starved: true })
    const reading = log.read({ offset: wanted.fetchOffset, maxBytes: limits.maxBytes, minOneBatch: limits.minOneBatch, limitOffset })
    if (!(reading instanceof Promise)) return done(wanted, log, reading, limits.isolation)
    return reading.then(
      (read) => done(wanted, log, read, limits.isolation),
      (error: unknown) => failed(wanted, log, error),
    )
  } catch (error) {
    return failed(wanted, partitions.topic(wanted.topic)?.partitions[wanted.partition]?.log ?? null, error)
  }
}

function closed({ topic, partition }: FetchPartition): MoonMQError {
  return new MoonMQError('STORAGE_FAILED', { topic, partition, reason: 'its log is closed' })
}

function outOfRange(wanted: FetchPartition, log: Log): MoonMQError {
  return new MoonMQError('OFFSET_OUT_OF_RANGE', {
    offset: wanted.fetchOffset,
    topic: wanted.topic,
    partition: wanted.partition,
    start: log.logStartOffset,
    end: log.logEndOffset,
  })
}

function done(wanted: FetchPartition, log: Log, read: LogRead, isolation: IsolationLevel): PartitionRead {
  const aborted =
    isolation === 'read_committed' && read.sizeBytes > 0 ? log.abortedTransactions(read.baseOffset, read.nextOffset) : undefined
  return outcome(wanted, log, read, { starved: read.sizeBytes === 0, ...(aborted === undefined ? {} : { aborted }), isolation })
}

interface Extras {
  readonly diverging?: EpochEnd
  readonly starved?: boolean
  readonly aborted?: FetchedPartition['aborted']
  readonly isolation?: IsolationLevel
}

const NONE_ABORTED: readonly never[] = []

function outcome(wanted: FetchPartition, log: Log, read: LogRead | null, extras: Extras): PartitionRead {
  return {
    topic: wanted.topic,
    partition: wanted.partition,
    error: null,
    highWatermark: log.highWatermark,
    lastStableOffset: log.lastStableOffset,
    logStartOffset: log.logStartOffset,
    aborted: extras.aborted ?? (extras.isolation === 'read_committed' ? NONE_ABORTED : null),
    divergingEpoch: extras.diverging ?? null,
    read,
    log,
    starved: extras.starved ?? false,
  }
}

function failed(wanted: FetchPartition, log: Log | null, error: unknown): PartitionRead {
  // An out-of-range answer tells the bounds; every other error tells nothing (as Kafka).
  const bounds = error instanceof MoonMQError && error.code === 'OFFSET_OUT_OF_RANGE' ? log : null
  return {
    topic: wanted.topic,
    partition: wanted.partition,
    error: asMoonMQError(error),
    highWatermark: bounds?.highWatermark ?? NO_OFFSET,
    lastStableOffset: bounds?.lastStableOffset ?? NO_OFFSET,
    logStartOffset: bounds?.logStartOffset ?? NO_OFFSET,
    aborted: null,
    divergingEpoch: null,
    read: null,
    log,
    starved: false,
  }
}
