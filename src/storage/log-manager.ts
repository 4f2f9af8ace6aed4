import type { Clock, Timer } from '../core/clock.ts'
import { type Metrics, NO_METRICS } from '../core/counters.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { type Failpoint, NO_FAILPOINT } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import { type Random, SystemRandom } from '../core/random.ts'
import { Semaphore } from '../core/semaphore.ts'
import { Serial } from '../core/serial.ts'
import type { Resource, TopicPartition } from '../core/types.ts'
import { type Uuid, ZERO_UUID } from '../core/uuid.ts'
import { makeDirectoryDurably, readSmallFile } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { NodeLoader } from '../io/loader.ts'
import { isDiskFull, systemCode } from '../io/system-error.ts'
import { Codecs } from '../record/compression.ts'
import { Inflater } from '../record/inflater.ts'
import { BufferPool } from './buffer-pool.ts'
import { offsetKey, type PartitionOffset, takeCleanShutdown, writeCleanShutdown } from './checkpoint.ts'
import { type CleanLog, isSameFolder, readCleanLogs, writeCleanLogs } from './clean-logs.ts'
import { deletedFolderName, isDeletedFolder, parsePartitionFolderName, partitionFolderName, strayFolderName } from './files.ts'
import { DEFAULT_GROUP_COMMIT, GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { HandleCache } from './handles.ts'
import { Journal } from './journal.ts'
import type { Replayed } from './journal-replay.ts'
import { folderTopicId } from './load.ts'
import { type DataFolderLock, decodeLock, LOCK_NAME, type LockHost } from './lock.ts'
import { DirectorySyncs, makeLogFolder } from './log-folder.ts'
import type { LogDeps, LogOptions } from './log-options.ts'
import { LostJournal } from './lost-journal.ts'
import { hasCheckpoints, isSurelyWhole, lockFolder, partitionFolders, readCheckpoint, readOldJournal } from './open-folder.ts'
import { PartitionLog } from './partition-log.ts'
import { DEFAULT_PRODUCER_STATE, type ProducerStateOptions } from './producer-state.ts'
import { Removals } from './removals.ts'
import { Reopener } from './reopener.ts'
import { SavedOffsets } from './saved-offsets.ts'
import { SpaceGuard } from './space-guard.ts'
import { TailMemory } from './tail.ts'
import type { TxnSeal } from './txn-seals.ts'
import type { LogConfig } from './types.ts'

export interface LogManagerDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly host: LockHost
  readonly metrics?: Metrics
  readonly codecs?: Codecs
  /** Absent: records are looked into on the event loop. */
  readonly inflater?: Inflater
  readonly failpoint?: Failpoint
  readonly random?: Random
}

export interface LogManagerOptions {
  readonly dataFolder: string
  /** Files of all logs that are open at once. */
  readonly maxOpenFiles?: number
  /** Memory for newest batches, of all logs together and of one. */
  readonly tailBytes?: number
  readonly tailBytesPerLog?: number
  /** Memory kept for reading files. */
  readonly poolBytes?: number
  readonly groupCommit?: Partial<GroupCommitOptions>
  /** Size of each of the two areas of the journal, where there is room. The larger, the less often a file is synced behind it. */
  readonly journalAreaBytes?: number
  /** How long and how many idempotent producers a partition remembers. */
  readonly producers?: ProducerStateOptions
  /** How often recovery points are saved, and so how much recovery reads after a crash. */
  readonly checkpointIntervalMs?: number
  /** Ordinary topics stop taking records while there is still space for the rest of the broker. Default false. */
  readonly watchesSpace?: boolean
  /** Whether the machine lost power since the last write. By default told by the boot id in the lock file that was left. */
  readonly hadPowerCut?: boolean
  /** Asked before memory is taken for a batch; false: the append is refused with STORAGE_FULL. For logs on a disk in memory. */
  readonly hasRoom?: (bytes: number) => boolean
  /** Deleted files do not wait for `file.delete.delay.ms`. */
  readonly removesAtOnce?: boolean
  /** Raises the partition's leader epoch in the metadata log, before a log that failed is opened again. */
  readonly nextLeaderEpoch?: (partition: TopicPartition) => Promise<number>
}

