import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { MoonMQError } from '../core/errors.ts'
import { systemCode, systemReason } from '../io/system-error.ts'

/** Small files that a command reads and writes beside the broker's data: settings, the ready file. */

/** The text of a file, or null when there is none. Throws SETTING_INVALID when it cannot be read. */
export async function readTextFile(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw new MoonMQError('SETTING_INVALID', { reason: `${path} cannot be read: ${systemReason(error)}` }, error)
  }
}

/** Whoever sees the file sees all of it. Throws SETTING_INVALID when it cannot be written. */
export async function writeFileAtOnce(path: string, text: string, mode = 0o666): Promise<void> {
  const temporary = `${path}.new`
  try {
    await writeFile(temporary, text, { mode })
    await rename(temporary, path)
  } catch (error) {
    throw new MoonMQError('SETTING_INVALID', { reason: `${path} cannot be written: ${systemReason(error)}` }, error)
  }
}

export async function removeFile(path: string): Promise<void> {
  await rm(path, { force: true })
}

export async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
