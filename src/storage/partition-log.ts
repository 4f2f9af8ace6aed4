import { defined } from '../core/assert.ts'
import type { Counter } from '../core/counters.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { Serial } from '../core/serial.ts'
import type { Uuid } from '../core/uuid.ts'
import { isDiskFull } from '../io/system-error.ts'
import { assignBatch, type BatchHeader, isControl, setLogAppendTime } from '../record/batch.ts'
import { planAppend } from './append-plan.ts'
import { type CleanLog, isSmall, summarize } from './clean-logs.ts'
import { LogCompaction } from './compaction/log-compaction.ts'
import { NEVER_COMPACTED } from './compaction/note.ts'
import type { EpochCache } from './epoch-cache.ts'
import { EpochKeeper } from './epoch-keeper.ts'
import type { JournalOwner } from './journal-format.ts'
import { loadLog } from './load.ts'
import type { LoadedLog, LoadOptions } from './load-types.ts'
import { LogDurability } from './log-durability.ts'
import { LogFault } from './log-fault.ts'
import { LogFolder } from './log-folder.ts'
import type { LogDeps, LogOptions } from './log-options.ts'
import { LogReader, type ReadableLog, segmentIndexFor } from './log-reader.ts'
import { LogWriter, type WriterHost } from './log-writer.ts'
import { encodeProducerSnapshot, writeProducerSnapshot } from './producer-snapshot.ts'
import { type ProducerState, readEndTransaction } from './producer-state.ts'
import { AppendClock } from './record-age.ts'
import type { CutReport } from './recovery.ts'
import { Segment } from './segment.ts'
import { SegmentUpkeep } from './segment-upkeep.ts'
import { storageFull } from './space-guard.ts'
import { Tail } from './tail.ts'
import { offsetForTimestamp, offsetOfMaxTimestamp } from './timestamps.ts'
import { cutFiles } from './truncate.ts'
import { sealsBelow, type TxnSeal } from './txn-seals.ts'
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
} from './types.ts'

/** Index entries are written behind in parts of this size. */
const INDEX_FLUSH_BYTES = 8 * 1024

/**
 * The log of one partition (DESIGN section 5). An append gives offsets, updates what the log knows and queues, all in one turn; the
 * writer puts what is queued into the file, or the journal first, group commit makes it durable, and then the high watermark moves,
 * waiters wake and watchers hear of it. Order on disk: leader epoch before the first byte written in it, names before the bytes in them count, log
 * before indexes, snapshot when a segment is closed.
 *
 * Any failure of a write or a sync ends the log: everything that waits is refused, and only `reopen`, which runs recovery, brings it
 * back. Nothing is ever written behind bytes of which it is not known whether they are there.
 */
export class PartitionLog implements Log, ReadableLog {
  readonly topic: string
  readonly partition: number
  readonly topicId: Uuid
  readonly folder: string
  readonly usesReserve: boolean
  readonly #deps: LogDeps
  readonly #options: LogOptions
  readonly #owner: JournalOwner
  #config: LogConfig
  #state: LogState = 'online'
  readonly #fault: LogFault

  #segments: Segment[] = []
  #producers!: ProducerState
  #epochs!: EpochCache
  #cuts: readonly CutReport[] = []
  #openedEpoch = -1
  readonly #epochKeeper: EpochKeeper
  /** Whether closing has anything to save: not when a log that was closed in order was only read since. */
  #isChanged = true
  /** Truncations that were asked for and are not over: what is appended meanwhile is refused. */
  #truncations = 0
  /** Recovery cut something that the journal may bring back: it must forget the log. */
  #isCut = false
  /** From the beginning of a truncation until the log was opened again, whether or not it went well. */
  #recoveryCap = Number.POSITIVE_INFINITY
  #isInOrder = false
  /** From the call of `close` on: a segment that is closed behind it in the queue would keep its indexes in memory. */
  #isClosing = false

  /** Where the broker stamps batches. */
  readonly #appendClock = new AppendClock()
  #logStart = 0
  #logEnd = 0
  generation = 0

  readonly tail: Tail
  readonly #folder: LogFolder
  readonly #reader: LogReader
  #writer: LogWriter
  readonly #durability: LogDurability
  readonly #watchers = new Set<(event: LogEvent) => void>()
  /** Closing segments, truncation, reopening: one after another. */
  readonly #serial = new Serial()
  readonly #upkeep: SegmentUpkeep
  readonly compaction: LogCompaction
  readonly #rolls: Counter
  readonly #failures: Counter
  readonly #expired: Counter

