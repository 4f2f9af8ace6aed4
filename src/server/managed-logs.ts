import type { LogSource, OpenPartition } from '../broker/log-source.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { LogManager } from '../storage/log-manager.ts'
import type { Log } from '../storage/types.ts'

/** The logs of the data folder as the broker asks for them. */
export class ManagedLogs implements LogSource {
  readonly #manager: LogManager

  constructor(manager: LogManager) {
    this.#manager = manager
  }

  get(partition: TopicPartition): Log | undefined {
    return this.#manager.get(partition)
  }

  exists(partition: TopicPartition): Promise<boolean> {
    return this.#manager.exists(partition)
  }

  open({ leaderEpoch, ...request }: OpenPartition): Promise<Log> {
    return this.#manager.open({ ...request, maxEpoch: leaderEpoch })
  }

  saveLogStarts(): Promise<void> {
    return this.#manager.saveLogStarts()
  }

  delete(partition: TopicPartition, topicId: Uuid): Promise<void> {
    return this.#manager.delete(partition, topicId)
  }
}
