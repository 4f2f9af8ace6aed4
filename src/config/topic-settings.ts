import { checkNamedSetting, elementsOf, type KafkaSetting, kafkaNumber, LONG_MAX } from './kafka-setting.ts'

/** A broker setting that gives a topic setting its value when the topic has none of its own. */
export interface BrokerSynonym {
  readonly name: string
  /** What one unit of it is in units of the topic setting: 60,000 for minutes to milliseconds. */
  readonly factor: number
}

/** A topic setting as the native protocol names it. */
export interface NativeName {
  readonly name: string
  /** What one unit of it is in units of the topic setting: 1,000 for seconds to milliseconds. 0: the value is no number. */
  readonly factor: number
}

export interface TopicSetting extends KafkaSetting {
  /** In the order in which they are asked. Empty: there is none. */
  readonly broker: readonly BrokerSynonym[]
  readonly native: NativeName | null
  /** Chosen when the topic is made, and the same from then on. */
  readonly fixed: boolean
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface Extra {
  readonly min?: number
  readonly max?: number
  readonly values?: readonly string[]
  readonly pattern?: NonNullable<KafkaSetting['pattern']>
  readonly broker?: readonly (string | readonly [string, number])[]
  readonly native?: readonly [name: string, factor: number]
  readonly fixed?: true
  readonly stored?: true
}

function row(name: string, type: KafkaSetting['type'], fallback: string | number, unit: string, extra: Extra, doc: string): TopicSetting {
  const broker = (extra.broker ?? []).map((entry) =>
    typeof entry === 'string' ? { name: entry, factor: 1 } : { name: entry[0], factor: entry[1] },
  )
  return {
    name,
    type,
    default: String(fallback),
    unit,
    doc,
    broker,
    native: extra.native === undefined ? null : { name: extra.native[0], factor: extra.native[1] },
    fixed: extra.fixed === true,
    inForce: extra.stored !== true,
    ...(extra.min === undefined ? {} : { min: extra.min }),
    ...(extra.max === undefined ? {} : { max: extra.max }),
    ...(extra.values === undefined ? {} : { values: extra.values }),
    ...(extra.pattern === undefined ? {} : { pattern: extra.pattern }),
  }
}

const NEVER = { expression: /^false$/i, words: 'false' }

const REPLICAS = {
  expression: /^(\*|\d+:\d+(\s*,\s*\d+:\d+)*)?$/,
  words: 'partition:broker, more of them after commas, or *',
}

/** Units of `moonmq.retry.delays`. */
const DELAY_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: HOUR_MS, d: DAY_MS }
const DELAYS = {
  expression: /^$|^[1-9]\d{0,6}(ms|s|m|h|d)(,\s*[1-9]\d{0,6}(ms|s|m|h|d)){0,15}$/,
  words: 'at most 16 times with their units, separated by commas, such as 1s,10s,1m',
}

/** The times of a value of `moonmq.retry.delays` that was checked. */
export function retryDelaysMs(value: string): readonly number[] {
  return elementsOf(value).map((each) => {
    const [, digits = '', unit = ''] = /^(\d+)([a-z]+)$/.exec(each) ?? []
    return Number(digits) * (DELAY_MS[unit] ?? 0)
  })
}

const CODECS = ['uncompressed', 'gzip', 'snappy', 'lz4', 'zstd', 'producer']

/**
 * Every topic setting by Kafka's name, sorted, and what MoonMQ adds under `moonmq.*` (DESIGN D7). Defaults are Kafka's but for
 * `flush.messages`: a record counts only when it is on disk (DESIGN D5).
 */
