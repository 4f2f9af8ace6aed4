import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Fetched } from '../../src/broker/ports.ts'
import { deferred } from '../../src/core/deferred.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { RecordCursor, recordsSection } from '../../src/record/record.ts'
import { contextOf, createTopic, type FakeBroker, fakeBroker, NOW_MS } from '../support/fake-broker.ts'
import type { FakeLog } from '../support/fake-log.ts'

/**
 * Random histories of producers that send twice, consumers that wait, syncs that come when they like and reads that take their time,
 * on virtual time. Every history ends with: each record acknowledged once and at one place, every consumer has seen every record in
 * order, and nothing is left behind.
 */
const PARTITIONS = 3
const STEPS = 120
const HISTORIES = 30

interface Producer {
  readonly id: number
  readonly sequences: number[]
  /** Values sent, by partition, with where they were acknowledged. */
  readonly acked: Map<string, number>[]
  inflight: number
}

interface Consumer {
  readonly context: ReturnType<typeof contextOf>
  readonly positions: number[]
  readonly seen: string[][]
  isFetching: boolean
  minBytes: number
}

class History {
  readonly random: SeededRandom
  readonly fake: FakeBroker
  readonly producers: Producer[]
  readonly consumers: Consumer[]
  #values = 0

  constructor(fake: FakeBroker, random: SeededRandom) {
    this.fake = fake
    this.random = random
    this.producers = [1, 2, 3].map((id) => ({ id, sequences: [0, 0, 0], acked: [new Map(), new Map(), new Map()], inflight: 0 }))
    this.consumers = [1, 2, 3].map(() => ({
      context: contextOf(),
      positions: [0, 0, 0],
      seen: [[], [], []],
      isFetching: false,
      minBytes: 1,
    }))
  }

  log(partition: number): FakeLog {
    return this.fake.logs.at('orders', partition)
  }

  async step(): Promise<void> {
    const choice = this.random.below(10)
    if (choice < 4) this.#produce()
    else if (choice < 6) this.log(this.random.below(PARTITIONS)).sync()
    else if (choice < 8) this.#fetch()
    else if (choice === 8) this.#slowReads()
    else await this.fake.clock.advance(this.random.below(40))
    await this.fake.clock.advance(0)
    this.#checkNobodySleeps()
  }

