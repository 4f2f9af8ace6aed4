import { MoonMQError } from '../core/errors.ts'
import { MAX_PARTITIONS_PER_TOPIC } from '../core/limits.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import { clusterIdRecord, configRecords, partitionRecord } from './image.ts'
import { checkTopicName, collidingTopic, isInternalTopic } from './names.ts'
import { CONFIG_RESOURCE, metadataRecord } from './records.ts'
import type { BrokerEndPoint, BrokerImage, MetadataChange, MetadataImage, MetadataRecord, PartitionImage, TopicImage } from './types.ts'

/**
 * The changes of the cluster's state: pure functions of the committed image and a request, giving the records to append and what to
 * answer, or throwing why not (DESIGN D7). Ids are made by the caller, so that applying needs no randomness.
 */

export interface CreateTopicPlan {
  readonly name: string
  readonly id: Uuid
  /** At least 1; the caller has put in the default. */
  readonly partitions: number
  /** At least 1; the caller has put in the default. */
  readonly replicationFactor: number
  /** Replicas by partition, dense from 0, in place of the two numbers; empty = spread over the brokers. */
  readonly assignments?: ReadonlyMap<number, readonly number[]>
  /** Checked by the caller. */
  readonly config?: ReadonlyMap<string, string>
}

/** Throws TOPIC_NAME_INVALID, TOPIC_EXISTS, PARTITION_COUNT_INVALID, REPLICATION_FACTOR_INVALID, REPLICA_ASSIGNMENT_INVALID. */
export function createTopic(image: MetadataImage, request: CreateTopicPlan): MetadataChange<TopicImage> {
  const { name, id } = request
  checkTopicName(name)
  if (image.topics.has(name)) throw new MoonMQError('TOPIC_EXISTS', { topic: name })
  const colliding = collidingTopic(name, image.topics)
  if (colliding !== null) {
    throw new MoonMQError('TOPIC_NAME_INVALID', {
      topic: name,
      reason: `it differs from the existing "${colliding}" only in "." against "_"`,
    })
  }
  const assigned = request.assignments ?? new Map()
  const partitions =
    assigned.size > 0
      ? assignedPartitions(image, { assignments: assigned, from: 0, total: assigned.size })
      : spreadPartitions(image, { topic: name, from: 0, total: request.partitions, replicationFactor: request.replicationFactor })
  const config = request.config ?? new Map<string, string>()
  const records = [
    metadataRecord('TopicRecord', { name, topicId: id }),
    ...configRecords(CONFIG_RESOURCE.topic, new Map([[name, config]])),
    ...partitions.map((partition) => partitionRecord(id, partition)),
  ]
  return { records, result: { name, id, internal: isInternalTopic(name), partitions, config } }
}

/** Throws TOPIC_MISSING. The answer is the topic as it was. */
export function deleteTopic(image: MetadataImage, name: string): MetadataChange<TopicImage> {
  const topic = topicOf(image, name)
  return { records: [metadataRecord('RemoveTopicRecord', { topicId: topic.id })], result: topic }
}

export interface CreatePartitionsPlan {
  readonly topic: string
  /** Partitions that the topic has afterwards. */
  readonly total: number
  /** Replicas of each new partition, in order; absent = spread. */
  readonly assignments?: readonly (readonly number[])[]
}

/** Throws TOPIC_MISSING, PARTITION_COUNT_INVALID, REPLICA_ASSIGNMENT_INVALID. */
export function createPartitions(image: MetadataImage, request: CreatePartitionsPlan): MetadataChange<TopicImage> {
  const topic = topicOf(image, request.topic)
  const from = topic.partitions.length
  const { total } = request
  if (total <= from) {
    const reason = total === from ? `it has ${from} already` : `it has ${from}, and partitions are never taken away`
    throw new MoonMQError('PARTITION_COUNT_INVALID', { topic: topic.name, partitions: total, reason })
  }
  const replicationFactor = topic.partitions[0]?.replicas.length ?? 1
  const { assignments } = request
  if (assignments !== undefined && assignments.length !== total - from) {
    throw new MoonMQError('REPLICA_ASSIGNMENT_INVALID', { reason: `${assignments.length} assignments for ${total - from} new partitions` })
  }
  const added =
    assignments === undefined
      ? spreadPartitions(image, { topic: topic.name, from, total, replicationFactor })
      : assignedPartitions(image, { assignments: new Map(assignments.map((each, index) => [from + index, each])), from, total })
  return {
    records: added.map((partition) => partitionRecord(topic.id, partition)),
    result: { ...topic, partitions: [...topic.partitions, ...added] },
  }
}

