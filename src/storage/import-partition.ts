import type { Clock } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import { readSmallFile } from '../io/atomic-file.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { AT, type BatchHeader, codecOf, hasProducer, nextOffset } from '../record/batch.ts'
import type { Codecs } from '../record/compression.ts'
import { recordsSection, validateRecords } from '../record/record.ts'
import type { BufferPool } from './buffer-pool.ts'
import { offsetKey, readOffsets } from './checkpoint.ts'
import { NEVER_COMPACTED, writeCompactionNote } from './compaction/note.ts'
import {
  decodePartitionMetadata,
  PARTITION_METADATA_FILE,
  parsePartitionFolderName,
  parseSegmentFileName,
  segmentBases,
  segmentFileName,
} from './files.ts'
import { ProducerState, readEndTransaction } from './producer-state.ts'
import { walkBatches } from './walk.ts'

/** A partition's folder as Kafka left it. */
export interface SourcePartition extends TopicPartition {
  readonly folder: string
  /** By `partition.metadata`; null in folders of Kafka before 2.8. */
  readonly topicId: Uuid | null
  /** By Kafka's `log-start-offset-checkpoint`, or MoonMQ's own checkpoint; null where neither says. */
  readonly logStart: number | null
  /** Of the log files. */
  readonly sizeBytes: number
}

/** A transaction that had not ended when the log was read. */
export interface OpenTransaction {
  readonly producerId: number
  readonly producerEpoch: number
  readonly firstOffset: number
}

export interface ImportedLog {
  readonly logStart: number
  readonly endOffset: number
  readonly segments: number
  readonly batches: number
  readonly records: number
  readonly bytes: number
  /** −1 in an empty log. */
  readonly lastEpoch: number
  /** Compaction took records: offsets are not dense. */
  readonly hasHoles: boolean
  /** Bytes after the last whole batch, which an unclean stop left and which are not taken over. */
  readonly tornBytes: number
  readonly open: readonly OpenTransaction[]
  /** −1 when no producer has one. */
  readonly maxProducerId: number
}

export interface ImportDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly pool: BufferPool
  readonly codecs: Codecs
}

const WRITE_BYTES = 1024 * 1024
const MAX_TEXT_BYTES = 64 * 1024 * 1024
const LOG_START_CHECKPOINT = 'log-start-offset-checkpoint'

/** The partitions in a folder of Kafka logs, or the one that the folder itself is. Deleted, stray and future ones are left out. */
export async function findSourcePartitions(disk: Disk, folder: string): Promise<SourcePartition[]> {
  const parent = await logFolderOf(disk, folder)
  const own = parent === folder ? null : parsePartitionFolderName(folder.slice(folder.lastIndexOf('/') + 1))
  const starts = await readLogStarts(disk, `${parent}/${LOG_START_CHECKPOINT}`)
  const ownStarts = await readOwnLogStarts(disk, parent)
  const names = own === null ? (await disk.list(folder)).filter((entry) => entry.kind === 'directory').map((entry) => entry.name) : ['']
  const found: SourcePartition[] = []
  for (const name of names) {
    const tp = own ?? parsePartitionFolderName(name)
    const path = own === null ? `${folder}/${name}` : folder
    if (tp === null) continue
    let sizeBytes = 0
    let hasLog = false
    for (const entry of await disk.list(path)) {
      if (parseSegmentFileName(entry.name)?.kind !== 'log') continue
      hasLog = true
      sizeBytes += (await disk.stat(`${path}/${entry.name}`))?.sizeBytes ?? 0
    }
    if (!hasLog) continue
    const bytes = await readSmallFile(disk, `${path}/${PARTITION_METADATA_FILE}`, 1024)
    const topicId = bytes === null ? null : decodePartitionMetadata(bytes)
    const ownStart = topicId === null ? undefined : ownStarts.get(offsetKey(topicId, tp.partition))
    found.push({ ...tp, folder: path, topicId, logStart: starts.get(`${tp.topic}-${tp.partition}`) ?? ownStart ?? null, sizeBytes })
  }
  return found
}

/** The folder of all logs: `folder` itself or, when it is that of one partition, the one around it. It may be called like a partition. */
export async function logFolderOf(disk: Disk, folder: string): Promise<string> {
  const slash = folder.lastIndexOf('/')
  if (parsePartitionFolderName(folder.slice(slash + 1)) === null) return folder
  const hasPartitions = (await disk.list(folder)).some(
    (entry) => entry.kind === 'directory' && parsePartitionFolderName(entry.name) !== null,
  )
  return hasPartitions ? folder : folder.slice(0, slash)
}