  private constructor(deps: LogDeps, options: LogOptions) {
    this.#deps = deps
    this.#options = options
    this.topic = options.topic
    this.partition = options.partition
    this.topicId = options.topicId
    this.folder = options.folder
    this.#owner = { topic: options.topic, partition: options.partition, topicId: options.topicId }
    this.#fault = new LogFault(deps, options)
    this.usesReserve = options.usesReserve ?? false
    this.#config = options.config
    this.tail = new Tail(deps.tailMemory)
    this.#folder = new LogFolder(deps, { path: options.folder, topicId: options.topicId, isThere: options.isFolderThere })
    this.#rolls = deps.metrics.counter('moonmq_segment_rolls_total', { topic: options.topic })
    this.#failures = deps.metrics.counter('moonmq_storage_failures_total', { topic: options.topic })
    this.#expired = deps.metrics.counter('moonmq_producers_expired_total')
    this.#reader = new LogReader(deps, this, options, (segment, reason) => this.#upkeep.indexDamaged(segment, reason))
    this.#writer = this.#newWriter()
    this.#upkeep = new SegmentUpkeep(deps, {
      topic: options.topic,
      partition: options.partition,
      folder: options.folder,
      holesBelow: () => this.holesBelow,
      serial: this.#serial,
      segments: () => this.#segments,
      isOnline: () => this.#state === 'online',
      indexIntervalBytes: () => this.#config.indexIntervalBytes,
      whenStored: (offset) => this.#whenStored(offset),
      removing: () => this.#forgetReads(),
      fileDeleteDelayMs: () => this.#config.fileDeleteDelayMs,
      failed: (error) => this.#fail(error),
    })
    this.compaction = new LogCompaction(deps, {
      folder: options.folder,
      serial: this.#serial,
      segments: () => this.#segments,
      isOnline: () => this.#state === 'online',
      replaced: (endOffset) => {
        this.#forgetReads()
        while (this.tail.startOffset < endOffset && this.tail.dropOldest()) {}
      },
      failed: (error) => this.#fail(error),
      reseal: () => options.onReseal?.() ?? Promise.resolve(),
    })
    this.compaction.savedRecoveryPoint = options.load.recoveryPoint
    this.#epochKeeper = new EpochKeeper(deps, { owner: this.#owner, folder: options.folder, entries: () => this.#epochs.entries })
    this.#durability = new LogDurability(deps, {
      owner: this.#owner,
      writeLate: () => this.#writer.writeLate(),
      config: () => this.#config,
      advanced: () => this.#tell('advance'),
      failed: (error) => this.#fail(error),
    })
  }

  /** Opens the log in `options.folder`. Everything that it then holds is durable. Throws DATA_DAMAGED. */
  static async open(deps: LogDeps, options: LogOptions, clean: CleanLog | null = null): Promise<PartitionLog> {
    const log = new PartitionLog(deps, options)
    const loaded = await loadLog(deps, log.#loadOptions(options.load, null), clean)
    log.#adopt(loaded)
    log.#isChanged = options.isFolderThere && !loaded.wasClean
    return log
  }

  // ---- what it is ---------------------------------------------------------------------------------------------------------

  get state(): LogState {
    return this.#state
  }

  get refusal(): MoonMQError | null {
    return this.#state === 'online' ? null : this.#unavailable()
  }

  /** What ended it; null unless the state is `failed`. */
  get failure(): unknown {
    return this.#fault.cause
  }

  get config(): LogConfig {
    return this.#config
  }

  get segments(): readonly Segment[] {
    return this.#segments
  }

  get leaderEpoch(): number {
    return Math.max(this.#openedEpoch, this.#epochs.latest?.leaderEpoch ?? -1)
  }

  get sizeBytes(): number {
    let bytes = 0
    for (const segment of this.#segments) bytes += segment.sizeBytes
    return bytes
  }

  get segmentCount(): number {
    return this.#segments.length
  }

  get logStartOffset(): number {
    return this.#logStart
  }

  get lastStableOffset(): number {
    return Math.max(this.#logStart, this.#producers.lastStableOffset(this.#durability.highWatermark))
  }

  get highWatermark(): number {
    return this.#durability.highWatermark
  }

  get durableOffset(): number {
    return this.#durability.durableOffset
  }

  get syncedOffset(): number {
    return this.#durability.syncedOffset
  }

  get writtenOffset(): number {
    return this.#durability.writtenOffset
  }

  get logEndOffset(): number {
    return this.#logEnd
  }

  /** Below it compaction may have left holes. */
  get holesBelow(): number {
    return this.compaction.note.holesBelow
  }

  get indexIntervalBytes(): number {
    return this.#config.indexIntervalBytes
  }

  /** What recovery cut from the end when the log was opened last. */
  get cuts(): readonly CutReport[] {
    return this.#cuts
  }

  /** Below it everything is on disk in the segments, and their indexes too: where recovery may begin. */
  get recoveryPoint(): number {
    return Math.min(this.#uncutPoint, this.#recoveryCap)
  }

  get #uncutPoint(): number {
    const unfinished = this.#segments.find((each) => !each.isFinished)
    const stored = this.#durability.storedOffset
    return unfinished === undefined || unfinished === this.#active ? stored : Math.min(stored, unfinished.nextOffset - 1)
  }

  /** What the transaction indexes below the recovery point hold; of the active one too once the log was closed in order. */
  get txnSeals(): readonly TxnSeal[] | undefined {
    const lastEnd = this.#isInOrder ? this.#logEnd : Number.POSITIVE_INFINITY
    return this.compaction.withPending(sealsBelow(this.#segments, this.recoveryPoint, lastEnd))
  }

  get #active(): Segment {
    return defined(this.#segments[this.#segments.length - 1], 'the active segment')
  }

  epochFor(offset: number): number {
    return this.#epochs.epochFor(offset)
  }

  // ---- appending ----------------------------------------------------------------------------------------------------------

  append(batch: Buffer, header: BatchHeader, options: AppendOptions): Appended {
    this.#expectAppendable(batch.length, options.leaderEpoch)
    this.#isChanged = true
    const isAppendTime = this.#config.timestampType === 'LogAppendTime'
    const nowMs = this.#deps.clock.nowMs()
    const stampMs = isAppendTime ? this.#appendClock.stamp(nowMs) : -1
    const stored = isAppendTime ? setLogAppendTime(batch, 0, header, stampMs) : header
    const plan = planAppend(this.#active, this.#logEnd, stored, this.#config, nowMs)
    if (plan.roll !== null) this.#roll(plan.baseOffset, nowMs)
    const segment = this.#active
    assignBatch(batch, 0, plan.baseOffset, options.leaderEpoch)
    if (this.#epochs.assign(options.leaderEpoch, plan.baseOffset)) this.#epochKeeper.changed()
    this.#fold(segment, batch, stored, plan.baseOffset)
    segment.accept(plan, stored)
    segment.appendedMs = nowMs
    this.#logEnd = plan.lastOffset + 1
    this.tail.push(plan.baseOffset, plan.lastOffset, batch)
    this.#writer.enqueue(segment, batch, this.#logEnd)
    return {
      baseOffset: plan.baseOffset,
      lastOffset: plan.lastOffset,
      logAppendTimeMs: stampMs,
      logStartOffset: this.#logStart,
    }
  }

  /** Bytes that wait to be written. */
  get queuedBytes(): number {
    return this.#writer.queuedBytes
  }

  /** Undefined when an append has room, else resolves once half of the queue is written or the log fails. */
  ready(): Promise<void> | undefined {
    return this.#state === 'online' ? this.#writer.ready() : undefined
  }

  #expectAppendable(bytes: number, leaderEpoch: number): void {
    if (this.#state !== 'online') throw this.#unavailable()
    if (this.#isClosing) throw this.#fault.because('the log is being closed')
    if (this.#truncations > 0) throw this.#fault.because('the end of the log is being changed')
    if (!this.#writer.hasRoom(bytes)) {
      throw this.#fault.because(`the disk does not keep up, ${this.#writer.queuedBytes} bytes wait`)
    }
    if (this.#options.hasRoom?.(bytes) === false) throw storageFull(this)
    const current = this.leaderEpoch
    if (leaderEpoch < current) {
      throw new MoonMQError('LEADER_EPOCH_FENCED', { topic: this.topic, partition: this.partition, epoch: leaderEpoch, current })
    }
  }

  #fold(segment: Segment, batch: Buffer, header: BatchHeader, baseOffset: number): void {
    const marker = isControl(header) ? readEndTransaction(batch, 0, header) : null
    const completed = this.#producers.update(header, baseOffset, marker)
    if (completed?.aborted !== true) return
    try {
      segment.txnIndex.append(completed)
    } catch (error) {
      this.#fail(error)
      throw this.#unavailable()
    }
  }

  /** The active segment is closed and a new one begun; files follow when the writer gets there. */
  #roll(baseOffset: number, nowMs: number): void {
    this.#rolls.add()
    const old = this.#active
    const segment = Segment.create(this.#deps, { folder: this.folder, baseOffset, createdMs: nowMs })
    segment.logFolder = this.#folder
    this.#segments.push(segment)
    this.#durability.began(segment)
    const snapshot = encodeProducerSnapshot(this.#producers.entries())
    this.#upkeep.finish(old, baseOffset, snapshot)
  }

  /**
   * Begins a new segment although nothing is appended, so that retention or compaction can have the old one. The files of the new one are
   * there, durably, when it resolves: they tell where the log ends once all others are gone. Nothing happens in a log without records in
   * its last segment, so an idle log does not roll for ever.
   */
  rollIdle(): Promise<void> {
    if (this.#state !== 'online' || this.#isClosing || this.#truncations > 0 || this.#active.sizeBytes === 0) return Promise.resolve()
    this.#roll(this.#logEnd, this.#deps.clock.nowMs())
    const segment = this.#active
    return this.#serial.run(() => (this.#state === 'online' ? segment.makeFiles(this.#deps) : Promise.resolve()))
  }

  // ---- writing and syncing ------------------------------------------------------------------------------------------------

  #newWriter(): LogWriter {
    const host: WriterHost = {
      prepare: () => this.#prepare(),
      isSyncedAtOnce: () => this.#config.flushMessages === 1,
      written: (segment, endOffset, isLate) => this.#written(segment, endOffset, isLate),
      taken: (segment, endOffset, parts, bytes) => this.#durability.took(segment, endOffset, parts, bytes),
      writeFailed: (error) => this.#fail(error),
    }
    return new LogWriter(this.#deps, host, this.#options.maxQueuedBytes)
  }

  /** First the folder. Then the epoch: a batch reaches its file only when the checkpoint knows it, so recovery can compare each with it. */
  #prepare(): Promise<void> | null {
    return this.#folder.make() ?? this.#epochKeeper.beforeWrite()
  }

  #written(segment: Segment, endOffset: number, isLate: boolean): void {
    this.tail.written(endOffset)
    this.#durability.written(endOffset)
    try {
      if (isLate) this.#deps.failpoint('journal.late-written')
      else this.#deps.failpoint(segment.areNamesDurable ? 'log.append.written' : 'log.roll.created')
      segment.flushIndexesFrom(INDEX_FLUSH_BYTES, endOffset)
    } catch (error) {
      this.#fail(error)
    }
  }

  whenDurable(offset: number): Promise<void> {
    if (offset > this.#durability.durableOffset && this.#state !== 'online') return Promise.reject(this.#unavailable())
    return this.#durability.whenDurable(offset)
  }

  whenSynced(offset: number): Promise<void> {
    if (offset > this.#durability.syncedOffset && this.#state !== 'online') return Promise.reject(this.#unavailable())
    return this.#durability.whenSynced(offset)
  }

  /** Like `whenSynced`, and the journal does not do: the segments' own files must have it. */
  #whenStored(offset: number): Promise<void> {
    if (offset > this.#durability.storedOffset && this.#state !== 'online') return Promise.reject(this.#unavailable())
    return this.#durability.whenStored(offset)
  }

  /** Forgets idempotent producers that were silent for longer than the settings allow; nothing of them is on disk but their batches. */
  expireProducers(): void {
    if (this.#state !== 'online') return
    const expired = this.#producers.expire()
    if (expired > 0) this.#expired.add(expired)
  }

  // ---- failing ------------------------------------------------------------------------------------------------------------

  #fail(error: unknown): void {
    if (this.#state !== 'online') return
    this.#end('failed', error)
    this.#failures.add()
    this.#fault.report()
    this.#tell('state')
    if (this.#folder.isThere) this.#fault.leaveNote()
    this.#options.onFailed?.(error)
  }

  /** Nothing is written from here on, and nobody waits in vain. */
  #end(state: 'failed' | 'closed', failure: unknown): void {
    this.#state = state
    this.#fault.cause = failure
    this.#writer.stop()
    // Of what was acknowledged and is not in the file yet memory has the only copy that can be read.
    if (state === 'failed' && this.#writer.hasLate) this.tail.keepUnwritten(this.#durability.highWatermark)
    else this.tail.clear()
    this.#durability.stop(this.#unavailable())
  }

  #unavailable(): MoonMQError {
    return this.#fault.refusal(this.#state)
  }

  /**
   * Brings a failed log back through recovery, which rebuilds its end, producers, epochs and indexes. `leaderEpoch` must be above
   * every earlier one, so that no (epoch, offset) ever names two records. Throws DATA_DAMAGED, or what the disk says.
   */
  reopen(leaderEpoch: number): Promise<void> {
    return this.#serial.run(async () => {
      if (this.#state !== 'failed') return
      const acknowledgedOffset = this.#durability.syncedOffset
      const { storedOffset } = this.#durability
      const { recoveryPoint, logStartOffset, txnSeals = null } = this
      await this.#stopWriting()
      this.#writer.finishLate(this.#segments)
      await this.#epochKeeper.settleSaved()
      const known = { recoveryPoint, txnSeals, logStartOffset, maxEpoch: leaderEpoch, synced: null }
      const load = { ...this.#options.load, wasClean: false, hadPowerCut: false, ...known }
      // What was acknowledged is read through the old segments until then, and for as long as this fails.
      const loaded = await loadLog(this.#deps, { ...this.#loadOptions(load, storedOffset), acknowledgedOffset })
      // Of what the journal has nothing is ever cut, unless a read went wrong. Then nothing may be written in its place before.
      this.#isCut ||= loaded.cuts.length > 0
      if (this.#isCut) await this.#deps.commit.forget(this.#owner)
      this.#isCut = false
      this.#openedEpoch = leaderEpoch
      this.#state = 'online'
      this.#fault.cause = null
      const old = this.#segments
      this.#adopt(loaded)
      this.#tell('state')
      this.#tell('advance')
      // They have nothing that is still wanted.
      await Promise.all(old.map((segment) => segment.close().catch(() => {})))
    })
  }

  // ---- reading ------------------------------------------------------------------------------------------------------------

  read(request: ReadRequest): LogRead | Promise<LogRead> {
    if (this.#state === 'closed') throw this.#unavailable()
    const end = this.#state === 'online' ? this.#logEnd : this.#durability.highWatermark
    const { offset } = request
    if (offset < this.#logStart || offset > end) {
      const { topic, partition } = this
      throw new MoonMQError('OFFSET_OUT_OF_RANGE', { offset, topic, partition, start: this.#logStart, end })
    }
    return this.#reader.read(request.limitOffset > end ? { ...request, limitOffset: end } : request)
  }

  abortedTransactions(from: number, to: number): readonly AbortedTransaction[] {
    const aborted: AbortedTransaction[] = []
    for (let index = segmentIndexFor(this.#segments, from); index < this.#segments.length; index++) {
      if (this.#upkeep.collectAborted(this.#segments[index] as Segment, from, to, aborted)) break
    }
    return aborted
  }

  producer(producerId: number): ProducerEntry | undefined {
    return this.#producers.get(producerId)
  }

  producers(): Iterable<ProducerEntry> {
    return this.#producers.entries()
  }

  offsetForTimestamp(timestampMs: number, limitOffset: number): Promise<TimestampOffset | null> {
    return this.#search(() => offsetForTimestamp(this, this.#deps.inflater, timestampMs, Math.min(limitOffset, this.#logEnd)))
  }

  offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    return this.#search(() => offsetOfMaxTimestamp(this, this.#deps.inflater, this.#logEnd))
  }

  /** A search that finds the files closed, because the log was, or is being opened again, is refused like a read. */
  async #search<T>(search: () => Promise<T>): Promise<T> {
    if (this.#state === 'closed') throw this.#unavailable()
    try {
      return await search()
    } catch (error) {
      if (isCode(error, 'CLOSED')) throw this.#unavailable()
      throw error instanceof MoonMQError ? error : this.#fault.because(error instanceof Error ? error.message : String(error))
    }
  }

  endOffsetForEpoch(leaderEpoch: number, currentEpoch: number): EpochEnd {
    const end = this.#epochs.endOffsetFor(leaderEpoch, this.#logEnd, currentEpoch)
    return end.endOffset >= 0 && end.endOffset < this.#logStart ? { ...end, endOffset: this.#logStart } : end
  }

  watch(listener: (event: LogEvent) => void): () => void {
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  #tell(event: LogEvent): void {
    for (const listener of this.#watchers) listener(event)
  }

  // ---- changing the ends --------------------------------------------------------------------------------------------------

  /**
   * Takes away every batch that has a record at or behind `offset`: the log then ends there, or at the beginning of the batch that
   * held it. Waiters for what went are refused. For a replica that follows another leader; durable when it resolves.
   */
  truncateTo(offset: number): Promise<void> {
    this.#truncations++
    return this.#serial.run(async () => {
      try {
        if (this.#state !== 'online') throw this.#unavailable()
        if (offset >= this.#logEnd) return
        await this.#writer.drained()
        // What only the journal has must be in the files before it forgets the log; it must, lest a start write again what was cut.
        await this.#whenStored(this.#logEnd)
        await this.#epochKeeper.settleSaved()
        this.#durability.stop(this.#fault.because(`the log was truncated to offset ${offset}`))
        // A batch goes whole, so the log may end before `offset`, but not before the segment that holds it.
        const holder = this.#segments[segmentIndexFor(this.#segments, offset)] as Segment
        const recoveryPoint = Math.min(this.recoveryPoint, holder.baseOffset, offset)
        const bases = this.#segments.map((each) => each.baseOffset)
        // Until the log is cut, no checkpoint may learn of more.
        this.#recoveryCap = recoveryPoint
        await this.#options.onTruncate?.(recoveryPoint)
        await this.compaction.truncating(recoveryPoint)
        await this.#deps.commit.forget(this.#owner)
        this.#deps.failpoint('journal.forgotten')
        await this.#closeSegments()
        await cutFiles(this.#deps, { folder: this.folder, bases, offset, holesBelow: this.holesBelow })
        const load = {
          ...this.#options.load,
          synced: null,
          wasClean: false,
          hadPowerCut: false,
          recoveryPoint,
          txnSeals: this.txnSeals ?? null,
          acknowledgedOffset: 0,
          logStartOffset: Math.min(this.#logStart, offset),
        }
        this.#adopt(await loadLog(this.#deps, this.#loadOptions({ ...load, maxEpoch: null }, null)))
        this.#tell('advance')
      } catch (error) {
        this.#fail(error)
        throw error
      } finally {
        this.#truncations--
      }
    })
  }

  /**
   * Moves the log's start up to `offset`, at most to the high watermark. Nothing below is readable from now on; the segments there are
   * deleted by `deleteBelow` once a checkpoint holds the new start.
   */
  advanceLogStart(offset: number): void {
    const start = Math.min(offset, this.#durability.highWatermark)
    if (start <= this.#logStart) return
    this.#logStart = start
    this.#producers.advanceStart(start)
    this.#isChanged = true
    this.#tell('start')
  }

  /**
   * Takes segments that lie wholly below `offset`, which is not above the log's start, out of the log. Returns their bytes. Also in a log
   * that failed because the disk is full: that is what makes room.
   */
  deleteBelow(offset: number, how: { isStartSaved: boolean } = { isStartSaved: true }): Promise<number> {
    return this.#serial.run(async () => {
      const isOpen = this.#state === 'online' || (this.#state === 'failed' && isDiskFull(this.#fault.cause))
      const freed = isOpen ? await this.#upkeep.removeBelow(Math.min(offset, this.#logStart), how.isStartSaved) : 0
      // Not before: every batch that a file still holds is compared with the epoch that the checkpoint gives it.
      if (freed > 0 && this.#epochs.truncateFromStart((this.#segments[0] as Segment).baseOffset)) this.#epochKeeper.changed()
      return freed
    })
  }

  reconfigure(config: LogConfig): void {
    this.#config = config
    this.#durability.reconfigured()
  }

  // ---- opening and closing ------------------------------------------------------------------------------------------------

  #loadOptions(load: LogOptions['load'], rewriteFrom: number | null): LoadOptions {
    const { topic, partition, topicId, folder } = this
    const { isThere } = this.#folder
    return {
      topic,
      partition,
      topicId,
      folder,
      isThere,
      indexIntervalBytes: this.#config.indexIntervalBytes,
      rewriteFrom,
      ...load,
    }
  }

  /** Everything that was loaded is durable. */
  #adopt(loaded: LoadedLog): void {
    this.#segments = loaded.segments
    this.#upkeep.restart()
    this.#producers = loaded.producers
    this.#epochs = loaded.epochs
    this.compaction.restart(loaded.compaction)
    this.#epochKeeper.restart(this.#folder.isThere)
    this.#cuts = loaded.cuts
    this.#recoveryCap = Number.POSITIVE_INFINITY
    this.#isChanged = this.#folder.isThere
    this.#logStart = loaded.logStartOffset
    this.#logEnd = loaded.nextOffset
    for (const segment of loaded.segments) {
      segment.onIndexDamage = (reason) => this.#upkeep.indexDamaged(segment, reason)
      segment.logFolder = this.#folder
    }
    this.#durability.restart(this.#active, loaded.nextOffset)
    this.#forgetReads()
    this.tail.clear()
    this.tail.written(loaded.nextOffset)
    this.#writer = this.#newWriter()
  }

  /**
   * Closes the log in order: queued bytes written, everything synced, then the last index entries, the producer snapshot at the log's
   * end. After it the recovery point is the log's end. A log that failed only gives its files back.
   */
  close(): Promise<void> {
    this.#isClosing = true
    return this.#serial.run(() => this.#close())
  }

  async #close(): Promise<void> {
    if (this.#state === 'closed') return
    try {
      if (this.#state === 'online' && (this.#isChanged || this.#epochKeeper.isBehind)) await this.#settle()
      this.#isInOrder = this.#state === 'online'
    } finally {
      this.#end('closed', this.#fault.cause)
      await this.#closeSegments()
      this.#tell('state')
    }
  }

  /** What the next start may believe without looking into the files; null unless the log was closed in order. */
  summary(): CleanLog | null {
    if (!this.#isInOrder || this.compaction.note !== NEVER_COMPACTED) return null
    const { topicId, partition, folder } = this
    const ends = { logStartOffset: this.#logStart, endOffset: this.#logEnd, epochs: this.#epochs.entries }
    return summarize(this.#deps.disk, { topicId, partition, folder, ...ends, segments: this.#segments, producers: this.#producers })
  }

  async #settle(): Promise<void> {
    await this.#whenStored(this.#logEnd)
    await this.#upkeep.finishRest()
    const active = this.#active
    const isSummaryEnough = isSmall(this.#segments, this.#producers)
    if (isSummaryEnough) {
      active.leaveIndexes()
      await this.#epochKeeper.leave()
      return
    }
    if (active.sizeBytes > 0) {
      active.finishTimeIndex()
      await active.syncIndexes()
    }
    await this.#epochKeeper.settle()
    if (this.#logEnd > 0) await writeProducerSnapshot(this.#deps.disk, this.folder, this.#logEnd, this.#producers.entries())
    await this.#deps.disk.syncDirectory(this.folder)
  }

  /** Closes without saving anything: for a partition that is deleted. Waiters are refused. */
  discard(): Promise<void> {
    if (this.#state === 'online') this.#end('failed', this.#fault.because('the partition is deleted'))
    this.#epochKeeper.abandon()
    this.#durability.abandon()
    return this.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #closeSegments(): Promise<void> {
    await this.#stopWriting()
    this.generation++
    await Promise.all(this.#segments.map((segment) => segment.close()))
  }

  async #stopWriting(): Promise<void> {
    this.#writer.stop()
    await this.#writer.drained()
    this.#durability.forget()
  }

  /** Resolves when background work that was begun has ended: closing segments, building indexes. */
  idle(): Promise<void> {
    return this.#serial.idle()
  }

  /** Reads under way begin again; positions that were remembered are not used. */
  #forgetReads(): void {
    this.generation++
    this.#reader.forget()
  }
}
