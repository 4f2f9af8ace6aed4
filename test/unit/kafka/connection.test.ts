import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Deferred, deferred } from '../../../src/core/deferred.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { type Answer, type AnyApi, api, type KafkaCall, Later } from '../../../src/kafka/handler.ts'
import { batchOf, createTopic } from '../../support/fake-broker.ts'
import { settle } from '../../support/fake-socket.ts'
import { testDoor } from '../../support/kafka-door.ts'
import { framed, rawRequest, readResponse, requestFrame } from '../../support/kafka-frames.ts'

/** Handlers whose answers the test gives: `calls` in the order in which the door started them. */
interface Puppet {
  readonly apis: readonly AnyApi[]
  readonly calls: { name: string; call: KafkaCall; answer: Deferred<void> }[]
}

/** Heartbeat as a request that waits, Produce as one whose answer comes later, ListGroups as one that answers at once. */
function puppet(): Puppet {
  const calls: Puppet['calls'] = []
  const begin = (name: string, call: KafkaCall): Promise<void> => {
    const answer = deferred()
    calls.push({ name, call, answer })
    return answer.promise
  }
  const produce = api<object, { throttleTimeMs: number }>({
    key: 0,
    name: 'Produce',
    versions: [3, 13],
    omissions: [],
    handle: (call): Answer<{ throttleTimeMs: number }> => new Later(begin('Produce', call).then(() => ({ throttleTimeMs: 1 }))),
    refuse: () => null,
  })
  const heartbeat = api<object, { errorCode: number }>({
    key: 12,
    name: 'Heartbeat',
    versions: [0, 4],
    omissions: [],
    handle: (call) => begin('Heartbeat', call).then(() => ({ errorCode: 0 })),
    refuse: (error) => ({ errorCode: error.row.kafka }),
  })
  const listGroups = api<object, { errorCode: number }>({
    key: 16,
    name: 'ListGroups',
    versions: [0, 5],
    omissions: [],
    handle(call) {
      calls.push({ name: 'ListGroups', call, answer: deferred() })
      return { errorCode: 0 }
    },
    refuse: () => null,
  })
  return { apis: [produce, heartbeat, listGroups], calls }
}

const produceFrame = (correlationId: number) => requestFrame('Produce', 7, { acks: 1, timeoutMs: 1000, topicData: [] }, { correlationId })
const heartbeatFrame = (correlationId: number, clientId = 'test') =>
  requestFrame('Heartbeat', 0, { groupId: 'g', generationId: 1, memberId: 'm' }, { correlationId, clientId })
const listFrame = (correlationId: number) => requestFrame('ListGroups', 0, {}, { correlationId })

const ids = (frames: Buffer[]) => frames.map((frame) => frame.readInt32BE(0))

describe('kafka connection: order (trap 19)', () => {
  it('starts the next Produce while the answers of earlier ones are outstanding, and answers in order', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.push(Buffer.concat([produceFrame(1), produceFrame(2), produceFrame(3)]))
    assert.equal(calls.length, 3)
    calls[2]?.answer.resolve()
    calls[1]?.answer.resolve()
    await settle()
    assert.deepEqual(client.frames(), [])
    calls[0]?.answer.resolve()
    await settle()
    assert.deepEqual(ids(client.frames()), [1, 2, 3])
    assert.equal(client.socket.writes, 1, 'one gathering write')
  })

  it('starts any other request only when every earlier answer is there, and nothing while it runs', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.push(Buffer.concat([produceFrame(1), heartbeatFrame(2), produceFrame(3), listFrame(4)]))
    assert.deepEqual(
      calls.map(({ name }) => name),
      ['Produce'],
    )
    calls[0]?.answer.resolve()
    await settle()
    assert.deepEqual(
      calls.map(({ name }) => name),
      ['Produce', 'Heartbeat'],
    )
    assert.deepEqual(ids(client.frames()), [1])
    calls[1]?.answer.resolve()
    await settle()
    assert.deepEqual(
      calls.map(({ name }) => name),
      ['Produce', 'Heartbeat', 'Produce'],
    )
    calls[2]?.answer.resolve()
    await settle()
    assert.deepEqual(ids(client.frames()), [2, 3, 4])
  })

  it('sends the answers of one turn together', async () => {
    const { apis } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.push(Buffer.concat([listFrame(1), listFrame(2), listFrame(3)]))
    assert.deepEqual(ids(client.frames()), [1, 2, 3])
    assert.equal(client.socket.writes, 1)
  })

  it('takes the client id of each request', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.push(heartbeatFrame(1, 'first'))
    calls[0]?.answer.resolve()
    await settle()
    client.push(heartbeatFrame(2, 'second'))
    assert.deepEqual(
      calls.map(({ call }) => call.context.clientId),
      ['first', 'second'],
    )
    assert.equal(calls[0]?.call.context.principal, 'User:ANONYMOUS')
  })
})

