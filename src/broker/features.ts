import { METADATA_VERSION, METADATA_VERSION_FEATURE, setFeatures } from '../metadata/plans.ts'
import type { Metadata, MetadataImage } from '../metadata/types.ts'

interface Feature {
  readonly name: FeatureName
  readonly min: number
  readonly max: number
  /** The level of a cluster that was never told another one. */
  readonly default: number
}

/**
 * Every feature: a switch of the whole cluster whose level stands in the metadata log and changes what clients and coordinators do, with the ranges of Kafka 4.4 where the same is served. `metadata.version` is the level of the records that are written,
 * which is one; `kraft.version` 1 is for controllers that come and go.
 */
const FEATURE_TABLE = {
  /** 1 = the consumer group protocol (KIP-848). */
  'group.version': { min: 0, max: 1, default: 1 },
  'kraft.version': { min: 0, max: 1, default: 0 },
  [METADATA_VERSION_FEATURE]: { min: METADATA_VERSION, max: METADATA_VERSION, default: METADATA_VERSION },
  /** 1 = share groups (KIP-932), 2 = with what share groups of Kafka 4.4 have beyond. */
  'share.version': { min: 0, max: 2, default: 2 },
  /** 1 = flexible records in the log of transactions, 2 = an epoch of its own for each transaction (KIP-890). */
  'transaction.version': { min: 0, max: 2, default: 2 },
} as const

export type FeatureName = keyof typeof FEATURE_TABLE

export const FEATURES: readonly Feature[] = (Object.keys(FEATURE_TABLE) as FeatureName[]).map((name) => ({ name, ...FEATURE_TABLE[name] }))

export function findFeature(name: string): Feature | undefined {
  return FEATURES.find((feature) => feature.name === name)
}

/** The level in force; 0 = switched off. */
export function featureLevel(image: MetadataImage, name: FeatureName): number {
  return image.features.get(name) ?? FEATURE_TABLE[name].default
}

/** Writes the default of every feature that the metadata log says nothing of: at the first start of this version over a folder. */
export async function finalizeDefaults(metadata: Metadata): Promise<void> {
  const missing = FEATURES.filter(({ name }) => !metadata.image.features.has(name))
  if (missing.length === 0) return
  await metadata.change(() => ({ records: setFeatures(new Map(missing.map((feature) => [feature.name, feature.default]))), result: null }))
}
