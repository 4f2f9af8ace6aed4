import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Broker } from '../../../src/broker/broker.ts'
import type { RequestContext } from '../../../src/broker/context.ts'
import type { Fetched, FetchPartition, FetchRequest } from '../../../src/broker/ports.ts'
import { deferred } from '../../../src/core/deferred.ts'
import { batchOf, contextOf, createTopic, type FakeBroker, fakeBroker, produceOne } from '../../support/fake-broker.ts'

function partitionOf(partition: number, fetchOffset = 0, overrides: Partial<FetchPartition> = {}): FetchPartition {
  return { topic: 'orders', partition, fetchOffset, maxBytes: 1_000_000, currentLeaderEpoch: -1, lastFetchedEpoch: -1, ...overrides }
}

function requestOf(partitions: readonly FetchPartition[], overrides: Partial<FetchRequest> = {}): FetchRequest {
  return { partitions, isolation: 'read_uncommitted', maxWaitMs: 500, minBytes: 1, maxBytes: 10_000_000, ...overrides }
}

/** A fetch and whether it was answered. */
function start(broker: Broker, request: FetchRequest, context: RequestContext = contextOf()) {
  const state = { answered: false, done: Promise.resolve() as Promise<unknown> as Promise<Fetched> }
  state.done = broker.fetch.fetch(context, request).then((fetched) => {
    state.answered = true
    return fetched
  })
  return state
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

async function ordersWith(partitions: number, options: Parameters<typeof fakeBroker>[0] = {}): Promise<FakeBroker> {
  const fake = await fakeBroker(options)
  await createTopic(fake.broker, 'orders', partitions)
  return fake
}

function sizes(fetched: Fetched): number[] {
  return fetched.partitions.map((each) => each.read?.sizeBytes ?? 0)
}

describe('fetch: answers at once', () => {
  it('gives the batches verbatim, with the offsets of the partition', async () => {
    const { broker } = await ordersWith(1)
    const batch = batchOf(3)
    await produceOne(broker, 'orders', 0, batch)
    const fetched = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0, 1)]))
    const [partition] = fetched.partitions
    assert.equal(partition?.read?.buffers[0], batch)
    assert.deepEqual([partition?.highWatermark, partition?.lastStableOffset, partition?.logStartOffset], [3, 3, 0])
    assert.equal(partition?.aborted, null)
  })

  it('nothing that is not durable', async () => {
    const { broker, logs } = await ordersWith(1)
    logs.at('orders', 0).autoSync = false
    await produceOne(broker, 'orders', 0, batchOf(1), 'none')
    const fetched = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0)], { maxWaitMs: 0 }))
    assert.deepEqual(sizes(fetched), [0])
  })

  it('errors of single partitions, without waiting', async () => {
    const { broker, logs } = await ordersWith(4)
    logs.at('orders', 0).leaderEpoch = 5
    logs.at('orders', 1).leaderEpoch = 5
    logs.at('orders', 2).logStartOffset = 10
    logs.at('orders', 3).epochEnd = { leaderEpoch: 1, endOffset: 0 }
    const fetched = await broker.fetch.fetch(
      contextOf(),
      requestOf([
        partitionOf(0, 0, { currentLeaderEpoch: 4 }),
        partitionOf(1, 0, { currentLeaderEpoch: 6 }),
        partitionOf(2, 3),
        partitionOf(3, 0, { lastFetchedEpoch: 3 }),
        partitionOf(7),
        { ...partitionOf(0), topic: 'missing' },
      ]),
    )
    assert.deepEqual(
      fetched.partitions.map((each) => each.error?.code ?? null),
      ['LEADER_EPOCH_FENCED', 'LEADER_EPOCH_UNKNOWN', 'OFFSET_OUT_OF_RANGE', null, 'PARTITION_MISSING', 'TOPIC_MISSING'],
    )
    assert.deepEqual(fetched.partitions[3]?.divergingEpoch, { leaderEpoch: 1, endOffset: 0 })
    assert.equal(fetched.partitions[2]?.logStartOffset, 10)
  })

  it('nothing of the topics that the broker keeps for itself', async () => {
    const { broker } = await fakeBroker()
    await broker.topics.create(contextOf({ protocol: 'internal' }), {
      name: '__consumer_offsets',
      partitions: 1,
      replicationFactor: 1,
      assignments: new Map(),
      config: new Map(),
    })
    const wanted = { ...partitionOf(0), topic: '__consumer_offsets' }
    const fetched = await broker.fetch.fetch(contextOf(), requestOf([wanted]))
    assert.equal(fetched.partitions[0]?.error?.code, 'TOPIC_FORBIDDEN')
  })

  it('read committed stops at the last stable offset and names aborted transactions', async () => {
    const { broker, logs } = await ordersWith(1)
    await produceOne(broker, 'orders', 0, batchOf(2))
    await produceOne(broker, 'orders', 0, batchOf(2))
    const log = logs.at('orders', 0)
    log.openTransactionAt = 2
    log.aborted = [{ producerId: 9, firstOffset: 0 }]
    const committed = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0)], { isolation: 'read_committed' }))
    assert.equal(committed.partitions[0]?.read?.nextOffset, 2)
    assert.deepEqual(committed.partitions[0]?.aborted, [{ producerId: 9, firstOffset: 0 }])
    const all = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0)]))
    assert.equal(all.partitions[0]?.read?.nextOffset, 4)
  })

  it('release gives back every read once', async () => {
    const { broker, logs } = await ordersWith(2)
    for (const partition of [0, 1]) await produceOne(broker, 'orders', partition, batchOf(1))
    const fetched = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0), partitionOf(1)]))
    assert.deepEqual([logs.at('orders', 0).unreleased, logs.at('orders', 1).unreleased], [1, 1])
    fetched.release()
    fetched.release()
    assert.deepEqual([logs.at('orders', 0).unreleased, logs.at('orders', 1).unreleased], [0, 0])
  })
})

