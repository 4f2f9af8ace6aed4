import type { Disk } from '../io/disk.ts'
import { parseRemovedFileName, segmentFileName } from './files.ts'

/**
 * Where a log begins: as the checkpoint says, or, when segments left the log while the checkpoint could not be written, at the first one that
 * is there. A segment gets its last name only after the start was moved above it, so the name is proof enough.
 */
export function startAfterRemoved(names: ReadonlySet<string>, bases: readonly number[], savedStart: number | null): number | null {
  const first = bases[0]
  if (savedStart === null || first === undefined || first <= savedStart) return savedStart
  for (const name of names) {
    const parsed = parseRemovedFileName(name)
    if (parsed?.kind === 'log' && parsed.baseOffset < first) return first
  }
  return savedStart
}

/** Takes away what an earlier process meant to: files of segments that left the log, below its first one. */
export async function removeLeftovers(
  deps: { readonly disk: Disk },
  folder: string,
  names: ReadonlySet<string>,
  bases: readonly number[],
): Promise<void> {
  const first = bases[0]
  if (first === undefined) return
  for (const name of names) {
    const parsed = parseRemovedFileName(name)
    if (parsed !== null && parsed.baseOffset < first) await deps.disk.removeFile(`${folder}/${name}`)
  }
}

/**
 * A power cut may undo the new names of some segments that left the log and not those of later ones. What is back below the log's start
 * goes, the oldest first, or a hole would be left behind it. Returns how many segments that were.
 */
export async function removeReturned(
  deps: { readonly disk: Disk },
  folder: string,
  names: ReadonlySet<string>,
  bases: readonly number[],
  startOffset: number,
): Promise<number> {
  let count = 0
  for (; (bases[count + 1] ?? Number.POSITIVE_INFINITY) <= startOffset; count++) {
    for (const kind of ['log', 'index', 'timeindex', 'txnindex'] as const) {
      const name = segmentFileName(bases[count] as number, kind)
      if (names.has(name)) await deps.disk.removeFile(`${folder}/${name}`)
    }
  }
  if (count > 0) await deps.disk.syncDirectory(folder)
  return count
}

/**
 * A power cut may undo the new name of a log file and not those of its indexes: the segment is back, and gets them back. True when names
 * changed.
 */
export async function giveBackIndexes(deps: { readonly disk: Disk }, folder: string, names: ReadonlySet<string>): Promise<boolean> {
  let hasChanged = false
  for (const name of names) {
    const parsed = parseRemovedFileName(name)
    if (parsed === null || parsed.kind === 'log') continue
    const own = segmentFileName(parsed.baseOffset, parsed.kind)
    if (names.has(own) || !names.has(segmentFileName(parsed.baseOffset, 'log'))) continue
    await deps.disk.rename(`${folder}/${name}`, `${folder}/${own}`)
    hasChanged = true
  }
  if (hasChanged) await deps.disk.syncDirectory(folder)
  return hasChanged
}
