import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_METRICS } from '../../src/core/counters.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { MIB } from '../../src/core/limits.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { NATIVE_HANDLERS } from '../../src/native/handlers/index.ts'
import { NativeDoor } from '../../src/native/listener.ts'
import type { AnyHandler } from '../../src/native/session.ts'
import { ServerStatements, type StatementLimits } from '../../src/server/statements.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { fakeBroker } from '../support/fake-broker.ts'

interface Answer {
  readonly status: number
  readonly body: { readonly results?: readonly Record<string, unknown>[]; readonly error?: string; readonly [other: string]: unknown }
}

async function ask(address: { host: string; port: number }, statement: string, more: object = {}): Promise<Answer> {
  const body = JSON.stringify({ statement, ...more })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`http://${address.host}:${address.port}/mql`, { method: 'POST', headers, body })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

function rowsOf({ body }: Answer, at: number): readonly Record<string, unknown>[] {
  return (body.results?.[at]?.['rows'] ?? []) as readonly Record<string, unknown>[]
}

const HTTP = { http: { host: '127.0.0.1', port: 0 } }

test('POST /mql: statements of one request share a session, rows and facts are JSON, failures have their code and status', async () => {
  await using broker = await startTestBroker(HTTP)
  const at = broker.httpAddress
  assert.ok(at !== null)
  const made = await ask(at, 'CREATE TOPIC t PARTITIONS 2; PRODUCE INTO t KEY k VALUE \'{"n": 1}\' HEADER h x PARTITION 1; LIST TOPICS')
  assert.deepEqual(made, {
    status: 200,
    body: {
      results: [
        { facts: { created: 't', partitions: 2 }, notes: ['created topic t with 2 partitions'] },
        { facts: { topic: 't', partition: 1, offset: 0 }, notes: ['stored in t partition 1 offset 0'] },
        { columns: ['topic', 'partitions'], rows: [{ topic: 't', partitions: 2 }], notes: [] },
      ],
    },
  })
  const read = await ask(
    at,
    'SELECT offset, value.n, headers FROM t; FETCH FROM t GROUP g; NACK t PARTITION 1 OFFSET 0; COMMIT t PARTITION 1 OFFSET 0',
  )
  assert.equal(read.status, 200)
  assert.deepEqual(read.body.results?.[0], {
    columns: ['offset', 'value.n', 'headers'],
    rows: [{ offset: 0, 'value.n': 1, headers: { h: 'x' } }],
    notes: [],
  })
  assert.equal((read.body.results?.[2] as { facts?: { attempts: number } } | undefined)?.facts?.attempts, 1)
  // A session ends with its request: nothing was fetched in this one, and what was begun is rolled back.
  assert.equal((await ask(at, 'COMMIT t PARTITION 1 OFFSET 1')).body.results?.[0]?.['error'], 'INVALID_REQUEST')
  assert.equal((await ask(at, 'BEGIN; PRODUCE INTO t VALUE never')).status, 200)
  assert.deepEqual((await ask(at, 'SELECT COUNT(*) FROM t')).body.results?.[0]?.['rows'], [{ count: 1 }])
  const failed = await ask(at, 'DROP TOPIC none; LIST GROUPS; QUIT; DROP TOPIC t')
  assert.equal(failed.status, 404)
  assert.deepEqual(
    failed.body.results?.map(({ error }) => error),
    ['TOPIC_MISSING', undefined],
  )
  const stopped = await ask(at, 'DROP TOPIC none; LIST GROUPS', { stopOnError: true })
  assert.deepEqual([stopped.status, stopped.body.results?.length], [404, 1])
  assert.deepEqual(await ask(at, 'LIST TOPICS;\nDROP TOPIC 😀'), {
    status: 400,
    body: { error: 'SYNTAX', message: '"😀" means nothing here', line: 2, column: 12, position: 25 },
  })
  // It goes nowhere else, and is nobody else.
  for (const elsewhere of ["CONNECT TO '127.0.0.1' PORT 1", 'CONNECT USER root', "CONNECT PASSWORD 'x'"]) {
    const { status, body } = await ask(at, `${elsewhere}; LIST TOPICS`)
    assert.deepEqual([status, body.results?.map(({ error }) => error)], [400, ['INVALID_REQUEST', 'CONNECT_FAILED']], elsewhere)
  }
  assert.equal((await ask(at, 'DISCONNECT; CONNECT; LIST TOPICS')).status, 200)
})

const LIMITS: StatementLimits = {
  maxMs: 30_000,
  scan: { maxRecords: 1_000, maxBytes: MIB, maxMs: 10_000 },
  result: { maxRows: 3, maxBytes: 2_000, maxMs: 10_000 },
  maxAnswerBytes: 1_500,
}

