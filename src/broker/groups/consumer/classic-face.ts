import { MoonMQError } from '../../../core/errors.ts'
import type { JoinedGroup, SyncedGroup } from '../../ports.ts'
import { encodeAssignment, type NamedPartitions, type Subscription, subscriptionOf } from '../classic-subscription.ts'
import { inItsWords, joinRefused, type MemberJoin, type MemberSync } from '../classic-types.ts'
import type { TopicPartitions } from './assignment.ts'
import type { ConsumerCore } from './consumer-core.ts'
import { ConsumerMember } from './consumer-member.ts'
import { downgrade, fence, mayDowngrade, named } from './fence.ts'

const NEVER = Number.POSITIVE_INFINITY
const CONSUMER = 'consumer'

/**
 * Members of a consumer group that still speak the classic protocol (KIP-848): their epoch is the generation that they are told, they have
 * no leader, and when there is something new for them a heartbeat says to join again, which shows what they own and takes them a step on.
 */
export class ClassicFace {
  readonly #core: ConsumerCore

  constructor(core: ConsumerCore) {
    this.#core = core
  }

  // ---- join -----------------------------------------------------------------------------------------------------------------

  /** Throws what refuses it; nothing has changed then. */
  join(join: MemberJoin, nowMs: number): JoinedGroup {
    const core = this.#core
    const subscription = this.#check(join)
    if (join.memberId === '' && join.requireKnownMemberId && join.instanceId === null) {
      return joinRefused(new MoonMQError('MEMBER_ID_REQUIRED'), join.newMemberId)
    }
    const { member, isNew, replaced } = this.#admit(join)
    const { instanceId, clientId, clientHost, rebalanceTimeoutMs, sessionTimeoutMs, protocols } = join
    const changed = core.update(member, {
      clientId,
      clientHost,
      rebalanceTimeoutMs,
      subscribedTopics: [...new Set(subscription.topics)].sort(),
      subscribedRegex: '',
      classic: sameSide(member, join) ? member.classic : { sessionTimeoutMs, protocols },
      ...(instanceId === null ? {} : { instanceId }),
      ...(subscription.rackId === null ? {} : { rackId: subscription.rackId }),
    })
    core.refresh(changed || isNew)
    core.assign(nowMs)
    core.advance(member, this.#owned(subscription.ownedPartitions), nowMs, changed)
    member.sessionDeadlineMs = nowMs + sessionTimeoutMs
    member.revokeDeadlineMs = NEVER
    member.joinDeadlineMs = NEVER
    member.syncDeadlineMs = nowMs + rebalanceTimeoutMs
    if (replaced?.classic === null && mayDowngrade(core)) {
      // Whoever has not come as far as the target has to be told to join; if all have, nobody needs to notice.
      const isSettled = [...core.members.all()].every((each) => each.isReconciledTo(core.assignmentEpoch))
      downgrade(core, `static member ${instanceId} came back with the classic protocol`, nowMs, !isSettled)
    } else core.finish(`member ${member.memberId} joined with the classic protocol${inItsWords(join.reason)}`)
    return {
      error: null,
      generation: member.epoch,
      protocolType: CONSUMER,
      protocol: protocols[0]?.name ?? '',
      leader: '',
      skipAssignment: false,
      memberId: member.memberId,
      members: [],
    }
  }

  #check({ protocolType, protocols, memberId, instanceId }: MemberJoin): Subscription {
    const { members, options, group } = this.#core
    const isKnown = members.get(memberId) !== undefined || (instanceId !== null && members.ofInstance(instanceId) !== undefined)
    if (!isKnown && members.size >= options.maxMembers) throw new MoonMQError('GROUP_LIMIT', { group, limit: options.maxMembers })
    const [first] = protocols
    const subscription = first === undefined ? null : subscriptionOf(first.metadata)
    if (protocolType !== CONSUMER || subscription === null || !this.#shares(protocols)) {
      throw new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group })
    }
    return subscription
  }

  /** Some protocol of the list is known to every member that speaks the classic protocol, the one who joins again too, as in a classic group. */
  #shares(protocols: MemberJoin['protocols']): boolean {
    const members = [...this.#core.members.all()].filter((member) => member.classic !== null)
    return protocols.some(({ name }) => members.every(({ classic }) => classic?.protocols.some((each) => each.name === name)))
  }

  #admit(join: MemberJoin): { member: ConsumerMember; isNew: boolean; replaced: ConsumerMember | null } {
    const { members, group } = this.#core
    const id = join.memberId === '' ? join.newMemberId : join.memberId
    const holder = join.instanceId === null ? members.get(id) : members.ofInstance(join.instanceId)
    if (holder === undefined) {
      if (join.instanceId !== null && join.memberId !== '') throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: id })
      const member = new ConsumerMember(id)
      members.add(member)
      return { member, isNew: true, replaced: null }
    }
    if (holder.memberId === join.memberId || join.instanceId === null) return { member: holder, isNew: false, replaced: null }
    if (join.memberId !== '') throw new MoonMQError('FENCED_INSTANCE_ID', { instance: join.instanceId, group })
    const successor = holder.succeededBy(join.newMemberId)
    members.replace(holder, successor)
    return { member: successor, isNew: false, replaced: holder }
  }

  #owned(list: readonly NamedPartitions[]): TopicPartitions[] {
    const { topics } = this.#core.deps.image()
    return list.flatMap(({ topic, partitions }) => {
      const topicId = topics.get(topic)?.id
      return topicId === undefined ? [] : [{ topicId, partitions }]
    })
  }

  // ---- sync, heartbeat, leave -----------------------------------------------------------------------------------------------

  sync(sync: MemberSync, nowMs: number): SyncedGroup {
    const { group } = this.#core
    const member = this.#member(sync.memberId, sync.instanceId, sync.generation)
    const protocol = member.classic?.protocols[0]
    const isOther = (asked: string | null, own: string) => asked !== null && asked !== own
    if (isOther(sync.protocolType, CONSUMER) || isOther(sync.protocol, protocol?.name ?? '')) {
      throw new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group })
    }
    // Before the others' assignment is made there is nothing that joining again could tell.
    if (this.#core.assignmentEpoch > member.epoch && member.state !== 'unrevoked') throw this.#joinAgain(member, nowMs)
    member.syncDeadlineMs = NEVER
    this.#heard(member, nowMs)
    const version = protocol === undefined ? 0 : (subscriptionOf(protocol.metadata)?.version ?? 0)
    const assignment = encodeAssignment(version, named(this.#core, member.assigned))
    return { protocolType: CONSUMER, protocol: protocol?.name ?? '', assignment }
  }

  heartbeat(memberId: string, instanceId: string | null, generation: number, nowMs: number): MoonMQError | null {
    const member = this.#member(memberId, instanceId, generation)
    this.#heard(member, nowMs)
    const isFree = member.state === 'unreleased' && !this.#core.waitsForOthers(member)
    if (member.epoch < this.#core.assignmentEpoch || member.state === 'unrevoked' || isFree) return this.#joinAgain(member, nowMs)
    return null
  }

  /** One outcome a member, null = gone. Members of the consumer protocol too: Kafka's tools take members away so. */
  leave(
    leaving: readonly { readonly memberId: string; readonly instanceId: string | null; readonly reason?: string | null }[],
    nowMs: number,
  ): (MoonMQError | null)[] {
    const gone = new Set<ConsumerMember>()
    const told: string[] = []
    const outcomes = leaving.map(({ memberId, instanceId, reason = null }) => {
      const member = this.#leaver(memberId, instanceId)
      if (member instanceof MoonMQError) return member
      gone.add(member)
      told.push(`member ${member.memberId} left${inItsWords(reason)}`)
      return null
    })
    if (gone.size > 0) fence(this.#core, [...gone], told.join(', '), nowMs)
    return outcomes
  }

  #leaver(memberId: string, instanceId: string | null): ConsumerMember | MoonMQError {
    const { members, group } = this.#core
    const member = instanceId === null ? members.get(memberId) : members.ofInstance(instanceId)
    if (member === undefined) return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    if (instanceId === null || memberId === '' || member.memberId === memberId) return member
    return new MoonMQError('FENCED_INSTANCE_ID', { instance: instanceId, group })
  }

  #heard(member: ConsumerMember, nowMs: number): void {
    member.sessionDeadlineMs = nowMs + (member.classic?.sessionTimeoutMs ?? 0)
  }

  #joinAgain(member: ConsumerMember, nowMs: number): MoonMQError {
    member.joinDeadlineMs = Math.min(member.joinDeadlineMs, nowMs + member.rebalanceTimeoutMs)
    return new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.#core.group })
  }

  #member(memberId: string, instanceId: string | null, generation: number): ConsumerMember {
    const { members, group } = this.#core
    const member = instanceId === null ? members.get(memberId) : members.ofInstance(instanceId)
    if (member === undefined) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    if (instanceId !== null && member.memberId !== memberId) throw new MoonMQError('FENCED_INSTANCE_ID', { instance: instanceId, group })
    if (member.classic === null) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    if (generation !== member.epoch) throw new MoonMQError('ILLEGAL_GENERATION', { group, generation })
    return member
  }
}

function sameSide({ classic }: ConsumerMember, { sessionTimeoutMs, protocols }: MemberJoin): boolean {
  if (classic === null || classic.sessionTimeoutMs !== sessionTimeoutMs || classic.protocols.length !== protocols.length) return false
  return protocols.every(({ name, metadata }, at) => {
    const known = classic.protocols[at]
    return known !== undefined && known.name === name && known.metadata.equals(metadata)
  })
}
