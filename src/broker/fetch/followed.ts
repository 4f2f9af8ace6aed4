import type { Clock } from '../../core/clock.ts'
import type { IsolationLevel } from '../../core/types.ts'
import type { Log, LogEvent } from '../../storage/types.ts'
import type { FetchPartition, FollowedPartitions } from '../ports.ts'
import type { Partitions } from '../topics/partitions.ts'
import type { PartitionRead } from './read-partition.ts'

/** Everything is looked at so often, whatever the logs say: an epoch that was raised has no event, nor has an error that has passed. */
const WHOLE_LOOK_MS = 1000

/** The log of a partition, as it was when the partition was read last. */
interface Watched {
  readonly log: Log
  readonly stop: () => void
  sizeBytes: number
  /** It had records that nobody may see yet, so that what it shows next was written before. */
  isHiding: boolean
}

/**
 * What a session fetches again and again: knows which of its partitions may have something new, so that a request costs nothing for the others.
 * Owns a watcher for each partition that was read.
 */
export class Followed implements FollowedPartitions {
  readonly #partitions: Partitions
  readonly #clock: Clock
  readonly #all = new Map<FetchPartition, Watched | null>()
  /** Changed since they were read, or never read. */
  readonly #news = new Set<FetchPartition>()
  /** Read, and to be read again: what was found was not all, or not taken. What has given records comes last. */
  readonly #ready = new Set<FetchPartition>()
  readonly #stops: readonly (() => void)[]
  #wholeAtMs = Number.NEGATIVE_INFINITY
  #grownBytes = 0
  #missingBytes = 0
  #ring: (() => void) | null = null
  #isClosed = false

  constructor(deps: { partitions: Partitions; clock: Clock }) {
    this.#partitions = deps.partitions
    this.#clock = deps.clock
    this.#stops = [
      deps.partitions.onChanged(() => this.#lookAtAll()),
      deps.partitions.onRemoved((topic) => {
        for (const partition of this.#all.keys()) {
          if (partition.topic !== topic.name) continue
          this.#lookAtAll()
          this.#ring?.()
          return
        }
      }),
    ]
  }

  add(partition: FetchPartition): void {
    if (!this.#all.has(partition)) this.#all.set(partition, null)
    this.#news.add(partition)
  }

  remove(partition: FetchPartition): void {
    this.#all.get(partition)?.stop()
    this.#all.delete(partition)
    this.#news.delete(partition)
    this.#ready.delete(partition)
  }

  get hasNews(): boolean {
    return this.#news.size > 0 || this.#isWholeDue()
  }

  /** What is to be read now, in the order of reading, into `into`; what changes from here on is news. */
  take(isolation: IsolationLevel, into: Set<FetchPartition>): void {
    const isWhole = this.#isWholeDue()
    if (isWhole) this.#wholeAtMs = this.#clock.monotonicMs()
    for (const partition of this.#ready) into.add(partition)
    for (const partition of isWhole ? this.#all.keys() : this.#news) {
      this.#watch(partition, isolation)
      into.add(partition)
    }
    this.#news.clear()
  }

  /** Remembers what has to be read again. */
  note(partition: FetchPartition, found: PartitionRead): void {
    this.#ready.delete(partition)
    if (!this.#all.has(partition)) return
    const hasMore = found.starved || found.error !== null || found.divergingEpoch !== null || (found.read?.sizeBytes ?? 0) > 0
    if (hasMore) this.#ready.add(partition)
  }

  /** Calls `ring` once when reading again may give so many bytes more, or something else has happened. Returns how to stop. */
  await(missingBytes: number, ring: () => void): () => void {
    this.#grownBytes = 0
    this.#missingBytes = missingBytes
    this.#ring = ring
    return () => {
      if (this.#ring === ring) this.#ring = null
    }
  }

  /** Its session ended: nobody tells it of records any more, so whoever waits has what there is. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  close(): void {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    for (const watched of this.#all.values()) watched?.stop()
    this.#all.clear()
    this.#news.clear()
    this.#ready.clear()
    this.#ring?.()
  }

  #isWholeDue(): boolean {
    return this.#clock.monotonicMs() - this.#wholeAtMs >= WHOLE_LOOK_MS
  }

  #lookAtAll(): void {
    this.#wholeAtMs = Number.NEGATIVE_INFINITY
  }

  #watch(partition: FetchPartition, isolation: IsolationLevel): void {
    const log = this.#partitions.topic(partition.topic)?.partitions[partition.partition]?.log
    let watched = this.#all.get(partition) ?? null
    if (watched?.log !== log) {
      watched?.stop()
      watched = log === undefined ? null : this.#begun(partition, log)
      this.#all.set(partition, watched)
    }
    if (watched === null) return
    watched.sizeBytes = watched.log.sizeBytes
    watched.isHiding =
      watched.log.logEndOffset > (isolation === 'read_committed' ? watched.log.lastStableOffset : watched.log.highWatermark)
  }

  #begun(partition: FetchPartition, log: Log): Watched {
    const watched: Watched = { log, stop: log.watch((event) => this.#onEvent(partition, watched, event)), sizeBytes: 0, isHiding: false }
    return watched
  }

  #onEvent(partition: FetchPartition, watched: Watched, event: LogEvent): void {
    this.#news.add(partition)
    const { sizeBytes } = watched.log
    this.#grownBytes += Math.max(0, sizeBytes - watched.sizeBytes)
    watched.sizeBytes = sizeBytes
    if (this.#ring === null) return
    const mayBeEnough = event !== 'advance' || this.#missingBytes <= 1 || watched.isHiding || this.#grownBytes >= this.#missingBytes
    if (mayBeEnough) this.#ring()
  }
}
