import { MoonMQError } from '../../../core/errors.ts'
import type { Uuid } from '../../../core/uuid.ts'
import type { MetadataImage } from '../../../metadata/types.ts'
import { sourceOf } from '../../consume/tiers.ts'
import type { CooperativeMember, GrantedPartitions, NamedAssignment } from '../../ports.ts'
import { type Assignment, NO_ASSIGNMENT, sameAssignment, sameHolding } from '../consumer/assignment.ts'
import { ASSIGNORS } from '../consumer/assignors.ts'
import type { CommitClaim, GroupEffect, GroupMachine, MemberView, StoredPair } from '../machine.ts'
import { exceeds, type Grants, grantsOf, Holders, keptOf, NO_GRANTS, union } from './grants.ts'

/** A member that is not heard of for this long is dropped by the next sweep. */
export const NATIVE_SESSION_MS = 30_000
/** Sweeps are at multiples of this. */
const SWEEP_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY
/** Partitions that a line of the log names. */
const MAX_NAMED = 100

/** Who joins. The owner is the connection, by identity. */
export interface NativeJoin {
  readonly memberId: string
  readonly owner: object
  /** The member that the connection was until now; it goes. */
  readonly replaces: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly topics: readonly string[]
  readonly cooperative: CooperativeMember | null
  readonly onChange: () => void
}

interface Member extends Omit<NativeJoin, 'replaces'> {
  readonly joinEpoch: number
  deadlineMs: number
  target: Assignment
  /** What of the target it may read. */
  grants: Grants
  /** What a cooperative member was told and has not let go of. */
  held: Grants
  /** The grants, of a cooperative member those that it knows of: it cannot hold on to what it was given without a word. */
  readable: Grants
  /** When it must have let go of what is not its any more. */
  releaseByMs: number
  /** It was told, or told to ask, about these grants. */
  told: Grants
}

/** Partitions that are read at the moment. */
interface Round {
  readonly memberId: string
  readonly grants: Grants
}

/**
 * The members of one group of the native protocol (DESIGN D9). The broker assigns: a change of members or topics makes a new target at
 * once, by ranges over the members in order of their ids. A member reads only what is granted to it, and a partition is granted when
 * whoever had it has stopped: at the end of a round that is being handed on, or, of a cooperative member, when it says so. Nothing is
 * stored: after a restart the members join again.
 */
export class NativeGroup implements GroupMachine {
  readonly kind = 'native'
  readonly protocolType = 'consumer'
  readonly group: string
  readonly #image: () => MetadataImage
  readonly #members = new Map<string, Member>()
  readonly #rounds = new Set<Round>()
  #epoch = 0
  /** Somebody waits for another to stop. */
  #waits = false
  #isDead = false
  #shown = 'Empty'
  #effects: GroupEffect[] = []

  constructor(group: string, image: () => MetadataImage) {
    this.group = group
    this.#image = image
  }

  get state(): string {
    if (this.#isDead) return 'Dead'
    if (this.#members.size === 0) return 'Empty'
    return this.#waits ? 'CompletingRebalance' : 'Stable'
  }

  get epoch(): number {
    return this.#epoch
  }

  get memberCount(): number {
    return this.#members.size
  }

  /** What is being handed on counts: its positions are about to be stored. */
  get isVacant(): boolean {
    return this.#members.size === 0 && this.#rounds.size === 0
  }

  // ---- members --------------------------------------------------------------------------------------------------------------

  /** Throws GROUP_CONFLICT when the id is another connection's. */
  join(join: NativeJoin, nowMs: number): { readonly joinEpoch: number } {
    const { replaces, ...rest } = join
    const known = this.#members.get(join.memberId)
    if (known !== undefined && known.owner !== join.owner) {
      throw new MoonMQError('GROUP_CONFLICT', { reason: `member "${join.memberId}" of group "${this.group}" is on another connection` })
    }
    const isOther = replaces !== null && replaces !== join.memberId && this.#members.get(replaces)?.owner === join.owner
    if (isOther) this.#members.delete(replaces)
    const deadlineMs = nowMs + NATIVE_SESSION_MS
    const topics = [...new Set(join.topics)].sort(byBytes)
    const isSameSort = (known?.cooperative === null) === (join.cooperative === null)
    if (known !== undefined && isSameSort && sameTexts(topics, known.topics)) {
      known.deadlineMs = deadlineMs
      return known
    }
    const joinEpoch = known?.joinEpoch ?? this.#epoch + 1
    const { target = NO_ASSIGNMENT, grants = NO_GRANTS, releaseByMs = NEVER } = known ?? {}
    const held = join.cooperative === null ? NO_GRANTS : (known?.held ?? NO_GRANTS)
    this.#members.set(join.memberId, {
      ...rest,
      topics,
      joinEpoch,
      deadlineMs,
      target,
      grants,
      held,
      readable: NO_GRANTS,
      releaseByMs,
      told: grants,
    })
    const { memberId } = join
    this.#assign(known === undefined ? `member ${memberId} joined` : `member ${memberId} reads other topics`, nowMs, memberId)
    return { joinEpoch }
  }

