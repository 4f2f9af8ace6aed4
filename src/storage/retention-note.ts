import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Uuid } from '../core/uuid.ts'
import { ByteWriter } from '../core/writer.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { ROOT_FILES, seal, unseal } from './checkpoint.ts'
import type { ClockState } from './retention-clock.ts'

/** A segment whose own times are impossible, and since when retention knows it. */
export interface KnownSegment {
  readonly topicId: Uuid
  readonly partition: number
  readonly baseOffset: number
  /** On the steady clock of retention: survives a restart and a copy of the files, and no wall clock moves it. */
  readonly sinceSteadyMs: number
}

/** What retention keeps for the next start. Losing it loses no records: what is kept is kept longer. */
export interface RetentionNote {
  readonly clock: ClockState
  readonly known: readonly KnownSegment[]
}

const KIND = 'retention-clock'
const MAX_BYTES = 8 * 1024 * 1024
const CLOCK_BYTES = 28
const ENTRY_BYTES = 36
/** Of segments with impossible times; the rest is found anew after a restart. */
const MAX_KNOWN = 100_000

function encodeRetentionNote({ clock, known }: RetentionNote): Buffer {
  const kept = known.slice(0, MAX_KNOWN)
  const writer = new ByteWriter(CLOCK_BYTES + kept.length * ENTRY_BYTES)
  writer.int64(Math.floor(clock.wallMs))
  writer.int64(Math.floor(clock.believedMs))
  writer.int64(Math.floor(clock.steadyMs))
  writer.int32(kept.length)
  for (const each of kept) {
    writer.uuid(each.topicId)
    writer.int32(each.partition)
    writer.int64(each.baseOffset)
    writer.int64(Math.floor(each.sinceSteadyMs))
  }
  return seal(KIND, writer.toBuffer())
}

/** Throws DATA_DAMAGED. */
export function decodeRetentionNote(bytes: Buffer, path: string): RetentionNote {
  const reader = unseal(KIND, bytes, path)
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason })
  if (reader.remaining < CLOCK_BYTES) throw bad('the clock is missing')
  const clock = { wallMs: reader.int64(), believedMs: reader.int64(), steadyMs: reader.int64() }
  const count = reader.int32()
  if (count < 0 || count * ENTRY_BYTES !== reader.remaining) throw bad(`${count} entries do not fill ${reader.remaining} bytes`)
  const known: KnownSegment[] = []
  for (let index = 0; index < count; index++) {
    known.push({ topicId: reader.uuid(), partition: reader.int32(), baseOffset: reader.int64(), sinceSteadyMs: reader.int64() })
  }
  return { clock, known }
}

export function writeRetentionNote(disk: Disk, folder: string, note: RetentionNote): Promise<void> {
  return writeFileAtomically(disk, `${folder}/${ROOT_FILES[KIND]}`, [encodeRetentionNote(note)])
}

/** Null when it is missing or damaged. */
export async function readRetentionNote({ disk, log }: { disk: Disk; log: Logger }, folder: string): Promise<RetentionNote | null> {
  const path = `${folder}/${ROOT_FILES[KIND]}`
  try {
    const bytes = await readSmallFile(disk, path, MAX_BYTES)
    return bytes === null ? null : decodeRetentionNote(bytes, path)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    log.warn('retention.note_damaged', `${path} is damaged: retention believes the clock as it is now`, { ...error.details })
    return null
  }
}
