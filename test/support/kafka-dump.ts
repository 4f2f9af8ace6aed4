import { closeSync, openSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exists, hasProgram, laneFolder, run } from './programs.ts'

/** Kafka's own dump tool (`DumpLogSegments` of 4.4.0, Java): prints a file and what it finds wrong with it. */
export interface DumpTool {
  /** Dumps files in one run. The findings are empty when the tool has nothing against them. */
  dump(files: readonly string[], options: readonly string[], expectations?: { compacted?: boolean }): Promise<Dumped>
}

export interface Dumped {
  readonly text: string
  readonly findings: readonly string[]
}

const INSTALL_LIMIT_MS = 5 * 60_000
const DUMP_LIMIT_MS = 2 * 60_000

/** The tool exits 0 on most of what it finds, so its words are read. */
const FAILURE = /ismatch|Error at|Unknown record|isvalid: false|invalid bytes|Non-consecutive/
/** Lines on stderr that are about the tool's own logging. */
const LOGGING =
  /^(SLF4J|log4j|StatusLogger|WARNING: .*(sun\.misc|Unsafe|native access)|\d{4}-\d\d-\d\dT?.*(WARN|INFO|ERROR) StatusLogger|$)/i

/** Why the tool cannot be had here, or null. */
export function dumpToolMissing(): string | null {
  for (const program of ['java', 'mvn']) if (!hasProgram(program)) return `${program} is not installed`
  return null
}

/** Fetches the tool from Maven Central once and keeps it in the lane's folder. */
export async function openDumpTool(pomFile: string): Promise<DumpTool> {
  const libraries = await kafkaLibraries(pomFile)
  return { dump: (files, options, expectations = {}) => dump(libraries, files, options, expectations.compacted === true) }
}

/** The folder with Kafka's libraries that the file names: by default broker, tools and Java clients of 4.4. */
export async function kafkaLibraries(pomFile: string, name = 'kafka-tools-4.4.0'): Promise<string> {
  const folder = laneFolder(name)
  const libraries = join(folder, 'lib')
  const whole = join(folder, 'whole')
  if (!exists(whole)) {
    const args = ['-q', '-B', '-f', pomFile, 'dependency:copy-dependencies', `-DoutputDirectory=${libraries}`]
    const { code, stdout, stderr } = await run('mvn', args, { limitMs: INSTALL_LIMIT_MS })
    if (code !== 0) throw new Error(`Kafka's tools could not be fetched (exit ${code}): ${stdout.slice(-2000)}${stderr.slice(-2000)}`)
    closeSync(openSync(whole, 'w'))
  }
  return libraries
}

async function dump(libraries: string, files: readonly string[], options: readonly string[], compacted: boolean): Promise<Dumped> {
  const args = ['-Xshare:auto', '-XX:TieredStopAtLevel=1', '-Dlog4j2.level=OFF', '-cp', `${libraries}/*`]
  args.push('org.apache.kafka.tools.DumpLogSegments', '--files', files.join(','), ...options)
  const { code, stdout, stderr } = await run('java', args, { limitMs: DUMP_LIMIT_MS })
  const findings: string[] = []
  if (code !== 0) findings.push(`exit ${code}`)
  findings.push(...judge(stdout, compacted, false), ...judge(stderr, compacted, true))
  return { text: stdout, findings }
}

const NON_CONSECUTIVE = /^Non-consecutive offsets in .*?(\d{20})[^/]*$/
const FOLLOWED = /^\s*(-?\d+) is followed by (\d+)$/

/**
 * What counts against the files. On stderr that is every line; on both, the words that the tool has for a fault. It also calls the first
 * offset of a segment that does not begin at 0 non-consecutive (`-1 is followed by` the number in the file's name), in its own files too.
 */
function judge(text: string, compacted: boolean, everyLine: boolean): string[] {
  const findings: string[] = []
  let holes: { heading: string; base: number } | null = null
  for (const line of text.split('\n')) {
    const heading = NON_CONSECUTIVE.exec(line)
    const followed = FOLLOWED.exec(line)
    if (heading !== null) holes = { heading: line, base: Number(heading[1]) }
    else if (followed !== null) {
      const isFirst = holes !== null && followed[1] === '-1' && Number(followed[2]) === holes.base
      if (!isFirst && !compacted) findings.push(`${holes?.heading ?? ''}: ${line.trim()}`)
    } else if (FAILURE.test(line) || (everyLine && !LOGGING.test(line))) findings.push(line)
  }
  return findings
}

export type DumpFiles = Readonly<Record<'log' | 'index' | 'timeindex' | 'txnindex' | 'snapshot' | 'checkpoint', readonly string[]>>

/** The files of a partition's folder, by what they are. */
export function filesOf(folder: string): DumpFiles {
  const names = readdirSync(folder).sort()
  const ending = (suffix: string) => names.filter((name) => name.endsWith(suffix)).map((name) => join(folder, name))
  return {
    log: ending('.log'),
    index: ending('.index'),
    timeindex: ending('.timeindex'),
    txnindex: ending('.txnindex'),
    snapshot: ending('.snapshot'),
    checkpoint: ending('.checkpoint'),
  }
}

/** Keeps what the tool printed beside the data, for whoever looks into a failure. */
export function keepDump(folder: string, name: string, dumped: Dumped): void {
  writeFileSync(join(folder, `${name}.dump.txt`), dumped.text)
}
