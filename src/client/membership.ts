import type { Clock, Timer } from '../core/clock.ts'
import { asMoonMQError, isCode, type MoonMQError } from '../core/errors.ts'
import { Grant, keyOf, listed } from './grants.ts'
import { type Assigned, GroupMember, type MemberState } from './group-member.ts'
import type { Link } from './link.ts'
import type { TopicCursor } from './topic-cursor.ts'
import type { AssignedPartitions, ClientRecord, ConsumerOptions, GroupChange } from './types.ts'

export const DEFAULT_REBALANCE_MS = 60_000
/** Positions in one request. */
const MAX_POSITIONS = 10_000
/** How often a commit by hand is tried under a place that was taken anew. */
const MAX_COMMITS = 5

interface MembershipDeps {
  readonly link: Link
  readonly clock: Clock
  readonly cursors: ReadonlyMap<string, TopicCursor>
}

/**
 * What a consumer may read, and what of it is done. One loop in the background asks the broker for changes: it lets go of what is taken
 * away once that is done and committed, and begins with what is given. Another one commits, one request at a time with the newest
 * positions. A lost place is taken again; what this consumer had done is not read again unless another member went on there meanwhile.
 */
export class Membership {
  readonly #deps: MembershipDeps
  readonly #options: ConsumerOptions
  readonly #member: GroupMember
  readonly #grants = new Map<string, Grant>()
  /** What was had when the place was lost. */
  readonly #former = new Map<string, Grant>()
  /** The record that the program works on. */
  #current: Grant | null = null
  #epoch = 0
  #changes = 0
  /** Calls of `onChange` that have not ended. */
  #telling = 0
  #wanted = false
  #reconciling: Promise<void> | null = null
  #committing: Promise<void> | null = null
  #heartbeat: Timer | null = null
  #failure: MoonMQError | null = null
  readonly #signal: AbortSignal
  /** Fires when the consumer ends. */
  readonly #stop = new AbortController()

  constructor(deps: MembershipDeps, options: ConsumerOptions) {
    this.#deps = deps
    this.#options = options
    const { group, memberId = '', topics, rebalanceTimeoutMs = DEFAULT_REBALANCE_MS } = options
    const signal = options.signal === undefined ? this.#stop.signal : AbortSignal.any([options.signal, this.#stop.signal])
    this.#signal = signal
    this.#member = new GroupMember(deps.link, { group, memberId, topics, rebalanceTimeoutMs, signal }, () => this.#want())
  }

  get memberId(): string {
    return this.#member.memberId
  }

