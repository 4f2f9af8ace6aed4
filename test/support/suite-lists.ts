import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What the tests of a client's own suite did, by name: read from the suite's log, kept as a list in a file, compared with another list. */

/** `cut` = it ran when the suite's time was up. */
export type Outcome = 'passed' | 'failed' | 'skipped' | 'cut'

export interface SuiteList {
  /** What was tested, with the limits: the first lines of the file, without `# `. */
  readonly head: readonly string[]
  readonly outcomes: ReadonlyMap<string, Outcome>
}

export type LogKind = 'steps' | 'streams' | 'go' | 'librdkafka' | 'pytest' | 'mocha'

/** Outcomes from what a suite left in its folder and printed. */
export function readOutcomes(kind: LogKind, folder: string, printed: string): Map<string, Outcome> {
  const text = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '')
  switch (kind) {
    case 'steps':
      return ofSteps(text('run.log'), printed)
    case 'streams':
      return new Map(
        [...text('run.log').matchAll(/^(ok|FAIL) (.+)$/gm)].map((line) => [line[2] ?? '', line[1] === 'ok' ? 'passed' : 'failed']),
      )
    case 'go':
      return ofGo(text('out.json'))
    case 'librdkafka':
      return ofLibrdkafka(text('run.log.txt'))
    case 'pytest':
      return ofPytest(text('run.log'))
    case 'mocha':
      return ofMocha(text('run.log'))
  }
}

/** The log has a line for each step that ran; what was printed names those that failed. */
function ofSteps(log: string, printed: string): Map<string, Outcome> {
  const failed = new Set([...printed.matchAll(/^failed: (\S+)$/gm)].map((line) => line[1]))
  return new Map([...log.matchAll(/^=== (\S+) \(rc \d+\)$/gm)].map(([, name = '']) => [name, failed.has(name) ? 'failed' : 'passed']))
}

interface GoEvent {
  readonly Action: string
  readonly Test?: string
}

/** Tests at the top, not their parts. One that was started or waited for its turn at the end was cut. */
function ofGo(lines: string): Map<string, Outcome> {
  const outcomes = new Map<string, Outcome>()
  const ends: Readonly<Record<string, Outcome>> = { run: 'cut', pass: 'passed', fail: 'failed', skip: 'skipped' }
  for (const line of lines.split('\n')) {
    if (!line.startsWith('{')) continue
    const { Action, Test } = JSON.parse(line) as GoEvent
    const outcome = ends[Action]
    if (Test !== undefined && !Test.includes('/') && outcome !== undefined) outcomes.set(Test, outcome)
  }
  return outcomes
}

/** The table at the end is missing when the runner was cut or ended by a signal; then the lines of each test tell. */
function ofLibrdkafka(log: string): Map<string, Outcome> {
  const outcomes = new Map<string, Outcome>()
  const ends: Readonly<Record<string, Outcome>> = { PASSED: 'passed', SKIPPED: 'skipped', FAILED: 'failed' }
  for (const [, name = ''] of log.matchAll(/Running test (\S+)/g)) outcomes.set(name, 'cut')
  for (const [, name = '', end = ''] of log.matchAll(/=+ Test (\S+) (PASSED|SKIPPED) =+/g)) outcomes.set(name, ends[end] ?? 'failed')
  for (const [, name = ''] of log.matchAll(/^\[(\d{4}_\S+) .*\] TEST FAILURE$/gm)) outcomes.set(name, 'failed')
  for (const [, name = '', end = ''] of log.matchAll(/^\| (\d{4}_\S+) +\| +(PASSED|SKIPPED|FAILED) \|/gm)) {
    if (outcomes.has(name)) outcomes.set(name, ends[end] ?? 'failed')
  }
  return outcomes
}

