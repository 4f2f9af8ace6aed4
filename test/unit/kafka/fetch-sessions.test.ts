import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NO_METRICS } from '../../../src/core/counters.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { FetchSessions } from '../../../src/kafka/fetch-sessions.ts'
import type { KafkaDoorOptions } from '../../../src/kafka/listener.ts'
import { batchOf, contextOf, createTopic, fakeBroker, produceOne } from '../../support/fake-broker.ts'
import { settle } from '../../support/fake-socket.ts'
import { type TestConnection, type TestDoor, testDoor } from '../../support/kafka-door.ts'
import { readResponse, requestFrame } from '../../support/kafka-frames.ts'

type Wanted = readonly [topic: string, partition: number, fetchOffset: number]

/** Names are topic names up to version 12, topic ids after. */
function body(version: number, wanted: readonly Wanted[], session: readonly [number, number], more: object = {}) {
  const topics = wanted.map(([topic, partition, fetchOffset]) => ({
    ...(version < 13 ? { topic } : { topicId: topic }),
    partitions: [{ partition, fetchOffset, partitionMaxBytes: 1_000_000 }],
  }))
  return { maxWaitMs: 0, minBytes: 1, maxBytes: 1_000_000, sessionId: session[0], sessionEpoch: session[1], topics, ...more }
}

class Reader {
  readonly version: number
  readonly #client: TestConnection
  id = 0
  epoch = 0

  constructor(client: TestConnection, version: number) {
    this.#client = client
    this.version = version
  }

  /** What the answer tells: `topic-partition`, with `:code` for an error and `+bytes` for records. */
  async fetch(wanted: readonly Wanted[], more: object = {}): Promise<string[]> {
    const answer = await this.#client.call('Fetch', this.version, body(this.version, wanted, [this.id, this.epoch], more))
    assert.equal(answer.errorCode, 0)
    this.id = answer.sessionId
    this.epoch++
    return answer.responses.flatMap(({ topic, topicId, partitions }) =>
      partitions.map(
        ({ partitionIndex, errorCode, records }) =>
          `${this.version < 13 ? topic : topicId}-${partitionIndex}${errorCode === 0 ? '' : `:${errorCode}`}${records?.length ? '+' : ''}`,
      ),
    )
  }
}

async function setup(topics: Record<string, number>, options: Partial<KafkaDoorOptions> = {}): Promise<TestDoor> {
  const door = await testDoor({ door: options })
  for (const [name, partitions] of Object.entries(topics)) await createTopic(door.broker, name, partitions)
  return door
}

const idOf = (door: TestDoor, name: string) => door.broker.topics.get(name).id

