import type { LogSource, OpenPartition } from '../../src/broker/log-source.ts'
import { type Deferred, deferred } from '../../src/core/deferred.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import type { TopicPartition } from '../../src/core/types.ts'
import type { Uuid } from '../../src/core/uuid.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { assignBatch, type BatchHeader } from '../../src/record/batch.ts'
import { ProducerState } from '../../src/storage/producer-state.ts'
import type {
  AbortedTransaction,
  Appended,
  AppendOptions,
  EpochEnd,
  Log,
  LogConfig,
  LogEvent,
  LogRead,
  LogState,
  ProducerEntry,
  ReadRequest,
  TimestampOffset,
} from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'

interface StoredBatch {
  readonly bytes: Buffer
  readonly baseOffset: number
  readonly lastOffset: number
}

/** A log in arrays whose durability the test decides: by hand with `sync()`, or at once with `autoSync`. */
export class FakeLog implements Log {
  readonly topic: string
  readonly partition: number
  readonly topicId: Uuid
  config: LogConfig
  state: LogState = 'online'
  leaderEpoch = 0
  logStartOffset = 0
  logEndOffset = 0
  durableOffset = 0
  /** Set by a test to pretend that a transaction is open. */
  openTransactionAt: number | undefined
  sizeBytes = 0
  segmentCount = 1
  autoSync = true
  reads = 0
  unreleased = 0
  aborted: AbortedTransaction[] = []
  epochEnd: EpochEnd | undefined
  /** When set, reads are answered by promises that the test settles by resolving it. */
  readGate: Promise<void> | undefined
  /** When set, appends wait for it: too much waits to be written. */
  room: Promise<void> | undefined
  readonly batches: StoredBatch[] = []
  readonly #waiters: { readonly offset: number; readonly done: Deferred<void> }[] = []
  readonly #watchers = new Set<(event: LogEvent) => void>()
  readonly #producers = new ProducerState({ clock: new VirtualClock() })

  constructor(topic: string, partition: number, topicId: Uuid = 'AAAAAAAAAAAAAAAAAAAAAB', config: LogConfig = LOG_CONFIG) {
    this.topic = topic
    this.partition = partition
    this.topicId = topicId
    this.config = config
  }

  get highWatermark(): number {
    return this.durableOffset
  }

  get lastStableOffset(): number {
    return Math.min(this.openTransactionAt ?? this.durableOffset, this.durableOffset)
  }

  get syncedOffset(): number {
    return this.durableOffset
  }

  get writtenOffset(): number {
    return this.logEndOffset
  }

  get watchers(): number {
    return this.#watchers.size
  }

  ready(): Promise<void> | undefined {
    return this.room
  }

  append(batch: Buffer, header: BatchHeader, options: AppendOptions): Appended {
    if (this.state !== 'online') {
      throw new MoonMQError('STORAGE_FAILED', { topic: this.topic, partition: this.partition, reason: this.state })
    }
    const baseOffset = this.logEndOffset
    const lastOffset = baseOffset + header.lastOffsetDelta
    assignBatch(batch, 0, baseOffset, options.leaderEpoch)
    this.batches.push({ bytes: batch, baseOffset, lastOffset })
    this.#producers.update(header, baseOffset)
    this.leaderEpoch = options.leaderEpoch
    this.logEndOffset = lastOffset + 1
    this.sizeBytes += batch.length
    if (this.autoSync) this.sync()
    return { baseOffset, lastOffset, logAppendTimeMs: -1, logStartOffset: this.logStartOffset }
  }

  /** Everything appended so far is durable now. */
  sync(): void {
    if (this.durableOffset === this.logEndOffset) return
    this.durableOffset = this.logEndOffset
    for (let i = this.#waiters.length - 1; i >= 0; i--) {
      const waiter = this.#waiters[i]
      if (waiter === undefined || waiter.offset > this.durableOffset) continue
      this.#waiters.splice(i, 1)
      waiter.done.resolve()
    }
    this.emit('advance')
  }

  get refusal(): MoonMQError | null {
    const { topic, partition, state } = this
    return state === 'online' ? null : new MoonMQError('STORAGE_FAILED', { topic, partition, reason: state })
  }

  fail(): void {
    this.state = 'failed'
    for (const waiter of this.#waiters.splice(0)) {
      waiter.done.reject(new MoonMQError('STORAGE_FAILED', { topic: this.topic, partition: this.partition, reason: 'the disk failed' }))
    }
    this.emit('state')
  }

