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
  /** Of a journal that nothing can be added to any more: what it says of these logs is void, since they were cut or deleted. */
  readonly forgotten: readonly LogId[]
}

export interface LogId {
  readonly topicId: Uuid
  readonly partition: number
}

const NAME = ROOT_FILES['journal-note']
const FIXED_BYTES = 24
const LOG_BYTES = 20
const MAX_BYTES = 16 * 1024 * 1024

function encodeJournalNote(note: JournalNote): Buffer {
  const writer = new ByteWriter(FIXED_BYTES + 4 + note.forgotten.length * LOG_BYTES)
  writer.uuid(note.journalId)
  writer.int64(note.throughFrame)
  writer.int32(note.forgotten.length)
  for (const { topicId, partition } of note.forgotten) {
    writer.uuid(topicId)
    writer.int32(partition)
  }
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
  const reader = unseal('journal-note', bytes, path, 1)
  const bad = (expected: number) => new MoonMQError('DATA_DAMAGED', { path, reason: `${reader.remaining} bytes of body, not ${expected}` })
  const isFirstVersion = bytes[5] === 1
  const fixedBytes = isFirstVersion ? FIXED_BYTES : FIXED_BYTES + 4
  if (reader.remaining < fixedBytes) throw bad(fixedBytes)
  const [journalId, throughFrame, count] = [reader.uuid(), reader.int64(), isFirstVersion ? 0 : reader.int32()]
  if (reader.remaining !== count * LOG_BYTES) throw bad(count * LOG_BYTES)
  const forgotten: LogId[] = []
  for (let index = 0; index < count; index++) forgotten.push({ topicId: reader.uuid(), partition: reader.int32() })
  return { journalId, throughFrame, forgotten }
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
