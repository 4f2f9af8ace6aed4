import { crc32c } from '../core/crc32c.ts'
import { MoonMQError } from '../core/errors.ts'
import { readInt64, writeInt64 } from '../core/int64.ts'
import { ByteReader } from '../core/reader.ts'
import type { TopicPartition } from '../core/types.ts'
import { type Uuid, uuidFromBytes, writeUuid, ZERO_UUID } from '../core/uuid.ts'
import type { EpochStart } from './epoch-cache.ts'

/**
 * The journal's bytes. The file begins and ends with a block that names it; between them lie two areas, each a row of frames that begin
 * at a block. A frame is written and synced as a whole before the next one begins, so only the newest can be torn. Its number rises over
 * both areas, and it says which frame is the oldest that still matters: what an earlier turn of an area left behind is older.
 */
export const JOURNAL_FILE = 'moonmq-journal'
export const JOURNAL_BLOCK_BYTES = 4096
/** "MJH" and the version. The first one did not say which data folder it belongs to. */
const HEAD_MAGIC = 0x4d4a_4832
const FIRST_HEAD_MAGIC = 0x4d4a_4831
const FRAME_MAGIC = 0x4d4a_4631
/** magic, journal id, size of an area, id of the data folder. */
const HEAD_BYTES = 4 + 16 + 4 + 16
const FIRST_HEAD_BYTES = 4 + 16 + 4
/** magic, CRC, journal id, sequence, oldest live sequence, entries, bytes. */
export const FRAME_HEAD_BYTES = 4 + 4 + 16 + 8 + 8 + 4 + 4
const ENTRY_HEAD_BYTES = 1 + 16 + 4 + 2
const RECORDS_BYTES = 5 * 8 + 4
const EPOCH_BYTES = 12
const KIND = { records: 1, epochs: 2, forget: 3 } as const
const MAX_NAME_BYTES = 1024

/** Which partition an entry is of. The id keeps a topic apart from one of the same name that was deleted. */
export interface JournalOwner extends TopicPartition {
  readonly topicId: Uuid
}

/** Bytes of one segment's file. They lie behind what was durable at `syncedOffset` or behind an earlier entry. */
export interface RecordsEntry {
  readonly kind: 'records'
  readonly owner: JournalOwner
  readonly segmentBase: number
  readonly position: number
  readonly startOffset: number
  readonly endOffset: number
  /** Everything of the log below it was durable when the entry was made. */
  readonly syncedOffset: number
  readonly parts: readonly Buffer[]
  readonly sizeBytes: number
}

/** What the leader epoch checkpoint of a partition will say. */
export interface EpochsEntry {
  readonly kind: 'epochs'
  readonly owner: JournalOwner
  readonly epochs: readonly EpochStart[]
}

/** Whatever earlier frames say of the partition is over: its files alone count. */
export interface ForgetEntry {
  readonly kind: 'forget'
  readonly owner: JournalOwner
}

export type JournalEntry = RecordsEntry | EpochsEntry | ForgetEntry

export interface JournalFrame {
  readonly sequence: number
  readonly oldestLive: number
  readonly entries: readonly JournalEntry[]
  /** Bytes in the file, the padding included. */
  readonly sizeBytes: number
}

/** The bytes with which every entry of a partition begins, but for the kind: a log has one owner object for as long as it is open. */
const heads = new WeakMap<JournalOwner, Buffer>()

function headOf(owner: JournalOwner): Buffer {
  const known = heads.get(owner)
  if (known !== undefined) return known
  const { topic, partition, topicId } = owner
  const head = Buffer.alloc(ENTRY_HEAD_BYTES + Buffer.byteLength(topic))
  writeUuid(head, topicId, 1)
  head.writeInt32BE(partition, 17)
  head.writeUInt16BE(head.write(topic, ENTRY_HEAD_BYTES), 21)
  heads.set(owner, head)
  return head
}

/** What an entry takes in a frame. */
export function entryBytes(entry: JournalEntry): number {
  const head = headOf(entry.owner).length
  if (entry.kind === 'records') return head + RECORDS_BYTES + entry.sizeBytes
  return entry.kind === 'epochs' ? head + 4 + EPOCH_BYTES * entry.epochs.length : head
}

export function wholeBlocks(bytes: number): number {
  return Math.ceil(bytes / JOURNAL_BLOCK_BYTES) * JOURNAL_BLOCK_BYTES
}

/** What the first and the last block of the file say. */
export interface JournalHead {
  /** No record can know it. */
  readonly id: Uuid
  readonly areaBytes: number
  /** Of `meta.properties`; the zero id where the folder had none, and in the first version. */
  readonly directoryId: Uuid
}

export function journalBytes(areaBytes: number): number {
  return 2 * JOURNAL_BLOCK_BYTES + 2 * areaBytes
}

export function encodeHead({ id, areaBytes, directoryId }: JournalHead): Buffer {
  const block = Buffer.alloc(JOURNAL_BLOCK_BYTES)
  block.writeUInt32BE(HEAD_MAGIC, 0)
  writeUuid(block, id, 4)
  block.writeUInt32BE(areaBytes, 20)
  writeUuid(block, directoryId, 24)
  block.writeUInt32BE(crc32c(block, 0, HEAD_BYTES), HEAD_BYTES)
  return block
}

