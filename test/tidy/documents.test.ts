import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { PRINTED } from '../../scripts/docs.ts'
import { METRICS } from '../../src/obs/catalogue.ts'
import { inRoot } from '../support/root.ts'
import { projectTexts } from './texts.ts'

for (const [path, print] of PRINTED) {
  test(`${path} is what its table prints`, () => {
    assert.ok(existsSync(inRoot(path)), `${path} is missing: run npm run docs`)
    assert.equal(readFileSync(inRoot(path), 'utf8'), print(), `${path} is out of date: run npm run docs`)
  })
}

test('every metric that the code names is in the catalogue', () => {
  const known = new Set(METRICS.map((row) => row.name))
  for (const { path, text } of projectTexts()) {
    if (!path.startsWith('src/') || path.startsWith('src/obs/')) continue
    for (const [, name = ''] of text.matchAll(/'(moonmq_[a-z_]+)'/g))
      assert.ok(known.has(name), `${path} counts ${name}, which is not in src/obs/catalogue.ts`)
  }
})