it('kafka connection: has one batch at a time at the codecs, however many it has sent, so that others have their turn', async () => {
  const { connect, broker, codecs } = await testDoor()
  await createTopic(broker, 't')
  const [greedy, other] = [connect(), connect()]
  for (const client of [greedy, other]) await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
  const waiting: Deferred<void>[] = []
  codecs.ready = () => {
    const gate = deferred()
    waiting.push(gate)
    return gate.promise
  }
  const compress = (_: number, bytes: Buffer) => codecs.deflate(1, bytes)
  const frame = (correlationId: number) => {
    const partitionData = [0, 0].map((index) => ({ index, records: batchOf(3, { codec: 1, compress }) }))
    return requestFrame('Produce', 7, { acks: 1, timeoutMs: 1000, topicData: [{ name: 't', partitionData }] }, { correlationId })
  }
  greedy.push(Buffer.concat([frame(1), frame(2), frame(3)]))
  other.push(frame(9))
  await settle()
  assert.equal(waiting.length, 2)
  const order: number[] = []
  while (waiting.length > 0) {
    waiting.shift()?.resolve()
    await settle()
    order.push(...ids([...greedy.frames(), ...other.frames()]))
  }
  assert.deepEqual(order, [1, 9, 2, 3])
})

describe('kafka connection: bounds', () => {
  it('starts no more Produce than may be open, and pauses the socket when input piles up', async () => {
    const { apis, calls } = puppet()
    const { connect } = await testDoor({ apis, door: { maxOpenRequests: 4, maxWaitingBytes: 1000 } })
    const client = connect()
    for (let i = 1; i <= 40; i++) client.push(produceFrame(i))
    assert.equal(calls.length, 4)
    assert.equal(client.socket.paused, true)
    for (let i = 0; i < 40; i++) {
      calls[i]?.answer.resolve()
      await settle()
    }
    assert.equal(calls.length, 40)
    assert.equal(client.socket.paused, false)
    assert.deepEqual(
      ids(client.frames()),
      Array.from({ length: 40 }, (_, i) => i + 1),
    )
  })

  it('bounds the bytes of open requests', async () => {
    const { apis, calls } = puppet()
    const size = produceFrame(1).length - 4
    const { connect } = await testDoor({ apis, door: { maxOpenBytes: 2 * size } })
    const client = connect()
    client.push(Buffer.concat([produceFrame(1), produceFrame(2), produceFrame(3)]))
    assert.equal(calls.length, 2)
  })

  it('starts nothing for a peer that does not read, and goes on when it does', async () => {
    const { apis, calls } = puppet()
    const { connect } = await testDoor({ apis, door: { maxQueuedBytes: 5 } })
    const client = connect()
    client.socket.holding = true
    client.push(listFrame(1))
    client.push(listFrame(2))
    assert.equal(calls.length, 1)
    client.socket.drain()
    assert.equal(calls.length, 2)
  })

  it('takes a frame of 512 KiB at most before the first valid request, the full size afterwards', async () => {
    const { apis, calls } = puppet()
    const { connect, log } = await testDoor({ apis })
    const early = connect()
    const head = Buffer.alloc(5)
    head.writeInt32BE(512 * 1024 + 1)
    early.push(head)
    assert.equal(early.socket.closed, true)
    assert.equal(early.logins, 0)
    assert.match(log.lines[0]?.text ?? '', /a frame of 524289 bytes exceeds the limit of 524288 bytes/)
    const late = connect()
    late.push(listFrame(1))
    assert.equal(late.logins, 1)
    late.push(head)
    assert.equal(late.socket.closed, false)
    assert.equal(calls.length, 1)
    head.writeInt32BE(100 * 1024 * 1024 + 1)
    const huge = connect()
    huge.push(listFrame(1))
    huge.push(head)
    assert.equal(huge.socket.closed, true)
  })

  it('a first Produce of 130 KB without ApiVersions, four in a row, is served', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    const topicData = [{ name: 't', partitionData: [{ index: 0, records: Buffer.alloc(130_000) }] }]
    const bytes = Buffer.concat([1, 2, 3, 4].map((correlationId) => requestFrame('Produce', 7, { acks: 1, topicData }, { correlationId })))
    for (let at = 0; at < bytes.length; at += 65_536) client.push(bytes.subarray(at, at + 65_536))
    assert.equal(calls.length, 4)
    for (const { answer } of calls) answer.resolve()
    await settle()
    assert.deepEqual(ids(client.frames()), [1, 2, 3, 4])
  })
})

