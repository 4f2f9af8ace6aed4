import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { deferred } from '../../../src/core/deferred.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import type { NetConnection } from '../../../src/io/net.ts'
import { NodeNet } from '../../../src/io/node-net.ts'

describe('NodeNet deadlines', () => {
  it('gives up a connect at its deadline and leaves nothing behind', async () => {
    const clock = new VirtualClock()
    const net = new NodeNet({ clock, log: SILENT })
    const listener = await net.listen({ host: '127.0.0.1', port: 0 }, (connection) => connection.destroy())
    const outcome = assert.rejects(net.connect(listener.address, { timeoutMs: 250 }), {
      code: 'CONNECT_FAILED',
      message: /no answer within 250 ms/,
    })
    // The deadline passes before the event loop can see the connection made.
    clock.fireNext()
    await outcome
    assert.equal(clock.pendingTimers, 0)
    await listener.close()
  })

  it('cuts a peer that reads the last byte and never closes', async () => {
    const clock = new VirtualClock()
    const net = new NodeNet({ clock, log: SILENT })
    const far = deferred<NetConnection>()
    const listener = await net.listen({ host: '127.0.0.1', port: 0 }, far.resolve)
    const near = await net.connect(listener.address)
    const sawEnd = deferred()
    const nearClosed = deferred()
    const farClosed = deferred<Error | null>()
    near.start({ data() {}, drain() {}, end: sawEnd.resolve, closed: () => nearClosed.resolve() })
    const connection = await far.promise
    connection.start({ data() {}, drain() {}, end() {}, closed: farClosed.resolve })
    connection.send([Buffer.from('bye')])
    connection.end()
    await sawEnd.promise
    await clock.advance(70_000)
    assert.equal(await farClosed.promise, null)
    near.destroy()
    await nearClosed.promise
    assert.equal(clock.pendingTimers, 0)
    await listener.close()
  })
})
