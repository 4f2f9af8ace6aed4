import { MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { ByteWriter } from '../../core/writer.ts'
import { readSmallFile, writeFileAtomically } from '../../io/atomic-file.ts'
import type { Disk } from '../../io/disk.ts'
import { seal, unseal } from '../checkpoint.ts'

/**
 * What compaction has done to a log, in a file of the partition's folder so that it goes where the log goes. A log without the file was
 * never compacted: its offsets are dense, whatever its topic is set to, and a gap in them is damage.
 */
export interface CompactionNote {
  /** Below it there may be holes. Durable before the first segment of a pass is put in place, and never lowered. */
  readonly holesBelow: number
  /** Everything below was compacted: where the next pass begins. Durable after the last segment of a pass is in place. */
  readonly cleanedOffset: number
  /** When the first tombstone or empty transaction's marker below may go, in wall time; −1: there is none. */
  readonly nextHorizonMs: number
}

export const COMPACTION_NOTE_FILE = 'moonmq-compaction'
export const NEVER_COMPACTED: CompactionNote = { holesBelow: 0, cleanedOffset: 0, nextHorizonMs: -1 }

const BODY_BYTES = 24
const MAX_BYTES = 1024

function encodeCompactionNote(note: CompactionNote): Buffer {
  const writer = new ByteWriter(BODY_BYTES)
  writer.int64(note.holesBelow)
  writer.int64(note.cleanedOffset)
  writer.int64(note.nextHorizonMs)
  return seal('compaction', writer.toBuffer())
}

/** Throws DATA_DAMAGED. */
export function decodeCompactionNote(bytes: Buffer, path: string): CompactionNote {
  const reader = unseal('compaction', bytes, path)
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason })
  if (reader.remaining !== BODY_BYTES) throw bad(`${reader.remaining} bytes of body, not ${BODY_BYTES}`)
  const note = { holesBelow: reader.int64(), cleanedOffset: reader.int64(), nextHorizonMs: reader.int64() }
  const isPossible = (value: number, least: number) => Number.isSafeInteger(value) && value >= least
  if (!isPossible(note.holesBelow, 0) || !isPossible(note.cleanedOffset, 0) || !isPossible(note.nextHorizonMs, -1)) {
    throw bad('a number in it is impossible')
  }
  return note
}

/** Replaces the note; durable when it resolves. */
export function writeCompactionNote(disk: Disk, folder: string, note: CompactionNote): Promise<void> {
  return writeFileAtomically(disk, `${folder}/${COMPACTION_NOTE_FILE}`, [encodeCompactionNote(note)])
}

/** Throws DATA_DAMAGED; null when there is none. */
export async function readCompactionNote(disk: Disk, folder: string): Promise<CompactionNote | null> {
  const path = `${folder}/${COMPACTION_NOTE_FILE}`
  const bytes = await readSmallFile(disk, path, MAX_BYTES)
  return bytes === null ? null : decodeCompactionNote(bytes, path)
}

/** From which offset on a log has no holes. A damaged note says that there are some, which the last segment, never compacted, has not. */
export async function noHolesFrom(disk: Disk, folder: string, lastBaseOffset: number): Promise<number> {
  try {
    return (await readCompactionNote(disk, folder))?.holesBelow ?? 0
  } catch (error) {
    if (error instanceof MoonMQError) return lastBaseOffset
    throw error
  }
}

/**
 * The note of a log whose last segment begins at `activeOffset`. A damaged one still says that the log was compacted, which the active
 * segment never is: everything before it may have holes, and compaction begins anew.
 */
export async function loadCompactionNote(deps: { disk: Disk; log: Logger }, folder: string, activeOffset: number): Promise<CompactionNote> {
  try {
    return (await readCompactionNote(deps.disk, folder)) ?? NEVER_COMPACTED
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    deps.log.warn('storage.compaction_note_damaged', `what compaction noted of ${folder} is damaged; it begins anew`, {
      folder,
      reason: error.message,
    })
    return { ...NEVER_COMPACTED, holesBelow: activeOffset }
  }
}