  has(memberId: string): boolean {
    return this.#members.has(memberId)
  }

  isMember(memberId: string, owner: object): boolean {
    return this.#members.get(memberId)?.owner === owner
  }

  heartbeat(memberId: string, nowMs: number): void {
    this.#member(memberId).deadlineMs = nowMs + NATIVE_SESSION_MS
  }

  leave(memberId: string, reason: string, nowMs: number): void {
    const member = this.#members.get(memberId)
    if (member === undefined) return
    this.#members.delete(memberId)
    this.#effects.push({ kind: 'tell', tell: member.onChange })
    this.#assign(`member ${memberId} ${reason}`, nowMs)
  }

  /** Topics were made, deleted, or have grown. */
  topicsChanged(nowMs: number): void {
    const before = [...this.#members.values()].map(({ target }) => target)
    const targets = this.#targets()
    const changed = [...this.#members.keys()].some(
      (id, at) => !sameAssignment(before[at] ?? NO_ASSIGNMENT, targets.get(id) ?? NO_ASSIGNMENT),
    )
    if (changed) this.#assign('its topics changed', nowMs)
  }

  #member(memberId: string): Member {
    const member = this.#members.get(memberId)
    if (member === undefined) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: memberId })
    return member
  }

  // ---- assignment -----------------------------------------------------------------------------------------------------------

  #targets(): ReadonlyMap<string, Assignment> {
    const { topics } = this.#image()
    const counts = new Map<Uuid, number>()
    const members = [...this.#members.values()].map(({ memberId, topics: names }) => {
      const ids = new Set<Uuid>()
      for (const name of names) {
        const topic = topics.get(name)
        if (topic === undefined) continue
        ids.add(topic.id)
        counts.set(topic.id, topic.partitions.length)
      }
      return { memberId, instanceId: null, topics: ids, former: NO_ASSIGNMENT }
    })
    return ASSIGNORS['range']?.(members, counts) ?? new Map()
  }

  #assign(reason: string, nowMs: number, asking: string | null = null): void {
    this.#epoch++
    for (const [memberId, target] of this.#targets()) this.#member(memberId).target = target
    this.#grant(nowMs, asking)
    this.#show(reason, true)
  }

  /** Gives each member what of its target nobody else holds. Who asks is answered, and needs no word of it. */
  #grant(nowMs: number, asking: string | null): void {
    const holders = new Holders<string>()
    for (const { memberId, held } of this.#members.values()) holders.add(held, memberId)
    for (const { memberId, grants } of this.#rounds) holders.add(grants, memberId)
    this.#waits = false
    for (const member of this.#members.values()) {
      const { grants, waits } = grantsOf(member.target, member.grants, this.#epoch, (topicId, partition) => {
        const holder = holders.of(topicId, partition)
        return holder === undefined || holder === member.memberId
      })
      if (!sameHolding(grants, member.grants)) member.grants = grants
      member.readable = readableOf(member)
      if (waits) this.#waits = true
      if (!exceeds(member.held, member.target)) member.releaseByMs = NEVER
      else if (member.releaseByMs === NEVER) member.releaseByMs = nowMs + (member.cooperative?.rebalanceTimeoutMs ?? NEVER)
      if (member.told === member.grants) continue
      member.told = member.grants
      if (member.memberId !== asking) this.#effects.push({ kind: 'tell', tell: member.onChange })
    }
  }

  /** A cooperative member holds what it is told from then on. */
  #tell(member: Member): void {
    if (member.cooperative !== null) member.held = union(member.held, member.grants)
    member.readable = member.grants
    member.told = member.grants
  }

  /** What the member may read, by topic as it named them. A cooperative one holds it from now on. */
  tellAssignment(memberId: string): readonly NamedAssignment[] {
    const member = this.#member(memberId)
    this.#tell(member)
    const { topics, grants } = member
    const image = this.#image()
    return topics.map((topic) => {
      const granted = grants.get(image.topics.get(topic)?.id ?? '')
      return { topic, partitions: granted === undefined ? [] : [...granted.keys()].sort((left, right) => left - right) }
    })
  }

  /** What a cooperative member still holds; the rest it has let go of. */
  hold(memberId: string, held: readonly NamedAssignment[], nowMs: number): void {
    const member = this.#member(memberId)
    const { topics } = this.#image()
    const named = new Map(held.map(({ topic, partitions }) => [topics.get(topic)?.id ?? '', new Set(partitions)]))
    member.held = keptOf(member.held, named)
    member.deadlineMs = nowMs + NATIVE_SESSION_MS
    this.#grant(nowMs, memberId)
    this.#show(`member ${memberId} let go`, false)
  }

  // ---- rounds ---------------------------------------------------------------------------------------------------------------

  beginRound(memberId: string): Round {
    const round = { memberId, grants: this.#member(memberId).readable }
    this.#rounds.add(round)
    return round
  }

  partitionsIn(round: Round, topic: string): GrantedPartitions | undefined {
    return round.grants.get(this.#image().topics.get(topic)?.id ?? '')
  }

  endRound(round: Round, nowMs: number): void {
    if (!this.#rounds.delete(round) || !this.#waits) return
    this.#grant(nowMs, null)
    this.#show(`member ${round.memberId} ended its round`, false)
  }

  // ---- what the shell asks --------------------------------------------------------------------------------------------------

  drain(): GroupEffect[] {
    const effects = this.#effects
    this.#effects = []
    return effects
  }

  takeRecords(): readonly StoredPair[] {
    return []
  }

  nextDeadlineMs(): number {
    let earliest = NEVER
    for (const { deadlineMs, releaseByMs } of this.#members.values()) earliest = Math.min(earliest, deadlineMs, releaseByMs)
    return earliest === NEVER ? NEVER : Math.ceil(earliest / SWEEP_MS) * SWEEP_MS
  }

  tick(nowMs: number): void {
    const gone: string[] = []
    for (const member of this.#members.values()) {
      const { memberId, deadlineMs, releaseByMs } = member
      if (deadlineMs <= nowMs) gone.push(`${memberId} was not heard of`)
      else if (releaseByMs <= nowMs) gone.push(`${memberId} did not let go of its partitions`)
      else continue
      this.#members.delete(memberId)
      this.#effects.push({ kind: 'tell', tell: member.onChange })
    }
    if (gone.length > 0) this.#assign(`member ${gone.join(', ')}`, nowMs)
  }

  /**
   * A connection outside of the group that speaks the native protocol may commit, as version 1 has it; a member only by the epoch at which
   * it joined, and only for what it reads: a cooperative one for what it holds, another for what is granted to it or is in a round of its own.
   */
  refuseCommit({ memberId, epoch, offsets, isNative }: CommitClaim): MoonMQError | null {
    if (memberId === '' && (isNative === true || this.#members.size === 0)) return null
    const member = this.#members.get(memberId)
    if (member === undefined) return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: memberId })
    if (member.joinEpoch !== epoch) return new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation: epoch })
    const has = [member.cooperative === null ? member.grants : member.held]
    if (member.cooperative === null) for (const round of this.#rounds) if (round.memberId === memberId) has.push(round.grants)
    const isLost = offsets.some(({ topic, partition }) => !this.#isAmong(has, topic, partition))
    return isLost ? new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation: epoch }) : null
  }

  /** Who reads a partition reads its tiers. */
  #isAmong(grants: readonly Grants[], topic: string, partition: number): boolean {
    const { topics } = this.#image()
    const ids = [topics.get(topic)?.id, topics.get(sourceOf(topic))?.id]
    return grants.some((each) => ids.some((id) => id !== undefined && each.get(id)?.has(partition) === true))
  }

  subscribedTopics(): ReadonlySet<string> {
    return new Set([...this.#members.values()].flatMap(({ topics }) => topics))
  }

  *views(): IterableIterator<MemberView> {
    for (const { memberId, clientId, clientHost, topics, grants } of this.#members.values()) {
      yield { memberId, instanceId: null, clientId, clientHost, topics, assigned: grants }
    }
  }

  kill(reason: string): void {
    this.#isDead = true
    this.#members.clear()
    this.#rounds.clear()
    this.#show(reason, false)
  }

  // ---- what is shown --------------------------------------------------------------------------------------------------------

  /** A change of state is a line of the log; another one is only when it is a new assignment. */
  #show(reason: string, isAssigned: boolean): void {
    const { state } = this
    if (state !== this.#shown) {
      this.#effects.push({ kind: 'transition', from: this.#shown, to: state, reason })
      this.#shown = state
    }
    if (isAssigned && this.#members.size > 0) this.#effects.push({ kind: 'note', text: `epoch ${this.#epoch}, ${reason}: ${this.#plan()}` })
  }

  #plan(): string {
    const { topicsById } = this.#image()
    let left = MAX_NAMED
    const parts: string[] = []
    for (const { memberId, target } of this.#members.values()) {
      for (const [topicId, partitions] of target) {
        if (left <= 0) return `${parts.join('; ')}; and more`
        left -= partitions.size
        parts.push(`${memberId} ${topicsById.get(topicId)?.name ?? topicId} [${[...partitions].slice(0, MAX_NAMED).join(' ')}]`)
      }
    }
    return parts.length === 0 ? 'nothing to read' : parts.join('; ')
  }
}

function sameTexts(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((text, at) => text === right[at])
}

function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}

function readableOf({ cooperative, grants, held, readable }: Member): Grants {
  if (cooperative === null || grants === readable) return grants
  return keptOf(grants, held)
}