/** Null when this is no head. */
export function decodeHead(block: Buffer): JournalHead | null {
  if (block.length < HEAD_BYTES + 4) return null
  const magic = block.readUInt32BE(0)
  const size = magic === FIRST_HEAD_MAGIC ? FIRST_HEAD_BYTES : HEAD_BYTES
  if (magic !== HEAD_MAGIC && magic !== FIRST_HEAD_MAGIC) return null
  if (block.readUInt32BE(size) !== crc32c(block, 0, size)) return null
  const directoryId = magic === FIRST_HEAD_MAGIC ? ZERO_UUID : uuidFromBytes(block, 24)
  return { id: uuidFromBytes(block, 4), areaBytes: block.readUInt32BE(20), directoryId }
}

/** What a head of a version that is not known calls itself, or null. */
export function unknownHead(block: Buffer): string | null {
  const text = block.toString('latin1', 0, 4)
  const known = block.length >= 4 ? block.readUInt32BE(0) : 0
  return /^MJH\w$/.test(text) && known !== HEAD_MAGIC && known !== FIRST_HEAD_MAGIC ? text : null
}

/** Whether a frame of some journal begins here, whole or not. */
export function looksLikeFrame(bytes: Buffer, at: number): boolean {
  return at + FRAME_HEAD_BYTES <= bytes.length && bytes.readUInt32BE(at) === FRAME_MAGIC
}

/** `memory` gives what the frame is made in; by default it is the frame's own. */
export function encodeFrame(
  id: Uuid,
  frame: { sequence: number; oldestLive: number; entries: readonly JournalEntry[] },
  memory: (bytes: number) => Buffer = Buffer.allocUnsafe,
): Buffer {
  let size = FRAME_HEAD_BYTES
  for (const entry of frame.entries) size += entryBytes(entry)
  const bytes = memory(wholeBlocks(size))
  bytes.writeUInt32BE(FRAME_MAGIC, 0)
  writeUuid(bytes, id, 8)
  writeInt64(bytes, frame.sequence, 24)
  writeInt64(bytes, frame.oldestLive, 32)
  bytes.writeUInt32BE(frame.entries.length, 40)
  bytes.writeUInt32BE(size, 44)
  let at = FRAME_HEAD_BYTES
  for (const entry of frame.entries) at = writeEntry(bytes, entry, at)
  bytes.fill(0, size)
  bytes.writeUInt32BE(crc32c(bytes, 8, size), 4)
  return bytes
}

function writeEntry(bytes: Buffer, entry: JournalEntry, start: number): number {
  let at = start + headOf(entry.owner).copy(bytes, start)
  bytes[start] = KIND[entry.kind]
  if (entry.kind === 'records') {
    for (const value of [entry.segmentBase, entry.position, entry.startOffset, entry.endOffset, entry.syncedOffset]) {
      writeInt64(bytes, value, at)
      at += 8
    }
    bytes.writeUInt32BE(entry.sizeBytes, at)
    at += 4
    for (const part of entry.parts) at += part.copy(bytes, at)
  } else if (entry.kind === 'epochs') {
    bytes.writeUInt32BE(entry.epochs.length, at)
    at += 4
    for (const { leaderEpoch, startOffset } of entry.epochs) {
      bytes.writeInt32BE(leaderEpoch, at)
      writeInt64(bytes, startOffset, at + 4)
      at += EPOCH_BYTES
    }
  }
  return at
}

/** The frame of this journal that begins at `at`, or null when none does. Throws DATA_DAMAGED when its checksum fits nonsense. */
export function decodeFrame(bytes: Buffer, at: number, id: Uuid): JournalFrame | null {
  if (at + FRAME_HEAD_BYTES > bytes.length || bytes.readUInt32BE(at) !== FRAME_MAGIC) return null
  const size = bytes.readUInt32BE(at + 44)
  if (size < FRAME_HEAD_BYTES || at + size > bytes.length || uuidFromBytes(bytes, at + 8) !== id) return null
  if (bytes.readUInt32BE(at + 4) !== crc32c(bytes, at + 8, at + size)) return null
  const reader = new ByteReader(bytes, at + FRAME_HEAD_BYTES, at + size)
  const entries: JournalEntry[] = []
  try {
    for (let left = bytes.readUInt32BE(at + 40); left > 0; left--) entries.push(readEntry(reader))
  } catch (error) {
    throw new MoonMQError('DATA_DAMAGED', { path: JOURNAL_FILE, reason: `byte ${at}: the frame has a checksum and no sense` }, error)
  }
  return { sequence: readInt64(bytes, at + 24), oldestLive: readInt64(bytes, at + 32), entries, sizeBytes: wholeBlocks(size) }
}

function readEntry(reader: ByteReader): JournalEntry {
  const kind = reader.uint8()
  const topicId = reader.uuid()
  const partition = reader.int32()
  const nameBytes = reader.uint16()
  if (nameBytes > MAX_NAME_BYTES) throw new MoonMQError('BAD_FRAME', { reason: `a name of ${nameBytes} bytes` })
  const owner = { topic: reader.utf8(nameBytes), partition, topicId }
  if (kind === KIND.forget) return { kind: 'forget', owner }
  if (kind === KIND.epochs) {
    const epochs: EpochStart[] = []
    for (let left = reader.uint32(); left > 0; left--) epochs.push({ leaderEpoch: reader.int32(), startOffset: reader.int64() })
    return { kind: 'epochs', owner, epochs }
  }
  if (kind !== KIND.records) throw new MoonMQError('BAD_FRAME', { reason: `an entry of kind ${kind}` })
  const at = { segmentBase: reader.int64(), position: reader.int64(), startOffset: reader.int64(), endOffset: reader.int64() }
  const syncedOffset = reader.int64()
  const sizeBytes = reader.uint32()
  return { kind: 'records', owner, ...at, syncedOffset, parts: [reader.view(sizeBytes)], sizeBytes }
}
