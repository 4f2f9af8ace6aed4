import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import type { NetConnection, NetHandlers } from '../../../src/io/net.ts'
import { VirtualNet } from '../../../src/io/virtual-net.ts'

class Seen implements NetHandlers {
  text = ''
  events: string[] = []
  data(bytes: Buffer): void {
    this.text += bytes.toString()
  }
  drain(): void {}
  end(): void {
    this.events.push('end')
  }
  closed(error: Error | null): void {
    this.events.push(error === null ? 'closed' : `closed: ${(error as { code?: string }).code}`)
  }
}

async function world() {
  const clock = new VirtualClock()
  const net = new VirtualNet({ clock })
  const accepted: NetConnection[] = []
  const listener = await net.listen({ host: '0.0.0.0', port: 9092 }, (connection) => accepted.push(connection))
  const connect = async () => {
    const connecting = net.connect({ host: 'localhost', port: 9092 })
    await clock.advance(0)
    const near = await connecting
    const far = accepted.at(-1)
    assert.ok(far !== undefined)
    const nearSeen = new Seen()
    const farSeen = new Seen()
    near.start(nearSeen)
    far.start(farSeen)
    return { near, far, nearSeen, farSeen }
  }
  return { clock, net, listener, connect }
}

describe('virtual network, disturbed', () => {
  it('holds traffic of a route back and delivers it afterwards', async () => {
    const { clock, net, connect } = await world()
    const { near, far, nearSeen, farSeen } = await connect()
    const release = net.hold((_, to) => to.port === 9092)
    near.send([Buffer.from('there')])
    far.send([Buffer.from('back')])
    await clock.advance(1000)
    assert.deepEqual([farSeen.text, nearSeen.text], ['', 'back'])
    release()
    await clock.advance(0)
    assert.equal(farSeen.text, 'there')
  })

  it('lets a connect hang until its deadline', async () => {
    const { clock, net } = await world()
    net.hold()
    const outcome = assert.rejects(net.connect({ host: '127.0.0.1', port: 9092 }, { timeoutMs: 500 }), {
      code: 'CONNECT_FAILED',
      message: /no answer within 500 ms/,
    })
    await clock.advance(500)
    await outcome
    assert.equal(net.openEnds, 0)
    assert.equal(clock.pendingTimers, 0)
  })

  it('delays each delivery', async () => {
    const { clock, net, connect } = await world()
    const { near, farSeen } = await connect()
    const stop = net.delay(100)
    near.send([Buffer.from('late')])
    await clock.advance(99)
    assert.equal(farSeen.text, '')
    await clock.advance(1)
    assert.equal(farSeen.text, 'late')
    stop()
    near.send([Buffer.from('r')])
    await clock.advance(0)
    assert.equal(farSeen.text, 'later')
  })

  it('cuts connections: both sides are told, what is under way is lost, sent is called', async () => {
    const { clock, net, connect } = await world()
    const { near, nearSeen, farSeen } = await connect()
    const other = await connect()
    let sent = 0
    near.send([Buffer.from('lost')], () => sent++)
    assert.equal(
      net.cut((from) => from.port === near.local.port),
      1,
    )
    await clock.advance(0)
    assert.deepEqual([nearSeen.events, farSeen.events, farSeen.text, sent], [['closed: ECONNRESET'], ['closed: ECONNRESET'], '', 1])
    other.near.send([Buffer.from('alive')])
    await clock.advance(0)
    assert.equal(other.farSeen.text, 'alive')
    assert.equal(net.openEnds, 2)
  })

  it('resets who sends to a peer that is gone, after what the peer left was read', async () => {
    const { clock, net, connect } = await world()
    const { near, far, nearSeen } = await connect()
    far.send([Buffer.from('last words')])
    far.destroy()
    near.send([Buffer.from('into the void')])
    await clock.advance(0)
    assert.deepEqual([nearSeen.text, nearSeen.events], ['last words', ['end']])
    near.send([Buffer.from('again')])
    await clock.advance(0)
    assert.deepEqual(nearSeen.events, ['end', 'closed: ECONNRESET'])
    assert.equal(net.openEnds, 0)
  })

  it('refuses who comes after the listener closed', async () => {
    const { clock, net, listener } = await world()
    await listener.close()
    const outcome = assert.rejects(net.connect({ host: '127.0.0.1', port: 9092 }), { code: 'CONNECT_FAILED' })
    await clock.advance(0)
    await outcome
  })
})
