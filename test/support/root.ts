import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The project's folder, from a compiled test in `dist/test`. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/** A path inside the project. */
export function inRoot(...parts: string[]): string {
  return join(ROOT, ...parts)
}

/** A file of `test/fixtures`. */
export function fixture(name: string): Buffer {
  return readFileSync(inRoot('test', 'fixtures', name))
}
