import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { MoonMQError } from '../../core/errors.ts'
import { coordinatorPartition } from '../../core/hash.ts'
import type { Loader } from '../../core/loader.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { Resource } from '../../core/types.ts'
import type { Metadata } from '../../metadata/types.ts'
import type { EndTxnMarker } from '../../record/control.ts'
import type { RequestContext } from '../context.ts'
import type { CoordinatorTopic } from '../coordination/coordinator-log.ts'
import { DeliveryAttempts } from '../dlq/attempts.ts'
import { CONSUMER_OFFSETS } from '../internal-topics.ts'
import type { HighWatermarkOf } from '../offsets/lag.ts'
import type {
  CommitOffsets,
  CommittedOffset,
  ConsumerGroupDescription,
  ConsumerHeartbeat,
  ConsumerHeartbeatAnswer,
  GroupDescription,
  GroupListing,
  GroupMembership,
  GroupPort,
  InspectedGroup,
  JoinAsMember,
  JoinedGroup,
  JoinGroup,
  SyncedGroup,
  SyncGroup,
} from '../ports.ts'
import type { GroupSettings } from '../settings.ts'
import type { PendingCommits } from '../txn/pending-commits.ts'
import { classicKind } from './classic-kind.ts'
import { ClassicService } from './classic-service.ts'
import { consumerKind } from './consumer/consumer-kind.ts'
import { TopicPatterns } from './consumer/patterns.ts'
import { ConsumerService } from './consumer-service.ts'
import { GroupAdmin } from './group-admin.ts'
import { observeGroups } from './group-census.ts'
import { GroupOffsets } from './group-offsets.ts'
import { DEFAULT_GROUP_OPTIONS, type GroupOptions } from './group-options.ts'
import { GroupTable } from './group-table.ts'
import { GroupUpkeep } from './group-upkeep.ts'
import type { GroupKindRules } from './machine.ts'
import { NativeService } from './native-service.ts'

export interface GroupDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  readonly metadata: Metadata
  readonly offsetsTopic: CoordinatorTopic & { ensure(): Promise<void> }
  /** For the lag that is shown. */
  readonly highWatermark: HighWatermarkOf
  readonly loader: Loader
  readonly groupSettings: Pick<GroupSettings, 'number'>
  /** Kinds of groups whose rules are elsewhere; they reach their machines through `table`. */
  readonly kinds?: readonly GroupKindRules[]
}

/**
 * Coordinates every group of this broker (DESIGN D9). The machines decide; the shards store; the services between them say what of a
 * request is refused before its machine is asked, and what is answered when.
 */
export class GroupCoordinator implements GroupPort, PendingCommits, Resource {
  /** Of every group, as its commits say. */
  readonly attempts = new DeliveryAttempts()
  /** For kinds of groups whose rules are elsewhere. */
  readonly table: GroupTable
  readonly #nodeId: number
  readonly #offsetsTopic: GroupDeps['offsetsTopic']
  readonly #classic: ClassicService
  readonly #consumer: ConsumerService
  readonly #native: NativeService
  readonly #offsets: GroupOffsets
  readonly #admin: GroupAdmin
  readonly #upkeep: GroupUpkeep
  readonly #unobserve: () => void

  private constructor(deps: GroupDeps, options: GroupOptions) {
    const { clock, random, metadata } = deps
    const image = () => metadata.image
    const { groupSettings } = deps
    const timing = (group: string) => ({
      sessionTimeoutMs: groupSettings.number(group, 'consumer.session.timeout.ms'),
      heartbeatIntervalMs: groupSettings.number(group, 'consumer.heartbeat.interval.ms'),
      assignmentIntervalMs: groupSettings.number(group, 'consumer.assignment.interval.ms'),
    })
    const consumerDeps = { image, timing, patterns: new TopicPatterns({ loader: deps.loader }) }
    const kinds = [classicKind(options), consumerKind(consumerDeps, options.consumer), ...(deps.kinds ?? [])]
    const table = new GroupTable({ ...deps, log: deps.log.child({ room: 'groups' }), image, kinds, attempts: this.attempts }, options)
    this.table = table
    this.#nodeId = options.nodeId
    this.#offsetsTopic = deps.offsetsTopic
    this.#classic = new ClassicService({ clock, random, table }, options)
    this.#consumer = new ConsumerService({ ...consumerDeps, clock, random, table }, options.consumer)
    this.#native = new NativeService({ clock, random, table, image })
    this.#offsets = new GroupOffsets({ clock, table, image, attempts: this.attempts, metrics: deps.metrics }, options)
    this.#admin = new GroupAdmin({ clock, table, kinds, image })
    this.#upkeep = new GroupUpkeep({ clock, table, metadata, metrics: deps.metrics }, options)
    this.#unobserve = observeGroups(deps.metrics, clock, table)
  }