export const TOPIC_SETTINGS: readonly TopicSetting[] = [
  row(
    'cleanup.policy',
    'list',
    'delete',
    '',
    { values: ['delete', 'compact'], broker: ['log.cleanup.policy'], native: ['cleanup_policy', 0] },
    'What happens to old records: delete whole segments, keep the last record of each key, or both.',
  ),
  row(
    'compression.gzip.level',
    'int',
    -1,
    '',
    {
      pattern: { expression: /^(-1|[1-9])$/, words: 'a whole number 1..9, or -1' },
      broker: ['compression.gzip.level'],
    },
    'Level of gzip when the broker compresses; -1 = the library decides.',
  ),
  row(
    'compression.lz4.level',
    'int',
    9,
    '',
    { min: 1, max: 17, broker: ['compression.lz4.level'], stored: true },
    'Level of lz4 when the broker compresses.',
  ),
  row(
    'compression.type',
    'string',
    'producer',
    '',
    { values: CODECS, broker: ['compression.type'] },
    'Codec of the stored batches; producer = as they came. Batches that came by another codec are compressed anew.',
  ),
  row(
    'compression.zstd.level',
    'int',
    3,
    '',
    { min: -131072, max: 22, broker: ['compression.zstd.level'] },
    'Level of zstd when the broker compresses.',
  ),
  row(
    'delete.retention.ms',
    'long',
    DAY_MS,
    'ms',
    { min: 0, broker: ['log.cleaner.delete.retention.ms'] },
    'How long a compacted topic keeps the marker of a deleted key.',
  ),
  row(
    'errors.deadletterqueue.group.enable',
    'boolean',
    'false',
    '',
    { stored: true },
    'Kept for tools that set it: a group may name any topic for its dead letters here.',
  ),
  row(
    'file.delete.delay.ms',
    'long',
    60_000,
    'ms',
    { min: 0, broker: ['log.segment.delete.delay.ms'] },
    'Time between a segment leaving the log and its file going away.',
  ),
  row(
    'flush.messages',
    'long',
    1,
    'records',
    { min: 1, broker: ['log.flush.interval.messages'] },
    '1 = a record is acknowledged and readable after its sync. More = acknowledged at once, synced in the background after so many records: a power cut may take back what was acknowledged.',
  ),
  row(
    'flush.ms',
    'long',
    LONG_MAX,
    'ms',
    { min: 0, broker: ['log.flush.interval.ms', 'log.flush.scheduler.interval.ms'] },
    'With flush.messages above 1: longest time before a background sync.',
  ),
  row(
    'follower.replication.throttled.replicas',
    'list',
    '',
    '',
    { pattern: REPLICAS, stored: true },
    'Replicas whose fetching is throttled: partition:broker, or *.',
  ),
  row(
    'index.interval.bytes',
    'int',
    4096,
    'bytes',
    { min: 0, broker: ['log.index.interval.bytes'] },
    'Bytes of log between two index entries; 0 = an entry for every batch.',
  ),
  row(
    'leader.replication.throttled.replicas',
    'list',
    '',
    '',
    { pattern: REPLICAS, stored: true },
    'Replicas whose serving is throttled: partition:broker, or *.',
  ),
  row(
    'local.retention.bytes',
    'long',
    -2,
    'bytes',
    { min: -2, broker: ['log.local.retention.bytes'], stored: true },
    'There is no tiered storage here; kept for tools that set it.',
  ),
  row(
    'local.retention.ms',
    'long',
    -2,
    'ms',
    { min: -2, broker: ['log.local.retention.ms'], stored: true },
    'There is no tiered storage here; kept for tools that set it.',
  ),
  row(
    'max.compaction.lag.ms',
    'long',
    LONG_MAX,
    'ms',
    { min: 1, broker: ['log.cleaner.max.compaction.lag.ms'] },
    'Longest time a record may wait before compaction looks at it.',
  ),
  row(
    'max.decompressed.message.bytes',
    'int',
    2_147_483_639,
    'bytes',
    { min: 1, broker: ['max.decompressed.message.bytes'] },
    'Largest single record in a compressed batch, as it is inflated; a batch with a larger one is refused. Batches that are not inflated (moonmq.record.validation) are not looked at.',
  ),
  row(
    'max.message.bytes',
    'int',
    1_048_588,
    'bytes',
    { min: 0, broker: ['message.max.bytes'] },
    'Largest record batch that is accepted, as it is stored.',
  ),
  row(
    'message.timestamp.after.max.ms',
    'long',
    HOUR_MS,
    'ms',
    { min: 0, broker: ['log.message.timestamp.after.max.ms'] },
    'How far in the future the time of a record may lie.',
  ),
  row(
    'message.timestamp.before.max.ms',
    'long',
    LONG_MAX,
    'ms',
    { min: 0, broker: ['log.message.timestamp.before.max.ms'] },
    'How far in the past the time of a record may lie.',
  ),
  row(
    'message.timestamp.type',
    'string',
    'CreateTime',
    '',
    { values: ['CreateTime', 'LogAppendTime'], broker: ['log.message.timestamp.type'] },
    "Whose clock stamps a record: the producer's or the broker's.",
  ),
  row(
    'min.cleanable.dirty.ratio',
    'double',
    0.5,
    '',
    { min: 0, max: 1, broker: ['log.cleaner.min.cleanable.ratio'] },
    'Share of uncompacted bytes that starts a compaction.',
  ),
  row(
    'min.compaction.lag.ms',
    'long',
    0,
    'ms',
    { min: 0, broker: ['log.cleaner.min.compaction.lag.ms'] },
    'Time during which a record is safe from compaction.',
  ),
  row(
    'min.insync.replicas',
    'int',
    1,
    '',
    { min: 1, broker: ['min.insync.replicas'] },
    'In-sync replicas below which acks=all is refused.',
  ),
  row(
    'moonmq.backend',
    'string',
    'segmented',
    '',
    { values: ['segmented', 'commitlog'], native: ['backend', 0], fixed: true },
    'Preset of other settings, chosen when the topic is made. segmented: delete, an index entry every 4,096 bytes, retention by time. commitlog: an index entry for every batch, retention by bytes.',
  ),
  row(
    'moonmq.cleaner.interval',
    'long',
    0,
    's',
    { min: 0, native: ['cleaner_interval', 1] },
    'Least time between two looks at this topic by retention and compaction; 0 = as often as the broker looks.',
  ),
  row(
    'moonmq.dlq.enable',
    'boolean',
    'true',
    '',
    {},
    'Whether a record that a group rejects, or does not accept after all its deliveries, is kept in the dead-letter topic.',
  ),
  row(
    'moonmq.partitioner',
    'string',
    'fnv1a',
    '',
    { values: ['fnv1a', 'murmur2'] },
    'Hash that maps a key to a partition where the broker chooses it: native and HTTP doors. Kafka clients hash for themselves; murmur2 is what most of them use.',
  ),
  row(
    'moonmq.record.validation',
    'string',
    'full',
    '',
    { values: ['full', 'header'] },
    'full: every record of a batch is looked at before it is stored. header: of a compressed batch only the header and the checksum, which saves inflating it; a producer can then store what no consumer can read.',
  ),
  row(
    'moonmq.retry.delays',
    'string',
    '',
    '',
    { pattern: DELAYS },
    'Times after which a record that its group could not process comes back to it, one after the other, with their units: 1s,10s,1m. Only what fails once more than there are times becomes a dead letter. Empty: native consumers get it again at once, server.dlq.maxDeliveries times; share groups, as they are set.',
  ),
  row(
    'moonmq.storage',
    'string',
    'disk',
    '',
    { values: ['disk', 'memory'], fixed: true },
    'Where the log lives; memory = never on disk and gone when the broker stops; bounded by server.memoryTopicBytes.',
  ),
  row(
    'preallocate',
    'boolean',
    'false',
    '',
    { broker: ['log.preallocate'], stored: true },
    'Files grow as they are written; kept for tools that set it.',
  ),
  row(
    'remote.copy.lag.bytes',
    'long',
    -1,
    'bytes',
    { min: -1, broker: ['log.remote.copy.lag.bytes'], stored: true },
    'There is no tiered storage here; kept for tools that set it.',
  ),
  row(
    'remote.copy.lag.ms',
    'long',
    0,
    'ms',
    { min: -1, broker: ['log.remote.copy.lag.ms'], stored: true },
    'There is no tiered storage here; kept for tools that set it.',
  ),
  row('remote.log.copy.disable', 'boolean', 'false', '', { stored: true }, 'There is no tiered storage here; kept for tools that set it.'),
  row(
    'remote.log.delete.on.disable',
    'boolean',
    'false',
    '',
    { stored: true },
    'There is no tiered storage here; kept for tools that set it.',
  ),
  row(
    'remote.storage.enable',
    'boolean',
    'false',
    '',
    { pattern: NEVER, stored: true },
    'There is no tiered storage here, so it cannot be switched on.',
  ),
  row(
    'retention.bytes',
    'long',
    -1,
    'bytes',
    { broker: ['log.retention.bytes'], native: ['max_log_bytes', 1] },
    'Bytes of a partition above which its oldest segments go; below 0 = no limit.',
  ),
  row(
    'retention.ms',
    'long',
    7 * DAY_MS,
    'ms',
    {
      min: -1,
      broker: ['log.retention.ms', ['log.retention.minutes', 60_000], ['log.retention.hours', HOUR_MS]],
      native: ['retention', 1000],
    },
    'Age above which a segment goes; -1 = no limit.',
  ),
  row(
    'segment.bytes',
    'int',
    1_073_741_824,
    'bytes',
    { min: 14, broker: ['log.segment.bytes'], native: ['max_segment_size', 1] },
    'Size at which the log goes on in a new segment file.',
  ),
  row(
    'segment.index.bytes',
    'int',
    10_485_760,
    'bytes',
    { min: 12, broker: ['log.index.size.max.bytes'] },
    'Largest size of an index; a full index starts a new segment.',
  ),
  row(
    'segment.jitter.ms',
    'long',
    0,
    'ms',
    { min: 0, broker: ['log.roll.jitter.ms', ['log.roll.jitter.hours', HOUR_MS]] },
    'Most that is taken off segment.ms at random, so that not all logs roll at once.',
  ),
  row(
    'segment.ms',
    'long',
    7 * DAY_MS,
    'ms',
    { min: 1, broker: ['log.roll.ms', ['log.roll.hours', HOUR_MS]] },
    'Age at which the log goes on in a new segment file.',
  ),
  row(
    'unclean.leader.election.enable',
    'boolean',
    'false',
    '',
    { broker: ['unclean.leader.election.enable'], stored: true },
    'Whether a replica that is not in sync may lead, losing records.',
  ),
]

