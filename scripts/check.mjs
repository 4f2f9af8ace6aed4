// Format, lint, types and the repository's own rules. Every part runs even when an earlier one failed.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from './build-files.mjs'

const module = (...parts) => join(ROOT, 'node_modules', ...parts)
const totals = { passed: 0, failed: 0 }

step('format and lint', [module('@biomejs', 'biome', 'bin', 'biome'), 'ci', '.'])
step('types', [module('typescript', 'bin', 'tsc'), '--noEmit', '-p', 'tsconfig.json'])
const tidy = step('tidy', [join(ROOT, 'dist', 'scripts', 'test.js'), 'tidy'], { counts: true })
const line = /^(\d+) passed, (\d+) failed/m.exec(tidy)
totals.passed += Number(line?.[1] ?? 0)
totals.failed += Number(line?.[2] ?? 1)

console.log(`${totals.passed} passed, ${totals.failed} failed`)
process.exitCode = totals.failed > 0 ? 1 : 0

/** Runs one part and returns what it printed. A part that counts its own tests is not a count itself. */
function step(name, args, { counts = false } = {}) {
  console.log(`== ${name}`)
  const done = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', counts ? 'pipe' : 'inherit', 'inherit'], encoding: 'utf8' })
  if (counts) process.stdout.write(done.stdout)
  else if (done.status === 0) totals.passed++
  else totals.failed++
  return done.stdout ?? ''
}