describe('fetch sessions: incremental answers', () => {
  for (const version of [7, 12, 13, 18]) {
    it(`version ${version}: an answer has what is new, and the position moves with what the client asks`, async () => {
      const door = await setup({ a: 2, b: 1 })
      const [a, b] = version < 13 ? ['a', 'b'] : [idOf(door, 'a'), idOf(door, 'b')]
      const reader = new Reader(door.connect(), version)
      assert.deepEqual(
        await reader.fetch([
          [a, 0, 0],
          [a, 1, 0],
          [b, 0, 0],
        ]),
        [`${a}-0`, `${a}-1`, `${b}-0`],
      )
      assert.deepEqual(await reader.fetch([]), [])
      await produceOne(door.broker, 'a', 1, batchOf(1))
      assert.deepEqual(await reader.fetch([]), [`${a}-1+`])
      // Not moved: the same records again.
      assert.deepEqual(await reader.fetch([]), [`${a}-1+`])
      assert.deepEqual(await reader.fetch([[a, 1, 1]]), [])
    })
  }

  it('an error is told each time, and the partition once more when it is gone', async () => {
    const door = await setup({ a: 1 })
    const reader = new Reader(door.connect(), 12)
    assert.deepEqual(
      await reader.fetch([
        ['a', 0, 5],
        ['none', 0, 0],
      ]),
      ['a-0:1', 'none-0:3'],
    )
    assert.deepEqual(await reader.fetch([]), ['a-0:1', 'none-0:3'])
    assert.deepEqual(await reader.fetch([['a', 0, 0]]), ['a-0', 'none-0:3'])
    await createTopic(door.broker, 'none')
    assert.deepEqual(await reader.fetch([]), ['none-0'])
    assert.deepEqual(await reader.fetch([]), [])
  })

  it('a start of the log that moved is told', async () => {
    const door = await setup({ a: 1 })
    await produceOne(door.broker, 'a', 0, batchOf(3))
    const reader = new Reader(door.connect(), 12)
    assert.deepEqual(await reader.fetch([['a', 0, 3]]), ['a-0'])
    await door.broker.deletion.deleteBefore(contextOf(), 'a', 0, 2)
    assert.deepEqual(await reader.fetch([]), ['a-0'])
    assert.deepEqual(await reader.fetch([]), [])
  })

  it('forgotten partitions leave, also when the same request names them; with the last one the session ends', async () => {
    const door = await setup({ a: 2 })
    const reader = new Reader(door.connect(), 12)
    await reader.fetch([
      ['a', 0, 0],
      ['a', 1, 0],
    ])
    await produceOne(door.broker, 'a', 0, batchOf(1))
    await produceOne(door.broker, 'a', 1, batchOf(1))
    const forget = (...partitions: number[]) => ({ forgottenTopicsData: [{ topic: 'a', partitions }] })
    assert.deepEqual(await reader.fetch([['a', 0, 0]], forget(0, 7)), ['a-1+'])
    assert.deepEqual(await reader.fetch([], forget(1)), [])
    assert.equal(reader.id, 0)
    assert.equal((await door.connect().call('Fetch', 12, body(12, [], [reader.id, 3]))).errorCode, 70)
  })

  it('O17: with one batch an answer, each partition comes first at some time', async () => {
    const door = await setup({ a: 3 })
    for (let partition = 0; partition < 3; partition++) {
      for (let i = 0; i < 2; i++) await produceOne(door.broker, 'a', partition, batchOf(1, { valueBytes: 50_000 }))
    }
    const reader = new Reader(door.connect(), 12)
    const small = { maxBytes: 1 }
    const told = new Set<string>()
    const wanted: Wanted[] = [
      ['a', 0, 0],
      ['a', 1, 0],
      ['a', 2, 0],
    ]
    for (let round = 0; round < 3; round++) {
      for (const each of await reader.fetch(round === 0 ? wanted : [], small)) if (each.endsWith('+')) told.add(each)
    }
    assert.deepEqual([...told].sort(), ['a-0+', 'a-1+', 'a-2+'])
  })

  it('waits for what is new in any of its partitions', async () => {
    const door = await setup({ a: 2 })
    const client = door.connect()
    const reader = new Reader(client, 12)
    await reader.fetch([
      ['a', 0, 0],
      ['a', 1, 0],
    ])
    client.push(requestFrame('Fetch', 12, body(12, [], [reader.id, 1], { maxWaitMs: 1000 })))
    await settle()
    assert.deepEqual(client.frames(), [])
    await produceOne(door.broker, 'a', 1, batchOf(1))
    await settle()
    const [frame] = client.frames()
    assert.ok(frame)
    assert.equal(readResponse('Fetch', 12, frame).body.responses[0]?.partitions[0]?.partitionIndex, 1)
  })
})

describe('fetch sessions: topic ids', () => {
  it('O20: an unknown id is 100 until the topic comes, a deleted topic 3, one that took its name 103', async () => {
    const door = await setup({ a: 1 })
    const old = idOf(door, 'a')
    const reader = new Reader(door.connect(), 13)
    const strange = 'AAAAAAAAAAAAAAAAAAAABw'
    assert.deepEqual(
      await reader.fetch([
        [old, 0, 0],
        [strange, 0, 0],
      ]),
      [`${old}-0`, `${strange}-0:100`],
    )
    assert.deepEqual(await reader.fetch([]), [`${strange}-0:100`])
    await door.broker.topics.delete(contextOf(), 'a')
    assert.deepEqual(await reader.fetch([]), [`${old}-0:3`, `${strange}-0:100`])
    await createTopic(door.broker, 'a')
    await produceOne(door.broker, 'a', 0, batchOf(1))
    assert.deepEqual((await reader.fetch([])).sort(), [`${old}-0:103`, `${strange}-0:100`].sort())
    const forgottenTopicsData = [
      { topicId: old, partitions: [0] },
      { topicId: strange, partitions: [0] },
    ]
    const now = idOf(door, 'a')
    assert.deepEqual(await reader.fetch([[now, 0, 0]], { forgottenTopicsData }), [`${now}-0+`])
  })

  it('names and ids do not mix in one session', async () => {
    const door = await setup({ a: 1 })
    const client = door.connect()
    const reader = new Reader(client, 12)
    await reader.fetch([['a', 0, 0]])
    assert.equal((await client.call('Fetch', 13, body(13, [], [reader.id, 1]))).errorCode, 106)
    const byId = new Reader(client, 13)
    await byId.fetch([[idOf(door, 'a'), 0, 0]])
    assert.equal((await client.call('Fetch', 12, body(12, [], [byId.id, 1]))).errorCode, 106)
  })
})

