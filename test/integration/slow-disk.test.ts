import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProduceOutcome, ProduceTicket } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import type { Completions } from '../../src/io/completions.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { MetricsRegistry } from '../../src/obs/metrics.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { PartitionLog } from '../../src/storage/partition-log.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { appendTo, openHarness, readAll } from '../support/storage.ts'

const KIB = 1024
const MIB = 1024 * KIB
/** What a slow operation of the disk takes. */
const SLOW_MS = 2000
/** More than a log writes in the turn of the event loop that it came in. */
const LARGE_BYTES = 300 * KIB
const SYNCS = /^(datasync|syncDirectory) /
const machine = new SystemClock()

/** Operations of a disk that take two seconds of virtual time each, as long as their labels match. */
class SlowOperations implements Completions {
  /** Null: all end at once. */
  slow: RegExp | null = null
  readonly #clock: VirtualClock

  constructor(clock: VirtualClock) {
    this.#clock = clock
  }

  arrive(label: string): Promise<void> {
    if (this.slow?.test(label) !== true) return Promise.resolve()
    return new Promise((resolve) => this.#clock.setTimer(SLOW_MS, resolve))
  }
}

/** A broker over the real logs, on a disk and a clock that the test drives. */
class SlowWorld {
  readonly clock = new VirtualClock()
  readonly operations = new SlowOperations(this.clock)
  readonly disk = new MemoryDisk({ clock: this.clock, completions: this.operations })
  readonly metrics = new MetricsRegistry()
  running!: DiskBroker

  static async open(partitions: number, maxInflightProduceBytes = 64 * MIB): Promise<SlowWorld> {
    const world = new SlowWorld()
    const { clock, metrics } = world
    world.running = await world.drive(diskBroker(world.disk, {}, undefined, { clock, metrics, maxInflightProduceBytes }))
    await world.drive(createTopic(world.running.broker, 'orders', partitions))
    for (let partition = 0; partition < partitions; partition++) {
      assert.equal((await world.drive(world.send(partition, 'first'))).error, null)
    }
    return world
  }

  /** Time passes until the work is over. */
  async drive<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const over = () => {
      isOver = true
    }
    work.then(over, over)
    for (let turns = 0; ; turns++) {
      await new Promise<void>((resolve) => machine.defer(resolve))
      await this.clock.advance(0)
      if (isOver) return work
      assert.ok(turns < 10_000, 'the work does not end')
      await this.clock.advance(50)
    }
  }

  append(partition: number, value: string, options: { acks?: 'none' | 'all'; timeoutMs?: number; batch?: BatchOptions } = {}) {
    const { acks = 'all', timeoutMs = 1000 } = options
    const batch = buildBatch([{ key: null, value: Buffer.from(value), timestampMs: this.clock.nowMs() }], options.batch)
    const partitions = [{ topic: 'orders', partition, batch }]
    return this.running.broker.produce.append(contextOf(), { acks, timeoutMs, transactionalId: null, partitions })
  }

  async send(...args: Parameters<SlowWorld['append']>): Promise<ProduceOutcome> {
    return (await (await this.append(...args)).settled())[0] as ProduceOutcome
  }

  async values(partition: number): Promise<string[]> {
    const values: string[] = []
    for (let offset = 0; ; ) {
      const where = { topic: 'orders', partition, offset, isolation: 'read_uncommitted' } as const
      const read = await this.drive(
        this.running.broker.records.read(contextOf(), { ...where, maxRecords: 1000, maxBytes: 4 * MIB, maxWaitMs: 0 }),
      )
      for (const record of read.records) values.push(record.value?.toString() ?? '')
      offset += read.records.length
      const isEnd = read.records.length === 0
      read.release()
      if (isEnd) return values
    }
  }

  get queuedBytes(): number {
    return this.metrics.samples('moonmq_append_queue_bytes').reduce((sum, { value }) => sum + value, 0)
  }

  async close(): Promise<void> {
    this.operations.slow = null
    await this.drive(this.running.close())
  }
}

