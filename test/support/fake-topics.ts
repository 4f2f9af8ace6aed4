import { ZERO_UUID } from '../../src/core/uuid.ts'
import type { Metadata, MetadataChange, MetadataImage, TopicImage } from '../../src/metadata/types.ts'

/** An image that the test changes by hand; subscribers are told as by the real log. */
export class FakeTopics implements Metadata {
  readonly epoch = 1
  image: MetadataImage = {
    clusterId: ZERO_UUID,
    nextOffset: 0,
    topics: new Map(),
    topicsById: new Map(),
    brokers: new Map(),
    brokerConfigs: new Map(),
    telemetryConfigs: new Map(),
    groupConfigs: new Map(),
    features: new Map(),
    nextProducerId: 0,
  }
  readonly #listeners = new Set<(before: MetadataImage, after: MetadataImage) => void>()
  #ids = 0

  addTopic(name: string, partitions: number): TopicImage {
    this.#ids++
    const topic: TopicImage = {
      name,
      id: Buffer.alloc(16, this.#ids).toString('base64url'),
      internal: false,
      partitions: Array.from({ length: partitions }, (_, partition) => ({
        partition,
        leader: 0,
        leaderEpoch: 0,
        partitionEpoch: 0,
        replicas: [0],
        isr: [0],
      })),
      config: new Map(),
    }
    this.#put([...this.image.topics.values(), topic])
    return topic
  }

  removeTopic(name: string): void {
    this.#put([...this.image.topics.values()].filter((topic) => topic.name !== name))
  }

  #put(topics: readonly TopicImage[]): void {
    const before = this.image
    this.image = {
      ...before,
      nextOffset: before.nextOffset + 1,
      topics: new Map(topics.map((topic) => [topic.name, topic])),
      topicsById: new Map(topics.map((topic) => [topic.id, topic])),
    }
    for (const listener of [...this.#listeners]) listener(before, this.image)
  }

  async change<T>(plan: (image: MetadataImage) => MetadataChange<T>): Promise<T> {
    return plan(this.image).result
  }

  subscribe(listener: (before: MetadataImage, after: MetadataImage) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
