import { MoonMQError } from '../core/errors.ts'
import { SharedMap, type SharedMapDraft } from '../core/shared-map.ts'
import type { Uuid } from '../core/uuid.ts'
import type { AnyMetadataRecord } from '../schema/records.ts'
import type { MetadataRecords } from '../schema/types.generated.ts'
import { isInternalTopic } from './names.ts'
import { CLUSTER_ID_CONFIG, CONFIG_RESOURCE, metadataRecord, NO_LEADER_CHANGE } from './records.ts'
import type { BrokerImage, MetadataImage, MetadataRecord, PartitionImage, TopicImage } from './types.ts'

/** The native protocol promises producer ids from 1. */
const FIRST_PRODUCER_ID = 1

export function emptyImage(clusterId: Uuid): MetadataImage {
  return {
    clusterId,
    nextOffset: 0,
    topics: new SharedMap(new Map()),
    topicsById: new SharedMap(new Map()),
    brokers: new Map(),
    brokerConfigs: new Map(),
    telemetryConfigs: new Map(),
    groupConfigs: new Map(),
    features: new Map(),
    nextProducerId: FIRST_PRODUCER_ID,
  }
}

interface TopicDraft {
  readonly name: string
  readonly id: Uuid
  readonly partitions: PartitionImage[]
  readonly config: Map<string, string>
}

type Configs = ReadonlyMap<string, ReadonlyMap<string, string>>

/**
 * Folds records into an image. Pure but for its own drafts: no clock, no random, the same records give the same image. What no record
 * touches is shared with the image it started from. A record that cannot follow throws INVALID_RECORD; the builder is then spent.
 */
export class ImageBuilder {
  readonly #base: MetadataImage
  readonly #topics: SharedMapDraft<string, TopicImage>
  readonly #topicsById: SharedMapDraft<Uuid, TopicImage>
  readonly #drafts = new Map<Uuid, TopicDraft>()
  #changesTopics = false
  #brokers: Map<number, BrokerImage> | null = null
  #brokerConfigs: Configs
  #telemetryConfigs: Configs
  #groupConfigs: Configs
  #features: ReadonlyMap<string, number>
  #nextProducerId: number
  /** Ids of topics that the records folded here removed: their folders may still be there after a crash. */
  readonly removedTopics = new Set<Uuid>()

  constructor(base: MetadataImage) {
    this.#base = base
    this.#topics = shared(base.topics).edit()
    this.#topicsById = shared(base.topicsById).edit()
    this.#brokerConfigs = base.brokerConfigs
    this.#telemetryConfigs = base.telemetryConfigs
    this.#groupConfigs = base.groupConfigs
    this.#features = base.features
    this.#nextProducerId = base.nextProducerId
  }

  apply(record: AnyMetadataRecord): void {
    switch (record.name) {
      case 'TopicRecord':
        this.#addTopic(record.fields)
        break
      case 'RemoveTopicRecord':
        this.removedTopics.add(record.fields.topicId)
        this.#removeTopic(record.fields.topicId)
        break
      case 'PartitionRecord':
        this.#addPartition(record.fields)
        break
      case 'PartitionChangeRecord':
        this.#changePartition(record.fields)
        break
      case 'ConfigRecord':
        this.#setConfig(record.fields)
        break
      case 'ProducerIdsRecord':
        this.#moveProducerIds(record.fields.nextProducerId)
        break
      case 'FeatureLevelRecord':
        this.#setFeature(record.fields)
        break
      case 'NoOpRecord':
        break
      default:
        this.#applyToBroker(record)
    }
  }

  /** The image after the records applied so far, whose last one lies before `nextOffset`. */
  build(nextOffset: number): MetadataImage {
    for (const draft of this.#drafts.values()) {
      const topic: TopicImage = { ...draft, internal: isInternalTopic(draft.name) }
      this.#topics.set(topic.name, topic)
      this.#topicsById.set(topic.id, topic)
    }
    this.#drafts.clear()
    return {
      clusterId: this.#base.clusterId,
      nextOffset,
      topics: this.#changesTopics ? this.#topics.build() : this.#base.topics,
      topicsById: this.#changesTopics ? this.#topicsById.build() : this.#base.topicsById,
      brokers: this.#brokers ?? this.#base.brokers,
      brokerConfigs: this.#brokerConfigs,
      telemetryConfigs: this.#telemetryConfigs,
      groupConfigs: this.#groupConfigs,
      features: this.#features,
      nextProducerId: this.#nextProducerId,
    }
  }

