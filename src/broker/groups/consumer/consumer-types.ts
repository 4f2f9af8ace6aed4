import type { MetadataImage } from '../../../metadata/types.ts'
import type { ClassicOptions, GroupProtocol } from '../classic-types.ts'
import type { TopicPartitions } from './assignment.ts'
import type { TopicPatterns } from './patterns.ts'

export interface ConsumerDeps {
  readonly image: () => MetadataImage
  readonly patterns: TopicPatterns
  /** What the group has set for itself, else what holds for all. */
  readonly timing: (group: string) => Timing
}

export interface Timing {
  readonly sessionTimeoutMs: number
  readonly heartbeatIntervalMs: number
  /** Least time between two assignments. */
  readonly assignmentIntervalMs: number
}

/** `group.consumer.migration.policy`: which way a group may change its protocol while it has members. */
export type MigrationPolicy = 'bidirectional' | 'upgrade' | 'downgrade' | 'disabled'

export interface ConsumerOptions {
  /** `group.consumer.max.size`. */
  readonly maxMembers: number
  /** `group.consumer.assignors`: the first one is that of groups whose members name none. */
  readonly assignors: readonly string[]
  readonly migrationPolicy: MigrationPolicy
  /** For groups that go back to the classic protocol. */
  readonly classic: ClassicOptions
}

/** A heartbeat as the machine sees it. Null: as it was said before. */
export interface ConsumerBeat {
  readonly memberId: string
  /** 0 joins, −1 leaves, −2 leaves for a while (static members). */
  readonly memberEpoch: number
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly rebalanceTimeoutMs: number | null
  readonly subscribedTopics: readonly string[] | null
  /** Empty: none any more. */
  readonly subscribedRegex: string | null
  readonly assignor: string | null
  readonly owned: readonly TopicPartitions[] | null
  readonly clientId: string
  readonly clientHost: string
}

export interface ConsumerBeatAnswer {
  readonly memberId: string
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  /** Null: as it was told before. */
  readonly assignment: readonly TopicPartitions[] | null
}

/** What a member of the classic protocol brought along when its group changed over. */
export interface ClassicSide {
  readonly sessionTimeoutMs: number
  readonly protocols: readonly GroupProtocol[]
}

export const JOIN_EPOCH = 0
export const STATIC_LEAVE_EPOCH = -2
