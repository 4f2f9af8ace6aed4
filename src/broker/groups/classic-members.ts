import { MoonMQError } from '../../core/errors.ts'
import type { GroupProtocol, GroupSnapshot, MemberJoin, MemberSnapshot } from './classic-types.ts'

export const NO_TICKET = 0
const NOTHING = Buffer.alloc(0)

/** A member of a classic group. `deadlineMs` is when its session ends: never while a join or sync of it is parked. */
export class ClassicMember {
  memberId: string
  readonly instanceId: string | null
  clientId: string
  clientHost: string
  sessionTimeoutMs: number
  rebalanceTimeoutMs: number
  protocols: readonly GroupProtocol[]
  assignment: Buffer = NOTHING
  /** Of the generation before, while the leader has not assigned in this one; not stored. */
  formerAssignment: Buffer = NOTHING
  joinTicket = NO_TICKET
  syncTicket = NO_TICKET
  deadlineMs = Number.POSITIVE_INFINITY
  /** In the current generation but has not asked for its assignment yet. */
  syncPending = false
  /** The client has been told this id. One that was not, and is gone, can never come back under it. */
  idKnown: boolean

  constructor(memberId: string, join: MemberJoin, idKnown: boolean) {
    this.memberId = memberId
    this.instanceId = join.instanceId
    this.idKnown = idKnown
    this.clientId = join.clientId
    this.clientHost = join.clientHost
    this.sessionTimeoutMs = join.sessionTimeoutMs
    this.rebalanceTimeoutMs = join.rebalanceTimeoutMs
    this.protocols = join.protocols
  }

  /** As it was stored: with the one protocol that its group had chosen. */
  static restore(stored: MemberSnapshot, group: GroupSnapshot): ClassicMember {
    const join: MemberJoin = {
      ...stored,
      newMemberId: stored.memberId,
      protocolType: group.protocolType,
      protocols: [{ name: group.protocol ?? '', metadata: stored.subscription }],
      requireKnownMemberId: false,
      supportsSkippingAssignment: false,
      reason: null,
    }
    const member = new ClassicMember(stored.memberId, join, true)
    member.assignment = stored.assignment
    return member
  }

  update(join: MemberJoin): void {
    this.clientId = join.clientId
    this.clientHost = join.clientHost
    this.sessionTimeoutMs = join.sessionTimeoutMs
    this.rebalanceTimeoutMs = join.rebalanceTimeoutMs
    this.protocols = join.protocols
  }

  /** Heard from: the session starts anew, or stands still while a request of the member is parked. */
  arm(nowMs: number): void {
    const parked = this.joinTicket !== NO_TICKET || this.syncTicket !== NO_TICKET
    this.deadlineMs = parked ? Number.POSITIVE_INFINITY : nowMs + this.sessionTimeoutMs
  }

  supports(protocol: string): boolean {
    return this.protocols.some((each) => each.name === protocol)
  }

  metadata(protocol: string | null): Buffer {
    return this.protocols.find((each) => each.name === protocol)?.metadata ?? NOTHING
  }

  hasProtocols(protocols: readonly GroupProtocol[]): boolean {
    if (protocols.length !== this.protocols.length) return false
    return this.protocols.every((mine, at) => {
      const theirs = protocols[at]
      return theirs !== undefined && mine.name === theirs.name && mine.metadata.equals(theirs.metadata)
    })
  }

  snapshot(protocol: string | null): MemberSnapshot {
    return {
      memberId: this.memberId,
      instanceId: this.instanceId,
      clientId: this.clientId,
      clientHost: this.clientHost,
      rebalanceTimeoutMs: this.rebalanceTimeoutMs,
      sessionTimeoutMs: this.sessionTimeoutMs,
      subscription: this.metadata(protocol),
      assignment: this.assignment,
    }
  }
}

/** The members of one group in the order they came, the static ones by instance id too (KIP-345). */
export class MemberTable {
  readonly #group: string
  readonly #members = new Map<string, ClassicMember>()
  readonly #byInstance = new Map<string, ClassicMember>()

  constructor(group: string) {
    this.#group = group
  }

  get size(): number {
    return this.#members.size
  }

  all(): IterableIterator<ClassicMember> {
    return this.#members.values()
  }

  get(memberId: string): ClassicMember | undefined {
    return this.#members.get(memberId)
  }

  ofInstance(instanceId: string): ClassicMember | undefined {
    return this.#byInstance.get(instanceId)
  }

  first(): ClassicMember | undefined {
    for (const member of this.#members.values()) return member
    return undefined
  }

  /** The member that a request speaks for, or why it may not: an instance id that now belongs to another id fences the old one. */
  resolve(memberId: string, instanceId: string | null): ClassicMember | MoonMQError {
    const unknown = () => new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.#group, member: memberId })
    if (instanceId === null) return this.#members.get(memberId) ?? unknown()
    const member = this.#byInstance.get(instanceId)
    if (member === undefined) return unknown()
    if (member.memberId !== memberId) return new MoonMQError('FENCED_INSTANCE_ID', { instance: instanceId, group: this.#group })
    return member
  }

  add(member: ClassicMember): void {
    this.#members.set(member.memberId, member)
    if (member.instanceId !== null) this.#byInstance.set(member.instanceId, member)
  }

  remove(member: ClassicMember): void {
    this.#members.delete(member.memberId)
    if (member.instanceId !== null && this.#byInstance.get(member.instanceId) === member) this.#byInstance.delete(member.instanceId)
  }

  /** Gives a member a new id; it keeps everything else, its place in the order included. */
  rename(member: ClassicMember, memberId: string): void {
    const order = [...this.#members.values()]
    member.memberId = memberId
    this.#members.clear()
    for (const each of order) this.#members.set(each.memberId, each)
  }

  /** Whether some protocol of the list is known to every member. */
  shareProtocol(protocols: readonly GroupProtocol[]): boolean {
    return protocols.some(({ name }) => this.#allSupport(name))
  }

  /** Each member votes for the first of its protocols that all know. Ties go to the one that was voted for first. */
  electProtocol(): string | null {
    const votes = new Map<string, number>()
    for (const member of this.#members.values()) {
      const choice = member.protocols.find(({ name }) => this.#allSupport(name))
      if (choice !== undefined) votes.set(choice.name, (votes.get(choice.name) ?? 0) + 1)
    }
    let best: string | null = null
    let most = 0
    for (const [name, count] of votes) {
      if (count <= most) continue
      best = name
      most = count
    }
    return best
  }

  #allSupport(protocol: string): boolean {
    for (const member of this.#members.values()) if (!member.supports(protocol)) return false
    return true
  }

  /** What a leader is told of the members that it assigns to. */
  listing(protocol: string | null): { memberId: string; instanceId: string | null; metadata: Buffer }[] {
    return [...this.#members.values()].map((member) => ({
      memberId: member.memberId,
      instanceId: member.instanceId,
      metadata: member.metadata(protocol),
    }))
  }

  allJoined(): boolean {
    for (const member of this.#members.values()) if (member.joinTicket === NO_TICKET) return false
    return true
  }

  /** How long a rebalance waits: as long as its slowest member asked for. */
  maxRebalanceTimeoutMs(): number {
    let longest = 0
    for (const member of this.#members.values()) longest = Math.max(longest, member.rebalanceTimeoutMs)
    return longest
  }
}