/** Where a MoonMQ says that its logs begin. What cannot be read says nothing. */
async function readOwnLogStarts(disk: Disk, folder: string): Promise<Map<string, number>> {
  try {
    const saved = await readOffsets(disk, folder, 'log-starts')
    return new Map((saved?.entries ?? []).map(({ topicId, partition, offset }) => [offsetKey(topicId, partition), offset]))
  } catch (error) {
    if (!isCode(error, 'DATA_DAMAGED')) throw error
    return new Map()
  }
}

/** Kafka's text: version 0, a count, then `topic partition offset` on a line each. What cannot be read says nothing. */
async function readLogStarts(disk: Disk, path: string): Promise<Map<string, number>> {
  const starts = new Map<string, number>()
  const bytes = await readSmallFile(disk, path, MAX_TEXT_BYTES)
  for (const line of (bytes?.toString('latin1') ?? '').split('\n').slice(2)) {
    const match = /^(\S+) (\d{1,10}) (\d{1,16})$/.exec(line)
    if (match !== null) starts.set(`${match[1]}-${match[2]}`, Number(match[3]))
  }
  return starts
}

/**
 * Reads a partition of Kafka to its end, every batch and every record of it, and with a `target` writes its log files there, durably but
 * for their names. Bytes go over as they are; only a leader epoch below the one before it is raised to it. A torn end of the last file
 * is left behind, as Kafka's own recovery does; anything else that is wrong throws DATA_DAMAGED naming file and byte.
 */
export async function importLog(
  deps: ImportDeps,
  source: SourcePartition,
  options: { readonly target: string | null; readonly onBytes: (bytes: number) => void },
): Promise<ImportedLog> {
  const bases = segmentBases((await deps.disk.list(source.folder)).map((entry) => entry.name))
  const run = new LogImport(deps, source, options.onBytes)
  for (const [index, base] of bases.entries()) await run.segment(base, index === bases.length - 1, options.target)
  const imported = run.result(bases)
  if (options.target !== null && imported.hasHoles) await run.noteHoles(options.target)
  return imported
}

class LogImport {
  readonly #deps: ImportDeps
  readonly #source: SourcePartition
  readonly #onBytes: (bytes: number) => void
  readonly #producers: ProducerState
  #expected = -1
  #lastEpoch = -1
  #holesBelow = 0
  #batches = 0
  #records = 0
  #bytes = 0
  #tornBytes = 0
  #maxProducerId = -1

  constructor(deps: ImportDeps, source: SourcePartition, onBytes: (bytes: number) => void) {
    this.#deps = deps
    this.#source = source
    this.#onBytes = onBytes
    // Nobody is forgotten for its age: a transaction may have been open for long.
    this.#producers = new ProducerState(deps, { expirationMs: Number.MAX_SAFE_INTEGER, maxProducers: 10_000_000 })
  }