const BY_NAME: ReadonlyMap<string, TopicSetting> = new Map(TOPIC_SETTINGS.map((setting) => [setting.name, setting]))

export function topicSetting(name: string): TopicSetting | undefined {
  return BY_NAME.get(name)
}

/** The value in the form that is stored; throws CONFIG_INVALID for an unknown name, naming the nearest, and for a bad value. */
export function checkTopicSetting(name: string, value: string): string {
  return checkNamedSetting('topic', BY_NAME, name, value)
}

/**
 * What a backend means: values of a topic that chose it, weaker than its own and stronger than the broker's. A topic without a choice
 * has the broker's values, whose defaults are those of `segmented`.
 */
export const PRESETS: ReadonlyMap<string, ReadonlyMap<string, string>> = new Map([
  [
    'segmented',
    new Map([
      ['cleanup.policy', 'delete'],
      ['index.interval.bytes', '4096'],
      ['retention.bytes', '-1'],
    ]),
  ],
  [
    'commitlog',
    new Map([
      ['index.interval.bytes', '0'],
      ['retention.ms', '-1'],
    ]),
  ],
])

export const BACKEND = 'moonmq.backend'

/** Whether a topic with these settings of its own keeps its records in memory. */
export function isInMemory(topic: ReadonlyMap<string, string>): boolean {
  return topic.get('moonmq.storage') === 'memory'
}

