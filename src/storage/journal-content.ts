import { isCode, MoonMQError } from '../core/errors.ts'
import { type Uuid, ZERO_UUID } from '../core/uuid.ts'
import { readSmallFile } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { ROOT_FILES } from './checkpoint.ts'
import { directoryIdOf } from './identity.ts'
import {
  decodeFrame,
  decodeHead,
  JOURNAL_BLOCK_BYTES,
  JOURNAL_FILE,
  type JournalFrame,
  type JournalHead,
  journalBytes,
  looksLikeFrame,
  unknownHead,
} from './journal-format.ts'
import { type JournalNote, readJournalNote } from './journal-note.ts'

/** What a data folder has of a journal. */
export interface JournalContent {
  readonly isThere: boolean
  /** In the order in which they were written, from the oldest that matters on. */
  readonly frames: readonly JournalFrame[]
  /** What is wrong with it. */
  readonly reason: string | null
  /** Frames that counted are not there, and nobody knows what they held. */
  readonly isLost: boolean
  /** Another version of MoonMQ wrote it: what it holds only that one can tell, so it must be left as it is. */
  readonly isForeign: boolean
  /** What is wrong with the note that says which journal is in use. */
  readonly noteReason: string | null
  /** What the note says, or would say of the journal that is there. Null when nobody can tell. */
  readonly note: JournalNote | null
}

const MAX_JOURNAL_BYTES = 1024 * 1024 * 1024

/** Null when there is no journal and none is missed. Throws what the disk says. */
export async function readJournal(disk: Disk, folder: string): Promise<JournalContent | null> {
  let note: JournalNote | null = null
  let noteReason: string | null = null
  try {
    note = await readJournalNote(disk, folder)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    noteReason = String(error.details['reason'] ?? error.message)
  }
  const bytes = await readSmallFile(disk, `${folder}/${JOURNAL_FILE}`, MAX_JOURNAL_BYTES)
  if (bytes === null && note === null && noteReason === null) return null
  const isThere = bytes !== null
  const expected = { note, isWanted: note !== null || noteReason !== null, directoryId: await directoryIdOf(disk, folder) }
  return { ...judge(bytes, expected), isThere, noteReason }
}

/** For whoever reads logs without a start. Throws DATA_DAMAGED, saying what helps, when records of theirs may be in the journal alone. */
export async function expectNoJournal(disk: Disk, folder: string): Promise<void> {
  if ((await disk.stat(`${folder}/${ROOT_FILES['clean-shutdown']}`)) !== null) return
  const content = await readJournal(disk, folder)
  const hasEntries = content?.frames.some((frame) => frame.entries.length > 0) ?? false
  if (content === null || !(hasEntries || content.isForeign)) return
  const remedy = `start its broker once and stop it, or run "moonmq log repair ${folder} --yes"`
  const reason = content.isForeign ? (content.reason ?? '') : `it holds records that may not be in the logs yet; ${remedy}`
  throw new MoonMQError('DATA_DAMAGED', { path: `${folder}/${JOURNAL_FILE}`, reason })
}

interface Expected {
  readonly note: JournalNote | null
  /** A journal was in use. */
  readonly isWanted: boolean
  readonly directoryId: Uuid | null
}

type Judged = Pick<JournalContent, 'frames' | 'reason' | 'isLost' | 'isForeign' | 'note'>

function judge(bytes: Buffer | null, expected: Expected): Judged {
  const { note, isWanted, directoryId } = expected
  const useless = (reason: string | null): Judged => ({ frames: [], reason, isLost: isWanted, isForeign: false, note })
  if (bytes === null) return useless(`it is missing, but ${ROOT_FILES['journal-note']} says that it was in use`)
  const blocks = [bytes.subarray(0, JOURNAL_BLOCK_BYTES), lastBlockOf(bytes)] as const
  // The last block takes the place of a first one that is damaged.
  const head = decodeHead(blocks[0]) ?? decodeHead(blocks[1])
  if (head === null) {
    const version = unknownHead(blocks[0]) ?? unknownHead(blocks[1])
    if (version !== null) return { ...useless(foreign(version)), isForeign: true }
    // Power went while the file was made: it was not used yet.
    if (!isWanted && !hasFrames(bytes)) return useless(null)
    return { ...useless('neither its first nor its last block names it'), isLost: true }
  }
  const isOurs = directoryId === null || head.directoryId === ZERO_UUID || head.directoryId === directoryId
  if (!isOurs) return useless(`it belongs to the data folder with directory.id ${head.directoryId}, this one is ${directoryId}`)
  if (note !== null && head.id !== note.journalId) return useless(`it is journal ${head.id}, the one that was in use is ${note.journalId}`)
  return judgeFrames(bytes, head, note)
}

function lastBlockOf(bytes: Buffer): Buffer {
  return bytes.subarray(Math.max(0, Math.floor(bytes.length / JOURNAL_BLOCK_BYTES) - 1) * JOURNAL_BLOCK_BYTES)
}

function foreign(version: string): string {
  return `it is of version ${version}, which this MoonMQ cannot read, and may hold acknowledged records; start the MoonMQ that wrote it once and stop it in order`
}

function hasFrames(bytes: Buffer): boolean {
  for (let at = JOURNAL_BLOCK_BYTES; at < bytes.length; at += JOURNAL_BLOCK_BYTES) if (looksLikeFrame(bytes, at)) return true
  return false
}

function judgeFrames(bytes: Buffer, head: JournalHead, note: JournalNote | null): Judged {
  const sizeBytes = journalBytes(head.areaBytes)
  const found = scanFrames(bytes, Math.min(bytes.length, sizeBytes - JOURNAL_BLOCK_BYTES), head.id)
  const { frames } = found
  frames.sort((a, b) => a.sequence - b.sequence)
  const newest = frames[frames.length - 1]
  const reasons = found.reason === null ? [] : [found.reason]
  if (bytes.length < sizeBytes) reasons.push(`it has ${bytes.length} bytes, not ${sizeBytes}`)
  const live = newest === undefined ? [] : frames.filter((frame) => frame.sequence >= newest.oldestLive)
  if (newest !== undefined) {
    const missing = newest.sequence - newest.oldestLive + 1 - live.length
    if (missing > 0)
      reasons.push(`${missing} of the frames ${newest.oldestLive} to ${newest.sequence} are not there or do not fit their checksums`)
  }
  const throughFrame = note?.throughFrame ?? 0
  if ((newest?.sequence ?? 0) < throughFrame)
    reasons.push(`${throughFrame} frames were durable, the newest that is there is number ${newest?.sequence ?? 0}`)
  return {
    frames: live,
    reason: reasons.length === 0 ? null : reasons.join('; '),
    isLost: reasons.length > 0,
    isForeign: false,
    note: note ?? { journalId: head.id, throughFrame: newest?.sequence ?? 0, forgotten: [] },
  }
}

function scanFrames(bytes: Buffer, end: number, id: Uuid): { frames: JournalFrame[]; reason: string | null } {
  const frames: JournalFrame[] = []
  let reason: string | null = null
  for (let at = JOURNAL_BLOCK_BYTES; at < end; ) {
    let frame: JournalFrame | null = null
    try {
      frame = decodeFrame(bytes, at, id)
    } catch (error) {
      if (!isCode(error, 'DATA_DAMAGED')) throw error
      reason = error.message
    }
    if (frame !== null) frames.push(frame)
    at += frame?.sizeBytes ?? JOURNAL_BLOCK_BYTES
  }
  return { frames, reason }
}
