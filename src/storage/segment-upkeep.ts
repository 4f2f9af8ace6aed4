import type { Clock } from '../core/clock.ts'
import type { Counter, Metrics } from '../core/counters.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { Serial } from '../core/serial.ts'
import type { TopicPartition } from '../core/types.ts'
import { writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import type { BufferPool } from './buffer-pool.ts'
import type { HandleCache } from './handles.ts'
import { rebuildIndexes, rebuildTxnIndex } from './index-rebuild.ts'
import { producerSnapshotName, removeOldProducerSnapshots } from './producer-snapshot.ts'
import type { Removals } from './removals.ts'
import type { Segment } from './segment.ts'
import type { AbortedTransaction } from './types.ts'

export interface UpkeepHost extends TopicPartition {
  readonly folder: string
  /** Below it compaction may have left holes. */
  holesBelow(): number
  /** The log's queue: upkeep, truncation and closing come one after another. */
  readonly serial: Serial
  /** The log's own list; `removeBelow` takes from its front. */
  segments(): Segment[]
  isOnline(): boolean
  indexIntervalBytes(): number
  /** Everything below is durable in the segments' own files. */
  whenStored(offset: number): Promise<void>
  /** A segment is about to go: reads of it must begin again. */
  removing(): void
  fileDeleteDelayMs(): number
  /** Only a recovery can mend it. */
  failed(error: unknown): void
}

export interface UpkeepDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly handles: HandleCache
  readonly pool: BufferPool
  readonly removals: Removals
  readonly failpoint: Failpoint
  readonly metrics: Metrics
}

/** Work on the segments of one log that no request waits for: finishing closed ones, mending indexes, removing old ones. */
export class SegmentUpkeep {
  readonly #deps: UpkeepDeps
  readonly #host: UpkeepHost
  readonly #rebuilt: Counter
  /** Their indexes are being built again. */
  readonly #damaged = new Set<Segment>()
  /** The same of their transaction indexes. One that could not be built, since the log is damaged, stays here: reads of it are refused. */
  readonly #txnDamaged = new Set<Segment>()
  /** A sync of their indexes failed. */
  readonly #doubtful = new Set<Segment>()

  /** Files that gave up their bytes on a full disk. Their names stay until the start of the log is saved, and say so long why they are empty. */
  #emptied: string[] = []

  constructor(deps: UpkeepDeps, host: UpkeepHost) {
    this.#deps = deps
    this.#host = host
    this.#rebuilt = deps.metrics.counter('moonmq_indexes_rebuilt_total', { topic: host.topic })
  }

  /** The log was opened anew, with other segments. */
  restart(): void {
    this.#damaged.clear()
    this.#txnDamaged.clear()
    this.#doubtful.clear()
  }

