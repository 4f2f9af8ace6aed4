import { BROKER_SETTINGS, isChangeable } from '../../config/broker-settings.ts'
import { GROUP_SETTINGS } from '../../config/group-settings.ts'
import { KAFKA_CONFIG_TYPE } from '../../config/kafka-setting.ts'
import { TELEMETRY_SETTINGS } from '../../config/telemetry-settings.ts'
import { BACKEND, presetValue, resolveTopicSetting, TOPIC_SETTINGS, type TopicSetting } from '../../config/topic-settings.ts'
import type { MetadataImage, TopicImage } from '../../metadata/types.ts'
import type { ConfigValue } from '../ports.ts'

/** Kafka's ConfigSource. */
const SOURCE = { topic: 1, dynamicBroker: 2, dynamicDefault: 3, staticBroker: 4, default: 5, telemetry: 7, group: 8 } as const

/** Where broker settings come from, strongest first. */
export interface BrokerSources {
  readonly nodeId: number
  readonly image: MetadataImage
  /** Those of the configuration that somebody set. */
  readonly settings: ReadonlyMap<string, string>
}

interface Found {
  readonly name: string
  readonly value: string | null
  readonly source: number
}

/** Every value of a broker setting that was set, strongest first. */
function brokerValues(sources: BrokerSources, name: string): Found[] {
  const found: Found[] = []
  const put = (value: string | undefined, source: number) => {
    if (value !== undefined) found.push({ name, value, source })
  }
  put(sources.image.brokerConfigs.get(String(sources.nodeId))?.get(name), SOURCE.dynamicBroker)
  put(sources.image.brokerConfigs.get('')?.get(name), SOURCE.dynamicDefault)
  put(sources.settings.get(name), SOURCE.staticBroker)
  return found
}

function topicValue(setting: TopicSetting, topic: TopicImage, sources: BrokerSources): ConfigValue {
  const synonyms: Found[] = []
  const own = topic.config.get(setting.name)
  if (own !== undefined) synonyms.push({ name: setting.name, value: own, source: SOURCE.topic })
  const preset = presetValue(setting, topic.config)
  if (preset !== undefined) synonyms.push({ name: BACKEND, value: preset, source: SOURCE.topic })
  for (const synonym of setting.broker) synonyms.push(...brokerValues(sources, synonym.name))
  synonyms.push({ name: setting.broker[0]?.name ?? setting.name, value: setting.default, source: SOURCE.default })
  const set = synonyms[0] as Found
  // The table converts units: hours of the broker are milliseconds of the topic.
  const value =
    set.source === SOURCE.default || set.source === SOURCE.topic
      ? set.value
      : resolveTopicSetting(setting, new Map(), new Map([[set.name, set.value ?? '']])).value
  return {
    name: setting.name,
    value,
    source: set.source,
    readOnly: setting.fixed,
    sensitive: false,
    type: KAFKA_CONFIG_TYPE[setting.type],
    documentation: documentation(setting),
    synonyms,
  }
}

function documentation(setting: { readonly doc: string; readonly inForce: boolean }): string {
  return setting.inForce ? setting.doc : `${setting.doc} Stored, without effect in this version.`
}

export function describeTopicConfig(topic: TopicImage, sources: BrokerSources): readonly ConfigValue[] {
  return TOPIC_SETTINGS.map((setting) => topicValue(setting, topic, sources))
}

export function describeBrokerConfig(sources: BrokerSources): readonly ConfigValue[] {
  return BROKER_SETTINGS.map((setting) => {
    const synonyms = [...brokerValues(sources, setting.name), { name: setting.name, value: setting.default, source: SOURCE.default }]
    const set = synonyms[0] as Found
    return {
      name: setting.name,
      value: set.value,
      source: set.source,
      readOnly: !isChangeable(setting.name),
      sensitive: false,
      type: KAFKA_CONFIG_TYPE[setting.type],
      documentation: documentation(setting),
      synonyms,
    }
  })
}

export function describeGroupConfig(group: string, sources: BrokerSources): readonly ConfigValue[] {
  return GROUP_SETTINGS.map((setting) => {
    const own = sources.image.groupConfigs.get(group)?.get(setting.name)
    const synonyms: Found[] = own === undefined ? [] : [{ name: setting.name, value: own, source: SOURCE.group }]
    if (setting.broker !== null) synonyms.push(...brokerValues(sources, setting.broker))
    synonyms.push({ name: setting.broker ?? setting.name, value: setting.default, source: SOURCE.default })
    const set = synonyms[0] as Found
    return {
      name: setting.name,
      value: set.value,
      source: set.source,
      readOnly: false,
      sensitive: false,
      type: KAFKA_CONFIG_TYPE[setting.type],
      documentation: documentation(setting),
      synonyms,
    }
  })
}

export function describeTelemetryConfig(name: string, { image }: BrokerSources): readonly ConfigValue[] {
  const own = image.telemetryConfigs.get(name)
  if (own === undefined || own.size === 0) return []
  return TELEMETRY_SETTINGS.map((setting) => {
    const found = own.get(setting.name)
    const set = { name: setting.name, value: found ?? setting.default, source: found === undefined ? SOURCE.default : SOURCE.telemetry }
    return {
      ...set,
      readOnly: false,
      sensitive: false,
      type: KAFKA_CONFIG_TYPE[setting.type],
      documentation: documentation(setting),
      synonyms: [set],
    }
  })
}