  result(bases: readonly number[]): ImportedLog {
    const first = bases[0] ?? 0
    const endOffset = Math.max(this.#expected, bases[bases.length - 1] ?? 0)
    const open: OpenTransaction[] = []
    for (const { producerId, producerEpoch, currentTxnFirstOffset } of this.#producers.entries()) {
      if (currentTxnFirstOffset >= 0) open.push({ producerId, producerEpoch, firstOffset: currentTxnFirstOffset })
    }
    return {
      // A start above the end was never true, one below the first file no longer is.
      logStart: Math.min(Math.max(this.#source.logStart ?? first, first), endOffset),
      endOffset,
      segments: bases.length,
      batches: this.#batches,
      records: this.#records,
      bytes: this.#bytes,
      lastEpoch: this.#lastEpoch,
      hasHoles: this.#holesBelow > 0,
      tornBytes: this.#tornBytes,
      open,
      maxProducerId: this.#maxProducerId,
    }
  }

  /** Without it the gaps would be damage. Compaction goes on from the beginning. */
  noteHoles(target: string): Promise<void> {
    return writeCompactionNote(this.#deps.disk, target, { ...NEVER_COMPACTED, holesBelow: this.#holesBelow })
  }

  async segment(base: number, isLast: boolean, target: string | null): Promise<void> {
    const { disk, pool } = this.#deps
    const name = segmentFileName(base, 'log')
    const path = `${this.#source.folder}/${name}`
    if (this.#expected >= 0 && base > this.#expected) this.#holesBelow = base
    if (base < this.#expected) throw damaged(path, `the file before it ends at offset ${this.#expected}`)
    const file = await disk.open(path, 'read')
    const output = target === null ? null : await Output.open(disk, `${target}/${name}`)
    try {
      const request = { from: 0, to: file.sizeBytes, minOffset: base, holesBelow: Number.POSITIVE_INFINITY, ignoresEpochs: true }
      this.#expected = base
      for await (const step of walkBatches(file, pool, request)) {
        if (step.kind === 'damage') {
          await this.#refuseOldFormat(file, path, step.position)
          if (step.hasBatchesBehind || !isLast) throw damaged(path, `byte ${step.position}, offset ${this.#expected}: ${step.reason}`)
          this.#tornBytes = file.sizeBytes - step.position
          break
        }
        await this.#batch(step.header, step.bytes, step.at, path, step.position)
        await output?.add(step.bytes.subarray(step.at, step.at + step.header.sizeBytes))
      }
      await output?.finish()
    } finally {
      await file.close()
      await output?.close()
    }
  }

  async #batch(header: BatchHeader, bytes: Buffer, at: number, path: string, position: number): Promise<void> {
    const { codecs } = this.#deps
    if (header.baseOffset > this.#expected) this.#holesBelow = header.baseOffset
    if (header.recordCount !== header.lastOffsetDelta + 1) this.#holesBelow = nextOffset(header)
    try {
      const codec = codecOf(header)
      await codecs.ready(codec)
      validateRecords(codecs.inflate(codec, recordsSection(bytes, at, header)), header, { dense: false })
      this.#producers.update(header, header.baseOffset, readEndTransaction(bytes, at, header))
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      throw damaged(path, `byte ${position}, offset ${header.baseOffset}: ${error.message}`)
    }
    // Outside the checksum, and read before: the bytes are still those of the source.
    if (header.leaderEpoch < this.#lastEpoch) bytes.writeInt32BE(this.#lastEpoch, at + AT.leaderEpoch)
    this.#lastEpoch = Math.max(this.#lastEpoch, header.leaderEpoch)
    if (hasProducer(header)) this.#maxProducerId = Math.max(this.#maxProducerId, header.producerId)
    this.#expected = nextOffset(header)
    this.#batches++
    this.#records += header.recordCount
    this.#bytes += header.sizeBytes
    this.#onBytes(header.sizeBytes)
  }

  /** The magic of the old formats stands at the same byte. */
  async #refuseOldFormat(file: DiskFile, path: string, position: number): Promise<void> {
    const bytes = Buffer.alloc(AT.magic + 1)
    if ((await file.read(bytes, position)) < bytes.length) return
    const magic = bytes.readInt8(AT.magic)
    if (magic !== 0 && magic !== 1) return
    const size = bytes.readInt32BE(AT.batchLength)
    if (size < 14 || size > file.sizeBytes - position - 12) return
    const reason = `byte ${position}: messages of format v${magic}, which Kafka before 0.11 wrote; only format v2 can be taken over. Let a Kafka of version 3 rewrite them, for example with MirrorMaker into a new topic`
    throw damaged(path, reason)
  }
}

function damaged(path: string, reason: string): MoonMQError {
  return new MoonMQError('DATA_DAMAGED', { path, reason })
}

/** A log file that is written from its beginning, in large pieces. */
class Output {
  readonly #file: DiskFile
  readonly #buffer = Buffer.allocUnsafe(WRITE_BYTES)
  #filled = 0
  #position = 0

  private constructor(file: DiskFile) {
    this.#file = file
  }

  static async open(disk: Disk, path: string): Promise<Output> {
    return new Output(await disk.open(path, 'create'))
  }

  async add(bytes: Buffer): Promise<void> {
    if (this.#filled + bytes.length > WRITE_BYTES) await this.#flush()
    if (bytes.length > WRITE_BYTES) {
      await this.#file.write([bytes], this.#position)
      this.#position += bytes.length
      return
    }
    bytes.copy(this.#buffer, this.#filled)
    this.#filled += bytes.length
  }

  async finish(): Promise<void> {
    await this.#flush()
    await this.#file.datasync()
  }

  close(): Promise<void> {
    return this.#file.close()
  }

  async #flush(): Promise<void> {
    if (this.#filled === 0) return
    await this.#file.write([this.#buffer.subarray(0, this.#filled)], this.#position)
    this.#position += this.#filled
    this.#filled = 0
  }
}
