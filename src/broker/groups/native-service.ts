import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { Random } from '../../core/random.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { GrantedPartitions, GroupMembership, JoinAsMember, MemberRound, NamedAssignment } from '../ports.ts'
import type { FoundGroup, GroupTable } from './group-table.ts'
import { NATIVE_SESSION_MS, NativeGroup } from './native/native-group.ts'

interface ServiceDeps {
  readonly clock: Clock
  readonly random: Random
  readonly table: GroupTable
  readonly image: () => MetadataImage
}

/** Groups with members of the native protocol, of one broker. */
const MAX_NATIVE_GROUPS = 1024
/** An id of the broker's choice: eight hexadecimal digits. */
const ID_BYTES = 4
const NOTHING: GrantedPartitions = new Map()

/** The members of the native protocol: what is refused before their machine is asked. */
export class NativeService {
  readonly #deps: ServiceDeps
  /** Groups that got members here; some of them may have lost them since. */
  readonly #groups = new Set<string>()

  constructor(deps: ServiceDeps) {
    this.#deps = deps
  }

  /** Throws GROUP_CONFLICT, INCONSISTENT_GROUP_PROTOCOL, TOPIC_MISSING, RATE_LIMITED. */
  async join(context: RequestContext, request: JoinAsMember, former: GroupMembership | null): Promise<GroupMembership> {
    const { group, topics, cooperative, onChange } = request
    const known = former instanceof Membership ? former : null
    if (known !== null && known.group !== group && !known.hasLapsed) {
      throw new MoonMQError('GROUP_CONFLICT', { reason: `this connection is a member of group "${known.group}" already` })
    }
    const { table, image } = this.#deps
    for (const topic of topics) if (!image().topics.has(topic)) throw new MoonMQError('TOPIC_MISSING', { topic })
    const same = known?.group === group ? known : null
    const membership = same ?? new Membership(this.#deps, group)
    const memberId = request.memberId !== '' ? request.memberId : (same?.memberId ?? this.#newId(group))
    const { clientId, clientHost } = context
    const join = { memberId, owner: membership, replaces: same?.memberId ?? null, clientId, clientHost, topics, cooperative, onChange }
    const { joinEpoch } = await table.ask<NativeGroup, { joinEpoch: number }>(
      { group, kind: 'native', make: () => this.#make(group) },
      (machine, nowMs) => machine.join(join, nowMs),
    )
    this.#groups.add(group)
    membership.joined(memberId, joinEpoch)
    if (!context.signal.aborted) return membership
    // Nobody is there to be a member.
    membership.close()
    throw new MoonMQError('ABORTED')
  }

  #make(group: string): NativeGroup {
    if (!this.#groups.has(group) && this.#groups.size >= MAX_NATIVE_GROUPS) {
      for (const each of this.#groups) if (!this.#hasMembers(each)) this.#groups.delete(each)
      if (this.#groups.size >= MAX_NATIVE_GROUPS) {
        throw new MoonMQError('RATE_LIMITED', { reason: `the broker has ${MAX_NATIVE_GROUPS} groups with native members already` })
      }
    }
    return new NativeGroup(group, this.#deps.image)
  }

  #hasMembers(group: string): boolean {
    const machine = this.#machine(group)
    return machine !== null && machine.memberCount > 0
  }

  #machine(group: string): NativeGroup | null {
    try {
      const machine = this.#deps.table.find(group)?.entry.machine
      return machine instanceof NativeGroup ? machine : null
    } catch (error) {
      // Its partition is being read again, and its members are gone.
      if (error instanceof MoonMQError) return null
      throw error
    }
  }

  /** One that nobody has. */
  #newId(group: string): string {
    const machine = this.#machine(group)
    for (;;) {
      const id = this.#deps.random.bytes(ID_BYTES).toString('hex')
      if (machine === null || !machine.has(id)) return id
    }
  }
}

/** A connection's place in a group; by its identity it owns the member of its id. */
class Membership implements GroupMembership {
  readonly group: string
  readonly sessionTimeoutMs = NATIVE_SESSION_MS
  memberId = ''
  joinEpoch = 0
  readonly #deps: ServiceDeps

  constructor(deps: ServiceDeps, group: string) {
    this.#deps = deps
    this.group = group
  }

  joined(memberId: string, joinEpoch: number): void {
    this.memberId = memberId
    this.joinEpoch = joinEpoch
  }

  /** Throws GROUP_MEMBER_UNKNOWN: it was dropped, or the group with everything in memory was. */
  #found(): FoundGroup & { readonly machine: NativeGroup } {
    const { group, memberId } = this
    const found = this.#deps.table.find(group)
    const machine = found?.entry.machine
    if (found === undefined || !(machine instanceof NativeGroup) || !machine.isMember(memberId, this)) {
      throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
    }
    return { ...found, machine }
  }

  get hasLapsed(): boolean {
    try {
      this.#found()
      return false
    } catch (error) {
      if (error instanceof MoonMQError) return true
      throw error
    }
  }

  epoch(): number {
    return this.#found().machine.epoch
  }

  tellAssignment(): readonly NamedAssignment[] {
    return this.#found().machine.tellAssignment(this.memberId)
  }

  beginRound(): MemberRound {
    const { machine, shard, entry } = this.#found()
    const round = machine.beginRound(this.memberId)
    return {
      partitionsOf: (topic) => machine.partitionsIn(round, topic) ?? NOTHING,
      end: () => {
        machine.endRound(round, this.#deps.clock.monotonicMs())
        // A machine that another one has followed is asked nothing any more.
        if (entry.machine === machine && shard.groups.get(this.group) === entry) shard.settle(entry)
      },
    }
  }

  heartbeat(): void {
    this.#found().machine.heartbeat(this.memberId, this.#deps.clock.monotonicMs())
  }

  hold(held: readonly NamedAssignment[]): void {
    const { machine, shard, entry } = this.#found()
    machine.hold(this.memberId, held, this.#deps.clock.monotonicMs())
    shard.settle(entry)
  }

  leave(): void {
    this.#leave('left')
  }

  #leave(reason: string): void {
    const { machine, shard, entry } = this.#found()
    machine.leave(this.memberId, reason, this.#deps.clock.monotonicMs())
    shard.settle(entry)
  }

  close(): void {
    try {
      this.#leave('lost its connection')
    } catch (error) {
      // Not a member any more.
      if (asMoonMQError(error).code === 'INTERNAL') throw error
    }
  }
}
