import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Broker } from '../../../src/broker/broker.ts'
import { ConsumerSession } from '../../../src/broker/consume/consumer-session.ts'
import type { OutgoingRecord, RecordOutcome, RecordProduceOptions } from '../../../src/broker/ports.ts'
import { deferred } from '../../../src/core/deferred.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { fnv1a } from '../../../src/core/hash.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import { batchOf, contextOf, createTopic, type FakeBroker, fakeBroker, NOW_MS, produceOne } from '../../support/fake-broker.ts'
import type { FakeLog } from '../../support/fake-log.ts'

function recordOf(value: string, overrides: Partial<OutgoingRecord> = {}): OutgoingRecord {
  return { topic: 'orders', partition: 0, key: null, value: Buffer.from(value), ...overrides }
}

const OPTIONS: RecordProduceOptions = { acks: 'leader', codec: 0, timeoutMs: 10_000 }

function produce(fake: FakeBroker, records: readonly OutgoingRecord[], options: Partial<RecordProduceOptions> = {}) {
  return fake.broker.records.produce(contextOf({ protocol: 'native' }), records, { ...OPTIONS, ...options })
}

/** Ends the macrotask and lets what follows from it happen. */
async function turn(fake: FakeBroker): Promise<void> {
  await fake.clock.advance(0)
}

async function orders(partitions = 1, config: Record<string, string> = {}): Promise<FakeBroker> {
  const fake = await fakeBroker()
  await createTopic(fake.broker, 'orders', partitions, config)
  return fake
}

const offsets = (outcomes: readonly RecordOutcome[]) => outcomes.map((each) => each.offset)
const counts = (log: FakeLog) => log.batches.map((each) => readBatchHeader(each.bytes).recordCount)

