// What the build reads and writes, shared by setup.mjs and build.mjs. Node alone: runs before anything is installed.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Folder of package.json, without a slash at the end. */
export const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/[\\/]$/, '')

/** Folders that tsc compiles. */
export const SOURCE_FOLDERS = ['src', 'test', 'scripts', 'bench', 'examples']

const BUILD_FILES = ['package.json', 'package-lock.json', 'tsconfig.json', 'scripts/build.mjs', 'scripts/build-files.mjs']

const STAMP = join(ROOT, 'dist', '.stamp')

/** Every file below a folder of the project, as paths from the root with `/` between names, sorted. */
export function filesBelow(folder, skip = () => false) {
  const found = []
  const visit = (path) => {
    for (const entry of readdirSync(join(ROOT, path), { withFileTypes: true })) {
      const child = `${path}/${entry.name}`
      if (skip(child)) continue
      if (entry.isDirectory()) visit(child)
      else found.push(child)
    }
  }
  if (existsSync(join(ROOT, folder))) visit(folder)
  return found.sort()
}

/** What tsc leaves out: an example with packages of its own, which fill it with files when it is tried. */
function isNoSource(path) {
  return path === 'examples/nestjs' || path.endsWith('/node_modules')
}

/** Changes when a file that the build reads is added, removed, or has another size or time. */
export function sourceStamp() {
  const hash = createHash('sha256')
  hash.update(process.version)
  const note = (path) => {
    const { mtimeMs, size } = statSync(join(ROOT, path))
    hash.update(`${path}\0${size}\0${mtimeMs}\n`)
  }
  for (const path of BUILD_FILES) if (existsSync(join(ROOT, path))) note(path)
  for (const folder of SOURCE_FOLDERS) for (const path of filesBelow(folder, isNoSource)) note(path)
  return hash.digest('hex')
}

/** The stamp of the build in dist/, or '' when there is none. */
export function builtStamp() {
  return existsSync(STAMP) ? readFileSync(STAMP, 'utf8') : ''
}

export { STAMP }
