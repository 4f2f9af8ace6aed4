import { homedir } from 'node:os'
import { join } from 'node:path'
import type { CliContext } from '../context.ts'
import { readTextFile, writeFileAtOnce } from '../files.ts'

const FILE = '.moonmq_history'
const MAX_LINES = 1000
const SECRET = /\bpassword\b/i

/** What was typed, kept between consoles in the home folder; lines with a password are not. */
export class History {
  readonly #path: string | null
  #lines: string[] = []

  constructor(context: CliContext) {
    const home = context.env['HOME'] ?? homedir()
    this.#path = home === '' ? null : join(home, FILE)
  }

  /** The newest first, as a terminal wants them. */
  async load(): Promise<string[]> {
    const text = this.#path === null ? null : await readTextFile(this.#path)
    this.#lines = (text ?? '').split('\n').filter((line) => line !== '')
    return this.#lines.slice(-MAX_LINES).reverse()
  }

  add(line: string): void {
    const kept = line.trim()
    if (kept !== '' && !SECRET.test(kept) && this.#lines.at(-1) !== kept) this.#lines.push(kept)
  }

  async save(): Promise<void> {
    if (this.#path !== null) await writeFileAtOnce(this.#path, `${this.#lines.slice(-MAX_LINES).join('\n')}\n`, 0o600)
  }
}
