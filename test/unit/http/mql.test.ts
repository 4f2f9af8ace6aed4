import assert from 'node:assert/strict'
import { type IncomingHttpHeaders, request } from 'node:http'
import { test } from 'node:test'
import { NO_METRICS } from '../../../src/core/counters.ts'
import { type Deferred, deferred } from '../../../src/core/deferred.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { HttpDoor } from '../../../src/http/app.ts'
import type { StatementAnswer, StatementRequest, Statements } from '../../../src/http/statements.ts'

const SOURCES = { metrics: async () => '', checks: () => [], stats: () => ({}) }

/** Answers when the test says so. */
class HeldStatements implements Statements {
  readonly asked: { principal: string; request: StatementRequest; signal: AbortSignal; answer: Deferred<StatementAnswer> }[] = []
  #wake: (() => void) | null = null

  run(principal: string, asked: StatementRequest, signal: AbortSignal): Promise<StatementAnswer> {
    const answer = deferred<StatementAnswer>()
    signal.addEventListener('abort', () => answer.resolve({ status: 499, body: '{"error":"ABORTED"}' }), { once: true })
    this.asked.push({ principal, request: asked, signal, answer })
    this.#wake?.()
    return answer.promise
  }

  async count(wanted: number): Promise<void> {
    while (this.asked.length < wanted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

const ECHO: Statements = { run: async (principal, asked) => ({ status: 200, body: JSON.stringify({ principal, ...asked }) }) }

function open(statements: Statements, options: { host?: string; bearerToken?: string } = {}): Promise<HttpDoor> {
  const { host = '127.0.0.1', bearerToken = null } = options
  return HttpDoor.open({ log: SILENT, metrics: NO_METRICS, sources: SOURCES, statements }, { host, port: 0, version: '1', bearerToken })
}

interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** As any program can ask: `fetch` would not say another host. */
function post(door: HttpDoor, body: string, headers: Record<string, string> = {}, method = 'POST'): Promise<Reply> {
  const sent = { 'content-type': 'application/json', ...headers }
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port: door.address.port, path: '/mql', method, headers: sent }, (response) => {
      let text = ''
      response.on('data', (part: Buffer) => {
        text += part.toString()
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }))
    })
    asking.on('error', reject)
    asking.end(body)
  })
}

test('POST /mql hands the statement and who asks to the language, and its answer back', async () => {
  await using door = await open(ECHO)
  const plain = await post(door, '{"statement": "LIST TOPICS"}')
  assert.deepEqual(
    [plain.status, plain.headers['content-type'], plain.headers['cache-control']],
    [200, 'application/json; charset=utf-8', 'no-store'],
  )
  assert.deepEqual(JSON.parse(plain.body), { principal: 'User:ANONYMOUS', source: 'LIST TOPICS', stopOnError: false })
  const more = await post(door, '{"statement": "é 😀", "stopOnError": true}', { 'content-type': 'Application/JSON; charset=utf-8' })
  assert.deepEqual(JSON.parse(more.body), { principal: 'User:ANONYMOUS', source: 'é 😀', stopOnError: true })
})