export interface OpenLogRequest extends TopicPartition {
  readonly topicId: Uuid
  readonly config: LogConfig
  /** Leader epoch by the metadata log; null for the metadata log itself. */
  readonly maxEpoch: number | null
  /** It keeps what the broker needs to go on, so it may use the space that other logs must leave. */
  readonly usesReserve?: boolean
  /** Called instead of opening the log again when it fails. */
  readonly onFailed?: (error: unknown) => void
}

const DEFAULTS = {
  maxOpenFiles: 512,
  tailBytes: 64 * 1024 * 1024,
  tailBytesPerLog: 16 * 1024 * 1024,
  poolBytes: 32 * 1024 * 1024,
  checkpointIntervalMs: 60_000,
}
/** An area of the journal has so much for each log, so that files are synced equally seldom however many there are. */
const AREA_BYTES = { perLog: 256 * 1024, least: 16 * 1024 * 1024, most: 64 * 1024 * 1024 } as const
/** So long after there are many logs the journal is made: by then a start has opened most of them. */
const JOURNAL_AFTER_MS = 500
/** With so many logs open the journal is made before it is wanted for the first time. */
const JOURNAL_FROM_LOGS = 64
/** So long after a folder was made the recovery points are saved, with those of all that were made meanwhile. */
const EARLY_SAVE_MS = 1000
/** Logs that are opened at the same time. */
const PARALLEL = 16
/** Logs that are closed, and files that are synced, at the same time at the stop; the disk has its own limit. */
const PARALLEL_STOP = 64
const MAX_LOCK_BYTES = 4096
/** A change of the metadata and the folder that it may make have room in this. */
const MIN_ROOM_BYTES = 128 * 1024

/**
 * All logs of a data folder: holds the lock, opens and closes logs, saves recovery points, deletes folders. The order of a start:
 * lock, the clean-shutdown marker read and durably removed, checkpoints, then logs. The order of a stop: logs flushed with their last
 * index entries and snapshots, checkpoints, the marker, the lock.
 */
export class LogManager implements Resource {
  readonly dataFolder: string
  /** The last stop was in order: no leader epoch needs to rise. */
  readonly wasClean: boolean
  readonly deps: LogDeps
  readonly #space: SpaceGuard | null
  readonly #deps: LogManagerDeps
  readonly #options: LogManagerOptions
  readonly #lock: DataFolderLock
  readonly #hadPowerCut: boolean
  /** A partition without a saved start begins at 0. */
  readonly #areStartsKnown: boolean
  /** What the journal told. */
  readonly #replayed: Replayed
  #lostJournal: LostJournal | null
  readonly #logs = new Map<string, PartitionLog>()
  readonly #opening = new Map<string, Promise<PartitionLog>>()
  readonly #offsets: SavedOffsets
  /** How the last stop left logs that were not opened since. */
  readonly #clean: Map<string, CleanLog>
  readonly #reopener: Reopener
  readonly #checkpoints = new Serial()
  /** The save of log starts that was asked for and has not begun. */
  #startsSave: Promise<void> | null = null
  #isDeletedTopic: (id: Uuid) => boolean = () => false
  /** Called when a log failed because the disk is full. */
  onDiskFull: (() => void) | null = null
  #timer: Timer | null = null
  #earlySave: Timer | null = null
  #journalTimer: Timer | null = null
  readonly #stopObserving: () => void
  #isClosed = false
  /** Every log was opened since the machine was booted, as the lock says, and since a journal was lost. */
  #isRecovered: boolean
  #hasDamage = false

