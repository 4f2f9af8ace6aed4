import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { deferred } from '../../src/core/deferred.ts'
import type { Net, NetAddress, NetConnection, NetHandlers, NetListener } from '../../src/io/net.ts'

/** One end of a connection that remembers what came in. */
export class End implements NetHandlers {
  readonly connection: NetConnection
  readonly parts: Buffer[] = []
  readonly events: string[] = []
  readonly ended = deferred()
  readonly gone = deferred<Error | null>()
  drains = 0
  received = 0
  #wanted: { bytes: number; resolve: () => void }[] = []
  onDrain: () => void = () => {}

  constructor(connection: NetConnection) {
    this.connection = connection
  }

  start(): this {
    this.connection.start(this)
    return this
  }

  data(bytes: Buffer): void {
    this.parts.push(bytes)
    this.received += bytes.length
    this.#wanted = this.#wanted.filter(({ bytes: wanted, resolve }) => {
      if (this.received < wanted) return true
      resolve()
      return false
    })
  }

  drain(): void {
    this.drains++
    this.onDrain()
  }

  end(): void {
    this.events.push('end')
    this.ended.resolve()
  }

  closed(error: Error | null): void {
    this.events.push('closed')
    this.ended.resolve()
    this.gone.resolve(error)
  }

  async until(bytes: number): Promise<Buffer> {
    if (this.received < bytes) await new Promise<void>((resolve) => this.#wanted.push({ bytes, resolve }))
    return Buffer.concat(this.parts)
  }
}

export interface Pair {
  readonly client: End
  readonly server: End
}

/** What every network must do. Run against each implementation by a caller that makes one. */
export function netContract(name: string, make: (options: { maxQueuedBytes: number }) => Net): void {
  describe(`net contract: ${name}`, () => {
    const net = make({ maxQueuedBytes: 100 << 20 })
    const accepted: NetConnection[] = []
    const open: NetConnection[] = []
    let listener: NetListener
    let onAccept: (connection: NetConnection) => void = () => {}
    before(async () => {
      listener = await net.listen({ host: '127.0.0.1', port: 0 }, (connection) => {
        accepted.push(connection)
        onAccept(connection)
      })
    })
    after(async () => {
      for (const connection of [...open, ...accepted]) connection.destroy()
      await listener.close()
    })
    const pair = async (): Promise<Pair> => {
      const far = deferred<NetConnection>()
      onAccept = far.resolve
      const near = await net.connect(listener.address)
      open.push(near)
      return { client: new End(near), server: new End(await far.promise) }
    }
    transfers(pair)
    endings(pair)
    connecting(net, () => listener.address)
  })
}

function transfers(pair: () => Promise<Pair>): void {
  it('carries bytes both ways, in order, and knows both addresses', async () => {
    const { client, server } = await pair()
    assert.deepEqual(client.connection.remote, server.connection.local)
    assert.deepEqual(client.connection.local, server.connection.remote)
    client.start()
    server.start()
    client.connection.send([Buffer.from('a'), Buffer.from('bc'), Buffer.alloc(0), Buffer.from('d')])
    client.connection.send([Buffer.from('ef')])
    assert.equal((await server.until(6)).toString(), 'abcdef')
    server.connection.send([Buffer.from('back')])
    assert.equal((await client.until(4)).toString(), 'back')
  })

  it('keeps what arrives before start', async () => {
    const { client, server } = await pair()
    client.start()
    client.connection.send([Buffer.from('early')])
    server.start()
    assert.equal((await server.until(5)).toString(), 'early')
  })

  it('calls sent once each, in order, and never from within send', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    const order: number[] = []
    const all = deferred()
    let inside = true
    for (let i = 0; i < 50; i++) {
      const parts = i % 10 === 0 ? [] : [Buffer.alloc(i), Buffer.alloc(i * 100)]
      client.connection.send(parts, () => {
        assert.equal(inside, false)
        order.push(i)
        if (order.length === 50) all.resolve()
      })
    }
    inside = false
    await all.promise
    assert.deepEqual(order, [...Array(50).keys()])
    assert.equal(client.connection.queuedBytes, 0)
  })

  it('moves large and many-part sends unharmed', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    const parts: Buffer[] = []
    for (let i = 0; i < 2500; i++) parts.push(Buffer.alloc(1 + ((i * 37) % 2000), i & 0xff))
    const all = Buffer.concat(parts)
    client.connection.send(parts)
    client.connection.send([all])
    const got = await server.until(2 * all.length)
    assert.ok(got.equals(Buffer.concat([all, all])))
  })

  it('holds a fast sender back while the receiver is paused, and drains after it resumes', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    server.connection.pause()
    const part = Buffer.alloc(1 << 20, 7)
    const total = 32
    let sent = 0
    for (let i = 0; i < total; i++) {
      client.connection.send([part], () => {
        sent++
      })
    }
    assert.equal(client.connection.queuedBytes, total * part.length)
    // A round trip of another connection gives the bytes every chance to arrive.
    const other = await pair()
    other.client.start()
    other.server.start()
    other.client.connection.send([Buffer.from('x')])
    await other.server.until(1)
    assert.ok(sent < total)
    assert.ok(client.connection.queuedBytes > 0)
    const drained = deferred()
    client.onDrain = drained.resolve
    server.connection.resume()
    await server.until(total * part.length)
    await drained.promise
    assert.equal(sent, total)
    assert.equal(client.connection.queuedBytes, 0)
  })
}

