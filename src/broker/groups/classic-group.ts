import { MoonMQError } from '../../core/errors.ts'
import { groupKey, groupValue } from '../offsets/offset-records.ts'
import { ClassicMember, NO_TICKET } from './classic-members.ts'
import { ClassicRebalance, CONSUMER_PROTOCOL } from './classic-rebalance.ts'
import { assignedPartitionsOf, subscribedTopicsOf } from './classic-subscription.ts'
import {
  type ClassicOptions,
  type ClassicState,
  type GroupSnapshot,
  inItsWords,
  joinRefused,
  type MemberJoin,
  type MemberSync,
} from './classic-types.ts'
import type { CommitClaim, GroupEffect, GroupMachine, MemberView, StoredPair } from './machine.ts'

const NEVER = Number.POSITIVE_INFINITY
const NOTHING = Buffer.alloc(0)
const NO_TOPICS: ReadonlySet<string> = new Set()

/**
 * One group of Kafka's classic protocol: members agree on a generation at a join barrier, the leader computes the assignments,
 * and a sync barrier hands them out (KIP-62, KIP-345, KIP-394, KIP-814). A pure machine: it is told the time, which is
 * monotonic, and leaves what is to be done in `drain()`. Nothing in it waits; each of its waits has a deadline in `nextDeadlineMs`.
 *
 *   Empty ──join──► PreparingRebalance ──all joined, or deadline──► CompletingRebalance ──leader synced──► Stable
 *     ▲                 │  ▲                                              │                                 │
 *     └──nobody left────┘  └────────────── join, leave, session over, sync overdue ─────────────────────────┘
 */
export class ClassicGroup implements GroupMachine {
  readonly group: string
  readonly kind = 'classic'
  readonly #core: ClassicRebalance

  constructor(group: string, options: ClassicOptions) {
    this.group = group
    this.#core = new ClassicRebalance(group, options)
  }