  emit(event: LogEvent): void {
    for (const watcher of [...this.#watchers]) watcher(event)
  }

  whenDurable(offset: number): Promise<void> {
    if (offset <= this.durableOffset) return Promise.resolve()
    const done = deferred()
    this.#waiters.push({ offset, done })
    return done.promise
  }

  whenSynced(offset: number): Promise<void> {
    return this.whenDurable(offset)
  }

  read(request: ReadRequest): LogRead | Promise<LogRead> {
    if (this.readGate !== undefined) return this.readGate.then(() => this.#read(request))
    return this.#read(request)
  }

  #read(request: ReadRequest): LogRead {
    this.reads++
    const buffers: Buffer[] = []
    let sizeBytes = 0
    let baseOffset = request.offset
    let nextOffset = request.offset
    for (const batch of this.batches) {
      if (batch.lastOffset < request.offset) continue
      if (batch.baseOffset >= request.limitOffset || batch.lastOffset >= request.limitOffset) break
      const fits = sizeBytes + batch.bytes.length <= request.maxBytes
      if (!fits && !(request.minOneBatch && buffers.length === 0)) break
      if (buffers.length === 0) baseOffset = batch.baseOffset
      buffers.push(batch.bytes)
      sizeBytes += batch.bytes.length
      nextOffset = batch.lastOffset + 1
    }
    this.unreleased++
    return { buffers, sizeBytes, baseOffset, nextOffset, release: () => this.unreleased-- }
  }

  abortedTransactions(): readonly AbortedTransaction[] {
    return this.aborted
  }

  producer(producerId: number): ProducerEntry | undefined {
    return this.#producers.get(producerId)
  }

  producers(): Iterable<ProducerEntry> {
    return this.#producers.entries()
  }

  async offsetForTimestamp(timestampMs: number, limitOffset: number): Promise<TimestampOffset | null> {
    for (const batch of this.batches) {
      if (batch.baseOffset >= limitOffset) break
      const time = Number(batch.bytes.readBigInt64BE(35))
      if (time >= timestampMs) return { offset: batch.baseOffset, timestampMs: time, leaderEpoch: this.leaderEpoch }
    }
    return null
  }

  async offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    let best: TimestampOffset | null = null
    for (const batch of this.batches) {
      const time = Number(batch.bytes.readBigInt64BE(35))
      if (best === null || time > best.timestampMs) best = { offset: batch.lastOffset, timestampMs: time, leaderEpoch: this.leaderEpoch }
    }
    return best
  }

  endOffsetForEpoch(leaderEpoch: number): EpochEnd {
    return this.epochEnd ?? { leaderEpoch, endOffset: this.logEndOffset }
  }

  watch(listener: (event: LogEvent) => void): () => void {
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  reconfigure(config: LogConfig): void {
    this.config = config
  }

  advanceLogStart(offset: number): void {
    this.logStartOffset = Math.max(this.logStartOffset, Math.min(offset, this.highWatermark))
  }
}

/** Folders in a map. `deleted` names what went away, in order. */
export class FakeLogs implements LogSource {
  readonly folder = '/data'
  readonly logs = new Map<string, FakeLog>()
  readonly deleted: string[] = []
  readonly opened: string[] = []
  readonly savedStarts = new Map<string, number>()
  /** Opening gives the log that is there, as after a restart. */
  keepsLogs = false
  /** When set, opening fails with it. */
  failure: MoonMQError | undefined

  at(topic: string, partition: number): FakeLog {
    const log = this.logs.get(`${topic}-${partition}`)
    if (log === undefined) throw new Error(`no log ${topic}-${partition}`)
    return log
  }

  get(partition: TopicPartition): Log | undefined {
    return this.logs.get(nameOf(partition))
  }

  async space() {
    return { freeBytes: 600, totalBytes: 1000 }
  }

  async saveLogStarts(): Promise<void> {
    for (const log of this.logs.values()) this.savedStarts.set(nameOf(log), log.logStartOffset)
  }

  async exists(partition: TopicPartition): Promise<boolean> {
    return this.logs.has(nameOf(partition))
  }

  async open(request: OpenPartition): Promise<Log> {
    if (this.failure !== undefined) throw this.failure
    const kept = this.keepsLogs ? this.logs.get(nameOf(request)) : undefined
    if (kept?.topicId === request.topicId) return kept
    const log = new FakeLog(request.topic, request.partition, request.topicId, request.config)
    this.logs.set(nameOf(request), log)
    this.opened.push(nameOf(request))
    return log
  }

  async delete(partition: TopicPartition): Promise<void> {
    const name = nameOf(partition)
    const log = this.logs.get(name)
    if (log === undefined) return
    log.state = 'closed'
    log.emit('state')
    this.logs.delete(name)
    this.deleted.push(name)
  }
}

function nameOf({ topic, partition }: TopicPartition): string {
  return `${topic}-${partition}`
}
