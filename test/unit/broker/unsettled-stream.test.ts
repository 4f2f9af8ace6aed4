import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OffsetRanges } from '../../../src/broker/consume/offset-ranges.ts'
import { UnsettledStream } from '../../../src/broker/consume/unsettled-stream.ts'
import type { RecordConsumer, RecordStream } from '../../../src/broker/ports.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { batchOf, contextOf, createTopic, type FakeBroker, fakeBroker, produceOne } from '../../support/fake-broker.ts'

describe('OffsetRanges', () => {
  it('is a set of offsets', () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new SeededRandom(seed)
      const [ranges, model] = [new OffsetRanges(), new Set<number>()]
      let next = 0
      for (let step = 0; step < 300; step++) {
        if (random.below(2) === 0) {
          next += 1 + (random.below(4) === 0 ? random.below(3) : 0)
          ranges.add(next)
          model.add(next)
        } else {
          const first = random.below(next + 2)
          const last = first + random.below(6)
          ranges.delete(first, last)
          for (let offset = first; offset <= last; offset++) model.delete(offset)
        }
        const left = [...model]
        const some = random.below(next + 2)
        assert.deepEqual([ranges.first, ranges.has(some)], [left[0], model.has(some)], `seed ${seed}`)
        for (const but of [some, left[0] ?? 0])
          assert.equal(
            ranges.firstBut(but),
            left.find((offset) => offset !== but),
          )
        assert.equal(ranges.ranges, left.filter((offset) => !model.has(offset - 1)).length)
      }
    }
  })
})

async function orders(): Promise<FakeBroker> {
  const fake = await fakeBroker()
  await fake.broker.loadGroups()
  await createTopic(fake.broker, 'orders')
  return fake
}

/** A stream that gives nothing new beyond so many ranges. */
function streaming(fake: FakeBroker, maxUnsettled = 1000): { stream: RecordStream; consumer: RecordConsumer } {
  const consumer = fake.broker.records.openConsumer(contextOf({ protocol: 'native' }), { group: 'g', isolation: 'read_uncommitted' })
  consumer.addTopic('orders')
  const { clock, broker } = fake
  return {
    consumer,
    stream: new UnsettledStream({ consumer, clock, read: (request) => broker.records.read(contextOf(), request) }, { maxUnsettled }),
  }
}

async function committed({ broker }: FakeBroker): Promise<number | undefined> {
  const [found] = await broker.groups.committed(contextOf(), { group: 'g', topics: [{ topic: 'orders', partitions: [0] }] })
  return found?.value?.offset
}

const done = (stream: RecordStream, first: number, last = first) => stream.done([{ topic: 'orders', partition: 0, first, last }])

describe('UnsettledStream', () => {
  it('gives nothing new while its client leaves too much unanswered, in pieces, and then goes on', async () => {
    const fake = await orders()
    const { stream } = streaming(fake, 2)
    await produceOne(fake.broker, 'orders', 0, batchOf(30))
    const next = async () => {
      const round = await stream.next(10, 1e6)
      round.release()
      return round.records.length
    }
    assert.equal(await next(), 10)
    // Neighbours are one piece, however many they are.
    assert.equal(await next(), 10)
    await done(stream, 3)
    await done(stream, 5)
    assert.equal(await next(), 0)
    await done(stream, 0, 4)
    assert.equal(await next(), 10)
    assert.equal(await committed(fake), 6)
  })

  it('a settlement in between never commits past records that are being given', async () => {
    const fake = await orders()
    const { stream, consumer } = streaming(fake)
    await produceOne(fake.broker, 'orders', 0, batchOf(5))
    const first = await stream.next(2, 1e6)
    first.release()
    await done(stream, 0)
    const second = stream.next(3, 1e6)
    // The very turn in which the position has moved.
    while (consumer.position('orders', 0)?.offset !== 5) await null
    await done(stream, 1)
    assert.equal(await committed(fake), 2)
    ;(await second).release()
  })
})