const numbered = (baseSequence: number) => ({ producerId: 7, producerEpoch: 0, baseSequence })

test('each sync takes longer than a request may: it is answered as unknown, nothing shows early, and the record is there later, once', async () => {
  const world = await SlowWorld.open(2)
  world.operations.slow = SYNCS
  const startedMs = world.clock.monotonicMs()
  const late = await world.drive(world.send(0, 'late', { batch: numbered(0) }))
  assert.deepEqual([late.error?.code, late.error?.retriable, late.baseOffset], ['REQUEST_TIMED_OUT', true, -1])
  assert.ok(world.clock.monotonicMs() - startedMs < SLOW_MS, 'the answer does not wait for the disk')
  assert.deepEqual(await world.values(0), ['first'], 'what may still be lost is not shown')
  // A client sends again what it knows nothing of. The sync may have ended meanwhile: then it is told where the record is.
  const again = await world.drive(world.send(0, 'late', { timeoutMs: 100, batch: numbered(0) }))
  assert.equal(again.error?.code, 'REQUEST_TIMED_OUT')
  const patient = await world.drive(world.send(0, 'patient', { timeoutMs: 30_000, batch: numbered(1) }))
  assert.deepEqual([patient.error, patient.baseOffset], [null, 2])
  const third = await world.drive(world.send(0, 'late', { batch: numbered(0) }))
  assert.deepEqual([third.error, third.baseOffset], [null, 1], 'a duplicate is answered with the place of the first')
  assert.deepEqual(await world.values(0), ['first', 'late', 'patient'])
  world.operations.slow = null
  assert.equal((await world.drive(world.send(0, 'fast', { batch: numbered(2) }))).baseOffset, 3)
  assert.deepEqual(await world.values(0), ['first', 'late', 'patient', 'fast'])
  await world.close()
})

test('what was answered as unknown is all there or not there at all when the power goes before the sync has ended', async () => {
  for (const writes of ['none', 'all'] as const) {
    const world = await SlowWorld.open(1)
    world.operations.slow = SYNCS
    assert.equal((await world.drive(world.send(0, 'late'))).error?.code, 'REQUEST_TIMED_OUT')
    const left = world.disk.powerCut(new SeededRandom(1), { writes, names: 'all' }, { clock: machine })
    await world.drive(world.running.close()).catch(() => {
      // Its disk is gone.
    })
    const next = await diskBroker(left)
    const read = await next.broker.records.read(contextOf(), {
      ...{ topic: 'orders', partition: 0, offset: 0, isolation: 'read_uncommitted' },
      ...{ maxRecords: 10, maxBytes: MIB, maxWaitMs: 0 },
    })
    assert.deepEqual(
      read.records.map(({ value }) => value?.toString()),
      writes === 'none' ? ['first'] : ['first', 'late'],
    )
    read.release()
    await next.close()
  }
})

test('one partition on a slow part of the disk holds up no other, nor reads of its own', async () => {
  const world = await SlowWorld.open(4)
  world.operations.slow = /^datasync .*\/orders-0\//
  const slow = world.send(0, 'slow', { timeoutMs: 30_000 })
  const startedMs = world.clock.monotonicMs()
  for (let round = 0; round < 5; round++) {
    for (const partition of [1, 2, 3]) assert.equal((await world.drive(world.send(partition, `round ${round}`))).error, null)
    assert.deepEqual(await world.values(0), ['first'])
  }
  assert.ok(world.clock.monotonicMs() - startedMs < SLOW_MS, 'the slow sync still runs')
  for (const partition of [1, 2, 3]) assert.equal((await world.values(partition)).length, 6)
  assert.equal((await world.drive(slow)).baseOffset, 1)
  assert.deepEqual(await world.values(0), ['first', 'slow'])
  await world.close()
})

