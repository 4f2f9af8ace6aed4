import type { Clock } from '../../core/clock.ts'
import { asMoonMQError } from '../../core/errors.ts'
import { coordinatorPartition } from '../../core/hash.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import { Semaphore } from '../../core/semaphore.ts'
import type { NewRecord } from '../../record/builder.ts'
import type { CoordinatorTopic } from '../coordination/coordinator-log.ts'
import { CoordinatorShard, type ShardLoad } from '../coordination/coordinator-shard.ts'
import { ShareEntry } from './share-entry.ts'
import {
  decodeShareState,
  type SharePartitionId,
  snapshotKey,
  snapshotValue,
  stateKey,
  updateKey,
  updateValue,
} from './share-state-records.ts'
import type { DeadRange } from './share-types.ts'

export interface ShareStateDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly topic: CoordinatorTopic
}

export interface ShareStateOptions {
  /** `share.coordinator.snapshot.update.records.per.snapshot`. */
  readonly updatesPerSnapshot: number
  /** Told of every share partition that was read back. */
  readonly onLoaded: (entry: ShareEntry) => void
}

/** Partitions of the topic that are read at the same time. */
const LOADERS = 4
/** A share partition whose snapshot lies so many records back gets a new one, so that what is before it can go. */
const COLD_RECORDS = 10_000

/** The share partitions whose state lives in one partition of `__share_group_state`. */
class ShareStateShard {
  readonly entries = new Map<string, ShareEntry>()
  readonly shard: CoordinatorShard
  readonly #deps: ShareStateDeps
  readonly #options: ShareStateOptions

  constructor(deps: ShareStateDeps, partition: number, options: ShareStateOptions) {
    this.#deps = deps
    this.#options = options
    this.shard = new CoordinatorShard(deps, partition, { kind: 'share', load: () => this.#load(), drop: () => this.#drop() })
  }

  #load(): ShardLoad {
    const found = new Map<string, ShareEntry>()
    return {
      record: (key, value, _timestampMs, _transaction, offset) => {
        const record = decodeShareState(key, value)
        if (record === null) return
        const name = stateKey(record.id)
        if (record.value === null) {
          if (record.kind === 'snapshot') found.delete(name)
          return
        }
        let entry = found.get(name)
        if (record.kind === 'snapshot') {
          entry ??= new ShareEntry(record.id, record.value.createdAtMs)
          entry.restore(record.value, offset)
          found.set(name, entry)
        } else if (entry !== undefined && record.value.snapshotEpoch === entry.snapshotEpoch) {
          entry.machine.replay(record.value)
          entry.updates++
        }
        if (entry !== undefined) entry.endOffset = offset + 1
      },
      ended() {},
      prepare: () => Promise.resolve(),
      loaded: () => {
        for (const entry of found.values()) {
          this.entries.set(entry.key, entry)
          this.#options.onLoaded(entry)
        }
        return this.entries.size
      },
    }
  }

  #drop(): void {
    const entries = [...this.entries.values()]
    this.entries.clear()
    for (const entry of entries) entry.drop()
  }

  /** Appends what has changed; null when nothing has. Throws COORDINATOR_NOT_AVAILABLE, after which everything is read again. */
  store(entry: ShareEntry): readonly DeadRange[] | null {
    const { machine } = entry
    if (!machine.hasChanges) return null
    const { startOffset, batches, dead } = machine.takeChanges()
    if (entry.snapshotOffset < 0 || entry.updates >= this.#options.updatesPerSnapshot) this.snapshot(entry)
    else {
      const { snapshotEpoch } = entry
      const value = updateValue({ snapshotEpoch, leaderEpoch: 0, startOffset, batches, doneCount: machine.doneCount })
      this.#append(entry, [this.#record(updateKey(entry.id), value)])
      entry.updates++
    }
    return dead
  }

  /** Appends everything. What is stored before it is not needed any more. */
  snapshot(entry: ShareEntry): void {
    const { machine, stateEpoch, createdAtMs } = entry
    const snapshotEpoch = entry.snapshotOffset < 0 ? 0 : entry.snapshotEpoch + 1
    const value = snapshotValue({
      ...machine.state(),
      snapshotEpoch,
      stateEpoch,
      leaderEpoch: 0,
      doneCount: machine.doneCount,
      createdAtMs,
      writtenAtMs: this.#deps.clock.nowMs(),
    })
    this.#append(entry, [this.#record(snapshotKey(entry.id), value)])
    entry.snapshotEpoch = snapshotEpoch
    entry.snapshotOffset = entry.endOffset - 1
    entry.updates = 0
  }

  remove(entry: ShareEntry): void {
    const isStored = entry.snapshotOffset >= 0
    if (isStored) this.#append(entry, [this.#record(snapshotKey(entry.id), null), this.#record(updateKey(entry.id), null)])
    this.entries.delete(entry.key)
    entry.drop()
  }

  #record(key: Buffer, value: Buffer | null): NewRecord {
    return { key, value, timestampMs: this.#deps.clock.nowMs() }
  }

  #append(entry: ShareEntry, records: readonly NewRecord[]): void {
    entry.endOffset = this.shard.append(entry.id.group, records)
  }