  /** A topic's draft, which holds its place in the order of the map until it is built. */
  #draft(id: Uuid): TopicDraft {
    let draft = this.#drafts.get(id)
    if (draft === undefined) {
      const topic = this.#topicsById.get(id)
      if (topic === undefined) throw bad(`there is no topic with the id ${id}`)
      draft = { name: topic.name, id, partitions: [...topic.partitions], config: new Map(topic.config) }
      this.#drafts.set(id, draft)
      this.#changesTopics = true
    }
    return draft
  }

  #addTopic(fields: MetadataRecords['TopicRecord']): void {
    const { name, topicId: id } = fields
    if (this.#topics.has(name)) throw bad(`topic "${name}" exists already`)
    if (this.#topicsById.has(id)) throw bad(`a topic with the id ${id} exists already`)
    const topic: TopicImage = { name, id, internal: isInternalTopic(name), partitions: [], config: new Map() }
    this.#topics.set(name, topic)
    this.#topicsById.set(id, topic)
    this.#drafts.set(id, { name, id, partitions: [], config: new Map() })
    this.#changesTopics = true
  }

  #removeTopic(id: Uuid): void {
    const topic = this.#topicsById.get(id)
    if (topic === undefined) throw bad(`there is no topic with the id ${id}`)
    this.#drafts.delete(id)
    this.#topicsById.delete(id)
    this.#topics.delete(topic.name)
    this.#changesTopics = true
  }

  #addPartition(fields: MetadataRecords['PartitionRecord']): void {
    const { partitions, name } = this.#draft(fields.topicId)
    if (fields.partitionId !== partitions.length) {
      throw bad(`topic "${name}" has ${partitions.length} partitions, ${fields.partitionId} cannot be the next`)
    }
    if (fields.addingReplicas.length > 0 || fields.removingReplicas.length > 0)
      throw bad(`partition ${fields.partitionId} of "${name}" is being moved`)
    const { partitionId: partition, leader, leaderEpoch, partitionEpoch, replicas, isr } = fields
    partitions.push({ partition, leader, leaderEpoch, partitionEpoch, replicas, isr })
  }

  #changePartition(fields: MetadataRecords['PartitionChangeRecord']): void {
    const { partitions, name } = this.#draft(fields.topicId)
    const before = partitions[fields.partitionId]
    if (before === undefined) throw bad(`topic "${name}" has no partition ${fields.partitionId}`)
    if ((fields.addingReplicas ?? []).length > 0 || (fields.removingReplicas ?? []).length > 0) {
      throw bad(`partition ${fields.partitionId} of "${name}" is being moved`)
    }
    // A record that names a leader opens a new epoch, even when it is the same one (Kafka, `PartitionRegistration.merge`).
    const changesLeader = fields.leader !== NO_LEADER_CHANGE
    partitions[fields.partitionId] = {
      partition: before.partition,
      leader: changesLeader ? fields.leader : before.leader,
      leaderEpoch: changesLeader ? before.leaderEpoch + 1 : before.leaderEpoch,
      partitionEpoch: before.partitionEpoch + 1,
      replicas: fields.replicas ?? before.replicas,
      isr: fields.isr ?? before.isr,
    }
  }

  #setConfig(fields: MetadataRecords['ConfigRecord']): void {
    const { resourceType, resourceName, name, value } = fields
    if (resourceType === CONFIG_RESOURCE.topic) {
      const topic = this.#topics.get(resourceName)
      if (topic === undefined) throw bad(`there is no topic "${resourceName}" to configure`)
      const { config } = this.#draft(topic.id)
      if (value === null) config.delete(name)
      else config.set(name, value)
    } else if (resourceType === CONFIG_RESOURCE.broker) {
      if (name === CLUSTER_ID_CONFIG) this.#checkCluster(value)
      else this.#brokerConfigs = withConfig(this.#brokerConfigs, resourceName, name, value)
    } else if (resourceType === CONFIG_RESOURCE.telemetry) {
      this.#telemetryConfigs = withConfig(this.#telemetryConfigs, resourceName, name, value)
    } else if (resourceType === CONFIG_RESOURCE.group) {
      this.#groupConfigs = withConfig(this.#groupConfigs, resourceName, name, value)
    } else throw bad(`settings of resource type ${resourceType} are not known`)
  }

  #checkCluster(clusterId: string | null): void {
    if (clusterId !== this.#base.clusterId)
      throw bad(`the metadata is of cluster ${clusterId}, this folder belongs to ${this.#base.clusterId}`)
  }

  #moveProducerIds(nextProducerId: number): void {
    if (nextProducerId < this.#nextProducerId) throw bad(`producer ids go back from ${this.#nextProducerId} to ${nextProducerId}`)
    this.#nextProducerId = nextProducerId
  }

  #setFeature(fields: MetadataRecords['FeatureLevelRecord']): void {
    const features = new Map(this.#features)
    // Level 0 is kept: it says that a feature was switched off, where silence would bring its default back.
    features.set(fields.name, fields.featureLevel)
    this.#features = features
  }

  #applyToBroker(record: AnyMetadataRecord): void {
    this.#brokers ??= new Map(this.#base.brokers)
    if (record.name === 'RegisterBrokerRecord') {
      const { brokerId: id, brokerEpoch: epoch, incarnationId, fenced, inControlledShutdown, rack, endPoints } = record.fields
      this.#brokers.set(id, { id, epoch, incarnationId, fenced, inControlledShutdown, rack, endPoints })
    } else if (record.name === 'UnregisterBrokerRecord') {
      this.#broker(record.fields.brokerId, record.fields.brokerEpoch)
      this.#brokers.delete(record.fields.brokerId)
    } else if (record.name === 'FenceBrokerRecord' || record.name === 'UnfenceBrokerRecord') {
      const broker = this.#broker(record.fields.id, record.fields.epoch)
      this.#brokers.set(broker.id, { ...broker, fenced: record.name === 'FenceBrokerRecord' })
    } else if (record.name === 'BrokerRegistrationChangeRecord') {
      const { brokerId, brokerEpoch, fenced, inControlledShutdown } = record.fields
      const broker = this.#broker(brokerId, brokerEpoch)
      this.#brokers.set(brokerId, {
        ...broker,
        // −1 unfences, 1 fences, 0 leaves it (Kafka, `BrokerRegistrationFencingChange`).
        fenced: fenced === 0 ? broker.fenced : fenced > 0,
        inControlledShutdown: broker.inControlledShutdown || inControlledShutdown > 0,
      })
    } else throw bad(`${record.name} is not known to this version`)
  }

  #broker(id: number, epoch: number): BrokerImage {
    const broker = this.#brokers?.get(id)
    if (broker === undefined) throw bad(`broker ${id} is not registered`)
    if (broker.epoch !== epoch) throw bad(`broker ${id} has epoch ${broker.epoch}, not ${epoch}`)
    return broker
  }
}

