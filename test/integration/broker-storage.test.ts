import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Broker } from '../../src/broker/broker.ts'
import type { ProduceOutcome } from '../../src/broker/ports.ts'
import { SystemClock, withDeadline } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom, SystemRandom } from '../../src/core/random.ts'
import { FixedHost } from '../../src/io/host.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { InlineOffload } from '../../src/io/offload.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { runBatchJob } from '../../src/record/batch-jobs.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { Codecs } from '../../src/record/compression.ts'
import { Data } from '../../src/server/data.ts'
import { openBroker } from '../../src/server/open-broker.ts'
import { batchOf, contextOf, createTopic, produceOne } from '../support/fake-broker.ts'

/** The broker over the real logs and the real metadata log, on a disk in memory. */
interface Running extends AsyncDisposable {
  readonly broker: Broker
  readonly data: Data
  readonly disk: MemoryDisk
  /** The process dies: nothing is closed. */
  abandon(): void
}

const clock = new SystemClock()
let nextPid = 1000

async function run(disk: MemoryDisk, boot = 'boot-1'): Promise<Running> {
  const pid = nextPid++
  const host = new FixedHost({ pid, bootId: boot, processes: new Map([[pid, '1']]) })
  const loader = new NodeLoader()
  const random = new SystemRandom()
  const codecs = new Codecs({ loader })
  const offload = new InlineOffload({ run: (job) => runBatchJob(codecs, job) })
  const machine = { clock, random, disk, net: new VirtualNet({ clock }), host, offload, loader, failpoint: NO_FAILPOINT }
  const data = await Data.open(
    { machine, log: SILENT, metrics: NO_METRICS, codecs, onFatal: () => {} },
    {
      folder: '/data',
      nodeId: 0,
      kafka: new Map(),
      groupCommit: { lingerMs: 0, maxWaiters: 64 },
      maxOpenFiles: 64,
      memoryTopicBytes: 16 * 1024 * 1024,
    },
  )
  const broker = await openBroker({ machine, data, codecs, log: SILENT, metrics: NO_METRICS }, { nodeId: 0, settings: new Map() })
  await broker.loadGroups()
  let abandoned = false
  return {
    broker,
    data,
    disk,
    abandon() {
      abandoned = true
    },
    async [Symbol.asyncDispose]() {
      if (abandoned) return
      await broker.close()
      await data.close()
    },
  }
}

function recent(count: number, options: Parameters<typeof batchOf>[1] = {}): Buffer {
  return batchOf(count, { ...options, timestampMs: clock.nowMs() })
}

async function values(broker: Broker, topic: string, partition = 0, offset = 0): Promise<(string | undefined)[]> {
  const read = await broker.records.read(contextOf(), {
    topic,
    partition,
    offset,
    isolation: 'read_uncommitted',
    maxRecords: 1000,
    maxBytes: 1_000_000,
    maxWaitMs: 0,
  })
  const found = read.records.map((each) => each.value?.toString())
  read.release()
  return found
}

function produceValue(broker: Broker, topic: string, value: string): Promise<ProduceOutcome> {
  return produceOne(broker, topic, 0, buildBatch([{ key: null, value: Buffer.from(value), timestampMs: clock.nowMs() }]))
}