  /** Nothing is read yet: `startLoading` is for after the listeners are open, requests meanwhile get COORDINATOR_LOADING. */
  static open(deps: GroupDeps, options: GroupOptions = DEFAULT_GROUP_OPTIONS): GroupCoordinator {
    return new GroupCoordinator(deps, options)
  }

  /** Reads every partition of the offsets topic. Resolves when all were tried; never rejects. */
  startLoading(): Promise<void> {
    this.#upkeep.start()
    return this.table.load()
  }

  join(context: RequestContext, request: JoinGroup): Promise<JoinedGroup> {
    return this.#classic.join(context, request)
  }

  sync(context: RequestContext, request: SyncGroup): Promise<SyncedGroup> {
    return this.#classic.sync(context, request)
  }

  heartbeat(context: RequestContext, request: Parameters<GroupPort['heartbeat']>[1]): Promise<void> {
    return this.#classic.heartbeat(context, request)
  }

  leave(context: RequestContext, request: Parameters<GroupPort['leave']>[1]): ReturnType<GroupPort['leave']> {
    return this.#classic.leave(context, request)
  }

  consumerHeartbeat(context: RequestContext, request: ConsumerHeartbeat): Promise<ConsumerHeartbeatAnswer> {
    return this.#consumer.heartbeat(context, request)
  }

  describeConsumerGroups(context: RequestContext, groups: readonly string[]): Promise<readonly ConsumerGroupDescription[]> {
    return this.#consumer.describe(context, groups)
  }

  commit(context: RequestContext, request: CommitOffsets): ReturnType<GroupPort['commit']> {
    return this.#offsets.commit(context, request)
  }

  committed(context: RequestContext, request: Parameters<GroupPort['committed']>[1]): Promise<readonly CommittedOffset[]> {
    return this.#offsets.committed(context, request)
  }

  partitionOf(group: string): number {
    return coordinatorPartition(group, this.table.shards.length)
  }

  commitPending(...request: Parameters<PendingCommits['commitPending']>): ReturnType<PendingCommits['commitPending']> {
    return this.#offsets.commitPending(...request)
  }

  async endTransaction(partition: number, marker: EndTxnMarker): Promise<void> {
    const shard = this.table.shards[partition]
    if (shard === undefined) throw new MoonMQError('PARTITION_MISSING', { topic: CONSUMER_OFFSETS, partition })
    await shard.endTransaction(marker)
  }

  deleteOffsets(context: RequestContext, request: Parameters<GroupPort['deleteOffsets']>[1]): ReturnType<GroupPort['deleteOffsets']> {
    return this.#offsets.deleteOffsets(context, request)
  }

  describe(context: RequestContext, groups: readonly string[]): Promise<readonly GroupDescription[]> {
    return this.#admin.describe(context, groups)
  }

  list(
    context: RequestContext,
    filter: { states: readonly string[]; kinds: readonly string[] },
  ): Promise<{ readonly groups: readonly GroupListing[]; readonly loading: boolean }> {
    return this.#admin.list(context, filter)
  }

  inspect(context: RequestContext, group: string): Promise<InspectedGroup> {
    return this.#admin.inspect(context, group)
  }

  joinMember(context: RequestContext, request: JoinAsMember, former: GroupMembership | null): Promise<GroupMembership> {
    return this.#native.join(context, request, former)
  }

  delete(context: RequestContext, groups: readonly string[]): ReturnType<GroupPort['delete']> {
    return this.#admin.delete(context, groups)
  }

  /** Makes the topic of the offsets, as Kafka does: who asks is about to need it. */
  async coordinator(group: string): Promise<number> {
    try {
      await this.#offsetsTopic.ensure()
    } catch (error) {
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group }, error)
    }
    return this.#nodeId
  }

  /** Requests that wait are answered; nothing is stored any more. */
  async close(): Promise<void> {
    this.#upkeep.stop()
    this.#unobserve()
    await this.table.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
