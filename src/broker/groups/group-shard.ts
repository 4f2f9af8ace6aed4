import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { TopicPartition } from '../../core/types.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { NewRecord } from '../../record/builder.ts'
import { buildEndTxnMarker, type EndTxnMarker } from '../../record/control.ts'
import type { CoordinatorTopic } from '../coordination/coordinator-log.ts'
import { CoordinatorShard, type ShardLoad, type ShardState } from '../coordination/coordinator-shard.ts'
import type { DeliveryAttempts } from '../dlq/attempts.ts'
import { type HighWatermarkOf, lagOf } from '../offsets/lag.ts'
import { offsetKey } from '../offsets/offset-records.ts'
import { type OffsetEntry, OffsetStore } from '../offsets/offset-store.ts'
import { PendingOffsets } from '../offsets/pending-offsets.ts'
import { ClassicGroup } from './classic-group.ts'
import { type ClassicOptions, joinRefused } from './classic-types.ts'
import { GroupEntry } from './group-entry.ts'
import { GroupFold } from './group-load.ts'
import type { GroupEffect, GroupKindRules, GroupMachine, StoredPair } from './machine.ts'

export interface ShardDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly offsetsTopic: CoordinatorTopic
  readonly image: () => MetadataImage
  readonly metrics: Metrics
  readonly highWatermark: HighWatermarkOf
  readonly kinds: readonly GroupKindRules[]
  readonly attempts: DeliveryAttempts
}

/** Records of one batch of tombstones. */
const TOMBSTONES_PER_BATCH = 1000

/** The groups whose records live in one partition of `__consumer_offsets`. */
export class GroupShard {
  readonly groups = new Map<string, GroupEntry>()
  readonly pending = new PendingOffsets()
  readonly #deps: ShardDeps
  readonly #options: ClassicOptions
  readonly #shard: CoordinatorShard

