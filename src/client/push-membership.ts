import type { Clock, Timer } from '../core/clock.ts'
import { asMoonMQError, isCode, MoonMQError } from '../core/errors.ts'
import { decodePayload } from '../wire/frame.ts'
import type { OpName } from '../wire/opcodes.ts'
import type { ClientConnection } from './connection.ts'
import { keyOf, listed } from './grants.ts'
import { GroupMember, type MemberState } from './group-member.ts'
import type { Link } from './link.ts'
import { DEFAULT_REBALANCE_MS } from './membership.ts'
import type { PushPart, PushProgress } from './push-progress.ts'
import type { AssignedPartitions, GroupChange, PushConsumerOptions } from './types.ts'

/** Whose place in the group it is. */
export interface PushMembershipHost {
  readonly progress: PushProgress
  /** Nothing more of them is to be taken. */
  revoked(parts: readonly PushPart[]): void
  /** Everything below `part.stored` is stored. */
  stored(part: PushPart): void
  gone(part: PushPart, error: MoonMQError): void
  /** Ends the consumer. */
  failed(error: MoonMQError): void
}

interface Held {
  readonly topic: string
  readonly partition: number
}

/**
 * The place of a stream in its group: a member on the connection that the records are pushed over, so that the broker pushes what is
 * assigned to it. A partition that is taken away is let go once the loop is done with its record and what is done is stored. With the
 * connection the place is lost; another one goes on where this consumer was, unless the group has moved on meanwhile.
 */
export class PushMembership {
  readonly #link: Link
  readonly #clock: Clock
  readonly #host: PushMembershipHost
  readonly #options: PushConsumerOptions
  readonly #member: GroupMember
  #held = new Map<string, Held>()
  #epoch = 0
  #changes = 0
  /** The stream has begun on the member's connection. */
  #hasBegun = false
  #wanted = false
  #reconciling: Promise<void> | null = null
  #heartbeat: Timer | null = null
  readonly #stop = new AbortController()

