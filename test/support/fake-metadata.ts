import { ZERO_UUID } from '../../src/core/uuid.ts'
import { emptyImage, ImageBuilder } from '../../src/metadata/image.ts'
import { registerBroker } from '../../src/metadata/plans.ts'
import { decodeRecord, encodeRecord } from '../../src/metadata/records.ts'
import type { Metadata, MetadataChange, MetadataImage, MetadataRecord } from '../../src/metadata/types.ts'

function fold(image: MetadataImage, records: readonly MetadataRecord[]): MetadataImage {
  const builder = new ImageBuilder(image)
  for (const record of records) builder.apply(decodeRecord(encodeRecord(record)))
  return builder.build(image.nextOffset + records.length)
}

/** An image of a cluster with one broker, node 0. */
export function oneBroker(): MetadataImage {
  const empty = emptyImage('AAAAAAAAAAAAAAAAAAAAAw')
  return fold(empty, registerBroker(empty, { nodeId: 0, incarnationId: ZERO_UUID, rack: null, endPoints: [] }).records)
}

/** The real plans and the real fold without a log: each change is committed in a microtask. */
export class FakeMetadata implements Metadata {
  readonly epoch = 1
  image: MetadataImage
  changes = 0
  /** When set, changes fail with it. */
  failure: Error | undefined
  readonly #listeners = new Set<(before: MetadataImage, after: MetadataImage) => void>()
  #tail: Promise<unknown> = Promise.resolve()

  constructor(image: MetadataImage = oneBroker()) {
    this.image = image
  }

  change<T>(plan: (image: MetadataImage) => MetadataChange<T>): Promise<T> {
    const result = this.#tail.then(() => {
      if (this.failure !== undefined) throw this.failure
      const change = plan(this.image)
      const before = this.image
      this.image = fold(before, change.records)
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
