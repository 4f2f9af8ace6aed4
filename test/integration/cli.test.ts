import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { run } from '../../src/cli/main.ts'
import { connect } from '../../src/client/index.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { type CliRun, cliIn } from '../support/cli.ts'
import { RawKafka } from '../support/raw-kafka.ts'

/** Runs a command against a broker. */
function cli(address: string, argv: readonly string[], input = ''): Promise<CliRun> {
  return cliIn('/', argv, { env: { MOONMQ_BROKER: address }, input })
}

/** The values that `consume --json` printed, in order. */
function values({ out }: CliRun): string[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { value: string }).value)
}

test('cli: topics are made, listed, described, grown and deleted', async () => {
  await using broker = await startTestBroker()
  const run = (...argv: string[]) => cli(broker.address, argv)
  assert.equal((await run('topic', 'create', 'orders', '-p', '3', '-c', 'retention.ms=1000')).code, 0)
  assert.equal((await run('topic', 'create', 'orders')).code, 6)
  assert.equal((await run('topic', 'create', 'orders', '--if-not-exists')).code, 0)
  assert.match((await run('topic', 'list')).out, /orders +3/)
  assert.match((await run('topic', 'describe', 'orders')).out, /retention\.ms=1000/)
  assert.equal((await run('topic', 'grow', 'orders', '-p', '5')).code, 0)
  assert.equal(JSON.parse((await run('topic', 'describe', 'orders', '--json')).out).partitions.length, 5)
  assert.equal((await run('topic', 'delete', 'orders')).code, 2)
  assert.equal((await run('topic', 'delete', 'orders', '--yes')).code, 0)
  const missing = await run('topic', 'describe', 'orders')
  assert.equal(missing.code, 3)
  assert.match(missing.err, /does not exist/)
})

test('cli: a topic made without a number has as many partitions as the broker says; what has no effect yet is told', async () => {
  await using broker = await startTestBroker({ config: { kafka: { 'num.partitions': 6 } } })
  const created = await cli(broker.address, ['topic', 'create', 'six', '-c', 'preallocate=true'])
  assert.match(created.out, /with 6 partitions/)
  assert.match(created.err, /preallocate is stored and has no effect/)
})

test('cli: settings of a topic are shown with where they come from, changed, unset, and only asked for', async () => {
  await using broker = await startTestBroker()
  const run = (...argv: string[]) => cli(broker.address, ['topic', 'config', 't', ...argv])
  await cli(broker.address, ['topic', 'create', 't', '-c', 'backend=commitlog'])
  const shown = (await run()).out
  assert.match(shown, /^retention\.ms +-1 +backend: moonmq\.backend$/m)
  assert.match(shown, /^moonmq\.backend +commitlog +topic$/m)
  assert.match(shown, /^segment\.ms +604800000 +default$/m)
  assert.match((await run('retention.ms=5', '--dry-run')).out, /would change on topic t: retention\.ms/)
  assert.match((await run()).out, /^retention\.ms +-1 +backend/m)
  assert.match((await run('retention=60', 'flush.messages=5')).out, /changed on topic t: retention\.ms, flush\.messages/)
  assert.match((await run('retention.ms=60000')).out, /has these settings already/)
  const lines = (await run('--json')).out.trim().split('\n')
  const values = lines.map((line) => JSON.parse(line) as { name: string; value: string })
  assert.equal(values.find(({ name }) => name === 'retention.ms')?.value, '60000')
  assert.deepEqual(JSON.parse((await run('--unset', 'retention.ms', '--unset', 'flush.messages', '--json')).out), {
    topic: 't',
    changed: ['retention.ms', 'flush.messages'],
    dryRun: false,
  })
  assert.match((await run('--explain')).out, /default 604800000/)
  const refused = await run('backend=segmented')
  assert.notEqual(refused.code, 0)
  assert.match(refused.err, /chosen when a topic is made/)
  assert.equal((await run('--dry-run')).code, 2)
  assert.equal((await run('retention.ms=1', '--unset', 'retention.ms')).code, 2)
})

test('cli: produce from arguments and standard input, consume one partition, all of them, and as a group', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't', '-p', '2'])
  const produced = await cli(broker.address, ['produce', 't', '--json', '-p', '1', 'k:a', 'b'])
  assert.deepEqual(
    produced.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [
      { topic: 't', partition: 1, offset: 0 },
      { topic: 't', partition: 1, offset: 1 },
    ],
  )
  assert.equal((await cli(broker.address, ['produce', 't', '-p', '0'], 'x:c\n{"value":"d","headers":{"h":"1"}}\n')).code, 0)
  assert.deepEqual(values(await cli(broker.address, ['consume', 't', '-p', '1', '-o', '1', '--json'])), ['b'])
  assert.deepEqual(values(await cli(broker.address, ['consume', 't', '--json'])).sort(), ['a', 'b', 'c', 'd'])
  assert.deepEqual(values(await cli(broker.address, ['consume', 't', '-g', 'g', '--json'])).sort(), ['a', 'b', 'c', 'd'])
  assert.deepEqual(values(await cli(broker.address, ['consume', 't', '-g', 'g', '--json'])), [])
})

