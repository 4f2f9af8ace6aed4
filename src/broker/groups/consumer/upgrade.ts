import type { Uuid } from '../../../core/uuid.ts'
import type { MetadataImage } from '../../../metadata/types.ts'
import type { ClassicGroup } from '../classic-group.ts'
import type { ClassicMember } from '../classic-members.ts'
import { assignedPartitionsOf, type NamedPartitions, subscriptionOf } from '../classic-subscription.ts'
import { NO_TOPICS } from '../metadata-hash.ts'
import { ConsumerGroup } from './consumer-group.ts'
import { ConsumerMember } from './consumer-member.ts'
import type { ConsumerDeps, ConsumerOptions } from './consumer-types.ts'

/**
 * A classic group with members becomes a consumer group: everybody keeps what the leader gave it, and goes on in the classic protocol. Null:
 * the policy or the size forbids it, or the members are no consumers. Requests that wait in the classic group are told to join again.
 */
export function upgraded(classic: ClassicGroup, deps: ConsumerDeps, options: ConsumerOptions, nowMs: number): ConsumerGroup | null {
  const { migrationPolicy, maxMembers } = options
  if (migrationPolicy !== 'bidirectional' && migrationPolicy !== 'upgrade') return null
  if (classic.protocolType !== 'consumer' || classic.memberCount > maxMembers) return null
  const group = new ConsumerGroup(classic.group, deps, options)
  const taken = new Set<string>()
  for (const member of classic.members()) {
    const converted = convert(member, classic, deps.image(), taken)
    if (converted === null) return null
    converted.sessionDeadlineMs = nowMs + member.sessionTimeoutMs
    group.core.members.add(converted)
    group.core.members.aim(
      converted.memberId,
      new Map([...converted.assigned].map(([topic, partitions]) => [topic, new Set(partitions.keys())])),
    )
  }
  const { generation } = classic
  group.core.startAt({ epoch: generation, assignmentEpoch: generation, metadataHash: NO_TOPICS })
  classic.retire()
  return group
}

function convert(member: ClassicMember, classic: ClassicGroup, image: MetadataImage, taken: Set<string>): ConsumerMember | null {
  const protocol = classic.protocol ?? member.protocols[0]?.name ?? null
  const subscription = subscriptionOf(member.metadata(protocol))
  const assigned = assignedPartitionsOf(member.assignment.length > 0 ? member.assignment : member.formerAssignment)
  if (subscription === null || assigned === null) return null
  const converted = new ConsumerMember(member.memberId)
  converted.instanceId = member.instanceId
  converted.rackId = subscription.rackId
  converted.clientId = member.clientId
  converted.clientHost = member.clientHost
  converted.subscribedTopics = [...new Set(subscription.topics)].sort()
  converted.rebalanceTimeoutMs = member.rebalanceTimeoutMs
  converted.classic = { sessionTimeoutMs: member.sessionTimeoutMs, protocols: member.protocols }
  converted.epoch = classic.generation
  converted.previousEpoch = classic.generation
  // Before the leader has assigned anew, a member has what it had; after a restart, what it said that it has.
  const held = assigned.length > 0 ? assigned : subscription.ownedPartitions
  converted.assigned = holdingOf(held, classic.generation, image, taken)
  return converted
}

/** What a leader gave to two members stays with the first one. */
function holdingOf(assigned: readonly NamedPartitions[], epoch: number, image: MetadataImage, taken: Set<string>) {
  const holding = new Map<Uuid, Map<number, number>>()
  for (const { topic, partitions } of assigned) {
    const id = image.topics.get(topic)?.id
    if (id === undefined) continue
    for (const partition of partitions) {
      const name = `${id}-${partition}`
      if (taken.has(name)) continue
      taken.add(name)
      const of = holding.get(id)
      if (of === undefined) holding.set(id, new Map([[partition, epoch]]))
      else of.set(partition, epoch)
    }
  }
  return holding
}
