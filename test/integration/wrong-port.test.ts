import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { isCode } from '../../src/core/errors.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { cliIn } from '../support/cli.ts'

test('a client on an HTTP port is told so: that of metrics, and that of any web server', async () => {
  await using broker = await startTestBroker({ http: { port: 0 } })
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const other = server.address()
  try {
    for (const port of [broker.httpAddress?.port ?? 0, typeof other === 'object' ? (other?.port ?? 0) : 0]) {
      const address = `127.0.0.1:${port}`
      await assert.rejects(connect({ address }), (error: unknown) => {
        assert.ok(isCode(error, 'CONNECT_FAILED'), String(error))
        assert.match(String(error), new RegExp(`cannot connect to ${address}: it speaks HTTP: .* the broker listens on another, 9092`))
        return true
      })
      const { code, err } = await cliIn('/', ['topic', 'list', '-b', address])
      assert.equal(code, 5)
      assert.match(err, /speaks HTTP/)
    }
  } finally {
    server.close()
  }
})
