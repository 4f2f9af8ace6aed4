import { MoonMQError } from '../core/errors.ts'
import { isInternalTopic } from '../metadata/names.ts'
import type { RequestContext } from './context.ts'
import type { LogSource } from './log-source.ts'
import type { DeletionPort } from './ports.ts'
import type { Partitions } from './topics/partitions.ts'

/** What a request names for "everything that consumers can see". */
const HIGH_WATERMARK = -1

/**
 * DeleteRecords by Kafka's rules (`Partition.deleteRecordsOnLeader`): only where records may be deleted at all, and never beyond the high
 * watermark. Order: the offset is synced, the start moves and nobody reads below it any more, the starts are saved, then it is answered. Files
 * follow with retention.
 */
export class RecordDeletion implements DeletionPort {
  readonly #partitions: Partitions
  readonly #logs: LogSource

  constructor(deps: { partitions: Partitions; logs: LogSource }) {
    this.#partitions = deps.partitions
    this.#logs = deps.logs
  }

  async deleteBefore(context: RequestContext, topic: string, partition: number, offset: number): Promise<number> {
    if (isInternalTopic(topic) && this.#partitions.topic(topic) !== undefined) {
      throw new MoonMQError('TOPIC_NAME_INVALID', { topic, reason: 'records of an internal topic cannot be deleted' })
    }
    const { log } = this.#partitions.forClient(context, topic, partition)
    if (!log.config.isDeleted) {
      throw new MoonMQError('POLICY_VIOLATION', { reason: `cleanup.policy of topic "${topic}" has no "delete": its records stay` })
    }
    const start = offset === HIGH_WATERMARK ? log.highWatermark : offset
    if (!Number.isSafeInteger(start) || start < 0 || start > log.highWatermark) {
      throw new MoonMQError('OFFSET_OUT_OF_RANGE', { offset, topic, partition, start: log.logStartOffset, end: log.highWatermark })
    }
    // Under a flush setting consumers see what a power cut may still take; a start behind the log's end would outlive it.
    await log.whenSynced(start)
    log.advanceLogStart(start)
    await this.#logs.saveLogStarts()
    return log.logStartOffset
  }
}
