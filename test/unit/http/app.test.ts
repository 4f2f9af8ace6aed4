import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { NO_METRICS } from '../../../src/core/counters.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { HttpDoor, type HttpSources } from '../../../src/http/app.ts'
import type { Statements } from '../../../src/http/statements.ts'

const SOURCES: HttpSources = {
  metrics: async () => '# HELP moonmq_topic_count topics\nmoonmq_topic_count 3\n',
  checks: () => [{ name: 'metadata', ok: true, detail: 'loaded' }],
  stats: () => ({ server: { name: 'MoonMQ' } }),
}

const NO_STATEMENTS: Statements = { run: async () => ({ status: 500, body: '{}' }) }

async function withDoor(
  sources: HttpSources,
  run: (url: string, port: number) => Promise<void>,
  bearerToken: string | null = null,
): Promise<void> {
  await using door = await HttpDoor.open(
    { log: SILENT, metrics: NO_METRICS, sources, statements: NO_STATEMENTS },
    { host: '127.0.0.1', port: 0, version: '1.2.3', bearerToken },
  )
  await run(`http://127.0.0.1:${door.address.port}`, door.address.port)
}

test('http: metrics, health, readiness, statistics and an index', () =>
  withDoor(SOURCES, async (url) => {
    const metrics = await fetch(`${url}/metrics`)
    assert.match(metrics.headers.get('content-type') ?? '', /text\/plain; version=0\.0\.4/)
    assert.equal(metrics.headers.get('cache-control'), 'no-store')
    assert.match(await metrics.text(), /moonmq_topic_count 3/)
    assert.equal(await (await fetch(`${url}/health`)).text(), 'ok\n')
    assert.equal((await fetch(`${url}/ready?x=1`)).status, 200)
    assert.deepEqual(await (await fetch(`${url}/stats`)).json(), { server: { name: 'MoonMQ' } })
    assert.match(await (await fetch(url)).text(), /MoonMQ 1\.2\.3/)
  }))

test('http: what is not ready says so with 503 and why', () =>
  withDoor({ ...SOURCES, checks: () => [{ name: 'offsets', ok: false, detail: 'loading 3 of 50' }] }, async (url) => {
    const ready = await fetch(`${url}/ready`)
    assert.equal(ready.status, 503)
    assert.match(await ready.text(), /loading 3 of 50/)
  }))

test('http: unknown paths, other methods and failing sources', () =>
  withDoor({ ...SOURCES, metrics: async () => Promise.reject(new Error('secret detail')) }, async (url) => {
    assert.equal((await fetch(`${url}/../etc/passwd`)).status, 404)
    const posted = await fetch(`${url}/stats`, { method: 'POST', body: 'x' })
    assert.equal(posted.status, 405)
    assert.equal(posted.headers.get('allow'), 'GET, HEAD')
    const failed = await fetch(`${url}/metrics`)
    assert.equal(failed.status, 500)
    assert.doesNotMatch(await failed.text(), /secret/)
  }))

test('http: headers beyond the limit are refused, the door goes on', () =>
  withDoor(SOURCES, async (url, port) => {
    const reply = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(`GET / HTTP/1.1\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`))
      let received = ''
      socket.on('data', (data) => {
        received += data.toString()
      })
      socket.on('close', () => resolve(received))
      socket.on('error', reject)
    })
    assert.match(reply, /^HTTP\/1\.1 431/)
    assert.equal((await fetch(`${url}/health`)).status, 200)
  }))

test('http: a port in use is reported with the remedy', () =>
  withDoor(SOURCES, async (_, port) => {
    await assert.rejects(
      HttpDoor.open(
        { log: SILENT, metrics: NO_METRICS, sources: SOURCES, statements: NO_STATEMENTS },
        { host: '127.0.0.1', port, version: '', bearerToken: null },
      ),
      /--http off/,
    )
  }))

test('http: with a token everything but /health asks for it', () =>
  withDoor(
    SOURCES,
    async (url) => {
      const refused = await fetch(`${url}/metrics`)
      assert.equal(refused.status, 401)
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer realm="moonmq"')
      for (const wrong of ['Bearer', 'Bearer nope', 'Basic c2VjcmV0', 'secret']) {
        assert.equal((await fetch(`${url}/stats`, { headers: { authorization: wrong } })).status, 401, wrong)
      }
      assert.equal((await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer secret' } })).status, 200)
      assert.equal((await fetch(`${url}/health`)).status, 200)
    },
    'secret',
  ))
