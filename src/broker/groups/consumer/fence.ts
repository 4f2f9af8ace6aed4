import { ClassicGroup } from '../classic-group.ts'
import { encodeAssignment, type NamedPartitions, subscriptionOf } from '../classic-subscription.ts'
import type { MemberJoin } from '../classic-types.ts'
import { type Assignment, type Holding, listed, NO_HOLDING } from './assignment.ts'
import type { ConsumerCore } from './consumer-core.ts'
import type { ConsumerMember } from './consumer-member.ts'

/**
 * Takes members out. Where only members of the classic protocol are left, the group goes back to that protocol if the policy lets it, and
 * they agree on everything anew.
 */
export function fence(core: ConsumerCore, members: readonly ConsumerMember[], reason: string, nowMs: number): void {
  core.remove(members)
  // In the epoch where they are, so that they hear of a rebalance and not of a generation that they never were in.
  if (mayDowngrade(core)) {
    downgrade(core, reason, nowMs, true)
    return
  }
  // The target without them is made when the next member is heard from.
  core.refresh(true)
  // Nobody is left whom it could disturb.
  if (core.members.size === 0) core.assign(nowMs)
  core.finish(reason)
}

/** All members speak the classic protocol, and the policy lets the group follow them. */
export function mayDowngrade(core: ConsumerCore): boolean {
  const { migrationPolicy, classic } = core.options
  if (core.members.size === 0 || (migrationPolicy !== 'bidirectional' && migrationPolicy !== 'downgrade')) return false
  for (const member of core.members.all()) if (member.classic === null) return false
  return core.members.size <= classic.maxMembers
}

/** A classic group goes on with the members and what they have, not what they were to have: some of that is still with others. */
export function downgrade(core: ConsumerCore, reason: string, nowMs: number, rebalances: boolean): void {
  const classic = ClassicGroup.adopt(core.group, core.options.classic, core.epoch, [...core.members.all()].map(joinOf), nowMs)
  for (const member of classic.members()) {
    const held = core.members.get(member.memberId)
    const version = subscriptionOf(member.metadata(classic.protocol))?.version ?? 0
    member.assignment = encodeAssignment(version, [
      ...named(core, held?.assigned ?? NO_HOLDING),
      ...named(core, held?.revoking ?? NO_HOLDING),
    ])
  }
  if (rebalances) classic.rebalance(reason, nowMs)
  core.effect({ kind: 'replace', machine: classic, reason })
}

function joinOf(member: ConsumerMember): MemberJoin {
  const { memberId, instanceId, clientId, clientHost, rebalanceTimeoutMs, classic } = member
  return {
    memberId,
    newMemberId: memberId,
    instanceId,
    clientId,
    clientHost,
    protocolType: 'consumer',
    protocols: classic?.protocols ?? [],
    sessionTimeoutMs: classic?.sessionTimeoutMs ?? rebalanceTimeoutMs,
    rebalanceTimeoutMs,
    requireKnownMemberId: false,
    supportsSkippingAssignment: false,
    reason: null,
  }
}

/** Topics that are gone are left out. */
export function named(core: ConsumerCore, partitions: Assignment | Holding): NamedPartitions[] {
  const { topicsById } = core.deps.image()
  return listed(partitions).flatMap(({ topicId, partitions: numbers }) => {
    const topic = topicsById.get(topicId)?.name
    return topic === undefined ? [] : [{ topic, partitions: numbers }]
  })
}