describe('records: batches of single records', () => {
  it('those of one macrotask share a batch in the order of arrival, whoever sent them', async () => {
    const fake = await orders()
    const sent = [produce(fake, [recordOf('a')]), produce(fake, [recordOf('b'), recordOf('c')]), produce(fake, [recordOf('d')])]
    await turn(fake)
    assert.deepEqual((await Promise.all(sent)).map(offsets), [[0], [1, 2], [3]])
    assert.deepEqual(counts(fake.logs.at('orders', 0)), [4])
  })

  it('those that come while a batch is on its way to the disk share the next one', async () => {
    const fake = await orders()
    const log = fake.logs.at('orders', 0)
    log.autoSync = false
    const first = produce(fake, [recordOf('a')])
    await turn(fake)
    const later = [produce(fake, [recordOf('b')])]
    await turn(fake)
    later.push(produce(fake, [recordOf('c')]))
    await turn(fake)
    assert.deepEqual(counts(log), [1])
    log.sync()
    await first
    await turn(fake)
    assert.deepEqual(counts(log), [1, 2])
    log.sync()
    assert.deepEqual((await Promise.all(later)).map(offsets), [[1], [2]])
  })

  it('acks none does not wait for the sync of others', async () => {
    const fake = await orders()
    fake.logs.at('orders', 0).autoSync = false
    void produce(fake, [recordOf('a')])
    await turn(fake)
    const none = produce(fake, [recordOf('b')], { acks: 'none' })
    await turn(fake)
    assert.deepEqual(offsets(await none), [1])
  })

  it('other codecs and other acks are other batches, in order', async () => {
    const fake = await orders()
    const sent = [
      produce(fake, [recordOf('a')]),
      produce(fake, [recordOf('b')], { codec: 1 }),
      produce(fake, [recordOf('c')], { acks: 'all' }),
    ]
    await turn(fake)
    assert.deepEqual((await Promise.all(sent)).map(offsets), [[0], [1], [2]])
    const codecs = fake.logs.at('orders', 0).batches.map((each) => readBatchHeader(each.bytes).attributes & 7)
    assert.deepEqual(codecs, [0, 1, 0])
  })

  it('a codec that is being loaded holds what comes after it', async () => {
    const fake = await orders()
    const gate = deferred()
    fake.codecs.load = () => gate.promise
    const sent = [produce(fake, [recordOf('a')], { codec: 2 }), produce(fake, [recordOf('b')])]
    await turn(fake)
    assert.deepEqual(counts(fake.logs.at('orders', 0)), [])
    gate.resolve()
    await turn(fake)
    assert.deepEqual((await Promise.all(sent)).map(offsets), [[0], [1]])
  })

  it('a batch stays below max.message.bytes; a record above it is refused alone', async () => {
    const fake = await orders(1, { 'max.message.bytes': '1000' })
    const big = 'x'.repeat(400)
    const sent = produce(fake, [recordOf(big), recordOf(big), recordOf('y'.repeat(2000)), recordOf(big)])
    await turn(fake)
    const outcomes = await sent
    assert.deepEqual(
      outcomes.map((each) => each.error?.code ?? null),
      [null, null, 'RECORD_TOO_LARGE', null],
    )
    assert.deepEqual(offsets(outcomes), [0, 1, -1, 2])
  })

  it('keys choose the partition, a partition given is taken, headers and nulls are kept', async () => {
    const fake = await orders(5)
    const key = Buffer.from('customer')
    const chosen = fnv1a(key) % 5
    const given = (chosen + 1) % 5
    const headers = [
      { key: 'trace', value: Buffer.from('1') },
      { key: 'none', value: null },
    ]
    const sent = produce(fake, [
      recordOf('a', { partition: null, key }),
      recordOf('b', { partition: given, key, headers }),
      { topic: 'orders', partition: given, key: null, value: null },
    ])
    await turn(fake)
    assert.deepEqual(
      (await sent).map((each) => each.partition),
      [chosen, given, given],
    )
    const read = await fake.broker.records.read(contextOf(), {
      topic: 'orders',
      partition: given,
      offset: 0,
      isolation: 'read_uncommitted',
      maxRecords: 10,
      maxBytes: 1000,
      maxWaitMs: 0,
    })
    assert.deepEqual(
      read.records.map((each) => each.value?.toString() ?? null),
      ['b', null],
    )
    assert.deepEqual(
      read.records[0]?.headers.map((each) => [each.key, each.value?.toString() ?? null]),
      [
        ['trace', '1'],
        ['none', null],
      ],
    )
    assert.equal(read.records[0]?.timestampMs, NOW_MS)
    read.release()
    assert.equal(fake.logs.at('orders', given).unreleased, 0)
  })

  it('what cannot be is in the outcome of its record only', async () => {
    const fake = await orders()
    const sent = produce(fake, [
      recordOf('a', { topic: 'missing' }),
      recordOf('b', { partition: 9 }),
      recordOf('c'),
      recordOf('d', { timestampMs: NOW_MS + 10 ** 9 }),
    ])
    await turn(fake)
    assert.deepEqual(
      (await sent).map((each) => each.error?.code ?? null),
      ['TOPIC_MISSING', 'PARTITION_MISSING', null, 'INVALID_TIMESTAMP'],
    )
    const unknown = produce(fake, [recordOf('e')], { codec: 9 })
    fake.codecs.ready = () => {
      throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec: 9 })
    }
    await turn(fake)
    assert.equal((await unknown)[0]?.error?.code, 'UNSUPPORTED_COMPRESSION')
  })

  it('a log that fails answers those that wait, and the queue goes on', async () => {
    const fake = await orders()
    const log = fake.logs.at('orders', 0)
    log.autoSync = false
    const first = produce(fake, [recordOf('a')])
    await turn(fake)
    const second = produce(fake, [recordOf('b')])
    await turn(fake)
    log.fail()
    assert.equal((await first)[0]?.error?.code, 'STORAGE_FAILED')
    assert.equal((await second)[0]?.error?.code, 'STORAGE_FAILED')
    log.state = 'online'
    log.autoSync = true
    const third = produce(fake, [recordOf('c')])
    await turn(fake)
    assert.equal((await third)[0]?.error, null)
  })
})

async function fill(broker: Broker, partition: number, values: readonly string[]): Promise<void> {
  const records = values.map((value) => ({ key: null, value: Buffer.from(value), timestampMs: NOW_MS }))
  await produceOne(broker, 'orders', partition, buildBatch(records))
}

