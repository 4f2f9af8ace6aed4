import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MoonMQError } from '../../../src/core/errors.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { Executor } from '../../../src/mql/executor.ts'
import { Repl } from '../../../src/mql/repl.ts'
import { like } from '../../../src/mql/where.ts'
import { FakeOperations, fakeRecord } from '../../support/fake-operations.ts'

const { signal } = new AbortController()

async function session() {
  const operations = new FakeOperations()
  const clock = new VirtualClock(0)
  const executor = new Executor({ connect: async () => operations, clock }, { session: { host: 'h', port: 1, user: '', password: '' } })
  await executor.open(signal)
  const results: unknown[] = []
  const failures: string[] = []
  const repl = new Repl({
    executor,
    output: { result: (result) => void results.push(result), failed: (_error, rendered) => void failures.push(rendered) },
    nowMs: () => clock.monotonicMs(),
  })
  const calls = () => operations.calls.splice(0).map(([name]) => name)
  return { operations, executor, repl, clock, results, failures, calls, type: (line: string) => repl.line(line, signal) }
}

test('input runs up to the last semicolon; the rest waits for the next line', async () => {
  const { repl, type, calls } = await session()
  assert.equal(repl.prompt, 'mq> ')
  assert.equal(await type('list topics; list'), 'more')
  assert.deepEqual(calls(), ['listTopics'])
  assert.equal(repl.prompt, '..> ')
  assert.equal(await type("  -- a comment; with 'quotes"), 'more')
  assert.equal(await type('groups; -- done'), 'ready')
  assert.deepEqual(calls(), ['listGroups'])
  assert.equal(repl.prompt, 'mq> ')
  await type('drop topic')
  repl.discard()
  assert.equal(await type('list topics;'), 'ready')
  assert.deepEqual(calls(), ['listTopics'])
})

test('a failed statement does not stop those behind it; a mistake discards all that was entered', async () => {
  const { operations, type, calls, failures } = await session()
  operations.failure = new MoonMQError('TOPIC_MISSING', { topic: 't' })
  assert.equal(await type('drop topic t; list groups;'), 'ready')
  assert.deepEqual(calls(), ['dropTopic', 'listGroups'])
  assert.deepEqual(failures.splice(0), ['topic "t" does not exist (TOPIC_MISSING)\n'])
  await type('list topics;')
  assert.equal(await type('list topics'), 'more')
  assert.equal(await type('; drop topic a b;'), 'ready')
  assert.deepEqual(calls(), ['listTopics'])
  assert.match(failures.splice(0).join(), /found "b" \(line 2, column 16\)\n {2}; drop topic a b;\n {17}\^\n/)
  await type("list topics; produce into t value 'open")
  assert.deepEqual(calls(), [])
  assert.match(failures.splice(0).join(), /the string is not closed/)
})

test('QUIT leaves, and what stands before it is run', async () => {
  const { type, calls } = await session()
  assert.equal(await type('list topics; quit; list groups;'), 'quit')
  assert.deepEqual(calls(), ['listTopics'])
})

test('QUIT behind a statement that failed leaves all the same', async () => {
  const { operations, repl, type, calls } = await session()
  operations.failure = new MoonMQError('TOPIC_MISSING', { topic: 't' })
  assert.equal(await type('drop topic t; quit; list groups;'), 'quit')
  operations.failure = new MoonMQError('TOPIC_MISSING', { topic: 't' })
  const all = { lastMayEnd: true, stopOnError: false }
  assert.deepEqual(await repl.all('drop topic t; quit; list groups', signal, all), { failed: true, quit: true })
  assert.deepEqual(await repl.all('quit', signal, all), { failed: false, quit: true })
  assert.deepEqual(calls(), ['dropTopic', 'dropTopic'])
})

test('input of many lines is taken apart once, and places count from its beginning', async (context) => {
  const { repl, type, calls, failures } = await session()
  const looks = context.mock.method(RegExp.prototype, 'exec').mock
  await type('produce into t')
  for (let i = 0; i < 200; i++) assert.equal(await type(`  header h${i} 'value ${i}' -- "a comment`), 'more')
  assert.equal(await type("  value 'last'; list"), 'more')
  assert.deepEqual(calls(), ['produce'])
  assert.ok(looks.callCount() < 10_000, `${looks.callCount()} looks at 200 lines`)
  looks.restore()
  // The rest behind the last semicolon is a beginning of its own.
  await type('  topics x;')
  assert.match(failures.splice(0).join(), /found "x" \(line 2, column 10\)\n {4}topics x;\n {11}\^\n/)
  assert.equal(await type('list'), 'more')
  assert.equal(await type('\ttopics; -- 😀'), 'ready')
  assert.deepEqual(calls(), ['listTopics'])
  assert.equal(repl.prompt, 'mq> ')
})

