/** ListConfigResources (KIP-714, KIP-1142): the names that DescribeConfigs can be asked about. Version 0 asks for client metrics only. */
import { MoonMQError } from '../../core/errors.ts'
import type { ListConfigResourcesRequest, ListConfigResourcesResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

const TOPIC = 2
const BROKER = 4
const LOGGER = 8
const CLIENT_METRICS = 16
const GROUP = 32
/** In Kafka's order. */
const TYPES = [GROUP, CLIENT_METRICS, LOGGER, BROKER, TOPIC]
const TYPES_SINCE = 1

export const listConfigResources = api<ListConfigResourcesRequest, ListConfigResourcesResponse>({
  key: 74,
  name: 'ListConfigResources',
  versions: [0, 1],
  omissions: [],
  handle(call, { resourceTypes }) {
    const asked = call.version < TYPES_SINCE ? [CLIENT_METRICS] : resourceTypes
    const strange = asked.find((type) => !TYPES.includes(type))
    if (strange !== undefined)
      throw new MoonMQError('UNSUPPORTED_VERSION', { api: 'resource types', version: strange, supported: TYPES.join(', ') })
    const types = asked.length === 0 ? TYPES : TYPES.filter((type) => asked.includes(type))
    const configResources = types.flatMap((resourceType) =>
      namesOf(call, resourceType).map((resourceName) => ({ resourceName, resourceType })),
    )
    return { throttleTimeMs: 0, errorCode: 0, configResources }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), configResources: [] }),
})

function namesOf({ broker }: KafkaCall, type: number): readonly string[] {
  switch (type) {
    case TOPIC:
      return broker.topics.list().map(({ name }) => name)
    case BROKER:
    case LOGGER:
      return [String(broker.cluster.nodeId)]
    case GROUP:
      return named(broker.cluster.image.groupConfigs)
    case CLIENT_METRICS:
      return named(broker.cluster.image.telemetryConfigs)
    default:
      return []
  }
}

function named(configs: ReadonlyMap<string, ReadonlyMap<string, string>>): readonly string[] {
  return [...configs].filter(([, settings]) => settings.size > 0).map(([name]) => name)
}
