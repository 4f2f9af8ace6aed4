import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerSettings } from '../../../src/broker/settings.ts'
import type { Labels, Metrics } from '../../../src/core/counters.ts'
import { NO_METRICS } from '../../../src/core/counters.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import type { AcceptInfo, Door } from '../../../src/io/door.ts'
import type { Net, NetAddress, NetConnection, NetHandlers, NetListener } from '../../../src/io/net.ts'
import { type ConnectionLimitOptions, DEFAULT_CONNECTION_LIMITS, kafkaConnectionLimits } from '../../../src/server/connection-limits.ts'
import { type ListenerOptions, Listeners } from '../../../src/server/listeners.ts'
import { FakeSocket } from '../../support/fake-socket.ts'
import { LinesLogger } from '../../support/kafka-door.ts'

/** Listens nowhere; the test brings the connections. */
class FakeNet implements Net {
  readonly listening = new Map<string, (connection: NetConnection) => void>()
  refuse: string | null = null

  async listen(address: NetAddress, onConnection: (connection: NetConnection) => void): Promise<NetListener> {
    const name = `${address.host}:${address.port}`
    if (name === this.refuse) throw new Error('EADDRINUSE')
    this.listening.set(name, onConnection)
    return { address, close: async () => void this.listening.delete(name) }
  }

  connect(): Promise<NetConnection> {
    throw new Error('not here')
  }
}

class FakeDoor implements Door, NetHandlers {
  readonly accepted: { connection: NetConnection; head: Buffer; info: AcceptInfo }[] = []
  readonly input: Buffer[] = []
  readonly turnedAway: NetConnection[] = []
  closings = 0

  accept(connection: NetConnection, head: Buffer, info: AcceptInfo): void {
    this.accepted.push({ connection, head, info })
    connection.start(this)
  }

  turnAway(connection: NetConnection): void {
    this.turnedAway.push(connection)
  }

  async close(): Promise<void> {}
  data(bytes: Buffer): void {
    this.input.push(bytes)
  }
  drain(): void {}
  end(): void {}
  closed(): void {
    this.closings++
  }
}

class CountingMetrics {
  readonly counts = new Map<string, number>()
  readonly metrics: Metrics = {
    ...NO_METRICS,
    counter: (name: string, labels?: Labels) => ({
      add: (amount = 1) => {
        const key = labels?.reason === undefined ? name : `${name} ${labels.reason}`
        this.counts.set(key, (this.counts.get(key) ?? 0) + amount)
      },
    }),
  }
}

const BOTH: ListenerOptions = { name: 'main', host: 'h', port: 1, protocols: ['native', 'kafka'], advertised: null }
const KAFKA_HEAD = Buffer.from([0, 0, 0, 20, 0])
const NATIVE_HEAD = Buffer.from([0, 0, 0, 20, 1])

async function setup(options: { listeners?: ListenerOptions[]; limits?: Partial<ConnectionLimitOptions>; http?: string | null } = {}) {
  const net = new FakeNet()
  const clock = new VirtualClock()
  const log = new LinesLogger()
  const counting = new CountingMetrics()
  const native = new FakeDoor()
  const kafka = new FakeDoor()
  const listeners = await Listeners.open(
    { net, clock, log, metrics: counting.metrics, doors: { native, kafka } },
    {
      listeners: options.listeners ?? [BOTH],
      limits: { ...DEFAULT_CONNECTION_LIMITS, ...options.limits },
      firstBytesMs: 5000,
      httpAddress: () => (options.http === undefined ? '127.0.0.1:9090' : options.http),
    },
  )
  const connect = (host = '127.0.0.1') => {
    const socket = new FakeSocket({ remote: { host, port: 1000 } })
    for (const onConnection of net.listening.values()) onConnection(socket)
    return socket
  }
  return { net, clock, log, counts: counting.counts, native, kafka, listeners, connect }
}

