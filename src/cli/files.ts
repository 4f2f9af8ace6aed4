import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'

/** Small files that a command reads and writes beside the broker's data: settings, the ready file. */

/** The text of a file, or null when there is none. */
export async function readTextFile(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Whoever sees the file sees all of it. */
export async function writeFileAtOnce(path: string, text: string): Promise<void> {
  const temporary = `${path}.new`
  await writeFile(temporary, text)
  await rename(temporary, path)
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
