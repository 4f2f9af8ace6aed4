import { Backoff } from '../../core/backoff.ts'
import type { Clock, Timer } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { BatchOptions, NewRecord } from '../../record/builder.ts'
import type { Log } from '../../storage/types.ts'
import { CoordinatorLog, type CoordinatorTopic, type ReplaySink } from './coordinator-log.ts'

export interface CoordinatorShardDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly topic: CoordinatorTopic
}

/** A load under way: gets everything that the log holds, then is told that this was all. */
export interface ShardLoad extends ReplaySink {
  /** Makes the entries of what was read; nobody sees them yet. */
  prepare(): Promise<void> | void
  /** In the turn in which the shard became ready. Returns how many entries it holds now. */
  loaded(): number
}

/** Whose entries the shard stores. */
export interface ShardHost {
  /** `group`, `transaction`: the first part of log events, and what the entries are called. */
  readonly kind: string
  /** Begins with nothing. What an overtaken load was given is thrown away. */
  load(): ShardLoad
  /** What is in memory may not be on disk: forget it, and answer everybody who waits. */
  drop(): void
}

export type ShardState = 'idle' | 'loading' | 'ready' | 'failed' | 'closed'

/**
 * The life of one partition of a coordinator's topic, whatever is stored in it. It owns the order of changes: a change is appended,
 * applied in memory in the same turn, and answered when it is durable. When the log fails, what was applied may not be on disk, so
 * everything in memory is dropped and read again once the log is back.
 */
export class CoordinatorShard {
  readonly partition: number
  readonly #deps: CoordinatorShardDeps
  readonly #host: ShardHost
  readonly #retry: Backoff
  readonly #stop = new AbortController()
  #state: ShardState = 'idle'
  #log: CoordinatorLog | null = null
  #opening: Promise<void> | null = null
  #loading: Promise<void> | null = null
  /** Counts the loads: one that was overtaken by a failure leaves no trace. */
  #attempt = 0
  #unwatch: (() => void) | null = null
  #retryTimer: Timer | null = null

  constructor(deps: CoordinatorShardDeps, partition: number, host: ShardHost) {
    this.#deps = deps
    this.partition = partition
    this.#host = host
    this.#retry = new Backoff(deps.random, { initialMs: 200, maxMs: 5000 })
  }

  get state(): ShardState {
    return this.#state
  }

  /** Everything below this offset is durable; 0 while there is no log. */
  get durableOffset(): number {
    return this.#log?.log.durableOffset ?? 0
  }

  /** Offset after the last record; 0 while there is no log. */
  get logEndOffset(): number {
    return this.#log?.log.logEndOffset ?? 0
  }

  /** What is before `offset` is not needed any more: whole segments of it go. */
  advanceStart(offset: number): void {
    const log = this.#log?.log
    if (log !== undefined && offset > log.logStartOffset) log.advanceLogStart(Math.min(offset, log.highWatermark))
  }

  /** Throws unless the entries of the shard are in memory. `id` is the one that was asked for. */
  checkReady(id: string): void {
    if (this.#state === 'ready') return
    if (this.#state === 'idle' || this.#state === 'loading') throw new MoonMQError('COORDINATOR_LOADING', { group: id })
    throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id })
  }

  /** Reads the partition. Never rejects: what goes wrong is logged and tried again. */
  load(): Promise<void> {
    if (this.#state !== 'idle' && this.#state !== 'failed') return this.#loading ?? Promise.resolve()
    this.#state = 'loading'
    const attempt = ++this.#attempt
    this.#loading = this.#load(attempt).catch((error: unknown) => {
      if (attempt === this.#attempt && this.#state === 'loading') this.fail(error)
    })
    return this.#loading
  }