  get assignment(): readonly AssignedPartitions[] {
    return listed(this.#grants.values())
  }

  /** How often partitions have come or gone. */
  get changes(): number {
    return this.#changes
  }

  /** It has its place, and nothing is known to be different. */
  get isSettled(): boolean {
    return this.#member.isMember && !this.#wanted && this.#reconciling === null
  }

  /** Joins. Rejects with what the broker refuses it with. */
  async begin(): Promise<void> {
    this.#want()
    await this.#reconciling
    this.check()
  }

  /** Throws what ended the membership for good. */
  check(): void {
    if (this.#failure !== null) throw this.#failure
  }

  // ---- records --------------------------------------------------------------------------------------------------------------

  grantOf({ topic, partition }: ClientRecord): Grant | undefined {
    return this.#grants.get(keyOf(topic, partition))
  }

  /** False: it was read under a grant that is over, or is done already. */
  mayBegin(grant: Grant, record: ClientRecord): boolean {
    if (grant.revoked || this.#grants.get(grant.key) !== grant || record.offset < grant.done) return false
    this.#current = grant
    return true
  }

  finished(begun: Grant, record: ClientRecord, isDone: boolean): void {
    this.#current = null
    // While the place is lost it counts for when it is taken again.
    const grant = this.#grants.get(begun.key) ?? this.#former.get(begun.key)
    if (isDone && grant?.origin === begun.origin) {
      grant.done = Math.max(grant.done, record.offset + 1)
      this.#committing ??= this.#commitDirty()
    }
    if (grant?.revoked === true) this.#want()
  }

  async commit(record: ClientRecord): Promise<void> {
    const { topic, partition } = record
    const offset = record.offset + 1
    const origin = (this.grantOf(record) ?? this.#former.get(keyOf(topic, partition)))?.origin
    for (let commits = 1; ; commits++) {
      try {
        await this.#deps.link.retrying(() => this.#member.store([{ topic, partition, offset }]), this.#signal)
        break
      } catch (error) {
        if (!isCode(error, 'GROUP_MEMBER_UNKNOWN')) throw error
        this.#want()
        // The place is not taken anew before `onChange`, which may be what commits, has ended.
        if (this.#telling > 0 || commits === MAX_COMMITS) throw error
        await this.#reconciling
        this.check()
        const grant = this.grantOf(record)
        if (grant === undefined || origin === undefined) throw error
        // Stored by the request whose answer was lost.
        if (grant.committed >= offset) return
        // Another member may have gone on here meanwhile.
        if (grant.origin !== origin) throw error
      }
    }
    const grant = this.grantOf(record)
    if (grant === undefined) return
    grant.committed = offset
    grant.done = Math.max(grant.done, offset)
  }

  /** Runs until there is nothing to commit. Never rejects: `check` and `end` tell the failure. */
  async #commitDirty(): Promise<void> {
    // What is done within one turn travels together; and whoever calls this has noted that it runs before it ends.
    await Promise.resolve()
    try {
      for (let dirty = this.#dirty(); dirty.length > 0; dirty = this.#dirty()) {
        const offsets = dirty.map(({ topic, partition, done }) => ({ topic, partition, offset: done }))
        await this.#deps.link.retrying(() => this.#member.store(offsets))
        for (const [at, grant] of dirty.entries()) grant.committed = Math.max(grant.committed, offsets[at]?.offset ?? -1)
      }
    } catch (error) {
      // What the program does with a change is part of it.
      await this.#failed(error).catch((failure: unknown) => {
        this.#failure ??= asMoonMQError(failure)
      })
    } finally {
      this.#committing = null
    }
  }

  #dirty(): Grant[] {
    return [...this.#grants.values()].filter((grant) => grant.isDirty).slice(0, MAX_POSITIONS)
  }

  /** A lost place is taken again; anything else ends the consumer. */
  async #failed(cause: unknown): Promise<void> {
    const error = asMoonMQError(cause)
    if (!isCode(error, 'GROUP_MEMBER_UNKNOWN')) {
      this.#failure ??= error
      return
    }
    await this.#lose()
    this.#want()
  }

  async #lose(): Promise<void> {
    const lost = [...this.#grants.values()]
    for (const grant of lost) {
      this.#former.set(grant.key, grant)
      this.#deps.cursors.get(grant.topic)?.drop(grant.partition)
    }
    this.#grants.clear()
    this.#changes++
    if (lost.length > 0) await this.#tell('lost', lost)
  }

  // ---- partitions that come and go ------------------------------------------------------------------------------------------

  #want(): void {
    if (this.#stop.signal.aborted || this.#failure !== null) return
    this.#wanted = true
    this.#reconciling ??= this.#reconcileAll()
  }

  /** Never rejects: `check` tells the failure. */
  async #reconcileAll(): Promise<void> {
    try {
      while (this.#wanted && !this.#stop.signal.aborted && this.#failure === null) {
        this.#wanted = false
        try {
          await this.#reconcile()
        } catch (error) {
          if (!this.#stop.signal.aborted) await this.#failed(error)
        }
      }
    } catch (error) {
      // What the program does with a change is part of it.
      this.#failure ??= asMoonMQError(error)
    } finally {
      this.#reconciling = null
    }
  }

  async #reconcile(): Promise<void> {
    const member = this.#member
    const isNew = !member.isMember
    // The connection went without a word.
    if (isNew) await this.#lose()
    let state = isNew ? await member.join() : await member.sync(listed(this.#grants.values()))
    this.#epoch = state.epoch
    this.#beat(state.heartbeatIntervalMs)
    if (isNew) await this.#tell('joined', [])
    for (;;) {
      const gone = this.#takenAway(state)
      await this.#take(state)
      if (gone.length === 0) return
      await this.#letGo(gone)
      state = await member.sync(listed(this.#grants.values()))
      this.#epoch = state.epoch
    }
  }

  #beat(intervalMs: number): void {
    this.#heartbeat?.cancel()
    this.#heartbeat = this.#stop.signal.aborted ? null : this.#deps.clock.setTimer(intervalMs, () => this.#want())
  }

  /** Stops reading what is not this member's any more; without the partition of the record that is being worked on. */
  #takenAway({ assignment }: MemberState): Grant[] {
    const assigned = keysOf(assignment)
    const gone: Grant[] = []
    for (const grant of this.#grants.values()) {
      if (assigned.has(grant.key)) continue
      if (!grant.revoked) this.#deps.cursors.get(grant.topic)?.drop(grant.partition)
      grant.revoked = true
      if (this.#current?.key !== grant.key) gone.push(grant)
    }
    return gone
  }

  async #letGo(gone: readonly Grant[]): Promise<void> {
    while (gone.some((grant) => grant.isDirty) && this.#failure === null && this.#grants.size > 0) {
      this.#committing ??= this.#commitDirty()
      await this.#committing
    }
    await this.#tell('revoked', gone)
    this.#changes++
    for (const grant of gone) {
      if (this.#grants.get(grant.key) === grant) this.#grants.delete(grant.key)
    }
  }

  /** Begins with what is new, where the group is. */
  async #take({ assignment }: MemberState): Promise<void> {
    const isNew = ({ topic, partitions }: Assigned[number]) =>
      partitions.filter((partition) => this.#grants.get(keyOf(topic, partition))?.revoked !== false)
    const gained = assignment
      .map((each) => ({ topic: each.topic, partitions: isNew(each) }))
      .filter(({ partitions }) => partitions.length > 0)
    if (gained.length === 0) return
    const topics = gained.map(({ topic }) => topic)
    const found = await this.#deps.link.retrying(() => this.#member.positions(topics), this.#signal)
    const offsets = new Map(found.map(({ topic, offsets: list }) => [topic, list]))
    const grants: Grant[] = []
    this.#changes++
    for (const { topic, partitions } of gained) {
      for (const partition of partitions) grants.push(this.#begin(topic, partition, offsets.get(topic)?.[partition] ?? -1))
    }
    await this.#tell('assigned', grants)
  }

  #begin(topic: string, partition: number, committed: number): Grant {
    const key = keyOf(topic, partition)
    const known = this.#grants.get(key) ?? this.#former.get(key) ?? null
    // Where nobody has moved on further than this consumer, what was done here need not be done again.
    const isMine = known !== null && known.committed <= committed && committed <= Math.max(known.committed, known.done)
    const grant = new Grant(topic, partition, committed, isMine ? known : null)
    this.#former.delete(key)
    this.#grants.set(key, grant)
    const cursor = this.#deps.cursors.get(topic)
    const from = Math.max(committed, grant.done)
    if (from < 0) cursor?.begin(partition, 'earliest')
    else cursor?.resume(partition, from)
    if (grant.isDirty) this.#committing ??= this.#commitDirty()
    return grant
  }

  async #tell(kind: GroupChange['kind'], grants: readonly Grant[]): Promise<void> {
    const { group, onChange } = this.#options
    this.#telling++
    try {
      await onChange?.({ kind, group, memberId: this.memberId, epoch: this.#epoch, partitions: listed(grants) })
    } finally {
      this.#telling--
    }
  }

  // ---- the end --------------------------------------------------------------------------------------------------------------

  /** Commits what is done and leaves. Rejects with what ended the membership before. */
  async end(): Promise<void> {
    this.#stop.abort()
    this.#heartbeat?.cancel()
    await this.#reconciling
    if (this.#dirty().length > 0 && this.#member.isMember && this.#failure === null) this.#committing ??= this.#commitDirty()
    await this.#committing
    if (this.#member.isMember) {
      await this.#member.leave().catch((error: unknown) => {
        if (!isCode(error, 'GROUP_MEMBER_UNKNOWN')) throw error
      })
      await this.#tell('left', [...this.#grants.values()])
    }
    this.check()
  }
}

function keysOf(assignment: Assigned): ReadonlySet<string> {
  return new Set(assignment.flatMap(({ topic, partitions }) => partitions.map((partition) => keyOf(topic, partition))))
}