describe('fetch: limits (O17)', () => {
  it('the first batch of the first non-empty partition comes whole, the others wait their turn', async () => {
    const { broker } = await ordersWith(3)
    for (const partition of [1, 2]) await produceOne(broker, 'orders', partition, batchOf(1, { valueBytes: 5000 }))
    const context = contextOf()
    const request = requestOf(
      [partitionOf(0, 0, { maxBytes: 1 }), partitionOf(1, 0, { maxBytes: 1 }), partitionOf(2, 0, { maxBytes: 1 })],
      { maxBytes: 1 },
    )
    const served: number[] = []
    for (let i = 0; i < 4; i++) {
      const fetched = await broker.fetch.fetch(context, request)
      const given = sizes(fetched)
      assert.equal(given.filter((size) => size > 0).length, 1)
      served.push(given.findIndex((size) => size > 0))
    }
    assert.deepEqual(served, [1, 2, 1, 2])
  })

  it('a partition limit below its batch starves nobody', async () => {
    const { broker } = await ordersWith(2)
    for (const partition of [0, 1]) await produceOne(broker, 'orders', partition, batchOf(1, { valueBytes: 5000 }))
    const context = contextOf()
    const request = requestOf([partitionOf(0, 0, { maxBytes: 100 }), partitionOf(1, 0, { maxBytes: 100 })])
    const first = sizes(await broker.fetch.fetch(context, request))
    const second = sizes(await broker.fetch.fetch(context, request))
    assert.ok((first[0] ?? 0) > 0 && first[1] === 0)
    assert.ok(second[0] === 0 && (second[1] ?? 0) > 0)
  })

  it('the answer is bounded by fetch.max.bytes whatever the client asks for', async () => {
    const { broker } = await ordersWith(2, { settings: new Map([['fetch.max.bytes', '2000']]) })
    for (const partition of [0, 0, 0, 1]) await produceOne(broker, 'orders', partition, batchOf(1, { valueBytes: 900 }))
    const fetched = await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0), partitionOf(1)]))
    const total = sizes(fetched).reduce((sum, size) => sum + size, 0)
    assert.ok(total > 1000 && total <= 2000, `${total}`)
  })
})