describe('kafka connection: deadlines', () => {
  it('closes a connection without a valid request in time, also one that sends a byte now and then', async () => {
    const { apis } = puppet()
    const { connect, clock } = await testDoor({ apis, door: { firstRequestMs: 30_000 } })
    const client = connect()
    const frame = heartbeatFrame(1, 'a client with a long name')
    for (let second = 0; second < 29; second++) {
      client.push(frame.subarray(second, second + 1))
      await clock.advance(1000)
    }
    assert.equal(client.socket.closed, false)
    await clock.advance(1001)
    assert.equal(client.socket.closed, true)
    assert.equal(clock.pendingTimers, 0)
  })

  it('closes an idle connection after connections.max.idle.ms, counted from its last request', async () => {
    const { apis } = puppet()
    const { connect, clock } = await testDoor({ apis, door: { idleMs: 600_000 } })
    const client = connect()
    client.push(listFrame(1))
    await clock.advance(400_000)
    client.push(listFrame(2))
    await clock.advance(599_000)
    assert.equal(client.socket.closed, false)
    await clock.advance(2000)
    assert.equal(client.socket.closed, true)
  })

  it('does not take a request that runs for idleness, but a peer that does not read', async () => {
    const { apis, calls } = puppet()
    const { connect, clock } = await testDoor({ apis, door: { idleMs: 600_000 } })
    const waiting = connect()
    waiting.push(heartbeatFrame(1))
    await clock.advance(3_000_000)
    assert.equal(waiting.socket.closed, false)
    waiting.socket.holding = true
    calls[0]?.answer.resolve()
    await settle()
    await clock.advance(1_300_000)
    assert.equal(waiting.socket.closed, true)
  })
})

