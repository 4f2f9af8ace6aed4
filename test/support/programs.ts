import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Programs of others that the longer lanes run: where they are, and how to run one under a limit. */

export interface Ran {
  /** Null when it was ended by its limit. */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly limitMs: number
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

/** Runs a program to its end. What it prints beyond a bound ends it. */
export function run(program: string, args: readonly string[], options: RunOptions): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...options.env },
      cwd: options.cwd,
      timeout: options.limitMs,
      killSignal: 'SIGKILL',
    })
    const out: Buffer[] = []
    const err: Buffer[] = []
    let size = 0
    const keep = (parts: Buffer[]) => (bytes: Buffer) => {
      size += bytes.length
      if (size > MAX_OUTPUT_BYTES) child.kill('SIGKILL')
      else parts.push(bytes)
    }
    child.stdout.on('data', keep(out))
    child.stderr.on('data', keep(err))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }))
    // A program that does not read its input is not this function's business.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
  })
}

export function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
}

/** A folder that outlives a run, for what is downloaded once: never inside the project. */
export function laneFolder(name: string): string {
  const folder = join(process.env.MOONMQ_TEST_FOLDER ?? join(tmpdir(), 'moonmq-lanes'), name)
  mkdirSync(folder, { recursive: true })
  return folder
}

export function exists(path: string): boolean {
  return existsSync(path)
}
