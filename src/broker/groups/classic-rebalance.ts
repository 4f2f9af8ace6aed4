import { MoonMQError } from '../../core/errors.ts'
import type { JoinedGroup, SyncedGroup } from '../ports.ts'
import { type ClassicMember, MemberTable, NO_TICKET } from './classic-members.ts'
import { subscribedTopicsOf } from './classic-subscription.ts'
import { type ClassicOptions, type ClassicState, joinRefused } from './classic-types.ts'
import { JoinBarrier } from './join-barrier.ts'
import type { GroupEffect } from './machine.ts'

const NEVER = Number.POSITIVE_INFINITY
const NOTHING = Buffer.alloc(0)
const NO_TOPICS: ReadonlySet<string> = new Set()
const MAX_GENERATION = 0x7fffffff
/** The embedded protocol of consumers; the subscriptions of others cannot be read. */
export const CONSUMER_PROTOCOL = 'consumer'

/**
 * Where a classic group stands between its two barriers, and how it goes from one to the other. What may be asked of it, and by whom, is
 * `ClassicGroup`'s, the only one who has this.
 */
export class ClassicRebalance {
  readonly group: string
  readonly options: ClassicOptions
  readonly members: MemberTable
  /** Ids given out by MEMBER_ID_REQUIRED and not used yet, with the end of their wait. */
  readonly pending = new Map<string, number>()
  readonly effects: GroupEffect[] = []
  readonly barrier = new JoinBarrier()
  state: ClassicState = 'Empty'
  generation = 0
  protocolType = ''
  protocol: string | null = null
  leader: string | null = null
  /** Topics of the generation that was agreed on last. Null: there was none yet, or its subscriptions cannot be read. */
  subscribed: ReadonlySet<string> | null = null
  syncDeadlineMs = NEVER

  constructor(group: string, options: ClassicOptions) {
    this.group = group
    this.options = options
    this.members = new MemberTable(group)
  }

  prepareRebalance(reason: string, nowMs: number): void {
    if (this.state === 'PreparingRebalance' || this.state === 'Dead') return
    if (this.state === 'CompletingRebalance') this.#cancelSyncs(nowMs)
    this.syncDeadlineMs = NEVER
    const delayMs = this.options.initialRebalanceDelayMs
    const timeoutMs = this.members.maxRebalanceTimeoutMs()
    if (this.state === 'Empty') this.barrier.openForCompany(nowMs, timeoutMs, delayMs)
    else this.barrier.open(nowMs, timeoutMs)
    this.transition('PreparingRebalance', reason)
  }

