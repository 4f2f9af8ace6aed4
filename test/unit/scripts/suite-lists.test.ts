import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { compareLists, type LogKind, readExceptions, readList, readOutcomes, type SuiteList, writeList } from '../../support/suite-lists.ts'

function outcomesOf(kind: LogKind, file: string, lines: readonly string[], printed = ''): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-lists-'))
  writeFileSync(join(folder, file), lines.join('\n'))
  return Object.fromEntries(readOutcomes(kind, folder, printed))
}

test('each kind of log gives the outcome of each test', () => {
  assert.deepEqual(
    outcomesOf('steps', 'run.log', ['=== topics-create (rc 0)', 'Created topic', '=== acls-add (rc 1)'], 'failed: acls-add\n'),
    { 'topics-create': 'passed', 'acls-add': 'failed' },
  )
  assert.deepEqual(outcomesOf('streams', 'run.log', ['ok create-topics', 'FAIL counts', 'Exception in thread']), {
    'create-topics': 'passed',
    counts: 'failed',
  })
  const events = [
    ['run', 'TestA'],
    ['run', 'TestA/part'],
    ['fail', 'TestA/part'],
    ['pass', 'TestA'],
    ['run', 'TestB'],
    ['skip', 'TestB'],
    ['run', 'TestC'],
  ].map(([Action, Test]) => JSON.stringify({ Action, Test }))
  assert.deepEqual(outcomesOf('go', 'out.json', ['# no event', ...events]), { TestA: 'passed', TestB: 'skipped', TestC: 'cut' })
  const python = [
    't.py::test_a PASSED [ 25%]',
    't.py::test_b ',
    'a thread says something',
    'PASSED [ 50%]',
    't.py::test_c FAILED [ 75%]',
    't.py::test_d ',
  ]
  assert.deepEqual(outcomesOf('pytest', 'run.log', python), {
    't.py::test_a': 'passed',
    't.py::test_b': 'passed',
    't.py::test_c': 'failed',
    't.py::test_d': 'cut',
  })
  const native = [
    '[<MAIN>         /  0.100s] Running test 0001_a in a new thread',
    '[<MAIN>         /  0.100s] Running test 0002_b in a new thread',
    '[<MAIN>         /  0.100s] Running test 0003_c in a new thread',
    '[0001_a         /  1.306s] ================= Test 0001_a PASSED =================',
    '[0002_b         /  8.184s] TEST FAILURE',
  ]
  assert.deepEqual(outcomesOf('librdkafka', 'run.log.txt', native), { '0001_a': 'passed', '0002_b': 'failed', '0003_c': 'cut' })
  const table = ['| 0001_a     |     PASSED |  81.791s |', '| 0003_c    |     FAILED |   8.791s | said why']
  assert.equal(outcomesOf('librdkafka', 'run.log.txt', [...native, ...table])['0003_c'], 'failed')
  const mocha = [
    '',
    '  Consumer',
    '    with a group',
    '      ✔ should commit (204ms)',
    '      1) should seek',
    '    ✔ should leave',
    '  - never',
    '',
  ]
  assert.deepEqual(outcomesOf('mocha', 'run.log', [...mocha, '  2 passing (3s)', '', '  1) Consumer']), {
    'Consumer with a group should commit': 'passed',
    'Consumer with a group should seek': 'failed',
    'Consumer should leave': 'passed',
    never: 'skipped',
  })
})

test('a list comes back from its file as it was', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'moonmq-lists-')), 'a.txt')
  const outcomes = new Map([
    ['a passed name', 'failed'],
    ['b', 'passed'],
  ] as const)
  writeList(path, { head: ['one', 'two: 3'], outcomes })
  assert.deepEqual(readList(path), { head: ['one', 'two: 3'], outcomes })
  assert.equal(readList(`${path}.gone`), null)
})

test('what passes on Kafka must pass here, unless an exception names it; one that passes is stale', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'moonmq-lists-')), 'exceptions.txt')
  writeFileSync(path, '# a head: with words -- and more\ns: has no login -- needs APIs 17\ns: fine -- none\nother: fails -- theirs\n')
  const list = (outcomes: SuiteList['outcomes']): SuiteList => ({ head: [], outcomes })
  const all = ['fine', 'fails', 'skips', 'is cut', 'is missing', 'has no login', 'bad'] as const
  const kafka = list(new Map(all.map((name) => [name, name === 'bad' ? 'failed' : 'passed'])))
  const here = list(
    new Map([
      ['fine', 'passed'],
      ['fails', 'failed'],
      ['skips', 'skipped'],
      ['is cut', 'cut'],
      ['has no login', 'failed'],
      ['bad', 'failed'],
    ]),
  )
  assert.deepEqual(compareLists(kafka, here, readExceptions(path, 's')), {
    worse: ['fails (failed)', 'skips (skipped)'],
    notRun: ['is cut', 'is missing'],
    stale: ['fine'],
  })
})