function endings(pair: () => Promise<Pair>): void {
  it('ends one side, answers over the other, then closes both', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    client.connection.send([Buffer.alloc(300_000, 1)])
    server.connection.send([Buffer.from('first ')])
    await client.until(6)
    client.connection.end()
    await server.ended.promise
    assert.equal(server.received, 300_000)
    server.connection.send([Buffer.from('ignored after our own end')])
    server.connection.end()
    assert.equal(await server.gone.promise, null)
    assert.equal(await client.gone.promise, null)
    assert.deepEqual(server.events, ['end', 'closed'])
  })

  it('lets a peer that has ended read its answers', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    // The client's end comes first: its handlers see nothing more, so the server's view is what counts.
    client.connection.end()
    await server.ended.promise
    const taken = deferred()
    server.connection.send([Buffer.alloc(100_000)], taken.resolve)
    await taken.promise
    server.connection.end()
    assert.equal(await server.gone.promise, null)
    assert.equal(await client.gone.promise, null)
  })

  it('destroys at once: the peer sees an end, every sent is called, later sends are lost', async () => {
    const { client, server } = await pair()
    client.start()
    server.start()
    server.connection.pause()
    let sent = 0
    for (let i = 0; i < 40; i++) client.connection.send([Buffer.alloc(1 << 20)], () => sent++)
    client.connection.destroy()
    assert.equal(await client.gone.promise, null)
    assert.equal(sent, 40)
    assert.equal(client.connection.queuedBytes, 0)
    const lost = deferred()
    client.connection.send([Buffer.from('late')], lost.resolve)
    await lost.promise
    server.connection.resume()
    await server.ended.promise
    server.connection.end()
    await server.gone.promise
    assert.ok(server.received < 40 << 20)
    assert.equal(client.events.join(), 'closed')
  })

  it('cuts a connection whose queue grows beyond all measure', async () => {
    const { client, server } = await pair()
    client.start()
    const part = Buffer.alloc(1 << 20)
    let sent = 0
    for (let i = 0; i < 110; i++) client.connection.send([part], () => sent++)
    const error = await client.gone.promise
    assert.equal((error as { code?: string } | null)?.code, 'ENOBUFS')
    assert.equal(sent, 110)
    server.connection.destroy()
  })

  it('tells a connection that is started after its end', async () => {
    const { client, server } = await pair()
    server.connection.destroy()
    client.start()
    await client.ended.promise
    client.connection.end()
    await client.gone.promise
    server.start()
    await server.gone.promise
    assert.deepEqual(server.events, ['closed'])
  })

  it('refuses a second start', async () => {
    const { client } = await pair()
    client.start()
    assert.throws(() => client.start())
  })
}

function connecting(net: Net, address: () => NetAddress): void {
  it('chooses a port for 0 and refuses one in use', async () => {
    assert.ok(address().port > 0)
    await assert.rejects(
      net.listen(address(), () => {}),
      { code: 'EADDRINUSE' },
    )
  })

  it('fails to connect where nothing listens, naming the address', async () => {
    const listener = await net.listen({ host: '127.0.0.1', port: 0 }, () => {})
    const free = listener.address
    await listener.close()
    await assert.rejects(net.connect(free), { code: 'CONNECT_FAILED', message: new RegExp(`127.0.0.1:${free.port}.*ECONNREFUSED`) })
  })

  it('gives up when the signal says so', async () => {
    const controller = new AbortController()
    controller.abort()
    await assert.rejects(net.connect(address(), { signal: controller.signal }), { code: 'ABORTED' })
    const later = new AbortController()
    const connecting = net.connect(address(), { signal: later.signal })
    later.abort()
    await assert.rejects(connecting, { code: 'ABORTED' })
  })

  it('keeps open connections when the listener closes, and closes twice', async () => {
    const far = deferred<NetConnection>()
    const listener = await net.listen({ host: '127.0.0.1', port: 0 }, far.resolve)
    const near = new End(await net.connect(listener.address)).start()
    const server = new End(await far.promise).start()
    await listener.close()
    await listener.close()
    near.connection.send([Buffer.from('still here')])
    assert.equal((await server.until(10)).toString(), 'still here')
    near.connection.end()
    await server.ended.promise
    server.connection.end()
    await near.gone.promise
    const again = await net.listen(listener.address, () => {})
    await again.close()
  })
}
