import { MoonMQError } from '../core/errors.ts'
import type { IsolationLevel } from '../core/types.ts'
import type { EpochEnd, Log, ProducerEntry, TimestampOffset } from '../storage/types.ts'
import type { RequestContext } from './context.ts'
import { checkLeaderEpoch } from './fetch/read-partition.ts'
import type { OffsetPort, PartitionOffsets } from './ports.ts'
import { leaderEpochOf, type Partitions, type ServedPartition } from './topics/partitions.ts'

/** Where a partition begins and ends, and which offset a time has. All throw TOPIC_MISSING, PARTITION_MISSING, TOPIC_FORBIDDEN. */
export class OffsetQueries implements OffsetPort {
  readonly #partitions: Partitions

  constructor(deps: { partitions: Partitions }) {
    this.#partitions = deps.partitions
  }

  #find(context: RequestContext, topic: string, partition: number): ServedPartition & { log: Log } {
    return this.#partitions.forClient(context, topic, partition)
  }

  bounds(context: RequestContext, topic: string, partition: number): PartitionOffsets {
    const served = this.#find(context, topic, partition)
    const { log } = served
    return {
      partition,
      earliest: log.logStartOffset,
      logEndOffset: log.logEndOffset,
      highWatermark: log.highWatermark,
      lastStableOffset: log.lastStableOffset,
      leaderEpoch: leaderEpochOf(served),
    }
  }

  async forTimestamp(
    context: RequestContext,
    topic: string,
    partition: number,
    timestampMs: number,
    isolation: IsolationLevel,
  ): Promise<TimestampOffset | null> {
    const { log } = this.#find(context, topic, partition)
    return log.offsetForTimestamp(timestampMs, isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark)
  }

  producers(context: RequestContext, topic: string, partition: number): readonly ProducerEntry[] {
    return [...this.#find(context, topic, partition).log.producers()]
  }

  /** As Kafka (KIP-734) without regard to isolation. A record that is not durable yet is waited for, not passed over. */
  async ofMaxTimestamp(context: RequestContext, topic: string, partition: number): Promise<TimestampOffset | null> {
    const { log } = this.#find(context, topic, partition)
    const found = await log.offsetOfMaxTimestamp()
    if (found !== null && found.offset >= log.highWatermark) await log.whenDurable(found.offset + 1)
    return found
  }

  endOfEpoch(context: RequestContext, topic: string, partition: number, currentLeaderEpoch: number, leaderEpoch: number): EpochEnd {
    const served = this.#find(context, topic, partition)
    const current = leaderEpochOf(served)
    // Only -1 means that the client does not know the epoch.
    if (currentLeaderEpoch < -1) throw new MoonMQError('LEADER_EPOCH_FENCED', { epoch: currentLeaderEpoch, topic, partition, current })
    checkLeaderEpoch(topic, partition, currentLeaderEpoch, current)
    return served.log.endOffsetForEpoch(leaderEpoch, current)
  }
}
