import { checkNamedSetting, type KafkaSetting } from './kafka-setting.ts'
import { TOPIC_SETTINGS } from './topic-settings.ts'

interface Extra {
  readonly min?: number
  readonly max?: number
  readonly values?: readonly string[]
  readonly pattern?: KafkaSetting['pattern']
  readonly stored?: true
}

function row(name: string, type: KafkaSetting['type'], fallback: string | number, unit: string, extra: Extra, doc: string): KafkaSetting {
  return {
    name,
    type,
    default: String(fallback),
    unit,
    doc,
    inForce: extra.stored !== true,
    ...(extra.min === undefined ? {} : { min: extra.min }),
    ...(extra.max === undefined ? {} : { max: extra.max }),
    ...(extra.values === undefined ? {} : { values: extra.values }),
    ...(extra.pattern === undefined ? {} : { pattern: extra.pattern }),
  }
}

/** Value, least and most of a setting that a group may choose for itself. */
function bounded(
  name: string,
  unit: string,
  [fallback, least, most]: readonly [number, number, number],
  min: number,
  doc: string,
): KafkaSetting[] {
  const [, kind, ...rest] = name.split('.')
  const limit = (word: string) => `group.${kind}.${word}.${rest.join('.')}`
  return [
    row(name, 'int', fallback, unit, { min }, `${doc} A group may have a value of its own.`),
    row(limit('min'), 'int', least, unit, { min }, `Least value of ${kind}.${rest.join('.')} that is in force for a group.`),
    row(limit('max'), 'int', most, unit, { min }, `Most of the same.`),
  ]
}

const INT_MAX = 2 ** 31 - 1
const NAME_PREFIX = { expression: /^(?!__)[A-Za-z0-9._-]{0,249}$/, words: 'the beginning of a topic name, or nothing' }
const PER_ADDRESS = {
  expression: /^$|^[^,\s]+:\d{1,10}(,[^,\s]+:\d{1,10})*$/,
  words: 'address:number, several of them separated by commas',
}

