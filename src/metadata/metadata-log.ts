import { isInMemory } from '../config/topic-settings.ts'
import type { Clock } from '../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { type Failpoint, NO_FAILPOINT } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import { Serial } from '../core/serial.ts'
import type { Resource } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk } from '../io/disk.ts'
import { nextOffset, readBatchHeader } from '../record/batch.ts'
import type { Log } from '../storage/types.ts'
import { encodeRecords, foldBatch, leaderChangeBatch, metadataBatch } from './batches.ts'
import { emptyImage, ImageBuilder } from './image.ts'
import { bumpLeaderEpochs, registerBroker } from './plans.ts'
import { decodeRecord } from './records.ts'
import { listSnapshots, loadNewestSnapshot, removeOldSnapshots, snapshotName, writeSnapshot } from './snapshot.ts'
import type { BrokerEndPoint, BrokerImage, Metadata, MetadataChange, MetadataImage, TopicImage } from './types.ts'

export interface MetadataLogDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  /** `__cluster_metadata-0`, recovered and online. The metadata log alone appends to it; its owner closes it afterwards. */
  readonly partitionLog: Log
  /** A failed append or sync: what was promised is not known to be on disk, so the broker must stop (DESIGN D5). Called once. */
  readonly onFatal: (error: MoonMQError) => void
  readonly failpoint?: Failpoint
  /** Refuses a change while the disk has no room for it: a failed append would stop the broker. */
  readonly expectRoom?: () => Promise<void>
}

export interface MetadataLogOptions {
  /** The folder of `__cluster_metadata-0`, where the snapshots are. */
  readonly directory: string
  readonly clusterId: Uuid
  readonly nodeId: number
  /** New at each start of the broker. */
  readonly incarnationId: Uuid
  readonly rack?: string | null
  readonly endPoints?: readonly BrokerEndPoint[]
  /** The last stop was not clean: every partition gets a new leader epoch before `open` resolves (DESIGN D8). */
  readonly raiseLeaderEpochs: boolean
  /** A snapshot is written when the log has grown by this many bytes of records since the last one. */
  readonly snapshotEveryBytes?: number
}

/** Kafka's `metadata.log.max.record.bytes.between.snapshots`. */
const SNAPSHOT_EVERY_BYTES = 20 * 1024 * 1024
const SNAPSHOTS_KEPT = 2
const READ_BYTES = 1024 * 1024
/** Changes that may wait for their turn. */
const MAX_WAITING_CHANGES = 10_000

type Listener = (before: MetadataImage, after: MetadataImage) => void

/**
 * The log of all cluster state and its fold (DESIGN D7). Changes go through one queue: plan against the committed image, append as
 * one batch, sync, apply, answer. So the image never shows what a power cut can take back, and what is answered is durable.
 */
export class MetadataLog implements Metadata, Resource {
  readonly #deps: MetadataLogDeps
  readonly #options: MetadataLogOptions
  readonly #failpoint: Failpoint
  readonly #queue = new Serial()
  readonly #listeners = new Set<Listener>()
  readonly #epoch: number
  /** Topics whose removal was read at this start: what is left of their folders is to be removed, not set aside. */
  readonly removedTopics: ReadonlySet<Uuid>
  #image: MetadataImage
  #lastTimestampMs = -1
  #snapshotEndOffset: number
  #bytesSinceSnapshot: number
  #snapshotting: Promise<void> | null = null
  #failure: MoonMQError | null = null
  #closing: Promise<void> | null = null

  private constructor(deps: MetadataLogDeps, options: MetadataLogOptions, loaded: Loaded) {
    this.#deps = deps
    this.#options = options
    this.#failpoint = deps.failpoint ?? NO_FAILPOINT
    this.#image = loaded.image
    this.removedTopics = loaded.removedTopics
    this.#snapshotEndOffset = loaded.snapshotEndOffset
    this.#bytesSinceSnapshot = loaded.replayedBytes
    this.#epoch = Math.max(deps.partitionLog.leaderEpoch, loaded.snapshotEpoch) + 1
  }

  /**
   * Loads the newest whole snapshot and the log after it, opens an epoch and registers the broker; with `raiseLeaderEpochs` every
   * partition has its new epoch too when this resolves. Throws DATA_DAMAGED naming what this version does not understand.
   */
  static async open(deps: MetadataLogDeps, options: MetadataLogOptions): Promise<MetadataLog> {
    const metadata = new MetadataLog(deps, options, await load(deps, options))
    await metadata.#queue.run(() => metadata.#begin())
    return metadata
  }

