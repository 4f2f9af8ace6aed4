import { MoonMQError } from '../../core/errors.ts'
import { groupKey, groupValue } from '../offsets/offset-records.ts'
import type { JoinedGroup, SyncedGroup } from '../ports.ts'
import { ClassicMember, MemberTable, NO_TICKET } from './classic-members.ts'
import { assignedPartitionsOf, subscriptionOf } from './classic-subscription.ts'
import {
  type ClassicOptions,
  type ClassicState,
  type GroupSnapshot,
  inItsWords,
  joinRefused,
  type MemberJoin,
  type MemberSync,
} from './classic-types.ts'
import { JoinBarrier } from './join-barrier.ts'
import type { CommitClaim, GroupEffect, GroupMachine, MemberView, StoredPair } from './machine.ts'

const NEVER = Number.POSITIVE_INFINITY
const NOTHING = Buffer.alloc(0)
const MAX_GENERATION = 0x7fffffff
/** The embedded protocol of consumers; the subscriptions of others cannot be read. */
const CONSUMER_PROTOCOL = 'consumer'

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
  readonly #options: ClassicOptions
  readonly #members: MemberTable
  /** Ids given out by MEMBER_ID_REQUIRED and not used yet, with the end of their wait. */
  readonly #pending = new Map<string, number>()
  readonly #effects: GroupEffect[] = []
  #state: ClassicState = 'Empty'
  #generation = 0
  #protocolType = ''
  #protocol: string | null = null
  #leader: string | null = null
  readonly #barrier = new JoinBarrier()
  #syncDeadlineMs = NEVER

  constructor(group: string, options: ClassicOptions) {
    this.group = group
    this.#options = options
    this.#members = new MemberTable(group)
  }

  /**
   * The group as it was stored. Members come back with whole sessions. A group whose members have no assignment yet was stored at
   * the join barrier: it goes on waiting for the leader's sync, so the generation that its members were told stays good.
   */
  static restore(group: string, snapshot: GroupSnapshot, options: ClassicOptions, nowMs: number): ClassicGroup {
    const restored = new ClassicGroup(group, options)
    restored.#generation = snapshot.generation
    restored.#protocolType = snapshot.protocolType
    if (snapshot.members.length === 0) return restored
    restored.#protocol = snapshot.protocol
    for (const stored of snapshot.members) {
      const member = ClassicMember.restore(stored, snapshot)
      member.arm(nowMs)
      restored.#members.add(member)
    }
    const known = snapshot.leader !== null && restored.#members.get(snapshot.leader) !== undefined
    restored.#leader = known ? snapshot.leader : (restored.#members.first()?.memberId ?? null)
    restored.#state = snapshot.members.some((member) => member.assignment.length > 0) ? 'Stable' : 'CompletingRebalance'
    if (restored.#state === 'CompletingRebalance') restored.#openSyncBarrier(nowMs)
    if (snapshot.leader === null) restored.rebalance('the members had not agreed yet', nowMs)
    return restored
  }

  /** Members of another protocol's group that goes on in this one: stable, in the generation where that stood. */
  static adopt(group: string, options: ClassicOptions, generation: number, members: readonly MemberJoin[], nowMs: number): ClassicGroup {
    const adopted = new ClassicGroup(group, options)
    adopted.#generation = generation
    adopted.#protocolType = CONSUMER_PROTOCOL
    adopted.#state = 'Stable'
    for (const join of members) {
      const member = new ClassicMember(join.memberId, join, true)
      member.arm(nowMs)
      adopted.#members.add(member)
    }
    adopted.#protocol = adopted.#members.electProtocol()
    adopted.#leader = adopted.#members.first()?.memberId ?? null
    return adopted
  }

  /** Everybody has to join again. */
  rebalance(reason: string, nowMs: number): void {
    this.#prepareRebalance(reason, nowMs)
  }

  /** Another machine goes on with the group: who waits here is told to join again. */
  retire(): void {
    const error = new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
    for (const member of this.#members.all()) this.#supersede(member, error)
  }

  get state(): ClassicState {
    return this.#state
  }

  get generation(): number {
    return this.#generation
  }

  get epoch(): number {
    return this.#generation
  }

  get isVacant(): boolean {
    return this.#state === 'Empty' && this.#pending.size === 0
  }

  get protocolType(): string {
    return this.#protocolType
  }

  get protocol(): string | null {
    return this.#protocol
  }

  get leader(): string | null {
    return this.#leader
  }

  get memberCount(): number {
    return this.#members.size
  }

  /** What members and their leader said can be read of consumers only; others keep theirs to themselves. */
  *views(): IterableIterator<MemberView> {
    const isConsumer = this.protocolType === CONSUMER_PROTOCOL
    for (const { memberId, instanceId, clientId, clientHost, protocols, assignment } of this.members()) {
      const said = isConsumer ? subscriptionOf(protocols[0]?.metadata ?? NOTHING) : null
      const assigned = isConsumer ? (assignedPartitionsOf(assignment) ?? []) : []
      yield { memberId, instanceId, clientId, clientHost, topics: said?.topics ?? [], assigned }
    }
  }

  members(): Iterable<ClassicMember> {
    return this.#members.all()
  }

  /** What the last calls asked for, in order. */
  drain(): GroupEffect[] {
    return this.#effects.splice(0)
  }

  snapshot(): GroupSnapshot {
    const protocol = this.#protocol
    return {
      protocolType: this.#protocolType,
      generation: this.#generation,
      protocol,
      leader: this.#leader,
      members: [...this.#members.all()].map((member) => member.snapshot(protocol)),
    }
  }

  takeRecords(stateChangedAtMs: number): readonly StoredPair[] {
    // Without a leader: nobody has agreed on what the members have, and a restart goes on with the rebalance.
    const isAgreed = this.#state !== 'PreparingRebalance'
    const snapshot = { ...this.snapshot(), ...(isAgreed ? {} : { leader: null }) }
    return [{ key: groupKey(this.group), value: groupValue({ snapshot, stateChangedAtMs }) }]
  }

  /** While a group rebalances nothing of it may go; nor when the subscriptions of a stable one cannot be read. */
  subscribedTopics(): ReadonlySet<string> | null {
    if (this.#state === 'Empty') return new Set()
    if (this.#state !== 'Stable' || this.#protocolType !== CONSUMER_PROTOCOL) return null
    const topics = new Set<string>()
    for (const member of this.#members.all()) {
      const subscription = subscriptionOf(member.metadata(this.#protocol))
      if (subscription === null) return null
      for (const topic of subscription.topics) topics.add(topic)
    }
    return topics
  }

  // ---- join ---------------------------------------------------------------------------------------------------------------

  /** Ends in one `joined` effect with this ticket, at once or when the barrier opens. */
  join(join: MemberJoin, ticket: number, nowMs: number): void {
    const refusal = this.#refusal(join)
    if (refusal !== null) this.#reply(ticket, joinRefused(refusal, join.memberId))
    else if (join.memberId === '') this.#joinWithoutId(join, ticket, nowMs)
    else this.#joinWithId(join, ticket, nowMs)
    this.#tryCompleteJoin(nowMs)
  }

  #refusal(join: MemberJoin): MoonMQError | null {
    const self = join.instanceId === null ? this.#members.get(join.memberId) : this.#members.ofInstance(join.instanceId)
    const others = this.#members.size - (self === undefined ? 0 : 1)
    const shared = others === 0 || (join.protocolType === this.#protocolType && this.#members.shareProtocol(join.protocols, self))
    if (join.protocolType === '' || join.protocols.length === 0 || !shared) {
      return new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group: this.group })
    }
    const counted = self !== undefined || this.#pending.has(join.memberId)
    if (!counted && join.memberId === '' && this.#members.size + this.#pending.size >= this.#options.maxMembers) {
      return new MoonMQError('GROUP_LIMIT', { group: this.group, limit: this.#options.maxMembers })
    }
    return null
  }

  #joinWithoutId(join: MemberJoin, ticket: number, nowMs: number): void {
    const former = join.instanceId === null ? undefined : this.#members.ofInstance(join.instanceId)
    if (former !== undefined) {
      this.#replaceStatic(former, join, ticket, nowMs)
    } else if (join.requireKnownMemberId && join.instanceId === null) {
      // Trap of a lost reply: without this step each retry would leave a member behind that nobody speaks for (KIP-394).
      this.#pending.set(join.newMemberId, nowMs + join.sessionTimeoutMs)
      this.#reply(ticket, joinRefused(new MoonMQError('MEMBER_ID_REQUIRED'), join.newMemberId))
    } else {
      this.#addMember(join, join.newMemberId, false, ticket, nowMs)
    }
  }

  #joinWithId(join: MemberJoin, ticket: number, nowMs: number): void {
    if (this.#pending.has(join.memberId)) {
      const holder = join.instanceId === null ? undefined : this.#members.ofInstance(join.instanceId)
      if (holder === undefined) {
        this.#pending.delete(join.memberId)
        this.#addMember(join, join.memberId, true, ticket, nowMs)
        return
      }
    }
    const member = this.#members.resolve(join.memberId, join.instanceId)
    if (member instanceof MoonMQError) {
      this.#reply(ticket, joinRefused(member, join.memberId))
      return
    }
    member.idKnown = true
    const unchanged = member.hasProtocols(join.protocols)
    if (this.#state === 'CompletingRebalance' && unchanged) {
      // It joined this generation already; the reply was lost.
      member.arm(nowMs)
      this.#reply(ticket, this.#joined(member))
    } else if (this.#state === 'Stable' && unchanged && member.memberId !== this.#leader) {
      member.arm(nowMs)
      this.#reply(ticket, this.#joined(member))
    } else {
      // A leader that joins again asks for a rebalance: what it assigns has changed.
      this.#rejoin(member, join, ticket)
      this.#prepareRebalance(`member ${member.memberId} joined again${inItsWords(join.reason)}`, nowMs)
    }
  }

  #addMember(join: MemberJoin, memberId: string, idKnown: boolean, ticket: number, nowMs: number): void {
    const member = new ClassicMember(memberId, join, idKnown)
    member.joinTicket = ticket
    if (this.#members.size === 0) this.#protocolType = join.protocolType
    this.#members.add(member)
    if (this.#leader === null) this.#leader = memberId
    this.#barrier.joined()
    this.#prepareRebalance(`member ${memberId} joined${inItsWords(join.reason)}`, nowMs)
  }

  #rejoin(member: ClassicMember, join: MemberJoin, ticket: number): void {
    this.#supersede(member, new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }))
    member.update(join)
    member.joinTicket = ticket
    member.deadlineMs = NEVER
  }

  /** Answers what is parked for the member, which a newer request replaces. */
  #supersede(member: ClassicMember, error: MoonMQError): void {
    if (member.joinTicket !== NO_TICKET) this.#reply(member.joinTicket, joinRefused(error, member.memberId))
    if (member.syncTicket !== NO_TICKET) this.#effects.push({ kind: 'synced', ticket: member.syncTicket, result: error })
    member.joinTicket = NO_TICKET
    member.syncTicket = NO_TICKET
  }

  /** The process behind an instance id was restarted: same member, new id. The others do not notice while the group is stable. */
  #replaceStatic(member: ClassicMember, join: MemberJoin, ticket: number, nowMs: number): void {
    const formerId = member.memberId
    const formerLeader = this.#leader
    this.#supersede(member, new MoonMQError('FENCED_INSTANCE_ID', { instance: join.instanceId ?? '', group: this.group }))
    this.#members.rename(member, join.newMemberId)
    if (formerLeader === formerId) this.#leader = join.newMemberId
    member.update(join)
    // Its id is told with the reply; by its instance id it is reachable in any case.
    member.idKnown = true
    if (this.#state !== 'Stable' || this.#members.electProtocol() !== this.#protocol) {
      member.joinTicket = ticket
      member.deadlineMs = NEVER
      this.#prepareRebalance(`static member ${join.instanceId} came back${inItsWords(join.reason)}`, nowMs)
      return
    }
    member.arm(nowMs)
    this.#effects.push({ kind: 'store' })
    const isLeader = this.#leader === member.memberId
    const result = this.#joined(member)
    if (join.supportsSkippingAssignment) this.#reply(ticket, { ...result, skipAssignment: isLeader })
    // Before version 9 a leader cannot be told to skip, so it is told of a leader that it is not (KIP-345).
    else this.#reply(ticket, { ...result, leader: formerLeader ?? '', members: [] })
  }

  // ---- the join barrier -----------------------------------------------------------------------------------------------------

  #prepareRebalance(reason: string, nowMs: number): void {
    if (this.#state === 'PreparingRebalance' || this.#state === 'Dead') return
    if (this.#state === 'CompletingRebalance') this.#cancelSyncs(nowMs)
    this.#syncDeadlineMs = NEVER
    const delayMs = this.#options.initialRebalanceDelayMs
    const timeoutMs = this.#members.maxRebalanceTimeoutMs()
    if (this.#state === 'Empty' && delayMs > 0) this.#barrier.openForCompany(nowMs, timeoutMs, delayMs)
    else this.#barrier.open(nowMs, timeoutMs)
    this.#transition('PreparingRebalance', reason)
  }

  #cancelSyncs(nowMs: number): void {
    for (const member of this.#members.all()) {
      if (member.syncTicket === NO_TICKET) continue
      const result = new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
      this.#effects.push({ kind: 'synced', ticket: member.syncTicket, result })
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
    }
  }

  #tryCompleteJoin(nowMs: number): void {
    if (this.#state !== 'PreparingRebalance' || this.#barrier.waitsForCompany) return
    if (this.#members.allJoined() && this.#pending.size === 0) this.#completeJoin(nowMs)
  }

  #completeJoin(nowMs: number): void {
    for (const member of [...this.#members.all()]) {
      // Static members that are away keep their place until their session ends.
      if (member.joinTicket === NO_TICKET && member.instanceId === null) this.#remove(member)
    }
    if (this.#members.size > 0 && !this.#electLeader()) {
      this.#barrier.open(nowMs, this.#members.maxRebalanceTimeoutMs())
      return
    }
    this.#barrier.close()
    this.#generation = this.#generation === MAX_GENERATION ? 1 : this.#generation + 1
    if (this.#members.size === 0) {
      this.#protocol = null
      this.#leader = null
      this.#transition('Empty', 'the last member is gone')
      this.#effects.push({ kind: 'store' })
      return
    }
    this.#protocol = this.#members.electProtocol()
    for (const member of this.#members.all()) member.assignment = NOTHING
    this.#transition('CompletingRebalance', `${this.#members.size} members joined`)
    this.#effects.push({ kind: 'store' })
    this.#openSyncBarrier(nowMs)
    for (const member of this.#members.all()) {
      const ticket = member.joinTicket
      member.joinTicket = NO_TICKET
      member.arm(nowMs)
      if (ticket === NO_TICKET) continue
      member.idKnown = true
      this.#reply(ticket, this.#joined(member))
    }
  }

  /** The leader must be one that joined. False when nobody did: only static members that are away are left. */
  #electLeader(): boolean {
    const leader = this.#leader === null ? undefined : this.#members.get(this.#leader)
    if (leader !== undefined && leader.joinTicket !== NO_TICKET) return true
    for (const member of this.#members.all()) {
      if (member.joinTicket === NO_TICKET) continue
      this.#leader = member.memberId
      return true
    }
    return false
  }

  #joined(member: ClassicMember): JoinedGroup {
    const listed = member.memberId === this.#leader && (this.#state === 'CompletingRebalance' || this.#state === 'Stable')
    return {
      error: null,
      generation: this.#generation,
      protocolType: this.#protocolType,
      protocol: this.#protocol,
      leader: this.#leader ?? '',
      skipAssignment: false,
      memberId: member.memberId,
      members: listed ? this.#members.listing(this.#protocol) : [],
    }
  }

  // ---- sync -----------------------------------------------------------------------------------------------------------------

  #openSyncBarrier(nowMs: number): void {
    for (const member of this.#members.all()) member.syncPending = true
    this.#syncDeadlineMs = nowMs + this.#members.maxRebalanceTimeoutMs()
  }

  /** Ends in one `synced` effect with this ticket, at once or when the leader has handed the assignments in. */
  sync(sync: MemberSync, ticket: number, nowMs: number): void {
    const member = this.#members.resolve(sync.memberId, sync.instanceId)
    const refusal = member instanceof MoonMQError ? member : this.#refuseSync(sync)
    if (refusal !== null || member instanceof MoonMQError) {
      this.#effects.push({ kind: 'synced', ticket, result: refusal ?? (member as MoonMQError) })
      return
    }
    member.idKnown = true
    member.syncPending = false
    if (this.#state === 'Stable') {
      member.arm(nowMs)
      this.#effects.push({ kind: 'synced', ticket, result: this.#synced(member) })
      return
    }
    this.#supersede(member, new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }))
    member.syncTicket = ticket
    member.deadlineMs = NEVER
    if (member.memberId === this.#leader) this.#completeSync(sync.assignments, nowMs)
  }

  #refuseSync(sync: MemberSync): MoonMQError | null {
    if (this.#state === 'Empty' || this.#state === 'Dead') {
      return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: sync.memberId })
    }
    if (sync.generation !== this.#generation) return this.#illegalGeneration(sync.generation)
    const otherType = sync.protocolType !== null && sync.protocolType !== this.#protocolType
    const otherProtocol = sync.protocol !== null && sync.protocol !== this.#protocol
    if (otherType || otherProtocol) return new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group: this.group })
    return this.#state === 'PreparingRebalance' ? new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }) : null
  }

  #completeSync(assignments: ReadonlyMap<string, Buffer>, nowMs: number): void {
    for (const member of this.#members.all()) member.assignment = assignments.get(member.memberId) ?? NOTHING
    this.#transition('Stable', 'the leader assigned')
    this.#effects.push({ kind: 'store' })
    for (const member of this.#members.all()) {
      if (member.syncTicket === NO_TICKET) continue
      this.#effects.push({ kind: 'synced', ticket: member.syncTicket, result: this.#synced(member) })
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
    }
  }

  #synced(member: ClassicMember): SyncedGroup {
    return { protocolType: this.#protocolType, protocol: this.#protocol, assignment: member.assignment }
  }

  // ---- heartbeat, commit, leave ---------------------------------------------------------------------------------------------

  heartbeat(memberId: string, instanceId: string | null, generation: number, nowMs: number): MoonMQError | null {
    const member = this.#members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    if (generation !== this.#generation) return this.#illegalGeneration(generation)
    member.arm(nowMs)
    return this.#state === 'PreparingRebalance' ? new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group }) : null
  }

  /**
   * Whether a commit may be stored. In PreparingRebalance a member of the current generation may: it commits what it has processed
   * before it joins again. In CompletingRebalance its partitions may belong to another already.
   */
  refuseCommit({ memberId, instanceId, epoch: generation }: CommitClaim, nowMs: number): MoonMQError | null {
    const simple = generation < 0 && memberId === '' && instanceId === null
    if (this.#members.size === 0 && generation < 0) return null
    if (simple) return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: '' })
    const member = this.#members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    if (generation !== this.#generation) return this.#illegalGeneration(generation)
    if (this.#state === 'CompletingRebalance') return new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
    member.arm(nowMs)
    return null
  }

  #illegalGeneration(generation: number): MoonMQError {
    return new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation })
  }

  /** A static member may be named by its instance id alone. */
  leave(memberId: string, instanceId: string | null, nowMs: number, reason: string | null = null): MoonMQError | null {
    if (this.#pending.delete(memberId)) {
      this.#tryCompleteJoin(nowMs)
      return null
    }
    const byInstance = memberId === '' && instanceId !== null ? this.#members.ofInstance(instanceId) : undefined
    const member = byInstance ?? this.#members.resolve(memberId, instanceId)
    if (member instanceof MoonMQError) return member
    this.#remove(member)
    this.#afterRemoval(`member ${member.memberId} left${inItsWords(reason)}`, nowMs)
    return null
  }

  #remove(member: ClassicMember): void {
    this.#supersede(member, new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: member.memberId }))
    this.#members.remove(member)
    if (this.#leader === member.memberId) this.#leader = this.#members.first()?.memberId ?? null
  }

  #afterRemoval(reason: string, nowMs: number): void {
    this.#prepareRebalance(reason, nowMs)
    if (this.#members.size === 0 && this.#pending.size === 0) this.#barrier.stopWaitingForCompany()
    this.#tryCompleteJoin(nowMs)
  }

  // ---- connections and time -------------------------------------------------------------------------------------------------

  /**
   * The connection of a parked request is gone. Its member has one session to come back; one that was never told its id cannot,
   * and goes at once. So no barrier depends on somebody who is not there.
   */
  abandon(ticket: number, nowMs: number): void {
    for (const member of this.#members.all()) {
      if (member.joinTicket !== ticket && member.syncTicket !== ticket) continue
      member.joinTicket = NO_TICKET
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
      if (member.idKnown || member.instanceId !== null) return
      this.#remove(member)
      this.#afterRemoval(`member ${member.memberId} disconnected before it was told its id`, nowMs)
      return
    }
  }

  nextDeadlineMs(): number {
    let next = Math.min(this.#barrier.deadlineMs, this.#syncDeadlineMs)
    for (const member of this.#members.all()) next = Math.min(next, member.deadlineMs)
    for (const deadline of this.#pending.values()) next = Math.min(next, deadline)
    return next
  }

  tick(nowMs: number): void {
    for (const [memberId, deadlineMs] of this.#pending) if (deadlineMs <= nowMs) this.#pending.delete(memberId)
    const expired = [...this.#members.all()].filter((member) => member.deadlineMs <= nowMs)
    this.#removeAll(expired, 'session over', nowMs)
    if (this.#syncDeadlineMs <= nowMs) {
      this.#syncDeadlineMs = NEVER
      const overdue = [...this.#members.all()].filter((member) => member.syncPending)
      this.#removeAll(overdue, 'sync overdue', nowMs)
    }
    this.#tryCompleteJoin(nowMs)
    if (this.#barrier.deadlineMs <= nowMs && this.#barrier.isOver(nowMs)) this.#completeJoin(nowMs)
  }

  #removeAll(members: readonly ClassicMember[], why: string, nowMs: number): void {
    if (members.length === 0) return
    for (const member of members) this.#remove(member)
    this.#afterRemoval(`${why}: ${members.map((member) => member.memberId).join(', ')}`, nowMs)
  }

  kill(reason: string): void {
    for (const member of [...this.#members.all()]) this.#remove(member)
    this.#pending.clear()
    this.#barrier.close()
    this.#syncDeadlineMs = NEVER
    this.#transition('Dead', reason)
  }

  #transition(to: ClassicState, reason: string): void {
    this.#effects.push({ kind: 'transition', from: this.#state, to, reason })
    this.#state = to
  }

  #reply(ticket: number, result: JoinedGroup): void {
    this.#effects.push({ kind: 'joined', ticket, result })
  }
}
