import { BACKEND, checkTopicSetting } from '../../config/topic-settings.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Random } from '../../core/random.ts'
import { newUuid, type Uuid } from '../../core/uuid.ts'
import {
  alterBrokerConfig,
  alterGroupConfig,
  alterTelemetryConfig,
  alterTopicConfig,
  checkTopicConfig,
} from '../../metadata/config-plans.ts'
import { checkTopicName, isInternalTopic } from '../../metadata/names.ts'
import { type CreateTopicPlan, createPartitions, createTopic, deleteTopic } from '../../metadata/plans.ts'
import type { Metadata, MetadataImage, TopicImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { AlterConfig, ConfigValue, CreateTopic, OfflinePartition, TopicPort } from '../ports.ts'
import { type BrokerSettings, brokerSettingsInForce } from '../settings.ts'
import { describeBrokerConfig, describeGroupConfig, describeTelemetryConfig, describeTopicConfig } from './describe-config.ts'
import type { PartitionChooser } from './partitioner.ts'
import type { Partitions } from './partitions.ts'

export interface TopicDeps {
  readonly metadata: Metadata
  readonly partitions: Partitions
  readonly chooser: PartitionChooser
  readonly random: Random
}

export interface TopicOptions {
  readonly nodeId: number
  readonly settings: BrokerSettings
  /** `moonmq.backend` of topics that are made without one. */
  readonly defaultBackend?: string
}

const DEFAULT_BACKEND = 'segmented'

/**
 * Topics as clients see and change them. A change is a record first; the logs follow from the image (`Partitions`), and a request is
 * answered when they have.
 */
export class TopicService implements TopicPort {
  readonly #metadata: Metadata
  readonly #partitions: Partitions
  readonly #chooser: PartitionChooser
  readonly #random: Random
  readonly #nodeId: number
  readonly #settings: BrokerSettings
  readonly #defaultBackend: string
  /** Auto-creations under way: a second client that asks for the same topic waits for the first one's. */
  readonly #ensuring = new Map<string, Promise<TopicImage>>()

  constructor(deps: TopicDeps, options: TopicOptions) {
    this.#metadata = deps.metadata
    this.#partitions = deps.partitions
    this.#chooser = deps.chooser
    this.#random = deps.random
    this.#nodeId = options.nodeId
    this.#settings = options.settings
    this.#defaultBackend = options.defaultBackend ?? DEFAULT_BACKEND
  }

  get(name: string): TopicImage {
    const topic = this.find(name)
    if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
    return topic
  }

  find(name: string): TopicImage | undefined {
    return this.#metadata.image.topics.get(name)
  }

  findById(id: Uuid): TopicImage | undefined {
    return this.#metadata.image.topicsById.get(id)
  }

  offline(topic: TopicImage): ReadonlyMap<number, OfflinePartition> {
    return this.#partitions.offline(topic.name)
  }

  list(): readonly TopicImage[] {
    return [...this.#metadata.image.topics.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  }

  async create(context: RequestContext, topic: CreateTopic, options?: { validateOnly?: boolean }): Promise<TopicImage> {
    checkTopicName(topic.name)
    this.#refuseInternal(context, topic.name)
    const planned = this.#planned(topic)
    if (options?.validateOnly === true) return createTopic(this.#metadata.image, planned).result
    await this.#metadata.change((image) => createTopic(image, planned))
    return this.#ready(topic.name, planned.id)
  }

  async ensure(context: RequestContext, name: string): Promise<TopicImage> {
    const known = this.find(name)
    if (known !== undefined) return known
    const pending = this.#ensuring.get(name)
    if (pending !== undefined) return pending
    const making = this.#make(context, name).finally(() => this.#ensuring.delete(name))
    this.#ensuring.set(name, making)
    return making
  }

  async #make(context: RequestContext, name: string): Promise<TopicImage> {
    try {
      return await this.create(context, { name, partitions: -1, replicationFactor: -1, assignments: new Map(), config: new Map() })
    } catch (error) {
      const made = this.find(name)
      if (made !== undefined && error instanceof MoonMQError && error.code === 'TOPIC_EXISTS') return made
      throw error
    }
  }

  async delete(context: RequestContext, name: string): Promise<TopicImage> {
    this.#refuseInternal(context, name)
    if (this.#settings.text('delete.topic.enable') === 'false') throw new MoonMQError('TOPIC_DELETION_DISABLED')
    const removed = await this.#metadata.change((image) => deleteTopic(image, name))
    this.#chooser.forget(name)
    return removed
  }

  async createPartitions(context: RequestContext, name: string, total: number, options?: { validateOnly?: boolean }): Promise<TopicImage> {
    this.#refuseInternal(context, name)
    const request = { topic: name, total }
    if (options?.validateOnly === true) return createPartitions(this.#metadata.image, request).result
    const { id } = await this.#metadata.change((image) => createPartitions(image, request))
    return this.#ready(name, id)
  }

  async alterConfig(context: RequestContext, change: AlterConfig): Promise<readonly string[]> {
    checkTopicName(change.name)
    // Kafka's tools tune internal topics; the native protocol refuses it.
    if (context.protocol !== 'kafka') this.#refuseInternal(context, change.name)
    return this.#alter(change, alterTopicConfig)
  }

  alterBrokerConfig(_context: RequestContext, change: AlterConfig): Promise<readonly string[]> {
    return this.#alter(change, alterBrokerConfig)
  }

  alterGroupConfig(_context: RequestContext, change: AlterConfig): Promise<readonly string[]> {
    return this.#alter(change, alterGroupConfig)
  }

  alterTelemetryConfig(_context: RequestContext, change: AlterConfig): Promise<readonly string[]> {
    return this.#alter(change, alterTelemetryConfig)
  }

  async #alter(change: AlterConfig, alter: typeof alterTopicConfig): Promise<readonly string[]> {
    const { name, changes, replace = false, validateOnly = false } = change
    const plan = (image: MetadataImage) =>
      alter(image, { name, changes, replace, broker: brokerSettingsInForce(image, this.#nodeId, this.#settings.configured) })
    if (validateOnly) return plan(this.#metadata.image).result
    const changed = await this.#metadata.change(plan)
    this.#partitions.apply(this.#metadata.image)
    return changed
  }

  describeConfig(_context: RequestContext, name: string): readonly ConfigValue[] {
    checkTopicName(name)
    return describeTopicConfig(this.get(name), this.#sources())
  }

  describeBrokerConfig(_context: RequestContext): readonly ConfigValue[] {
    return describeBrokerConfig(this.#sources())
  }

  describeGroupConfig(_context: RequestContext, group: string): readonly ConfigValue[] {
    return describeGroupConfig(group, this.#sources())
  }

  describeTelemetryConfig(_context: RequestContext, name: string): readonly ConfigValue[] {
    return describeTelemetryConfig(name, this.#sources())
  }

  partitionFor(topic: TopicImage, key: Buffer | null): number {
    const partitioner = this.#partitions.topic(topic.name)?.settings.partitioner ?? 'fnv1a'
    return this.#chooser.choose(topic, partitioner, key)
  }

  #sources() {
    return { nodeId: this.#nodeId, image: this.#metadata.image, settings: this.#settings.configured }
  }

  #refuseInternal(context: RequestContext, name: string): void {
    if (context.protocol === 'internal') return
    if (isInternalTopic(name)) throw new MoonMQError('TOPIC_FORBIDDEN', { topic: name })
  }

  /** The topic with its logs open. It may be gone again already. */
  async #ready(name: string, id: Uuid): Promise<TopicImage> {
    this.#partitions.apply(this.#metadata.image)
    await this.#partitions.whenOpen(name, id)
    const topic = this.findById(id)
    if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
    return topic
  }

  /** Puts in what the client left open, and checks the settings; the rest is checked against the image. */
  #planned(topic: CreateTopic): CreateTopicPlan {
    const { name, assignments } = topic
    if (assignments.size > 0 && (topic.partitions !== -1 || topic.replicationFactor !== -1)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'give either an assignment or numbers of partitions and replicas, not both' })
    }
    const config = checkedConfig(topic.config)
    const backend = this.#defaultBackend
    const withBackend =
      isInternalTopic(name) || config.has(BACKEND) || backend === DEFAULT_BACKEND ? config : new Map([...config, [BACKEND, backend]])
    checkTopicConfig(name, withBackend, brokerSettingsInForce(this.#metadata.image, this.#nodeId, this.#settings.configured))
    return {
      name,
      id: newUuid(this.#random),
      partitions: topic.partitions === -1 ? this.#settings.number('num.partitions') : topic.partitions,
      replicationFactor: topic.replicationFactor === -1 ? this.#settings.number('default.replication.factor') : topic.replicationFactor,
      assignments,
      config: withBackend,
    }
  }
}

/** Values in the form that is stored. Null leaves a setting at its default. Throws CONFIG_INVALID. */
function checkedConfig(config: ReadonlyMap<string, string | null>): ReadonlyMap<string, string> {
  const checked = new Map<string, string>()
  for (const [name, value] of config) if (value !== null) checked.set(name, checkTopicSetting(name, value))
  return checked
}
