/**
 * Runs a lane with coverage: `node dist/scripts/coverage.js [LANE] [--floors]`. Writes an HTML report to coverage/ and, with `--floors`,
 * fails when one of the guarded folders is below its floor. Ends with the line of the lane.
 */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const RAW = join(ROOT, 'coverage', 'raw')

/** Folders whose faults cost data. */
const GUARDED = ['core', 'record', 'storage', 'broker']
const FLOORS = { lines: 90, branches: 80 }

const args = process.argv.slice(2)
const lane = args.find((arg) => !arg.startsWith('--')) ?? 'quick'

rmSync(join(ROOT, 'coverage'), { recursive: true, force: true })
const tests = spawnSync(process.execPath, [join(ROOT, 'dist', 'scripts', 'test.js'), lane], {
  cwd: ROOT,
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
  maxBuffer: 1 << 28,
  env: { ...process.env, NODE_V8_COVERAGE: RAW },
})
process.stdout.write(tests.stdout)
c8(['report', '--reporter=html', '--reporter=text-summary', '--include=src/**'])
let low = 0
if (args.includes('--floors')) for (const folder of GUARDED) low += belowFloor(folder)

const counted = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\n*$/.exec(tests.stdout)
const failed = Number(counted?.[2] ?? 1) + low
console.log(`${counted?.[1] ?? 0} passed, ${failed} failed${counted?.[3] ? `, ${counted[3]} skipped` : ''}`)
process.exitCode = tests.status !== 0 || failed > 0 ? 1 : 0

/** 1 when a guarded folder is below a floor, else 0. */
function belowFloor(folder: string): number {
  console.log(`floors of src/${folder}: ${FLOORS.lines} % of lines, ${FLOORS.branches} % of branches`)
  const limits = [`--lines=${FLOORS.lines}`, `--branches=${FLOORS.branches}`, '--functions=0', '--statements=0']
  return c8(['check-coverage', `--include=src/${folder}/**`, ...limits]) === 0 ? 0 : 1
}

function c8(parts: readonly string[]): number {
  const script = join(ROOT, 'node_modules', 'c8', 'bin', 'c8.js')
  const common = [`--temp-directory=${RAW}`, `--reports-dir=${join(ROOT, 'coverage')}`, '--exclude-after-remap', '--all=false']
  return spawnSync(process.execPath, [script, ...parts, ...common], { cwd: ROOT, stdio: 'inherit' }).status ?? 1
}
