import { crc32c } from '../core/crc32c.ts'
import { MoonMQError } from '../core/errors.ts'
import { ByteReader } from '../core/reader.ts'
import type { Uuid } from '../core/uuid.ts'
import { ByteWriter } from '../core/writer.ts'
import { directoryOf, readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import type { TxnSeal } from './txn-seals.ts'

/**
 * The small files of a data folder that are ours alone, all but one of them in its root: magic "MOON", uint8 kind, uint8 version, body, uint32 CRC-32C of all before
 * it. Replaced as a whole, so a crash leaves the old or the new one. What they say may be behind the logs, never ahead of them.
 */
const MAGIC = 0x4d4f4f4e
const FRAME_BYTES = 10
const MAX_BYTES = 64 * 1024 * 1024

const KIND = {
  'recovery-points': 1,
  'log-starts': 2,
  'clean-shutdown': 3,
  'retention-clock': 4,
  'clean-logs': 6,
  'journal-note': 7,
  compaction: 16,
} as const
type Kind = keyof typeof KIND
/** The first version of the recovery points said nothing of transaction indexes, that of the note nothing of logs that were cut. */
const versionOf = (kind: Kind) => (kind === 'recovery-points' || kind === 'journal-note' ? 2 : 1)

/** Names in the data folder. Not Kafka's names, since the bytes are not Kafka's. */
export const ROOT_FILES = {
  'recovery-points': 'moonmq-recovery-points',
  'log-starts': 'moonmq-log-starts',
  'clean-shutdown': 'moonmq-clean-shutdown',
  'retention-clock': 'moonmq-retention-clock',
  'clean-logs': 'moonmq-clean-logs',
  'journal-note': 'moonmq-journal-note',
} as const satisfies Partial<Record<Kind, string>>

export function seal(kind: Kind, body: Buffer): Buffer {
  const bytes = Buffer.alloc(body.length + FRAME_BYTES)
  bytes.writeUInt32BE(MAGIC, 0)
  bytes[4] = KIND[kind]
  bytes[5] = versionOf(kind)
  body.copy(bytes, 6)
  bytes.writeUInt32BE(crc32c(bytes, 0, bytes.length - 4), bytes.length - 4)
  return bytes
}

/** Throws DATA_DAMAGED. The reader has the body. `oldest` is the first version that the caller can read. */
export function unseal(kind: Kind, bytes: Buffer, path: string, oldest = versionOf(kind)): ByteReader {
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason })
  if (bytes.length < FRAME_BYTES) throw bad(`it has ${bytes.length} bytes, at least ${FRAME_BYTES} are needed`)
  if (bytes.readUInt32BE(0) !== MAGIC) throw bad('it does not begin with the magic of a MoonMQ root file')
  if (bytes.readUInt32BE(bytes.length - 4) !== crc32c(bytes, 0, bytes.length - 4)) throw bad('the checksum does not fit')
  if (bytes[4] !== KIND[kind]) throw bad(`it is of kind ${bytes[4]}, not ${KIND[kind]} (${kind})`)
  const version = bytes[5] as number
  if (version < oldest || version > versionOf(kind)) throw bad(`version ${version} is not known`)
  return new ByteReader(bytes, 6, bytes.length - 4)
}

/** An offset of one partition: of its recovery point (all below is synced) or of its log start. */
export interface PartitionOffset {
  readonly topicId: Uuid
  readonly partition: number
  readonly offset: number
  /**
   * With a recovery point: what the transaction indexes below it hold, by segment, where they hold anything. Where there are two of one
   * segment, as while compaction replaces it, either may be there. Absent: nobody knows, so each must be built from the log.
   */
  readonly txnSeals?: readonly TxnSeal[]
}

const ENTRY_BYTES = 28
const SEAL_BYTES = 16

/** Behind the offsets of recovery points: how many partitions have seals, then number of the entry, count (−1: unknown) and seals of each. */
export function encodeOffsets(kind: 'recovery-points' | 'log-starts', entries: readonly PartitionOffset[]): Buffer {
  const writer = new ByteWriter(8 + entries.length * ENTRY_BYTES)
  writer.int32(entries.length)
  for (const entry of entries) {
    writer.uuid(entry.topicId)
    writer.int32(entry.partition)
    writer.int64(entry.offset)
  }
  if (kind === 'recovery-points') encodeSeals(writer, entries)
  return seal(kind, writer.toBuffer())
}

function encodeSeals(writer: ByteWriter, entries: readonly PartitionOffset[]): void {
  let count = 0
  for (const { txnSeals } of entries) if (txnSeals?.length !== 0) count++
  writer.int32(count)
  for (const [number, { txnSeals }] of entries.entries()) {
    if (txnSeals?.length === 0) continue
    writer.int32(number)
    writer.int32(txnSeals?.length ?? -1)
    for (const { baseOffset, entries: size, checksum } of txnSeals ?? []) {
      writer.int64(baseOffset)
      writer.int32(size)
      writer.uint32(checksum)
    }
  }
}

