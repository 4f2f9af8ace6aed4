import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { coordinatorPartition } from '../../core/hash.ts'
import { Semaphore } from '../../core/semaphore.ts'
import type { GroupEntry } from './group-entry.ts'
import type { GroupOptions } from './group-options.ts'
import { GroupShard, type ShardDeps } from './group-shard.ts'
import type { GroupKind, GroupMachine } from './machine.ts'

/** Partitions of the offsets topic that are read at the same time. */
const LOADERS = 4
/** Groups in memory, those without members included. */
const MAX_GROUPS = 200_000
const MAX_GROUP_ID_BYTES = 32_767

/** A group together with the shard that holds it. */
export interface FoundGroup {
  readonly shard: GroupShard
  readonly entry: GroupEntry
}

/** How the rules of a kind of group reach its machine. */
export interface AskGroup<M extends GroupMachine> {
  readonly group: string
  readonly kind: GroupKind
  /** Makes the group where there is none, or only one without members; absent: GROUP_MISSING. */
  readonly make?: () => M
  /** Makes it from one of another kind that has members; null: it cannot be. */
  readonly convert?: (former: GroupMachine, nowMs: number) => M | null
}

/** Every group of this broker by its id: which shard holds it, and whether that can be used. */
export class GroupTable {
  readonly shards: readonly GroupShard[]
  readonly #clock: Clock
  #closed = false

  constructor(deps: ShardDeps, options: GroupOptions) {
    this.#clock = deps.clock
    this.shards = Array.from({ length: deps.offsetsTopic.partitionCount }, (_, partition) => new GroupShard(deps, partition, options))
  }

  /** Reads every partition of the offsets topic. Resolves when all were tried; never rejects. */
  async load(): Promise<void> {
    const loaders = new Semaphore(LOADERS)
    await Promise.all(this.shards.map((shard) => loaders.run(() => shard.load())))
  }

  get groupCount(): number {
    return this.shards.reduce((sum, shard) => sum + shard.groups.size, 0)
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** The shard of a group whose groups are in memory. Throws COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, GROUP_ID_INVALID. */
  ready(group: string, emptyAllowed = false): GroupShard {
    if (group === '' && !emptyAllowed) throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
    if (Buffer.byteLength(group) > MAX_GROUP_ID_BYTES) throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is too long' })
    // A client that hears this looks for the coordinator again, and finds it after the restart.
    if (this.#closed) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group })
    const shard = this.shards[coordinatorPartition(group, this.shards.length)] as GroupShard
    shard.checkReady(group)
    return shard
  }

  /** The same, once the group's partition can be appended to. */
  async writable(group: string, emptyAllowed = false): Promise<GroupShard> {
    const shard = this.ready(group, emptyAllowed)
    const opening = shard.whenWritable()
    if (opening === undefined) return shard
    try {
      await opening
    } catch (error) {
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group }, error)
    }
    return this.ready(group, emptyAllowed)
  }

  find(group: string): FoundGroup | undefined {
    const shard = this.ready(group, true)
    const entry = shard.groups.get(group)
    return entry === undefined ? undefined : { shard, entry }
  }

  create(shard: GroupShard, group: string, machine?: GroupMachine): GroupEntry {
    if (this.groupCount >= MAX_GROUPS) throw new MoonMQError('RATE_LIMITED', { reason: `the broker holds ${MAX_GROUPS} groups already` })
    return shard.create(group, machine)
  }

  /**
   * Calls `act` with the machine of the group, and resolves with its answer when all that it stored is durable. A machine that `make`
   * made joins the table before. Throws GROUP_MISSING, GROUP_KIND for a group of another kind that has members, INCONSISTENT_GROUP_PROTOCOL where one of them is
   * native, and what `act` throws:
   * then what `act` did before stands.
   */
  async ask<M extends GroupMachine, T>(asked: AskGroup<M>, act: (machine: M, nowMs: number) => T): Promise<T> {
    const { group } = asked
    const shard = await this.writable(group)
    const entry = this.#entryOf(shard, asked)
    let answer: T
    try {
      answer = act(entry.machine as M, this.#clock.monotonicMs())
    } finally {
      // A group that was made for somebody who was refused goes here.
      shard.settle(entry)
    }
    shard.checkReady(group)
    await shard.whenDurable(entry)
    return answer
  }

  #entryOf<M extends GroupMachine>(shard: GroupShard, { group, kind, make, convert }: AskGroup<M>): GroupEntry {
    const entry = shard.groups.get(group)
    if (entry === undefined) {
      if (make === undefined) throw new MoonMQError('GROUP_MISSING', { group })
      return this.create(shard, group, make())
    }
    if (entry.machine.kind === kind) return entry
    // An id that was given out and not used yet is no member: its owner finds the group that there is when it comes.
    const machine = entry.machine.memberCount === 0 ? make?.() : convert?.(entry.machine, this.#clock.monotonicMs())
    if ((machine === undefined || machine === null) && (kind === 'native' || entry.machine.kind === 'native')) {
      throw new MoonMQError('INCONSISTENT_GROUP_PROTOCOL', { group })
    }
    if (machine === undefined || machine === null) throw new MoonMQError('GROUP_KIND', { group, kind })
    shard.replace(entry, machine)
    return entry
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.shards.map((shard) => shard.close()))
  }
}
