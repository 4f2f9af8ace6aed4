/** UpdateFeatures (KIP-584, KIP-778): levels of features, all of a request or none. Going down must be asked for as such. */
import type { FeatureUpdate } from '../../broker/ports.ts'
import type { UpdateFeaturesRequest, UpdateFeaturesResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

/** By Kafka's numbers: upgrade, downgrade without loss, downgrade that may lose metadata. */
const KINDS: ReadonlyMap<number, FeatureUpdate['kind']> = new Map([
  [1, 'upgrade'],
  [2, 'downgrade'],
  [3, 'downgrade'],
])
const KINDS_SINCE = 1
/** From here on an answer without an error names no feature. */
const NO_RESULTS_SINCE = 2

export const updateFeatures = api<UpdateFeaturesRequest, UpdateFeaturesResponse>({
  key: 57,
  name: 'UpdateFeatures',
  versions: [0, 2],
  omissions: ['metadata.version has one level.'],
  async handle(call, { featureUpdates, validateOnly }) {
    const kindOf = (update: UpdateFeaturesRequest['featureUpdates'][number]): FeatureUpdate['kind'] => {
      if (call.version < KINDS_SINCE) return update.allowDowngrade ? 'downgrade' : 'upgrade'
      return KINDS.get(update.upgradeType) ?? 'unknown'
    }
    const updates = featureUpdates.map((update) => ({ name: update.feature, level: update.maxVersionLevel, kind: kindOf(update) }))
    await call.broker.admin.updateFeatures(call.context, updates, { validateOnly })
    const results = call.version >= NO_RESULTS_SINCE ? [] : updates.map(({ name }) => ({ feature: name, ...errorFields(null) }))
    return { throttleTimeMs: 0, ...errorFields(null), results }
  },
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), results: [] }),
})
