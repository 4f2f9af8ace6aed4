import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MUTANTS, type Mutant } from '../test/support/mutants.ts'
import { inRoot } from '../test/support/root.ts'

/**
 * Puts each bug of the table into a copy of the compiled program and runs the tests that must find it; prints who did, as rows of
 * docs/TESTING.md. Exit 1 when a bug lives. `node dist/scripts/mutants.js [part of a name]`.
 */
const TEST_TIMEOUT_MS = 120_000

function makeCopy(): string {
  const copy = mkdtempSync(join(tmpdir(), 'moonmq-mutants-'))
  cpSync(inRoot('dist'), join(copy, 'dist'), { recursive: true })
  cpSync(inRoot('package.json'), join(copy, 'package.json'))
  for (const name of ['node_modules', 'test', 'docs', 'src']) symlinkSync(inRoot(name), join(copy, name))
  return copy
}

/** Resolves to whether the test file fails, a timeout included. */
function fails(copy: string, test: string): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--test', join(copy, 'dist', 'test', test)], {
      stdio: 'ignore',
      timeout: TEST_TIMEOUT_MS,
      cwd: copy,
    })
    child.once('exit', (code) => resolve(code !== 0))
  })
}

async function catchers(copy: string, mutant: Mutant): Promise<string | null> {
  const path = join(copy, 'dist', 'src', mutant.file)
  const text = readFileSync(path, 'utf8')
  if (text.split(mutant.find).length !== 2) throw new Error(`${mutant.name}: the text to replace is not in ${mutant.file} exactly once`)
  writeFileSync(
    path,
    text.replace(mutant.find, () => mutant.replace),
  )
  try {
    for (const test of mutant.tests) if (await fails(copy, test)) return test
    return null
  } finally {
    writeFileSync(path, text)
  }
}

const part = process.argv[2] ?? ''
const copy = makeCopy()
let alive = 0
try {
  for (const mutant of MUTANTS.filter(({ name }) => name.includes(part))) {
    const caughtBy = await catchers(copy, mutant)
    if (caughtBy === null) alive++
    console.log(`| ${mutant.name} | ${caughtBy === null ? 'NOBODY' : `\`test/${caughtBy.replace(/\.js$/, '.ts')}\``} |`)
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}
console.log(`${alive} bugs live`)
process.exitCode = alive === 0 ? 0 : 1
