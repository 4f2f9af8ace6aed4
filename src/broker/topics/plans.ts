import { MoonMQError } from '../../core/errors.ts'
import { MAX_PARTITIONS_PER_TOPIC } from '../../core/limits.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { MetadataChange, MetadataImage, MetadataRecord, TopicImage } from '../../metadata/types.ts'

export interface NewTopic {
  readonly name: string
  readonly id: Uuid
  /** Replicas by partition; the first is the leader. */
  readonly replicas: readonly (readonly number[])[]
  readonly config: ReadonlyMap<string, string>
}

const TOPIC_RESOURCE = 2

function partitionRecord(topicId: Uuid, partitionId: number, replicas: readonly number[]): MetadataRecord {
  const fields = {
    partitionId,
    topicId,
    replicas,
    isr: replicas,
    removingReplicas: [],
    addingReplicas: [],
    leader: replicas[0] ?? -1,
    leaderRecoveryState: 0,
    leaderEpoch: 0,
    partitionEpoch: 0,
  }
  return { name: 'PartitionRecord', version: 0, fields }
}

export function createTopicPlan(topic: NewTopic): (image: MetadataImage) => MetadataChange<Uuid> {
  return (image) => {
    if (image.topics.has(topic.name)) throw new MoonMQError('TOPIC_EXISTS', { topic: topic.name })
    const records: MetadataRecord[] = [{ name: 'TopicRecord', version: 0, fields: { name: topic.name, topicId: topic.id } }]
    for (const [name, value] of topic.config) {
      records.push({ name: 'ConfigRecord', version: 0, fields: { resourceType: TOPIC_RESOURCE, resourceName: topic.name, name, value } })
    }
    for (const [partition, replicas] of topic.replicas.entries()) records.push(partitionRecord(topic.id, partition, replicas))
    return { records, result: topic.id }
  }
}

export function deleteTopicPlan(name: string): (image: MetadataImage) => MetadataChange<TopicImage> {
  return (image) => {
    const topic = image.topics.get(name)
    if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
    return { records: [{ name: 'RemoveTopicRecord', version: 0, fields: { topicId: topic.id } }], result: topic }
  }
}

export function createPartitionsPlan(
  name: string,
  total: number,
  replicasOf: (partition: number) => readonly number[],
): (image: MetadataImage) => MetadataChange<Uuid> {
  return (image) => {
    const topic = image.topics.get(name)
    if (topic === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: name })
    const count = topic.partitions.length
    if (!Number.isInteger(total) || total <= count || total > MAX_PARTITIONS_PER_TOPIC) {
      const reason = total <= count ? `it has ${count} already` : `the most is ${MAX_PARTITIONS_PER_TOPIC}`
      throw new MoonMQError('PARTITION_COUNT_INVALID', { topic: name, partitions: total, reason })
    }
    const records: MetadataRecord[] = []
    for (let partition = count; partition < total; partition++) records.push(partitionRecord(topic.id, partition, replicasOf(partition)))
    return { records, result: topic.id }
  }
}

/** A block of producer ids: the first one, and the count that the record takes away from everybody else. */
export function producerIdsPlan(nodeId: number, count: number): (image: MetadataImage) => MetadataChange<number> {
  return (image) => {
    // Ids start at 1 (the native protocol promises it), so 0 is never given.
    const first = Math.max(1, image.nextProducerId)
    const fields = { brokerId: nodeId, brokerEpoch: image.brokers.get(nodeId)?.epoch ?? -1, nextProducerId: first + count }
    return { records: [{ name: 'ProducerIdsRecord', version: 0, fields }], result: first }
  }
}