  /**
   * Makes a segment that takes no more batches durable with its indexes, then the snapshot of the producers at its end. Only after that
   * may a recovery point pass it.
   */
  finish(segment: Segment, endOffset: number, snapshot: Buffer): void {
    const { folder } = this.#host
    const { disk } = this.#deps
    this.#background('storage.segment_not_finished', async () => {
      if (!this.#host.isOnline()) return
      await this.#saveIndexes(segment, endOffset)
      await writeFileAtomically(disk, `${folder}/${producerSnapshotName(endOffset)}`, [snapshot])
      this.#deps.failpoint('segment.finish.snapshot-written')
      const oldest = this.#host.segments().at(-3)
      if (oldest !== undefined) await removeOldProducerSnapshots(disk, folder, oldest.baseOffset)
    })
  }

  /** Tries again what failed for closed segments, without their snapshots: recovery then begins at an older one. Within the queue. */
  async finishRest(): Promise<void> {
    for (const segment of this.#host.segments().slice(0, -1)) {
      if (!segment.isFinished) await this.#saveIndexes(segment, segment.nextOffset)
    }
  }

  async #saveIndexes(segment: Segment, endOffset: number): Promise<void> {
    await this.#host.whenStored(endOffset)
    if (this.#doubtful.has(segment)) await this.#rebuildAll(segment)
    segment.finishTimeIndex()
    // After a sync that failed another one proves nothing: the system may have given the bytes up. They must be written anew.
    this.#doubtful.add(segment)
    await this.#deps.handles.indexSyncs.run(() => segment.syncIndexes())
    this.#deps.failpoint('segment.finish.indexes-synced')
    this.#doubtful.delete(segment)
    await segment.txnIndex.close()
    await this.#deps.disk.syncDirectory(this.#host.folder)
    segment.isFinished = true
  }

  async #rebuildAll(segment: Segment): Promise<void> {
    const holesBelow = this.#host.holesBelow()
    const scan = await rebuildIndexes(this.#deps, segment, { holesBelow, indexIntervalBytes: this.#host.indexIntervalBytes() })
    if (scan.fault !== null) throw new MoonMQError('DATA_DAMAGED', { path: segment.log.path, reason: scan.fault })
    await rebuildTxnIndex(this.#deps, this.#host.segments(), segment, holesBelow)
  }

  /** An index led astray, or does not fit the log: it is built again. */
  indexDamaged(segment: Segment, reason: string): void {
    if (this.#damaged.has(segment) || !this.#isCurrent(segment)) return
    this.#damaged.add(segment)
    this.#deps.log.warn('storage.index_damaged', `the index of ${segment.log.path} is damaged; it is built again`, { reason })
    this.#background('storage.index_not_rebuilt', () => this.#rebuildIndexes(segment))
  }

  async #rebuildIndexes(segment: Segment): Promise<void> {
    const holesBelow = this.#host.holesBelow()
    if (!this.#isCurrent(segment)) return
    const scan = await rebuildIndexes(this.#deps, segment, { holesBelow, indexIntervalBytes: this.#host.indexIntervalBytes() })
    if (scan.fault === null) {
      this.#damaged.delete(segment)
      this.#rebuilt.add()
    } else {
      this.#deps.log.error('storage.damaged', `${segment.log.path} is damaged at byte ${scan.endPosition}: ${scan.fault}`, {
        file: segment.log.path,
        position: scan.endPosition,
        offset: scan.nextOffset,
        reason: scan.fault,
      })
    }
  }

  /**
   * Adds the aborted transactions of one segment that overlap [from, to); true when later segments cannot have any. Throws a
   * retriable STORAGE_FAILED while a damaged index is being built again.
   */
  collectAborted(segment: Segment, from: number, to: number, into: AbortedTransaction[]): boolean {
    try {
      return segment.txnIndex.collect(from, to, into)
    } catch (error) {
      const { topic, partition } = this.#host
      const refusal = (reason: string) => new MoonMQError('STORAGE_FAILED', { topic, partition, reason }, error)
      if (!isCode(error, 'CORRUPT_RECORDS')) throw refusal(String(error))
      this.#txnIndexDamaged(segment, error)
      throw refusal('the index of aborted transactions is being built again')
    }
  }

  #txnIndexDamaged(segment: Segment, error: MoonMQError): void {
    if (this.#txnDamaged.has(segment) || !this.#isCurrent(segment)) return
    this.#deps.log.warn('storage.txn_index_damaged', `${segment.txnIndex.path} is damaged; it is built again`, { reason: error.message })
    // What is appended while it is built would be missing from it.
    if (segment === this.#host.segments().at(-1)) {
      this.#host.failed(error)
      return
    }
    this.#txnDamaged.add(segment)
    this.#background('storage.txn_index_not_rebuilt', async () => {
      if (!this.#isCurrent(segment)) return
      await rebuildTxnIndex(this.#deps, this.#host.segments(), segment, this.#host.holesBelow())
      this.#rebuilt.add()
      this.#txnDamaged.delete(segment)
    })
  }

  /** Not one of a log that was opened again since, or was taken out of it. */
  #isCurrent(segment: Segment): boolean {
    return this.#host.isOnline() && this.#host.segments().includes(segment)
  }

  /**
   * Takes closed segments that lie wholly below `offset` out of the log: their files have other names when it resolves, durably, and go
   * after `file.delete.delay.ms`. When the start of the log could not be saved, as on a full disk, nothing else tells why they are missing:
   * then they give up their bytes at once and keep their names. Returns the bytes that left the log. Called within the log's queue.
   */
  async removeBelow(offset: number, isStartSaved: boolean): Promise<number> {
    const segments = this.#host.segments()
    if (this.#host.isOnline()) await this.finishRest()
    if (isStartSaved) this.#deps.removals.add({ paths: this.#emptied.splice(0), kind: 'files', delayMs: 0 })
    let freed = 0
    while (segments.length > 1) {
      const [first, second] = segments
      if (first === undefined || second === undefined || second.baseOffset > offset || !first.isFinished) break
      segments.shift()
      this.#host.removing()
      freed += first.sizeBytes
      const paths = await first.setAside(this.#deps)
      this.#deps.failpoint('segment.remove.renamed')
      if (isStartSaved) this.#deps.removals.add({ paths, kind: 'files', delayMs: this.#host.fileDeleteDelayMs() })
      else await this.#empty(paths)
    }
    if (freed > 0) await this.#deps.disk.syncDirectory(this.#host.folder)
    return freed
  }

  async #empty(paths: readonly string[]): Promise<void> {
    const { disk, failpoint } = this.#deps
    await disk.syncDirectory(this.#host.folder)
    for (const path of paths) {
      const file = await disk.open(path, 'write')
      try {
        await file.truncate(0)
      } finally {
        await file.close()
      }
    }
    this.#emptied.push(...paths)
    failpoint('segment.remove.emptied')
  }

  /** What a failure leaves undone is logged, and done again by recovery. */
  #background(event: string, work: () => Promise<void>): void {
    this.#host.serial.run(work).catch((error: unknown) => {
      if (!this.#host.isOnline()) return
      this.#deps.log.warn(event, `background work on ${this.#host.folder} failed`, { error })
    })
  }
}
