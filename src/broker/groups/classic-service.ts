import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { MIB } from '../../core/limits.ts'
import type { Random } from '../../core/random.ts'
import { newUuid } from '../../core/uuid.ts'
import type { RequestContext } from '../context.ts'
import type { JoinedGroup, JoinGroup, LeaveGroup, SyncedGroup, SyncGroup } from '../ports.ts'
import { ClassicGroup } from './classic-group.ts'
import { joinRefused, type MemberJoin } from './classic-types.ts'
import { ConsumerGroup } from './consumer/consumer-group.ts'
import type { GroupEntry } from './group-entry.ts'
import type { GroupOptions } from './group-options.ts'
import type { GroupShard } from './group-shard.ts'
import type { AskGroup, FoundGroup, GroupTable } from './group-table.ts'

/** What the members of a group may bring along, subscriptions and assignments each: it must fit one record. */
const MAX_GROUP_BYTES = 8 * MIB
const MAX_PROTOCOLS = 64
/** Members that leave before others get their turn. */
const LEAVES_PER_TURN = 1000

/** The requests of classic members: what is refused before a machine is asked, and what is answered when. */
export class ClassicService {
  readonly #clock: Clock
  readonly #random: Random
  readonly #table: GroupTable
  readonly #options: GroupOptions
  #lastTicket = 0

  constructor(deps: { clock: Clock; random: Random; table: GroupTable }, options: GroupOptions) {
    this.#clock = deps.clock
    this.#random = deps.random
    this.#table = deps.table
    this.#options = options
  }