/** Broker settings of their own. Those that are only the default of a topic setting are made from its row below. */
const OWN: readonly KafkaSetting[] = [
  row('auto.create.topics.enable', 'boolean', 'true', '', {}, 'Whether a Kafka client that asks for a missing topic creates it.'),
  row('connections.max.idle.ms', 'long', 600_000, 'ms', { min: 1000 }, 'A Kafka connection without a request for so long is closed.'),
  row('default.replication.factor', 'int', 1, '', { min: 1, max: 1 }, 'Replicas of a topic that is created without a number.'),
  row('delete.topic.enable', 'boolean', 'true', '', {}, 'Whether topics can be deleted.'),
  row('fetch.max.bytes', 'int', 57_671_680, 'bytes', { min: 1024 }, 'Most bytes of records in one answer to a fetch.'),
  row(
    'group.consumer.assignors',
    'list',
    'uniform,range',
    '',
    { values: ['uniform', 'range'] },
    'Assignors that a consumer group may choose; the first is for those that choose none.',
  ),
  ...bounded(
    'group.consumer.assignment.interval.ms',
    'ms',
    [1000, 0, 15_000],
    0,
    'Least time between two assignments of a consumer group.',
  ),
  ...bounded(
    'group.consumer.heartbeat.interval.ms',
    'ms',
    [5000, 5000, 15_000],
    1,
    'How often members of a consumer group are told to send a heartbeat.',
  ),
  row('group.consumer.max.size', 'int', INT_MAX, 'members', { min: 1 }, 'Most members of one consumer group.'),
  row(
    'group.consumer.migration.policy',
    'string',
    'bidirectional',
    '',
    { values: ['bidirectional', 'upgrade', 'downgrade', 'disabled'] },
    'Whether a group may change between the classic protocol and that of consumer groups, and in which direction.',
  ),
  row(
    'group.consumer.regex.refresh.interval.ms',
    'int',
    600_000,
    'ms',
    { min: 10_000, stored: true },
    'How often the topics that match a regular expression are looked up again. Here they are looked up when a topic is made or goes.',
  ),
  ...bounded(
    'group.consumer.session.timeout.ms',
    'ms',
    [45_000, 45_000, 60_000],
    1,
    'A member of a consumer group that is silent for so long is removed.',
  ),
  ...bounded('group.share.assignment.interval.ms', 'ms', [1000, 0, 15_000], 0, 'Least time between two assignments of a share group.'),
  ...bounded(
    'group.share.delivery.count.limit',
    '',
    [5, 2, 10],
    2,
    'Deliveries after which a record of a share group becomes a dead letter.',
  ),
  ...bounded(
    'group.share.heartbeat.interval.ms',
    'ms',
    [5000, 5000, 15_000],
    1,
    'How often members of a share group are told to send a heartbeat.',
  ),
  row(
    'group.share.max.share.sessions',
    'int',
    2000,
    '',
    { min: 1 },
    'Most sessions of consumers of share groups; one more ends the one that was used least recently.',
  ),
  row('group.share.max.size', 'int', 200, 'members', { min: 1, max: 1000 }, 'Most members of one share group.'),
  ...bounded(
    'group.share.partition.max.record.locks',
    '',
    [2000, 100, 4000],
    100,
    'Most records of one partition that a share group has in delivery.',
  ),
  ...bounded(
    'group.share.record.lock.duration.ms',
    'ms',
    [30_000, 15_000, 60_000],
    1000,
    'How long a record of a share group is locked for the consumer that acquired it.',
  ),
  ...bounded(
    'group.share.session.timeout.ms',
    'ms',
    [45_000, 45_000, 60_000],
    1,
    'A member of a share group that is silent for so long is removed.',
  ),
  row(
    'group.initial.rebalance.delay.ms',
    'int',
    0,
    'ms',
    { min: 0 },
    'How long an empty group waits for more members after the first one has joined.',
  ),
  row('group.max.session.timeout.ms', 'int', 1_800_000, 'ms', { min: 1 }, 'Longest session timeout that a group member may ask for.'),
  row('group.max.size', 'int', INT_MAX, 'members', { min: 1 }, 'Most members of one group.'),
  row('group.min.session.timeout.ms', 'int', 1000, 'ms', { min: 1 }, 'Shortest session timeout that a group member may ask for.'),
  row('log.cleaner.backoff.ms', 'long', 15_000, 'ms', { min: 0 }, 'Pause after a look that found no log to compact.'),
  row(
    'log.cleaner.dedupe.buffer.size',
    'long',
    134_217_728,
    'bytes',
    { min: 96 },
    'Memory for the keys of a compaction, 24 bytes each; a log with more keys takes several passes.',
  ),
  row('log.cleaner.enable', 'boolean', 'true', '', {}, 'Whether topics with cleanup.policy=compact are compacted.'),
  row(
    'log.cleaner.io.max.bytes.per.second',
    'double',
    '1.7976931348623157E308',
    'bytes',
    { min: 1 },
    'Most bytes that compaction reads and writes in a second, all logs together.',
  ),
  row('log.initial.task.delay.ms', 'long', 30_000, 'ms', { min: 0 }, 'How long after the start retention looks at the logs first.'),
  row(
    'log.retention.check.interval.ms',
    'long',
    300_000,
    'ms',
    { min: 1 },
    'Time between two looks of retention at all logs; a topic may be looked at more or less often.',
  ),
  row(
    'errors.deadletterqueue.topic.name.prefix',
    'string',
    '',
    '',
    { pattern: NAME_PREFIX },
    'What the topic that a group names for its dead letters must begin with. Empty: any name.',
  ),
  row(
    'max.connection.creation.rate',
    'int',
    INT_MAX,
    'a second',
    { min: 1 },
    'Client connections that are begun a second, after as many at once; further ones wait for their turn.',
  ),
  row(
    'max.connections',
    'int',
    INT_MAX,
    '',
    { min: 0 },
    'Most client connections, all listeners together. Whichever of it and server.maxConnections is less holds; nobody is cut off when it is lowered.',
  ),
  row(
    'max.connections.per.ip',
    'int',
    INT_MAX,
    '',
    { min: 0 },
    'Most client connections from one address, this machine included; nobody is cut off when it is lowered.',
  ),
  row(
    'max.connections.per.ip.overrides',
    'string',
    '',
    '',
    { pattern: PER_ADDRESS },
    'Another number than max.connections.per.ip for some addresses: 10.0.0.5:200,[::1]:20.',
  ),
  row(
    'max.incremental.fetch.session.cache.slots',
    'int',
    1000,
    'sessions',
    { min: 0 },
    'Most fetch sessions of Kafka clients; a client without one names all its partitions in each fetch.',
  ),
  row('node.id', 'int', 0, '', { min: 0 }, 'Id of this broker. A data folder belongs to one: it cannot change later.'),
  row('num.partitions', 'int', 1, '', { min: 1, max: 100_000 }, 'Partitions of a topic that is created without a number.'),
  row('offset.metadata.max.bytes', 'int', 4096, 'bytes', { min: 0 }, 'Largest note that may come with a committed offset.'),
  row(
    'offsets.retention.check.interval.ms',
    'long',
    600_000,
    'ms',
    { min: 1 },
    'Time between two looks for committed offsets that have expired.',
  ),
  row('offsets.retention.minutes', 'int', 10_080, 'minutes', { min: 1 }, 'How long committed offsets of a group without members are kept.'),
  row(
    'offsets.topic.num.partitions',
    'int',
    50,
    '',
    { min: 1, max: 10_000 },
    'Partitions of __consumer_offsets, fixed when the topic is made.',
  ),
  row('offsets.topic.segment.bytes', 'int', 104_857_600, 'bytes', { min: 1024 }, 'Size of a segment of __consumer_offsets.'),
  row(
    'producer.id.expiration.ms',
    'int',
    86_400_000,
    'ms',
    { min: 1 },
    'How long a partition remembers an idempotent producer that sends nothing.',
  ),
  row(
    'share.coordinator.snapshot.update.records.per.snapshot',
    'int',
    500,
    'records',
    { min: 0, max: 500 },
    'Changes of a share partition that are stored one by one before its whole state is stored again.',
  ),
  row(
    'share.coordinator.state.topic.num.partitions',
    'int',
    50,
    '',
    { min: 1, max: 10_000 },
    'Partitions of __share_group_state, fixed when the topic is made.',
  ),
  row(
    'share.coordinator.state.topic.segment.bytes',
    'int',
    104_857_600,
    'bytes',
    { min: 1024 },
    'Size of a segment of __share_group_state.',
  ),
  row('transaction.max.timeout.ms', 'int', 900_000, 'ms', { min: 1 }, 'Longest timeout that a transactional producer may ask for.'),
  row(
    'transaction.remove.expired.transaction.cleanup.interval.ms',
    'int',
    3_600_000,
    'ms',
    { min: 1 },
    'Time between two looks for transactional ids that have expired.',
  ),
  row(
    'transaction.state.log.num.partitions',
    'int',
    50,
    '',
    { min: 1, max: 10_000 },
    'Partitions of __transaction_state, fixed when the topic is made.',
  ),
  row('transaction.state.log.segment.bytes', 'int', 104_857_600, 'bytes', { min: 1024 }, 'Size of a segment of __transaction_state.'),
  row(
    'transaction.two.phase.commit.enable',
    'boolean',
    'false',
    '',
    {},
    'Whether a transaction may have no timeout and outlive its client, because another system decides (KIP-939).',
  ),
  row(
    'transactional.id.expiration.ms',
    'int',
    604_800_000,
    'ms',
    { min: 1 },
    'How long a transactional id that nobody uses is remembered.',
  ),
  row('socket.request.max.bytes', 'int', 104_857_600, 'bytes', { min: 1024 }, 'Largest request of a Kafka client.'),
]

