import type { CoordinatorTopic } from '../../src/broker/coordination/coordinator-log.ts'
import { type Deferred, deferred } from '../../src/core/deferred.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { ZERO_UUID } from '../../src/core/uuid.ts'
import { assignBatch, type BatchHeader, nextOffset, readBatchHeader } from '../../src/record/batch.ts'
import type { Appended, AppendOptions, Log, LogEvent, LogRead, LogState, ReadRequest } from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'

/** A log in memory whose syncs end when the test says so; by default everything is durable at once. */
export class FakeLog implements Log {
  readonly topic = '__consumer_offsets'
  readonly partition: number
  readonly refusal = null
  readonly topicId = ZERO_UUID
  readonly config = LOG_CONFIG
  readonly batches: Buffer[] = []
  state: LogState = 'online'
  logEndOffset = 0
  durableOffset = 0
  /** While set, appends stay volatile until `sync`. */
  holdSyncs = false
  readonly logStartOffset = 0
  leaderEpoch = 0
  readonly segmentCount = 1
  readonly #waiting: { offset: number; done: Deferred<void> }[] = []
  readonly #listeners = new Set<(event: LogEvent) => void>()

  constructor(partition: number) {
    this.partition = partition
  }

  get sizeBytes(): number {
    return this.batches.reduce((sum, batch) => sum + batch.length, 0)
  }

  get lastStableOffset(): number {
    return this.durableOffset
  }

  get highWatermark(): number {
    return this.durableOffset
  }

  get syncedOffset(): number {
    return this.durableOffset
  }

  get writtenOffset(): number {
    return this.logEndOffset
  }

  ready(): undefined {
    return undefined
  }

  append(batch: Buffer, header: BatchHeader, options: AppendOptions): Appended {
    if (this.state !== 'online')
      throw new MoonMQError('STORAGE_FAILED', { topic: this.topic, partition: this.partition, reason: 'it is told to' })
    const baseOffset = this.logEndOffset
    assignBatch(batch, 0, baseOffset, options.leaderEpoch)
    this.batches.push(batch)
    this.logEndOffset = baseOffset + header.lastOffsetDelta + 1
    if (!this.holdSyncs) this.sync()
    return { baseOffset, lastOffset: this.logEndOffset - 1, logAppendTimeMs: -1, logStartOffset: 0 }
  }

  /** Makes everything durable. */
  sync(): void {
    this.durableOffset = this.logEndOffset
    const ready = this.#waiting.splice(0)
    for (const { done } of ready) done.resolve()
  }

  /** Fails as storage does: what waits is refused. */
  fail(): void {
    this.state = 'failed'
    const error = new MoonMQError('STORAGE_FAILED', { topic: this.topic, partition: this.partition, reason: 'it is told to' })
    for (const { done } of this.#waiting.splice(0)) done.reject(error)
    for (const listener of [...this.#listeners]) listener('state')
  }

  /** What recovery does to a log that failed: back to what was durable, in the same object. */
  reopen(): void {
    const { batches, logEndOffset } = this.reopened()
    this.batches.splice(0, Number.POSITIVE_INFINITY, ...batches)
    this.logEndOffset = logEndOffset
    this.state = 'online'
    for (const listener of [...this.#listeners]) listener('state')
  }

  /** What a restart finds: only what was durable, in a new log. */
  reopened(): FakeLog {
    const log = new FakeLog(this.partition)
    for (const batch of this.batches) {
      const end = nextOffset(readBatchHeader(batch))
      if (end > this.durableOffset) break
      log.batches.push(Buffer.from(batch))
      log.logEndOffset = end
    }
    log.durableOffset = log.logEndOffset
    return log
  }

  whenDurable(offset: number): Promise<void> {
    if (offset <= this.durableOffset) return Promise.resolve()
    const done = deferred()
    this.#waiting.push({ offset, done })
    return done.promise
  }

  whenSynced(offset: number): Promise<void> {
    return this.whenDurable(offset)
  }

  read(request: ReadRequest): LogRead {
    const buffers: Buffer[] = []
    let sizeBytes = 0
    let end = request.offset
    for (const batch of this.batches) {
      const header = readBatchHeader(batch)
      if (nextOffset(header) <= request.offset || header.baseOffset >= request.limitOffset) continue
      if (sizeBytes + batch.length > request.maxBytes && sizeBytes > 0) break
      buffers.push(batch)
      sizeBytes += batch.length
      end = nextOffset(header)
    }
    return { buffers, sizeBytes, baseOffset: request.offset, nextOffset: end, release() {} }
  }

  watch(listener: (event: LogEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  abortedTransactions(): [] {
    return []
  }

  producer(): undefined {}

  producers(): [] {
    return []
  }

  async offsetForTimestamp(): Promise<null> {
    return null
  }

  async offsetOfMaxTimestamp(): Promise<null> {
    return null
  }

  endOffsetForEpoch(leaderEpoch: number): { leaderEpoch: number; endOffset: number } {
    return { leaderEpoch, endOffset: this.logEndOffset }
  }

  reconfigure(): void {}

  advanceLogStart(): void {}
}

/** `__consumer_offsets` in memory. */
export class FakeOffsetsTopic implements CoordinatorTopic {
  readonly partitionCount: number
  readonly logs = new Map<number, FakeLog>()
  holdSyncs = false

  constructor(partitionCount = 1) {
    this.partitionCount = partitionCount
  }

  async ensure(): Promise<void> {}

  async existing(partition: number): Promise<Log | undefined> {
    return this.logs.get(partition)
  }

  async open(partition: number): Promise<Log> {
    let log = this.logs.get(partition)
    if (log === undefined) {
      log = new FakeLog(partition)
      log.holdSyncs = this.holdSyncs
      this.logs.set(partition, log)
    }
    return log
  }

  leaderEpoch(): number {
    return 0
  }

  /** The topic as a restart finds it; what still waits for the old one is refused. */
  reopened(): FakeOffsetsTopic {
    const topic = new FakeOffsetsTopic(this.partitionCount)
    for (const [partition, log] of this.logs) {
      topic.logs.set(partition, log.reopened())
      log.fail()
    }
    return topic
  }

  sync(): void {
    for (const log of this.logs.values()) log.sync()
  }

  holdAll(hold: boolean): void {
    this.holdSyncs = hold
    for (const log of this.logs.values()) log.holdSyncs = hold
  }
}
