import { defined } from '../core/assert.ts'
import { MoonMQError } from '../core/errors.ts'
import { Serial } from '../core/serial.ts'
import type { Metadata } from '../metadata/types.ts'
import type { Log } from '../storage/types.ts'
import { INTERNAL_CONTEXT } from './context.ts'
import type { TopicPort } from './ports.ts'
import { leaderEpochOf, type Partitions, type ServedPartition, withLog } from './topics/partitions.ts'

export const CONSUMER_OFFSETS = '__consumer_offsets'
export const TRANSACTION_STATE = '__transaction_state'

export interface InternalTopicOptions {
  readonly name: string
  /** Partitions that the topic gets when it is made; afterwards the image says. */
  readonly partitions: number
  readonly config: ReadonlyMap<string, string>
}

/**
 * A topic of the broker's own: made by whoever needs it first, each log by whoever appends first (DESIGN D4). Its records are in
 * Kafka's schemas; which partition owns a name is decided by `coordinatorPartition`.
 */
export class InternalTopic {
  readonly #metadata: Metadata
  readonly #topics: TopicPort
  readonly #partitions: Partitions
  readonly #options: InternalTopicOptions
  readonly #making = new Serial()

  constructor(deps: { metadata: Metadata; topics: TopicPort; partitions: Partitions }, options: InternalTopicOptions) {
    this.#metadata = deps.metadata
    this.#topics = deps.topics
    this.#partitions = deps.partitions
    this.#options = options
  }

  /** Partitions of the topic; before it is made, those that it would get. */
  get partitionCount(): number {
    return this.#metadata.image.topics.get(this.#options.name)?.partitions.length ?? this.#options.partitions
  }

  /** The log of a partition that was written to before, in whatever state it is; undefined: there is nothing to read. */
  async existing(partition: number): Promise<Log | undefined> {
    const served = this.#served(partition)
    return served === undefined ? undefined : this.#partitions.existingLog(served)
  }

  /** Resolves when the topic is there. */
  async ensure(): Promise<void> {
    if (this.#served(0) === undefined) await this.#making.run(() => this.#make())
  }

  /** The log of a partition, for appending. Makes the topic and the folder at the first call. */
  async open(partition: number): Promise<Log> {
    await this.ensure()
    const served = this.#served(partition)
    if (served === undefined) throw new MoonMQError('PARTITION_MISSING', { topic: this.#options.name, partition })
    return this.#partitions.openLog(served)
  }

  /** For the next append to a log that `open` gave. */
  leaderEpoch(partition: number): number {
    return leaderEpochOf(withLog(defined(this.#served(partition), `partition ${partition} of ${this.#options.name}`)))
  }

  #served(partition: number): ServedPartition | undefined {
    return this.#partitions.topic(this.#options.name)?.partitions[partition]
  }

  async #make(): Promise<void> {
    if (this.#metadata.image.topics.has(this.#options.name)) return
    await this.#topics.create(INTERNAL_CONTEXT, {
      name: this.#options.name,
      partitions: this.#options.partitions,
      replicationFactor: 1,
      assignments: new Map(),
      config: this.#options.config,
    })
  }
}