describe('fetch: waiting', () => {
  it('is woken by data and leaves nothing behind', async () => {
    const { broker, clock, logs } = await ordersWith(1)
    const waiting = start(broker, requestOf([partitionOf(0)]))
    await turn()
    assert.equal(waiting.answered, false)
    assert.equal(logs.at('orders', 0).watchers, 1)
    await produceOne(broker, 'orders', 0, batchOf(1))
    assert.equal((await waiting.done).partitions[0]?.read?.nextOffset, 1)
    assert.equal(logs.at('orders', 0).watchers, 0)
    // The deadlines of produce requests share a timer that ends by itself.
    await clock.advance(200)
    assert.equal(clock.pendingTimers, 0)
  })

  it('ends at maxWaitMs with nothing', async () => {
    const { broker, clock } = await ordersWith(1)
    const waiting = start(broker, requestOf([partitionOf(0)], { maxWaitMs: 300 }))
    await clock.advance(299)
    assert.equal(waiting.answered, false)
    await clock.advance(2)
    assert.deepEqual(sizes(await waiting.done), [0])
  })

  it('waits for min bytes and reads again only when they may be there', async () => {
    const { broker, logs } = await ordersWith(1)
    const log = logs.at('orders', 0)
    const size = batchOf(1).length
    const waiting = start(broker, requestOf([partitionOf(0)], { minBytes: size * 3, maxWaitMs: 60_000 }))
    await turn()
    await produceOne(broker, 'orders', 0, batchOf(1))
    await produceOne(broker, 'orders', 0, batchOf(1))
    await turn()
    assert.equal(waiting.answered, false)
    assert.equal(log.reads, 0)
    await produceOne(broker, 'orders', 0, batchOf(1))
    assert.deepEqual(sizes(await waiting.done), [size * 3])
    assert.equal(log.unreleased, 1)
  })

  it('hears of a transaction that ends although nothing was written since', async () => {
    const { broker, logs } = await ordersWith(1)
    const log = logs.at('orders', 0)
    log.openTransactionAt = 0
    await produceOne(broker, 'orders', 0, batchOf(3))
    const waiting = start(broker, requestOf([partitionOf(0)], { isolation: 'read_committed', minBytes: 50, maxWaitMs: 60_000 }))
    await turn()
    assert.equal(waiting.answered, false)
    log.openTransactionAt = undefined
    log.emit('advance')
    assert.equal((await waiting.done).partitions[0]?.read?.nextOffset, 3)
  })

  it('gives what there is below min bytes when the time is over', async () => {
    const { broker, clock } = await ordersWith(1)
    await produceOne(broker, 'orders', 0, batchOf(1))
    const waiting = start(broker, requestOf([partitionOf(0)], { minBytes: 100_000 }))
    await clock.advance(600)
    assert.equal((await waiting.done).partitions[0]?.read?.nextOffset, 1)
  })

  it('ends when the topic is deleted, with the error of the partition', async () => {
    const { broker } = await ordersWith(1)
    const waiting = start(broker, requestOf([partitionOf(0)]))
    await turn()
    await broker.topics.delete(contextOf(), 'orders')
    assert.equal((await waiting.done).partitions[0]?.error?.code, 'TOPIC_MISSING')
  })

  it('waits on at a log that failed, and ends at one that was closed', async () => {
    const { broker, logs } = await ordersWith(1)
    await produceOne(broker, 'orders', 0, batchOf(1))
    const log = logs.at('orders', 0)
    const waiting = start(broker, requestOf([partitionOf(0, 1)]))
    await turn()
    log.fail()
    await turn()
    assert.equal(waiting.answered, false)
    assert.equal((await broker.fetch.fetch(contextOf(), requestOf([partitionOf(0)]))).partitions[0]?.read?.nextOffset, 1)
    log.state = 'closed'
    log.emit('state')
    assert.equal((await waiting.done).partitions[0]?.error?.code, 'STORAGE_FAILED')
  })

  it('ends when the connection is gone and when the broker stops', async () => {
    const { broker, clock } = await ordersWith(1)
    const gone = new AbortController()
    const first = start(broker, requestOf([partitionOf(0)]), contextOf({ signal: gone.signal }))
    const second = start(broker, requestOf([partitionOf(0)]))
    await turn()
    gone.abort()
    assert.deepEqual(sizes(await first.done), [0])
    assert.equal(second.answered, false)
    await broker.close()
    assert.deepEqual(sizes(await second.done), [0])
    assert.equal(clock.pendingTimers, 0)
  })

  it('the oldest gives way when too many wait', async () => {
    const { broker } = await ordersWith(1, { maxParkedFetches: 2 })
    const waiting = [0, 1, 2].map(() => start(broker, requestOf([partitionOf(0)])))
    await turn()
    assert.deepEqual(
      waiting.map((each) => each.answered),
      [true, false, false],
    )
    await broker.close()
    await Promise.all(waiting.map((each) => each.done))
  })

  it('misses nothing that moves while another partition is read from disk', async () => {
    const { broker, logs } = await ordersWith(2)
    await produceOne(broker, 'orders', 1, batchOf(1))
    const gate = deferred()
    logs.at('orders', 1).readGate = gate.promise
    const minBytes = batchOf(1).length * 2
    const waiting = start(broker, requestOf([partitionOf(0), partitionOf(1)], { minBytes }))
    await turn()
    await produceOne(broker, 'orders', 0, batchOf(1))
    gate.resolve()
    assert.deepEqual(
      (await waiting.done).partitions.map((each) => each.read?.nextOffset),
      [1, 1],
    )
  })
})