describe('broker on real storage', () => {
  it('keeps records, topics, settings, positions and producer ids over a clean stop', async () => {
    const disk = new MemoryDisk({ clock })
    let firstId = 0
    {
      await using first = await run(disk)
      await createTopic(first.broker, 'orders', 2, { 'segment.bytes': '2000' })
      for (let i = 0; i < 20; i++) assert.equal((await produceValue(first.broker, 'orders', `v${i}`)).baseOffset, i)
      const consumer = first.broker.records.openConsumer(contextOf({ protocol: 'native' }), { group: 'g', isolation: 'read_uncommitted' })
      consumer.addTopic('orders')
      const round = await consumer.poll(8, 10_000)
      await round.commit()
      round.release()
      firstId = (await first.broker.producers.newProducerId(contextOf())).producerId
    }
    await using second = await run(disk)
    assert.equal(second.data.logs.wasClean, true)
    assert.equal(second.broker.topics.get('orders').config.get('segment.bytes'), '2000')
    assert.equal((await values(second.broker, 'orders')).length, 20)
    const consumer = second.broker.records.openConsumer(contextOf({ protocol: 'native' }), { group: 'g', isolation: 'read_uncommitted' })
    consumer.addTopic('orders')
    const round = await consumer.poll(8, 10_000)
    assert.equal(round.records[0]?.value?.toString(), 'v4')
    round.release()
    assert.equal(firstId, 1)
    assert.ok((await second.broker.producers.newProducerId(contextOf())).producerId > 1000)
    assert.equal((await produceValue(second.broker, 'orders', 'v20')).baseOffset, 20)
  })

  it('O16: what was acknowledged is there after the power went, with a higher leader epoch', async () => {
    const first = await run(new MemoryDisk({ clock }))
    await createTopic(first.broker, 'orders')
    for (let i = 0; i < 10; i++) await produceValue(first.broker, 'orders', `v${i}`)
    const before = first.broker.offsets.bounds(contextOf(), 'orders', 0)
    const disk = first.disk.powerCut(new SeededRandom(7))
    first.abandon()
    await using second = await run(disk, 'boot-2')
    assert.equal((await values(second.broker, 'orders')).length, 10)
    const after = second.broker.offsets.bounds(contextOf(), 'orders', 0)
    assert.equal(after.highWatermark, before.highWatermark)
    assert.ok(after.leaderEpoch > before.leaderEpoch)
    assert.equal((await produceValue(second.broker, 'orders', 'v10')).baseOffset, 10)
    assert.throws(() => second.broker.offsets.endOfEpoch(contextOf(), 'orders', 0, before.leaderEpoch, before.leaderEpoch), /leader epoch/)
  })

  it('O5, O6: a resend is recognised after a restart, also across the wrap of the sequence', async () => {
    const disk = new MemoryDisk({ clock })
    const send = (broker: Broker, baseSequence: number, count: number) =>
      produceOne(broker, 'orders', 0, recent(count, { producerId: 9, producerEpoch: 0, baseSequence }))
    {
      await using first = await run(disk)
      await createTopic(first.broker, 'orders')
      assert.equal((await send(first.broker, 2147483646, 4)).baseOffset, 0)
      assert.equal((await send(first.broker, 2, 2)).baseOffset, 4)
    }
    const second = await run(disk)
    assert.equal((await send(second.broker, 2147483646, 4)).baseOffset, 0)
    assert.equal((await send(second.broker, 4, 1)).baseOffset, 6)
    const cut = second.disk.powerCut(new SeededRandom(3))
    second.abandon()
    await using third = await run(cut, 'boot-2')
    assert.equal((await send(third.broker, 4, 1)).baseOffset, 6)
    assert.equal((await send(third.broker, 9, 1)).error?.code, 'OUT_OF_ORDER_SEQUENCE')
    assert.equal(third.broker.offsets.bounds(contextOf(), 'orders', 0).logEndOffset, 7)
  })

  it('O20: a deleted topic leaves nothing, also when the power goes right after the answer', async () => {
    const first = await run(new MemoryDisk({ clock }))
    const old = await createTopic(first.broker, 'orders', 3)
    await produceValue(first.broker, 'orders', 'old')
    await first.broker.topics.delete(contextOf(), 'orders')
    const made = await createTopic(first.broker, 'orders', 1)
    assert.notEqual(made.id, old.id)
    assert.deepEqual(await values(first.broker, 'orders'), [])
    await produceValue(first.broker, 'orders', 'new')
    await first.broker.topics.delete(contextOf(), 'orders')
    const disk = first.disk.powerCut(new SeededRandom(11))
    first.abandon()
    await using second = await run(disk, 'boot-2')
    await second.data.settleFolders()
    await second.data.logs.removed()
    assert.equal(second.broker.topics.find('orders'), undefined)
    const names = (await disk.list('/data')).map((each) => each.name)
    assert.deepEqual(
      names.filter((name) => name.startsWith('orders') && !name.includes('stray')),
      [],
    )
    await createTopic(second.broker, 'orders', 3)
    assert.deepEqual(await values(second.broker, 'orders'), [])
  })

  it('a parked fetch is answered by the sync of what was produced meanwhile', async () => {
    await using running = await run(new MemoryDisk({ clock }))
    await createTopic(running.broker, 'orders')
    const fetching = running.broker.fetch.fetch(contextOf(), {
      partitions: [{ topic: 'orders', partition: 0, fetchOffset: 0, maxBytes: 1000, currentLeaderEpoch: 0, lastFetchedEpoch: -1 }],
      isolation: 'read_committed',
      maxWaitMs: 30_000,
      minBytes: 1,
      maxBytes: 1000,
    })
    await produceValue(running.broker, 'orders', 'a')
    const fetched = await fetching
    assert.equal(fetched.partitions[0]?.read?.nextOffset, 1)
    fetched.release()
  })

  it('stamps records itself where the topic says so', async () => {
    await using running = await run(new MemoryDisk({ clock }))
    await createTopic(running.broker, 'orders', 1, { 'message.timestamp.type': 'LogAppendTime' })
    const outcome = await produceOne(running.broker, 'orders', 0, batchOf(2, { timestampMs: 5 }))
    assert.ok(outcome.logAppendTimeMs > 1_700_000_000_000)
    const read = await running.broker.records.read(contextOf(), {
      topic: 'orders',
      partition: 0,
      offset: 0,
      isolation: 'read_uncommitted',
      maxRecords: 9,
      maxBytes: 10_000,
      maxWaitMs: 0,
    })
    assert.deepEqual(
      read.records.map((each) => each.timestampMs),
      [outcome.logAppendTimeMs, outcome.logAppendTimeMs],
    )
    read.release()
    const found = await running.broker.offsets.forTimestamp(contextOf(), 'orders', 0, outcome.logAppendTimeMs, 'read_uncommitted')
    assert.equal(found?.offset, 0)
  })

  it('every codec goes in as it came and comes out inflated', async () => {
    await using running = await run(new MemoryDisk({ clock }))
    await createTopic(running.broker, 'orders', 1)
    const codecs = new Codecs({ loader: new NodeLoader() })
    const expected: string[] = []
    for (const codec of [0, 1, 2, 3, 4]) {
      await codecs.ready(codec)
      const records = Array.from({ length: 50 }, (_, i) => ({
        key: null,
        value: Buffer.from(`codec ${codec} record ${i}`),
        timestampMs: clock.nowMs(),
      }))
      const batch = buildBatch(records, { codec, compress: (number, bytes) => codecs.deflate(number, bytes) })
      const sent = Buffer.from(batch)
      assert.equal((await produceOne(running.broker, 'orders', 0, batch)).error, null, `codec ${codec}`)
      assert.deepEqual(batch.subarray(21), sent.subarray(21))
      expected.push(...records.map((each) => each.value.toString()))
    }
    assert.deepEqual(await values(running.broker, 'orders'), expected)
    assert.equal(readBatchHeader(recent(1)).recordCount, 1)
  })

  it('O19: a batch that inflates beyond the bound is refused', async () => {
    await using running = await run(new MemoryDisk({ clock }))
    await createTopic(running.broker, 'orders', 1)
    const codecs = new Codecs({ loader: new NodeLoader() })
    for (const codec of [1, 3]) {
      await codecs.ready(codec)
      const bomb = buildBatch([{ key: null, value: Buffer.alloc(80 * 1024 * 1024), timestampMs: clock.nowMs() }], {
        codec,
        compress: (number, bytes) => codecs.deflate(number, bytes),
      })
      const outcome = await produceOne(running.broker, 'orders', 0, bomb)
      assert.equal(outcome.error?.code, 'INFLATED_TOO_LARGE', `codec ${codec}`)
    }
    assert.equal(running.broker.offsets.bounds(contextOf(), 'orders', 0).logEndOffset, 0)
  })

  it('a failing disk takes one partition offline, retriably, and the others serve', async () => {
    await using running = await run(new MemoryDisk({ clock }))
    await createTopic(running.broker, 'orders', 2)
    await produceValue(running.broker, 'orders', 'before')
    running.disk.fail({ operation: 'datasync', path: /orders-0\/.*\.log$/, effect: { kind: 'error', code: 'ENOSPC' } })
    const failed = await produceValue(running.broker, 'orders', 'lost')
    assert.equal(failed.error?.retriable, true)
    assert.equal((await produceOne(running.broker, 'orders', 1, recent(1))).error, null)
    assert.deepEqual(await values(running.broker, 'orders'), ['before'])
    const log = running.data.logs.get({ topic: 'orders', partition: 0 })
    const before = running.broker.offsets.bounds(contextOf(), 'orders', 0)
    const reopened = new Promise<void>((resolve) => {
      const stop = log?.watch(() => {
        if (log.state !== 'online') return
        stop?.()
        resolve()
      })
    })
    await withDeadline(clock, 30_000, reopened)
    // Recovery keeps the bytes that were written: their producer was told to try again, and a consumer may see both.
    assert.equal((await produceValue(running.broker, 'orders', 'after')).error, null)
    assert.ok(running.broker.offsets.bounds(contextOf(), 'orders', 0).leaderEpoch > before.leaderEpoch)
    assert.equal((await values(running.broker, 'orders')).at(-1), 'after')
  })
})
