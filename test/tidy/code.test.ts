import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONG_FILES, LONG_FUNCTIONS, UNSHIPPED_FILES } from './exceptions.ts'
import { ROOTS } from './layers.ts'
import { factsFrom, projectFacts } from './parse.ts'
import { roomFindings } from './rooms.ts'
import {
  deadExportFindings,
  deadFileFindings,
  FILE_LINES_MAX,
  FILE_LINES_WARN,
  type Finding,
  fileSizeFindings,
  functionSizeFindings,
  nonNullFindings,
  show,
} from './rules.ts'

const NO_EXCEPTIONS: ReadonlyMap<string, string> = new Map()

function none(findings: readonly Finding[]): void {
  assert.equal(findings.length, 0, `\n${show(findings)}`)
}

test('no file is longer than the limit', (t) => {
  for (const long of fileSizeFindings(projectFacts(), FILE_LINES_WARN, LONG_FILES)) t.diagnostic(`getting long: ${show([long])}`)
  none(fileSizeFindings(projectFacts(), FILE_LINES_MAX, LONG_FILES))
})

test('no function is longer than the limit', () => {
  none(functionSizeFindings(projectFacts(), LONG_FUNCTIONS))
})

test('every exception is still needed', () => {
  const files = fileSizeFindings(projectFacts(), FILE_LINES_MAX, NO_EXCEPTIONS).map((finding) => finding.path)
  for (const path of LONG_FILES.keys()) assert.ok(files.includes(path), `${path} is short enough now`)
  const functions = functionSizeFindings(projectFacts(), NO_EXCEPTIONS).map(
    (finding) => `${finding.path} ${finding.text.split(' has ')[0]}`,
  )
  const unshipped = deadFileFindings(projectFacts(), ROOTS, NO_EXCEPTIONS).map((finding) => finding.path)
  for (const path of UNSHIPPED_FILES.keys()) assert.ok(unshipped.includes(path), `${path} ships now, or is gone`)
  for (const name of LONG_FUNCTIONS.keys()) assert.ok(functions.includes(name), `${name} is short enough now`)
})

test('every file of src ships, and every exported value is taken by somebody', () => {
  none(deadFileFindings(projectFacts(), ROOTS, UNSHIPPED_FILES))
  none(deadExportFindings(projectFacts(), ROOTS))
})

test('there is no ! assertion', () => {
  none(nonNullFindings(projectFacts()))
})

test('clock, randomness, disk, network, environment and console stay in their rooms', () => {
  none(roomFindings(projectFacts()))
})

test('planted: a long file and a long function are caught', () => {
  const body = '  let x = 1\n'.repeat(70)
  const facts = factsFrom({
    'src/core/long.ts': `export function long() {\n${body}}\n`,
    'src/core/method.ts': `export class C {\n  run = () => {\n${body}  }\n}\n`,
    'src/core/short.ts': 'export const a = 1\n'.repeat(12),
  })
  assert.deepEqual(
    functionSizeFindings(facts, NO_EXCEPTIONS).map((finding) => `${finding.path} ${finding.text.split(' has ')[0]}`),
    ['src/core/long.ts long', 'src/core/method.ts (arrow function)'],
  )
  assert.deepEqual(
    fileSizeFindings(facts, 20, NO_EXCEPTIONS).map((finding) => finding.path),
    ['src/core/long.ts', 'src/core/method.ts'],
  )
  assert.equal(functionSizeFindings(facts, new Map([['src/core/long.ts long', 'a table']])).length, 1)
})

test('planted: a file that nothing reaches and a value that nobody takes are caught, types are not', () => {
  const facts = factsFrom({
    'src/index.ts': `export { used } from './core/used.ts'\n`,
    'src/core/used.ts': 'export const used = 1\nexport const unused = 2\nexport interface Shape {}\n',
    'src/core/lost.ts': `import { used } from './used.ts'\nconsole.log(used)\n`,
  })
  assert.deepEqual(
    deadFileFindings(facts, ROOTS, NO_EXCEPTIONS).map((finding) => finding.path),
    ['src/core/lost.ts'],
  )
  assert.deepEqual(
    deadExportFindings(facts, ROOTS).map((finding) => `${finding.path}:${finding.line}`),
    ['src/core/used.ts:2'],
  )
})

test('planted: a ! assertion is caught, a negation is not', () => {
  const facts = factsFrom({ 'src/core/bang.ts': 'export function f(a?: string) {\n  if (!a) return 0\n  return a!.length\n}\n' })
  assert.deepEqual(nonNullFindings(facts), [{ path: 'src/core/bang.ts', line: 3, text: nonNullFindings(facts)[0]?.text }])
})

const PLANTED: readonly (readonly [string, string])[] = [
  ['the wall clock', 'export const t = Date.now()'],
  ['the wall clock', 'export const t = new Date()'],
  ['the wall clock', 'export const t = performance.now()'],
  ['the wall clock', 'export const t = process.hrtime.bigint()'],
  ['a timer', 'setTimeout(() => {}, 1)'],
  ['a timer', `import { setInterval as every } from 'node:timers'\nevery(() => {}, 1)`],
  ['a timer', 'process.nextTick(() => {})'],
  ['a timer', 'export const s = AbortSignal.timeout(1)'],
  ['randomness', 'export const r = Math.random()'],
  ['randomness', `import { randomUUID } from 'node:crypto'\nexport const r = randomUUID()`],
  ['randomness', `import * as crypto from 'node:crypto'\nexport const r = crypto.randomBytes(1)`],
  ['asynchronous zlib', `import { gunzip } from 'node:zlib'\ngunzip(new Uint8Array(1), () => {})`],
  ['worker threads', `import { Worker } from 'node:worker_threads'\nexport { Worker }`],
  ['the disk', `import { readFileSync } from 'fs'\nexport { readFileSync }`],
  ['the network', `import type { Socket } from 'node:net'\nexport type { Socket }`],
  ['a child process', `import { spawn } from 'node:child_process'\nexport { spawn }`],
  ['the environment', 'export const e = process.env.HOME'],
  ['the console', `console.log('x')`],
  ['import()', `export const m = import('pino')`],
]

test('planted: every banned call is caught outside of its room, and only there', () => {
  for (const [what, text] of PLANTED) {
    const facts = factsFrom({ 'src/storage/planted.ts': text, 'test/unit/planted.ts': text })
    const findings = roomFindings(facts)
    assert.ok(findings.length > 0, `not caught: ${text}`)
    for (const finding of findings) assert.equal(finding.path, 'src/storage/planted.ts')
    assert.ok(show(findings).includes(`is ${what}`), `${text}: ${show(findings)}`)
  }
})

test('what looks like a banned call and is none passes', () => {
  const facts = factsFrom({
    'src/storage/fine.ts': [
      `import { createHash } from 'node:crypto'`,
      `import { gunzipSync } from 'node:zlib'`,
      'export const a = (clock: { now(): number; setTimer(ms: number): void }) => [clock.now(), clock.setTimer(1)]',
      'export const b = new Date(5).toISOString()',
      '// Date.now() and setTimeout() in words',
      `export const c = 'process.env.HOME'`,
      'export { createHash, gunzipSync }',
    ].join('\n'),
    'src/core/clock.ts': 'export const t = Date.now()',
  })
  none(roomFindings(facts))
})
