import type { ConsumerOptions, MigrationPolicy } from './consumer/consumer-types.ts'

/** Settings of the groups, by Kafka's broker settings. Times in milliseconds. */
export interface GroupOptions {
  readonly nodeId: number
  /** `group.min.session.timeout.ms` and `group.max.session.timeout.ms`. */
  readonly minSessionTimeoutMs: number
  readonly maxSessionTimeoutMs: number
  /** `group.initial.rebalance.delay.ms`. */
  readonly initialRebalanceDelayMs: number
  /** `group.max.size`. */
  readonly maxMembers: number
  /** `offset.metadata.max.bytes`. */
  readonly offsetMetadataMaxBytes: number
  /** `offsets.retention.minutes`, in milliseconds. */
  readonly offsetsRetentionMs: number
  /** `offsets.retention.check.interval.ms`. */
  readonly retentionCheckIntervalMs: number
  readonly consumer: ConsumerOptions
}

/** What gives the broker settings in force. */
interface Settings {
  number(name: string): number
  text(name: string): string
}

export function groupOptions(nodeId: number, settings: Settings): GroupOptions {
  const setting = (name: string) => settings.number(name)
  return {
    nodeId,
    minSessionTimeoutMs: setting('group.min.session.timeout.ms'),
    maxSessionTimeoutMs: setting('group.max.session.timeout.ms'),
    initialRebalanceDelayMs: setting('group.initial.rebalance.delay.ms'),
    maxMembers: setting('group.max.size'),
    offsetMetadataMaxBytes: setting('offset.metadata.max.bytes'),
    offsetsRetentionMs: setting('offsets.retention.minutes') * 60_000,
    retentionCheckIntervalMs: setting('offsets.retention.check.interval.ms'),
    consumer: {
      maxMembers: setting('group.consumer.max.size'),
      assignors: settings
        .text('group.consumer.assignors')
        .split(',')
        .map((name) => name.trim()),
      migrationPolicy: settings.text('group.consumer.migration.policy').toLowerCase() as MigrationPolicy,
      classic: { maxMembers: setting('group.max.size'), initialRebalanceDelayMs: setting('group.initial.rebalance.delay.ms') },
    },
  }
}

/** What the settings say when nothing is set. */
export const DEFAULT_GROUP_OPTIONS: GroupOptions = {
  nodeId: 0,
  minSessionTimeoutMs: 1000,
  maxSessionTimeoutMs: 1_800_000,
  initialRebalanceDelayMs: 0,
  maxMembers: 2 ** 31 - 1,
  offsetMetadataMaxBytes: 4096,
  offsetsRetentionMs: 7 * 24 * 3600 * 1000,
  retentionCheckIntervalMs: 600_000,
  consumer: {
    maxMembers: 2 ** 31 - 1,
    assignors: ['uniform', 'range'],
    migrationPolicy: 'bidirectional',
    classic: { maxMembers: 2 ** 31 - 1, initialRebalanceDelayMs: 0 },
  },
}
