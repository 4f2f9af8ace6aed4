import type { Clock, Timer } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { coordinatorPartition } from '../../core/hash.ts'
import { inTurns } from '../../core/in-turns.ts'
import { MIB } from '../../core/limits.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import { Semaphore } from '../../core/semaphore.ts'
import type { Resource } from '../../core/types.ts'
import { newUuid } from '../../core/uuid.ts'
import type { Metadata, MetadataImage } from '../../metadata/types.ts'
import type { NewRecord } from '../../record/builder.ts'
import type { RequestContext } from '../context.ts'
import type { HighWatermarkOf } from '../offsets/lag.ts'
import { offsetKey, offsetValue } from '../offsets/offset-records.ts'
import type { StoredOffset } from '../offsets/offset-store.ts'
import type { OffsetsTopic } from '../offsets/offsets-log.ts'
import type {
  CommitOffsets,
  CommittedOffset,
  GroupDescription,
  GroupListing,
  GroupPort,
  JoinedGroup,
  JoinGroup,
  SyncedGroup,
  SyncGroup,
} from '../ports.ts'
import { joinRefused } from './classic-types.ts'
import { describeGroup, describeMissing, listGroup } from './describe.ts'
import { expiredOffsets } from './expiry.ts'
import type { GroupEntry } from './group-entry.ts'
import { DEFAULT_GROUP_OPTIONS, type GroupOptions } from './group-options.ts'
import { GroupShard } from './group-shard.ts'

export interface GroupDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  readonly metadata: Metadata
  readonly offsetsTopic: OffsetsTopic
  /** For the lag that is shown. */
  readonly highWatermark: HighWatermarkOf
}

/** Partitions of the offsets topic that are read at the same time. */
const LOADERS = 4
/** Groups in memory, those without members included. */
const MAX_GROUPS = 200_000
/** What the members of a group may bring along, subscriptions and assignments each: it must fit one record. */
const MAX_GROUP_BYTES = 8 * MIB
const MAX_PROTOCOLS = 64
const MAX_GROUP_ID_BYTES = 32_767

/**
 * Coordinates every group of this broker (DESIGN D9): which shard holds it, what of a request is refused before its machine is asked,
 * and what is answered when. The machines decide; the shards store.
 */
export class GroupCoordinator implements GroupPort, Resource {
  readonly #deps: GroupDeps
  readonly #options: GroupOptions
  readonly #shards: readonly GroupShard[]
  readonly #unsubscribe: () => void
  readonly #unobserve: () => void
  #sweepTimer: Timer | null = null
  #lastTicket = 0
  #closed = false

  private constructor(deps: GroupDeps, options: GroupOptions) {
    this.#deps = deps
    this.#options = options
    const shardDeps = { ...deps, log: deps.log.child({ room: 'groups' }), image: () => deps.metadata.image }
    this.#shards = Array.from({ length: deps.offsetsTopic.partitionCount }, (_, partition) => new GroupShard(shardDeps, partition, options))
    this.#unsubscribe = deps.metadata.subscribe((before, after) => this.#onMetadata(before, after))
    this.#unobserve = deps.metrics.observed('moonmq_groups', () => this.groupCount)
  }

  /** Nothing is read yet: `startLoading` is for after the listeners are open, requests meanwhile get COORDINATOR_LOADING. */
  static open(deps: GroupDeps, options: GroupOptions = DEFAULT_GROUP_OPTIONS): GroupCoordinator {
    return new GroupCoordinator(deps, options)
  }

  /** Reads every partition of the offsets topic. Resolves when all were tried; never rejects. */
  async startLoading(): Promise<void> {
    const loaders = new Semaphore(LOADERS)
    this.#armSweep()
    await Promise.all(this.#shards.map((shard) => loaders.run(() => shard.load())))
  }

  get groupCount(): number {
    return this.#shards.reduce((sum, shard) => sum + shard.groups.size, 0)
  }

  #shardOf(group: string): GroupShard {
    return this.#shards[coordinatorPartition(group, this.#shards.length)] as GroupShard
  }

  /** The shard of a group whose groups are in memory. Throws COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, GROUP_ID_INVALID. */
  #ready(group: string, emptyAllowed = false): GroupShard {
    if (group === '' && !emptyAllowed) throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
    if (Buffer.byteLength(group) > MAX_GROUP_ID_BYTES) throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is too long' })
    // A client that hears this looks for the coordinator again, and finds it after the restart.
    if (this.#closed) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group })
    const shard = this.#shardOf(group)
    shard.checkReady(group)
    return shard
  }

