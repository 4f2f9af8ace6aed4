import { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import { configRecords, partitionRecord } from './image.ts'
import { checkTopicName, collidingTopic, isInternalTopic } from './names.ts'
import { CONFIG_RESOURCE, metadataRecord } from './records.ts'
import type { MetadataChange, MetadataImage, MetadataRecord, TopicImage } from './types.ts'

export interface ImportTopicPlan {
  readonly name: string
  /** The one that it had: so its folders stay those of this topic wherever they go. */
  readonly id: Uuid
  /** By partition. Above every epoch in the log, since whoever led it before may have gone on. */
  readonly leaderEpochs: readonly number[]
  readonly config: ReadonlyMap<string, string>
  readonly nodeId: number
  /** Producer ids up to here are in use in the topic's batches. */
  readonly maxProducerId: number
}

/** A topic whose logs are there already. Throws TOPIC_NAME_INVALID, TOPIC_EXISTS. */
export function importTopic(image: MetadataImage, plan: ImportTopicPlan): MetadataChange<TopicImage> {
  const { name, id, config, nodeId } = plan
  checkTopicName(name)
  if (image.topics.has(name) || image.topicsById.has(id)) throw new MoonMQError('TOPIC_EXISTS', { topic: name })
  const colliding = collidingTopic(name, image.topics)
  if (colliding !== null) {
    const reason = `it differs from the existing "${colliding}" only in "." against "_"`
    throw new MoonMQError('TOPIC_NAME_INVALID', { topic: name, reason })
  }
  const partitions = plan.leaderEpochs.map((leaderEpoch, partition) => ({
    partition,
    leader: nodeId,
    leaderEpoch,
    partitionEpoch: 0,
    replicas: [nodeId],
    isr: [nodeId],
  }))
  const records: MetadataRecord[] = [
    metadataRecord('TopicRecord', { name, topicId: id }),
    ...configRecords(CONFIG_RESOURCE.topic, new Map([[name, config]])),
    ...partitions.map((partition) => partitionRecord(id, partition)),
  ]
  if (plan.maxProducerId >= image.nextProducerId) {
    const brokerEpoch = image.brokers.get(nodeId)?.epoch ?? -1
    records.push(metadataRecord('ProducerIdsRecord', { brokerId: nodeId, brokerEpoch, nextProducerId: plan.maxProducerId + 1 }))
  }
  return { records, result: { name, id, internal: isInternalTopic(name), partitions, config } }
}
