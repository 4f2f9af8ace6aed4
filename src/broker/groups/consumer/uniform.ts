import type { Uuid } from '../../../core/uuid.ts'
import type { AssigningMember, Assignment } from './assignment.ts'

/** A member while its assignment is made. */
interface Share {
  readonly memberId: string
  readonly topics: ReadonlySet<Uuid>
  readonly partitions: Map<Uuid, Set<number>>
  load: number
}

interface Free {
  readonly topic: Uuid
  readonly partition: number
}

/**
 * As many partitions for every member as can be, and as few moves as that allows: what a member has stays with it up to its fair part. Where
 * all ask for the same topics, nobody has two partitions more than another. Where they do not, no single move of a partition would make
 * it fairer.
 */
export function assignUniformly(
  members: readonly AssigningMember[],
  partitions: ReadonlyMap<Uuid, number>,
): ReadonlyMap<string, Assignment> {
  const shares = members.map(({ memberId, topics }): Share => ({ memberId, topics, partitions: new Map(), load: 0 }))
  const free = keepFormer(members, shares, partitions)
  const alike = members.every(({ topics }) => topics.size === members[0]?.topics.size && sameTopics(topics, members[0].topics))
  if (alike) fillEqually(shares, free)
  else fillAndBalance(shares, free)
  return new Map(shares.map(({ memberId, partitions: given }) => [memberId, given]))
}

function sameTopics(left: ReadonlySet<Uuid>, right: ReadonlySet<Uuid>): boolean {
  for (const topic of left) if (!right.has(topic)) return false
  return true
}

/** Gives everybody what it had and still may have; the answer is what nobody has. */
function keepFormer(members: readonly AssigningMember[], shares: readonly Share[], partitions: ReadonlyMap<Uuid, number>): Free[] {
  const taken = new Map<Uuid, Set<number>>()
  members.forEach(({ former, topics }, at) => {
    for (const [topic, held] of former) {
      const count = topics.has(topic) ? (partitions.get(topic) ?? 0) : 0
      for (const partition of held) {
        const of = taken.get(topic) ?? new Set()
        taken.set(topic, of)
        // Two can only have had one when something was restored that should not be.
        if (partition >= count || of.has(partition)) continue
        of.add(partition)
        give(shares[at] as Share, topic, partition)
      }
    }
  })
  const asked = new Set(members.flatMap(({ topics }) => [...topics]))
  const free: Free[] = []
  for (const topic of [...asked].sort()) {
    const count = partitions.get(topic) ?? 0
    const of = taken.get(topic)
    for (let partition = 0; partition < count; partition++) if (of?.has(partition) !== true) free.push({ topic, partition })
  }
  return free
}

function give(share: Share, topic: Uuid, partition: number): void {
  const of = share.partitions.get(topic)
  if (of === undefined) share.partitions.set(topic, new Set([partition]))
  else of.add(partition)
  share.load++
}

function takeFrom(share: Share, topic: Uuid, partition: number): void {
  const of = share.partitions.get(topic)
  of?.delete(partition)
  if (of?.size === 0) share.partitions.delete(topic)
  share.load--
}

function byId(left: Share, right: Share): number {
  return left.memberId < right.memberId ? -1 : 1
}

/** The partition that a member can best spare: of the topic of which it has most, so that topics stay spread. */
function spare(share: Share): Free {
  let most: Uuid = ''
  for (const [topic, of] of share.partitions) if (most === '' || of.size > (share.partitions.get(most)?.size ?? 0)) most = topic
  let last = -1
  for (const partition of share.partitions.get(most) ?? []) last = Math.max(last, partition)
  return { topic: most, partition: last }
}

function fillEqually(shares: Share[], free: Free[]): void {
  const total = shares.reduce((sum, { load }) => sum + load, free.length)
  const least = Math.floor(total / shares.length)
  let extra = total % shares.length
  // Who holds most comes first and gets what does not divide: that need not move then.
  const ordered = [...shares].sort((left, right) => right.load - left.load || byId(left, right))
  const quotas = ordered.map(() => least + (extra-- > 0 ? 1 : 0))
  ordered.forEach((share, at) => {
    while (share.load > (quotas[at] as number)) {
      const { topic, partition } = spare(share)
      takeFrom(share, topic, partition)
      free.push({ topic, partition })
    }
  })
  // In turns, so that each topic is spread over all.
  let open = ordered.map((share, at) => ({ share, quota: quotas[at] as number })).sort((left, right) => byId(left.share, right.share))
  let next = 0
  while (next < free.length) {
    open = open.filter(({ share, quota }) => share.load < quota)
    for (const { share } of open) {
      const partition = free[next]
      if (partition === undefined) return
      give(share, partition.topic, partition.partition)
      next++
    }
    if (open.length === 0) return
  }
}

function fillAndBalance(shares: Share[], free: readonly Free[]): void {
  const subscribers = new Map<Uuid, Share[]>()
  for (const share of [...shares].sort(byId)) {
    for (const topic of share.topics) {
      const of = subscribers.get(topic)
      if (of === undefined) subscribers.set(topic, [share])
      else of.push(share)
    }
  }
  // Topics that few ask for first: the others can make up for it.
  const choice = ({ topic }: Free) => subscribers.get(topic)?.length ?? 0
  for (const { topic, partition } of [...free].sort((left, right) => choice(left) - choice(right))) {
    const lightest = lightestOf(subscribers.get(topic) ?? [])
    if (lightest !== undefined) give(lightest, topic, partition)
  }
  // Each move makes the sum of the squares of the loads smaller, so this ends.
  const topics = [...subscribers].sort(([left], [right]) => (left < right ? -1 : 1))
  for (let moved = true; moved; ) {
    moved = false
    for (const [topic, of] of topics) while (moveOne(topic, of)) moved = true
  }
}

function lightestOf(shares: readonly Share[]): Share | undefined {
  let lightest: Share | undefined
  for (const share of shares) if (lightest === undefined || share.load < lightest.load) lightest = share
  return lightest
}

function moveOne(topic: Uuid, subscribers: readonly Share[]): boolean {
  const to = lightestOf(subscribers)
  let from: Share | undefined
  for (const share of subscribers) if (share.partitions.has(topic) && (from === undefined || share.load > from.load)) from = share
  if (to === undefined || from === undefined || from.load - to.load < 2) return false
  let last = -1
  for (const partition of from.partitions.get(topic) ?? []) last = Math.max(last, partition)
  takeFrom(from, topic, last)
  give(to, topic, last)
  return true
}
