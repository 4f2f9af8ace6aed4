import { brokerSetting, checkBrokerSetting, isChangeable } from '../config/broker-settings.ts'
import { checkGroupSetting, type GroupSetting, groupSetting } from '../config/group-settings.ts'
import { elementsOf, type KafkaSetting, kafkaNumber } from '../config/kafka-setting.ts'
import { checkTelemetrySetting, telemetrySetting } from '../config/telemetry-settings.ts'
import { checkTopicSetting, resolveTopicSetting, type TopicSetting, topicSetting } from '../config/topic-settings.ts'
import { defined } from '../core/assert.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { isInternalTopic } from './names.ts'
import { setConfig } from './plans.ts'
import type { MetadataChange, MetadataImage, TopicImage } from './types.ts'

/** `append` and `subtract` change the elements of a list. */
export type ConfigOperation = 'set' | 'delete' | 'append' | 'subtract'

export interface ConfigChange {
  readonly name: string
  readonly operation: ConfigOperation
  /** Not used by `delete`. */
  readonly value: string
}

export interface AlterConfigPlan {
  /** The topic; of a broker its id in decimal, or '' for all brokers. */
  readonly name: string
  /** One after another: the last one of a name wins. */
  readonly changes: readonly ConfigChange[]
  /** What is not among the changes goes back to its default. */
  readonly replace: boolean
  /** Broker settings that the configuration set, with those set while running: what a list is appended to. */
  readonly broker: ReadonlyMap<string, string>
}

type Values = ReadonlyMap<string, string>

function invalid(key: string, value: string, reason: string): MoonMQError {
  return new MoonMQError('CONFIG_INVALID', { key, value, reason })
}

/**
 * Changes the settings of a topic, all or none; the answer is the names of those that changed. Appends only what differs. Throws
 * TOPIC_MISSING, CONFIG_INVALID.
 */
export function alterTopicConfig(image: MetadataImage, plan: AlterConfigPlan): MetadataChange<readonly string[]> {
  const topic = image.topics.get(plan.name)
  const inForce = (name: string, values: Values) => resolveTopicSetting(known(name), values, plan.broker).value
  // As Kafka, which looks at the values before it looks for the topic.
  const values = changed(topic?.config ?? new Map(), plan, { check: checkTopicSetting, setting: topicSetting, inForce })
  if (topic === undefined) {
    checkTopicConfig(plan.name, values, plan.broker)
    throw new MoonMQError('TOPIC_MISSING', { topic: plan.name })
  }
  const after = withFixed(topic, values)
  checkTopicConfig(plan.name, after, plan.broker)
  return recorded(image, 'topic', plan.name, topic.config, after)
}

/**
 * Changes the settings of one broker or of all, as far as they take effect without a restart. Everything but a missing setting is
 * refused with INVALID_REQUEST, as Kafka does.
 */
export function alterBrokerConfig(image: MetadataImage, plan: AlterConfigPlan): MetadataChange<readonly string[]> {
  const before = image.brokerConfigs.get(plan.name) ?? new Map<string, string>()
  const after = asRequest(() =>
    changed(before, plan, {
      check: checkChangeable,
      setting: brokerSetting,
      inForce: (name, values) => values.get(name) ?? plan.broker.get(name) ?? brokerSetting(name)?.default ?? '',
    }),
  )
  return recorded(image, 'broker', plan.name, before, after)
}

/** Kafka blames the request where a setting of these kinds is wrong. */
function asRequest(change: () => Values): Values {
  try {
    return change()
  } catch (error) {
    if (!isCode(error, 'CONFIG_INVALID')) throw error
    throw new MoonMQError('INVALID_REQUEST', { reason: error.message }, error)
  }
}

function checkChangeable(name: string, value: string): string {
  const stored = checkBrokerSetting(name, value)
  if (!isChangeable(name)) throw invalid(name, value, 'it is read when the broker starts: set it in the block "kafka" of the settings file')
  return stored
}

/**
 * Changes the settings of one group, which need not exist. Throws INVALID_REQUEST without a name, CONFIG_INVALID, also for a value that the
 * broker's own bounds do not allow.
 */
export function alterGroupConfig(image: MetadataImage, plan: AlterConfigPlan): MetadataChange<readonly string[]> {
  if (plan.name === '') throw new MoonMQError('INVALID_REQUEST', { reason: 'groups have no common settings: name the group' })
  const before = image.groupConfigs.get(plan.name) ?? new Map<string, string>()
  const after = changed(before, plan, {
    check: (name, value) => checkDeadLetterName(name, checkWithinBounds(name, checkGroupSetting(name, value), plan.broker), plan.broker),
    setting: groupSetting,
    inForce: (name, values) => values.get(name) ?? groupSetting(name)?.default ?? '',
  })
  return recorded(image, 'group', plan.name, before, after)
}

function checkDeadLetterName(name: string, value: string, broker: Values): string {
  const prefix = broker.get('errors.deadletterqueue.topic.name.prefix') ?? ''
  if (name !== 'errors.deadletterqueue.topic.name' || value === '' || value.startsWith(prefix)) return value
  throw new MoonMQError('CONFIG_INVALID', {
    key: name,
    value,
    reason: `errors.deadletterqueue.topic.name.prefix=${prefix} is how it must begin`,
  })
}