describe('shared listener', () => {
  it('hands a connection to its door with the bytes read so far, and the rest follows', async () => {
    const { connect, kafka, native, clock } = await setup()
    const one = connect()
    one.push(KAFKA_HEAD.subarray(0, 2))
    one.push(KAFKA_HEAD.subarray(2))
    one.push(Buffer.from('more'))
    assert.deepEqual(kafka.accepted[0]?.head, KAFKA_HEAD)
    assert.deepEqual(kafka.input, [Buffer.from('more')])
    const two = connect()
    two.push(Buffer.concat([NATIVE_HEAD, Buffer.from('rest')]))
    assert.equal(native.accepted[0]?.head.length, 9)
    assert.deepEqual([kafka.accepted[0]?.info.listener, kafka.accepted[0]?.info.id, native.accepted[0]?.info.id], ['main', 1, 2])
    assert.equal(clock.pendingTimers, 0)
    two.close()
    assert.equal(native.closings, 1)
  })

  it('closes a connection that shows no protocol within five seconds', async () => {
    const { connect, clock, log, counts } = await setup()
    const silent = connect()
    const slow = connect()
    slow.push(Buffer.from([0, 0, 0]))
    await clock.advance(4999)
    assert.deepEqual([silent.closed, slow.closed], [false, false])
    await clock.advance(1)
    assert.deepEqual([silent.closed, slow.closed], [true, true])
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['debug', 'warn'],
    )
    assert.equal(counts.get('moonmq_connections_closed_total first_bytes_late'), 2)
    assert.equal(clock.pendingTimers, 0)
  })

  it('a connection that closes without a byte is logged at debug only', async () => {
    const { connect, log, listeners } = await setup()
    connect().close()
    const halfClosed = connect()
    halfClosed.peerEnds()
    assert.equal(halfClosed.closed, true)
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['debug', 'debug'],
    )
    assert.equal(listeners.openConnections, 0)
  })

  for (const [what, bytes, text] of [
    ['TLS', Buffer.from([0x16, 3, 1, 0, 5]), /TLS/],
    ['PROXY 1', Buffer.from('PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n'), /PROXY protocol/],
    ['PROXY 2', Buffer.from([0x0d, 0x0a, 0x0d, 0x0a, 0]), /PROXY protocol/],
    ['a length of 4', Buffer.from([0, 0, 0, 4]), /frame of 4 bytes/],
    ['a length above 100 MiB', Buffer.from([0x7f, 0xff, 0xff, 0xff]), /frame of 2147483647 bytes/],
  ] as const) {
    it(`${what} is closed without a frame, with a line that says why`, async () => {
      const { connect, log, kafka, native, listeners } = await setup()
      const socket = connect()
      socket.push(bytes)
      assert.equal(socket.destroyed, true)
      assert.equal(socket.take().length, 0)
      assert.deepEqual([kafka.accepted.length, native.accepted.length], [0, 0])
      assert.equal(log.lines[0]?.level, 'warn')
      assert.match(log.lines[0]?.text ?? '', text)
      assert.equal(listeners.openConnections, 0)
    })
  }

  it('answers HTTP with 400 and where HTTP is', async () => {
    const { connect, clock } = await setup()
    const socket = connect()
    socket.push(Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'))
    const answer = socket.take().toString()
    assert.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/)
    assert.match(answer, /http:\/\/127\.0\.0\.1:9090\//)
    const length = Number(/Content-Length: (\d+)/.exec(answer)?.[1])
    assert.equal(answer.length - answer.indexOf('\r\n\r\n') - 4, length)
    assert.equal(socket.ended, true)
    assert.equal(clock.pendingTimers, 0)
    const off = (await setup({ http: null })).connect()
    off.push(Buffer.from('GET / HTTP/1.1\r\n\r\n'))
    assert.match(off.take().toString(), /HTTP is switched off/)
  })

  it('an HTTP client that does not read loses its seat all the same', async () => {
    const { connect, clock, listeners } = await setup()
    const socket = connect()
    socket.holding = true
    socket.push(Buffer.from('GET / HTTP/1.1\r\n\r\n'))
    assert.equal(listeners.openConnections, 1)
    await clock.advance(2000)
    assert.equal(listeners.openConnections, 0)
  })

  it('a listener for one protocol refuses the other; one for native hands over at once', async () => {
    const kafkaOnly = await setup({ listeners: [{ ...BOTH, protocols: ['kafka'] }] })
    const wrong = kafkaOnly.connect()
    wrong.push(NATIVE_HEAD)
    assert.equal(wrong.destroyed, true)
    assert.match(kafkaOnly.log.lines[0]?.text ?? '', /native protocol, which listener "main" does not serve/)
    kafkaOnly.connect().push(KAFKA_HEAD)
    assert.equal(kafkaOnly.kafka.accepted.length, 1)

    const nativeOnly = await setup({ listeners: [{ ...BOTH, protocols: ['native'] }] })
    const socket = nativeOnly.connect()
    assert.equal(nativeOnly.native.accepted[0]?.head.length, 0)
    socket.push(Buffer.from([0, 0, 0, 1]))
    assert.equal(nativeOnly.native.input.length, 1)
  })

  it('closes what it opened when an address cannot be had', async () => {
    const net = new FakeNet()
    net.refuse = 'h:2'
    const deps = { net, clock: new VirtualClock(), log: new LinesLogger(), metrics: NO_METRICS, doors: {} }
    const options = { limits: DEFAULT_CONNECTION_LIMITS, firstBytesMs: 5000, httpAddress: () => null }
    await assert.rejects(Listeners.open(deps, { ...options, listeners: [BOTH, { ...BOTH, name: 'second', port: 2 }] }), /EADDRINUSE/)
    assert.equal(net.listening.size, 0)
  })

  it('close drops what has no door yet and leaves the doors theirs', async () => {
    const { connect, listeners, net } = await setup()
    const sniffing = connect()
    const served = connect()
    served.push(KAFKA_HEAD)
    await listeners.close()
    assert.deepEqual([sniffing.closed, served.closed, net.listening.size], [true, false, 0])
  })
})