test('input that grows beyond its bound is thrown away, and said so', async () => {
  const { type, failures, repl } = await session()
  const line = `-- ${'x'.repeat(1024 * 1024)}`
  assert.equal(await type('list'), 'more')
  for (let i = 0; i < 3; i++) assert.equal(await type(line), 'more')
  assert.equal(await type(line), 'ready')
  assert.match(failures.splice(0).join(), /the input is longer than 4194304 characters/)
  assert.equal(repl.prompt, 'mq> ')
})

test('what is given up keeps the statements behind it from running, though it has something to show', async () => {
  const { operations, repl, calls, results } = await session()
  const stop = new AbortController()
  operations.records = [fakeRecord(0, 'a'), fakeRecord(1, 'b')]
  operations.beforeEach = ({ offset }) => {
    if (offset !== 1) return
    stop.abort()
    throw new MoonMQError('ABORTED')
  }
  assert.deepEqual(await repl.all('subscribe t; drop topic t;', stop.signal, { lastMayEnd: false, stopOnError: false }), {
    failed: true,
    quit: false,
  })
  assert.deepEqual([calls(), results.length], [['subscribe'], 1])
})

test('a whole input: all of it parses before any of it runs', async () => {
  const { operations, repl, calls, failures } = await session()
  const file = { lastMayEnd: false, stopOnError: false }
  assert.deepEqual(await repl.all('list topics;\nlist groups', signal, file), { failed: true, quit: false })
  assert.deepEqual(calls(), [])
  assert.match(failures.splice(0).join(), /";" at the end of the statement/)
  assert.deepEqual(await repl.all('list topics;\nlist groups', signal, { ...file, lastMayEnd: true }), { failed: false, quit: false })
  assert.deepEqual(calls(), ['listTopics', 'listGroups'])
  operations.failure = new MoonMQError('TOPIC_MISSING', { topic: 't' })
  assert.deepEqual(await repl.all('drop topic t; list groups;', signal, { ...file, stopOnError: true }), { failed: true, quit: false })
  assert.deepEqual(calls(), ['dropTopic'])
})

test('the end of the input with something begun is a mistake, a comment is none', async () => {
  const { repl, type, failures } = await session()
  await type('list topics; -- and')
  assert.equal(repl.end(), true)
  await type('list')
  assert.equal(repl.end(), false)
  assert.match(failures.join(), /found the end of the input \(line 1, column 5\)/)
})

test('completion: first words, words of the statement, names of topics and groups in quotes where they need them', async () => {
  const { operations, repl, clock, type, executor } = await session()
  const complete = async (line: string) => (await repl.complete(line, signal))[0]
  assert.deepEqual(await complete('SEL'), ['SELECT'])
  assert.deepEqual(await complete('list topics; di'), ['disconnect'])
  assert.ok((await complete('')).includes('SUBSCRIBE'))
  assert.deepEqual(await complete('FETCH FROM o'), ['orders'])
  assert.deepEqual(await complete("fetch from '"), ["'topic'"])
  assert.deepEqual(await complete('FETCH FROM t GROUP '), ['billing'].concat((await complete('FETCH ')).filter((word) => word !== '')))
  assert.deepEqual(await complete('select key from orders wh'), ['where'])
  assert.deepEqual(await complete('JOIN GROUP g ON a, or'), ['orders'])
  await type('describe')
  assert.deepEqual(await complete('or'), ['orders'])
  operations.calls.length = 0
  await complete('FETCH FROM ')
  assert.deepEqual(operations.calls, [])
  await clock.advance(6_000)
  operations.failure = new MoonMQError('CONNECTION_CLOSED', { reason: 'gone' })
  assert.deepEqual(await complete('or'), [])
  await executor.close()
  await clock.advance(6_000)
  assert.deepEqual(await complete('or'), [])
})

test('LIKE: any text, one code point, escapes, and no time lost on hostile patterns', () => {
  const fits = (text: string, pattern: string) => like(text, pattern, { isOver: false }).next().value
  const yes: [string, string][] = [
    ['', ''],
    ['', '%%'],
    ['abc', 'a%c'],
    ['abc', '___'],
    ['a𝄞c', 'a_c'],
    ['50%', '50\\%'],
    ['a_b', 'a\\_b'],
    ['a\\b', 'a\\\\b'],
    ['mississippi', '%iss%pi'],
    ['𝄞𝄞', '%_𝄞'],
  ]
  for (const [text, pattern] of yes) assert.equal(fits(text, pattern), true, `${text} ${pattern}`)
  const no: [string, string][] = [
    ['a', ''],
    ['', '_'],
    ['abc', 'a%d'],
    ['50x', '50\\%'],
    ['abcd', '___'],
    ['𝄞', '%__'],
    ['a'.repeat(5_000), `${'%a'.repeat(50)}b`],
  ]
  for (const [text, pattern] of no) assert.equal(fits(text, pattern), false, `${text.slice(0, 20)} ${pattern}`)
})
