import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { inRoot } from '../support/root.ts'
import { type Finding, show } from './rules.ts'
import { lockFindings, pathFindings, placeFindings, projectTexts, skippedFindings } from './texts.ts'

function none(findings: readonly Finding[]): void {
  assert.equal(findings.length, 0, `\n${show(findings)}`)
}

test('no file names a place outside of the project', () => {
  none(placeFindings(projectTexts()))
})

test('no test runs alone or is skipped without a reason', () => {
  none(skippedFindings(projectTexts()))
})

test('the lock file holds no download address', () => {
  none(lockFindings(readFileSync(inRoot('package-lock.json'), 'utf8')))
})

test('every path that a document names exists', () => {
  const documents = projectTexts().filter((file) => file.path.endsWith('.md'))
  none(documents.flatMap((file) => pathFindings(file)))
})

test('planted: a place outside of the project is caught, where it is not allowed', () => {
  const text = `one\ncd ${['..', 'shared'].join('/')}/suites and ${['', 'work', ''].join('/')}x\n`
  assert.deepEqual(
    placeFindings([{ path: 'README.md', text }]).map((finding) => finding.line),
    [2, 2],
  )
  assert.equal(placeFindings([{ path: '.ci/run', text }]).length, 1)
})

test('planted: only, skip and todo are caught, a skip with a reason is not', () => {
  const bad = [
    "test.only('a', f)",
    "it.skip('a', f)",
    "test('a', { skip: true }, f)",
    "test('a', { todo: true }, f)",
    't.skip()',
    "describe('a', { only: true }, f)",
  ]
  for (const text of bad) assert.equal(skippedFindings([{ path: 'test/unit/a.test.ts', text }]).length, 1, text)
  none(skippedFindings([{ path: 'test/unit/a.test.ts', text: "test('a', { skip: 'needs kcat' }, f); t.skip('no address given')" }]))
})

test('planted: a download address in the lock file is caught', () => {
  assert.equal(lockFindings('{"a": {"version": "1.0.0",\n"resolved": "https://example.org/a.tgz"}}').length, 1)
})

test('planted: a document that names a missing file is caught', () => {
  const text = 'see `src/core/clock.ts`, `src/core/gone.ts`,\n[a](../README.md), [b](missing.md#x), [c](https://example.org), `src/`'
  const exists = (path: string): boolean => ['src/core/clock.ts', 'README.md'].includes(path)
  assert.deepEqual(
    pathFindings({ path: 'docs/A.md', text }, exists).map((finding) => finding.text),
    ['src/core/gone.ts does not exist', 'docs/missing.md does not exist'],
  )
})
