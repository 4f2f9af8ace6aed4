import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { Client } from '../../src/client/types.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { type CliRun, cliIn } from '../support/cli.ts'

const GROUP = 'workers'

/** Sends the records and refuses them until they are dead letters. */
async function bury(client: Client, records: readonly { key: string; value: string; reason: string }[]): Promise<void> {
  const producer = client.producer()
  for (const { key, value } of records) await producer.send('jobs', { key, value, partition: 0, headers: [{ key: 'own', value: 'h' }] })
  await using session = client.session()
  const reasons = new Map(records.map(({ value, reason }) => [value, reason]))
  for (let left = records.length; left > 0; ) {
    for (const { partition, offset, value } of (await session.fetch('jobs', GROUP, 1)) ?? []) {
      const reason = reasons.get(String(value))
      if (reason === undefined) continue
      if ((await session.nack('jobs', partition, offset, reason)).deadLettered) left--
    }
  }
}

async function valuesIn(client: Client, topic: string): Promise<string[]> {
  const found: string[] = []
  for await (const { value } of client.reader({ topic, isolation: 'read_committed' })) found.push(String(value))
  return found
}

test('moonmq dlq: letters are listed, shown, sent back once by filter with where they were, and purged', async () => {
  await using broker = await startTestBroker()
  await using client = await connect({ address: broker.address })
  const run = (...argv: string[]): Promise<CliRun> => cliIn('/', ['dlq', ...argv], { env: { MOONMQ_BROKER: broker.address } })
  await client.admin.createTopic('jobs', { partitions: 2 })
  await bury(client, [
    { key: 'a', value: 'one', reason: 'schema mismatch' },
    { key: 'b', value: 'two', reason: 'timed out' },
    { key: 'c', value: 'three', reason: 'timed out' },
  ])
  assert.match((await run('list')).out, /jobs\.dlq +3 +timed out \(2\), schema mismatch \(1\)/)
  assert.deepEqual(JSON.parse((await run('list', '--json')).out), {
    topic: 'jobs.dlq',
    letters: 3,
    reasons: { 'timed out': 2, 'schema mismatch': 1 },
  })
  assert.match(
    (await run('show', 'jobs.dlq', '--key', 'a')).out,
    /jobs\.dlq-0@0 .* from jobs-0@0, group "workers", 3 attempts: schema mismatch\n {2}a: one/,
  )
  assert.equal((await run('show', 'jobs.dlq', '--json')).out.trim().split('\n').length, 3)
  assert.equal((await run('redrive', 'jobs.dlq')).code, 2)
  assert.match((await run('redrive', 'jobs.dlq', '--reason', 'timed', '--dry-run')).out, /would send 2 letters/)
  assert.match((await run('redrive', 'jobs.dlq', '--reason', 'timed')).out, /sent 2 letters/)
  assert.match((await run('redrive', 'jobs.dlq', '--reason', 'timed')).out, /sent 0 letters/)
  assert.deepEqual(await valuesIn(client, 'jobs'), ['one', 'two', 'three', 'two', 'three'])
  // The same offsets again, as after an answer that was lost.
  assert.deepEqual(await client.admin.redrive('jobs.dlq', 0, [1, 2, 7]), { redriven: 0, already: 2, missing: 1 })
  assert.match((await run('list')).out, /jobs\.dlq +1 +schema mismatch/)
  const back = client.reader({ topic: 'jobs', partitions: [0], from: { offset: 3 } })
  for await (const { key, headers, partition } of back) {
    assert.equal(String(key), 'b')
    assert.equal(partition, 0)
    const texts = new Map(headers.map((header) => [header.key, String(header.value)]))
    assert.deepEqual(
      ['own', 'moonmq.redriven.from', 'moonmq.redriven.offset', 'moonmq.redriven.group', 'moonmq.redriven.reason', 'moonmq.dlq.topic'].map(
        (name) => texts.get(name),
      ),
      ['h', 'jobs.dlq', '1', 'workers', 'timed out', undefined],
    )
    break
  }
  assert.deepEqual(JSON.parse((await run('redrive', 'jobs.dlq', '--all', '--json')).out), {
    topic: 'jobs.dlq',
    dryRun: false,
    letters: 1,
    redriven: 1,
    already: 0,
    missing: 0,
  })
  assert.equal((await run('purge', 'jobs.dlq')).code, 2)
  assert.equal((await run('purge', 'jobs.dlq', '--yes')).code, 0)
  assert.deepEqual(await valuesIn(client, 'jobs.dlq'), [])
})