  private constructor(
    deps: LogManagerDeps,
    options: LogManagerOptions,
    found: {
      lock: DataFolderLock
      space: SpaceGuard | null
      isRecovered: boolean
      wasClean: boolean
      hadPowerCut: boolean
      points: readonly PartitionOffset[]
      starts: readonly PartitionOffset[]
      areStartsKnown: boolean
      replayed: Replayed
      clean: Map<string, CleanLog>
    },
  ) {
    this.#deps = deps
    this.#options = options
    this.dataFolder = options.dataFolder
    this.#lock = found.lock
    this.#isRecovered = found.isRecovered && found.replayed.lost === null
    this.wasClean = found.wasClean
    this.#hadPowerCut = found.hadPowerCut
    this.#areStartsKnown = found.areStartsKnown
    this.#replayed = found.replayed
    this.#clean = found.clean
    this.#space = found.space
    const { disk, clock, log, random = new SystemRandom(), failpoint = NO_FAILPOINT } = deps
    this.#offsets = new SavedOffsets({ disk, failpoint }, options.dataFolder, found)
    const journal = new Journal(
      { disk, clock, log, random, failpoint },
      { folder: options.dataFolder, areaBytes: () => options.journalAreaBytes ?? this.#journalAreaBytes },
    )
    const { kept, lost } = found.replayed
    if (kept !== null) journal.keep(kept)
    this.#lostJournal =
      lost === null ? null : new LostJournal({ disk, log, journal }, { folder: options.dataFolder, reason: lost, mayEnd: kept === null })
    this.#reopener = new Reopener({ disk, clock, log, failpoint, space: found.space })
    this.#reopener.nextLeaderEpoch = options.nextLeaderEpoch ?? null
    const codecs = deps.codecs ?? new Codecs({ loader: new NodeLoader() })
    this.deps = {
      disk,
      clock,
      log,
      handles: new HandleCache(deps, { maxOpen: options.maxOpenFiles ?? DEFAULTS.maxOpenFiles }),
      commit: new GroupCommit({ clock, metrics: deps.metrics ?? NO_METRICS, journal }, { ...DEFAULT_GROUP_COMMIT, ...options.groupCommit }),
      pool: new BufferPool({ maxKeptBytes: options.poolBytes ?? DEFAULTS.poolBytes }),
      tailMemory: new TailMemory({
        maxBytes: options.tailBytes ?? DEFAULTS.tailBytes,
        maxBytesPerLog: options.tailBytesPerLog ?? DEFAULTS.tailBytesPerLog,
      }),
      metrics: deps.metrics ?? NO_METRICS,
      failpoint,
      removals: new Removals({
        disk,
        clock,
        log,
        failpoint,
        isFull: () => options.removesAtOnce === true || this.isFull || this.#reopener.isWaitingForSpace,
      }),
      folders: new DirectorySyncs(disk, options.dataFolder, () => this.#saveSoon()),
      codecs,
      inflater: deps.inflater ?? new Inflater({ codecs, offload: null }),
      producerOptions: options.producers ?? DEFAULT_PRODUCER_STATE,
    }
    if (found.space !== null) found.space.onLow = () => this.#needSpace()
    // Files that the journal stands in for stay open until they are synced themselves.
    this.deps.handles.onCrowded = () => this.deps.commit.drain()
    this.#stopObserving = this.deps.metrics.observed('moonmq_append_queue_bytes', () => this.#queuedBytes())
  }

  /** Locks the folder, which is made when missing. Throws DATA_FOLDER_LOCKED, DATA_DAMAGED. No log is open yet. */
  static async open(deps: LogManagerDeps, options: LogManagerOptions): Promise<LogManager> {
    const { dataFolder } = options
    await makeDirectoryDurably(deps.disk, dataFolder)
    const left = await readSmallFile(deps.disk, `${dataFolder}/${LOCK_NAME}`, MAX_LOCK_BYTES).catch(() => null)
    const holder = left === null ? null : decodeLock(left)
    const recoveredBootId = holder?.recoveredBootId ?? ((await isSurelyWhole(deps.disk, dataFolder)) ? deps.host.bootId : '')
    const lock = await lockFolder(deps, dataFolder, recoveredBootId)
    const { failpoint = NO_FAILPOINT } = deps
    try {
      failpoint('start.lock-taken')
      const marker = await takeCleanShutdown(deps.disk, dataFolder)
      failpoint('start.marker-taken')
      const points = await readCheckpoint(deps, dataFolder, 'recovery-points')
      const starts = await readCheckpoint(deps, dataFolder, 'log-starts')
      // Before the first checkpoint nothing can have been deleted.
      const areStartsKnown = starts !== null || !(await hasCheckpoints(deps.disk, dataFolder))
      const wasClean = marker !== null && points !== null && marker.recoveryPointsChecksum === points.checksum
      const isRecovered = recoveredBootId === deps.host.bootId
      // Behind a stop in order everything is on disk, whatever happened to the machine since.
      const isUnsure = marker === null && (holder === null || !isRecovered)
      const hadPowerCut = options.hadPowerCut ?? isUnsure
      const clean = wasClean && marker !== null ? await readCleanLogs(deps, dataFolder, marker.atMs) : new Map<string, CleanLog>()
      const entries = { points: points?.entries ?? [], starts: starts?.entries ?? [], areStartsKnown }
      const space = options.watchesSpace === true ? await SpaceGuard.open(deps, { dataFolder }) : null
      const replayed = await readOldJournal({ ...deps, failpoint }, dataFolder, {
        ...entries,
        wasClean,
        arePointsKnown: points !== null,
      })
      const found = { replayed, clean, lock, space, isRecovered, wasClean, hadPowerCut, ...entries }
      const manager = new LogManager(deps, options, found)
      manager.#warnOfUnknownSeals()
      manager.#scheduleCheckpoint()
      return manager
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  /** For the metadata log, which is opened through this manager before it can answer. */
  set nextLeaderEpoch(raise: (partition: TopicPartition) => Promise<number>) {
    this.#reopener.nextLeaderEpoch = raise
  }

  /** Which topics the metadata log knows to be deleted. What a crash left of them, folders and offsets, is no longer looked at. */
  set isDeletedTopic(isDeleted: (id: Uuid) => boolean) {
    this.#isDeletedTopic = isDeleted
    this.#offsets.forgetTopics(isDeleted)
  }

  get logs(): Iterable<PartitionLog> {
    return this.#logs.values()
  }

  /** Ordinary topics take no records, so that the rest of the broker can go on. */
  get isFull(): boolean {
    return this.#space?.isLow ?? false
  }

  /** Throws STORAGE_FULL when not even what the broker needs for itself has room, the reserve included. */
  async expectRoom(partition: TopicPartition): Promise<void> {
    const space = this.#space
    if (space === null) return
    await space.makeRoom()
    if (space.freeBytes < MIN_ROOM_BYTES) throw new MoonMQError('STORAGE_FULL', { topic: partition.topic, partition: partition.partition })
  }

  get(partition: TopicPartition): PartitionLog | undefined {
    return this.#logs.get(partitionFolderName(partition))
  }

  /** Whether a folder for this partition is there, its log open or not. */
  async exists(partition: TopicPartition): Promise<boolean> {
    return (await this.#deps.disk.stat(this.#folder(partition)))?.kind === 'directory'
  }

  /**
   * Opens a partition's log; its folder is made by the first write when there is none. Throws DATA_DAMAGED when what is there does not fit what was
   * acknowledged; the partition then stays offline and its files as they are.
   */
  async open(request: OpenLogRequest): Promise<PartitionLog> {
    this.#expectOpen()
    const name = partitionFolderName(request)
    const opening = this.#opening.get(name)
    if (opening !== undefined) return opening
    const known = this.#logs.get(name)
    if (known !== undefined) return known
    const open = this.#openOnce(name, request)
    this.#opening.set(name, open)
    try {
      return await open
    } finally {
      this.#opening.delete(name)
    }
  }

  async #openOnce(name: string, request: OpenLogRequest): Promise<PartitionLog> {
    try {
      const log = await this.#open(request)
      this.#logs.set(name, log)
      if (this.#logs.size === JOURNAL_FROM_LOGS) this.#prepareJournalSoon()
      if (this.#isClosed) {
        await log.close()
        this.#expectOpen()
      }
      return log
    } catch (error) {
      if (isCode(error, 'DATA_DAMAGED')) {
        this.#hasDamage = true
        const message = `${partitionFolderName(request)} stays offline; stop the broker and run "moonmq log repair" to see what can be done: ${error.message}`
        this.#deps.log.error('storage.damaged', message, { ...error.details })
        this.#keepAcknowledged(request)
      }
      throw error
    }
  }

  /** Where readers of a log that somebody brought begin; durable when it resolves, and to be said before the log is opened. */
  async beginAt(start: PartitionOffset): Promise<void> {
    this.#expectOpen()
    await this.#checkpoints.run(() => this.#offsets.beginAt(start))
  }

  /** Opens many logs, some at a time. A partition that cannot be opened does not stop the others. */
  async openAll(requests: Iterable<OpenLogRequest>): Promise<{ readonly partition: TopicPartition; readonly error: unknown }[]> {
    const failed: { partition: TopicPartition; error: unknown }[] = []
    const slots = new Semaphore(PARALLEL)
    const openOne = async (request: OpenLogRequest) => {
      try {
        await slots.run(() => this.open(request))
      } catch (error) {
        failed.push({ partition: { topic: request.topic, partition: request.partition }, error })
      }
    }
    await Promise.all([...requests].map(openOne))
    return failed
  }

  /**
   * Looks at folders that no log was opened for: those of deleted topics are removed, those that nobody knows set aside under a name
   * that says so and never removed.
   */
  async settleFolders(judge: (partition: TopicPartition, topicId: Uuid | null) => 'known' | 'deleted' | 'unknown'): Promise<void> {
    for (const entry of await this.#deps.disk.list(this.dataFolder)) {
      if (entry.kind !== 'directory') continue
      if (isDeletedFolder(entry.name)) this.#removeLater(entry.name, 0)
      const partition = parsePartitionFolderName(entry.name)
      if (partition === null || this.get(partition) !== undefined) continue
      const topicId = folderTopicId(this.deps, `${this.dataFolder}/${entry.name}`)
      const verdict = judge(partition, topicId)
      if (verdict === 'deleted') await this.#markDeleted(partition, topicId ?? ZERO_UUID)
      else if (verdict === 'unknown') await this.#setAside(partition, topicId ?? ZERO_UUID)
    }
  }

  /**
   * Closes a log and takes its folder out of sight, durably when it resolves; the files go in the background. Also for a partition that
   * could not be opened. Nothing happens when the folder is missing or, with `topicId`, belongs to another topic of the same name.
   */
  async delete(partition: TopicPartition, topicId?: Uuid): Promise<void> {
    const log = this.get(partition)
    if (log === undefined && !(await this.exists(partition))) return
    const id = log?.topicId ?? folderTopicId(this.deps, this.#folder(partition)) ?? ZERO_UUID
    if (topicId !== undefined && topicId !== id) return
    this.#logs.delete(partitionFolderName(partition))
    this.#offsets.forget(offsetKey(id, partition.partition))
    this.#clean.delete(offsetKey(id, partition.partition))
    await log?.discard()
    // Else a start could make the folder again. Where the journal cannot take it, that folder is one more that belongs to no topic.
    await this.deps.commit.forget({ ...partition, topicId: id }).catch(() => {})
    // A log that nobody wrote to has none.
    if (await this.exists(partition)) await this.#markDeleted(partition, id, log?.config.fileDeleteDelayMs)
  }

  /** Saves recovery points and log starts, then removes segments below the starts. */
  async checkpoint(): Promise<void> {
    // What is synced by now the next checkpoint can cover.
    this.deps.commit.drain()
    const starts = await this.#checkpoints.run(async () => {
      // The last one is the stop's own.
      if (this.#isClosed) return []
      const logs = [...this.#logs.values()].map((log) => ({ log, start: log.logStartOffset }))
      await this.#offsets.save(this.#logs.values())
      await this.deps.commit.noteJournal()
      if (!this.#isRecovered) await this.#confirmRecovered()
      return logs
    })
    // Not within the queue of checkpoints: a log that is being truncated waits for that queue.
    for (const { log, start } of starts) {
      log.expireProducers()
      await log.deleteBelow(start)
    }
  }

  /**
   * Saves where every log begins, durably; several at once share one write. For whoever moved the start of a log and must not say so, nor
   * take files away, before that.
   */
  saveLogStarts(): Promise<void> {
    this.#startsSave ??= this.#checkpoints.run(async () => {
      this.#startsSave = null
      this.#expectOpen()
      await this.#offsets.saveStarts(this.#logs.values())
    })
    return this.#startsSave
  }

  /** Removes at once what waits for its time. Resolves when files of deleted partitions and segments are gone. */
  async removed(): Promise<void> {
    await this.deps.removals.hurry()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#timer?.cancel()
    this.#earlySave?.cancel()
    this.#journalTimer?.cancel()
    this.#stopObserving()
    await this.#reopener.close()
    await this.#checkpoints.idle()
    // Logs that were not opened since a power cut may have torn ends; a marker would say that they have none.
    const isRecovered = this.#isRecovered || (await this.#areAllOpen().catch(() => false))
    let isSynced = true
    this.deps.commit.widen(PARALLEL_STOP)
    const slots = new Semaphore(PARALLEL_STOP)
    const closeOne = async (log: PartitionLog) => {
      try {
        await log.close()
        // It may have failed while it waited for its turn to be closed.
        if (log.failure !== null) isSynced = false
      } catch (error) {
        isSynced = false
        this.#deps.log.error('storage.close_failed', `${log.folder} was not closed in order; the next start recovers it`, { error })
      }
    }
    try {
      await Promise.all([...this.#logs.values()].map((log) => slots.run(() => closeOne(log))))
      await this.deps.removals.close()
      this.deps.failpoint('stop.logs-closed')
      // One that stays holds nothing that the recovery points, which are saved now, do not cover.
      await this.deps.commit
        .close()
        .catch((error: unknown) => this.#deps.log.warn('storage.journal_failed', 'the journal was not removed', { error }))
      const checksum = await this.#checkpoints.run(() => this.#offsets.save(this.#logs.values()))
      // Inverted, it fits no checkpoint: the next start recovers, but knows that no write was cut short.
      const recoveryPointsChecksum = this.#hasDamage ? ~checksum >>> 0 : checksum
      // What a log that failed has left unsynced may still be lost, so then there is none.
      if (isRecovered && isSynced) {
        const atMs = this.#deps.clock.nowMs()
        const { left } = this.deps.removals
        const closed = [...this.#logs.values()].flatMap((log) => (left.has(log.folder) ? [] : (log.summary() ?? [])))
        await writeCleanLogs(this.#deps.disk, this.dataFolder, atMs, [...this.#clean.values(), ...closed])
        this.deps.failpoint('stop.summary-written')
        await writeCleanShutdown(this.#deps.disk, this.dataFolder, { recoveryPointsChecksum, atMs })
        this.deps.failpoint('stop.marker-written')
      }
    } finally {
      await this.#space?.close()
      await this.#lock.release()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #open(request: OpenLogRequest): Promise<PartitionLog> {
    const folder = this.#folder(request)
    const key = offsetKey(request.topicId, request.partition)
    const recoveryPoint = this.#offsets.recoveryPoint(key) ?? 0
    const logStartOffset = this.#offsets.logStart(key) ?? (this.#areStartsKnown ? 0 : null)
    const acknowledgedOffset = this.#replayed.acknowledged.get(key) ?? 0
    const known = this.#clean.get(key) ?? null
    const clean = known !== null && isSameFolder(this.#deps.disk, folder, known) ? known : null
    const hadRecords = Math.max(recoveryPoint, acknowledgedOffset) > (logStartOffset ?? 0)
    const isThere = clean !== null || (await this.#prepareFolder(request, folder, hadRecords))
    let opened: PartitionLog | null = null
    const options: LogOptions = {
      topic: request.topic,
      partition: request.partition,
      topicId: request.topicId,
      folder,
      isFolderThere: isThere,
      config: request.config,
      usesReserve: request.usesReserve ?? false,
      load: {
        wasClean: this.wasClean && isThere && this.#offsets.recoveryPoint(key) !== undefined,
        recoveryPoint,
        txnSeals: this.#sealsOf(key, folder, recoveryPoint),
        acknowledgedOffset,
        logStartOffset,
        maxEpoch: request.maxEpoch,
        hadPowerCut: this.#hadPowerCut,
        synced: { below: recoveryPoint, segment: this.#replayed.synced.get(key) ?? null },
      },
      hasRoom: this.#roomFor(request.usesReserve ?? false),
      onTruncate: async (offset) => {
        const { topicId, partition } = request
        await this.#checkpoints.run(() => this.#offsets.lower({ topicId, partition, offset }))
      },
      onReseal: () => this.#checkpoints.run(async () => void (await this.#offsets.save(this.#logs.values()))),
      onFailed: (error) => {
        this.#space?.lookSoon()
        if (isDiskFull(error)) this.#needSpace()
        if (opened !== null && systemCode(error) === 'ENOENT') this.#keepLost(opened)
        if (request.onFailed !== undefined) request.onFailed(error)
        else if (opened !== null) this.#reopener.failed(opened, error)
      },
    }
    opened = await PartitionLog.open(this.deps, options, clean)
    this.#lostJournal?.report(opened, recoveryPoint)
    this.#clean.delete(key)
    return opened
  }

  /** Null: nobody knows what its transaction indexes must hold, as after a repair. */
  #sealsOf(key: string, folder: string, recoveryPoint: number): readonly TxnSeal[] | null {
    const seals = this.#offsets.txnSeals(key)
    if (seals !== undefined) return seals
    if (recoveryPoint === 0) return []
    const text = `nothing tells what the transaction indexes of ${folder} must hold; its log is read whole and they are built again`
    this.#deps.log.debug('storage.txn_seals_unknown', text, { folder })
    return null
  }

  /** A folder of an earlier build has none: one line for all partitions. */
  #warnOfUnknownSeals(): void {
    const partitions = this.#offsets.unsealedCount
    if (partitions === 0) return
    const text = `nothing tells what the transaction indexes of ${partitions} partition(s) must hold, as after a repair or an earlier build; their logs are read whole, once`
    this.#deps.log.warn('storage.txn_seals_unknown', text, { partitions })
  }

  #roomFor(usesReserve: boolean): ((bytes: number) => boolean) | null {
    const space = this.#space
    if (space === null) return this.#options.hasRoom ?? null
    return (bytes) => space.admit(bytes, usesReserve)
  }

  /** Whether the folder was there. One of a deleted topic of the same name goes away, one of a topic that nobody knows is set aside. */
  async #prepareFolder(request: OpenLogRequest, folder: string, hadRecords: boolean): Promise<boolean> {
    if (this.#deps.disk.statNow(folder) !== null) {
      const topicId = folderTopicId(this.deps, folder)
      if (topicId === request.topicId) return true
      if (topicId === null) {
        await makeLogFolder(this.deps, folder, request.topicId)
        return true
      }
      if (this.#isDeletedTopic(topicId)) await this.#markDeleted(request, topicId)
      else await this.#setAside(request, topicId)
    }
    if (hadRecords)
      throw new MoonMQError('DATA_DAMAGED', { path: folder, reason: 'the folder is missing, but records in it were acknowledged' })
    return false
  }

  async #setAside(partition: TopicPartition, topicId: Uuid): Promise<void> {
    const from = this.#folder(partition)
    const to = `${this.dataFolder}/${strayFolderName(partition, topicId)}`
    await this.#deps.disk.rename(from, to)
    await this.deps.folders.sync()
    this.#deps.log.warn('storage.stray', `${from} belongs to no topic that is known; it was set aside as ${to} and is not touched again`, {
      from,
      to,
    })
  }

  async #markDeleted(partition: TopicPartition, topicId: Uuid, delayMs = 0): Promise<void> {
    const name = deletedFolderName(partition, topicId)
    await this.#deps.disk.rename(this.#folder(partition), `${this.dataFolder}/${name}`)
    this.deps.failpoint('topic.delete.renamed')
    await this.deps.folders.sync()
    this.#removeLater(name, delayMs)
  }

  #removeLater(name: string, delayMs: number): void {
    this.deps.removals.add({ paths: [`${this.dataFolder}/${name}`], kind: 'folder', delayMs })
  }

  /** After a power cut or the loss of a journal: once every log is open, what was in doubt is synced, cut or named. */
  async #confirmRecovered(): Promise<void> {
    if (!(await this.#areAllOpen())) return
    await this.#lock.confirmRecovered()
    this.#isRecovered = true
    await this.#lostJournal?.settle()
    this.#lostJournal = null
  }

  async #areAllOpen(): Promise<boolean> {
    const folders = await partitionFolders(this.#deps.disk, this.dataFolder)
    return folders.every((partition) => this.get(partition)?.state === 'online')
  }

  /** Nothing that was deleted waits any longer, and retention looks for more. */
  #needSpace(): void {
    void this.deps.removals.hurry()
    this.onDiskFull?.()
  }

  #queuedBytes(): number {
    let bytes = 0
    for (const log of this.#logs.values()) bytes += log.queuedBytes
    return bytes
  }

  #scheduleCheckpoint(): void {
    this.#timer = this.#deps.clock.setTimer(this.#options.checkpointIntervalMs ?? DEFAULTS.checkpointIntervalMs, () => {
      this.checkpoint()
        .catch((error: unknown) => this.#deps.log.warn('storage.checkpoint_failed', 'recovery points were not saved', { error }))
        .finally(() => {
          if (!this.#isClosed) this.#scheduleCheckpoint()
        })
    })
  }

  get #journalAreaBytes(): number {
    return Math.min(AREA_BYTES.most, Math.max(AREA_BYTES.least, this.#logs.size * AREA_BYTES.perLog))
  }

  #prepareJournalSoon(): void {
    if (this.#journalTimer !== null || this.#isClosed) return
    this.#journalTimer = this.#deps.clock.setTimer(JOURNAL_AFTER_MS, () => this.deps.commit.prepareJournal())
  }

  /** Folders are new: until a checkpoint knows their logs, nothing tells a start that one of them is missing. */
  #saveSoon(): void {
    if (this.#earlySave !== null || this.#isClosed) return
    this.#earlySave = this.#deps.clock.setTimer(EARLY_SAVE_MS, () => {
      this.#earlySave = null
      this.#checkpoints
        .run(async () => {
          if (!this.#isClosed) await this.#offsets.save(this.#logs.values())
        })
        .catch((error: unknown) => this.#deps.log.warn('storage.checkpoint_failed', 'recovery points were not saved', { error }))
    })
  }

  /** The journal that told of it is gone by the next start, which must not take what is left of a damaged log for all of it. */
  #keepAcknowledged({ topicId, partition }: OpenLogRequest): void {
    const key = offsetKey(topicId, partition)
    const offset = this.#replayed.acknowledged.get(key) ?? 0
    if (offset <= (this.#offsets.recoveryPoint(key) ?? 0)) return
    this.#checkpoints
      .run(() => this.#offsets.keep({ topicId, partition, offset }))
      .catch((error: unknown) => this.#deps.log.warn('storage.checkpoint_failed', 'recovery points were not saved', { error }))
  }

  /** Somebody removed the folder of a log that was written. */
  #keepLost({ folder, topicId, partition, highWatermark }: PartitionLog): void {
    if (this.#deps.disk.statNow(folder) !== null) return
    this.#checkpoints
      .run(() => this.#offsets.keep({ topicId, partition, offset: highWatermark }))
      .catch((error: unknown) => this.#deps.log.warn('storage.checkpoint_failed', `nothing tells the next start of ${folder}`, { error }))
  }

  #folder(partition: TopicPartition): string {
    return `${this.dataFolder}/${partitionFolderName(partition)}`
  }

  #expectOpen(): void {
    if (this.#isClosed) throw new MoonMQError('CLOSED', { what: 'the log manager' })
  }
}
