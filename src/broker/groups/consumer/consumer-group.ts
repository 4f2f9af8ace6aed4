import { MoonMQError } from '../../../core/errors.ts'
import type { CommitClaim, GroupEffect, GroupMachine, MemberView, StoredPair } from '../machine.ts'
import { type Holding, listed } from './assignment.ts'
import { ClassicFace } from './classic-face.ts'
import { ConsumerCore, type ConsumerState } from './consumer-core.ts'
import { ConsumerMember } from './consumer-member.ts'
import {
  type ConsumerBeat,
  type ConsumerBeatAnswer,
  type ConsumerDeps,
  type ConsumerOptions,
  JOIN_EPOCH,
  STATIC_LEAVE_EPOCH,
} from './consumer-types.ts'
import { fence } from './fence.ts'

/**
 * One group of the consumer protocol (KIP-848): members say in heartbeats what they subscribe to and what they own, the broker assigns.
 *
 *   Empty ──join──► Assigning ──target made──► Reconciling ──everybody has what it is to have──► Stable
 *     ▲                 ▲                                                                            │
 *     └──nobody left    └───────────── join, leave, session over, other subscriptions or topics ─────┘
 */
export class ConsumerGroup implements GroupMachine {
  readonly group: string
  readonly kind = 'consumer'
  readonly protocolType = 'consumer'
  readonly core: ConsumerCore
  readonly classic: ClassicFace

  constructor(group: string, deps: ConsumerDeps, options: ConsumerOptions) {
    this.group = group
    this.core = new ConsumerCore(group, deps, options)
    this.classic = new ClassicFace(this.core)
  }

  get state(): ConsumerState {
    return this.core.state
  }

  get epoch(): number {
    return this.core.epoch
  }

  get memberCount(): number {
    return this.core.members.size
  }

  get isVacant(): boolean {
    return this.core.members.size === 0
  }

  *views(): IterableIterator<MemberView> {
    for (const { memberId, instanceId, clientId, clientHost, subscribedTopics, assigned } of this.core.members.all()) {
      yield { memberId, instanceId, clientId, clientHost, topics: subscribedTopics, assigned }
    }
  }

  // ---- heartbeats -----------------------------------------------------------------------------------------------------------

  /** Throws what refuses it; nothing has changed then. */
  heartbeat(beat: ConsumerBeat, nowMs: number): ConsumerBeatAnswer {
    if (beat.memberEpoch < JOIN_EPOCH) return this.#leave(beat, nowMs)
    const { core } = this
    if (beat.subscribedRegex !== null) core.subscriptions.check(beat.subscribedRegex)
    const former = this.#former(beat)
    this.#checkSize(former)
    const member = this.#admit(former, beat)
    const before = member.assigned
    const isNew = former === undefined
    const elected = core.elected()
    const changed = core.update(member, updateOf(beat))
    core.refresh(changed || isNew || core.elected() !== elected)
    core.assign(nowMs)
    core.advance(member, beat.owned, nowMs, changed)
    const timing = core.deps.timing(this.group)
    member.sessionDeadlineMs = nowMs + timing.sessionTimeoutMs
    member.joinDeadlineMs = Number.POSITIVE_INFINITY
    member.syncDeadlineMs = Number.POSITIVE_INFINITY
    core.finish(isNew ? `member ${member.memberId} joined` : `member ${member.memberId} was heard`)
    const isSubscribing = beat.subscribedTopics !== null || beat.subscribedRegex !== null
    const isWhole = beat.memberEpoch === JOIN_EPOCH || (beat.rebalanceTimeoutMs !== null && isSubscribing && beat.owned !== null)
    const isTold = isWhole || !samePartitions(before, member.assigned)
    return {
      memberId: member.memberId,
      memberEpoch: member.epoch,
      heartbeatIntervalMs: timing.heartbeatIntervalMs,
      assignment: isTold ? listed(member.assigned) : null,
    }
  }