describe('fetch sessions: bounds', () => {
  it('with no room a client is given id 0 and all it asked for', async () => {
    const door = await setup({ a: 1 }, { maxFetchSessions: 1 })
    const first = new Reader(door.connect(), 12)
    await first.fetch([['a', 0, 0]])
    assert.ok(first.id > 0)
    const second = new Reader(door.connect(), 12)
    assert.deepEqual(await second.fetch([['a', 0, 0]]), ['a-0'])
    assert.equal(second.id, 0)
    await door.clock.advance(120_001)
    second.epoch = 0
    await second.fetch([['a', 0, 0]])
    assert.ok(second.id > 0)
    assert.equal((await door.connect().call('Fetch', 12, body(12, [], [first.id, 1]))).errorCode, 70)
  })

  it('a session that is used outlives one that is not', async () => {
    const door = await setup({ a: 1 }, { maxFetchSessions: 2 })
    const [used, unused] = [new Reader(door.connect(), 12), new Reader(door.connect(), 12)]
    for (const reader of [used, unused]) await reader.fetch([['a', 0, 0]])
    await door.clock.advance(100_000)
    await used.fetch([])
    await door.clock.advance(30_000)
    const later = new Reader(door.connect(), 12)
    await later.fetch([['a', 0, 0]])
    assert.ok(later.id > 0)
    assert.deepEqual(await used.fetch([]), [])
    assert.equal((await door.connect().call('Fetch', 12, body(12, [], [unused.id, 1]))).errorCode, 70)
  })

  it('one with more partitions takes the place of the smallest old one, though all are in use', async () => {
    const door = await setup({ a: 3 }, { maxFetchSessions: 2 })
    const [large, small] = [new Reader(door.connect(), 12), new Reader(door.connect(), 12)]
    const two: Wanted[] = [
      ['a', 0, 0],
      ['a', 1, 0],
    ]
    await large.fetch(two)
    await small.fetch([['a', 0, 0]])
    const wide = async (wanted: readonly Wanted[]) => {
      const reader = new Reader(door.connect(), 12)
      await reader.fetch(wanted)
      return reader.id > 0
    }
    assert.equal(await wide(two), false, 'they had no time yet')
    for (let at = 0; at < 2; at++) {
      await door.clock.advance(70_000)
      for (const reader of [large, small]) assert.deepEqual(await reader.fetch([]), [])
    }
    assert.equal(await wide([['a', 2, 0]]), false, 'it has no more partitions than either')
    assert.equal(await wide(two), true)
    assert.deepEqual(await large.fetch([]), [])
    assert.equal((await door.connect().call('Fetch', 12, body(12, [], [small.id, 3]))).errorCode, 70)
    assert.equal(await wide([...two, ['a', 2, 0]]), true, 'the other one is old, too, and smaller')
  })

  it('a session that grows beyond the memory is given up, with an answer', async () => {
    const door = await setup({ a: 3 }, { maxFetchSessionBytes: 1500 })
    const reader = new Reader(door.connect(), 12)
    await reader.fetch([
      ['a', 0, 0],
      ['a', 1, 0],
    ])
    assert.ok(reader.id > 0)
    assert.deepEqual(await reader.fetch([['a', 2, 0]]), ['a-2'])
    assert.equal(reader.id, 0)
  })

  it('the memory counted comes back with every end of a session', async () => {
    const { broker } = await fakeBroker()
    const random = new SeededRandom(7)
    let bytes = () => -1
    const observed = (name: string, read: () => number) => {
      if (name.endsWith('bytes')) bytes = read
      return () => {}
    }
    const metrics = { ...NO_METRICS, observed }
    const sessions = new FetchSessions({ clock: new VirtualClock(), random, metrics }, { maxSessions: 3, maxBytes: 100_000 })
    const request = (topics: readonly string[], forgotten: readonly string[] = []) =>
      ({
        topics: topics.map((topic) => ({ topic, topicId: '', partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 1 }] })),
        forgottenTopicsData: forgotten.map((topic) => ({ topic, topicId: '', partitions: [0] })),
      }) as never
    const first = sessions.create(broker, request(['a', 'b']), false)
    const second = sessions.create(broker, request(['c']), false)
    assert.ok(first !== null && second !== null)
    const full = bytes()
    assert.equal(sessions.update(first, request(['d'], ['a', 'b'])), true)
    assert.ok(bytes() < full && bytes() > 0)
    assert.equal(sessions.update(first, request([], ['d'])), false)
    sessions.remove(second.id)
    sessions.remove(second.id)
    assert.equal(bytes(), 0)
  })

  it('the epoch goes on with 1 after the largest', async () => {
    const { broker } = await fakeBroker()
    const sessions = new FetchSessions(
      { clock: new VirtualClock(), random: new SeededRandom(1), metrics: NO_METRICS },
      { maxSessions: 1, maxBytes: 1000 },
    )
    const session = sessions.create(broker, { topics: [], forgottenTopicsData: [] } as never, false)
    assert.ok(session !== null)
    session.epoch = 2 ** 31 - 2
    assert.deepEqual([session.nextEpoch(), session.nextEpoch(), session.nextEpoch()], [2 ** 31 - 1, 1, 2])
  })
})
