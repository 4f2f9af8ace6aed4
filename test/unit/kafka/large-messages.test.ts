import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createTopic } from '../../support/fake-broker.ts'
import { type TestConnection, type TestDoor, testDoor } from '../../support/kafka-door.ts'
import { readResponse, requestFrame } from '../../support/kafka-frames.ts'

const NAMES = 6000
/** Of reading and of writing them, and as many of the handler's own. */
const LEAST_TURNS = 2 * Math.floor(NAMES / 512)

/** Everything that can go on without time does. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Sends a frame; how many turns the door took until it answered. Another client is answered in each. */
async function turnsOf(door: TestDoor, client: TestConnection, frame: Buffer): Promise<{ turns: number; answer: Buffer }> {
  const other = door.connect()
  client.push(frame)
  for (let turns = 0; ; turns++) {
    await turn()
    const [answer] = client.frames()
    if (answer !== undefined) return { turns, answer }
    await other.call('ApiVersions', 3, { clientSoftwareName: 'other', clientSoftwareVersion: '1' })
    assert.ok(door.clock.runDeferred(), 'it waits for its next turn')
  }
}

describe('kafka requests and answers that name very much', () => {
  it('are read and written in turns: Metadata of names that are not there', async () => {
    const door = await testDoor()
    const client = door.connect()
    await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
    const topics = Array.from({ length: NAMES }, (_, index) => ({ name: `t${index}` }))
    const { turns, answer } = await turnsOf(door, client, requestFrame('Metadata', 9, { topics, allowAutoTopicCreation: false }))
    const { body } = readResponse('Metadata', 9, answer)
    assert.deepEqual([body.topics.length, body.topics.at(-1)?.name, body.topics.at(-1)?.errorCode], [NAMES, `t${NAMES - 1}`, 3])
    assert.ok(turns >= LEAST_TURNS, `${turns} turns`)
  })

  it('are read and written in turns: OffsetFetch of many partitions', async () => {
    const door = await testDoor()
    const client = door.connect()
    await door.broker.loadGroups()
    await createTopic(door.broker, 't', 2)
    await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
    const partitionIndexes = Array.from({ length: NAMES }, (_, index) => index)
    const groups = [{ groupId: 'g', topics: [{ name: 't', partitionIndexes }] }]
    const { turns, answer } = await turnsOf(door, client, requestFrame('OffsetFetch', 8, { groups }))
    assert.equal(readResponse('OffsetFetch', 8, answer).body.groups[0]?.topics[0]?.partitions.length, NAMES)
    assert.ok(turns >= LEAST_TURNS, `${turns} turns`)
  })

  it('are served in turns where one thing has very many parts, and where each is refused', async () => {
    const door = await testDoor()
    await door.broker.loadGroups()
    await createTopic(door.broker, 't', 1)
    const client = door.connect()
    await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
    const numbers = Array.from({ length: NAMES }, (_, index) => index)
    const requests = [
      requestFrame('LeaveGroup', 5, { groupId: 'g', members: numbers.map((at) => ({ memberId: `m${at}` })) }),
      requestFrame('ShareGroupDescribe', 1, { groupIds: numbers.map((at) => `g${at}`) }),
      requestFrame('ElectLeaders', 2, { electionType: 0, topicPartitions: [{ topic: 't', partitions: numbers }], timeoutMs: 1000 }),
      requestFrame('AlterPartitionReassignments', 0, {
        timeoutMs: 1000,
        topics: [{ name: 't', partitions: numbers.map((partitionIndex) => ({ partitionIndex, replicas: [1] })) }],
      }),
    ]
    let nowMs = door.clock.monotonicMs()
    // Each look takes a while, so that work in turns ends one after every other look.
    door.clock.monotonicMs = () => {
      nowMs += 5
      return nowMs
    }
    for (const frame of requests) {
      const { turns } = await turnsOf(door, client, frame)
      assert.ok(turns >= LEAST_TURNS + 5, `${turns} turns`)
    }
  })

  it('wait for each other, and what cannot be read closes the connection', async () => {
    const door = await testDoor()
    const client = door.connect()
    await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
    const topics = Array.from({ length: NAMES }, (_, index) => ({ name: `t${index}` }))
    const large = requestFrame('Metadata', 9, { topics, allowAutoTopicCreation: false }, { correlationId: 7 })
    client.push(Buffer.concat([large, requestFrame('ListGroups', 3, {}, { correlationId: 8 })]))
    const ids: number[] = []
    for (let step = 0; step < 1000 && ids.length < 2; step++) {
      await turn()
      ids.push(...client.frames().map((frame) => frame.readInt32BE(0)))
      door.clock.runDeferred()
    }
    assert.deepEqual(ids, [7, 8])
    // The last name's length is more than there is.
    large[large.length - 12] = 120
    client.push(large)
    for (let step = 0; step < 1000 && !client.socket.ended; step++) {
      await turn()
      door.clock.runDeferred()
    }
    assert.deepEqual([client.socket.ended, client.frames().length], [true, 0])
  })

  it('of more than a megabyte are served a few at once, in their order; who goes or has no room makes way', async () => {
    const door = await testDoor({ door: { maxLargeRequestBytes: 1, maxPartialBytes: 6_000_000 } })
    const topics = Array.from({ length: NAMES }, (_, index) => ({ name: `t${index}`.padEnd(240, 'x') }))
    const frame = requestFrame('Metadata', 9, { topics, allowAutoTopicCreation: false })
    const clients: TestConnection[] = []
    for (let count = 0; count < 7; count++) {
      const client = door.connect()
      await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
      // A frame belongs to the door, which may change it.
      client.push(Buffer.from(frame))
      clients.push(client)
    }
    // One is served and four wait; there is no room for the sixth and the seventh.
    assert.deepEqual(
      clients.map((client) => client.socket.ended),
      [false, false, false, false, false, true, true],
    )
    clients[2]?.socket.close()
    const answered: number[] = []
    const turns: number[] = []
    for (let count = 0; count < 2000 && answered.length < 4; count++) {
      await turn()
      for (const [at, client] of clients.entries()) {
        if (client.frames().length === 0) continue
        answered.push(at)
        turns.push(count)
      }
      door.clock.runDeferred()
    }
    assert.deepEqual(answered, [0, 1, 3, 4])
    for (const [at, after] of turns.entries()) assert.ok(after - (turns[at - 1] ?? 0) >= LEAST_TURNS - 2, `answers in the turns ${turns}`)
    assert.equal(door.door.partialBytes, 0)
  })

  it('are dropped when the connection goes meanwhile', async () => {
    const door = await testDoor()
    const client = door.connect()
    await client.call('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
    const topics = Array.from({ length: NAMES }, (_, index) => ({ name: `t${index}` }))
    client.push(
      requestFrame('CreateTopics', 5, {
        topics: topics.map(({ name }) => ({ name, numPartitions: 1, replicationFactor: 1 })),
        timeoutMs: 1000,
      }),
    )
    client.socket.close()
    for (let step = 0; step < 100; step++) {
      await turn()
      door.clock.runDeferred()
    }
    assert.equal(door.broker.topics.list().length, 0)
  })
})