export interface SetConfigPlan {
  readonly resource: keyof typeof CONFIG_RESOURCE
  /** Topic, group, node id in decimal, or '' for all brokers. */
  readonly name: string
  /** Null takes a setting away. Checked by the caller. */
  readonly changes: ReadonlyMap<string, string | null>
}

/** Appends only what differs. Throws TOPIC_MISSING. The answer is how many settings changed. */
export function setConfig(image: MetadataImage, request: SetConfigPlan): MetadataChange<number> {
  const { resource, name: resourceName } = request
  const before = settingsOf(image, resource, resourceName)
  const records: MetadataRecord[] = []
  for (const [name, value] of request.changes) {
    if ((before?.get(name) ?? null) === value) continue
    records.push(metadataRecord('ConfigRecord', { resourceType: CONFIG_RESOURCE[resource], resourceName, name, value }))
  }
  return { records, result: records.length }
}

function settingsOf(image: MetadataImage, resource: SetConfigPlan['resource'], name: string): ReadonlyMap<string, string> | undefined {
  if (resource === 'topic') return topicOf(image, name).config
  if (resource === 'telemetry') return image.telemetryConfigs.get(name)
  return (resource === 'broker' ? image.brokerConfigs : image.groupConfigs).get(name)
}

const PRODUCER_ID_BLOCK = 1000

export interface ProducerIdBlock {
  readonly firstProducerId: number
  readonly count: number
}

/** Gives a broker the next block of producer ids, which is never given again: what a crash leaves unused is lost. */
export function allocateProducerIds(image: MetadataImage, request: { readonly nodeId: number }): MetadataChange<ProducerIdBlock> {
  const firstProducerId = image.nextProducerId
  const nextProducerId = firstProducerId + PRODUCER_ID_BLOCK
  const brokerEpoch = image.brokers.get(request.nodeId)?.epoch ?? -1
  return {
    records: [metadataRecord('ProducerIdsRecord', { brokerId: request.nodeId, brokerEpoch, nextProducerId })],
    result: { firstProducerId, count: PRODUCER_ID_BLOCK },
  }
}

/** Opens a new leader epoch for one partition: after its storage failed, before it is opened again. The answer is the epoch. */
export function bumpLeaderEpoch(image: MetadataImage, request: TopicPartition): MetadataChange<number> {
  const topic = topicOf(image, request.topic)
  const partition = topic.partitions[request.partition]
  if (partition === undefined) throw new MoonMQError('PARTITION_MISSING', { topic: request.topic, partition: request.partition })
  return { records: [leaderEpochRecord(topic.id, partition)], result: partition.leaderEpoch + 1 }
}

/** Partitions whose epoch one change may raise: 1.5 MB of records. */
export const EPOCH_BUMPS_PER_CHANGE = 32_768

/**
 * Opens a new leader epoch for every partition that `nodeId` leads: at a start after an unclean stop, before the first append, so that
 * (epoch, offset) never names two records. One record of 40 bytes a partition, so 10,000 partitions cost one batch and one sync. More
 * than `EPOCH_BUMPS_PER_CHANGE` go in several changes; a crash in between does no harm, since the next start raises all of them again.
 */
export function bumpLeaderEpochs(
  image: MetadataImage,
  request: { readonly nodeId: number; readonly perChange?: number; readonly raises?: (topic: TopicImage) => boolean },
): MetadataRecord[][] {
  const { perChange = EPOCH_BUMPS_PER_CHANGE, raises } = request
  const changes: MetadataRecord[][] = []
  let current: MetadataRecord[] = []
  for (const topic of image.topics.values()) {
    if (raises?.(topic) === false) continue
    for (const partition of topic.partitions) {
      if (partition.leader !== request.nodeId) continue
      current.push(leaderEpochRecord(topic.id, partition))
      if (current.length < perChange) continue
      changes.push(current)
      current = []
    }
  }
  if (current.length > 0) changes.push(current)
  return changes
}

function leaderEpochRecord(topicId: Uuid, partition: PartitionImage): MetadataRecord {
  return metadataRecord('PartitionChangeRecord', { partitionId: partition.partition, topicId, leader: partition.leader })
}

/** The level of the records that are written here: the lowest that Kafka 4 reads. */
export const METADATA_VERSION_FEATURE = 'metadata.version'
export const METADATA_VERSION = 7

export interface RegisterBrokerPlan {
  readonly nodeId: number
  readonly incarnationId: Uuid
  readonly rack: string | null
  readonly endPoints: readonly BrokerEndPoint[]
}

