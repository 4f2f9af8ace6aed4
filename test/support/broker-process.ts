import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { inRoot } from './root.ts'

export interface BrokerProcessOptions {
  /** Further arguments of `moonmq start`; `--http off` when there are none. */
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** On a volume of the test's own; by default a new folder that goes with the broker. */
  readonly dataDir?: string
  /** What runs before the program and takes it as its arguments: `strace -f`, `prlimit --nofile=64`. */
  readonly wrapper?: readonly string[]
}

/** What the broker says on standard output when it serves. */
interface ReadyLine {
  readonly listeners: readonly { readonly host: string; readonly port: number }[]
  readonly http: { readonly port: number } | null
  readonly pid: number
}

/**
 * The broker as a child process with a data folder of its own. It can be killed and started again: the folder and the port stay.
 * `await using` kills it and removes the folder.
 */
export class BrokerProcess implements AsyncDisposable {
  readonly dataDir: string
  readonly #options: BrokerProcessOptions
  #child: ChildProcess | null = null
  #port = 0
  #httpPort = 0
  #pid = 0
  #errors = ''

  private constructor(dataDir: string, options: BrokerProcessOptions) {
    this.dataDir = dataDir
    this.#options = options
  }

  static async start(options: BrokerProcessOptions = {}): Promise<BrokerProcess> {
    const broker = new BrokerProcess(options.dataDir ?? join(await mkdtemp(join(tmpdir(), 'moonmq-test-')), 'data'), options)
    await broker.start()
    return broker
  }

  /** `127.0.0.1:PORT`, the same after each restart. */
  get address(): string {
    return `127.0.0.1:${this.#port}`
  }

  /** Of the broker itself, not of what it runs under. */
  get pid(): number {
    return this.#pid
  }

  /** Where `--http` serves; empty when it is off. */
  get httpBase(): string {
    return this.#httpPort === 0 ? '' : `http://127.0.0.1:${this.#httpPort}`
  }

  /** What it wrote to standard error so far: its log. */
  get log(): string {
    return this.#errors
  }

  /** Whether the process that was started last has ended. */
  get hasEnded(): boolean {
    return this.#child === null || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Resolves when it serves; rejects with its log when it ends before. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    const args = [inRoot('dist', 'bin', 'moonmq.cjs'), 'start', '--json', '--listen', this.#port === 0 ? '127.0.0.1:0' : this.address]
    const { args: more = ['--http', 'off'], wrapper = [] } = this.#options
    const [program = '', ...rest] = [...wrapper, process.execPath, ...args, '--data', this.dataDir, ...more]
    const child = spawn(program, rest, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...this.#options.env, ...env },
    })
    this.#child = child
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-64 * 1024)
    })
    const ready = new Promise<ReadyLine>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        if (line.includes('"server.ready"')) resolve(JSON.parse(line) as ReadyLine)
      })
      child.once('exit', (code, signal) => reject(new Error(`the broker ended with ${code ?? signal} before it served:\n${this.#errors}`)))
    })
    const { listeners, http, pid } = await ready
    this.#port = listeners[0]?.port ?? 0
    this.#httpPort = http?.port ?? 0
    this.#pid = pid
  }

  /** kill -9: nothing is flushed, nothing is said. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** A graceful stop; resolves to the exit code. */
  async stop(): Promise<number | null> {
    return await this.#end('SIGTERM')
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const child = this.#child
    this.#child = null
    if (child === null) return null
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      // A tracer that dies leaves what it traced running.
      if (this.#options.wrapper === undefined) child.kill(signal)
      else process.kill(this.#pid, signal)
      await ended
    }
    return child.exitCode
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    if (process.env['KEEP_DATA'] === undefined && this.#options.dataDir === undefined)
      await rm(join(this.dataDir, '..'), { recursive: true, force: true })
  }
}