describe('limits on connections', () => {
  it('in all, over every address', async () => {
    const { connect, counts, listeners } = await setup({ limits: { maxConnections: 3 } })
    const open = [connect('10.0.0.1'), connect('10.0.0.2'), connect('127.0.0.1')]
    const refused = connect('127.0.0.1')
    assert.equal(refused.destroyed, true)
    assert.equal(listeners.openConnections, 3)
    assert.equal(counts.get('moonmq_connections_refused_total total'), 1)
    open[0]?.close()
    assert.equal(connect('10.0.0.9').destroyed, false)
  })

  it("by Kafka's settings in force at the moment, in all and of one address, loopback included", async () => {
    const set = new Map([['max.connections.per.ip', '1']])
    const { connect, counts } = await setup({ limits: { kafka: kafkaConnectionLimits(new BrokerSettings(set)) } })
    const first = connect('127.0.0.1')
    assert.equal(connect('::ffff:127.0.0.1').destroyed, true, 'the same machine')
    assert.equal(connect('10.0.0.1').destroyed, false)
    assert.equal(counts.get('moonmq_connections_refused_total per_address'), 1)
    set.set('max.connections.per.ip.overrides', '10.0.0.1:2,[fe80::1]:0')
    assert.equal(connect('10.0.0.1').destroyed, false, 'its own number')
    assert.deepEqual([connect('10.0.0.1').destroyed, connect('fe80::1').destroyed], [true, true])
    set.set('max.connections', '3')
    assert.equal(connect('10.0.0.7').destroyed, true)
    assert.equal(counts.get('moonmq_connections_refused_total total'), 1)
    first.close()
    assert.equal(connect('10.0.0.7').destroyed, false)
  })

  it('by how many may begin in a second: further ones wait for their turn', async () => {
    const set = new Map([['max.connection.creation.rate', '4']])
    const { connect, clock, kafka, listeners } = await setup({ limits: { kafka: kafkaConnectionLimits(new BrokerSettings(set)) } })
    const begun = () => kafka.accepted.length
    const open = Array.from({ length: 7 }, () => connect())
    for (const socket of open.slice(0, 4)) socket.push(KAFKA_HEAD)
    assert.deepEqual([begun(), listeners.openConnections], [4, 7], 'a burst of one second begins at once, the others have their seats')
    for (const due of [5, 6, 7]) {
      await clock.advance(249)
      assert.equal(begun(), due - 1)
      await clock.advance(1)
      open[due - 1]?.push(KAFKA_HEAD)
      assert.equal(begun(), due)
    }
    set.set('max.connection.creation.rate', '1')
    const slow = Array.from({ length: 100 }, () => connect())
    set.set('max.connection.creation.rate', '1000')
    await clock.advance(1000)
    for (const socket of slow) socket.push(KAFKA_HEAD)
    assert.equal(begun(), 107, 'a rate that is raised counts for those that wait')
    set.set('max.connection.creation.rate', '1')
    for (let more = 0; more < 3; more++) connect()
    await listeners.close()
    assert.equal(clock.pendingTimers, 0, 'nothing waits on')
  })

  it('lowered to the descriptor limit less a reserve, refusals counted', async () => {
    const { connect, counts } = await setup({ limits: { descriptorLimit: 10, descriptorReserve: 8 } })
    assert.deepEqual(
      [1, 2, 3].map(() => connect().destroyed),
      [false, false, true],
    )
    assert.equal(counts.get('moonmq_connections_refused_fd_total'), 1)
    const roomy = await setup({ limits: { maxConnections: 2, descriptorLimit: 1_000_000 } })
    assert.deepEqual(
      [1, 2, 3].map(() => roomy.connect().destroyed),
      [false, false, true],
    )
    assert.equal(roomy.counts.get('moonmq_connections_refused_fd_total'), undefined)
  })

  it('on a listener for the native protocol alone the door says so, unless descriptors are short', async () => {
    const listeners: ListenerOptions[] = [{ ...BOTH, protocols: ['native'] }]
    const full = await setup({ listeners, limits: { maxConnections: 1 } })
    full.connect()
    const refused = full.connect()
    assert.deepEqual([full.native.turnedAway, refused.destroyed], [[refused], false])
    assert.equal(full.counts.get('moonmq_connections_refused_total total'), 1)
    assert.equal(full.listeners.openConnections, 1)
    const short = await setup({ listeners, limits: { descriptorLimit: 8, descriptorReserve: 7 } })
    assert.deepEqual(
      [1, 2, 3].map(() => short.connect().destroyed),
      [false, false, true],
    )
    assert.deepEqual(short.native.turnedAway, [])
  })

  it('32 of one address before login, then no more; loopback is exempt', async () => {
    const { connect, kafka, counts } = await setup()
    const sockets = Array.from({ length: 32 }, () => connect('10.0.0.1'))
    assert.equal(connect('10.0.0.1').destroyed, true)
    assert.equal(counts.get('moonmq_connections_refused_total per_address'), 1)
    assert.equal(connect('10.0.0.2').destroyed, false)
    for (const loopback of ['127.0.0.1', '127.0.0.2', '::1', '::ffff:127.0.0.1']) {
      assert.ok(Array.from({ length: 40 }, () => connect(loopback)).every(({ destroyed }) => !destroyed))
    }
    sockets[0]?.push(KAFKA_HEAD)
    kafka.accepted[0]?.info.loggedIn()
    kafka.accepted[0]?.info.loggedIn()
    assert.equal(connect('10.0.0.1').destroyed, false, 'one place is free')
    assert.equal(connect('10.0.0.1').destroyed, true, 'one only')
    sockets[0]?.close()
    assert.equal(connect('10.0.0.1').destroyed, true, 'the end of one that was logged in frees none')
    sockets[1]?.close()
    assert.equal(connect('10.0.0.1').destroyed, false)
  })
})