  async #load(attempt: number): Promise<void> {
    const { clock, log: logger } = this.#deps
    const { kind } = this.#host
    const startedMs = clock.monotonicMs()
    const log = await this.#deps.topic.existing(this.partition)
    if (attempt !== this.#attempt || this.#state !== 'loading') return
    if (log !== undefined) this.#adopt(log)
    const load = this.#host.load()
    let records = 0
    if (log !== undefined) {
      const sink: ReplaySink = {
        record(...record) {
          records++
          load.record(...record)
        },
        ended: (producerId, committed) => load.ended(producerId, committed),
      }
      await this.#wrap(log).replay(clock, sink, this.#stop.signal)
      await load.prepare()
    }
    if (attempt !== this.#attempt || this.#state !== 'loading') return
    this.#state = 'ready'
    const entries = load.loaded()
    this.#retry.reset()
    if (records === 0) return
    const durationMs = Math.round(clock.monotonicMs() - startedMs)
    logger.info(`${kind}.loaded`, `${kind}s of partition ${this.partition} loaded`, {
      partition: this.partition,
      [`${kind}s`]: entries,
      records,
      durationMs,
    })
  }

  #wrap(log: Log): CoordinatorLog {
    return new CoordinatorLog(log, () => this.#deps.topic.leaderEpoch(this.partition))
  }

  /** From here on a failure of the log is a failure of the shard. Throws STORAGE_FAILED when it has failed already. */
  #adopt(log: Log): void {
    const failure = () => {
      const { topic, partition } = log
      return new MoonMQError('STORAGE_FAILED', { topic, partition, reason: `the log is ${log.state}` })
    }
    if (log.state !== 'online') throw failure()
    this.#unwatch?.()
    this.#log = this.#wrap(log)
    this.#unwatch = log.watch((event) => {
      if (event === 'state' && log.state !== 'online') this.fail(failure())
    })
  }

  /** Undefined when the partition can be appended to; else resolves when it can, after which the caller reads the state again. */
  whenWritable(): Promise<void> | undefined {
    if (this.#log !== null) return undefined
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async #open(): Promise<void> {
    const log = await this.#deps.topic.open(this.partition)
    if (this.#state === 'ready' && this.#log === null) this.#adopt(log)
  }

  /** Appends the records as one batch; returns the offset after them. Throws COORDINATOR_NOT_AVAILABLE, after which the shard has failed. */
  append(id: string, records: readonly NewRecord[], options?: BatchOptions): number {
    return this.#append(id, (log) => log.append(records, options))
  }

  /** The same for a batch that was built already. */
  appendBatch(id: string, batch: Buffer): number {
    return this.#append(id, (log) => log.appendBatch(batch))
  }

  #append(id: string, work: (log: CoordinatorLog) => number): number {
    try {
      if (this.#log === null) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id })
      return work(this.#log)
    } catch (error) {
      this.fail(error)
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id }, error)
    }
  }

  /** Undefined when everything below `offset` is durable; else resolves when it is, or rejects with COORDINATOR_NOT_AVAILABLE. */
  whenDurable(id: string, offset: number): Promise<void> | undefined {
    const attempt = this.#attempt
    return this.#log?.whenDurable(offset)?.catch((error: unknown) => {
      if (attempt === this.#attempt) this.fail(error)
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id }, error)
    })
  }

  /** Drops everything in memory, answers who waits, and reads the partition again later. */
  fail(error: unknown): void {
    if (this.#state === 'closed' || this.#state === 'failed') return
    const { kind } = this.#host
    const level = this.#retry.attempts === 0 ? 'error' : 'debug'
    const delayMs = this.#retry.nextMs()
    const text = `${kind}s of partition ${this.partition} are not available: ${asMoonMQError(error).message}`
    this.#deps.log[level](`${kind}.shard_failed`, text, { partition: this.partition, retryInMs: Math.round(delayMs) })
    this.#state = 'failed'
    this.#release()
    this.#retryTimer = this.#deps.clock.setTimer(delayMs, () => {
      this.#loading = null
      this.load().catch(() => {
        // `load` never rejects.
      })
    })
  }

  #release(): void {
    this.#unwatch?.()
    this.#unwatch = null
    this.#log = null
    this.#host.drop()
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stop.abort()
    this.#retryTimer?.cancel()
    this.#release()
    await this.#loading
  }
}