  /** Whoever asked for a single byte does not wait when there is one, unless the disk is slow. */
  #checkNobodySleeps(): void {
    const logs = [0, 1, 2].map((partition) => this.log(partition))
    if (logs.some((log) => log.readGate !== undefined)) return
    for (const { isFetching, minBytes, positions } of this.consumers) {
      if (!isFetching || minBytes > 1) continue
      for (const [partition, log] of logs.entries()) assert.ok((positions[partition] ?? 0) >= log.highWatermark, 'a wake-up was lost')
    }
  }

  #produce(): void {
    const producer = this.producers[this.random.below(this.producers.length)] as Producer
    const partition = this.random.below(PARTITIONS)
    const count = 1 + this.random.below(3)
    const values = Array.from({ length: count }, () => `v${this.#values++}`)
    const baseSequence = producer.sequences[partition] as number
    producer.sequences[partition] = baseSequence + count
    const times = this.random.below(4) === 0 ? 2 : 1
    for (let i = 0; i < times; i++) this.#send(producer, partition, values, baseSequence)
  }

  #send(producer: Producer, partition: number, values: readonly string[], baseSequence: number): void {
    const records = values.map((value) => ({ key: null, value: Buffer.from(value), timestampMs: NOW_MS }))
    const batch = buildBatch(records, { producerId: producer.id, producerEpoch: 0, baseSequence })
    const ticket = this.fake.broker.produce.append(contextOf(), {
      acks: 'all',
      timeoutMs: 1_000_000,
      transactionalId: null,
      partitions: [{ topic: 'orders', partition, batch }],
    })
    producer.inflight++
    void (async () => {
      const outcome = (await (await ticket).settled())[0]
      producer.inflight--
      assert.equal(outcome?.error ?? null, null)
      const baseOffset = outcome?.baseOffset ?? -1
      // An acknowledged record is below the high watermark: no power cut takes it back.
      assert.ok(baseOffset + values.length <= this.log(partition).highWatermark)
      for (const [index, value] of values.entries()) {
        const acked = producer.acked[partition] as Map<string, number>
        assert.equal(acked.get(value) ?? baseOffset + index, baseOffset + index)
        acked.set(value, baseOffset + index)
      }
    })()
  }

  #fetch(): void {
    const consumer = this.consumers[this.random.below(this.consumers.length)] as Consumer
    if (!consumer.isFetching) void this.fetch(consumer, [1, 1, 200, 5000][this.random.below(4)] as number)
  }

  async fetch(consumer: Consumer, minBytes: number): Promise<void> {
    consumer.isFetching = true
    consumer.minBytes = minBytes
    const maxBytes = [1, 300, 10_000][this.random.below(3)] as number
    const fetched = await this.fake.broker.fetch.fetch(consumer.context, {
      partitions: consumer.positions.map((fetchOffset, partition) => ({
        topic: 'orders',
        partition,
        fetchOffset,
        maxBytes: [1, 10_000][this.random.below(2)] as number,
        currentLeaderEpoch: 0,
        lastFetchedEpoch: -1,
      })),
      isolation: 'read_uncommitted',
      maxWaitMs: 50,
      minBytes,
      maxBytes,
    })
    this.#take(consumer, fetched)
    fetched.release()
    consumer.isFetching = false
  }

  #take(consumer: Consumer, fetched: Fetched): void {
    for (const { partition, read, error } of fetched.partitions) {
      assert.equal(error, null)
      for (const bytes of read?.buffers ?? []) {
        const header = readBatchHeader(bytes)
        assert.ok(header.baseOffset + header.lastOffsetDelta < this.log(partition).highWatermark)
        const cursor = new RecordCursor(recordsSection(bytes, 0, header), header)
        while (cursor.next()) {
          assert.equal(cursor.offset, consumer.positions[partition])
          consumer.positions[partition] = cursor.offset + 1
          consumer.seen[partition]?.push(String(cursor.value()))
        }
      }
    }
  }

  #slowReads(): void {
    const log = this.log(this.random.below(PARTITIONS))
    if (log.readGate !== undefined) return
    const gate = deferred()
    log.readGate = gate.promise
    this.fake.clock.setTimer(this.random.below(60), () => {
      log.readGate = undefined
      gate.resolve()
    })
  }

  async end(): Promise<void> {
    for (let partition = 0; partition < PARTITIONS; partition++) this.log(partition).sync()
    await this.fake.clock.advance(1000)
    for (const consumer of this.consumers) {
      // Every fetch gives at least one batch, so this ends.
      while (consumer.positions.some((position, partition) => position < this.log(partition).logEndOffset)) {
        const before = consumer.positions.reduce((sum, position) => sum + position, 0)
        const fetching = this.fetch(consumer, 1)
        await this.fake.clock.advance(100)
        await fetching
        assert.ok(consumer.positions.reduce((sum, position) => sum + position, 0) > before, 'a fetch without progress')
      }
    }
    await this.fake.clock.advance(1000)
    this.#check()
  }

  #check(): void {
    for (const producer of this.producers) assert.equal(producer.inflight, 0)
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const log = this.log(partition)
      const acked = new Map<number, string>()
      for (const producer of this.producers) {
        for (const [value, offset] of producer.acked[partition] ?? []) {
          assert.ok(!acked.has(offset), `offset ${offset} twice`)
          acked.set(offset, value)
        }
      }
      const expected = [...acked].sort((a, b) => a[0] - b[0]).map(([, value]) => value)
      assert.equal(expected.length, log.logEndOffset, 'a record is stored twice or was never acknowledged')
      for (const consumer of this.consumers) assert.deepEqual(consumer.seen[partition], expected)
      assert.equal(log.unreleased, 0)
      assert.equal(log.watchers, 0)
    }
    assert.equal(this.fake.clock.pendingTimers, 0)
  }
}

async function runHistory(seed: number): Promise<void> {
  const fake = await fakeBroker()
  await createTopic(fake.broker, 'orders', PARTITIONS)
  const history = new History(fake, new SeededRandom(seed))
  for (let partition = 0; partition < PARTITIONS; partition++) history.log(partition).autoSync = false
  for (let i = 0; i < STEPS; i++) await history.step()
  await history.end()
}

for (let seed = 1; seed <= HISTORIES; seed++) {
  it(`produce and fetch, history of seed ${seed}`, () => runHistory(seed))
}
