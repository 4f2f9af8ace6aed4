import type { LogSource, OpenPartition } from '../broker/log-source.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk, DiskSpace } from '../io/disk.ts'
import { isInternalTopic } from '../metadata/names.ts'
import type { LogManager } from '../storage/log-manager.ts'
import type { Log } from '../storage/types.ts'

/** The logs of the data folder and those in memory, as the broker asks for them: which it is, a topic chose when it was made. */
export class ManagedLogs implements LogSource {
  readonly #disk: LogManager
  readonly #memory: LogManager
  readonly #volume: Disk

  constructor(logs: { readonly disk: LogManager; readonly memory: LogManager; readonly volume: Disk }) {
    this.#disk = logs.disk
    this.#memory = logs.memory
    this.#volume = logs.volume
  }

  get folder(): string {
    return this.#disk.dataFolder
  }

  space(): Promise<DiskSpace> {
    return this.#volume.space(this.folder)
  }

  get(partition: TopicPartition): Log | undefined {
    return this.#memory.get(partition) ?? this.#disk.get(partition)
  }

  /** A log in memory is there while it is open. */
  async exists(partition: TopicPartition): Promise<boolean> {
    return this.#memory.get(partition) !== undefined || (await this.#disk.exists(partition))
  }

  open({ leaderEpoch, inMemory, ...request }: OpenPartition): Promise<Log> {
    return (inMemory ? this.#memory : this.#disk).open({ ...request, maxEpoch: leaderEpoch, usesReserve: isInternalTopic(request.topic) })
  }

  async saveLogStarts(): Promise<void> {
    await Promise.all([this.#disk.saveLogStarts(), this.#memory.saveLogStarts()])
  }

  async delete(partition: TopicPartition, topicId: Uuid): Promise<void> {
    if (this.#memory.get(partition)?.topicId === topicId) await this.#memory.delete(partition, topicId)
    else await this.#disk.delete(partition, topicId)
  }
}
