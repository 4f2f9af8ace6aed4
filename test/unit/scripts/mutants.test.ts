import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { MUTANTS } from '../../support/mutants.ts'
import { inRoot } from '../../support/root.ts'

test('every seeded bug still has its one place in the program, and its tests are there', () => {
  for (const { name, file, find, replace, tests } of MUTANTS) {
    const found = readFileSync(inRoot('dist', 'src', file), 'utf8').split(find).length - 1
    assert.equal(found, 1, `${name}: ${JSON.stringify(find)} stands ${found} times in ${file}`)
    assert.notEqual(find, replace, name)
    for (const path of tests) assert.ok(readFileSync(inRoot('dist', 'test', path)).length > 0)
  }
  assert.ok(MUTANTS.length >= 16)
})

test('the seeded bugs and who finds each are in docs/TESTING.md', () => {
  const text = readFileSync(inRoot('docs', 'TESTING.md'), 'utf8')
  for (const { name } of MUTANTS) assert.ok(text.includes(`| ${name} | \`test/`), name)
})