  constructor(deps: ShardDeps, partition: number, options: ClassicOptions) {
    this.#deps = deps
    this.#options = options
    const { clock, random, log, offsetsTopic: topic } = deps
    this.#shard = new CoordinatorShard({ clock, random, log, topic }, partition, {
      kind: 'group',
      load: () => this.#load(),
      drop: () => this.#drop(),
    })
  }

  get state(): ShardState {
    return this.#shard.state
  }

  /** Throws unless the groups of the shard are in memory. */
  checkReady(group: string): void {
    this.#shard.checkReady(group)
  }

  // ---- loading --------------------------------------------------------------------------------------------------------------

  /** Reads the partition. Never rejects: what goes wrong is logged and tried again. */
  load(): Promise<void> {
    return this.#shard.load()
  }

  #load(): ShardLoad {
    const { clock, kinds, attempts } = this.#deps
    const { pending } = this
    pending.clear()
    const fold = new GroupFold({ clock, kinds, bare: (group) => this.#classic(group), pending, attempts })
    let entries: readonly GroupEntry[] = []
    return {
      record: (key, value, timestampMs, transaction, _offset, headers) =>
        fold.add(key, value, timestampMs, transaction?.producerId ?? null, headers),
      ended: (producerId, committed) => fold.ended(producerId, committed),
      async prepare() {
        entries = await fold.finish()
      },
      loaded: () => {
        for (const entry of entries) this.settle(this.add(entry))
        this.#dropStaleOffsets()
        return this.groups.size
      },
    }
  }

  #classic(group: string): ClassicGroup {
    return new ClassicGroup(group, this.#options)
  }

  /** A new group without members and offsets; one that stays so goes with the next `settle`. */
  create(group: string, machine: GroupMachine = this.#classic(group)): GroupEntry {
    return this.add(new GroupEntry(machine, new OffsetStore(), this.#deps.clock.nowMs()))
  }

  add(entry: GroupEntry): GroupEntry {
    this.groups.set(entry.group, entry)
    entry.offsets.watch(lagOf(entry.group, this.#deps.metrics, this.#deps.highWatermark))
    return entry
  }

  /** Offsets whose topic was deleted, or made again under its name, while nobody was there to see it. */
  #dropStaleOffsets(): void {
    const { topics } = this.#deps.image()
    for (const entry of [...this.groups.values()]) {
      const stale = [...entry.offsets.all()].filter(({ topic, value }) => {
        const id = topics.get(topic)?.id
        return id === undefined || (value.topicId !== ZERO_UUID && value.topicId !== id)
      })
      if (stale.length > 0) this.deleteOffsets(entry, stale, 'the topic is gone')
      if (this.state !== 'ready') return
    }
  }

  // ---- appending ------------------------------------------------------------------------------------------------------------

  /** Undefined when the partition can be appended to; else resolves when it can, after which the caller reads the state again. */
  whenWritable(): Promise<void> | undefined {
    return this.#shard.whenWritable()
  }

  /** Appends the records of a group as one batch. Throws COORDINATOR_NOT_AVAILABLE, after which the shard has failed. */
  append(entry: GroupEntry, records: readonly NewRecord[]): void {
    entry.endOffset = this.#shard.append(entry.group, records)
  }

  /** Appends offsets that wait for the end of a producer's transaction. Throws like `append`. */
  appendPending(entry: GroupEntry, records: readonly NewRecord[], producer: { producerId: number; producerEpoch: number }): void {
    entry.endOffset = this.#shard.append(entry.group, records, { ...producer, transactional: true })
  }

  /** Appends the end of a transaction: what waited for it counts, or is forgotten. Durable when it resolves. Throws like `append`. */
  async endTransaction(marker: EndTxnMarker): Promise<void> {
    const name = `the transaction of producer ${marker.producerId}`
    await this.#shard.whenWritable()
    this.checkReady(name)
    const endOffset = this.#shard.appendBatch(name, buildEndTxnMarker(marker))
    for (const [group, ended] of this.pending.end(marker.producerId, marker.commit)) {
      const entry = this.groups.get(group)
      if (entry === undefined) continue
      entry.endOffset = endOffset
      // As on Kafka, a group of which nothing is left is there until the next look for expired offsets.
      if (marker.commit) this.#count(entry, ended)
    }
    await this.#shard.whenDurable(name, endOffset)
  }

  /** Not where the topic was deleted meanwhile: a start does not find such offsets either. */
  #count(entry: GroupEntry, offsets: readonly OffsetEntry[]): void {
    const { topics } = this.#deps.image()
    for (const { topic, partition, value } of offsets) {
      const id = topics.get(topic)?.id
      if (id === undefined || (value.topicId !== ZERO_UUID && value.topicId !== id)) continue
      entry.offsets.set(topic, partition, value)
      this.#deps.attempts.prune(entry.group, topic, partition, value.offset)
    }
  }

  /** Appends what tells of the group itself. Throws like `append`. */
  store(entry: GroupEntry, pairs: readonly StoredPair[]): void {
    if (pairs.length === 0) return
    const timestampMs = this.#deps.clock.nowMs()
    this.append(
      entry,
      pairs.map(({ key, value }) => ({ key, value, timestampMs })),
    )
    entry.noteStored(pairs)
  }

  /**
   * Another machine goes on with the group, which keeps its offsets: what was stored of the former one goes, and what the new one
   * stores comes, in one batch. Whoever waits in the former one is answered. The caller settles the group. Throws like `append`.
   */
  replace(entry: GroupEntry, machine: GroupMachine): void {
    this.#applyAll(entry)
    this.checkReady(entry.group)
    const nowMs = this.#deps.clock.nowMs()
    const pairs = machine.takeRecords(nowMs, nowMs)
    const kept = new Set(pairs.map(({ key }) => key.toString('latin1')))
    const gone = entry.tombstones().filter(({ key }) => !kept.has(key.toString('latin1')))
    this.store(entry, [...gone, ...pairs])
    entry.disarm()
    entry.machine = machine
    entry.stateChangedAtMs = nowMs
  }

  /** Undefined when everything of the group is durable; else resolves when it is, or rejects with COORDINATOR_NOT_AVAILABLE. */
  whenDurable(entry: GroupEntry): Promise<void> | undefined {
    return this.#shard.whenDurable(entry.group, entry.endOffset)
  }

  /**
   * Tombstones for these offsets; a group of which nothing is left goes too, unless the next look for expired offsets may find it. Never
   * throws: a failed shard finds them again.
   */
  deleteOffsets(entry: GroupEntry, offsets: readonly TopicPartition[], reason: string, { keepsGroup = false } = {}): void {
    try {
      this.#bury(entry, offsets)
      if (offsets.length > 0) {
        const fields = { group: entry.group, offsets: offsets.length }
        this.#deps.log.info('group.offsets_deleted', `offsets of group "${entry.group}" deleted: ${reason}`, fields)
      }
      const isBare = entry.offsets.size === 0 && entry.machine.isVacant && !this.pending.has(entry.group)
      if (isBare && !keepsGroup) this.remove(entry, reason)
    } catch (error) {
      // The shard has failed; it finds the same offsets again when it loads.
      this.#deps.log.warn('group.offsets_not_deleted', `offsets of group "${entry.group}" stay for now: ${asMoonMQError(error).message}`)
    }
  }

  #bury(entry: GroupEntry, offsets: readonly TopicPartition[]): void {
    const timestampMs = this.#deps.clock.nowMs()
    for (let from = 0; from < offsets.length; from += TOMBSTONES_PER_BATCH) {
      const part = offsets.slice(from, from + TOMBSTONES_PER_BATCH)
      this.append(
        entry,
        part.map(({ topic, partition }) => ({ key: offsetKey(entry.group, topic, partition), value: null, timestampMs })),
      )
      for (const { topic, partition } of part) {
        entry.offsets.delete(topic, partition)
        this.#deps.attempts.restore(entry.group, topic, partition, null)
        this.pending.overtake(entry.group, topic, partition)
      }
    }
  }

  /** Ends a group that has no members and no offsets. Throws like `append`. */
  remove(entry: GroupEntry, reason: string): void {
    // Offsets that wait for a transaction must not come back with its end.
    const waiting = this.pending.ofGroup(entry.group)
    if (waiting.length > 0) this.#bury(entry, waiting)
    this.store(entry, entry.tombstones())
    entry.machine.kill(reason)
    this.groups.delete(entry.group)
    this.settle(entry)
  }

  // ---- effects --------------------------------------------------------------------------------------------------------------

  /** Does what the machine asked for and sets the group's timer. The last step of whoever called the machine. */
  settle(entry: GroupEntry): void {
    this.#applyAll(entry)
    this.#countRebalances(entry)
    if (this.state !== 'ready') return
    if (entry.machine.state === 'Dead') entry.disarm()
    else if (entry.forgettable && !this.pending.has(entry.group)) {
      entry.disarm()
      this.groups.delete(entry.group)
    } else entry.arm(this.#deps.clock, () => this.#tick(entry))
  }

  /** An effect may put another machine in the place of this one, whose effects are next. */
  #applyAll(entry: GroupEntry): void {
    for (let effects = entry.machine.drain(); effects.length > 0; effects = entry.machine.drain()) {
      for (const effect of effects) {
        try {
          this.#apply(entry, effect)
        } catch (error) {
          // The shard has failed and has answered everything that was parked.
          this.#deps.log.warn('group.not_stored', `group "${entry.group}" could not be stored: ${asMoonMQError(error).message}`)
          return
        }
      }
    }
  }

  #tick(entry: GroupEntry): void {
    const { kind, memberCount } = entry.machine
    entry.machine.tick(this.#deps.clock.monotonicMs())
    const gone = memberCount - entry.machine.memberCount
    if (gone > 0) this.#deps.metrics.counter('moonmq_group_members_expired_total', { kind }).add(gone)
    this.settle(entry)
  }

  #countRebalances(entry: GroupEntry): void {
    const { epoch, kind } = entry.machine
    if (epoch > entry.countedEpoch) this.#deps.metrics.counter('moonmq_group_rebalances_total', { kind }).add(epoch - entry.countedEpoch)
    entry.countedEpoch = epoch
  }

  #apply(entry: GroupEntry, effect: GroupEffect): void {
    switch (effect.kind) {
      case 'transition':
        entry.stateChangedAtMs = this.#deps.clock.nowMs()
        this.#deps.log.info('group.state', `group "${entry.group}": ${effect.from} -> ${effect.to}, ${effect.reason}`, {
          group: entry.group,
          from: effect.from,
          to: effect.to,
          generation: entry.machine.epoch,
          members: entry.machine.memberCount,
        })
        return
      case 'store':
        this.store(entry, entry.machine.takeRecords(entry.stateChangedAtMs, this.#deps.clock.nowMs()))
        return
      case 'replace':
        this.#deps.log.info('group.kind', `group "${entry.group}" is a ${effect.machine.kind} group now: ${effect.reason}`, {
          group: entry.group,
        })
        this.replace(entry, effect.machine)
        return
      case 'tell':
        effect.tell()
        return
      case 'note':
        this.#deps.log.info('group.note', `group "${entry.group}": ${effect.text}`, { group: entry.group })
        return
      case 'joined':
      case 'synced':
        this.#answer(entry, effect)
    }
  }

  /** A refusal goes at once; anything else, in order, when the generation that it speaks of is on disk. */
  #answer(entry: GroupEntry, effect: Extract<GroupEffect, { kind: 'joined' | 'synced' }>): void {
    const parked = entry.take(effect.ticket)
    if (parked === undefined) return
    const refused = effect.kind === 'joined' ? effect.result.error !== null : effect.result instanceof MoonMQError
    const waiting = refused ? undefined : (this.whenDurable(entry) ?? entry.answering ?? undefined)
    if (waiting === undefined) {
      parked.settle(effect.result)
      return
    }
    const answering = waiting.then(
      () => parked.settle(effect.result),
      (error: unknown) => parked.settle(parked.kind === 'join' ? joinRefused(asMoonMQError(error), parked.memberId) : asMoonMQError(error)),
    )
    // What is durable by now still waits for the answers before it, so nobody is told an older generation after a newer one.
    entry.answering = answering
    void answering.finally(() => {
      if (entry.answering === answering) entry.answering = null
    })
  }

  // ---- the end --------------------------------------------------------------------------------------------------------------

  #drop(): void {
    const entries = [...this.groups.values()]
    this.groups.clear()
    this.pending.clear()
    for (const entry of entries) {
      entry.disarm()
      entry.offsets.watch(null)
      const error = new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: entry.group })
      for (const parked of entry.takeAll()) parked.settle(parked.kind === 'join' ? joinRefused(error, parked.memberId) : error)
    }
  }

  close(): Promise<void> {
    return this.#shard.close()
  }
}
