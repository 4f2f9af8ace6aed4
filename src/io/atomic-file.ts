import { MoonMQError } from '../core/errors.ts'
import type { Disk } from './disk.ts'
import { systemCode } from './system-error.ts'

/** The directory that a path lies in. */
export function directoryOf(path: string): string {
  const slash = path.lastIndexOf('/')
  return slash <= 0 ? '/' : path.slice(0, slash)
}

/**
 * Replaces a file so that a crash leaves the old bytes or the new ones, never a mixture: temporary file, its sync, rename, sync of
 * the directory. Durable when it resolves. Two writers of one path must not run at once; they share the temporary name.
 */
export async function writeFileAtomically(disk: Disk, path: string, parts: readonly Buffer[]): Promise<void> {
  await placeFile(disk, path, parts)
  await disk.syncDirectory(directoryOf(path))
}

/** The same without the last step: a power cut may bring the old file back until the directory is synced. */
export async function placeFile(disk: Disk, path: string, parts: readonly Buffer[]): Promise<void> {
  const temporary = `${path}.tmp`
  const file = await disk.open(temporary, 'write')
  try {
    await file.truncate(0)
    await file.write(parts, 0)
    await file.datasync()
  } finally {
    await file.close()
  }
  await disk.rename(temporary, path)
}

/** All bytes of a file, or null when it is missing. Throws DATA_DAMAGED, before memory is taken, when it is larger than `maxBytes`. */
export async function readSmallFile(disk: Disk, path: string, maxBytes: number): Promise<Buffer | null> {
  let file: Awaited<ReturnType<Disk['open']>>
  try {
    file = await disk.open(path, 'read')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
  try {
    if (file.sizeBytes > maxBytes) {
      throw new MoonMQError('DATA_DAMAGED', { path, reason: `it has ${file.sizeBytes} bytes, more than the ${maxBytes} it can have` })
    }
    const bytes = Buffer.alloc(file.sizeBytes)
    const size = await file.read(bytes, 0)
    return size === bytes.length ? bytes : bytes.subarray(0, size)
  } finally {
    await file.close()
  }
}

/**
 * A small file read at once; null when it is missing. A start reads a few of them for every partition, and through the thread pool
 * that costs ten times as much. Throws DATA_DAMAGED when it is larger than `maxBytes`.
 */
export function readSmallFileNow(disk: Disk, path: string, maxBytes: number): Buffer | null {
  let file: ReturnType<Disk['openNow']>
  try {
    file = disk.openNow(path, 'read')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
  try {
    if (file.sizeBytes > maxBytes) {
      throw new MoonMQError('DATA_DAMAGED', { path, reason: `it has ${file.sizeBytes} bytes, more than the ${maxBytes} it can have` })
    }
    const bytes = Buffer.alloc(file.sizeBytes)
    return bytes.subarray(0, file.readNow(bytes, 0))
  } finally {
    // Nothing was written through it, so nothing is lost when closing fails.
    file.close().catch(() => {})
  }
}

/**
 * Makes a directory with its parents so that it survives a power cut: each one that was missing is synced into its parent, top first.
 * One that is there already is synced too: whoever made it may have died before it could.
 */
export async function makeDirectoryDurably(disk: Disk, path: string): Promise<void> {
  const names = [path]
  for (let at = path; at !== '/' && (await disk.stat(at)) === null; at = directoryOf(at)) if (at !== path) names.push(at)
  await disk.makeDirectory(path)
  for (const made of names.reverse()) {
    try {
      await disk.syncDirectory(directoryOf(made))
    } catch (error) {
      // Where we may not even look we made nothing.
      const code = systemCode(error)
      if (code !== 'EACCES' && code !== 'EPERM') throw error
    }
  }
}