describe('kafka connection: its end', () => {
  it('fires the signal of what runs, and gives back what answers have lent, when the connection goes', async () => {
    const { apis, calls } = puppet()
    const { connect, door } = await testDoor({ apis })
    const client = connect()
    client.push(heartbeatFrame(1))
    let released = 0
    calls[0]?.call.afterSent(() => released++)
    client.socket.close()
    assert.equal(calls[0]?.call.context.signal.aborted, true)
    assert.equal(released, 0)
    calls[0]?.answer.resolve()
    await settle()
    assert.equal(released, 1)
    assert.equal(door.openConnections, 0)
  })

  it('gives back what an answer has lent once the socket took it', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.socket.holding = true
    client.push(heartbeatFrame(1))
    let released = 0
    calls[0]?.call.afterSent(() => released++)
    calls[0]?.answer.resolve()
    await settle()
    assert.equal(released, 0)
    client.socket.drain()
    assert.equal(released, 1)
  })

  it('answers a peer that has ended, then closes', async () => {
    const { apis, calls } = puppet()
    const client = (await testDoor({ apis })).connect()
    client.push(Buffer.concat([produceFrame(1), heartbeatFrame(2)]))
    client.socket.peerEnds()
    assert.equal(client.socket.closed, false)
    calls[0]?.answer.resolve()
    await settle()
    calls[1]?.answer.resolve()
    await settle()
    assert.deepEqual(ids(client.frames()), [1, 2])
    assert.equal(client.socket.ended, true)
  })

  it('a stop answers what runs, starts nothing else and closes', async () => {
    const { apis, calls } = puppet()
    const { connect, door, clock } = await testDoor({ apis })
    const client = connect()
    const idle = connect()
    client.push(Buffer.concat([heartbeatFrame(1), listFrame(2)]))
    const closed = door.close()
    assert.equal(idle.socket.closed, true)
    client.push(listFrame(3))
    assert.equal(calls[0]?.call.context.signal.aborted, true)
    calls[0]?.answer.resolve()
    await closed
    assert.deepEqual(ids(client.frames()), [1])
    assert.equal(calls.length, 1)
    assert.equal(clock.pendingTimers, 0)
    const late = connect()
    assert.equal(late.socket.destroyed, true)
  })

  it('a stop does not wait for ever', async () => {
    const { apis } = puppet()
    const { connect, door, clock } = await testDoor({ apis, door: { drainMs: 5000 } })
    const client = connect()
    client.push(heartbeatFrame(1))
    const closed = door.close()
    await clock.advance(5000)
    await closed
    assert.equal(client.socket.destroyed, true)
  })

  it('a fault of a handler is answered where the API has an answer, and touches no other connection', async () => {
    const failing = api<object, { errorCode: number }>({
      key: 12,
      name: 'Heartbeat',
      versions: [0, 4],
      omissions: [],
      handle(call) {
        if (call.context.clientId === 'known') throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: 'g', member: 'm' })
        throw new TypeError('a fault of ours')
      },
      refuse: (error) => ({ errorCode: error.row.kafka }),
    })
    const { connect, log } = await testDoor({ apis: [failing] })
    const client = connect()
    const other = connect()
    client.push(Buffer.concat([heartbeatFrame(1, 'known'), heartbeatFrame(2)]))
    const codes = client.frames().map((frame) => readResponse('Heartbeat', 0, frame).body.errorCode)
    assert.deepEqual(codes, [25, -1])
    assert.equal(client.socket.closed, false)
    assert.equal(other.socket.closed, false)
    assert.deepEqual(
      log.lines.map(({ level, event }) => [level, event]),
      [['error', 'kafka.request_failed']],
    )
  })
})

it('bytes after the body are left alone, as Kafka does: librdkafka sends some with Metadata 13', async () => {
  const client = (await testDoor()).connect()
  client.push(rawRequest(3, 13, Buffer.from([0, 1, 0x61, 0, 0, 0, 0, 0, 1, 0, 0])))
  client.push(rawRequest(16, 0, Buffer.from([0, 1, 0x61, 9, 9])))
  await settle()
  assert.equal(client.frames().length, 2)
  assert.equal(client.socket.closed, false)
})

describe('kafka connection: bytes that are no requests', () => {
  const bad: readonly [string, Buffer][] = [
    ['an unknown key', rawRequest(999, 0)],
    ['a version above', rawRequest(12, 5)],
    ['a negative version', rawRequest(12, -1)],
    ['a negative key', rawRequest(-1, 0)],
    ['a header without client id', rawRequest(12, 0)],
    ['a client id beyond the frame', rawRequest(12, 0, Buffer.from([0x7f, 0xff]))],
    ['a client id of negative length', rawRequest(12, 0, Buffer.from([0x80, 0x00, 0, 0]))],
    ['a body that is cut', framed(heartbeatFrame(1).subarray(4, 24))],
    ['a negative frame length', Buffer.from([0xff, 0xff, 0xff, 0xff])],
  ]
  for (const [what, bytes] of bad) {
    it(`${what}: earlier answers go out, then the connection closes with a log line`, async () => {
      const { apis, calls } = puppet()
      const { connect, log } = await testDoor({ apis })
      const client = connect()
      client.push(Buffer.concat([produceFrame(1), bytes]))
      if (!client.socket.ended) {
        calls[0]?.answer.resolve()
        await settle()
      } else calls[0]?.answer.resolve()
      await settle()
      assert.deepEqual(ids(client.frames()), [1])
      assert.equal(client.socket.ended, true)
      assert.deepEqual(
        log.lines.map(({ level, event }) => [level, event]),
        [['warn', 'kafka.request_unreadable']],
      )
    })
  }
})