/** Images of this class have shared maps; a caller's own may have plain ones. */
function shared<K, V>(map: ReadonlyMap<K, V>): SharedMap<K, V> {
  return map instanceof SharedMap ? map : new SharedMap(map)
}

function withConfig(configs: Configs, resource: string, name: string, value: string | null): Configs {
  const settings = new Map(configs.get(resource))
  if (value === null) settings.delete(name)
  else settings.set(name, value)
  const all = new Map(configs)
  if (settings.size === 0) all.delete(resource)
  else all.set(resource, settings)
  return all
}

function bad(reason: string): MoonMQError {
  return new MoonMQError('INVALID_RECORD', { reason })
}

/** The image with plain maps: two images that say the same are then equal, however they came about. */
export function plainImage(image: MetadataImage): MetadataImage {
  return { ...image, topics: new Map(image.topics), topicsById: new Map(image.topicsById) }
}

/** The records that make this image out of an empty one: the body of a snapshot. */
export function* imageRecords(image: MetadataImage): Generator<MetadataRecord, void, undefined> {
  for (const [name, featureLevel] of image.features) yield metadataRecord('FeatureLevelRecord', { name, featureLevel })
  yield clusterIdRecord(image.clusterId)
  for (const broker of image.brokers.values()) {
    const { id: brokerId, epoch: brokerEpoch, ...rest } = broker
    yield metadataRecord('RegisterBrokerRecord', { brokerId, brokerEpoch, ...rest })
  }
  yield* configRecords(CONFIG_RESOURCE.broker, image.brokerConfigs)
  yield* configRecords(CONFIG_RESOURCE.telemetry, image.telemetryConfigs)
  yield* configRecords(CONFIG_RESOURCE.group, image.groupConfigs)
  for (const topic of image.topics.values()) {
    yield metadataRecord('TopicRecord', { name: topic.name, topicId: topic.id })
    yield* configRecords(CONFIG_RESOURCE.topic, new Map([[topic.name, topic.config]]))
    for (const partition of topic.partitions) yield partitionRecord(topic.id, partition)
  }
  if (image.nextProducerId !== FIRST_PRODUCER_ID) {
    yield metadataRecord('ProducerIdsRecord', { brokerId: -1, brokerEpoch: -1, nextProducerId: image.nextProducerId })
  }
}

export function partitionRecord(topicId: Uuid, image: PartitionImage): MetadataRecord {
  const { partition: partitionId, ...rest } = image
  return metadataRecord('PartitionRecord', { partitionId, topicId, removingReplicas: [], addingReplicas: [], ...rest })
}

export function clusterIdRecord(clusterId: Uuid): MetadataRecord {
  return metadataRecord('ConfigRecord', {
    resourceType: CONFIG_RESOURCE.broker,
    resourceName: '',
    name: CLUSTER_ID_CONFIG,
    value: clusterId,
  })
}

export function* configRecords(resourceType: number, configs: Configs): Generator<MetadataRecord, void, undefined> {
  for (const [resourceName, settings] of configs) {
    for (const [name, value] of settings) yield metadataRecord('ConfigRecord', { resourceType, resourceName, name, value })
  }
}
