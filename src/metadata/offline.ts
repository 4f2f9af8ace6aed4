import { isDeepStrictEqual } from 'node:util'
import { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { nextOffset } from '../record/batch.ts'
import { BufferPool } from '../storage/buffer-pool.ts'
import { parseSegmentFileName, segmentFileName } from '../storage/files.ts'
import { scanBatches } from '../storage/scan.ts'
import { clusterIdIn, foldBatch } from './batches.ts'
import { emptyImage, ImageBuilder, plainImage } from './image.ts'
import { listSnapshots, readSnapshot, type SnapshotId, snapshotName } from './snapshot.ts'
import type { MetadataImage } from './types.ts'

/** Something wrong in the metadata's folder. `file` is its name in it. */
export interface MetadataFinding {
  readonly file: string
  readonly reason: string
}

export interface OfflineMetadata {
  /** As far as the log could be folded; null when none of it could. */
  readonly image: MetadataImage | null
  readonly findings: readonly MetadataFinding[]
}

/**
 * Reads the metadata of a data folder without a broker, changing nothing: folds the whole log and compares each snapshot with the
 * fold at its offset. Where batches are damaged the fold ends; where they are is for the check of the log itself to say.
 */
export async function readMetadataOffline(
  disk: Disk,
  options: { readonly directory: string; readonly clusterId: Uuid },
): Promise<OfflineMetadata> {
  const { directory, clusterId } = options
  const findings: MetadataFinding[] = []
  const snapshots = await readSnapshots(disk, directory, clusterId, findings)
  const bases: number[] = []
  for (const entry of await disk.list(directory)) {
    const name = parseSegmentFileName(entry.name)
    if (name?.kind === 'log') bases.push(name.baseOffset)
  }
  const start = bases[0] ?? 0
  const base = start === 0 ? emptyImage(clusterId) : snapshots.find((each) => each.id.endOffset >= start)?.image
  if (base === undefined) {
    findings.push({
      file: segmentFileName(start, 'log'),
      reason: `the log starts at offset ${start}, and no whole snapshot reaches so far`,
    })
    return { image: null, findings }
  }
  const fold = new OfflineFold(base, snapshots, findings)
  let isWhole = true
  for (const baseOffset of bases) {
    const file = await disk.open(`${directory}/${segmentFileName(baseOffset, 'log')}`, 'read')
    try {
      isWhole = await fold.addSegment(file, segmentFileName(baseOffset, 'log'), baseOffset)
    } finally {
      await file.close()
    }
    if (!isWhole) break
  }
  return { image: fold.end(isWhole), findings }
}

interface ReadSnapshot {
  readonly id: SnapshotId
  readonly image: MetadataImage
}

async function readSnapshots(disk: Disk, directory: string, clusterId: Uuid, findings: MetadataFinding[]): Promise<ReadSnapshot[]> {
  const read: ReadSnapshot[] = []
  for (const id of await listSnapshots(disk, directory)) {
    try {
      read.push({ id, image: await readSnapshot(disk, directory, id, clusterId) })
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      findings.push({ file: snapshotName(id), reason: String(error.details.reason ?? error.message) })
    }
  }
  return read
}

class OfflineFold {
  /** By end offset; those that the fold has not reached. */
  readonly #snapshots: Map<number, ReadSnapshot>
  readonly #findings: MetadataFinding[]
  readonly #pool = new BufferPool({ maxKeptBytes: 0 })
  #image: MetadataImage
  #builder: ImageBuilder
  #nextOffset: number

  constructor(base: MetadataImage, snapshots: readonly ReadSnapshot[], findings: MetadataFinding[]) {
    this.#image = base
    this.#builder = new ImageBuilder(base)
    this.#nextOffset = base.nextOffset
    this.#snapshots = new Map(snapshots.filter((each) => each.id.endOffset > base.nextOffset).map((each) => [each.id.endOffset, each]))
    this.#findings = findings
  }

  /** False when nothing behind this segment can be folded. */
  async addSegment(file: DiskFile, name: string, baseOffset: number): Promise<boolean> {
    const fromOffset = this.#nextOffset
    let fault: MoonMQError | null = null
    const rules = { expectedOffset: baseOffset, holesBelow: 0, epochFor: null, minEpoch: -1, maxEpoch: null }
    const scan = await scanBatches(file, this.#pool, { from: 0, to: file.sizeBytes, rules }, (header, _position, bytes, at) => {
      if (fault !== null || nextOffset(header) <= fromOffset) return
      try {
        foldBatch(this.#builder, bytes, at, header, { file: name, fromOffset })
        this.#nextOffset = nextOffset(header)
        this.#compareSnapshot()
      } catch (error) {
        if (!(error instanceof MoonMQError)) throw error
        fault = error
      }
    })
    if (fault !== null) this.#findings.push({ file: name, reason: String((fault as MoonMQError).details.reason) })
    return scan.fault === null && fault === null
  }

  /** `isWhole`: the fold reached the end of the log, so a snapshot that it did not meet has no place in it. */
  end(isWhole: boolean): MetadataImage {
    for (const { id } of isWhole ? this.#snapshots.values() : []) {
      const reason =
        id.endOffset > this.#nextOffset ? `the log ends at offset ${this.#nextOffset}` : `no batch ends before offset ${id.endOffset}`
      this.#findings.push({ file: snapshotName(id), reason })
    }
    return this.#builder.build(this.#nextOffset)
  }

  #compareSnapshot(): void {
    const snapshot = this.#snapshots.get(this.#nextOffset)
    if (snapshot === undefined) return
    this.#snapshots.delete(this.#nextOffset)
    this.#image = this.#builder.build(this.#nextOffset)
    this.#builder = new ImageBuilder(this.#image)
    if (isDeepStrictEqual(plainImage(this.#image), plainImage(snapshot.image))) return
    this.#findings.push({ file: snapshotName(snapshot.id), reason: 'the state that it holds is not the one that the log leads to' })
  }
}

/** The id of the cluster by its metadata log, where the folder has lost it; null when the log does not say either. */
export async function readClusterId(disk: Disk, directory: string): Promise<Uuid | null> {
  let found: Uuid | null = null
  const pool = new BufferPool({ maxKeptBytes: 0 })
  if ((await disk.stat(directory)) === null) return null
  for (const entry of await disk.list(directory)) {
    if (parseSegmentFileName(entry.name)?.kind !== 'log' && !entry.name.endsWith('.checkpoint')) continue
    const file = await disk.open(`${directory}/${entry.name}`, 'read')
    try {
      const rules = { expectedOffset: 0, holesBelow: Number.POSITIVE_INFINITY, epochFor: null, minEpoch: -1, maxEpoch: null }
      await scanBatches(file, pool, { from: 0, to: file.sizeBytes, rules }, (header, _position, bytes, at) => {
        found ??= clusterIdIn(bytes, at, header)
      })
    } finally {
      await file.close()
    }
    if (found !== null) return found
  }
  return null
}
