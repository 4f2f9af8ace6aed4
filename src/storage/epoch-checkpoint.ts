import { MoonMQError } from '../core/errors.ts'
import { placeFile, readSmallFile, readSmallFileNow, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import type { EpochStart } from './epoch-cache.ts'

/**
 * Kafka's `leader-epoch-checkpoint` in a partition's folder, text: a line with version 0, a line with the number of entries, then a
 * line `epoch startOffset` for each. It has no checksum; whoever loads it compares it with the batch headers.
 */
export const EPOCH_CHECKPOINT_NAME = 'leader-epoch-checkpoint'
const VERSION = 0
const MAX_BYTES = 8 * 1024 * 1024

export function encodeEpochCheckpoint(entries: readonly EpochStart[]): Buffer {
  const lines = entries.map((entry) => `${entry.leaderEpoch} ${entry.startOffset}\n`)
  return Buffer.from(`${VERSION}\n${entries.length}\n${lines.join('')}`, 'latin1')
}

/** Throws DATA_DAMAGED naming the line. */
export function decodeEpochCheckpoint(bytes: Buffer, path: string): EpochStart[] {
  const bad = (line: number, reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason: `line ${line + 1}: ${reason}` })
  const lines = bytes.toString('latin1').split('\n')
  if (lines[0] !== String(VERSION)) throw bad(0, `version ${shown(lines[0])} is not known`)
  const count = wholeNumber(lines[1])
  if (count === null) throw bad(1, `${shown(lines[1])} is no count`)
  // Each entry ends with a line feed, so the last piece is empty and nothing may follow it.
  if (lines.length !== count + 3 || lines[count + 2] !== '') throw bad(1, `${count} entries do not fit ${lines.length - 3} lines`)
  const entries: EpochStart[] = []
  for (let line = 2; line < count + 2; line++) {
    const [epochText, offsetText, more] = (lines[line] as string).split(' ')
    const leaderEpoch = wholeNumber(epochText)
    const startOffset = wholeNumber(offsetText)
    if (leaderEpoch === null || leaderEpoch > 2 ** 31 - 1 || startOffset === null || more !== undefined) {
      throw bad(line, `${shown(lines[line])} is no epoch with its start offset`)
    }
    const previous = entries[entries.length - 1]
    if (previous !== undefined && (leaderEpoch <= previous.leaderEpoch || startOffset <= previous.startOffset)) {
      throw bad(line, `${shown(lines[line])} does not rise above ${previous.leaderEpoch} ${previous.startOffset}`)
    }
    entries.push({ leaderEpoch, startOffset })
  }
  return entries
}

/** Replaces the file in `directory`; durable when it resolves. */
export function writeEpochCheckpoint(disk: Disk, directory: string, entries: readonly EpochStart[]): Promise<void> {
  return writeFileAtomically(disk, `${directory}/${EPOCH_CHECKPOINT_NAME}`, [encodeEpochCheckpoint(entries)])
}

/** The same, but the caller syncs the directory. */
export function placeEpochCheckpoint(disk: Disk, directory: string, entries: readonly EpochStart[]): Promise<void> {
  return placeFile(disk, `${directory}/${EPOCH_CHECKPOINT_NAME}`, [encodeEpochCheckpoint(entries)])
}

/** The entries of the file, or null when it is missing. Throws DATA_DAMAGED. */
export function readEpochCheckpointNow(disk: Disk, directory: string): EpochStart[] | null {
  const path = `${directory}/${EPOCH_CHECKPOINT_NAME}`
  const bytes = readSmallFileNow(disk, path, MAX_BYTES)
  return bytes === null ? null : decodeEpochCheckpoint(bytes, path)
}

/** Like `readEpochCheckpointNow`, in the thread pool. */
export async function readEpochCheckpoint(disk: Disk, directory: string): Promise<EpochStart[] | null> {
  const path = `${directory}/${EPOCH_CHECKPOINT_NAME}`
  const bytes = await readSmallFile(disk, path, MAX_BYTES)
  return bytes === null ? null : decodeEpochCheckpoint(bytes, path)
}

function wholeNumber(text: string | undefined): number | null {
  if (text === undefined || !/^(0|[1-9]\d{0,15})$/.test(text)) return null
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : null
}

function shown(text: string | undefined): string {
  return JSON.stringify((text ?? '').slice(0, 60))
}