  get image(): MetadataImage {
    return this.#image
  }

  /** The epoch that this start opened. */
  get epoch(): number {
    return this.#epoch
  }

  /** Changes that run or wait. */
  get pendingChanges(): number {
    return this.#queue.size
  }

  /** This broker as it registered at this start. */
  get broker(): BrokerImage {
    const broker = this.#image.brokers.get(this.#options.nodeId)
    if (broker === undefined) throw new MoonMQError('INTERNAL', { reason: 'this broker is not registered' })
    return broker
  }

  change<T>(plan: (image: MetadataImage) => MetadataChange<T>): Promise<T> {
    if (this.#closing !== null) return Promise.reject(new MoonMQError('SHUTTING_DOWN'))
    if (this.#queue.size >= MAX_WAITING_CHANGES) {
      return Promise.reject(new MoonMQError('RATE_LIMITED', { reason: `${MAX_WAITING_CHANGES} metadata changes are waiting` }))
    }
    return this.#queue.run(async () => {
      const { records, result } = plan(this.#image)
      if (records.length > 0) {
        await this.#deps.expectRoom?.()
        await this.#commit(encodeRecords(records))
        this.#snapshotWhenGrown()
      }
      return result
    })
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Ends the changes that were asked for, writes a snapshot and stops. The partition log stays open. */
  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #end(): Promise<void> {
    await this.#queue.idle()
    await this.#snapshotting
    if (this.#failure === null) await this.#snapshot()
    this.#listeners.clear()
  }

  /** The leader change and the registration are appended together and share one sync. */
  async #begin(): Promise<void> {
    const { partitionLog, clock } = this.#deps
    const place = { baseOffset: partitionLog.logEndOffset, leaderEpoch: this.#epoch }
    this.#append(leaderChangeBatch(this.#options.nodeId, clock.nowMs(), place))
    const { nodeId, incarnationId, rack = null, endPoints = [] } = this.#options
    const here = { ...this.#image, nextOffset: partitionLog.logEndOffset }
    await this.#commit(encodeRecords(registerBroker(here, { nodeId, incarnationId, rack, endPoints }).records))
    // A log in memory begins anew at each start, so each start is an unclean one for it.
    const raises = ({ config }: TopicImage) => this.#options.raiseLeaderEpochs || isInMemory(config)
    for (const records of bumpLeaderEpochs(this.#image, { nodeId, raises })) await this.#commit(encodeRecords(records))
  }

  async #commit(values: readonly Buffer[]): Promise<void> {
    if (this.#failure !== null) throw this.#failure
    const { partitionLog, clock } = this.#deps
    const nowMs = clock.nowMs()
    // Folded from the very bytes that a later start reads. A change that cannot be folded is refused before it is in the log.
    const builder = new ImageBuilder(this.#image)
    for (const value of values) builder.apply(decodeRecord(value))
    const endOffset = this.#append(metadataBatch(values, nowMs, { baseOffset: partitionLog.logEndOffset, leaderEpoch: this.#epoch }))
    try {
      await partitionLog.whenSynced(endOffset)
    } catch (error) {
      throw this.#fail(error)
    }
    const before = this.#image
    this.#image = builder.build(endOffset)
    this.#lastTimestampMs = nowMs
    this.#notify(before)
  }

  /** Appends a batch and returns the offset after it. */
  #append(batch: Buffer): number {
    try {
      this.#bytesSinceSnapshot += batch.length
      return this.#deps.partitionLog.append(batch, readBatchHeader(batch), { leaderEpoch: this.#epoch }).lastOffset + 1
    } catch (error) {
      throw this.#fail(error)
    }
  }

  #fail(error: unknown): MoonMQError {
    if (this.#failure !== null) return this.#failure
    this.#failure = asMoonMQError(error)
    this.#deps.log.error('metadata.log_failed', 'the metadata log failed; the broker stops', { reason: this.#failure.message })
    this.#deps.onFatal(this.#failure)
    return this.#failure
  }

  #notify(before: MetadataImage): void {
    for (const listener of this.#listeners) {
      try {
        listener(before, this.#image)
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        this.#deps.log.error('metadata.listener_failed', 'a follower of the metadata failed; the change itself stands', { reason })
      }
    }
  }

  #snapshotWhenGrown(): void {
    if (this.#snapshotting !== null) return
    if (this.#bytesSinceSnapshot < (this.#options.snapshotEveryBytes ?? SNAPSHOT_EVERY_BYTES)) return
    this.#snapshotting = this.#snapshot().finally(() => {
      this.#snapshotting = null
    })
  }

  /**
   * Lets segments go that lie below the older of the two snapshots, which was whole when it was read or written: should the newest be
   * damaged, the older one and the log behind it still give everything. A log of one segment stays whole. The next checkpoint saves the start,
   * and only then the files go.
   */
  #trim(olderEndOffset: number): void {
    const { partitionLog } = this.#deps
    if (partitionLog.segmentCount > 1) partitionLog.advanceLogStart(olderEndOffset)
  }

  /** Never rejects: without a snapshot the next start reads more of the log, and nothing is lost. */
  async #snapshot(): Promise<void> {
    const image = this.#image
    if (image.nextOffset <= this.#snapshotEndOffset) return
    const { disk, clock, log } = this.#deps
    const { directory } = this.#options
    const id = { endOffset: image.nextOffset, epoch: this.#epoch }
    const bytesBefore = this.#bytesSinceSnapshot
    const olderEndOffset = this.#snapshotEndOffset
    try {
      const sizeBytes = await writeSnapshot(disk, directory, { id, image, lastTimestampMs: this.#lastTimestampMs, nowMs: clock.nowMs() })
      this.#snapshotEndOffset = id.endOffset
      this.#bytesSinceSnapshot -= bytesBefore
      log.info('metadata.snapshot', 'a snapshot of the metadata was written', { file: snapshotName(id), sizeBytes })
      this.#failpoint('metadata.snapshot-written')
      await removeOldSnapshots(disk, directory, SNAPSHOTS_KEPT)
      this.#trim(olderEndOffset)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      log.error('metadata.snapshot_failed', 'a snapshot of the metadata could not be written; the log has everything', { reason })
    }
  }
}

interface Loaded {
  readonly image: MetadataImage
  readonly removedTopics: ReadonlySet<Uuid>
  readonly snapshotEndOffset: number
  readonly snapshotEpoch: number
  readonly replayedBytes: number
}

async function load(deps: MetadataLogDeps, options: MetadataLogOptions): Promise<Loaded> {
  const { partitionLog } = deps
  const { directory, clusterId } = options
  const snapshot = await loadNewestSnapshot(deps, { directory, clusterId })
  const from = snapshot?.id.endOffset ?? 0
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path: directory, reason })
  if (from > partitionLog.logEndOffset) {
    throw bad(`the metadata log ends at offset ${partitionLog.logEndOffset}, but a snapshot was taken at ${from}`)
  }
  if (from < partitionLog.logStartOffset) {
    throw bad(`the metadata log starts at offset ${partitionLog.logStartOffset}, and no whole snapshot reaches so far`)
  }
  if (snapshot === null && (await listSnapshots(deps.disk, directory)).length > 0) {
    deps.log.warn('metadata.no_snapshot', 'no metadata snapshot is whole; the log is read from its start', { directory })
  }
  const builder = new ImageBuilder(snapshot?.image ?? emptyImage(clusterId))
  const replayedBytes = await replay(partitionLog, from, builder, directory)
  return {
    image: builder.build(partitionLog.logEndOffset),
    removedTopics: builder.removedTopics,
    snapshotEndOffset: from,
    snapshotEpoch: snapshot?.id.epoch ?? -1,
    replayedBytes,
  }
}

/** Folds the log from `from` to its end and returns how many bytes that were. All of it is synced: the recovery saw to that. */
async function replay(log: Log, from: number, builder: ImageBuilder, file: string): Promise<number> {
  let offset = from
  let bytes = 0
  while (offset < log.logEndOffset) {
    const read = await log.read({ offset, maxBytes: READ_BYTES, minOneBatch: true, limitOffset: log.logEndOffset })
    try {
      if (read.nextOffset <= offset) {
        throw new MoonMQError('DATA_DAMAGED', { path: file, reason: `the metadata log has no record at offset ${offset}` })
      }
      for (const buffer of read.buffers) {
        for (let position = 0; position < buffer.length; ) {
          const header = readBatchHeader(buffer, position)
          if (header.baseOffset > offset) {
            throw new MoonMQError('DATA_DAMAGED', {
              path: file,
              reason: `the metadata log lacks offsets ${offset} to ${header.baseOffset - 1}`,
            })
          }
          foldBatch(builder, buffer, position, header, { file, fromOffset: from })
          position += header.sizeBytes
          bytes += header.sizeBytes
          offset = nextOffset(header)
        }
      }
    } finally {
      read.release()
    }
  }
  return bytes
}
