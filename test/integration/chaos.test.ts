import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Verdict } from '../../src/chaos/index.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { cliIn } from '../support/cli.ts'

type Report = Verdict & {
  readonly faults: Record<string, number>
  readonly gaveUp: number
  readonly records: number
  readonly topic: string
}

const FEW_DELAYS = ['--delay', '0.02', '--max-delay-ms', '1']

test('moonmq chaos: every acknowledgement holds, and a seed does the same again', async () => {
  await using broker = await startTestBroker()
  const run = async (...argv: string[]) => {
    const { out, code, err } = await cliIn('/', ['chaos', '--broker', broker.address, '--records', '120', '--json', ...FEW_DELAYS, ...argv])
    assert.equal(code, 0, err)
    return JSON.parse(out) as Report
  }
  const one = await run('--seed', '11')
  for (const fault of ['drop', 'duplicate', 'reorder', 'corrupt', 'disconnect']) assert.ok((one.faults[fault] ?? 0) > 0, fault)
  assert.deepEqual([one.holds, one.totals.lost, one.totals.misplaced], [true, 0, 0])
  assert.ok(one.totals.duplicated > 0)
  const again = await run('--seed', '11')
  const { topic: _one, ...first } = one
  const { topic: _again, ...second } = again
  assert.deepEqual(second, first)
  const calm = await run(
    '--seed',
    '11',
    '--drop',
    '0',
    '--delay',
    '0',
    '--duplicate',
    '0',
    '--reorder',
    '0',
    '--corrupt',
    '0',
    '--disconnect',
    '0',
  )
  assert.deepEqual([calm.gaveUp, calm.totals.read, calm.totals.duplicated, calm.totals.reordered], [0, 120, 0, 0])
})

test('moonmq chaos: an idempotent producer stores what lost its acknowledgement once, another one as often as it is sent', async () => {
  await using broker = await startTestBroker()
  const only = ['--drop', '0', '--delay', '0', '--duplicate', '0', '--reorder', '0', '--corrupt', '0', '--disconnect', '0.2']
  const run = async (...argv: string[]) => {
    const all = ['chaos', '--broker', broker.address, '--records', '60', '--seed', '5', '--retries', '5', '--json', ...only, ...argv]
    return JSON.parse((await cliIn('/', all)).out) as Report
  }
  const once = await run()
  assert.ok((once.faults['disconnect'] ?? 0) > 5)
  assert.deepEqual([once.gaveUp, once.totals.read, once.totals.duplicated, once.totals.reordered], [0, 60, 0, 0])
  const often = await run('--at-least-once')
  assert.equal(often.gaveUp, 0)
  assert.equal(often.totals.duplicated, often.faults['disconnect'])
})

test('moonmq chaos: a topic that has records already, what was tried again, words for a person', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('t', { partitions: 2 })
  await client.producer().send('t', { value: 'before' })
  const argv = [
    'chaos',
    '--broker',
    broker.address,
    '--topic',
    't',
    '--records',
    '60',
    '--seed',
    '3',
    '--retries',
    '9',
    '--drop',
    '0.2',
    ...FEW_DELAYS,
  ]
  const { out, code } = await cliIn('/', argv)
  assert.equal(code, 0)
  assert.match(out, /^topic t, seed 3 .*\nhappened: drop \d+, delay/)
  assert.match(out, /the program sent 60, was told 60 times that a record is stored, and gave up on 0/)
  assert.match(out, /every acknowledgement holds: 0 of 60 acknowledged records lost/)
  assert.equal((await cliIn('/', ['chaos', '--drop', '2'])).code, 2)
  assert.equal((await cliIn('/', ['chaos', '--broker', '127.0.0.1:1'])).code, 5)
})