test('POST /mql refuses what a page from elsewhere could send, and what is no request', async () => {
  await using door = await open(ECHO)
  const { port } = door.address
  const good = '{"statement": "HELP"}'
  const cases: readonly (readonly [string, Record<string, string>, number, RegExp])[] = [
    [good, { 'content-type': 'text/plain' }, 415, /must be application\/json/],
    [good, { 'content-type': 'application/x-www-form-urlencoded' }, 415, /must be/],
    [good, { origin: 'http://evil.example' }, 403, /another origin/],
    [good, { origin: 'null' }, 403, /another origin/],
    [good, { origin: `https://127.0.0.1:${port}` }, 403, /another origin/],
    [good, { origin: `http://localhost:${port}` }, 403, /another origin/],
    [good, { host: `evil.example:${port}` }, 403, /not this machine's own name/],
    [good, { host: `127.0.0.1.evil.example` }, 403, /own name/],
    [good, { host: `rebound.example`, origin: 'http://rebound.example' }, 403, /own name/],
    ['{', {}, 400, /no JSON/],
    ['"HELP"', {}, 400, /must be an object/],
    ['[]', {}, 400, /must be an object/],
    ['null', {}, 400, /must be an object/],
    ['{}', {}, 400, /"statement\\" must be a text/],
    ['{"statement": 5}', {}, 400, /must be a text/],
    ['{"statement": "HELP", "stopOnError": 1}', {}, 400, /stopOnError\\" must be/],
    ['{"statement": "HELP", "user": "root"}', {}, 400, /user\\" is not known/],
    [`{"statement": "${'x'.repeat(70_000)}"}`, {}, 413, /at most 65536 bytes/],
  ]
  for (const [body, headers, status, message] of cases) {
    const reply = await post(door, body, headers)
    assert.equal(reply.status, status, `${body.slice(0, 40)} ${JSON.stringify(headers)}`)
    assert.match(reply.body, message)
    assert.equal((JSON.parse(reply.body) as { error: string }).error, 'INVALID_REQUEST')
  }
  for (const headers of [{ host: 'localhost' }, { host: `[::1]:${port}` }, { origin: `http://127.0.0.1:${port}` }]) {
    assert.equal((await post(door, good, headers)).status, 200, JSON.stringify(headers))
  }
  const read = await fetch(`http://127.0.0.1:${port}/mql`)
  assert.deepEqual([read.status, read.headers.get('allow')], [405, 'POST'])
  assert.equal((await post(door, good, {}, 'PUT')).status, 405)
  // A page would ask first whether it may: nothing says yes.
  const asked = await post(door, '', { origin: 'http://evil.example', 'access-control-request-method': 'POST' }, 'OPTIONS')
  assert.deepEqual([asked.status, asked.headers['access-control-allow-origin']], [405, undefined])
})

test('POST /mql: a body that is too long is refused whether its length is said or not', async () => {
  await using door = await open(ECHO)
  const reply = await post(door, `{"statement": "${'x'.repeat(70_000)}"}`, { 'transfer-encoding': 'chunked' })
  assert.equal(reply.status, 413)
})

test('POST /mql runs nothing on an address that other machines reach, and asks for the token where there is one', async () => {
  await using wide = await open(ECHO, { host: '0.0.0.0' })
  const refused = await post(wide, '{"statement": "HELP"}')
  assert.deepEqual([refused.status, /only where http.host is a loopback address/.test(refused.body)], [403, true])
  await using guarded = await open(ECHO, { bearerToken: 'secret' })
  assert.equal((await post(guarded, '{"statement": "HELP"}')).status, 401)
  assert.equal((await post(guarded, '{"statement": "HELP"}', { authorization: 'Bearer secret' })).status, 200)
})

test('POST /mql runs so many at once; who goes away or stops the broker gives its statement up', async () => {
  const statements = new HeldStatements()
  const door = await open(statements)
  const body = '{"statement": "SUBSCRIBE t"}'
  const waiting = Array.from({ length: 8 }, () => post(door, body))
  await statements.count(8)
  const ninth = await post(door, body)
  assert.deepEqual([ninth.status, (JSON.parse(ninth.body) as { error: string }).error], [429, 'RATE_LIMITED'])
  statements.asked[0]?.answer.resolve({ status: 200, body: '{"results":[]}' })
  assert.equal((await Promise.race(waiting)).status, 200)
  // There is a place again; its client goes away.
  const gone = new AbortController()
  const url = `http://127.0.0.1:${door.address.port}/mql`
  const left = fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' }, signal: gone.signal })
  await statements.count(9)
  gone.abort()
  await assert.rejects(left)
  const { signal } = statements.asked[8] as (typeof statements.asked)[number]
  while (!signal.aborted) await new Promise((resolve) => setImmediate(resolve))
  const ended = Promise.allSettled(waiting)
  await door.close()
  assert.ok(statements.asked.every((each, index) => index === 0 || each.signal.aborted))
  await ended
})