  constructor(deps: { readonly link: Link; readonly clock: Clock; readonly host: PushMembershipHost }, options: PushConsumerOptions) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#host = deps.host
    this.#options = options
    const { group, memberId = '', topics, rebalanceTimeoutMs = DEFAULT_REBALANCE_MS } = options
    const signal = options.signal === undefined ? this.#stop.signal : AbortSignal.any([options.signal, this.#stop.signal])
    this.#member = new GroupMember(deps.link, { group, memberId, topics, rebalanceTimeoutMs, signal }, () => this.want())
  }

  get memberId(): string {
    return this.#member.memberId
  }

  get assignment(): readonly AssignedPartitions[] {
    return listed(this.#held.values())
  }

  /** How often the broker said that something is different: what was asked before may have been about a partition that it had taken away. */
  get changes(): number {
    return this.#changes
  }

  /** Resolves when what the broker has said so far is known here. */
  async settledDown(): Promise<void> {
    await this.#reconciling
  }

  /** Joins, and stores how far this consumer has come in what is still its. The stream is to be opened on the connection. */
  async begin(): Promise<ClientConnection> {
    this.#hasBegun = false
    this.#heartbeat?.cancel()
    await this.#reconciling
    const lost = [...this.#held.values()]
    this.#held.clear()
    if (lost.length > 0) await this.#tell('lost', lost)
    const state = await this.#member.join()
    const { connection } = this.#member
    if (connection === null) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'it was lost again' })
    this.#epoch = state.epoch
    await this.#tell('joined', [])
    await this.#goOn(state)
    this.#beat(state)
    return connection
  }

  /** The stream has begun. */
  began(): void {
    this.#hasBegun = true
    if (this.#wanted) this.want()
  }

  pushed(name: OpName, payload: Buffer): void {
    if (name !== 'GROUP_CHANGED' || decodePayload('GROUP_CHANGED', payload).group !== this.#options.group) return
    this.#changes++
    this.want()
  }

  /** Keeps what this consumer knows of a partition where the group is still between what it had stored and what it has done. */
  async #goOn({ assignment }: MemberState): Promise<void> {
    const { progress } = this.#host
    const kept: PushPart[] = []
    const given: Held[] = assignment.flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition })))
    const mine = new Set(given.flatMap(({ topic, partition }) => progress.family(topic, partition)))
    for (const part of progress.parts) if (!mine.has(part)) this.#drop(part)
    const topics = [...new Set([...mine].map(({ topic }) => topic))]
    const found = topics.length === 0 ? [] : await this.#member.positions(topics)
    const committed = new Map(found.map(({ topic, offsets }) => [topic, offsets]))
    for (const part of mine) {
      const position = committed.get(part.topic)?.[part.partition] ?? -1
      if (position < part.stored || position > part.low) this.#drop(part)
      else {
        part.isRevoked = false
        kept.push(part)
      }
    }
    await this.#store(kept)
    progress.isUnsure = false
    for (const each of given) this.#held.set(keyOf(each.topic, each.partition), each)
    if (given.length > 0) await this.#tell('assigned', given)
  }

  #drop(part: PushPart): void {
    this.#host.progress.drop(part)
    this.#host.gone(part, new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.#options.group, member: this.memberId }))
  }

  /** That everything below their first records that are not done is done. */
  async #store(parts: readonly PushPart[]): Promise<void> {
    const ahead = parts.map((part) => ({ part, offset: part.low })).filter(({ part, offset }) => offset > Math.max(0, part.stored))
    if (ahead.length > 0) {
      await this.#member.store(ahead.map(({ part: { topic, partition }, offset }) => ({ topic, partition, offset })))
    }
    for (const { part, offset } of ahead) {
      part.storedTo(offset)
      this.#host.stored(part)
    }
  }

  // ---- partitions that come and go --------------------------------------------------------------------------------------------

  /** Asks what this member may read now. */
  want(): void {
    this.#wanted = true
    if (this.#stop.signal.aborted || !this.#hasBegun) return
    this.#reconciling ??= this.#reconcileAll()
  }

  /** Never rejects: a lost place is taken again with the next connection, anything else ends the consumer. */
  async #reconcileAll(): Promise<void> {
    try {
      while (this.#wanted && this.#hasBegun && !this.#stop.signal.aborted) {
        this.#wanted = false
        await this.#reconcile()
      }
    } catch (cause) {
      const error = asMoonMQError(cause)
      if (!isCode(error, 'GROUP_MEMBER_UNKNOWN')) this.#host.failed(error)
      else this.#member.connection?.destroy(new MoonMQError('CONNECTION_CLOSED', { reason: 'the place in the group is lost' }, error))
    } finally {
      this.#reconciling = null
    }
  }

  async #reconcile(): Promise<void> {
    const state = await this.#member.sync(listed(this.#held.values()))
    this.#epoch = state.epoch
    this.#beat(state)
    const assigned = new Set(state.assignment.flatMap(({ topic, partitions }) => partitions.map((partition) => keyOf(topic, partition))))
    await this.#gain(state)
    const free = [...this.#held].filter(([key, { topic, partition }]) => {
      const parts = this.#host.progress.family(topic, partition)
      if (assigned.has(key)) {
        // Taken away and given back: it comes again from what is stored.
        for (const part of parts) part.isRevoked = false
        return false
      }
      this.#revoke(parts)
      return !parts.some((part) => part.isInHand)
    })
    if (free.length === 0) return
    await this.#letGo(free)
    // Now they are somebody else's.
    this.#wanted = true
  }

  #revoke(parts: readonly PushPart[]): void {
    const more = parts.filter((part) => !part.isRevoked)
    if (more.length === 0) return
    this.#host.revoked(more)
    for (const part of more) {
      part.isRevoked = true
      part.restart()
    }
  }

  async #gain({ assignment }: MemberState): Promise<void> {
    const gained = assignment
      .flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition })))
      .filter(({ topic, partition }) => !this.#held.has(keyOf(topic, partition)))
    for (const each of gained) this.#held.set(keyOf(each.topic, each.partition), each)
    if (gained.length > 0) await this.#tell('assigned', gained)
  }

  async #letGo(free: readonly (readonly [string, Held])[]): Promise<void> {
    const parts = free.flatMap(([, { topic, partition }]) => this.#host.progress.family(topic, partition))
    await this.#link.retrying(() => this.#store(parts))
    await this.#tell(
      'revoked',
      free.map(([, held]) => held),
    )
    for (const part of parts) this.#drop(part)
    for (const [key] of free) this.#held.delete(key)
  }

  #beat({ heartbeatIntervalMs }: MemberState): void {
    this.#heartbeat?.cancel()
    this.#heartbeat = this.#stop.signal.aborted ? null : this.#clock.setTimer(heartbeatIntervalMs, () => this.want())
  }

  async #tell(kind: GroupChange['kind'], partitions: readonly Held[]): Promise<void> {
    const { group, onChange } = this.#options
    await onChange?.({ kind, group, memberId: this.memberId, epoch: this.#epoch, partitions: listed(partitions) })
  }

  /** Leaves. What is done was answered for before. */
  async end(): Promise<void> {
    this.#stop.abort()
    this.#heartbeat?.cancel()
    await this.#reconciling
    if (!this.#member.isMember) return
    try {
      await this.#store(this.#host.progress.parts.filter((part) => part.isRevoked))
      await this.#member.leave()
    } catch (error) {
      if (!isCode(error, 'GROUP_MEMBER_UNKNOWN')) throw error
    }
    await this.#tell('left', [...this.#held.values()])
  }
}
