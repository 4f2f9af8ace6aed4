import type { Assigned } from './group-member.ts'

/** One partition that the broker gave to this member, from when it did until it is let go. */
export class Grant {
  readonly topic: string
  readonly partition: number
  /** The same for grants that go on where the former one of this consumer was: what it has done counts. */
  readonly origin: object
  /** As the broker has it; −1: nothing. */
  committed: number
  /** The next offset after what is done; −1: nothing is. */
  done: number
  /** It is to be let go. */
  revoked = false

  constructor(topic: string, partition: number, committed: number, former: Grant | null) {
    this.topic = topic
    this.partition = partition
    this.committed = committed
    this.origin = former?.origin ?? {}
    this.done = former?.done ?? -1
  }

  get key(): string {
    return keyOf(this.topic, this.partition)
  }

  get isDirty(): boolean {
    return this.done > this.committed
  }
}

export function keyOf(topic: string, partition: number): string {
  return `${topic}/${partition}`
}

/** As requests name them. */
export function listed(grants: Iterable<{ readonly topic: string; readonly partition: number }>): Assigned {
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of grants) {
    const partitions = topics.get(topic)
    if (partitions === undefined) topics.set(topic, [partition])
    else partitions.push(partition)
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions: partitions.sort((left, right) => left - right) }))
}