test('cli: a topic of a thousand partitions is read on one connection', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 'wide', '-p', '1000'])
  using kafka = await RawKafka.connect(broker.address)
  const sent = Array.from({ length: 1000 }, (_, partition) => `of ${partition}`)
  await kafka.produceWide('wide', sent)
  const read = await cli(broker.address, ['consume', 'wide', '--json'])
  assert.equal(read.code, 0, read.err)
  assert.deepEqual(values(read).sort(), sent.sort())
})

test('cli: a group that reads so many records goes on behind them', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't'])
  await cli(broker.address, ['produce', 't', 'a', 'b', 'c', 'd'])
  const read = async (...more: string[]) => values(await cli(broker.address, ['consume', 't', '-g', 'g', '--json', ...more]))
  assert.deepEqual(await read('-n', '1'), ['a'])
  assert.deepEqual(await read('-n', '2', '--follow'), ['b', 'c'])
  assert.deepEqual(await read('-n', '1', '--follow'), ['d'])
  assert.deepEqual(await read(), [])
  assert.match((await cli(broker.address, ['consume', 't', '-g', 'g'])).err, /group g has not read/)
})

test('cli: help of what is no command names it and what was meant', async () => {
  const shown = await cli('127.0.0.1:1', ['help', 'topci'])
  assert.equal(shown.code, 2)
  assert.match(shown.err, /unknown command 'topci'\n\(Did you mean topic\?\)/)
})

test('cli: help of a command, also a level deeper, and of start', async () => {
  for (const [words, option] of [
    [['start'], '--ready-file'],
    [['log', 'dump'], '--max-value-bytes'],
    [['topic', 'config'], '--dry-run'],
    [['topic'], 'describe'],
  ] as const) {
    const shown = await cli('127.0.0.1:1', ['help', ...words])
    assert.equal(shown.code, 0)
    assert.ok(shown.out.includes(option), shown.out)
  }
})

test('cli: settings of a new topic stand behind its name or in options', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't', 'retention=60', '-c', 'cleanup.policy=compact'])
  assert.match((await cli(broker.address, ['topic', 'describe', 't'])).out, /cleanup\.policy=compact\n +retention\.ms=60000/)
  assert.match((await cli(broker.address, ['topic', 'create', 'u', 'oops'])).err, /^oops is no setting: expected KEY=VALUE/m)
})

test('cli: what is not there has an exit code and a next step', async () => {
  await using broker = await startTestBroker()
  const refused = await cli(broker.address, ['produce', 'nope', 'a:b'])
  assert.equal(refused.code, 3)
  assert.doesNotMatch(refused.err, /0 records/)
  const many = await cli(broker.address, ['produce', 'nope', 'a', 'b', 'c'])
  assert.equal(many.err.match(/does not exist/g)?.length, 1, 'what is told three times is said once')
  assert.match(many.err, /3 records of 3 not written, 0 written/)
  assert.match(many.err, /moonmq topic create NAME/)
  await cli(broker.address, ['topic', 'create', 't'])
  assert.equal((await cli(broker.address, ['consume', 't', '-p', '7'])).code, 3)
  assert.equal((await cli(broker.address, ['validate', '/nonexistent-folder'])).code, 3)
  const absent = await cli('127.0.0.1:1', ['topic', 'list'])
  assert.equal(absent.code, 5)
  assert.match(absent.err, /moonmq start/)
  assert.equal((await cli(broker.address, ['nope'])).code, 2)
})

test('cli: following from the start shows each record once, then the new ones', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't', '-p', '3'])
  await cli(broker.address, ['produce', 't', 'a:1', 'b:2', 'c:3', 'd:4'])
  const following = cli(broker.address, ['consume', 't', '--follow', '--json', '--max', '6'])
  await cli(broker.address, ['produce', 't', 'e:5', 'f:6'])
  assert.deepEqual(values(await following).sort(), ['1', '2', '3', '4', '5', '6'])
})

test('cli: following from the end, or from a time to come, shows nothing old', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't', '-p', '3'])
  await cli(broker.address, ['produce', 't', 'a:old', 'b:old', 'c:old'])
  for (const from of ['latest', '2100-01-01T00:00:00Z']) {
    let isDone = false
    const following = cli(broker.address, ['consume', 't', '--follow', '--json', '--max', '1', '--from', from]).finally(() => {
      isDone = true
    })
    // When the reader begins to follow cannot be seen from outside, so new records come until it has one.
    await using client = await connect({ address: broker.address })
    await using producer = client.producer()
    while (!isDone) await producer.send('t', { key: 'a', value: 'new' })
    assert.deepEqual(values(await following), ['new'], from)
  }
})

test('cli: a follower ends quietly when interrupted', async () => {
  await using broker = await startTestBroker()
  await cli(broker.address, ['topic', 'create', 't'])
  const interrupt = new AbortController()
  const ended = run(
    {
      out: () => {},
      err: () => {},
      stdin: new PassThrough(),
      stdinIsTerminal: false,
      errIsTerminal: false,
      colour: false,
      env: { MOONMQ_BROKER: broker.address },
      cwd: '/',
      signal: interrupt.signal,
    },
    ['consume', 't', '--follow'],
  )
  interrupt.abort()
  assert.equal(await ended, 130)
})