  #cancelSyncs(nowMs: number): void {
    for (const member of this.members.all()) {
      if (member.syncTicket === NO_TICKET) continue
      const result = new MoonMQError('REBALANCE_IN_PROGRESS', { group: this.group })
      this.effects.push({ kind: 'synced', ticket: member.syncTicket, result })
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
    }
  }

  tryCompleteJoin(nowMs: number): void {
    if (this.state !== 'PreparingRebalance' || this.barrier.waitsForCompany) return
    // In the first rebalance of an empty group nobody waits for one that was only given an id.
    if (this.members.allJoined() && (this.pending.size === 0 || this.barrier.isInitial)) this.completeJoin(nowMs)
  }

  completeJoin(nowMs: number): void {
    for (const member of [...this.members.all()]) {
      // Static members that are away keep their place until their session ends.
      if (member.joinTicket === NO_TICKET && member.instanceId === null) this.remove(member)
    }
    if (this.members.size > 0 && !this.#electLeader()) {
      this.barrier.open(nowMs, this.members.maxRebalanceTimeoutMs())
      return
    }
    this.barrier.close()
    this.generation = this.generation === MAX_GENERATION ? 1 : this.generation + 1
    if (this.members.size === 0) {
      this.protocol = null
      this.leader = null
      this.readSubscribed()
      this.transition('Empty', 'the last member is gone')
      this.effects.push({ kind: 'store' })
      return
    }
    this.protocol = this.members.electProtocol()
    this.readSubscribed()
    for (const member of this.members.all()) {
      if (member.assignment.length > 0) member.formerAssignment = member.assignment
      member.assignment = NOTHING
    }
    this.transition('CompletingRebalance', `${this.members.size} members joined`)
    this.effects.push({ kind: 'store' })
    this.openSyncBarrier(nowMs)
    for (const member of this.members.all()) {
      const ticket = member.joinTicket
      member.joinTicket = NO_TICKET
      member.arm(nowMs)
      if (ticket === NO_TICKET) continue
      member.idKnown = true
      this.reply(ticket, this.joined(member))
    }
  }

  /** Of the members and the protocol that there are now. */
  readSubscribed(): void {
    this.subscribed = this.#subscriptions()
  }

  #subscriptions(): ReadonlySet<string> | null {
    if (this.members.size === 0) return NO_TOPICS
    if (this.protocolType !== CONSUMER_PROTOCOL) return null
    const topics = new Set<string>()
    for (const member of this.members.all()) {
      const subscribed = subscribedTopicsOf(member.metadata(this.protocol))
      if (subscribed === null) return null
      for (const topic of subscribed) topics.add(topic)
    }
    return topics
  }

  /** The leader must be one that joined. False when nobody did: only static members that are away are left. */
  #electLeader(): boolean {
    const leader = this.leader === null ? undefined : this.members.get(this.leader)
    if (leader !== undefined && leader.joinTicket !== NO_TICKET) return true
    for (const member of this.members.all()) {
      if (member.joinTicket === NO_TICKET) continue
      this.leader = member.memberId
      return true
    }
    return false
  }

  joined(member: ClassicMember): JoinedGroup {
    const listed = member.memberId === this.leader && (this.state === 'CompletingRebalance' || this.state === 'Stable')
    return {
      error: null,
      generation: this.generation,
      protocolType: this.protocolType,
      protocol: this.protocol,
      leader: this.leader ?? '',
      skipAssignment: false,
      memberId: member.memberId,
      members: listed ? this.members.listing(this.protocol) : [],
    }
  }

  openSyncBarrier(nowMs: number): void {
    for (const member of this.members.all()) member.syncPending = true
    this.syncDeadlineMs = nowMs + this.members.maxRebalanceTimeoutMs()
  }

  completeSync(assignments: ReadonlyMap<string, Buffer>, nowMs: number): void {
    for (const member of this.members.all()) {
      member.assignment = assignments.get(member.memberId) ?? NOTHING
      member.formerAssignment = NOTHING
    }
    this.transition('Stable', 'the leader assigned')
    this.effects.push({ kind: 'store' })
    for (const member of this.members.all()) {
      if (member.syncTicket === NO_TICKET) continue
      this.effects.push({ kind: 'synced', ticket: member.syncTicket, result: this.synced(member) })
      member.syncTicket = NO_TICKET
      member.arm(nowMs)
    }
  }

  synced(member: ClassicMember): SyncedGroup {
    return { protocolType: this.protocolType, protocol: this.protocol, assignment: member.assignment }
  }

  /** Answers what is parked for the member, which a newer request replaces. */
  supersede(member: ClassicMember, error: MoonMQError): void {
    if (member.joinTicket !== NO_TICKET) this.reply(member.joinTicket, joinRefused(error, member.memberId))
    if (member.syncTicket !== NO_TICKET) this.effects.push({ kind: 'synced', ticket: member.syncTicket, result: error })
    member.joinTicket = NO_TICKET
    member.syncTicket = NO_TICKET
  }

  remove(member: ClassicMember): void {
    this.supersede(member, new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: member.memberId }))
    this.members.remove(member)
    if (this.leader === member.memberId) this.leader = this.members.first()?.memberId ?? null
  }

  afterRemoval(reason: string, nowMs: number): void {
    this.prepareRebalance(reason, nowMs)
    if (this.members.size === 0 && this.pending.size === 0) this.barrier.stopWaitingForCompany()
    this.tryCompleteJoin(nowMs)
  }

  illegalGeneration(generation: number): MoonMQError {
    return new MoonMQError('ILLEGAL_GENERATION', { group: this.group, generation })
  }

  transition(to: ClassicState, reason: string): void {
    this.effects.push({ kind: 'transition', from: this.state, to, reason })
    this.state = to
  }

  reply(ticket: number, result: JoinedGroup): void {
    this.effects.push({ kind: 'joined', ticket, result })
  }
}
