import type { Failpoint } from '../core/failpoint.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk } from '../io/disk.ts'
import { offsetKey, type PartitionOffset, writeOffsets } from './checkpoint.ts'
import type { PartitionLog } from './partition-log.ts'
import { isSameSeal, type TxnSeal } from './txn-seals.ts'

/**
 * Recovery points and log starts of a data folder, of logs that are not open too: as known, and as the two checkpoints on disk have
 * them. A checkpoint may be behind its log, never ahead. Callers come one after another.
 */
export class SavedOffsets {
  readonly #disk: Disk
  readonly #failpoint: Failpoint
  readonly #folder: string
  /** By topic id and partition. */
  readonly #points = new Map<string, PartitionOffset>()
  readonly #starts = new Map<string, PartitionOffset>()
  /** Of the recovery points as they are on disk; null while that is not known, or log starts are still to be saved. */
  #checksum: number | null = null
  #savedCount = 0

  constructor(
    deps: { disk: Disk; failpoint: Failpoint },
    folder: string,
    found: { readonly points: readonly PartitionOffset[]; readonly starts: readonly PartitionOffset[] },
  ) {
    this.#disk = deps.disk
    this.#failpoint = deps.failpoint
    this.#folder = folder
    for (const each of found.points) this.#points.set(offsetKey(each.topicId, each.partition), each)
    for (const each of found.starts) this.#starts.set(offsetKey(each.topicId, each.partition), each)
  }

  recoveryPoint(key: string): number | undefined {
    return this.#points.get(key)?.offset
  }

  /** Undefined: nobody knows what the transaction indexes below the recovery point must hold. */
  txnSeals(key: string): readonly TxnSeal[] | undefined {
    const point = this.#points.get(key)
    return point === undefined ? [] : point.txnSeals
  }

  /** How many logs there are of which nobody knows that. */
  get unsealedCount(): number {
    let count = 0
    for (const { offset, txnSeals } of this.#points.values()) if (offset > 0 && txnSeals === undefined) count++
    return count
  }

  logStart(key: string): number | undefined {
    return this.#starts.get(key)?.offset
  }

  forget(key: string): void {
    this.#points.delete(key)
    this.#starts.delete(key)
  }

  forgetTopics(isDeleted: (id: Uuid) => boolean): void {
    for (const offsets of [this.#points, this.#starts]) {
      for (const [key, { topicId }] of offsets) if (isDeleted(topicId)) offsets.delete(key)
    }
  }

  /** Where readers of a log begin that is not open yet; durable when it resolves. */
  async beginAt(start: PartitionOffset): Promise<void> {
    this.#starts.set(offsetKey(start.topicId, start.partition), start)
    await this.#write('log-starts', this.#starts)
  }

  async saveStarts(logs: Iterable<PartitionLog>): Promise<void> {
    for (const { topicId, partition, logStartOffset } of logs) {
      const key = offsetKey(topicId, partition)
      if (this.#starts.get(key)?.offset !== logStartOffset) this.#starts.set(key, { topicId, partition, offset: logStartOffset })
    }
    try {
      await this.#write('log-starts', this.#starts)
    } catch (error) {
      // What is on disk is not known: the next checkpoint writes all of it.
      this.#checksum = null
      throw error
    }
    this.#failpoint('checkpoint.log-starts-written')
  }

  /** Returns the checksum of the recovery points. Writes nothing when nothing moved: an idle broker leaves the disk asleep. */
  async save(logs: Iterable<PartitionLog>): Promise<number> {
    const all = [...logs]
    let hasMoved = this.#checksum === null || this.#savedCount !== this.#points.size
    const note = (offsets: Map<string, PartitionOffset>, key: string, offset: PartitionOffset) => {
      const known = offsets.get(key)
      if (known?.offset === offset.offset && areSameSeals(known.txnSeals, offset.txnSeals)) return
      offsets.set(key, offset)
      hasMoved = true
    }
    for (const log of all) {
      const { topicId, partition } = log
      const key = offsetKey(topicId, partition)
      if (log.state !== 'failed') note(this.#points, key, pointOf(log))
      note(this.#starts, key, { topicId, partition, offset: log.logStartOffset })
    }
    if (!hasMoved && this.#checksum !== null) return this.#checksum
    this.#checksum = null
    await this.#write('log-starts', this.#starts)
    this.#failpoint('checkpoint.log-starts-written')
    this.#savedCount = this.#points.size
    const checksum = await this.#write('recovery-points', this.#points)
    this.#checksum = checksum
    this.#failpoint('checkpoint.written')
    for (const log of all) {
      const saved = this.recoveryPoint(offsetKey(log.topicId, log.partition)) ?? 0
      // A truncation that began meanwhile waits to lower what was saved.
      log.compaction.savedRecoveryPoint = Math.min(saved, log.recoveryPoint)
    }
    return checksum
  }

  /**
   * A log whose folder was removed under the broker had everything below: so the next start does not take it for new. Of its transaction
   * indexes nothing is said.
   */
  async keep(point: PartitionOffset): Promise<void> {
    this.#points.set(offsetKey(point.topicId, point.partition), point)
    const wasSaved = this.#checksum !== null
    this.#checksum = null
    const checksum = await this.#write('recovery-points', this.#points)
    if (wasSaved) this.#checksum = checksum
  }

  /** Before a log is cut: a checkpoint must never be ahead of its log, not even meanwhile. */
  async lower(point: PartitionOffset): Promise<void> {
    const key = offsetKey(point.topicId, point.partition)
    const known = this.#points.get(key)
    if (known === undefined || known.offset <= point.offset) return
    // Segments that end at or below it keep what they have.
    const txnSeals = known.txnSeals?.filter(({ baseOffset }) => baseOffset < point.offset)
    this.#points.set(key, txnSeals === undefined ? point : { ...point, txnSeals })
    const wasSaved = this.#checksum !== null
    this.#checksum = null
    const checksum = await this.#write('recovery-points', this.#points)
    // Log starts that could not be saved before are still to be saved.
    if (wasSaved) this.#checksum = checksum
    this.#failpoint('checkpoint.lowered')
  }

  #write(kind: 'recovery-points' | 'log-starts', offsets: ReadonlyMap<string, PartitionOffset>): Promise<number> {
    return writeOffsets(this.#disk, this.#folder, kind, [...offsets.values()])
  }
}

function pointOf({ topicId, partition, recoveryPoint, txnSeals }: PartitionLog): PartitionOffset {
  const point = { topicId, partition, offset: recoveryPoint }
  return txnSeals === undefined ? point : { ...point, txnSeals }
}

function areSameSeals(one: readonly TxnSeal[] | undefined, other: readonly TxnSeal[] | undefined): boolean {
  if (one === undefined || other === undefined || one.length !== other.length) return one === other
  return one.every((seal, index) => isSameSeal(seal, other[index] as TxnSeal))
}
