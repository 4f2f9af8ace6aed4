import type { Uuid } from '../../core/uuid.ts'

/** Partitions by topic id, ascending. */
export type ShareAssignment = ReadonlyMap<Uuid, readonly number[]>

export interface AssignableMember {
  readonly memberId: string
  /** Topics that it reads. */
  readonly topics: ReadonlySet<Uuid>
  /** What it has now. */
  readonly current: ShareAssignment
}

export interface AssignableTopic {
  readonly id: Uuid
  readonly partitions: number
}

/**
 * The assignor `simple` of share groups: of each topic every member that reads it gets a partition and every partition a member, as evenly as
 * can be; with more members than partitions, members share. What a member has it keeps as far as that goes.
 */
export function assignSimply(
  members: readonly AssignableMember[],
  topics: readonly AssignableTopic[],
): ReadonlyMap<string, ShareAssignment> {
  const result = new Map<string, Map<Uuid, readonly number[]>>(members.map(({ memberId }) => [memberId, new Map()]))
  const sorted = [...members].sort((left, right) => (left.memberId < right.memberId ? -1 : 1))
  for (const topic of topics) {
    const readers = sorted.filter((member) => member.topics.has(topic.id))
    if (readers.length === 0 || topic.partitions === 0) continue
    for (const [at, partitions] of assignTopic(readers, topic).entries()) {
      if (partitions.length > 0) result.get((readers[at] as AssignableMember).memberId)?.set(topic.id, partitions)
    }
  }
  return result
}

/** Partitions by reader. */
function assignTopic(readers: readonly AssignableMember[], { id, partitions }: AssignableTopic): number[][] {
  const share = new Sharing(readers.length, partitions)
  const most = { partitions: Math.ceil(partitions / readers.length), members: Math.ceil(readers.length / partitions) }
  for (const [reader, { current }] of readers.entries()) {
    for (const partition of current.get(id) ?? []) {
      if (partition < partitions && share.ofReader(reader) < most.partitions && share.ofPartition(partition) < most.members) {
        share.give(reader, partition)
      }
    }
  }
  for (let partition = 0; partition < partitions; partition++) {
    if (share.ofPartition(partition) === 0) share.give(share.leastLoadedReader(), partition)
  }
  for (let reader = 0; reader < readers.length; reader++) {
    if (share.ofReader(reader) > 0) continue
    // From whoever has two more; with enough members for all partitions there is nobody, and they share.
    if (!share.takeFromRichest(reader)) share.give(reader, share.leastSharedPartition())
  }
  for (let moved = true; moved; ) moved = share.takeFromRichest(share.leastLoadedReader())
  return share.all()
}

class Sharing {
  readonly #partitions: number[][]
  readonly #counts: number[]

  constructor(readers: number, partitions: number) {
    this.#partitions = Array.from({ length: readers }, () => [])
    this.#counts = new Array<number>(partitions).fill(0)
  }

  ofReader(reader: number): number {
    return this.#partitions[reader]?.length ?? 0
  }

  ofPartition(partition: number): number {
    return this.#counts[partition] ?? 0
  }

  give(reader: number, partition: number): void {
    this.#partitions[reader]?.push(partition)
    this.#counts[partition] = this.ofPartition(partition) + 1
  }

  leastLoadedReader(): number {
    return leastOf(this.#partitions.map(({ length }) => length))
  }

  leastSharedPartition(): number {
    return leastOf(this.#counts)
  }

  /** False when nobody has at least two partitions more. */
  takeFromRichest(reader: number): boolean {
    const richest = this.#partitions.reduce((best, { length }, at) => (length > this.ofReader(best) ? at : best), 0)
    if (this.ofReader(richest) - this.ofReader(reader) < 2) return false
    const partition = this.#partitions[richest]?.pop()
    if (partition === undefined) return false
    this.#partitions[reader]?.push(partition)
    return true
  }

  all(): number[][] {
    return this.#partitions.map((partitions) => [...partitions].sort((left, right) => left - right))
  }
}

function leastOf(counts: readonly number[]): number {
  return counts.reduce((best, count, at) => (count < (counts[best] ?? 0) ? at : best), 0)
}