  /** The same, once the group's partition can be appended to. */
  async #writable(group: string, emptyAllowed = false): Promise<GroupShard> {
    const shard = this.#ready(group, emptyAllowed)
    const opening = shard.whenWritable()
    if (opening === undefined) return shard
    try {
      await opening
    } catch (error) {
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group }, error)
    }
    return this.#ready(group, emptyAllowed)
  }

  #create(shard: GroupShard, group: string): GroupEntry {
    if (this.groupCount >= MAX_GROUPS) throw new MoonMQError('RATE_LIMITED', { reason: `the broker holds ${MAX_GROUPS} groups already` })
    return shard.create(group)
  }

  // ---- membership -----------------------------------------------------------------------------------------------------------

  async join(context: RequestContext, request: JoinGroup): Promise<JoinedGroup> {
    try {
      this.#checkJoin(request)
      const shard = await this.#writable(request.group)
      if (context.signal.aborted) throw new MoonMQError('ABORTED')
      const unknown = () => new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: request.group, member: request.memberId })
      let entry = shard.groups.get(request.group)
      if (entry === undefined) {
        if (request.memberId !== '') throw unknown()
        entry = this.#create(shard, request.group)
      }
      return await this.#parkJoin(context, shard, entry, request)
    } catch (error) {
      const refusal = asMoonMQError(error)
      if (refusal.code === 'ABORTED' || refusal.code === 'INTERNAL') throw refusal
      return joinRefused(refusal, request.memberId)
    }
  }

  #checkJoin(request: JoinGroup): void {
    const { minSessionTimeoutMs: min, maxSessionTimeoutMs: max } = this.#options
    const { sessionTimeoutMs, protocols } = request
    if (sessionTimeoutMs < min || sessionTimeoutMs > max) {
      throw new MoonMQError('SESSION_TIMEOUT_INVALID', { timeoutMs: sessionTimeoutMs, min, max })
    }
    const bytes = protocols.reduce((sum, { metadata }) => sum + metadata.length, 0)
    if (protocols.length > MAX_PROTOCOLS || bytes > MAX_GROUP_BYTES) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `${protocols.length} protocols with ${bytes} bytes are too many for one member` })
    }
  }

  #parkJoin(context: RequestContext, shard: GroupShard, entry: GroupEntry, request: JoinGroup): Promise<JoinedGroup> {
    const { clock, random } = this.#deps
    let others = 0
    for (const member of entry.machine.members()) {
      if (member.memberId !== request.memberId) others += member.protocols.reduce((sum, { metadata }) => sum + metadata.length, 0)
    }
    if (others > MAX_GROUP_BYTES) throw new MoonMQError('GROUP_LIMIT', { group: request.group, limit: entry.machine.memberCount })
    const ticket = ++this.#lastTicket
    const answer = this.#park<JoinedGroup>(context, shard, entry, ticket, request.memberId, 'join')
    entry.machine.join(
      {
        ...request,
        newMemberId: `${request.instanceId ?? context.clientId}-${newUuid(random)}`,
        clientId: context.clientId,
        clientHost: context.clientHost,
        // Frames are given back after the request; what a group keeps is its own.
        protocols: request.protocols.map(({ name, metadata }) => ({ name, metadata: Buffer.from(metadata) })),
        rebalanceTimeoutMs: request.rebalanceTimeoutMs > 0 ? request.rebalanceTimeoutMs : request.sessionTimeoutMs,
      },
      ticket,
      clock.monotonicMs(),
    )
    shard.settle(entry)
    return answer
  }

  #park<T extends JoinedGroup | SyncedGroup>(
    context: RequestContext,
    shard: GroupShard,
    entry: GroupEntry,
    ticket: number,
    memberId: string,
    kind: 'join' | 'sync',
  ): Promise<T> {
    return entry.park<T>(ticket, { memberId, kind }, context.signal, () => {
      if (shard.groups.get(entry.group) !== entry) return
      entry.machine.abandon(ticket, this.#deps.clock.monotonicMs())
      shard.settle(entry)
    })
  }

  async sync(context: RequestContext, request: SyncGroup): Promise<SyncedGroup> {
    const { shard, entry } = this.#member(request.group, request.memberId)
    if (context.signal.aborted) throw new MoonMQError('ABORTED')
    let bytes = 0
    for (const assignment of request.assignments.values()) bytes += assignment.length
    if (bytes > MAX_GROUP_BYTES)
      throw new MoonMQError('INVALID_REQUEST', { reason: `assignments of ${bytes} bytes exceed ${MAX_GROUP_BYTES}` })
    const ticket = ++this.#lastTicket
    const answer = this.#park<SyncedGroup>(context, shard, entry, ticket, request.memberId, 'sync')
    const assignments = new Map([...request.assignments].map(([memberId, assignment]) => [memberId, Buffer.from(assignment)]))
    entry.machine.sync({ ...request, assignments }, ticket, this.#deps.clock.monotonicMs())
    shard.settle(entry)
    return await answer
  }

  /** Throws GROUP_MEMBER_UNKNOWN when there is no such group. */
  #member(group: string, memberId: string): { shard: GroupShard; entry: GroupEntry } {
    const shard = this.#ready(group)
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    return { shard, entry }
  }

  async heartbeat(
    _context: RequestContext,
    request: { group: string; generation: number; memberId: string; instanceId: string | null },
  ): Promise<void> {
    const { entry } = this.#member(request.group, request.memberId)
    const nowMs = this.#deps.clock.monotonicMs()
    const refusal = entry.machine.heartbeat(request.memberId, request.instanceId, request.generation, nowMs)
    if (refusal !== null) throw refusal
  }

  async leave(
    _context: RequestContext,
    request: { group: string; members: readonly { memberId: string; instanceId: string | null }[] },
  ): Promise<readonly (MoonMQError | null)[]> {
    const shard = this.#ready(request.group)
    const entry = shard.groups.get(request.group)
    if (entry === undefined) {
      return request.members.map(({ memberId }) => new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: request.group, member: memberId }))
    }
    const nowMs = this.#deps.clock.monotonicMs()
    const outcomes = request.members.map(({ memberId, instanceId }) => entry.machine.leave(memberId, instanceId, nowMs))
    shard.settle(entry)
    return outcomes
  }

  // ---- offsets --------------------------------------------------------------------------------------------------------------

  async commit(_context: RequestContext, request: CommitOffsets): Promise<readonly (MoonMQError | null)[]> {
    try {
      const shard = await this.#writable(request.group, true)
      const entry = this.#committer(shard, request)
      const outcomes = this.#store(shard, entry, request)
      if (request.durable) await shard.whenDurable(entry)
      return outcomes
    } catch (error) {
      const refusal = asMoonMQError(error)
      if (refusal.code === 'INTERNAL') throw refusal
      return request.offsets.map(() => refusal)
    }
  }

  /** The group that may store what the request says. Throws what refuses it. */
  #committer(shard: GroupShard, request: CommitOffsets): GroupEntry {
    const { group, generation, memberId, instanceId } = request
    const entry = shard.groups.get(group)
    if (entry === undefined) {
      if (generation >= 0) throw new MoonMQError('ILLEGAL_GENERATION', { group, generation })
      return this.#create(shard, group)
    }
    const refusal = entry.machine.refuseCommit(memberId, instanceId, generation, this.#deps.clock.monotonicMs())
    if (refusal !== null) throw refusal
    return entry
  }

  #store(shard: GroupShard, entry: GroupEntry, request: CommitOffsets): (MoonMQError | null)[] {
    const nowMs = this.#deps.clock.nowMs()
    const records: NewRecord[] = []
    const accepted: { topic: string; partition: number; value: StoredOffset }[] = []
    const outcomes = request.offsets.map(({ topic, partition, value }) => {
      const image = this.#deps.metadata.image.topics.get(topic)
      if (image === undefined) return new MoonMQError('TOPIC_MISSING', { topic })
      if (image.partitions[partition] === undefined) return new MoonMQError('PARTITION_MISSING', { topic, partition })
      const size = Buffer.byteLength(value.metadata)
      const limit = this.#options.offsetMetadataMaxBytes
      if (size > limit) return new MoonMQError('OFFSET_METADATA_TOO_LARGE', { size, limit })
      if (!Number.isSafeInteger(value.offset) || value.offset < 0) {
        return new MoonMQError('INVALID_REQUEST', { reason: `${value.offset} is not an offset that a consumer can continue from` })
      }
      const { offset, leaderEpoch, metadata } = value
      const stored: StoredOffset = { offset, leaderEpoch, metadata, commitTimestampMs: nowMs, topicId: image.id }
      records.push({ key: offsetKey(request.group, topic, partition), value: offsetValue(stored), timestampMs: nowMs })
      accepted.push({ topic, partition, value: stored })
      return null
    })
    if (records.length > 0) {
      shard.append(entry, records)
      for (const { topic, partition, value } of accepted) entry.offsets.set(topic, partition, value)
    }
    // A group that was made for a commit of which nothing was stored, and a member that was heard from.
    shard.settle(entry)
    return outcomes
  }

  async committed(
    _context: RequestContext,
    request: { group: string; topics: readonly { topic: string; partitions: readonly number[] }[] | null },
  ): Promise<readonly CommittedOffset[]> {
    const { group, topics } = request
    const pending = this.#ready(group, true).groups.get(group)
    // Nobody reads an offset that a power cut can take back, nor one older than what was stored before the question.
    if (pending !== undefined) await this.#ready(group, true).whenDurable(pending)
    const offsets = this.#ready(group, true).groups.get(group)?.offsets
    if (topics === null) return offsets?.entries() ?? []
    return topics.flatMap(({ topic, partitions }) =>
      partitions.map((partition) => ({ topic, partition, value: offsets?.get(topic, partition) ?? null })),
    )
  }

  // ---- administration -------------------------------------------------------------------------------------------------------

  async describe(_context: RequestContext, groups: readonly string[]): Promise<readonly GroupDescription[]> {
    return await inTurns(this.#deps.clock, groups, (group) => {
      try {
        const entry = this.#ready(group, true).groups.get(group)
        return entry === undefined ? describeMissing(group, new MoonMQError('GROUP_MISSING', { group })) : describeGroup(entry.machine)
      } catch (error) {
        return describeMissing(group, asMoonMQError(error))
      }
    })
  }

  async list(
    _context: RequestContext,
    filter: { states: readonly string[]; kinds: readonly string[] },
  ): Promise<{ readonly groups: readonly GroupListing[]; readonly loading: boolean }> {
    const states = new Set(filter.states.map((state) => state.toLowerCase()))
    const kinds = new Set(filter.kinds.map((kind) => kind.toLowerCase()))
    const groups: GroupListing[] = []
    for (const shard of this.#shards) {
      for (const { machine } of shard.groups.values()) {
        const listing = listGroup(machine)
        if (states.size > 0 && !states.has(listing.state.toLowerCase())) continue
        if (kinds.size > 0 && !kinds.has(listing.kind)) continue
        groups.push(listing)
      }
    }
    return { groups, loading: this.#shards.some((shard) => shard.state === 'idle' || shard.state === 'loading') }
  }

  async delete(_context: RequestContext, groups: readonly string[]): Promise<readonly (MoonMQError | null)[]> {
    return await inTurns(this.#deps.clock, groups, async (group) => {
      try {
        await this.#delete(group)
        return null
      } catch (error) {
        return asMoonMQError(error)
      }
    })
  }

  async #delete(group: string): Promise<void> {
    const shard = this.#ready(group, true)
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MISSING', { group })
    if (entry.machine.state !== 'Empty') throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    shard.deleteOffsets(entry, entry.offsets.entries(), 'the group was deleted')
    if (shard.groups.get(group) === entry) shard.remove(entry, 'the group was deleted')
    shard.checkReady(group)
    await shard.whenDurable(entry)
  }

  async coordinator(_group: string): Promise<number> {
    return this.#options.nodeId
  }

  // ---- what happens by itself -----------------------------------------------------------------------------------------------

  #onMetadata(before: MetadataImage, after: MetadataImage): void {
    if (before.topicsById === after.topicsById) return
    for (const [id, topic] of before.topicsById) {
      if (after.topicsById.has(id)) continue
      for (const shard of this.#shards) {
        for (const entry of [...shard.groups.values()]) {
          const gone = entry.offsets.ofTopic(topic.name)
          if (gone.length > 0) shard.deleteOffsets(entry, gone, `topic "${topic.name}" was deleted`)
        }
      }
    }
  }

  #armSweep(): void {
    if (this.#closed) return
    this.#sweepTimer = this.#deps.clock.setTimer(this.#options.retentionCheckIntervalMs, () => {
      this.#expireOffsets(0)
      this.#armSweep()
    })
  }

  /** One shard a turn, so that a million offsets do not hold up requests. */
  #expireOffsets(from: number): void {
    const shard = this.#shards[from]
    if (shard === undefined || this.#closed) return
    const nowMs = this.#deps.clock.nowMs()
    for (const entry of [...shard.groups.values()]) {
      const expired = expiredOffsets(entry.machine, entry.stateChangedAtMs, entry.offsets.all(), nowMs, this.#options.offsetsRetentionMs)
      // A group that was left by its members and never committed goes here too.
      shard.deleteOffsets(entry, expired, 'their retention is over')
    }
    this.#deps.clock.defer(() => this.#expireOffsets(from + 1))
  }

  /** Requests that wait are answered; nothing is stored any more. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#unsubscribe()
    this.#unobserve()
    this.#sweepTimer?.cancel()
    await Promise.all(this.#shards.map((shard) => shard.close()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