/** Where a value comes from, strongest first. */
export type TopicValueSource = 'topic' | 'preset' | 'broker' | 'default'

export interface TopicValue {
  readonly value: string
  readonly source: TopicValueSource
  /** The broker setting that gave it, in its own unit; null unless `source` is broker. */
  readonly brokerName: string | null
}

/** What the topic's backend gives the setting, or undefined. */
export function presetValue(setting: TopicSetting, topic: ReadonlyMap<string, string>): string | undefined {
  const backend = topic.get(BACKEND)
  return backend === undefined ? undefined : PRESETS.get(backend)?.get(setting.name)
}

/**
 * The value in force: the topic's own, else what its backend means, else the first broker synonym that was set, else the default.
 * `broker` holds only broker settings that somebody set; defaults do not belong in it.
 */
export function resolveTopicSetting(
  setting: TopicSetting,
  topic: ReadonlyMap<string, string>,
  broker: ReadonlyMap<string, string>,
): TopicValue {
  const own = topic.get(setting.name)
  if (own !== undefined) return { value: own, source: 'topic', brokerName: null }
  const preset = presetValue(setting, topic)
  if (preset !== undefined) return { value: preset, source: 'preset', brokerName: null }
  for (const synonym of setting.broker) {
    const value = broker.get(synonym.name)
    if (value === undefined) continue
    return { value: converted(value, synonym.factor), source: 'broker', brokerName: synonym.name }
  }
  return { value: setting.default, source: 'default', brokerName: null }
}

/** −1 stays −1: "no limit" has no unit. */
function converted(value: string, factor: number): string {
  if (factor === 1) return value
  const number = kafkaNumber(value)
  return number < 0 ? value : String(number * factor)
}