  /**
   * The group as it was stored. Members come back with whole sessions. A group whose members have no assignment yet was stored at
   * the join barrier: it goes on waiting for the leader's sync, so the generation that its members were told stays good.
   */
  static restore(group: string, snapshot: GroupSnapshot, options: ClassicOptions, nowMs: number): ClassicGroup {
    const restored = new ClassicGroup(group, options)
    restored.#core.generation = snapshot.generation
    restored.#core.protocolType = snapshot.protocolType
    if (snapshot.members.length === 0) {
      restored.#core.readSubscribed()
      return restored
    }
    restored.#core.protocol = snapshot.protocol
    for (const stored of snapshot.members) {
      const member = ClassicMember.restore(stored, snapshot)
      member.arm(nowMs)
      restored.#core.members.add(member)
    }
    restored.#core.readSubscribed()
    const known = snapshot.leader !== null && restored.#core.members.get(snapshot.leader) !== undefined
    restored.#core.leader = known ? snapshot.leader : (restored.#core.members.first()?.memberId ?? null)
    restored.#core.state = snapshot.members.some((member) => member.assignment.length > 0) ? 'Stable' : 'CompletingRebalance'
    if (restored.#core.state === 'CompletingRebalance') restored.#core.openSyncBarrier(nowMs)
    if (snapshot.leader === null) restored.rebalance('the members had not agreed yet', nowMs)
    return restored
  }

  /** Members of another protocol's group that goes on in this one: stable, in the generation where that stood. */
  static adopt(group: string, options: ClassicOptions, generation: number, members: readonly MemberJoin[], nowMs: number): ClassicGroup {
    const adopted = new ClassicGroup(group, options)
    adopted.#core.generation = generation
    adopted.#core.protocolType = CONSUMER_PROTOCOL
    adopted.#core.state = 'Stable'
    for (const join of members) {
      const member = new ClassicMember(join.memberId, join, true)
      member.arm(nowMs)
      adopted.#core.members.add(member)
    }
    adopted.#core.protocol = adopted.#core.members.electProtocol()
    adopted.#core.leader = adopted.#core.members.first()?.memberId ?? null
    adopted.#core.readSubscribed()
    return adopted
  }

  /** Everybody has to join again. */
  rebalance(reason: string, nowMs: number): void {
    this.#core.prepareRebalance(reason, nowMs)
  }

  /** Another machine goes on with the group: who waits here is told to join again. */
  retire(): void {
    const error = new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
    for (const member of this.#core.members.all()) this.#core.supersede(member, error)
  }

  get state(): ClassicState {
    return this.#core.state
  }

  get generation(): number {
    return this.#core.generation
  }

  get epoch(): number {
    return this.#core.generation
  }

  get isVacant(): boolean {
    return this.#core.state === 'Empty' && this.#core.pending.size === 0
  }

  get protocolType(): string {
    return this.#core.protocolType
  }

  get protocol(): string | null {
    return this.#core.protocol
  }

  get leader(): string | null {
    return this.#core.leader
  }

  get memberCount(): number {
    return this.#core.members.size
  }

  /** What members and their leader said can be read of consumers only; others keep theirs to themselves. */
  *views(): IterableIterator<MemberView> {
    const isConsumer = this.protocolType === CONSUMER_PROTOCOL
    for (const { memberId, instanceId, clientId, clientHost, protocols, assignment } of this.members()) {
      const topics = isConsumer ? (subscribedTopicsOf(protocols[0]?.metadata ?? NOTHING) ?? []) : []
      const assigned = isConsumer ? (assignedPartitionsOf(assignment) ?? []) : []
      yield { memberId, instanceId, clientId, clientHost, topics, assigned }
    }
  }

  members(): Iterable<ClassicMember> {
    return this.#core.members.all()
  }

  /** What the last calls asked for, in order. */
  drain(): GroupEffect[] {
    return this.#core.effects.splice(0)
  }

  snapshot(): GroupSnapshot {
    const protocol = this.#core.protocol
    return {
      protocolType: this.#core.protocolType,
      generation: this.#core.generation,
      protocol,
      leader: this.#core.leader,
      members: [...this.#core.members.all()].map((member) => member.snapshot(protocol)),
    }
  }

  takeRecords(stateChangedAtMs: number): readonly StoredPair[] {
    // Without a leader: nobody has agreed on what the members have, and a restart goes on with the rebalance.
    const isAgreed = this.#core.state !== 'PreparingRebalance'
    const snapshot = { ...this.snapshot(), ...(isAgreed ? {} : { leader: null }) }
    return [{ key: groupKey(this.group), value: groupValue({ snapshot, stateChangedAtMs }) }]
  }

  /** Of the generation that was agreed on last. Null: there was none yet, or its subscriptions cannot be read. */
  subscribedTopics(): ReadonlySet<string> | null {
    return this.#core.state === 'Empty' ? NO_TOPICS : this.#core.subscribed
  }

  // ---- join ---------------------------------------------------------------------------------------------------------------

  /** Ends in one `joined` effect with this ticket, at once or when the barrier opens. */
  join(join: MemberJoin, ticket: number, nowMs: number): void {
    const refusal = this.#refusal(join)
    if (refusal !== null) this.#core.reply(ticket, joinRefused(refusal, join.memberId))
    else if (join.memberId === '') this.#joinWithoutId(join, ticket, nowMs)
    else this.#joinWithId(join, ticket, nowMs)
    this.#core.tryCompleteJoin(nowMs)
  }

  #refusal(join: MemberJoin): MoonMQError | null {
    const self = join.instanceId === null ? this.#core.members.get(join.memberId) : this.#core.members.ofInstance(join.instanceId)
    // As in Kafka also against what it joined with before: who wants another protocol comes as another member.
    const isFirst = this.#core.members.size === 0
    const shared = isFirst || (join.protocolType === this.#core.protocolType && this.#core.members.shareProtocol(join.protocols))
    if (join.protocolType === '' || join.protocols.length === 0 || !shared) {
      return new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group: this.group })
    }
    const counted = self !== undefined || this.#core.pending.has(join.memberId)
    if (!counted && join.memberId === '' && this.#core.members.size + this.#core.pending.size >= this.#core.options.maxMembers) {
      return new MoonMQError('GROUP_LIMIT', { group: this.group, limit: this.#core.options.maxMembers })
    }
    return null
  }

  #joinWithoutId(join: MemberJoin, ticket: number, nowMs: number): void {
    const former = join.instanceId === null ? undefined : this.#core.members.ofInstance(join.instanceId)
    if (former !== undefined) {
      this.#replaceStatic(former, join, ticket, nowMs)
    } else if (join.requireKnownMemberId && join.instanceId === null) {
      // Trap of a lost reply: without this step each retry would leave a member behind that nobody speaks for (KIP-394).
      this.#core.pending.set(join.newMemberId, nowMs + join.sessionTimeoutMs)
      this.#core.reply(ticket, joinRefused(new MoonMQError('MEMBER_ID_REQUIRED'), join.newMemberId))
    } else {
      this.#addMember(join, join.newMemberId, false, ticket, nowMs)
    }
  }

  #joinWithId(join: MemberJoin, ticket: number, nowMs: number): void {
    if (this.#core.pending.has(join.memberId)) {
      const holder = join.instanceId === null ? undefined : this.#core.members.ofInstance(join.instanceId)
      if (holder === undefined) {
        this.#core.pending.delete(join.memberId)
        this.#addMember(join, join.memberId, true, ticket, nowMs)
        return
      }
    }
    const member = this.#core.members.resolve(join.memberId, join.instanceId)
    if (member instanceof MoonMQError) {
      this.#core.reply(ticket, joinRefused(member, join.memberId))
      return
    }
    member.idKnown = true
    const unchanged = member.hasProtocols(join.protocols)
    if (this.#core.state === 'CompletingRebalance' && unchanged) {
      // It joined this generation already; the reply was lost.
      member.arm(nowMs)
      this.#core.reply(ticket, this.#core.joined(member))
    } else if (this.#core.state === 'Stable' && unchanged && member.memberId !== this.#core.leader) {
      member.arm(nowMs)
      this.#core.reply(ticket, this.#core.joined(member))
    } else {
      // A leader that joins again asks for a rebalance: what it assigns has changed.
      this.#rejoin(member, join, ticket)
      this.#core.prepareRebalance(`member ${member.memberId} joined again${inItsWords(join.reason)}`, nowMs)
    }
  }

  #addMember(join: MemberJoin, memberId: string, idKnown: boolean, ticket: number, nowMs: number): void {
    const member = new ClassicMember(memberId, join, idKnown)
    member.joinTicket = ticket
    if (this.#core.members.size === 0) this.#core.protocolType = join.protocolType
    this.#core.members.add(member)
    if (this.#core.leader === null) this.#core.leader = memberId
    this.#core.barrier.joined()
    this.#core.prepareRebalance(`member ${memberId} joined${inItsWords(join.reason)}`, nowMs)
  }

  #rejoin(member: ClassicMember, join: MemberJoin, ticket: number): void {
    this.#core.supersede(member, new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }))
    member.update(join)
    member.joinTicket = ticket
    member.deadlineMs = NEVER
  }

  /** The process behind an instance id was restarted: same member, new id. The others do not notice while the group is stable. */
  #replaceStatic(member: ClassicMember, join: MemberJoin, ticket: number, nowMs: number): void {
    const formerId = member.memberId
    const formerLeader = this.#core.leader
    this.#core.supersede(member, new MoonMQError('FENCED_INSTANCE_ID', { instance: join.instanceId ?? '', group: this.group }))
    this.#core.members.rename(member, join.newMemberId)
    if (formerLeader === formerId) this.#core.leader = join.newMemberId
    member.update(join)
    // Its id is told with the reply; by its instance id it is reachable in any case.
    member.idKnown = true
    if (this.#core.state !== 'Stable' || this.#core.members.electProtocol() !== this.#core.protocol) {
      member.joinTicket = ticket
      member.deadlineMs = NEVER
      this.#core.prepareRebalance(`static member ${join.instanceId} came back${inItsWords(join.reason)}`, nowMs)
      return
    }
    member.arm(nowMs)
    this.#core.effects.push({ kind: 'store' })
    const isLeader = this.#core.leader === member.memberId
    const result = this.#core.joined(member)
    if (join.supportsSkippingAssignment) this.#core.reply(ticket, { ...result, skipAssignment: isLeader })
    // Before version 9 a leader cannot be told to skip, so it is told of a leader that it is not (KIP-345).
    else this.#core.reply(ticket, { ...result, leader: formerLeader ?? '', members: [] })
  }