  /** The member that the request speaks for; undefined: it joins. */
  #former(beat: ConsumerBeat): ConsumerMember | undefined {
    const { members } = this.core
    const isJoin = beat.memberEpoch === JOIN_EPOCH
    if (beat.instanceId === null) {
      const member = members.get(beat.memberId)
      if (member === undefined && !isJoin) throw this.#unknown(beat.memberId)
      member?.checkEpoch(this.group, beat.memberEpoch, beat.owned)
      return member
    }
    const holder = members.ofInstance(beat.instanceId)
    if (holder === undefined) {
      if (!isJoin) throw this.#unknown(beat.memberId)
      return members.get(beat.memberId)
    }
    if (holder.memberId === beat.memberId) {
      holder.checkEpoch(this.group, beat.memberEpoch, beat.owned)
      return holder
    }
    const { instanceId: instance } = beat
    if (!isJoin) throw new MoonMQError('FENCED_INSTANCE_ID', { instance, group: this.group })
    // One that speaks the classic protocol gives way to a process of the new one; it may not have left.
    if (holder.epoch === STATIC_LEAVE_EPOCH || holder.classic !== null) return holder
    throw new MoonMQError('UNRELEASED_INSTANCE_ID', { instance, group: this.group, member: holder.memberId })
  }

  #checkSize(former: ConsumerMember | undefined): void {
    const limit = this.core.options.maxMembers
    if (former === undefined && this.core.members.size >= limit) throw new MoonMQError('GROUP_LIMIT', { group: this.group, limit })
  }

  #admit(former: ConsumerMember | undefined, beat: ConsumerBeat): ConsumerMember {
    const { members } = this.core
    if (former?.memberId === beat.memberId && former.epoch !== STATIC_LEAVE_EPOCH) return former
    if (former === undefined) {
      const member = new ConsumerMember(beat.memberId)
      members.add(member)
      return member
    }
    const successor = former.succeededBy(beat.memberId)
    members.replace(former, successor)
    return successor
  }

  #leave(beat: ConsumerBeat, nowMs: number): ConsumerBeatAnswer {
    const { members } = this.core
    const member = beat.instanceId === null ? members.get(beat.memberId) : members.ofInstance(beat.instanceId)
    if (member === undefined) throw this.#unknown(beat.memberId)
    if (beat.instanceId !== null && member.memberId !== beat.memberId) {
      throw new MoonMQError('FENCED_INSTANCE_ID', { instance: beat.instanceId, group: this.group })
    }
    if (beat.memberEpoch === STATIC_LEAVE_EPOCH) {
      // Its session goes on: it has that long to come back.
      members.park(member, STATIC_LEAVE_EPOCH)
      member.revokeDeadlineMs = Number.POSITIVE_INFINITY
      this.core.finish(`static member ${beat.instanceId} left for a while`)
    } else {
      fence(this.core, [member], `member ${member.memberId} left`, nowMs)
    }
    return { memberId: beat.memberId, memberEpoch: beat.memberEpoch, heartbeatIntervalMs: 0, assignment: null }
  }

  #unknown(member: string): MoonMQError {
    return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member })
  }

  // ---- offsets --------------------------------------------------------------------------------------------------------------

  /**
   * A member commits in its epoch. One that has not heard of a new epoch yet may commit what it was given at or before the epoch that it
   * knows and still has: nobody else can have read there (KIP-1251).
   */
  refuseCommit(claim: CommitClaim, _nowMs: number): MoonMQError | null {
    const { members } = this.core
    if (claim.epoch < 0 && members.size === 0) return null
    const member = members.get(claim.memberId)
    if (member === undefined) return this.#unknown(claim.memberId)
    if (member.classic !== null) {
      return claim.epoch === member.epoch ? null : new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation: claim.epoch })
    }
    if (claim.understandsEpochs === false) {
      return new MoonMQError('UNSUPPORTED_VERSION', {
        version: '8 or lower',
        api: 'OffsetCommit',
        supported: '9 and above in consumer groups',
      })
    }
    if (claim.epoch === member.epoch) return null
    const { topics } = this.core.deps.image()
    const isHeld = ({ topic, partition }: { topic: string; partition: number }) => {
      const since = member.assigned.get(topics.get(topic)?.id ?? '')?.get(partition)
      return since !== undefined && since <= claim.epoch
    }
    if (claim.epoch > 0 && claim.epoch < member.epoch && claim.offsets.every(isHeld)) return null
    return this.#stale(member, claim.epoch)
  }

  refuseFetch(memberId: string | null, epoch: number): MoonMQError | null {
    if (memberId === null && epoch < 0) return null
    const member = this.core.members.get(memberId ?? '')
    if (member === undefined) return this.#unknown(memberId ?? '')
    if (epoch === member.epoch) return null
    if (member.classic !== null) return new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation: epoch })
    return this.#stale(member, epoch)
  }

  #stale(member: ConsumerMember, epoch: number): MoonMQError {
    return new MoonMQError('STALE_MEMBER_EPOCH', { group: this.group, member: member.memberId, epoch, current: member.epoch })
  }

  subscribedTopics(): ReadonlySet<string> {
    return this.core.subscriptions.allNames(this.core.members.all())
  }

  // ---- for the shell --------------------------------------------------------------------------------------------------------

  drain(): GroupEffect[] {
    return this.core.drain()
  }

  takeRecords(_stateChangedAtMs: number, nowMs: number): readonly StoredPair[] {
    return this.core.takeRecords(nowMs)
  }

  nextDeadlineMs(): number {
    let next = Number.POSITIVE_INFINITY
    for (const member of this.core.members.all()) next = Math.min(next, member.nextDeadlineMs())
    return next
  }

  tick(nowMs: number): void {
    const overdue = [...this.core.members.all()].filter((member) => member.nextDeadlineMs() <= nowMs)
    if (overdue.length === 0) return
    const reasons = overdue.map((member) => `member ${member.memberId} is out: ${member.overdue(nowMs)}`)
    fence(this.core, overdue, reasons.join('; '), nowMs)
  }

  kill(reason: string): void {
    this.core.kill(reason)
  }
}

/** What the request says of its member, without what it leaves as it is. */
function updateOf(beat: ConsumerBeat) {
  const { clientId, clientHost } = beat
  return {
    clientId,
    clientHost,
    classic: null,
    ...(beat.instanceId === null ? {} : { instanceId: beat.instanceId }),
    ...(beat.rackId === null ? {} : { rackId: beat.rackId }),
    ...(beat.rebalanceTimeoutMs === null ? {} : { rebalanceTimeoutMs: beat.rebalanceTimeoutMs }),
    ...(beat.subscribedTopics === null ? {} : { subscribedTopics: [...new Set(beat.subscribedTopics)].sort() }),
    ...(beat.subscribedRegex === null ? {} : { subscribedRegex: beat.subscribedRegex }),
    ...(beat.assignor === null ? {} : { assignor: beat.assignor }),
  }
}

function samePartitions(left: Holding, right: Holding): boolean {
  if (left.size !== right.size) return false
  for (const [topic, partitions] of left) {
    const others = right.get(topic)
    if (others === undefined || others.size !== partitions.size) return false
    for (const partition of partitions.keys()) if (!others.has(partition)) return false
  }
  return true
}
