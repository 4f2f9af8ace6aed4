import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const HOME = '/usr/lib/postgresql'

/** Where the newest PostgreSQL of Debian's packages is; null when none is installed. */
export async function findPostgres(): Promise<string | null> {
  try {
    const versions = (await readdir(HOME)).map(Number).filter(Number.isFinite)
    return versions.length === 0 ? null : `${HOME}/${Math.max(...versions)}/bin`
  } catch {
    return null
  }
}

/** A PostgreSQL of the test's own, on a socket in a folder of its own. It does not run as root, so it is given its own user there. */
export class Postgres implements AsyncDisposable {
  readonly folder: string
  readonly #child: ChildProcess

  private constructor(folder: string, child: ChildProcess) {
    this.folder = folder
    this.#child = child
  }

  static async start(bin: string): Promise<Postgres> {
    const folder = await mkdtemp(join(tmpdir(), 'moonmq-postgres-'))
    const isRoot = userInfo().uid === 0
    const [program, before]: [string, string[]] = isRoot ? ['runuser', ['-u', 'postgres', '--']] : ['env', []]
    if (isRoot) await run('chown', ['postgres', folder])
    await chmod(folder, 0o755)
    await run(program, [...before, join(bin, 'initdb'), '-D', join(folder, 'data'), '-U', 'moonmq', '-A', 'trust'])
    const settings = ['-c', 'listen_addresses=', '-c', `unix_socket_directories=${folder}`]
    const child = spawn(program, [...before, join(bin, 'postgres'), '-D', join(folder, 'data'), ...settings], { stdio: 'ignore' })
    const postgres = new Postgres(folder, child)
    for (;;) {
      if (child.exitCode !== null) throw new Error(`PostgreSQL ended with ${child.exitCode} before it served`)
      const isReady = await run(join(bin, 'pg_isready'), ['-h', folder, '-U', 'moonmq']).then(
        () => true,
        () => false,
      )
      if (isReady) return postgres
    }
  }

  /** For `psql`. */
  get args(): readonly string[] {
    return ['-h', this.folder, '-U', 'moonmq', '-d', 'postgres']
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await ended
    await rm(this.folder, { recursive: true, force: true })
  }
}
