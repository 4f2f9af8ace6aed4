import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { ClientRecord } from '../../src/client/types.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { type CliRun, cliIn } from '../support/cli.ts'

function objects(text: string): unknown[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
}

test('moonmq group: listed with kind and topics, described with lag, reset in every way, and deleted', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  const cli = (...argv: string[]): Promise<CliRun> => cliIn('/', argv, { env: { MOONMQ_BROKER: broker.address } })
  const run = (...argv: string[]) => cli('group', ...argv)
  assert.match((await run('list')).err, /no groups/)
  await client.admin.createTopic('orders', { partitions: 2 })
  const producer = client.producer()
  for (let n = 0; n < 6; n++) await producer.send('orders', { value: String(n), partition: n % 2 })
  await client.admin.storeOffsets('billing', [{ topic: 'orders', partition: 0, offset: 1 }])

  assert.match((await run('list')).out, /GROUP +KIND +STATE +MEMBERS +TOPICS\nbilling +\w+ +empty +0 +orders\n/)
  assert.match((await run('describe', 'billing')).out, /orders +0 +1 +3 +2 +-\n/)
  const missing = await run('describe', 'nobody')
  assert.equal(missing.code, 3)
  assert.match(missing.err, /moonmq group list/)

  const reset = async (...argv: string[]) => {
    const { code, out, err } = await run('reset-offsets', 'billing', '--topic', 'orders', '--json', ...argv)
    assert.equal(code, 0, err)
    return (objects(out) as { after: number }[]).map(({ after }) => after)
  }
  const offsetsNow = async () => (await client.admin.committedOffsets('billing', ['orders']))[0]?.offsets
  assert.deepEqual(await reset('--to', 'latest'), [3, 3])
  assert.deepEqual(await reset('--to', 'latest', '--dry-run'), [3, 3])
  assert.deepEqual(await offsetsNow(), [1, -1], 'nothing changes without --yes')
  assert.match((await run('reset-offsets', 'billing', '--to', 'latest')).err, /nothing was changed; say --yes/)
  assert.deepEqual(await reset('--shift-by', '-5', '-p', '0'), [0], 'not before the first record')
  assert.deepEqual(await reset('--shift-by', '50', '-p', '0'), [3], 'not behind the last one')
  assert.equal(
    (await run('reset-offsets', 'billing', '--topic', 'orders', '--shift-by', '1')).code,
    2,
    'partition 1 has no offset to shift',
  )
  const records: ClientRecord[] = []
  for await (const record of client.reader({ topic: 'orders' })) records.push(record)
  const timeMs = records.find(({ partition, offset }) => partition === 0 && offset === 1)?.timestampMs ?? 0
  const since = [0, 1].map((n) => records.filter((each) => each.partition === n && each.timestampMs < timeMs).length)
  assert.deepEqual(await reset('--to', new Date(timeMs).toISOString(), '--yes'), since)
  assert.deepEqual(await offsetsNow(), since)
  assert.deepEqual(await reset('--to', '1d'), [0, 0])
  assert.deepEqual(await reset('--to', '2100-01-01T00:00:00Z'), [3, 3], 'a time after every record is the end')
  assert.deepEqual(await reset('--to-offset', '2', '--yes'), [2, 2])
  assert.deepEqual(await reset('--shift-by', '-1', '--yes'), [1, 1])
  assert.deepEqual(await reset('--to', 'earliest', '-p', '1', '--yes'), [0])
  assert.deepEqual(await offsetsNow(), [1, 0])
  assert.deepEqual(objects((await cli('consume', 'orders', '-g', 'billing', '--json')).out).length, 5)

  for (const wrong of [
    [],
    ['--to', 'latest', '--to-offset', '1'],
    ['--to', 'sometime'],
    ['--shift-by', 'x'],
    ['--to', 'latest', '-p', '1'],
  ]) {
    assert.equal((await run('reset-offsets', 'billing', ...wrong)).code, 2, wrong.join(' '))
  }
  assert.equal((await run('reset-offsets', 'billing', '--topic', 'orders', '--to', 'latest', '-p', '7')).code, 3)
  assert.equal((await run('reset-offsets', 'nobody', '--to', 'latest')).code, 3)
  // A group that is not there yet can be given its first offsets.
  const refused = await cli('consume', 'orders', '-g', 'fresh', '--from', 'latest')
  assert.equal(refused.code, 2)
  const advice = / {2}moonmq (group reset-offsets fresh --topic orders --to latest --yes)\n/.exec(refused.err)?.[1]
  assert.equal((await cli(...(advice ?? '').split(' '))).code, 0)
  assert.match((await cli('consume', 'orders', '-g', 'fresh')).err, /nothing in orders/)

  assert.equal((await run('delete', 'billing')).code, 2)
  assert.equal((await run('delete', 'billing', '--yes')).code, 0)
  assert.equal((await run('describe', 'billing')).code, 3)
})

test('moonmq group: one with members is shown with what is theirs, and neither reset nor deleted', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address, name: 'tester' })
  const run = (...argv: string[]) => cliIn('/', ['group', ...argv], { env: { MOONMQ_BROKER: broker.address } })
  await client.admin.createTopic('jobs', { partitions: 2 })
  await using session = client.session()
  const { memberId } = await session.join('workers', ['jobs'])
  assert.match((await run('list')).out, /workers +native +stable +1 +jobs\n/)
  const { out } = await run('describe', 'workers')
  assert.match(out, /workers {2}native, stable, 1 member\n/)
  assert.ok(out.includes(memberId), out)
  assert.match(out, /jobs: 0 1\n/)
  assert.match(out, /jobs +1 +- +0 +- +\S+\n/)
  for (const argv of [
    ['reset-offsets', 'workers', '--topic', 'jobs', '--to', 'latest', '--yes'],
    ['delete', 'workers', '--yes'],
  ]) {
    const refused = await run(...argv)
    assert.equal(refused.code, 6)
    assert.match(refused.err, /has members.*\n.*moonmq group describe/)
  }
  assert.deepEqual(objects((await cliIn('/', ['sql', '-c', 'SHOW GROUPS', '--json'], { env: { MOONMQ_BROKER: broker.address } })).out), [
    { group: 'workers', kind: 'native', state: 'stable', members: 1 },
  ])
})