/**
 * The registration with which each start begins, and before it, in a new log, what the log is. The broker's epoch is the offset of
 * the registration, so `image.nextOffset` must be where these records will stand.
 */
export function registerBroker(image: MetadataImage, request: RegisterBrokerPlan): MetadataChange<BrokerImage> {
  const { nodeId: id, incarnationId, rack, endPoints } = request
  const records: MetadataRecord[] = []
  if (!image.features.has(METADATA_VERSION_FEATURE)) {
    records.push(metadataRecord('FeatureLevelRecord', { name: METADATA_VERSION_FEATURE, featureLevel: METADATA_VERSION }))
    records.push(clusterIdRecord(image.clusterId))
  }
  const epoch = image.nextOffset + records.length
  const broker: BrokerImage = { id, epoch, incarnationId, fenced: false, inControlledShutdown: false, rack, endPoints }
  records.push(
    metadataRecord('RegisterBrokerRecord', {
      brokerId: id,
      brokerEpoch: epoch,
      incarnationId,
      fenced: false,
      rack,
      endPoints,
      features: [],
    }),
  )
  return { records, result: broker }
}

/** New levels of features, checked by the caller. */
export function setFeatures(levels: ReadonlyMap<string, number>): MetadataRecord[] {
  return [...levels].map(([name, featureLevel]) => metadataRecord('FeatureLevelRecord', { name, featureLevel }))
}

// ---- partitions -----------------------------------------------------------------------------------------------------------

function topicOf(image: MetadataImage, name: string): TopicImage {
  const topic = image.topics.get(name)
  if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
  return topic
}

/** Replicas one broker after another, each partition starting with the next one. */
function spreadPartitions(
  image: MetadataImage,
  request: { topic: string; from: number; total: number; replicationFactor: number },
): PartitionImage[] {
  const { topic, from, total, replicationFactor } = request
  if (total > MAX_PARTITIONS_PER_TOPIC) {
    throw new MoonMQError('POLICY_VIOLATION', {
      reason: `topic "${topic}" cannot have ${total} partitions: at most ${MAX_PARTITIONS_PER_TOPIC} are possible`,
    })
  }
  if (!Number.isInteger(total) || total < 1) {
    throw new MoonMQError('PARTITION_COUNT_INVALID', { topic, partitions: total, reason: 'there is at least one' })
  }
  const brokers = [...image.brokers.keys()].sort((a, b) => a - b)
  if (!Number.isInteger(replicationFactor) || replicationFactor < 1 || replicationFactor > brokers.length) {
    throw new MoonMQError('REPLICATION_FACTOR_INVALID', { factor: replicationFactor, brokers: brokers.length })
  }
  const partitions: PartitionImage[] = []
  for (let partition = from; partition < total; partition++) {
    const replicas: number[] = []
    for (let index = 0; index < replicationFactor; index++) replicas.push(brokers[(partition + index) % brokers.length] as number)
    partitions.push(newPartition(partition, replicas))
  }
  return partitions
}

function assignedPartitions(
  image: MetadataImage,
  request: { assignments: ReadonlyMap<number, readonly number[]>; from: number; total: number },
): PartitionImage[] {
  const bad = (reason: string) => new MoonMQError('REPLICA_ASSIGNMENT_INVALID', { reason })
  if (request.total > MAX_PARTITIONS_PER_TOPIC) throw bad(`${request.total} partitions are more than ${MAX_PARTITIONS_PER_TOPIC}`)
  const partitions: PartitionImage[] = []
  for (let partition = request.from; partition < request.total; partition++) {
    const replicas = request.assignments.get(partition)
    if (replicas === undefined) throw bad(`partition ${partition} is missing; they must follow one another without a gap`)
    if (replicas.length === 0) throw bad(`partition ${partition} has no replica`)
    if (new Set(replicas).size !== replicas.length) throw bad(`partition ${partition} names a broker twice`)
    const unknown = replicas.find((id) => !image.brokers.has(id))
    if (unknown !== undefined) throw bad(`partition ${partition} names broker ${unknown}, which is not there`)
    const first = partitions[0]
    if (first !== undefined && first.replicas.length !== replicas.length) throw bad('the partitions have different numbers of replicas')
    partitions.push(newPartition(partition, replicas))
  }
  return partitions
}

function newPartition(partition: number, replicas: readonly number[]): PartitionImage {
  return { partition, leader: replicas[0] as number, leaderEpoch: 0, partitionEpoch: 0, replicas, isr: replicas }
}
