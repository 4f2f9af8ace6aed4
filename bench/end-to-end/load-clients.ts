import { execFile, spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** One line of JSON that a load client prints. */
export type LoadResult = Readonly<Record<string, string | number>>

/** The compiled load clients: the same programs load every broker. */
export interface LoadClients {
  /** Raw Kafka frames, almost no client CPU. */
  kraw(args: readonly string[], limitSeconds: number): Promise<LoadResult>
  /** librdkafka. */
  kload(args: readonly string[], limitSeconds: number): Promise<LoadResult>
  /** Kafka's Java client: transactions and groups. Needs the libraries that `--kafka` brings along. */
  java(args: readonly string[], limitSeconds: number): Promise<LoadResult>
}

/** Java compiles it as it starts. */
const JAVA_LOAD = 'bench/end-to-end/GroupLoad.java'

/** Builds what is missing or older than its source. */
export function prepareLoadClients(peers: string, tools: string): LoadClients {
  const kraw = build(peers, tools, 'kraw', [])
  const kload = build(peers, tools, 'kload', ['-pthread', '-lrdkafka', '-lm'])
  const libraries = join(tools, 'kafka', 'libs', '*')
  const java = ['-Xmx512m', '-Dslf4j.internal.verbosity=ERROR', '-cp', libraries, JAVA_LOAD]
  return {
    kraw: (args, limit) => run(kraw, args, limit),
    kload: (args, limit) => run(kload, args, limit),
    java: (args, limit) => run('java', [...java, ...args], limit),
  }
}

function build(peers: string, tools: string, name: string, libraries: string[]): string {
  const source = join(peers, `${name}.c`)
  const program = join(tools, name)
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return program
  const compiled = spawnSync('cc', ['-O2', '-w', '-o', program, source, ...libraries], { stdio: ['ignore', 'ignore', 'inherit'] })
  if (compiled.status !== 0) throw new Error(`cannot build ${source}: install gcc and librdkafka-dev`)
  return program
}

function run(program: string, args: readonly string[], limitSeconds: number): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    execFile(program, [...args], { timeout: limitSeconds * 1000, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      const line = stdout.split('\n').find((text) => text.startsWith('{'))
      if (line !== undefined) resolve(JSON.parse(line) as LoadResult)
      else reject(new Error(`${program} ${args.join(' ')}: ${stderr.trim() || (error?.message ?? 'no result')}`))
    })
  })
}