  /** Lets go of what no snapshot needs. */
  prune(): void {
    const end = this.shard.logEndOffset
    let least = end
    for (const entry of this.entries.values()) {
      if (entry.snapshotOffset < 0) continue
      if (entry.snapshotOffset < end - COLD_RECORDS && this.shard.whenWritable() === undefined) this.snapshot(entry)
      least = Math.min(least, entry.snapshotOffset)
    }
    this.shard.advanceStart(least)
  }
}

/**
 * The states of all share partitions, kept in `__share_group_state` as Kafka keeps them: a snapshot now and then, and updates of what has
 * changed since. They are pruned from the front, not compacted: an update alone tells nothing.
 */
export class ShareStates {
  readonly #deps: ShareStateDeps
  readonly #shards: readonly ShareStateShard[]

  constructor(deps: ShareStateDeps, options: ShareStateOptions) {
    this.#deps = deps
    const { partitionCount } = deps.topic
    this.#shards = Array.from({ length: partitionCount }, (_, partition) => new ShareStateShard(deps, partition, options))
  }

  /** Reads everything. Resolves when all partitions were tried; never rejects. */
  async startLoading(): Promise<void> {
    const loaders = new Semaphore(LOADERS)
    await Promise.all(this.#shards.map(({ shard }) => loaders.run(() => shard.load())))
  }

  get count(): number {
    return this.#shards.reduce((sum, { entries }) => sum + entries.size, 0)
  }

  *all(): Generator<ShareEntry> {
    for (const { entries } of this.#shards) yield* entries.values()
  }

  #of(key: string): ShareStateShard {
    return this.#shards[coordinatorPartition(key, this.#shards.length)] as ShareStateShard
  }

  /** Undefined when nothing is known of it. Throws COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE. */
  find(id: SharePartitionId): ShareEntry | undefined {
    const key = stateKey(id)
    const shard = this.#of(key)
    shard.shard.checkReady(id.group)
    return shard.entries.get(key)
  }

  /** The entry, made when there is none; it can be stored. Throws COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE. */
  async open(id: SharePartitionId): Promise<ShareEntry> {
    const key = stateKey(id)
    const shard = this.#of(key)
    shard.shard.checkReady(id.group)
    await shard.shard.whenWritable()
    shard.shard.checkReady(id.group)
    let entry = shard.entries.get(key)
    if (entry === undefined) {
      entry = new ShareEntry(id, this.#deps.clock.nowMs())
      shard.entries.set(key, entry)
    }
    return entry
  }

  /** Appends what has changed of the entry; gives the records to be moved once it is durable. Throws COORDINATOR_NOT_AVAILABLE. */
  store(entry: ShareEntry): readonly DeadRange[] {
    return this.#of(entry.key).store(entry) ?? []
  }

  /** Appends the entry as it is now: what was stored of it before does not count any more. Throws COORDINATOR_NOT_AVAILABLE. */
  restart(entry: ShareEntry): void {
    entry.machine.takeChanges()
    this.#of(entry.key).snapshot(entry)
  }

  /** Undefined when everything of the entry is durable; else resolves when it is, or rejects with COORDINATOR_NOT_AVAILABLE. */
  whenDurable(entry: ShareEntry): Promise<void> | undefined {
    return this.#of(entry.key).shard.whenDurable(entry.id.group, entry.endOffset)
  }

  /** Appends that the entry is gone. Throws COORDINATOR_NOT_AVAILABLE. */
  async remove(entry: ShareEntry): Promise<void> {
    const { shard } = this.#of(entry.key)
    await shard.whenWritable()
    if (entry.isGone) return
    this.#of(entry.key).remove(entry)
    await shard.whenDurable(entry.id.group, entry.endOffset)
  }

  /** Lets go of what no snapshot needs. */
  prune(): void {
    for (const shard of this.#shards) {
      try {
        if (shard.shard.state === 'ready') shard.prune()
      } catch (error) {
        // The shard has failed and reads everything again; the next look prunes it.
        this.#deps.log.warn('share.not_pruned', `share state is not pruned for now: ${asMoonMQError(error).message}`)
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#shards.map(({ shard }) => shard.close()))
  }
}