describe('records: consumer (docs/PROTOCOL.md)', () => {
  const native = contextOf({ protocol: 'native' })
  const values = (round: { records: readonly { value: Buffer | null }[] }) => round.records.map((each) => each.value?.toString())

  async function consuming(fake: FakeBroker, options: { maxPartBytes?: number; isolation?: 'read_committed' } = {}) {
    await fake.broker.loadGroups()
    const consumer = fake.broker.records.openConsumer(native, { group: 'g', isolation: 'read_uncommitted', ...options })
    consumer.addTopic('orders')
    return consumer
  }

  it('starts at 0 without a commit, at the commit with one, and at the log start when that is gone', async () => {
    const fake = await orders(2)
    await fill(fake.broker, 0, ['a', 'b', 'c'])
    await fill(fake.broker, 1, ['d', 'e', 'f'])
    const first = await consuming(fake)
    const round = await first.poll(4, 1000)
    assert.deepEqual(values(round).sort(), ['a', 'b', 'd', 'e'])
    await round.commit()
    const second = await consuming(fake)
    assert.deepEqual(values(await second.poll(10, 1000)).sort(), ['c', 'f'])
    fake.logs.at('orders', 0).logStartOffset = 3
    await fill(fake.broker, 0, ['g'])
    const third = await consuming(fake)
    assert.deepEqual(values(await third.poll(10, 1000)).sort(), ['f', 'g'])
  })

  it('moves on without a commit, in the middle of a batch', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a', 'b', 'c'])
    const consumer = await consuming(fake)
    const rounds = [await consumer.poll(1, 1000), await consumer.poll(1, 1000), await consumer.poll(5, 1000), await consumer.poll(5, 1000)]
    assert.deepEqual(rounds.map(values), [['a'], ['b'], ['c'], []])
  })

  it('finds again what was given back, and not what was sought meanwhile', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a', 'b', 'c'])
    const consumer = await consuming(fake)
    const round = await consumer.poll(2, 1000)
    round.giveBack()
    assert.deepEqual(values(await consumer.poll(2, 1000)), ['a', 'b'])
    const last = await consumer.poll(2, 1000)
    consumer.begin('orders', 0, 1)
    last.giveBack()
    assert.deepEqual(values(await consumer.poll(2, 1000)), ['b', 'c'])
  })

  it('spreads the budget: at most ceil(max / partitions) each, every partition in turn', async () => {
    const fake = await orders(3)
    for (const partition of [0, 1, 2]) await fill(fake.broker, partition, ['1', '2', '3', '4', '5'])
    const consumer = await consuming(fake)
    const round = await consumer.poll(4, 1000)
    const perPartition = [0, 1, 2].map((partition) => round.records.filter((each) => each.partition === partition).length)
    assert.deepEqual(perPartition.sort(), [0, 2, 2])
    const seen = new Set<number>()
    for (let i = 0; i < 3; i++) for (const record of (await consumer.poll(1, 1000)).records) seen.add(record.partition)
    assert.equal(seen.size, 3)
    assert.deepEqual((await consumer.poll(0, 1000)).records, [])
  })

  it('reads every topic of its set; one that is gone is skipped, one that grew is read', async () => {
    const fake = await orders()
    await createTopic(fake.broker, 'other')
    const consumer = await consuming(fake)
    consumer.addTopic('other')
    assert.throws(
      () => consumer.addTopic('missing'),
      (error) => (error as MoonMQError).code === 'TOPIC_MISSING',
    )
    await fill(fake.broker, 0, ['a'])
    await produceOne(fake.broker, 'other', 0, batchOf(1))
    assert.deepEqual((await consumer.poll(10, 1000)).records.map((each) => each.topic).sort(), ['orders', 'other'])
    await fake.broker.topics.delete(contextOf(), 'other')
    await fake.broker.topics.createPartitions(contextOf(), 'orders', 2)
    await fill(fake.broker, 1, ['b'])
    assert.deepEqual(values(await consumer.poll(10, 1000)), ['b'])
  })

  it('O20: a topic made again is read from its beginning', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a', 'b'])
    const consumer = await consuming(fake)
    await (await consumer.poll(10, 1000)).commit()
    await fake.broker.topics.delete(contextOf(), 'orders')
    await createTopic(fake.broker, 'orders')
    await fill(fake.broker, 0, ['c'])
    assert.deepEqual(values(await consumer.poll(10, 1000)), ['c'])
  })

  it('read committed hides aborted records and stops at the last stable offset; control records are never seen', async () => {
    const fake = await orders()
    const log = fake.logs.at('orders', 0)
    const put = (bytes: Buffer) => log.append(bytes, readBatchHeader(bytes), { leaderEpoch: 0 })
    const transactional = (value: string, producerId: number, baseSequence: number) =>
      buildBatch([{ key: null, value: Buffer.from(value), timestampMs: NOW_MS }], {
        transactional: true,
        producerId,
        producerEpoch: 0,
        baseSequence,
      })
    const marker = (producerId: number, commit: boolean) =>
      buildEndTxnMarker({ commit, producerId, producerEpoch: 0, coordinatorEpoch: 0, timestampMs: NOW_MS })
    put(transactional('aborted', 1, 0))
    put(transactional('committed', 2, 0))
    put(marker(1, false))
    put(transactional('later', 1, 1))
    put(marker(1, true))
    put(marker(2, true))
    put(transactional('open', 3, 0))
    log.aborted = [{ producerId: 1, firstOffset: 0 }]
    log.openTransactionAt = 6
    const committed = await consuming(fake, { isolation: 'read_committed' })
    assert.deepEqual(values(await committed.poll(10, 1000)), ['committed', 'later'])
    assert.equal(committed.position('orders', 0)?.offset, 6)
    const all = await consuming(fake)
    assert.deepEqual(values(await all.poll(10, 1000)), ['aborted', 'committed', 'later', 'open'])
  })

  it('a value that the client cannot read fails the poll when nothing else is there, and is not skipped', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a', 'x'.repeat(100), 'b'])
    const consumer = await consuming(fake, { maxPartBytes: 50 })
    assert.deepEqual(values(await consumer.poll(10, 1000)), ['a'])
    await assert.rejects(consumer.poll(10, 1000), (error) => (error as MoonMQError).code === 'VALUE_TOO_LARGE_FOR_CLIENT')
    assert.equal(consumer.position('orders', 0)?.offset, 1)
    consumer.begin('orders', 0, 2)
    assert.deepEqual(values(await consumer.poll(10, 1000)), ['b'])
  })

  it('a rewind during a round wins', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a', 'b'])
    const consumer = await consuming(fake)
    await (await consumer.poll(1, 1000)).release()
    const gate = deferred()
    fake.logs.at('orders', 0).readGate = gate.promise
    const polling = consumer.poll(1, 1000)
    await turn(fake)
    consumer.begin('orders', 0, 0)
    gate.resolve()
    assert.deepEqual(values(await polling), [], 'what was read before it is not handed on after it')
    assert.equal(consumer.position('orders', 0)?.offset, 0)
    assert.deepEqual(values(await consumer.poll(10, 1000)), ['a', 'b'])
  })

  it('gives back what it read; a commit that is refused is no error of the client', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['a'])
    const consumer = await consuming(fake)
    assert.ok(consumer instanceof ConsumerSession)
    const round = await consumer.poll(10, 1000)
    round.release()
    round.release()
    assert.equal(fake.logs.at('orders', 0).unreleased, 0)
    await fake.broker.topics.delete(contextOf(), 'orders')
    await round.commit()
  })

  it('inflates a batch once, however many polls it takes to read it', async () => {
    const fake = await orders()
    const compress = (codec: number, bytes: Buffer) => fake.codecs.deflate(codec, bytes)
    const records = Array.from({ length: 20 }, (_, i) => ({ key: null, value: Buffer.from(`v${i}`), timestampMs: NOW_MS }))
    for (let i = 0; i < 2; i++) await produceOne(fake.broker, 'orders', 0, buildBatch(records, { codec: 1, compress }))
    const consumer = await consuming(fake)
    let inflated = 0
    const inflate = fake.codecs.inflate.bind(fake.codecs)
    fake.codecs.inflate = (codec, bytes, maxBytes) => {
      inflated++
      return inflate(codec, bytes, maxBytes)
    }
    const seen: (string | undefined)[] = []
    for (let i = 0; i < 14; i++) seen.push(...values(await consumer.poll(3, 1000)))
    assert.deepEqual(
      seen,
      [...records, ...records].map((each) => each.value.toString()),
    )
    assert.equal(inflated, 2)
  })

  it('bytes of a round are bounded, but one record always comes', async () => {
    const fake = await orders()
    await fill(fake.broker, 0, ['x'.repeat(300), 'y'.repeat(300), 'z'])
    const consumer = await consuming(fake)
    assert.deepEqual(values(await consumer.poll(10, 10)), ['x'.repeat(300)])
    assert.deepEqual(values(await consumer.poll(10, 350)), ['y'.repeat(300), 'z'])
  })
})