/** Changes a subscription to client metrics, which begins with its first setting and ends with its last. Throws INVALID_REQUEST. */
export function alterTelemetryConfig(image: MetadataImage, plan: AlterConfigPlan): MetadataChange<readonly string[]> {
  if (plan.name === '') throw new MoonMQError('INVALID_REQUEST', { reason: 'a subscription to client metrics has a name' })
  const before = image.telemetryConfigs.get(plan.name) ?? new Map<string, string>()
  const after = asRequest(() =>
    changed(before, plan, {
      check: checkTelemetrySetting,
      setting: telemetrySetting,
      inForce: (name, values) => values.get(name) ?? telemetrySetting(name)?.default ?? '',
    }),
  )
  return recorded(image, 'telemetry', plan.name, before, after)
}

/** What the broker allows groups to choose; null where it has no bounds. */
export function groupBounds(setting: GroupSetting, broker: Values): { readonly least: number; readonly most: number } | null {
  const bound = (name: string) => kafkaNumber(broker.get(name) ?? defined(brokerSetting(name), `the broker setting ${name}`).default)
  return setting.least === null || setting.most === null ? null : { least: bound(setting.least), most: bound(setting.most) }
}

function checkWithinBounds(name: string, value: string, broker: Values): string {
  const bounds = groupBounds(defined(groupSetting(name), `the group setting ${name}`), broker)
  if (bounds === null || (kafkaNumber(value) >= bounds.least && kafkaNumber(value) <= bounds.most)) return value
  throw invalid(name, value, `the broker allows ${bounds.least}..${bounds.most}`)
}

interface Rules {
  /** The value in the form that is stored; throws CONFIG_INVALID. */
  readonly check: (name: string, value: string) => string
  readonly setting: (name: string) => KafkaSetting | undefined
  readonly inForce: (name: string, values: Values) => string
}

function changed(before: Values, plan: AlterConfigPlan, rules: Rules): Values {
  const after = new Map(plan.replace ? [] : before)
  for (const { name, operation, value } of plan.changes) {
    const setting = rules.setting(name)
    // An unknown name is refused by the check of any value, with the nearest one that is known.
    if (operation === 'set' || setting === undefined) after.set(name, rules.check(name, value))
    else if (operation === 'delete') after.delete(name)
    else {
      if (setting.type !== 'list') throw invalid(name, value, `only the elements of a list can be changed, it is of type ${setting.type}`)
      // The elements are checked before they are taken away, too: a misspelt one would take nothing away without a word.
      rules.check(name, value)
      const elements = elementsOf(rules.inForce(name, after))
      after.set(name, rules.check(name, operation === 'append' ? joined(elements, value) : without(elements, value)))
    }
  }
  return after
}

function joined(elements: readonly string[], value: string): string {
  return [...new Set([...elements, ...elementsOf(value)])].join(',')
}

function without(elements: readonly string[], value: string): string {
  const gone = new Set(elementsOf(value))
  return elements.filter((element) => !gone.has(element)).join(',')
}

function known(name: string): TopicSetting {
  return defined(topicSetting(name), `the topic setting ${name}`)
}

/** What a topic was made with is there after every change, and naming it again changes nothing. */
function withFixed(topic: TopicImage, changed: Values): Values {
  const after = new Map(changed)
  for (const name of new Set([...topic.config.keys(), ...changed.keys()])) {
    const setting = topicSetting(name)
    if (setting?.fixed !== true) continue
    const was = topic.config.get(name)
    const is = changed.get(name)
    if (is !== undefined && is !== (was ?? setting.default)) {
      throw invalid(name, is, `it is chosen when a topic is made, and is ${was ?? setting.default} for ever`)
    }
    if (was === undefined) after.delete(name)
    else after.set(name, was)
  }
  return after
}

export const SHARE_STATE_TOPIC = '__share_group_state'
export const SHARE_STATE_CONFIG: Values = new Map([
  ['cleanup.policy', 'delete'],
  ['retention.ms', '-1'],
  ['retention.bytes', '-1'],
])

/** What no single value tells: settings that contradict each other, and what internal topics may not choose. Throws CONFIG_INVALID. */
export function checkTopicConfig(name: string, config: Values, broker: Values): void {
  const text = (key: string) => resolveTopicSetting(known(key), config, broker).value
  const least = text('min.compaction.lag.ms')
  const most = text('max.compaction.lag.ms')
  if (kafkaNumber(least) > kafkaNumber(most)) {
    throw invalid('min.compaction.lag.ms', least, `it is above max.compaction.lag.ms=${most}`)
  }
  if (!isInternalTopic(name)) return
  for (const flush of ['flush.messages', 'flush.ms']) {
    const value = config.get(flush)
    if (value !== undefined) throw invalid(flush, value, 'what the broker keeps for its clients is on disk before they are answered')
  }
  if (name === SHARE_STATE_TOPIC) {
    // Its newest records need older ones, which neither compaction nor retention may take: the broker prunes it itself.
    for (const [key, only] of SHARE_STATE_CONFIG) {
      const value = config.get(key)
      if (value !== undefined && value !== only)
        throw invalid(key, value, `it is ${only} for ${SHARE_STATE_TOPIC}: the broker prunes it itself`)
    }
    return
  }
  const policy = config.get('cleanup.policy')
  if (policy !== undefined && !elementsOf(policy).includes('compact')) {
    throw invalid('cleanup.policy', policy, 'an internal topic must be compacted: its oldest records are still in force')
  }
}

function recorded(
  image: MetadataImage,
  resource: 'topic' | 'broker' | 'telemetry' | 'group',
  name: string,
  before: Values,
  after: Values,
): MetadataChange<readonly string[]> {
  const changes = new Map<string, string | null>()
  for (const key of before.keys()) if (!after.has(key)) changes.set(key, null)
  for (const [key, value] of after) if (before.get(key) !== value) changes.set(key, value)
  return { records: setConfig(image, { resource, name, changes }).records, result: [...changes.keys()] }
}