test('moonmq dlq: purge touches no topic of other records, unless told to; bytes and control characters are shown safely', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  const run = (...argv: string[]): Promise<CliRun> => cliIn('/', ['dlq', ...argv], { env: { MOONMQ_BROKER: broker.address } })
  await client.admin.createTopic('jobs', { partitions: 1 })
  await bury(client, [{ key: 'a', value: 'one', reason: `\u001b[2J\n${'y'.repeat(200)}` }])
  const { out } = await run('list')
  assert.ok(!out.includes('\u001b') && !out.includes('y'.repeat(81)), out)
  const letter = { key: Buffer.from([0xff]), value: null, headers: [{ key: 'own', value: Buffer.from([0xfe]) }] }
  await client.producer().send('jobs', letter)
  await using session = client.session()
  await session.fetch('jobs', 'g', 9)
  for (let left = 3; left > 0; left--) await session.nack('jobs', 0, 1, 'no')
  const [, second] = (await run('show', 'jobs.dlq', '--json')).out.trim().split('\n')
  const { keyBase64, value, headers } = JSON.parse(second ?? '{}') as Record<string, unknown>
  assert.deepEqual([keyBase64, value, (headers as unknown[])[0]], ['/w==', null, { key: 'own', valueBase64: '/g==' }])
  const refused = await run('purge', 'jobs', '--yes')
  assert.deepEqual([refused.code, /no dead letters, such as offset 0 of partition 0/.test(refused.err)], [6, true])
  assert.equal((await valuesIn(client, 'jobs')).length, 2)
  await client.producer().send('jobs.dlq', { value: 'a stranger' })
  assert.equal((await run('purge', 'jobs.dlq', '--yes')).code, 6)
  assert.match((await run('purge', 'jobs.dlq', '--yes', '--partition', '0', '--before', '2')).out, /deleted 2 offsets/)
  assert.match((await run('purge', 'jobs.dlq', '--yes', '--force')).out, /deleted 1 offset of/)
})

test('moonmq dlq: what cannot be is said', async () => {
  await using broker = await startTestBroker()
  const run = (...argv: string[]): Promise<CliRun> => cliIn('/', ['dlq', ...argv], { env: { MOONMQ_BROKER: broker.address } })
  assert.match((await run('list')).err, /no topic ends with \.dlq/)
  assert.equal((await run('show', 'missing.dlq')).code, 3)
  for (const bad of [
    ['--offsets', '5-3'],
    ['--since', 'sometime'],
    ['--partition', 'x'],
    ['--max', '0'],
  ])
    assert.equal((await run('redrive', 'x.dlq', '--all', ...bad)).code, 2)
  assert.equal((await run('purge', 'x.dlq', '--before', '3', '--yes')).code, 2)
  await using client = await broker.connect()
  await client.admin.createTopic('x.dlq', { partitions: 2 })
  for (const command of [
    ['show', 'x.dlq', '--partition', '2'],
    ['redrive', 'x.dlq', '--partition', '2'],
    ['redrive', 'x.dlq', '--partition', '2', '--dry-run'],
    ['purge', 'x.dlq', '--partition', '2', '--yes'],
    ['purge', 'x.dlq', '--partition', '2', '--before', '1', '--yes'],
  ]) {
    const { code, err } = await run(...command)
    assert.deepEqual([code, err.includes('(PARTITION_MISSING)')], [3, true], command.join(' '))
  }
})