/** A client's thread may print between the name of a test and its outcome, which then stands at the start of a later line. */
function ofPytest(log: string): Map<string, Outcome> {
  const outcomes = new Map<string, Outcome>()
  const ends: Readonly<Record<string, Outcome>> = { PASSED: 'passed', XPASS: 'passed', SKIPPED: 'skipped', XFAIL: 'skipped' }
  let last = ''
  for (const line of log.split('\n')) {
    const late = /^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*\[ *\d+%\]/.exec(line)
    if (late?.[1] !== undefined && outcomes.get(last) === 'cut') {
      outcomes.set(last, ends[late[1]] ?? 'failed')
      continue
    }
    const whole = /^(\S+::.+?) (?:<- \S+ )?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)/.exec(line)
    const begun = /^(\S+::\S.*?) *(?:<- \S+)? *(?:Done!)?$/.exec(line)
    if (whole?.[1] !== undefined && whole[2] !== undefined) outcomes.set(whole[1], ends[whole[2]] ?? 'failed')
    else if (begun?.[1] !== undefined && !outcomes.has(begun[1])) {
      last = begun[1]
      outcomes.set(last, 'cut')
    }
  }
  return outcomes
}

/** Mocha's report as the tests run: titles by how far they are indented, then what failed with its reasons, which is not read. */
function ofMocha(log: string): Map<string, Outcome> {
  const outcomes = new Map<string, Outcome>()
  const titles: string[] = []
  for (const line of log.split('\n')) {
    if (/^ +\d+ (passing|failing|pending)/.test(line)) break
    const found = /^( *)(✔|✓|-|\d+\))? ?(\S.*?) *(?:\(\d+m?s\))?$/.exec(line)
    const [, indent = '', mark, title = ''] = found ?? []
    if (found === null || indent.length < 2 || indent.length % 2 === 1) continue
    titles.length = indent.length / 2 - 1
    const name = [...titles, title].join(' ')
    if (mark === undefined) titles.push(title)
    else outcomes.set(name, mark === '-' ? 'skipped' : mark.endsWith(')') ? 'failed' : 'passed')
  }
  return outcomes
}

export function count(list: SuiteList, outcome: Outcome): number {
  return [...list.outcomes.values()].filter((each) => each === outcome).length
}

export function writeList(path: string, { head, outcomes }: SuiteList): void {
  const lines = [...outcomes].map(([name, outcome]) => `${outcome} ${name}`).sort()
  writeFileSync(path, `${[...head.map((line) => `# ${line}`), ...lines].join('\n')}\n`)
}

/** Null when there is no such file. */
export function readList(path: string): SuiteList | null {
  if (!existsSync(path)) return null
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  const outcomes = new Map<string, Outcome>()
  for (const line of lines) {
    const found = /^(passed|failed|skipped|cut) (.+)$/.exec(line)
    if (found?.[2] !== undefined) outcomes.set(found[2], found[1] as Outcome)
  }
  return { head: lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2)), outcomes }
}

/** Reasons by name of test, from lines `SUITE: NAME -- REASON`. */
export function readExceptions(path: string, suite: string): Map<string, string> {
  const reasons = new Map<string, string>()
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const found = /^(\S+): (.+) -- (.+)$/.exec(line)
    if (found?.[1] === suite && found[2] !== undefined && found[3] !== undefined) reasons.set(found[2], found[3])
  }
  return reasons
}

export interface Difference {
  /** Passed on Kafka, did something else here, and no exception names it. */
  readonly worse: readonly string[]
  /** Passed on Kafka and had not begun or not ended here. */
  readonly notRun: readonly string[]
  /** Named as an exception, and passed. */
  readonly stale: readonly string[]
}

export function compareLists(kafka: SuiteList, here: SuiteList, exceptions: ReadonlyMap<string, string>): Difference {
  const worse: string[] = []
  const notRun: string[] = []
  for (const [name, outcome] of kafka.outcomes) {
    if (outcome !== 'passed' || exceptions.has(name)) continue
    const ours = here.outcomes.get(name)
    if (ours === undefined || ours === 'cut') notRun.push(name)
    else if (ours !== 'passed') worse.push(`${name} (${ours})`)
  }
  return { worse, notRun, stale: [...exceptions.keys()].filter((name) => here.outcomes.get(name) === 'passed') }
}
