import type { Uuid } from '../../../core/uuid.ts'
import type { AssigningMember, Assignment } from './assignment.ts'
import { assignUniformly } from './uniform.ts'

/** Gives every partition to one member that asks for its topic. `partitions`: how many each topic has. The same input, the same answer. */
export type Assignor = (members: readonly AssigningMember[], partitions: ReadonlyMap<Uuid, number>) => ReadonlyMap<string, Assignment>

/** Kafka's names of them; the order is that of `group.consumer.assignors` when nothing is set. */
export const ASSIGNORS: Readonly<Record<string, Assignor>> = { uniform: assignUniformly, range: assignRanges }

/**
 * Each topic in ranges over its subscribers, which come in the same order for every topic: where topics have as many partitions and
 * the same subscribers, equal numbers meet at one member, so they can be joined. Static members come first, by instance id, and so
 * keep their ranges when they restart.
 */
function assignRanges(members: readonly AssigningMember[], partitions: ReadonlyMap<Uuid, number>): ReadonlyMap<string, Assignment> {
  const ordered = [...members].sort(byInstanceThenId)
  const subscribers = new Map<Uuid, AssigningMember[]>()
  for (const member of ordered) {
    for (const topic of member.topics) {
      const of = subscribers.get(topic)
      if (of === undefined) subscribers.set(topic, [member])
      else of.push(member)
    }
  }
  const assigned = new Map<string, Map<Uuid, Set<number>>>(members.map(({ memberId }) => [memberId, new Map()]))
  for (const [topic, of] of subscribers) {
    const count = partitions.get(topic) ?? 0
    const least = Math.floor(count / of.length)
    const extra = count % of.length
    let next = 0
    of.forEach(({ memberId }, at) => {
      const end = next + least + (at < extra ? 1 : 0)
      if (end > next) assigned.get(memberId)?.set(topic, new Set(Array.from({ length: end - next }, (_, index) => next + index)))
      next = end
    })
  }
  return assigned
}

function byInstanceThenId(left: AssigningMember, right: AssigningMember): number {
  if (left.instanceId !== null && right.instanceId !== null) return left.instanceId < right.instanceId ? -1 : 1
  if (left.instanceId !== null || right.instanceId !== null) return left.instanceId !== null ? -1 : 1
  return left.memberId < right.memberId ? -1 : 1
}