  // ---- sync -----------------------------------------------------------------------------------------------------------------

  /** Ends in one `synced` effect with this ticket, at once or when the leader has handed the assignments in. */
  sync(sync: MemberSync, ticket: number, nowMs: number): void {
    const member = this.#core.members.resolve(sync.memberId, sync.instanceId)
    const refusal = member instanceof MoonMQError ? member : this.#refuseSync(sync)
    if (refusal !== null || member instanceof MoonMQError) {
      this.#core.effects.push({ kind: 'synced', ticket, result: refusal ?? (member as MoonMQError) })
      return
    }
    member.idKnown = true
    member.syncPending = false
    if (this.#core.state === 'Stable') {
      member.arm(nowMs)
      this.#core.effects.push({ kind: 'synced', ticket, result: this.#core.synced(member) })
      return
    }
    this.#core.supersede(member, new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }))
    member.syncTicket = ticket
    member.deadlineMs = NEVER
    if (member.memberId === this.#core.leader) this.#core.completeSync(sync.assignments, nowMs)
  }

  #refuseSync(sync: MemberSync): MoonMQError | null {
    if (this.#core.state === 'Empty' || this.#core.state === 'Dead') {
      return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: sync.memberId })
    }
    if (sync.generation !== this.#core.generation) return this.#core.illegalGeneration(sync.generation)
    const otherType = sync.protocolType !== null && sync.protocolType !== this.#core.protocolType
    const otherProtocol = sync.protocol !== null && sync.protocol !== this.#core.protocol
    if (otherType || otherProtocol) return new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group: this.group })
    return this.#core.state === 'PreparingRebalance' ? new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }) : null
  }

  // ---- heartbeat, commit, leave ---------------------------------------------------------------------------------------------

  heartbeat(memberId: string, instanceId: string | null, generation: number, nowMs: number): MoonMQError | null {
    const member = this.#core.members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    if (generation !== this.#core.generation) return this.#core.illegalGeneration(generation)
    member.arm(nowMs)
    return this.#core.state === 'PreparingRebalance' ? new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }) : null
  }

  /**
   * Whether a commit may be stored. In PreparingRebalance a member of the current generation may: it commits what it has processed
   * before it joins again. In CompletingRebalance its partitions may belong to another already.
   */
  refuseCommit({ memberId, instanceId, epoch: generation }: CommitClaim, nowMs: number): MoonMQError | null {
    const simple = generation < 0 && memberId === '' && instanceId === null
    if (this.#core.members.size === 0 && generation < 0) return null
    if (simple) return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: '' })
    const member = this.#core.members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    if (generation !== this.#core.generation) return this.#core.illegalGeneration(generation)
    if (this.#core.state === 'CompletingRebalance') return new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
    member.arm(nowMs)
    return null
  }

  /** A static member may be named by its instance id alone. */
  leave(memberId: string, instanceId: string | null, nowMs: number, reason: string | null = null): MoonMQError | null {
    if (this.#core.pending.delete(memberId)) {
      this.#core.tryCompleteJoin(nowMs)
      return null
    }
    const byInstance = memberId === '' && instanceId !== null ? this.#core.members.ofInstance(instanceId) : undefined
    const member = byInstance ?? this.#core.members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    this.#core.remove(member)
    this.#core.afterRemoval(`member ${member.memberId} left${inItsWords(reason)}`, nowMs)
    return null
  }

  // ---- connections and time -------------------------------------------------------------------------------------------------

  /**
   * The connection of a parked request is gone. Its member has one session to come back; one that was never told its id cannot,
   * and goes at once. So no barrier depends on somebody who is not there.
   */
  abandon(ticket: number, nowMs: number): void {
    for (const member of this.#core.members.all()) {
      if (member.joinTicket !== ticket && member.syncTicket !== ticket) continue
      member.joinTicket = NO_TICKET
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
      if (member.idKnown || member.instanceId !== null) return
      this.#core.remove(member)
      this.#core.afterRemoval(`member ${member.memberId} disconnected before it was told its id`, nowMs)
      return
    }
  }

  nextDeadlineMs(): number {
    let next = Math.min(this.#core.barrier.deadlineMs, this.#core.syncDeadlineMs)
    for (const member of this.#core.members.all()) next = Math.min(next, member.deadlineMs)
    for (const deadline of this.#core.pending.values()) next = Math.min(next, deadline)
    return next
  }

  tick(nowMs: number): void {
    for (const [memberId, deadlineMs] of this.#core.pending) if (deadlineMs <= nowMs) this.#core.pending.delete(memberId)
    const expired = [...this.#core.members.all()].filter((member) => member.deadlineMs <= nowMs)
    this.#removeAll(expired, 'session over', nowMs)
    if (this.#core.syncDeadlineMs <= nowMs) {
      this.#core.syncDeadlineMs = NEVER
      const overdue = [...this.#core.members.all()].filter((member) => member.syncPending)
      this.#removeAll(overdue, 'sync overdue', nowMs)
    }
    this.#core.tryCompleteJoin(nowMs)
    if (this.#core.barrier.deadlineMs <= nowMs && this.#core.barrier.isOver(nowMs)) this.#core.completeJoin(nowMs)
  }

  #removeAll(members: readonly ClassicMember[], why: string, nowMs: number): void {
    if (members.length === 0) return
    for (const member of members) this.#core.remove(member)
    this.#core.afterRemoval(`${why}: ${members.map((member) => member.memberId).join(', ')}`, nowMs)
  }

  kill(reason: string): void {
    for (const member of [...this.#core.members.all()]) this.#core.remove(member)
    this.#core.pending.clear()
    this.#core.barrier.close()
    this.#core.syncDeadlineMs = NEVER
    this.#core.transition('Dead', reason)
  }
}
