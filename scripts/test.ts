/**
 * Runs a lane of tests: `node dist/scripts/test.js LANE [part of a path ...]`. Each file is a process of its own, ended after the
 * lane's time for a file, never earlier: a test that does not end by itself has found a leak. The last line of the
 * output is `N passed, N failed`, with `, N skipped` when there are any. Exit 1 on a failure or when no test ran.
 */
import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { belongsTo, CI_LANES, LANES, type Lane } from './lanes.ts'
import { runFiles, type Totals } from './test-report.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const TESTS = join(ROOT, 'dist', 'test')

const [name = 'quick', ...filters] = process.argv.slice(2)
process.exitCode = await main(name, filters)

async function main(name: string, filters: readonly string[]): Promise<number> {
  if (name === 'ci') return finish(await runParts())
  const lane = LANES.find((candidate) => candidate.name === name)
  if (!lane) {
    console.error(`there is no lane "${name}"; lanes: ${[...LANES.map((known) => known.name), 'ci'].join(', ')}`)
    return 2
  }
  return finish(await runLane(lane, filters))
}

async function runLane(lane: Lane, filters: readonly string[]): Promise<Totals> {
  const files = testFiles(lane).filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)))
  if (files.length === 0) console.log(`lane ${lane.name}: there are no test files${filters.length > 0 ? ' of that name' : ''}`)
  process.env.MOONMQ_TEST_LANE = lane.size
  // Of the quick files one in four waits more than it computes.
  const concurrency = Math.min(4, availableParallelism() + (lane.name === 'quick' ? 1 : 0))
  return runFiles(files, { root: ROOT, timeoutMs: lane.fileTimeoutMs, concurrency })
}

function testFiles(lane: Lane): string[] {
  const found: string[] = []
  const visit = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) visit(path)
      else if (belongsTo(lane, relative(TESTS, path).replaceAll('\\', '/')) && sourceExists(path)) found.push(path)
    }
  }
  if (existsSync(TESTS)) visit(TESTS)
  return found.sort()
}

/** The build drops compiled files without a source; a plain `tsc` does not, and their tests must not count. */
function sourceExists(compiled: string): boolean {
  return existsSync(join(ROOT, relative(join(ROOT, 'dist'), compiled).replace(/\.js$/, '.ts')))
}

/** The lanes of `ci` one after another. One that fails, is late or counts nothing does not keep the next from running. */
async function runParts(): Promise<Totals> {
  const sum = { passed: 0, failed: 0, skipped: 0 }
  for (const name of CI_LANES) {
    console.log(`\n== ${name}`)
    const part = await runPart(name)
    sum.passed += part.passed
    sum.failed += part.failed
    sum.skipped += part.skipped
  }
  return sum
}

async function runPart(name: string): Promise<Totals> {
  const limitMs = LANES.find((lane) => lane.name === name)?.limitMs ?? 0
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), name], { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] })
  const late = setTimeout(() => {
    console.log(`lane ${name}: ended after its limit of ${limitMs / 1000} s`)
    child.kill('SIGTERM')
    setTimeout(() => child.kill('SIGKILL'), 5000).unref()
  }, limitMs)
  let totals: Totals | null = null
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    console.log(line)
    totals = parseTotals(line) ?? totals
  })
  const status = await new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null))
    child.once('close', (code) => resolve(code))
  })
  clearTimeout(late)
  const seen: Totals = totals ?? { passed: 0, failed: 0, skipped: 0 }
  // A lane that ended badly without naming a failed test is one failure.
  return status !== 0 && seen.failed === 0 ? { ...seen, failed: 1 } : seen
}

function parseTotals(line: string): Totals | null {
  const match = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/.exec(line)
  return match ? { passed: Number(match[1]), failed: Number(match[2]), skipped: Number(match[3] ?? 0) } : null
}

function finish(totals: Totals): number {
  if (totals.passed + totals.failed + totals.skipped === 0) console.log('no test ran, which counts as a failure')
  console.log(`${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`)
  return totals.failed > 0 || totals.passed === 0 ? 1 : 0
}
