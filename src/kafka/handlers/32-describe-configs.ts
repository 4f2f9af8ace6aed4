/**
 * DescribeConfigs: settings of topics and of this broker with where each value comes from (KIP-133, KIP-226, KIP-569). Null keys = every
 * setting, an empty list = none. Values that are secret are never told.
 */
import type { ConfigValue } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { DescribeConfigsRequest, DescribeConfigsResponse } from '../../schema/types.generated.ts'
import { errorFields, outcome, ownBroker } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = DescribeConfigsRequest['resources'][number]
type ResourceAnswer = Input<DescribeConfigsResponse['results'][number]>

const TOPIC = 2
const BROKER = 4
const LOGGER = 8
const CLIENT_METRICS = 16
const GROUP = 32

export const describeConfigs = api<DescribeConfigsRequest, DescribeConfigsResponse>({
  key: 32,
  name: 'DescribeConfigs',
  versions: [1, 4],
  omissions: ['There is one logger, root.', 'Client metrics are not collected: a subscription to them has no settings.'],
  async handle(call, request) {
    const results = await inTurns(call.clock, eachOnce(request.resources), async (asked) => {
      const settings = await outcome(async () => settingsOf(call, asked))
      if (settings instanceof MoonMQError) return failed(asked, settings)
      return resourceAnswer(asked, request, settings)
    })
    return { throttleTimeMs: 0, results }
  },
  refuse: (error, request) => ({ throttleTimeMs: 0, results: request.resources.map((asked) => failed(asked, error)) }),
})

/** The settings that are asked for by name; null = all. No name at all means all, too. */
function keysAsked({ configurationKeys }: Asked): ReadonlySet<string> | null {
  return configurationKeys === null || configurationKeys.length === 0 ? null : new Set(configurationKeys)
}

/**
 * One answer for each resource, with all keys asked for: a few bytes of a request that names the same one again and again would else
 * become kilobytes of answer each.
 */
function eachOnce(resources: readonly Asked[]): readonly Asked[] {
  const keysOf = new Map<string, { asked: Asked; keys: Set<string> | null }>()
  for (const asked of resources) {
    const { resourceType, resourceName } = asked
    const wanted = keysAsked(asked)
    const id = `${resourceType} ${resourceName}`
    const known = keysOf.get(id)
    if (known === undefined) keysOf.set(id, { asked, keys: wanted === null ? null : new Set(wanted) })
    else if (wanted === null) known.keys = null
    else for (const key of wanted) known.keys?.add(key)
  }
  return [...keysOf.values()].map(({ asked, keys }) => ({ ...asked, configurationKeys: keys === null ? null : [...keys] }))
}

function settingsOf(call: KafkaCall, { resourceType, resourceName }: Asked): readonly ConfigValue[] {
  const { topics } = call.broker
  if (resourceType === TOPIC) return topics.describeConfig(call.context, resourceName)
  if (resourceType === GROUP) {
    if (resourceName === '') throw new MoonMQError('INVALID_REQUEST', { reason: 'a group has a name' })
    return topics.describeGroupConfig(call.context, resourceName)
  }
  if (resourceType === LOGGER) return loggers(call, resourceName)
  if (resourceType === CLIENT_METRICS) {
    if (resourceName === '') throw new MoonMQError('INVALID_REQUEST', { reason: 'a subscription of client metrics has a name' })
    return topics.describeTelemetryConfig(call.context, resourceName)
  }
  if (resourceType !== BROKER)
    throw new MoonMQError('INVALID_REQUEST', { reason: `settings of resource type ${resourceType} are not known` })
  const settings = topics.describeBrokerConfig(call.context)
  // The empty name means the defaults of all brokers: what was set while running for every one of them.
  if (resourceName === '') return settings.filter(({ source }) => source === DYNAMIC_DEFAULT)
  if (ownBroker(call, resourceName)) return [...identity(call), ...settings]
  throw new MoonMQError('INVALID_REQUEST', { reason: `broker ${resourceName} is not this one, ${call.broker.cluster.nodeId}` })
}

/** Levels of the broker's own log. */
function loggers(call: KafkaCall, name: string): readonly ConfigValue[] {
  if (!ownBroker(call, name)) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `broker "${name}" is not this one, ${call.broker.cluster.nodeId}` })
  }
  return [...call.broker.admin.logLevels].map(([logger, value]) => ({
    name: logger,
    value,
    source: DYNAMIC_LOGGER,
    readOnly: false,
    sensitive: false,
    type: UNKNOWN_TYPE,
    documentation: 'The least level that is logged, until the broker stops.',
    synonyms: [],
  }))
}

const UNKNOWN_TYPE = 0
const DYNAMIC_LOGGER = 6
const DYNAMIC_DEFAULT = 3
const STATIC_BROKER = 4
const STRING = 2
const INT = 3

/** What administration tools look for by Kafka's names and this broker has from other settings: who it is, and where it is reached. */
function identity(call: KafkaCall): readonly ConfigValue[] {
  const nodeId = String(call.broker.cluster.nodeId)
  const { host, port } = call.advertised
  const address = `PLAINTEXT://${host.includes(':') ? `[${host}]` : host}:${port}`
  const one = (name: string, value: string, type: number, documentation: string): ConfigValue => {
    const synonyms = [{ name, value, source: STATIC_BROKER }]
    return { name, value, source: STATIC_BROKER, readOnly: true, sensitive: false, type, documentation, synonyms }
  }
  return [
    one('advertised.listeners', address, STRING, 'Where clients of this listener are told to connect.'),
    one('broker.id', nodeId, INT, 'The number of this broker.'),
    one('node.id', nodeId, INT, 'The number of this broker.'),
  ]
}

function resourceAnswer(asked: Asked, request: DescribeConfigsRequest, settings: readonly ConfigValue[]): ResourceAnswer {
  const keys = keysAsked(asked)
  const { resourceType, resourceName } = asked
  const configs = settings
    .filter(({ name }) => keys === null || keys.has(name))
    .map((setting) => ({
      name: setting.name,
      value: setting.sensitive ? null : setting.value,
      readOnly: setting.readOnly,
      configSource: setting.source,
      isSensitive: setting.sensitive,
      synonyms: request.includeSynonyms ? synonymsOf(setting) : [],
      configType: setting.type,
      documentation: request.includeDocumentation ? setting.documentation : null,
    }))
  return { ...errorFields(null), resourceType, resourceName, configs }
}

function synonymsOf({ sensitive, synonyms }: ConfigValue) {
  return synonyms.map(({ name, value, source }) => ({ name, value: sensitive ? null : value, source }))
}

function failed({ resourceType, resourceName }: Asked, error: MoonMQError): ResourceAnswer {
  return { ...errorFields(error), resourceType, resourceName, configs: [] }
}