/** Throws DATA_DAMAGED. */
export function decodeOffsets(kind: 'recovery-points' | 'log-starts', bytes: Buffer, path: string): PartitionOffset[] {
  const reader = unseal(kind, bytes, path, 1)
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason })
  if (reader.remaining < 4) throw bad('the count is missing')
  const count = reader.int32()
  const hasSeals = kind === 'recovery-points' && (bytes[5] as number) > 1
  const isFilled = hasSeals ? count * ENTRY_BYTES + 4 <= reader.remaining : count * ENTRY_BYTES === reader.remaining
  if (count < 0 || !isFilled) throw bad(`${count} entries do not fill ${reader.remaining} bytes`)
  const entries: PartitionOffset[] = []
  for (let index = 0; index < count; index++) {
    const entry = { topicId: reader.uuid(), partition: reader.int32(), offset: reader.int64() }
    if (entry.partition < 0 || entry.offset < 0 || !Number.isSafeInteger(entry.offset)) {
      throw bad(`entry ${index}: partition ${entry.partition} with offset ${entry.offset} is impossible`)
    }
    entries.push(entry)
  }
  return hasSeals ? withSeals(entries, reader, bad) : entries
}

function withSeals(entries: readonly PartitionOffset[], reader: ByteReader, bad: (reason: string) => MoonMQError): PartitionOffset[] {
  const sealed: PartitionOffset[] = entries.map((entry) => ({ ...entry, txnSeals: NO_SEALS }))
  for (let left = reader.int32(); left > 0; left--) {
    if (reader.remaining < 8) throw bad('seals of transaction indexes are missing')
    const [number, count] = [reader.int32(), reader.int32()]
    const entry = entries[number]
    if (entry === undefined || count < -1 || count * SEAL_BYTES > reader.remaining) throw bad(`entry ${number} cannot have ${count} seals`)
    const txnSeals: TxnSeal[] = []
    for (let index = 0; index < count; index++) {
      txnSeals.push({ baseOffset: reader.int64(), entries: reader.int32(), checksum: reader.uint32() })
    }
    sealed[number] = count < 0 ? entry : { ...entry, txnSeals }
  }
  if (reader.remaining > 0) throw bad(`${reader.remaining} bytes behind the last seal`)
  return sealed
}

const NO_SEALS: readonly TxnSeal[] = []

/** Replaces a checkpoint; durable when it resolves. Returns its checksum, which the clean-shutdown marker repeats. */
export async function writeOffsets(
  disk: Disk,
  folder: string,
  kind: 'recovery-points' | 'log-starts',
  entries: readonly PartitionOffset[],
): Promise<number> {
  const bytes = encodeOffsets(kind, entries)
  await writeFileAtomically(disk, `${folder}/${ROOT_FILES[kind]}`, [bytes])
  return bytes.readUInt32BE(bytes.length - 4)
}

/** Null when the file is missing. Throws DATA_DAMAGED. `checksum` is that of the file, to compare with the marker's. */
export async function readOffsets(
  disk: Disk,
  folder: string,
  kind: 'recovery-points' | 'log-starts',
): Promise<{ readonly entries: PartitionOffset[]; readonly checksum: number } | null> {
  const path = `${folder}/${ROOT_FILES[kind]}`
  const bytes = await readSmallFile(disk, path, MAX_BYTES)
  if (bytes === null) return null
  return { entries: decodeOffsets(kind, bytes, path), checksum: bytes.readUInt32BE(bytes.length - 4) }
}

/**
 * Says that every log was closed in order, and with which recovery points: the marker of another stop, or beside a checkpoint that
 * was replaced, is not believed.
 */
export interface CleanShutdown {
  /** Checksum of the recovery points written at this stop. */
  readonly recoveryPointsChecksum: number
  readonly atMs: number
}

export function encodeCleanShutdown(marker: CleanShutdown): Buffer {
  const writer = new ByteWriter(12)
  writer.uint32(marker.recoveryPointsChecksum)
  writer.int64(marker.atMs)
  return seal('clean-shutdown', writer.toBuffer())
}

/** Throws DATA_DAMAGED. */
export function decodeCleanShutdown(bytes: Buffer, path: string): CleanShutdown {
  const reader = unseal('clean-shutdown', bytes, path)
  if (reader.remaining !== 12) throw new MoonMQError('DATA_DAMAGED', { path, reason: `${reader.remaining} bytes of body, not 12` })
  return { recoveryPointsChecksum: reader.uint32(), atMs: reader.int64() }
}

/** The last step of a clean stop, after every log and checkpoint is durable. */
export function writeCleanShutdown(disk: Disk, folder: string, marker: CleanShutdown): Promise<void> {
  return writeFileAtomically(disk, `${folder}/${ROOT_FILES['clean-shutdown']}`, [encodeCleanShutdown(marker)])
}

/**
 * Reads the marker and takes it away, durably, so that a crash during the start that follows is not taken for a clean stop: must
 * resolve before the first byte of a log is trusted. Null when it is missing or damaged.
 */
export async function takeCleanShutdown(disk: Disk, folder: string): Promise<CleanShutdown | null> {
  const path = `${folder}/${ROOT_FILES['clean-shutdown']}`
  let marker: CleanShutdown | null = null
  try {
    const bytes = await readSmallFile(disk, path, MAX_BYTES)
    if (bytes === null) return null
    marker = decodeCleanShutdown(bytes, path)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
  }
  await disk.removeFile(path)
  await disk.syncDirectory(directoryOf(path))
  return marker
}

/** A topic of the same name that was deleted and made again is another one. */
export function offsetKey(topicId: Uuid, partition: number): string {
  return `${topicId}-${partition}`
}