/** Broker settings under Kafka's dotted names, sorted: the block `kafka` of the settings file. */
export const BROKER_SETTINGS: readonly KafkaSetting[] = [...OWN, ...topicDefaults()].sort((a, b) => (a.name < b.name ? -1 : 1))

const BY_NAME: ReadonlyMap<string, KafkaSetting> = new Map(BROKER_SETTINGS.map((setting) => [setting.name, setting]))

export function brokerSetting(name: string): KafkaSetting | undefined {
  return BY_NAME.get(name)
}

/** The value in the form that is stored; throws CONFIG_INVALID for an unknown name, naming the nearest, and for a bad value. */
export function checkBrokerSetting(name: string, value: string): string {
  return checkNamedSetting('broker', BY_NAME, name, value)
}

/** Read by a timer that is set up at the start. */
const READ_ONCE: ReadonlySet<string> = new Set(['log.flush.scheduler.interval.ms'])

const CHANGEABLE: ReadonlySet<string> = new Set([
  'group.consumer.assignment.interval.ms',
  'group.share.assignment.interval.ms',
  'errors.deadletterqueue.topic.name.prefix',
  'max.connection.creation.rate',
  'max.connections',
  'max.connections.per.ip',
  'max.connections.per.ip.overrides',
  'producer.id.expiration.ms',
  ...OWN.map(({ name }) => name).filter((name) => name.startsWith('log.cleaner.')),
  ...TOPIC_SETTINGS.flatMap((topic) =>
    topic.broker.filter(({ factor, name }) => factor === 1 && !READ_ONCE.has(name)).map(({ name }) => name),
  ),
])

/** Whether a change takes effect while the broker runs: the defaults of topic settings but for their coarser units, as in Kafka. */
export function isChangeable(name: string): boolean {
  return CHANGEABLE.has(name)
}

/** Minutes and hours of a time are whole numbers of a coarser unit with the same default. */
function topicDefaults(): KafkaSetting[] {
  const rows: KafkaSetting[] = []
  for (const topic of TOPIC_SETTINGS) {
    for (const synonym of topic.broker) {
      const { broker: _, native: __, fixed: ___, ...shared } = topic
      if (synonym.factor === 1) {
        rows.push({ ...shared, name: synonym.name, doc: `Default of the topic setting ${topic.name}. ${topic.doc}` })
        continue
      }
      rows.push({
        name: synonym.name,
        type: 'int',
        default: String(Number(topic.default) / synonym.factor),
        ...(topic.min === undefined ? {} : { min: topic.min }),
        unit: synonym.factor === 60_000 ? 'minutes' : 'hours',
        doc: `Default of the topic setting ${topic.name}, in ${synonym.factor === 60_000 ? 'minutes' : 'hours'}.`,
        inForce: topic.inForce,
      })
    }
  }
  return rows
}
