/**
 * ApiVersions: which APIs and versions are served, and the finalized features (KIP-35, KIP-511, KIP-584). Always answered with response
 * header 0. A version that is not known never comes here: the connection answers it in the layout of version 0.
 * Version 5 lets a client say which cluster and node it expects, both or neither; one that reached another is told to bootstrap again.
 */
import type { ApiVersionsRequest, ApiVersionsResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

const INVALID_REQUEST = 42
const NO_NODE = -1
const REBOOTSTRAP_REQUIRED = 129
/** Kafka's rule for software names and versions. */
const SOFTWARE = /^[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?$/
const SOFTWARE_SINCE = 3
/** Clients of version 3 take a lowest level of 0 for a mistake (KIP-1022). */
const LEVEL_0_SINCE = 4

export const apiVersions = api<ApiVersionsRequest, ApiVersionsResponse>({
  key: 18,
  name: 'ApiVersions',
  versions: [0, 5],
  omissions: [
    'The features streams.version and eligible.leader.replicas.version do not exist here, and metadata.version has the one level 7.',
  ],
  handle(call, request) {
    if (call.version >= SOFTWARE_SINCE && !(SOFTWARE.test(request.clientSoftwareName) && SOFTWARE.test(request.clientSoftwareVersion))) {
      return { errorCode: INVALID_REQUEST, apiKeys: [] }
    }
    if ((request.clusterId === null) !== (request.nodeId === NO_NODE)) return { errorCode: INVALID_REQUEST, apiKeys: [] }
    if (reachedAnother(call, request)) return { errorCode: REBOOTSTRAP_REQUIRED, apiKeys: [] }
    const { image, features } = call.broker.cluster
    const supported = features.filter(({ min }) => min > 0 || call.version >= LEVEL_0_SINCE)
    const finalized = features.filter(({ level }) => level > 0)
    return {
      errorCode: 0,
      apiKeys: call.offer.map((range) => ({ apiKey: range.key, minVersion: range.min, maxVersion: range.max })),
      throttleTimeMs: 0,
      supportedFeatures: supported.map(({ name, min, max }) => ({ name, minVersion: min, maxVersion: max })),
      finalizedFeaturesEpoch: image.nextOffset - 1,
      finalizedFeatures: finalized.map(({ name, level }) => ({ name, minVersionLevel: level, maxVersionLevel: level })),
    }
  },
  refuse: (error) => ({ errorCode: kafkaCode(error), apiKeys: [] }),
})

function reachedAnother(call: KafkaCall, request: ApiVersionsRequest): boolean {
  const { clusterId, nodeId } = call.broker.cluster
  return request.clusterId !== null && (request.clusterId !== clusterId || request.nodeId !== nodeId)
}
