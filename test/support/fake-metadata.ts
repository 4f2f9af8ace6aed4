import { ZERO_UUID } from '../../src/core/uuid.ts'
import type { Metadata, MetadataChange, MetadataImage, MetadataRecord, PartitionImage, TopicImage } from '../../src/metadata/types.ts'

export function emptyImage(): MetadataImage {
  return {
    clusterId: ZERO_UUID,
    nextOffset: 0,
    topics: new Map(),
    topicsById: new Map(),
    brokers: new Map([
      [0, { id: 0, epoch: 1, incarnationId: ZERO_UUID, fenced: false, inControlledShutdown: false, rack: null, endPoints: [] }],
    ]),
    brokerConfigs: new Map(),
    groupConfigs: new Map(),
    features: new Map(),
    nextProducerId: 0,
  }
}

type Fields = Readonly<Record<string, unknown>>

function putTopic(image: MetadataImage, topic: TopicImage): MetadataImage {
  return {
    ...image,
    topics: new Map([...image.topics, [topic.name, topic]]),
    topicsById: new Map([...image.topicsById, [topic.id, topic]]),
  }
}

function topicById(image: MetadataImage, id: unknown): TopicImage {
  const topic = image.topicsById.get(id as string)
  if (topic === undefined) throw new Error(`no topic ${String(id)}`)
  return topic
}

function foldRecord(image: MetadataImage, record: MetadataRecord): MetadataImage {
  const fields: Fields = record.fields
  switch (record.name) {
    case 'TopicRecord': {
      const name = fields.name as string
      const topic = { name, id: fields.topicId as string, internal: name.startsWith('__'), partitions: [], config: new Map() }
      return putTopic(image, topic)
    }
    case 'PartitionRecord': {
      const topic = topicById(image, fields.topicId)
      const partition: PartitionImage = {
        partition: fields.partitionId as number,
        leader: fields.leader as number,
        leaderEpoch: fields.leaderEpoch as number,
        partitionEpoch: fields.partitionEpoch as number,
        replicas: fields.replicas as number[],
        isr: fields.isr as number[],
      }
      return putTopic(image, { ...topic, partitions: [...topic.partitions, partition] })
    }
    case 'ConfigRecord': {
      const topic = image.topics.get(fields.resourceName as string)
      if (topic === undefined) throw new Error('config of an unknown topic')
      return putTopic(image, { ...topic, config: new Map([...topic.config, [fields.name as string, fields.value as string]]) })
    }
    case 'RemoveTopicRecord': {
      const gone = topicById(image, fields.topicId)
      const topics = new Map(image.topics)
      const topicsById = new Map(image.topicsById)
      topics.delete(gone.name)
      topicsById.delete(gone.id)
      return { ...image, topics, topicsById }
    }
    case 'ProducerIdsRecord':
      return { ...image, nextProducerId: fields.nextProducerId as number }
    default:
      throw new Error(`the fake knows no ${record.name}`)
  }
}

/** A metadata log in memory: each change is committed in a microtask. */
export class FakeMetadata implements Metadata {
  image: MetadataImage
  changes = 0
  /** When set, changes fail with it. */
  failure: Error | undefined
  readonly #listeners = new Set<(before: MetadataImage, after: MetadataImage) => void>()
  #tail: Promise<unknown> = Promise.resolve()

  constructor(image: MetadataImage = emptyImage()) {
    this.image = image
  }

  change<T>(plan: (image: MetadataImage) => MetadataChange<T>): Promise<T> {
    const result = this.#tail.then(() => {
      if (this.failure !== undefined) throw this.failure
      const change = plan(this.image)
      const before = this.image
      this.image = { ...change.records.reduce(foldRecord, before), nextOffset: before.nextOffset + change.records.length }
      this.changes++
      for (const listener of this.#listeners) listener(before, this.image)
      return change.result
    })
    this.#tail = result.catch(() => {})
    return result
  }

  subscribe(listener: (before: MetadataImage, after: MetadataImage) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
