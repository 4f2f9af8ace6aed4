/**
 * Runs a lane with coverage: `node dist/scripts/coverage.js [LANE [part of a path ...]] [--floors]`. Writes an HTML report to coverage/ and, with `--floors`,
 * fails when one of the guarded folders is below its floor. Ends with the line of the lane.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const RAW = join(ROOT, 'coverage', 'raw')

/** Folders whose faults cost data. */
const GUARDED = ['core', 'record', 'storage', 'broker']
const FLOORS = { lines: 90, branches: 80 }

const args = process.argv.slice(2)
const [lane = 'quick', ...filters] = args.filter((arg) => !arg.startsWith('--'))

rmSync(join(ROOT, 'coverage'), { recursive: true, force: true })
const tests = spawnSync(process.execPath, [join(ROOT, 'dist', 'scripts', 'test.js'), lane, ...filters], {
  cwd: ROOT,
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
  maxBuffer: 1 << 28,
  env: { ...process.env, NODE_V8_COVERAGE: RAW },
})
process.stdout.write(tests.stdout)
c8(['report', '--reporter=html', '--reporter=text-summary', '--reporter=json-summary', '--include=src/**'])
const low = args.includes('--floors') ? GUARDED.filter(isBelowFloor).length : 0

const counted = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\n*$/.exec(tests.stdout)
const failed = Number(counted?.[2] ?? 1) + low
console.log(`${counted?.[1] ?? 0} passed, ${failed} failed${counted?.[3] ? `, ${counted[3]} skipped` : ''}`)
process.exitCode = tests.status !== 0 || failed > 0 ? 1 : 0

interface Share {
  readonly total: number
  readonly covered: number
}

/** Says how much of a guarded folder is covered. A folder of which nothing was loaded is below its floor. */
function isBelowFloor(folder: string): boolean {
  const summary: Record<string, { lines: Share; branches: Share }> = JSON.parse(
    readFileSync(join(ROOT, 'coverage', 'coverage-summary.json'), 'utf8'),
  )
  const files = Object.entries(summary).filter(([path]) => path.startsWith(join(ROOT, 'src', folder) + sep))
  const percent = (kind: 'lines' | 'branches'): number => {
    const total = files.reduce((sum, [, file]) => sum + file[kind].total, 0)
    const covered = files.reduce((sum, [, file]) => sum + file[kind].covered, 0)
    return total === 0 ? 0 : (100 * covered) / total
  }
  const lines = percent('lines')
  const branches = percent('branches')
  const below = lines < FLOORS.lines || branches < FLOORS.branches
  const verdict = below ? `BELOW the floor of ${FLOORS.lines} and ${FLOORS.branches}` : 'ok'
  console.log(`src/${folder}: ${lines.toFixed(1)} % of lines, ${branches.toFixed(1)} % of branches: ${verdict}`)
  return below
}

function c8(parts: readonly string[]): number {
  const script = join(ROOT, 'node_modules', 'c8', 'bin', 'c8.js')
  const common = [`--temp-directory=${RAW}`, `--reports-dir=${join(ROOT, 'coverage')}`, '--exclude-after-remap', '--all=false']
  return spawnSync(process.execPath, [script, ...parts, ...common], { cwd: ROOT, stdio: 'inherit' }).status ?? 1
}
