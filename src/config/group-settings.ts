import { checkNamedSetting, type KafkaSetting } from './kafka-setting.ts'

/** A setting of one group (Kafka's resource type 32). */
export interface GroupSetting extends KafkaSetting {
  /** The broker setting that gives the value of a group without one of its own; null = none, the default holds. */
  readonly broker: string | null
  /** Broker settings whose values bound it, whatever the group says. */
  readonly least: string | null
  readonly most: string | null
}

interface Extra {
  readonly min?: number
  readonly values?: readonly string[]
  readonly pattern?: KafkaSetting['pattern']
  readonly stored?: true
}

/** `kind` is `consumer`, `share` or `streams`; `key` the rest of the name, by which the broker's settings are named too. */
function number(kind: string, key: string, fallback: number, unit: string, extra: Extra, doc: string): GroupSetting {
  const bounded = kind !== 'streams'
  return {
    ...plain(`${kind}.${key}`, 'int', String(fallback), extra, doc),
    unit,
    broker: bounded ? `group.${kind}.${key}` : null,
    least: bounded ? `group.${kind}.min.${key}` : null,
    most: bounded ? `group.${kind}.max.${key}` : null,
  }
}

function plain(name: string, type: KafkaSetting['type'], fallback: string, extra: Extra, doc: string): GroupSetting {
  return {
    name,
    type,
    default: fallback,
    unit: '',
    doc,
    inForce: extra.stored !== true,
    broker: null,
    least: null,
    most: null,
    ...(extra.min === undefined ? {} : { min: extra.min }),
    ...(extra.values === undefined ? {} : { values: extra.values }),
    ...(extra.pattern === undefined ? {} : { pattern: extra.pattern }),
  }
}

const STREAMS = 'Kept for tools that set it: Streams works on the classic group protocol here.'

/** Whole and broken seconds, minutes, hours and days of ISO 8601; no sign, and at least one of them. */
const DURATION = /^by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?$/i
const OFFSET_RESET = {
  expression: new RegExp(`^(earliest|latest)$|${DURATION.source}`, 'i'),
  words: 'earliest, latest or by_duration:PnDTnHnMnS',
}

const TOPIC_NAME = { expression: /^(?!__)[A-Za-z0-9._-]{0,249}$/, words: 'a topic name, not one that begins with __, or nothing' }

/** Every setting of a group by Kafka's name, sorted. */
export const GROUP_SETTINGS: readonly GroupSetting[] = [
  number('consumer', 'assignment.interval.ms', 1000, 'ms', { min: 0 }, 'Least time between two assignments of a consumer group.'),
  number(
    'consumer',
    'heartbeat.interval.ms',
    5000,
    'ms',
    { min: 1 },
    'How often members of a consumer group are told to send a heartbeat.',
  ),
  number('consumer', 'session.timeout.ms', 45_000, 'ms', { min: 1 }, 'A member of a consumer group that is silent for so long is removed.'),
  plain(
    'errors.deadletterqueue.copy.record.enable',
    'boolean',
    'true',
    { stored: true },
    'Kept for tools that set it: a dead letter always has the key, value and headers of its record here.',
  ),
  plain(
    'errors.deadletterqueue.topic.name',
    'string',
    '',
    { pattern: TOPIC_NAME },
    'Topic for the dead letters of the group, whatever topic they come from. Empty: each topic has its own, by server.dlq.suffix.',
  ),
  number('share', 'assignment.interval.ms', 1000, 'ms', { min: 0 }, 'Least time between two assignments of a share group.'),
  plain(
    'share.auto.offset.reset',
    'string',
    'latest',
    { pattern: OFFSET_RESET },
    'Where a share group begins in a partition: earliest, latest, or at the first record not older than a duration, by_duration:PT1H.',
  ),
  number(
    'share',
    'delivery.count.limit',
    5,
    '',
    { min: 2 },
    'Deliveries after which a record of a share group becomes a dead letter; of a group with native members too, where it is set (else `server.dlq.maxDeliveries`).',
  ),
  number('share', 'heartbeat.interval.ms', 5000, 'ms', { min: 1 }, 'How often members of a share group are told to send a heartbeat.'),
  plain(
    'share.isolation.level',
    'string',
    'read_uncommitted',
    { values: ['read_committed', 'read_uncommitted'] },
    'Whether a share group is given records of transactions that are open or were aborted.',
  ),
  number(
    'share',
    'partition.max.record.locks',
    2000,
    '',
    { min: 100 },
    'Most records of one partition that a share group has in delivery.',
  ),
  number(
    'share',
    'record.lock.duration.ms',
    30_000,
    'ms',
    { min: 1000 },
    'How long a record of a share group is locked for the consumer that acquired it.',
  ),
  plain('share.renew.acknowledge.enable', 'boolean', 'true', {}, 'Whether a consumer of a share group may renew the lock of a record.'),
  number('share', 'session.timeout.ms', 45_000, 'ms', { min: 1 }, 'A member of a share group that is silent for so long is removed.'),
  number('streams', 'heartbeat.interval.ms', 5000, 'ms', { min: 1, stored: true }, STREAMS),
  number('streams', 'num.standby.replicas', 0, '', { min: 0, stored: true }, STREAMS),
  number('streams', 'session.timeout.ms', 45_000, 'ms', { min: 1, stored: true }, STREAMS),
]

const BY_NAME: ReadonlyMap<string, GroupSetting> = new Map(GROUP_SETTINGS.map((setting) => [setting.name, setting]))

export function groupSetting(name: string): GroupSetting | undefined {
  return BY_NAME.get(name)
}

/** The value in the form that is stored; throws CONFIG_INVALID for an unknown name, naming the nearest, and for a bad value. */
export function checkGroupSetting(name: string, value: string): string {
  return checkNamedSetting('group', BY_NAME, name, value)
}