  async join(context: RequestContext, request: JoinGroup): Promise<JoinedGroup> {
    try {
      this.#checkJoin(request)
      const shard = await this.#table.writable(request.group)
      if (context.signal.aborted) throw new MoonMQError('ABORTED')
      const unknown = () => new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: request.group, member: request.memberId })
      let entry = shard.groups.get(request.group)
      if (entry === undefined) {
        if (request.memberId !== '') throw unknown()
        entry = this.#table.create(shard, request.group)
      }
      return await this.#joinOf(context, shard, entry, request)
    } catch (error) {
      const refusal = asMoonMQError(error)
      if (refusal.code === 'ABORTED' || refusal.code === 'INTERNAL') throw refusal
      return joinRefused(refusal, request.memberId)
    }
  }

  #joinOf(context: RequestContext, shard: GroupShard, entry: GroupEntry, request: JoinGroup): Promise<JoinedGroup> {
    const { machine, group } = entry
    if (machine instanceof ClassicGroup || !(machine instanceof ConsumerGroup || machine.isVacant)) {
      return this.#parkJoin(context, shard, entry, request)
    }
    if (machine.isVacant) {
      // Who is refused leaves the group as it is.
      if (request.memberId !== '') throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: request.memberId })
      shard.replace(entry, new ClassicGroup(group, this.#options))
      return this.#parkJoin(context, shard, entry, request)
    }
    const join = this.#memberJoin(context, request)
    return this.#table.ask(consumerGroup(group), ({ classic }, nowMs) => classic.join(join, nowMs))
  }

  #checkJoin(request: JoinGroup): void {
    const { minSessionTimeoutMs: min, maxSessionTimeoutMs: max } = this.#options
    const { sessionTimeoutMs, protocols } = request
    if (sessionTimeoutMs < min || sessionTimeoutMs > max) {
      throw new MoonMQError('SESSION_TIMEOUT_INVALID', { timeoutMs: sessionTimeoutMs, min, max })
    }
    const bytes = protocols.reduce((sum, { metadata }) => sum + metadata.length, 0)
    if (protocols.length > MAX_PROTOCOLS || bytes > MAX_GROUP_BYTES) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `${protocols.length} protocols with ${bytes} bytes are too many for one member` })
    }
  }

  #parkJoin(context: RequestContext, shard: GroupShard, entry: GroupEntry, request: JoinGroup): Promise<JoinedGroup> {
    const clock = this.#clock
    const machine = classicOf(entry)
    let others = 0
    for (const member of machine.members()) {
      if (member.memberId !== request.memberId) others += member.protocols.reduce((sum, { metadata }) => sum + metadata.length, 0)
    }
    if (others > MAX_GROUP_BYTES) throw new MoonMQError('GROUP_LIMIT', { group: request.group, limit: machine.memberCount })
    const ticket = ++this.#lastTicket
    const answer = this.#park<JoinedGroup>(context, shard, entry, ticket, request.memberId, 'join')
    machine.join(this.#memberJoin(context, request), ticket, clock.monotonicMs())
    shard.settle(entry)
    return answer
  }

  #memberJoin(context: RequestContext, request: JoinGroup): MemberJoin {
    return {
      ...request,
      newMemberId: `${request.instanceId ?? context.clientId}-${newUuid(this.#random)}`,
      clientId: context.clientId,
      clientHost: context.clientHost,
      // Frames are given back after the request; what a group keeps is its own.
      protocols: request.protocols.map(({ name, metadata }) => ({ name, metadata: Buffer.from(metadata) })),
      rebalanceTimeoutMs: request.rebalanceTimeoutMs > 0 ? request.rebalanceTimeoutMs : request.sessionTimeoutMs,
    }
  }

  #park<T extends JoinedGroup | SyncedGroup>(
    context: RequestContext,
    shard: GroupShard,
    entry: GroupEntry,
    ticket: number,
    memberId: string,
    kind: 'join' | 'sync',
  ): Promise<T> {
    return entry.park<T>(ticket, { memberId, kind }, context.signal, () => {
      if (shard.groups.get(entry.group) !== entry) return
      if (entry.machine instanceof ClassicGroup) entry.machine.abandon(ticket, this.#clock.monotonicMs())
      shard.settle(entry)
    })
  }

  async sync(context: RequestContext, request: SyncGroup): Promise<SyncedGroup> {
    const { shard, entry } = this.#member(request.group, request.memberId)
    if (context.signal.aborted) throw new MoonMQError('ABORTED')
    if (entry.machine instanceof ConsumerGroup) {
      return await this.#table.ask(consumerGroup(request.group), ({ classic }, nowMs) => classic.sync(request, nowMs))
    }
    let bytes = 0
    for (const assignment of request.assignments.values()) bytes += assignment.length
    if (bytes > MAX_GROUP_BYTES)
      throw new MoonMQError('INVALID_REQUEST', { reason: `assignments of ${bytes} bytes exceed ${MAX_GROUP_BYTES}` })
    const ticket = ++this.#lastTicket
    const answer = this.#park<SyncedGroup>(context, shard, entry, ticket, request.memberId, 'sync')
    const assignments = new Map([...request.assignments].map(([memberId, assignment]) => [memberId, Buffer.from(assignment)]))
    classicOf(entry).sync({ ...request, assignments }, ticket, this.#clock.monotonicMs())
    shard.settle(entry)
    return await answer
  }

  /** Throws GROUP_MEMBER_UNKNOWN when there is no such group. */
  #member(group: string, memberId: string): FoundGroup {
    const shard = this.#table.ready(group)
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    return { shard, entry }
  }

  async heartbeat(
    _context: RequestContext,
    request: { group: string; generation: number; memberId: string; instanceId: string | null },
  ): Promise<void> {
    const { shard, entry } = this.#member(request.group, request.memberId)
    const { machine } = entry
    const asked = machine instanceof ConsumerGroup ? machine.classic : classicOf(entry)
    const refusal = asked.heartbeat(request.memberId, request.instanceId, request.generation, this.#clock.monotonicMs())
    if (asked !== machine) shard.settle(entry)
    if (refusal !== null) throw refusal
  }

  /** Of very many members so many leave together, with others' requests in between. */
  async leave(_context: RequestContext, request: LeaveGroup): Promise<readonly (MoonMQError | null)[]> {
    const { members } = request
    if (members.length <= LEAVES_PER_TURN) return await this.#leave(request)
    const outcomes: (MoonMQError | null)[] = []
    for (let from = 0; from < members.length; from += LEAVES_PER_TURN) {
      for (const outcome of await this.#leave({ ...request, members: members.slice(from, from + LEAVES_PER_TURN) })) outcomes.push(outcome)
      await new Promise<void>((resolve) => this.#clock.defer(resolve))
    }
    return outcomes
  }

  async #leave(request: LeaveGroup): Promise<readonly (MoonMQError | null)[]> {
    const shard = this.#table.ready(request.group)
    const entry = shard.groups.get(request.group)
    if (entry === undefined) {
      return request.members.map(({ memberId }) => new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: request.group, member: memberId }))
    }
    if (entry.machine instanceof ConsumerGroup) {
      return await this.#table.ask(consumerGroup(request.group), ({ classic }, nowMs) => classic.leave(request.members, nowMs))
    }
    const nowMs = this.#clock.monotonicMs()
    const machine = classicOf(entry)
    const outcomes = request.members.map(({ memberId, instanceId, reason }) => machine.leave(memberId, instanceId, nowMs, reason ?? null))
    shard.settle(entry)
    return outcomes
  }
}

function consumerGroup(group: string): AskGroup<ConsumerGroup> {
  return { group, kind: 'consumer' }
}

function classicOf({ group, machine }: GroupEntry): ClassicGroup {
  if (machine instanceof ClassicGroup) return machine
  throw new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group })
}
