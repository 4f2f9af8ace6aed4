import type { Uuid } from '../core/uuid.ts'
import type { Metadata, MetadataImage } from '../metadata/types.ts'
import { FEATURES, featureLevel } from './features.ts'
import type { ClusterPort, FeatureLevel } from './ports.ts'
import type { BrokerSettings } from './settings.ts'

export class Cluster implements ClusterPort {
  readonly nodeId: number
  readonly settings: ReadonlyMap<string, string>
  readonly #metadata: Metadata

  constructor(deps: { metadata: Metadata }, options: { nodeId: number; settings: BrokerSettings }) {
    this.#metadata = deps.metadata
    this.nodeId = options.nodeId
    this.settings = options.settings.all()
  }

  get image(): MetadataImage {
    return this.#metadata.image
  }

  get features(): readonly FeatureLevel[] {
    return FEATURES.map(({ name, min, max }) => ({ name, min, max, level: featureLevel(this.image, name) }))
  }

  get clusterId(): Uuid {
    return this.#metadata.image.clusterId
  }
}