describe('fetch: what a session follows', () => {
  const REQUEST = { isolation: 'read_uncommitted', maxWaitMs: 500, minBytes: 1, maxBytes: 10_000_000 } as const

  async function following(count: number) {
    const fake = await ordersWith(count)
    const followed = fake.broker.fetch.follow()
    const asked = Array.from({ length: count }, (_, partition) => ({ ...partitionOf(partition) }))
    for (const partition of asked) followed.add(partition)
    const fetch = async (
      more: Partial<typeof REQUEST> | { maxWaitMs?: number; minBytes?: number } = { maxWaitMs: 0 },
      context = contextOf(),
    ) => {
      const fetched = await fake.broker.fetch.fetchFollowed(context, followed, { ...REQUEST, ...more })
      fetched.release()
      return fetched.partitions.map(({ partition, read }) => `${partition}${(read?.sizeBytes ?? 0) > 0 ? '+' : ''}`)
    }
    return { ...fake, followed, asked, fetch }
  }

  it('is read when it is new, has changed or has more; all of it once a second', async () => {
    const { broker, fetch, asked, followed, clock } = await following(100)
    assert.equal((await fetch()).length, 100)
    assert.deepEqual(await fetch(), [])
    await produceOne(broker, 'orders', 7, batchOf(1))
    await produceOne(broker, 'orders', 9, batchOf(1))
    assert.deepEqual(await fetch(), ['7+', '9+'])
    assert.deepEqual(await fetch(), ['7+', '9+'], 'nobody has said that it was taken')
    Object.assign(asked[7] as object, { fetchOffset: 1 })
    followed.add(asked[7] as FetchPartition)
    followed.remove(asked[9] as FetchPartition)
    assert.deepEqual(await fetch(), ['7'])
    assert.deepEqual(await fetch(), [])
    await clock.advance(1000)
    assert.equal((await fetch()).length, 99)
  })

  it('comes in turn where only one batch fits: what has given records comes last', async () => {
    const { broker, fetch, followed } = await following(3)
    for (const partition of [0, 1, 2]) await produceOne(broker, 'orders', partition, batchOf(1))
    const first = async () => {
      const fetched = await broker.fetch.fetchFollowed(contextOf(), followed, { ...REQUEST, maxWaitMs: 0, maxBytes: 1 })
      fetched.release()
      return fetched.partitions.filter(({ read }) => (read?.sizeBytes ?? 0) > 0).map(({ partition }) => partition)
    }
    assert.deepEqual([await first(), await first(), await first(), await first()].flat(), [0, 1, 2, 0])
    assert.equal((await fetch()).length, 3)
  })

  it('wakes who waits: by records, by enough of them, by a deleted topic, by its end', async () => {
    const { broker, fetch, followed, clock, logs } = await following(50)
    await fetch()
    const waiting = fetch({})
    await turn()
    assert.equal(broker.fetch.parkedCount, 1)
    await produceOne(broker, 'orders', 3, batchOf(1))
    assert.deepEqual(await waiting, ['3+'])
    const size = logs.at('orders', 3).sizeBytes
    const patient = fetch({ minBytes: size + 150 })
    await turn()
    assert.equal(broker.fetch.parkedCount, 1)
    await produceOne(broker, 'orders', 4, batchOf(1))
    await turn()
    await produceOne(broker, 'orders', 5, batchOf(1, { valueBytes: 200 }))
    assert.deepEqual((await patient).sort(), ['3+', '4+', '5+'])
    followed.remove({ ...partitionOf(0) })
    const late = fetch({ minBytes: 1_000_000 })
    await turn()
    await clock.advance(500)
    assert.deepEqual((await late).sort(), ['3+', '4+', '5+'])
    const deleted = fetch({ minBytes: 1_000_000 })
    await turn()
    await broker.topics.delete(contextOf(), 'orders')
    assert.equal((await deleted).length, 50, 'each of them with its error')
    followed.close()
    assert.deepEqual(await fetch(), [])
    assert.equal(broker.fetch.parkedCount, 0)
  })

  it('ends a wait at once when its session is closed from elsewhere', async () => {
    const { broker, fetch, followed } = await following(2)
    await fetch()
    const waiting = fetch({})
    await turn()
    assert.equal(broker.fetch.parkedCount, 1)
    followed.close()
    assert.deepEqual([await waiting, broker.fetch.parkedCount], [[], 0])
  })

  it('leaves no watcher behind, and a connection that goes ends the wait', async () => {
    const { broker, fetch, followed, logs } = await following(2)
    await fetch()
    const gone = new AbortController()
    const waiting = fetch({}, contextOf({ signal: gone.signal }))
    await turn()
    gone.abort()
    assert.deepEqual(await waiting, [])
    const before = logs.at('orders', 0).watchers
    followed.close()
    assert.deepEqual([logs.at('orders', 0).watchers, broker.fetch.parkedCount], [before - 1, 0])
  })
})
