import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Log, LogConfig } from '../storage/types.ts'

export interface OpenPartition extends TopicPartition {
  readonly topicId: Uuid
  readonly config: LogConfig
  /** By the metadata log: no batch on disk may have a higher one. */
  readonly leaderEpoch: number
  /** `moonmq.storage=memory`: nothing of it survives the process. */
  readonly inMemory: boolean
}

/**
 * Where the broker gets its logs from: the log manager of storage, passed in by the composition. The broker decides which logs
 * exist (they follow from the metadata image); the source owns their files.
 */
export interface LogSource {
  /** The folder that all logs on disk are in. */
  readonly folder: string
  /** What its volume has, and what of it can still be written; infinite where there is no limit. */
  space(): Promise<{ readonly freeBytes: number; readonly totalBytes: number }>
  /** The log of a partition that is open already, else undefined. */
  get(partition: TopicPartition): Log | undefined
  /** Whether there is a folder for the partition, its log open or not. */
  exists(partition: TopicPartition): Promise<boolean>
  /** Opens the log, making its folder when there is none. Resolves when the folder's name is durable. Throws STORAGE_FAILED, DATA_DAMAGED. */
  open(request: OpenPartition): Promise<Log>
  /** Saves where every log begins, durably: after `advanceLogStart`. Several at once share one write. */
  saveLogStarts(): Promise<void>
  /**
   * Closes the log and takes its folder out of the way, so that one of the same name can be made at once; resolves when no
   * restart brings it back. The files go away in the background.
   */
  delete(partition: TopicPartition, topicId: Uuid): Promise<void>
}
