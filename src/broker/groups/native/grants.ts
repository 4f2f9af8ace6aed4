import type { Uuid } from '../../../core/uuid.ts'
import type { GrantedPartitions } from '../../ports.ts'
import type { Assignment } from '../consumer/assignment.ts'

/** What a member may read, by topic id: partitions with the epoch at which each was granted. */
export type Grants = ReadonlyMap<Uuid, GrantedPartitions>

export const NO_GRANTS: Grants = new Map()

/** Who holds a partition. */
export class Holders<T> {
  readonly #holders = new Map<string, T>()

  add(grants: Grants, holder: T): void {
    for (const [topicId, partitions] of grants) {
      for (const partition of partitions.keys()) this.#holders.set(`${topicId}/${partition}`, holder)
    }
  }

  of(topicId: Uuid, partition: number): T | undefined {
    return this.#holders.get(`${topicId}/${partition}`)
  }
}

/**
 * The part of a target that nobody else holds. What the member has already keeps the epoch of its grant. `waits`: some of the target is
 * still held by another.
 */
export function grantsOf(
  target: Assignment,
  former: Grants,
  epoch: number,
  isFree: (topicId: Uuid, partition: number) => boolean,
): { readonly grants: Grants; readonly waits: boolean } {
  const grants = new Map<Uuid, Map<number, number>>()
  let waits = false
  for (const [topicId, partitions] of target) {
    const had = former.get(topicId)
    const granted = new Map<number, number>()
    for (const partition of partitions) {
      if (isFree(topicId, partition)) granted.set(partition, had?.get(partition) ?? epoch)
      else waits = true
    }
    if (granted.size > 0) grants.set(topicId, granted)
  }
  return { grants, waits }
}

/** What of the grants is named. */
export function keptOf(grants: Grants, named: ReadonlyMap<Uuid, { has(partition: number): boolean }>): Grants {
  const kept = new Map<Uuid, GrantedPartitions>()
  for (const [topicId, partitions] of grants) {
    const names = named.get(topicId)
    const some = names === undefined ? [] : [...partitions].filter(([partition]) => names.has(partition))
    if (some.length > 0) kept.set(topicId, new Map(some))
  }
  return kept
}

/** Both together; where both have a partition, the second says since when. */
export function union(left: Grants, right: Grants): Grants {
  const all = new Map<Uuid, GrantedPartitions>(left)
  for (const [topicId, partitions] of right) all.set(topicId, new Map([...(left.get(topicId) ?? []), ...partitions]))
  return all
}

/** Some of it is not in the target. */
export function exceeds(grants: Grants, target: Assignment): boolean {
  for (const [topicId, partitions] of grants) {
    const wanted = target.get(topicId)
    for (const partition of partitions.keys()) if (wanted?.has(partition) !== true) return true
  }
  return false
}
