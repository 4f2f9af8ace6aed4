import { MoonMQError } from '../core/errors.ts'
import type { Disk } from '../io/disk.ts'
import { type BatchHeader, codecOf, isControl, isTransactional } from '../record/batch.ts'
import type { Codecs } from '../record/compression.ts'
import { readControlKind } from '../record/control.ts'
import { readRecords, recordsSection } from '../record/record.ts'
import { decodeCoordinatorRecord } from '../schema/records.ts'
import type { BufferPool } from '../storage/buffer-pool.ts'
import { parseSegmentFileName } from '../storage/files.ts'
import type { SourcePartition } from '../storage/import-partition.ts'
import { walkBatches } from '../storage/walk.ts'

/** An offset that a group had committed. */
export interface GroupOffset {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string
}

interface Commit {
  readonly group: string
  readonly topic: string
  readonly partition: number
  /** Null: it was taken away. */
  readonly value: GroupOffset | null
}

interface ReadDeps {
  readonly disk: Disk
  readonly pool: BufferPool
  readonly codecs: Codecs
}

/** Calls back with every data batch and marker of a log, in order, as far as it can be read. Damage ends it: what was read stands. */
async function readLog(
  deps: ReadDeps,
  source: SourcePartition,
  onBatch: (header: BatchHeader, section: Buffer) => void,
): Promise<string | null> {
  for (const entry of await deps.disk.list(source.folder)) {
    const name = parseSegmentFileName(entry.name)
    if (name?.kind !== 'log') continue
    const file = await deps.disk.open(`${source.folder}/${entry.name}`, 'read')
    try {
      const request = { from: 0, to: file.sizeBytes, minOffset: name.baseOffset, holesBelow: Number.POSITIVE_INFINITY, ignoresEpochs: true }
      for await (const step of walkBatches(file, deps.pool, request)) {
        if (step.kind === 'damage') {
          if (step.hasBatchesBehind) return `${file.path} is damaged at byte ${step.position}: ${step.reason}`
          continue
        }
        const codec = codecOf(step.header)
        await deps.codecs.ready(codec)
        onBatch(step.header, deps.codecs.inflate(codec, recordsSection(step.bytes, step.at, step.header)))
      }
    } finally {
      await file.close()
    }
  }
  return null
}

/**
 * The fold of `__consumer_offsets`: offsets by group. Those committed in a transaction count from its commit on; those of topics that
 * are not asked for are left out. What could not be read is told in `faults`.
 */
export async function readGroupOffsets(
  deps: ReadDeps,
  sources: readonly SourcePartition[],
  wants: (topic: string) => boolean,
): Promise<{ readonly groups: ReadonlyMap<string, readonly GroupOffset[]>; readonly faults: readonly string[] }> {
  const fold = new OffsetsFold(wants)
  const faults: string[] = []
  for (const source of sources) {
    const fault = await readLog(deps, source, (header, section) => fold.batch(header, section))
    if (fault !== null) faults.push(fault)
  }
  return { groups: fold.groups(), faults }
}

class OffsetsFold {
  readonly #wants: (topic: string) => boolean
  readonly #offsets = new Map<string, Map<string, GroupOffset>>()
  /** By producer: committed in a transaction that has not ended. */
  readonly #pending = new Map<number, Commit[]>()

  constructor(wants: (topic: string) => boolean) {
    this.#wants = wants
  }

  batch(header: BatchHeader, section: Buffer): void {
    for (const { key, value } of readRecords(section, header)) {
      if (isControl(header)) this.#end(header.producerId, readControlKind(key) === 'commit')
      else {
        const commit = this.#decode(key, value)
        if (commit === null) continue
        if (isTransactional(header)) this.#pendingOf(header.producerId).push(commit)
        else this.#apply(commit)
      }
    }
  }

  groups(): Map<string, GroupOffset[]> {
    const groups = new Map<string, GroupOffset[]>()
    for (const [group, offsets] of this.#offsets) if (offsets.size > 0) groups.set(group, [...offsets.values()])
    return groups
  }

  #pendingOf(producerId: number): Commit[] {
    const pending = this.#pending.get(producerId) ?? []
    this.#pending.set(producerId, pending)
    return pending
  }

  #end(producerId: number, isCommit: boolean): void {
    for (const commit of isCommit ? (this.#pending.get(producerId) ?? []) : []) this.#apply(commit)
    this.#pending.delete(producerId)
  }

  #decode(key: Buffer | null, value: Buffer | null): Commit | null {
    try {
      const record = decodeCoordinatorRecord('group-coordinator', key, value)
      if (record?.name !== 'OffsetCommitKey' && record?.name !== 'LegacyOffsetCommitKey') return null
      const { group, topic, partition } = record.key
      if (!this.#wants(topic)) return null
      const stored = record.name === 'OffsetCommitKey' ? record.value : null
      const kept =
        stored === null ? null : { topic, partition, offset: stored.offset, leaderEpoch: stored.leaderEpoch, metadata: stored.metadata }
      return { group, topic, partition, value: kept }
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      return null
    }
  }

  #apply({ group, topic, partition, value }: Commit): void {
    const offsets = this.#offsets.get(group) ?? new Map<string, GroupOffset>()
    this.#offsets.set(group, offsets)
    if (value === null) offsets.delete(`${topic}-${partition}`)
    else offsets.set(`${topic}-${partition}`, value)
  }
}

/** Kafka's state in which the decision to commit is stored and not every marker is written. */
const PREPARE_COMMIT = 2

/** Producers whose transaction is decided: its missing markers say commit. All other open ones are aborted. */
export async function readDecidedCommits(deps: ReadDeps, sources: readonly SourcePartition[]): Promise<Set<number>> {
  const byName = new Map<string, { producerId: number; status: number }>()
  for (const source of sources) {
    await readLog(deps, source, (header, section) => {
      if (isControl(header)) return
      for (const { key, value } of readRecords(section, header)) {
        try {
          const record = decodeCoordinatorRecord('transaction-coordinator', key, value)
          if (record?.name !== 'TransactionLogKey') continue
          const { transactionalId } = record.key
          if (record.value === null) byName.delete(transactionalId)
          else byName.set(transactionalId, { producerId: record.value.producerId, status: record.value.transactionStatus })
        } catch (error) {
          if (!(error instanceof MoonMQError)) throw error
        }
      }
    })
  }
  return new Set([...byName.values()].filter((each) => each.status === PREPARE_COMMIT).map((each) => each.producerId))
}
