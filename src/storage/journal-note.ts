import { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import { ByteWriter } from '../core/writer.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { ROOT_FILES, seal, unseal } from './checkpoint.ts'

/**
 * Says that a journal is in use, so that one that is lost is missed. Durable before the journal's first frame, gone durably before the
 * journal goes: a note without its journal means that acknowledged records may be gone, a journal without a note that it is not needed.
 */
export interface JournalNote {
  readonly journalId: Uuid
  /** So many frames were durable when it was written. */
  readonly throughFrame: number
}

const NAME = ROOT_FILES['journal-note']
const BODY_BYTES = 24
const MAX_BYTES = 4096

function encodeJournalNote(note: JournalNote): Buffer {
  const writer = new ByteWriter(BODY_BYTES)
  writer.uuid(note.journalId)
  writer.int64(note.throughFrame)
  return seal('journal-note', writer.toBuffer())
}

/** Null when there is none. Throws DATA_DAMAGED. */
export async function readJournalNote(disk: Disk, folder: string): Promise<JournalNote | null> {
  const path = `${folder}/${NAME}`
  const bytes = await readSmallFile(disk, path, MAX_BYTES)
  return bytes === null ? null : decodeJournalNote(bytes, path)
}

/** Throws DATA_DAMAGED. */
export function decodeJournalNote(bytes: Buffer, path: string): JournalNote {
  const reader = unseal('journal-note', bytes, path)
  if (reader.remaining !== BODY_BYTES)
    throw new MoonMQError('DATA_DAMAGED', { path, reason: `${reader.remaining} bytes of body, not ${BODY_BYTES}` })
  return { journalId: reader.uuid(), throughFrame: reader.int64() }
}

export function writeJournalNote(disk: Disk, folder: string, note: JournalNote): Promise<void> {
  return writeFileAtomically(disk, `${folder}/${NAME}`, [encodeJournalNote(note)])
}

/** Durable when it resolves. */
export async function removeJournalNote(disk: Disk, folder: string): Promise<void> {
  const path = `${folder}/${NAME}`
  if ((await disk.stat(path)) === null) return
  await disk.removeFile(path)
  await disk.syncDirectory(folder)
}