test('so many partitions wait for slow syncs that the journal, slow too, stands in: all are answered as unknown and catch up', async () => {
  const world = await SlowWorld.open(12)
  const partitions = [...Array(12).keys()]
  world.operations.slow = SYNCS
  const frames = () => world.metrics.samples('moonmq_journal_frames_total').reduce((sum, { value }) => sum + value, 0)
  const sent = ['first']
  // The journal takes its time to be made too.
  while (frames() === 0) {
    assert.ok(sent.length < 30, 'the journal is used')
    const value = `round ${sent.length}`
    sent.push(value)
    const outcomes = await world.drive(Promise.all(partitions.map((partition) => world.send(partition, value))))
    for (const { error } of outcomes) assert.equal(error?.code, 'REQUEST_TIMED_OUT')
  }
  world.operations.slow = null
  await world.drive(Promise.all(partitions.map((partition) => world.send(partition, 'last', { timeoutMs: 30_000 }))))
  for (const partition of partitions) assert.deepEqual(await world.values(partition), [...sent, 'last'])
  await world.close()
})

test('producers that want no acknowledgement are held back by a slow disk: what waits is bounded, and all of it is stored in the end', async () => {
  const bound = 4 * MIB
  const world = await SlowWorld.open(2, bound)
  world.operations.slow = /^(write|datasync|syncDirectory) .*\/orders-0\//
  const value = (index: number) => `${index} ${'.'.repeat(LARGE_BYTES)}`
  const waiting: Promise<ProduceTicket>[] = []
  let most = 0
  for (let index = 0; index < 40; index++) {
    const ticket = world.append(0, value(index), { acks: 'none' })
    if (ticket instanceof Promise) waiting.push(ticket)
    else assert.equal((await ticket.settled())[0]?.error, null)
    await world.clock.advance(0)
    most = Math.max(most, world.queuedBytes)
  }
  assert.ok(waiting.length > 20, `${waiting.length} requests wait for room`)
  assert.ok(most > bound / 2 && most < bound + 2 * LARGE_BYTES, `${most} bytes waited to be written`)
  assert.deepEqual(await world.values(0), ['first'])
  const all = Promise.all(waiting.map(async (each) => (await each).settled()))
  for (const [outcome] of await world.drive(all)) assert.equal(outcome?.error, null)
  world.operations.slow = null
  assert.equal((await world.drive(world.send(0, 'last', { timeoutMs: 30_000 }))).baseOffset, 41)
  const heads = (await world.values(0)).map((each) => each.split(' ')[0])
  assert.deepEqual(heads, ['first', ...[...Array(40).keys()].map(String), 'last'])
  assert.equal(world.queuedBytes, 0)
  await world.close()
})

test('a log whose queue is full refuses with an error that clients try again after, and takes records when the disk is fast again', async () => {
  const clock = new VirtualClock()
  const operations = new SlowOperations(clock)
  const disk = new MemoryDisk({ clock, completions: operations })
  const { manager, log: first } = await openHarness({ disk, clock, config: { segmentBytes: 16 * MIB } })
  const { folder, config, topicId } = first
  await first.close()
  const log = await PartitionLog.open(manager.deps, {
    ...{ topic: 't', partition: 0, topicId, folder, config, isFolderThere: false, maxQueuedBytes: MIB },
    load: { wasClean: false, recoveryPoint: 0, txnSeals: [], logStartOffset: 0, maxEpoch: null, hadPowerCut: true },
  })
  operations.slow = /^(write|datasync) /
  const isRetriable = (error: unknown) => error instanceof MoonMQError && error.code === 'STORAGE_FAILED' && error.retriable
  const append = () => appendTo(log, ['x'.repeat(LARGE_BYTES)])
  for (let index = 0; index < 3; index++) append()
  for (let index = 0; index < 5; index++) {
    assert.throws(append, isRetriable)
    assert.ok(log.queuedBytes <= MIB)
    await clock.advance(100)
  }
  assert.equal(log.state, 'online')
  const room = log.ready()
  assert.ok(room instanceof Promise)
  operations.slow = null
  await clock.advance(2 * SLOW_MS)
  await room
  append()
  await clock.advance(SLOW_MS)
  assert.deepEqual([log.highWatermark, log.queuedBytes], [4, 0])
  assert.equal((await readAll(log)).length, 4)
})
