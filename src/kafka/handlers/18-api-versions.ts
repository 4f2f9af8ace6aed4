/**
 * ApiVersions: which APIs and versions are served, and the finalized features (KIP-35, KIP-511, KIP-584). Always answered with response
 * header 0. A version that is not known never comes here: the connection answers it in the layout of version 0.
 * Version 5 lets a client say which cluster and node it expects; one that reached another is told to bootstrap again.
 */
import type { ApiVersionsRequest, ApiVersionsResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

const INVALID_REQUEST = 42
const REBOOTSTRAP_REQUIRED = 129
/** Kafka's rule for software names and versions. */
const SOFTWARE = /^[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?$/
const SOFTWARE_SINCE = 3
/** Features that change what a client does, and are only told of where that is served. */
const FEATURES_TOLD: ReadonlySet<string> = new Set(['metadata.version', 'kraft.version'])

export const apiVersions = api<ApiVersionsRequest, ApiVersionsResponse>({
  key: 18,
  name: 'ApiVersions',
  versions: [0, 5],
  omissions: ['The features transaction.version, group.version and share.version are not offered in this version.'],
  handle(call, request) {
    if (call.version >= SOFTWARE_SINCE && !(SOFTWARE.test(request.clientSoftwareName) && SOFTWARE.test(request.clientSoftwareVersion))) {
      return { errorCode: INVALID_REQUEST, apiKeys: [] }
    }
    if (reachedAnother(call, request)) return { errorCode: REBOOTSTRAP_REQUIRED, apiKeys: [] }
    const { image } = call.broker.cluster
    const features = [...image.features].filter(([name, level]) => FEATURES_TOLD.has(name) && level > 0)
    return {
      errorCode: 0,
      apiKeys: call.offer.map((range) => ({ apiKey: range.key, minVersion: range.min, maxVersion: range.max })),
      throttleTimeMs: 0,
      supportedFeatures: features.map(([name, level]) => ({ name, minVersion: level, maxVersion: level })),
      finalizedFeaturesEpoch: image.nextOffset - 1,
      finalizedFeatures: features.map(([name, level]) => ({ name, minVersionLevel: level, maxVersionLevel: level })),
    }
  },
  refuse: (error) => ({ errorCode: kafkaCode(error), apiKeys: [] }),
})

function reachedAnother(call: KafkaCall, request: ApiVersionsRequest): boolean {
  const { clusterId, nodeId } = call.broker.cluster
  return (request.clusterId !== null && request.clusterId !== clusterId) || (request.nodeId >= 0 && request.nodeId !== nodeId)
}
