import type { Uuid } from '../../../core/uuid.ts'

/** Partitions by topic id. Topics without partitions are left out. */
export type Assignment = ReadonlyMap<Uuid, ReadonlySet<number>>

/** Partitions by topic id, each with the member epoch at which it was given. */
export type Holding = ReadonlyMap<Uuid, ReadonlyMap<number, number>>

/** As it is written on the wire and in records. */
export interface TopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

/** A member as an assignor sees it. */
export interface AssigningMember {
  readonly memberId: string
  readonly instanceId: string | null
  /** Topics that exist and that it asks for. */
  readonly topics: ReadonlySet<Uuid>
  /** What it was to have so far. */
  readonly former: Assignment
}

export const NO_ASSIGNMENT: Assignment = new Map()
export const NO_HOLDING: Holding = new Map()

export function sameAssignment(left: Assignment, right: Assignment): boolean {
  if (left.size !== right.size) return false
  for (const [topic, partitions] of left) {
    const others = right.get(topic)
    if (others === undefined || others.size !== partitions.size) return false
    for (const partition of partitions) if (!others.has(partition)) return false
  }
  return true
}

export function sameHolding(left: Holding, right: Holding): boolean {
  if (left.size !== right.size) return false
  for (const [topic, partitions] of left) {
    const others = right.get(topic)
    if (others === undefined || others.size !== partitions.size) return false
    for (const [partition, epoch] of partitions) if (others.get(partition) !== epoch) return false
  }
  return true
}

/** Sorted, so that the same assignment is always the same bytes. */
export function listed(partitions: ReadonlyMap<Uuid, ReadonlySet<number> | ReadonlyMap<number, number>>): TopicPartitions[] {
  return [...partitions]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([topicId, each]) => ({ topicId, partitions: [...each.keys()].sort((left, right) => left - right) }))
}

export function assignmentOf(list: readonly TopicPartitions[]): Assignment {
  return new Map(list.filter(({ partitions }) => partitions.length > 0).map(({ topicId, partitions }) => [topicId, new Set(partitions)]))
}

/** Every one of the partitions named is held. */
export function holdsAll(holding: Holding, list: readonly TopicPartitions[]): boolean {
  return list.every(({ topicId, partitions }) => partitions.every((partition) => holding.get(topicId)?.has(partition) === true))
}

/** One of the partitions named is held. */
export function holdsSome(holding: Holding, list: readonly TopicPartitions[]): boolean {
  return list.some(({ topicId, partitions }) => partitions.some((partition) => holding.get(topicId)?.has(partition) === true))
}
