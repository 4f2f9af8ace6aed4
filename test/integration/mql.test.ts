import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { CliContext } from '../../src/cli/context.ts'
import { converse } from '../../src/cli/sql/terminal.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SystemRandom } from '../../src/core/random.ts'
import { ClientOperations } from '../../src/mql/client-operations.ts'
import { Executor } from '../../src/mql/executor.ts'
import { type Result, textResult } from '../../src/mql/format.ts'
import { type LineOutcome, Repl } from '../../src/mql/repl.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { cliIn } from '../support/cli.ts'

/** Runs `moonmq sql` against a broker. */
function sql(address: string, argv: readonly string[], input = '') {
  return cliIn('/', ['sql', ...argv], { env: { MOONMQ_BROKER: address }, input })
}

function objects(out: string): Record<string, unknown>[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('moonmq sql: topics and records from -c, from a file and from standard input', async () => {
  await using broker = await startTestBroker()
  const made = await sql(broker.address, [
    '-c',
    "CREATE TOPIC orders PARTITIONS 2 SET retention.ms = 3600000; PRODUCE INTO orders KEY ada VALUE '{\"pieces\": 12}' HEADER trace 'a-1' PARTITION 1",
    '-c',
    'PRODUCE INTO orders VALUE second PARTITION 0; ALTER TOPIC orders SET flush.messages = 5; ALTER TOPIC orders PARTITIONS 3',
  ])
  assert.equal(made.code, 0, made.err)
  assert.equal(
    made.out,
    'created topic orders with 2 partitions\nstored in orders partition 1 offset 0\nstored in orders partition 0 offset 0\n' +
      'changed on topic orders: flush.messages\ntopic orders has 3 partitions\n',
  )
  const selected = await sql(
    broker.address,
    ['--json'],
    "SELECT offset, key, value.pieces\n  FROM orders WHERE header.trace = 'a-1';\nSHOW OFFSETS FROM orders;\n",
  )
  assert.deepEqual(objects(selected.out)[0], { offset: 0, key: 'ada', 'value.pieces': 12 })
  assert.equal(objects(selected.out).length, 4)
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-sql-'))
  try {
    const path = join(folder, 'script.mql')
    await writeFile(path, '-- what there is\nLIST TOPICS;\nDESCRIBE orders;\nDROP TOPIC orders;\nLIST TOPICS;\n')
    const { code, out } = await sql(broker.address, ['-f', path])
    assert.equal(code, 0)
    assert.match(out, /orders +3[\s\S]+settings: flush.messages=5, retention.ms=3600000\ndropped topic orders\nno topics yet/)
    assert.equal((await sql(broker.address, ['-f', join(folder, 'none')])).code, 2)
    assert.equal((await sql(broker.address, ['-f', path, '-c', 'LIST TOPICS'])).code, 2)
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('moonmq sql: a group reads on where it was, commits, and sees its lag; a scan stays between its bounds', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('t', { partitions: 2 })
  const values = Array.from({ length: 20 }, (_, index) => ({ value: `v${index}`, partition: index % 2 }))
  await client.producer().sendMany('t', values)
  const first = await sql(broker.address, [
    '--json',
    '-c',
    'FETCH FROM t GROUP g LIMIT 6; COMMIT t PARTITION 0 OFFSET 1; SHOW OFFSETS FROM t GROUP g',
  ])
  assert.deepEqual(
    objects(first.out)
      .slice(-2)
      .map(({ committed, lag }) => [committed, lag]),
    [
      [1, 9],
      [3, 7],
    ],
  )
  const next = objects((await sql(broker.address, ['--json', '-c', 'SUBSCRIBE t GROUP g TIMEOUT 30 LIMIT 16'])).out)
  assert.equal(next.length, 16)
  assert.deepEqual(
    next.filter(({ partition }) => partition === 0).map(({ offset }) => offset),
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
  )
  const offsets = await client.admin.committedOffsets('g', ['t'])
  assert.deepEqual(offsets, [{ topic: 't', offsets: [10, 10] }])
  const scans: readonly (readonly [string, number])[] = [
    ['FROM 3 TO 5', 4],
    ['PARTITION 1 FROM 8', 2],
    ['PARTITION 1 FROM 99', 0],
    ['TO EARLIEST', 0],
    ['FROM LATEST', 0],
    ['FROM 1h', 20],
    ['TO 1h', 0],
    ["TO '2100-01-01'", 20],
    ['LIMIT 3', 3],
  ]
  for (const [clauses, count] of scans) {
    const { out, code } = await sql(broker.address, ['--json', '-c', `SELECT value FROM t ${clauses}`])
    assert.deepEqual([code, objects(out).length], [0, count], clauses)
  }
  const stopped = await sql(broker.address, ['--scan-records', '5', '-c', 'SELECT COUNT(*) FROM t'])
  assert.match(stopped.out, /COUNT|count/)
  assert.match(stopped.out, /stopped early, after looking at 5 records/)
  const missing = await sql(broker.address, ['-c', 'SELECT key FROM t PARTITION 7'])
  assert.equal(missing.code, 3)
})

test('moonmq sql: groups read headers, null values and values beyond 64 KiB, asked for and pushed, as members too', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('t')
  const large = 'x'.repeat(100_000)
  const headers = [
    { key: 'a', value: '1' },
    { key: 'b', value: 'first' },
    { key: 'b', value: null },
  ]
  await client.producer().sendMany('t', [{ key: 'k', value: null, headers }, { value: large }])
  const rows = [
    { partition: 0, offset: 0, key: 'k', value: null, headers: { a: '1', b: ['first', null] } },
    { partition: 0, offset: 1, key: null, value: large, headers: {} },
  ]
  for (const statements of [
    'FETCH FROM t GROUP f',
    'SUBSCRIBE t GROUP s TIMEOUT 1',
    'JOIN GROUP m ON t; SUBSCRIBE t GROUP m TIMEOUT 1; LEAVE',
  ]) {
    const { out, err, code } = await sql(broker.address, ['--json', '-c', statements])
    assert.equal(code, 0, err)
    assert.deepEqual(
      objects(out).filter((each) => 'offset' in each),
      rows,
      statements,
    )
  }
  // What LIMIT leaves comes next.
  for (const statements of [
    'JOIN GROUP n ON t; SUBSCRIBE t GROUP n LIMIT 1; SUBSCRIBE t GROUP n LIMIT 1',
    'SUBSCRIBE t GROUP p LIMIT 1; SUBSCRIBE t GROUP p LIMIT 1',
  ]) {
    const { out } = await sql(broker.address, ['--json', '-c', statements])
    assert.deepEqual(
      objects(out).flatMap(({ offset }) => offset ?? []),
      [0, 1],
    )
  }
  for (const group of ['f', 's', 'm', 'n', 'p']) {
    assert.deepEqual(await client.admin.committedOffsets(group, ['t']), [{ topic: 't', offsets: [2] }], group)
  }
})

test('moonmq sql: mistakes show their place, failures their code; later statements run unless told to stop', async () => {
  await using broker = await startTestBroker()
  const wrong = await sql(broker.address, ['-c', 'LIST TOPICS; DROP TOPIC a b'])
  assert.deepEqual([wrong.code, wrong.out], [2, ''])
  assert.match(
    wrong.err,
    /expected ";" or another part of the statement, found "b" \(line 1, column 27\)\n {2}LIST TOPICS; DROP TOPIC a b\n {28}\^/,
  )
  const json = await sql(broker.address, ['--json', '-c', 'DROP'])
  assert.deepEqual(objects(json.out), [
    { error: 'SYNTAX', message: 'expected TOPIC or GROUP, found the end of the input', line: 1, column: 5, position: 5 },
  ])
  const script = 'DROP TOPIC none; CREATE TOPIC there; LIST TOPICS;'
  const going = await sql(broker.address, ['-c', script])
  assert.equal(going.code, 3)
  assert.match(going.err, /topic "none" does not exist \(TOPIC_MISSING\)/)
  assert.match(going.out, /there +1/)
  const stopping = await sql(broker.address, ['--stop-on-error', '-c', script, '-c', 'LIST TOPICS'])
  assert.deepEqual([stopping.code, stopping.out], [3, ''])
  const nack = await sql(broker.address, ['-c', 'NACK there PARTITION 0 OFFSET 0'])
  assert.match(nack.err, /FETCH first/)
  const piped = await sql(broker.address, [], 'LIST TOPICS;\nQUIT;\nDROP TOPIC there;\n')
  assert.match(piped.out, /^TOPIC +PARTITIONS\nthere +1\n$/)
  const behindFailure = await sql(broker.address, [], 'DROP TOPIC none; QUIT;\nDROP TOPIC there;\n')
  assert.deepEqual([behindFailure.code, behindFailure.out], [3, ''])
  assert.equal((await sql(broker.address, ['-c', 'QUIT;', '-c', 'DROP TOPIC there'])).code, 0)
  assert.match((await sql(broker.address, ['-c', 'LIST TOPICS'])).out, /there +1/)
  assert.equal((await sql('127.0.0.1:1', ['-c', 'LIST TOPICS'])).code, 5)
})

test('moonmq sql: CONNECT moves the session to another broker', async () => {
  await using one = await startTestBroker()
  await using two = await startTestBroker()
  const { out, code } = await sql(one.address, [
    '-c',
    `CREATE TOPIC a; CONNECT TO '${two.address}'; CREATE TOPIC b; LIST TOPICS; CONNECT HOST '${one.host}' PORT ${one.port}; LIST TOPICS`,
  ])
  assert.equal(code, 0)
  assert.match(out, /b +1\nconnected to [^\n]+\nTOPIC +PARTITIONS\na +1\n$/)
})

test('moonmq sql: a transaction counts all together or not at all, with the offsets of a group', async () => {
  await using broker = await startTestBroker()
  const run = (statements: string) => sql(broker.address, ['--json', '-c', statements])
  const values = async () => objects((await run('SELECT value FROM t')).out).map(({ value }) => value)
  await run('CREATE TOPIC source; CREATE TOPIC t PARTITIONS 2; PRODUCE INTO source VALUE a; PRODUCE INTO source VALUE b')
  const committed = await run(
    'FETCH FROM source GROUP g LIMIT 1; BEGIN AS copier; PRODUCE INTO t VALUE a PARTITION 0; PRODUCE INTO t VALUE b PARTITION 1; SELECT COUNT(*) FROM t; ' +
      'COMMIT source PARTITION 0 OFFSET 2; COMMIT; SELECT COUNT(*) FROM t; SHOW OFFSETS FROM source GROUP g',
  )
  assert.equal(committed.code, 0, committed.err)
  const told = objects(committed.out)
  assert.deepEqual(
    told.filter((each) => 'count' in each),
    [{ count: 0 }, { count: 2 }],
  )
  assert.equal(told.at(-1)?.['committed'], 2)
  const rolled = await run('BEGIN; PRODUCE INTO t VALUE never PARTITION 0; ROLLBACK; PRODUCE INTO t VALUE c PARTITION 0')
  assert.equal(rolled.code, 0, rolled.err)
  // Nobody said COMMIT.
  assert.equal((await run('BEGIN TRANSACTION; PRODUCE INTO t VALUE left PARTITION 1')).code, 0)
  assert.deepEqual((await values()).sort(), ['a', 'b', 'c'])
  assert.match((await run('COMMIT')).err, /there is no transaction: say BEGIN first/)
  assert.match((await run('BEGIN; BEGIN')).err, /a transaction is open/)
})

test('moonmq sql: NACK until the record is a dead letter; membership with its share; groups are listed, described, dropped', async () => {
  await using broker = await startTestBroker()
  const run = (statements: string) => sql(broker.address, ['--json', '-c', statements])
  await run('CREATE TOPIC t PARTITIONS 2; PRODUCE INTO t VALUE bad PARTITION 1')
  const nack = "FETCH FROM t GROUP g; NACK t PARTITION 1 OFFSET 0 REASON 'no such customer';"
  const nacked = await run(nack.repeat(3))
  assert.equal(nacked.code, 0, nacked.err)
  assert.deepEqual(
    objects(nacked.out)
      .filter((each) => 'attempts' in each)
      .map(({ deadLettered, attempts, deadLetterTopic }) => [deadLettered, attempts, deadLetterTopic]),
    [
      [false, 1, null],
      [false, 2, null],
      [true, 3, 't.dlq'],
    ],
  )
  const letter = await run('SELECT value, header.moonmq.dlq.reason AS why FROM t.dlq')
  assert.deepEqual(objects(letter.out), [{ value: 'bad', why: 'no such customer' }])
  const member = await run(
    'JOIN GROUP m ON t; HEARTBEAT; SHOW GROUP; DESCRIBE GROUP m; PRODUCE INTO t VALUE mine PARTITION 0; SUBSCRIBE t GROUP m TIMEOUT 1; LEAVE; SHOW GROUP',
  )
  assert.equal(member.code, 0, member.err)
  const rows = objects(member.out)
  assert.deepEqual(rows[0], { group: 'm', topic: 't', partitions: '0, 1' })
  assert.equal(rows.filter(({ value }) => value === 'mine').length, 1)
  assert.equal(rows.filter(({ member: owner }) => typeof owner === 'string').length, 2)
  assert.match(member.err, /member of no group/)
  const groups = await run('SHOW GROUPS; DROP GROUP g; DROP GROUP m; SHOW GROUPS')
  assert.equal(groups.code, 0, groups.err)
  assert.deepEqual(
    objects(groups.out).map(({ group, dropped }) => group ?? dropped),
    ['g', 'm', 'g', 'm'],
  )
})

/** A console whose statements are written down; the terminal is a stream. With each text goes how many lines there are once it has had its effect. */
async function typed(home: string, keys: readonly (readonly [text: string, lines: number])[], outcome: (line: string) => LineOutcome) {
  const stdin = new PassThrough()
  const output = new PassThrough()
  let shown = ''
  output.on('data', (bytes: Buffer) => {
    shown += bytes.toString()
  })
  const lines: string[] = []
  const repl = {
    prompt: 'mq> ',
    discard: () => lines.push('(discarded)'),
    complete: async (line: string) => [[`${line}done`], line],
    line: async (line: string) => {
      lines.push(line)
      return outcome(line)
    },
  }
  let err = ''
  const context = { stdin, env: { HOME: home }, signal: new AbortController().signal, err: (text: string) => (err += text) }
  const running = converse(context as unknown as CliContext, repl as unknown as Repl, output)
  for (const [text, count] of keys) {
    stdin.write(text)
    while (lines.length < count) await new Promise((resolve) => setImmediate(resolve))
  }
  await running
  return { lines, shown, err }
}

test('the terminal: keywords and names are completed, input goes over lines, mistakes are shown, an interrupt gives the statement up', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('orders')
  await client.admin.createTopic('other.topic')
  await client.producer().send('orders', { key: 'k', value: 'v' })
  const home = await mkdtemp(join(tmpdir(), 'moonmq-sql-'))
  const clock = new SystemClock()
  const deps = { client, clock, random: new SystemRandom() }
  await using executor = new Executor({ connect: async () => new ClientOperations(deps, 'here'), clock }, { session: NOBODY })
  const { signal } = new AbortController()
  await executor.open(signal)
  let told = ''
  const output = {
    result: (result: Result) => {
      told += textResult(result)
    },
    failed: (_error: unknown, rendered: string) => {
      told += rendered
    },
  }
  const repl = new Repl({ executor, output, nowMs: () => clock.monotonicMs() })
  const stdin = new PassThrough()
  const screen = new PassThrough()
  let shown = ''
  screen.on('data', (bytes: Buffer) => {
    shown += bytes.toString()
  })
  const context = { stdin, env: { HOME: home }, signal, err: () => undefined }
  const running = converse(context as unknown as CliContext, repl, screen)
  /** Types, and waits until that is on the screen or was told. */
  const type = async (keys: string, until: string) => {
    shown = ''
    told = ''
    // A Tab within pasted text completes nothing.
    for (const key of keys) stdin.write(key)
    while (!shown.includes(until) && !told.includes(until)) await new Promise((resolve) => setImmediate(resolve))
  }
  try {
    await type('list top\t', 'ics')
    await type(';\r', 'other.topic')
    await type('sel\t', 'ect')
    await type(' key\r', '..> ')
    await type('from ord\t', 'ers')
    await type(';\r', 'k\n')
    await type("drop topic '😀' x;\r", 'column 16')
    await type('subscribe orders group g timeout 3600;\r', 'subscribe')
    // It waits for more when the first record is there.
    while ((await client.admin.listGroups()).length === 0) await new Promise((resolve) => setImmediate(resolve))
    await type('\u0003', 'mq> ')
    await type('help quit;\r', 'Leaves the console')
    stdin.write('quit;\r')
    await running
    assert.match(await readFile(join(home, '.moonmq_history'), 'utf8'), /^list topics;\nselect key\nfrom orders;\ndrop topic '😀' x;\n/)
  } finally {
    await rm(home, { recursive: true })
  }
})

const NOBODY = { host: 'here', port: 1, user: '', password: '' }

test('the terminal: lines that are pasted wait their turn, the history is kept without passwords, interrupts give up', async () => {
  const home = await mkdtemp(join(tmpdir(), 'moonmq-sql-'))
  try {
    const pasted = await typed(home, [["list topics;\nconnect password 'x';\nquit;\n", 3]], (line) => (line === 'quit;' ? 'quit' : 'ready'))
    assert.deepEqual(pasted.lines, ['list topics;', "connect password 'x';", 'quit;'])
    assert.equal(await readFile(join(home, '.moonmq_history'), 'utf8'), 'list topics;\nquit;\n')
    // Up twice is the line before the last one; ^C throws away what was begun, and on an empty line leaves.
    const again = await typed(
      home,
      [
        ['\u001b[A\u001b[A\n', 1],
        ['half\u0003', 2],
        ['\u0003', 2],
      ],
      () => 'ready',
    )
    assert.deepEqual(again.lines, ['list topics;', '(discarded)'])
    assert.equal(pasted.err + again.err, '')
    const ended = await typed(home, [['\u0004', 0]], () => 'ready')
    assert.deepEqual(ended.lines, [])
  } finally {
    await rm(home, { recursive: true })
  }
})
