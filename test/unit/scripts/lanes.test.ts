import assert from 'node:assert/strict'
import { test } from 'node:test'
import { belongsTo, classify, LANES, type Lane } from '../../../scripts/lanes.ts'

function lane(name: string): Lane {
  const found = LANES.find((candidate) => candidate.name === name)
  assert.ok(found)
  return found
}

test('a test has the kind of its suffix and the folder it lies in', () => {
  assert.deepEqual(classify('unit/core/int64.test.js'), { folder: 'unit', kind: 'quick' })
  assert.deepEqual(classify('crash/cities.full.test.js'), { folder: 'crash', kind: 'full' })
  assert.deepEqual(classify('conformance/kcat.ci.test.js'), { folder: 'conformance', kind: 'ci' })
  assert.equal(classify('support/root.js'), null)
  assert.equal(classify('loose.test.js'), null)
})

test('the quick lane has the quick tests only', () => {
  const quick = lane('quick')
  assert.ok(belongsTo(quick, 'unit/core/int64.test.js'))
  assert.ok(!belongsTo(quick, 'tidy/layers.test.js'), 'npm run check has them')
  assert.ok(!belongsTo(quick, 'crash/cities.full.test.js'))
  assert.ok(!belongsTo(quick, 'conformance/dump.test.js'))
})

test('every test but soak and external ones is in the full lane', () => {
  const full = lane('full')
  for (const path of ['unit/a.test.js', 'crash/a.ci.test.js', 'sim/a.full.test.js', 'anything/new.test.js'])
    assert.ok(belongsTo(full, path))
  assert.ok(!belongsTo(full, 'soak/a.soak.test.js'))
  assert.ok(!belongsTo(full, 'integration/a.external.test.js'))
})