/** Statements at a native door over the broker in memory; `rights` says who may ask what. */
async function inside(rights: Readonly<Record<string, readonly string[]>> | null, limits: StatementLimits = LIMITS) {
  const { broker, clock } = await fakeBroker({}, NO_METRICS, null)
  await broker.loadGroups()
  const allowed = (principal: string, op: string) => rights === null || rights[principal]?.includes(op) === true
  const handlers = NATIVE_HANDLERS.map((each): AnyHandler => {
    if (['HELLO', 'AUTH', 'IDENTIFY_CLIENT'].includes(each.op)) return each
    return {
      op: each.op,
      handle(call, message) {
        const { principal } = call.context
        if (!allowed(principal, each.op)) throw MoonMQError.withText('NOT_AUTHORIZED', `${principal} may not ${each.op}`)
        return each.handle(call, message)
      },
    }
  })
  const random = new SeededRandom(7)
  const door = new NativeDoor({ broker, clock, random, log: SILENT, metrics: NO_METRICS, handlers })
  let id = 0
  const statements = new ServerStatements(
    {
      accept: (connection, principal) =>
        door.accept(connection, Buffer.alloc(0), { id: ++id, listener: 'inside', advertised: null, principal, loggedIn: () => {} }),
      clock,
      random,
    },
    limits,
  )
  const { signal } = new AbortController()
  const run = async (principal: string, source: string, given = signal): Promise<Answer> => {
    let done = false
    const running = statements.run(principal, { source, stopOnError: false }, given).finally(() => {
      done = true
    })
    while (!done) {
      await clock.advance(1)
      await new Promise((resolve) => setImmediate(resolve))
    }
    const { status, body } = await running
    return { status, body: JSON.parse(body) as Answer['body'] }
  }
  return { door, clock, run }
}

test('statements have the rights of who asks, and no others: each request is checked at the native door', async () => {
  const { door, run } = await inside({
    'User:admin': ['CREATE', 'LIST', 'SEND_SEQUENCED', 'OPEN_PRODUCER', 'DESCRIBE', 'LIST_OFFSETS', 'READ'],
    'User:reader': ['LIST', 'DESCRIBE', 'LIST_OFFSETS', 'READ'],
  })
  assert.equal((await run('User:admin', 'CREATE TOPIC t; LIST TOPICS')).status, 200)
  const reader = await run(
    'User:reader',
    'LIST TOPICS; SELECT COUNT(*) FROM t; CREATE TOPIC u; DROP TOPIC t; FETCH FROM t; LIST GROUPS; BEGIN; ALTER TOPIC t PARTITIONS 3',
  )
  assert.equal(reader.status, 403)
  const told = reader.body.results?.map(({ error }) => error)
  assert.deepEqual(told, [undefined, undefined, ...new Array<string>(6).fill('NOT_AUTHORIZED')])
  assert.match(String(reader.body.results?.[2]?.['message']), /User:reader may not CREATE/)
  const nobody = await run('User:nobody', 'LIST TOPICS')
  assert.deepEqual([nobody.status, nobody.body.results?.[0]?.['error']], [403, 'NOT_AUTHORIZED'])
  assert.deepEqual((await run('User:admin', 'LIST TOPICS')).body.results?.[0]?.['rows'], [{ topic: 't', partitions: 1 }])
  await door.close()
  assert.equal(door.openConnections, 0)
})

test('statements are bounded: rows, bytes of a result and of all of them, time, and whoever asked may go away', async () => {
  const { door, run } = await inside(null)
  const produce = Array.from({ length: 9 }, (_, at) => `PRODUCE INTO t VALUE '${String(at).repeat(300)}';`).join('')
  assert.equal((await run('User:a', `CREATE TOPIC t; ${produce}`)).status, 200)
  const [rows, some, fetched, pushed] = (
    await run('User:a', 'SELECT offset FROM t; SELECT value AS a, value AS b, value AS c FROM t LIMIT 9; FETCH FROM t; SUBSCRIBE t GROUP s')
  ).body.results as { rows: unknown[]; notes: string[]; message?: string }[]
  assert.deepEqual([rows?.rows.length, rows?.notes], [3, ['the first 3; there are more (LIMIT)']])
  assert.deepEqual([some?.rows.length, some?.notes], [3, ['stopped early, with 2000 bytes of result, before: partition 0 offset 3']])
  // What the answer has no room for is not run: what it would deliver counts as read.
  assert.deepEqual(
    [fetched?.message, pushed],
    ['the answer has 1500 bytes already: this statement and those behind it were not run', undefined],
  )
  const fetch = await run('User:a', "FETCH FROM t; SHOW OFFSETS FROM t GROUP ''")
  assert.deepEqual([rowsOf(fetch, 0).length, rowsOf(fetch, 1)[0]?.['committed']], [3, 3])
  const push = await run('User:a', 'SUBSCRIBE t GROUP s; SHOW OFFSETS FROM t GROUP s')
  assert.deepEqual([rowsOf(push, 0).length, rowsOf(push, 1)[0]?.['committed']], [3, 3])
  const gone = new AbortController()
  gone.abort()
  assert.deepEqual(await run('User:a', 'LIST TOPICS', gone.signal), { status: 499, body: { error: 'ABORTED', message: 'aborted' } })
  await door.close()
})

test('a SUBSCRIBE that would collect for too long ends with what it has, and a request that takes too long says so', async () => {
  const { door, run } = await inside(null, { ...LIMITS, result: { ...LIMITS.result, maxMs: 200 } })
  const collected = await run('User:a', 'CREATE TOPIC t; PRODUCE INTO t VALUE x; SUBSCRIBE t TIMEOUT 3600')
  assert.deepEqual([collected.status, rowsOf(collected, 2).length], [200, 1])
  await door.close()
  const slow = await inside(null, { ...LIMITS, maxMs: 300 })
  const late = await slow.run('User:a', 'CREATE TOPIC t; SUBSCRIBE t TIMEOUT 2; LIST TOPICS')
  assert.deepEqual([late.status, late.body.results?.map(({ error }) => error)], [504, [undefined, 'REQUEST_TIMED_OUT']])
  await slow.door.close()
})
