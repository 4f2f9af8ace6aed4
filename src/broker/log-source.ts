import type { Uuid } from '../core/uuid.ts'
import type { Log, LogConfig } from '../storage/types.ts'

/**
 * Where the broker gets its logs from: the log manager of storage, passed in by the composition. The broker decides which logs
 * exist (they follow from the metadata image); the source owns their files.
 */
export interface LogSource {
  /** The log of a partition that is open already, else undefined. */
  get(topic: string, partition: number): Log | undefined
  /** Opens the log, making its folder when there is none. Resolves when the folder's name is durable. Throws STORAGE_FAILED. */
  open(topic: string, partition: number, topicId: Uuid, config: LogConfig): Promise<Log>
  /**
   * Closes the log and takes its folder out of the way, so that one of the same name can be made at once; resolves when no
   * restart brings it back. The files go away in the background.
   */
  delete(topic: string, partition: number, topicId: Uuid): Promise<void>
}
