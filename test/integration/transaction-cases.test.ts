import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { compact } from '../support/compaction.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { LeapingClock } from '../support/leaping-clock.ts'
import { type Flow, fetchCommitted, offsetOf, TestProducer, valuesOf, whenSettled } from '../support/transactions.ts'

const TIMEOUT_MS = 60_000
const FLOWS: readonly Flow[] = ['plain', 'bumping']

function emptyDisk(): MemoryDisk {
  return new MemoryDisk({ clock: new SystemClock() })
}

function bounds({ broker }: DiskBroker, topic: string, partition: number) {
  return broker.offsets.bounds(contextOf(), topic, partition)
}

function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'taken',
    (error: { code?: string }) => error.code ?? String(error),
  )
}

describe('O7: the producer dies with a transaction open', () => {
  for (const flow of FLOWS) {
    for (const restart of ['no restart', 'a restart', 'a power cut'] as const) {
      it(`${flow}, ${restart} before the timeout: aborted at the timeout, nothing is held back`, async () => {
        const clock = new LeapingClock()
        let running = await diskBroker(emptyDisk(), {}, undefined, { clock })
        await createTopic(running.broker, 't', 3)
        const producer = await TestProducer.begin(running.broker, 'tx', flow, TIMEOUT_MS)
        for (let partition = 0; partition < 3; partition++) await producer.write('t', partition, 'open')
        await producer.commitOffset('g', 't', 0, 5)
        const next = await TestProducer.begin(running.broker, 'other', flow)
        await next.write('t', 0, 'after')
        await next.end(true)
        await whenSettled(running.broker)
        if (restart !== 'no restart') {
          const survivor = restart === 'a power cut' ? running.disk.powerCut(new SeededRandom(1)) : running.disk
          await running.close().catch(() => {
            // Its disk may be gone.
          })
          running = await diskBroker(survivor, {}, undefined, { clock })
        }
        const { broker } = running
        assert.deepEqual([bounds(running, 't', 0).lastStableOffset, bounds(running, 't', 0).highWatermark], [0, 3])
        assert.deepEqual(await valuesOf(broker, 't', 0), [])
        const [stable] = await broker.groups.committed(contextOf(), {
          group: 'g',
          topics: [{ topic: 't', partitions: [0] }],
          requireStable: true,
        })
        assert.equal(stable?.unstable, true)
        const [described] = await broker.transactions.describe(contextOf(), ['tx'])
        assert.deepEqual([described?.state, described?.partitions.length], ['Ongoing', 4])
        clock.leap(TIMEOUT_MS + 1)
        await whenSettled(broker)
        for (let partition = 0; partition < 3; partition++) {
          const { lastStableOffset, highWatermark } = bounds(running, 't', partition)
          assert.equal(lastStableOffset, highWatermark)
        }
        assert.deepEqual(await valuesOf(broker, 't', 0), ['after'])
        assert.equal(await offsetOf(broker, 'g', 't', 0), null)
        const [ended] = await broker.transactions.describe(contextOf(), ['tx'])
        assert.equal(ended?.state, 'CompleteAbort')
        await running.close()
      })
    }
  }

  it('an administrator ends it in its partition by a marker', async () => {
    const running = await diskBroker(emptyDisk())
    const { broker } = running
    await createTopic(broker, 't', 1)
    const producer = await TestProducer.begin(broker, 'tx', 'plain')
    await producer.write('t', 0, 'hanging')
    const [open] = broker.offsets.producers(contextOf(), 't', 0)
    assert.equal(open?.currentTxnFirstOffset, 0)
    const marker = { ...producer.owner, committed: false, coordinatorEpoch: 0, partitions: [{ topic: 't', partition: 0 }] }
    const late = await broker.transactions.writeMarker(contextOf(), { ...marker, producerEpoch: -1 })
    assert.deepEqual(
      late.map((error) => error?.code),
      ['INVALID_PRODUCER_EPOCH'],
    )
    assert.equal(bounds(running, 't', 0).lastStableOffset, 0)
    assert.deepEqual(await broker.transactions.writeMarker(contextOf(), marker), [null])
    assert.equal(bounds(running, 't', 0).lastStableOffset, 2)
    assert.deepEqual(await valuesOf(broker, 't', 0), [])
    await running.close()
  })
})

describe('an offset that waits for the end of its transaction', () => {
  it('stays deleted after a power cut and the commit of the transaction', async () => {
    const running = await diskBroker(emptyDisk())
    await createTopic(running.broker, 't', 1)
    const producer = await TestProducer.begin(running.broker, 'tx', 'plain')
    await producer.commitOffset('g', 't', 0, 5)
    const deleted = { group: 'g', offsets: [{ topic: 't', partition: 0 }] }
    assert.deepEqual(await running.broker.groups.deleteOffsets(contextOf(), deleted), [null])
    const survivor = running.disk.powerCut(new SeededRandom(1))
    await running.close().catch(() => {
      // Its disk is gone.
    })
    const { broker, close } = await diskBroker(survivor)
    await broker.transactions.end(contextOf(), producer.owner, true, false)
    await whenSettled(broker)
    assert.equal(await offsetOf(broker, 'g', 't', 0), null)
    await close()
  })
})

describe('O8: late messages of a transaction that is over', () => {
  it('an end of the transaction before neither commits nor aborts the next one', async () => {
    const running = await diskBroker(emptyDisk())
    const { broker } = running
    await createTopic(broker, 't', 1)
    const producer = await TestProducer.begin(broker, 'tx', 'bumping')
    const first = producer.owner
    await producer.write('t', 0, 'one')
    await producer.end(true)
    await producer.write('t', 0, 'two')
    for (const commit of [true, false]) {
      assert.equal(await codeOf(broker.transactions.end(contextOf(), first, commit, true)), 'PRODUCER_FENCED')
      assert.equal(await codeOf(broker.transactions.end(contextOf(), first, commit, false)), 'PRODUCER_FENCED')
    }
    const [described] = await broker.transactions.describe(contextOf(), ['tx'])
    assert.equal(described?.state, 'Ongoing')
    await producer.end(false)
    await whenSettled(broker)
    assert.deepEqual(await valuesOf(broker, 't', 0), ['one'])
    await running.close()
  })

  for (const flow of FLOWS) {
    it(`${flow}: a record after the marker is not taken, and holds nothing back`, async () => {
      const running = await diskBroker(emptyDisk())
      const { broker } = running
      await createTopic(broker, 't', 1)
      const late = await TestProducer.begin(broker, 'tx', flow)
      await late.write('t', 0, 'one')
      // Another one takes over the id: the open transaction is aborted.
      const producer = await TestProducer.begin(broker, 'tx', flow)
      await whenSettled(broker)
      assert.equal(await codeOf(late.append('t', 0, 'late')), 'INVALID_PRODUCER_EPOCH')
      assert.equal(await codeOf(late.commitOffset('g', 't', 0, 1)), 'PRODUCER_FENCED')
      await producer.write('t', 0, 'two')
      assert.equal(await codeOf(late.append('t', 0, 'late')), 'INVALID_PRODUCER_EPOCH')
      await producer.end(true)
      await whenSettled(broker)
      const { lastStableOffset, highWatermark } = bounds(running, 't', 0)
      assert.equal(lastStableOffset, highWatermark)
      assert.deepEqual(await valuesOf(broker, 't', 0), ['two'])
      await running.close()
    })
  }

  it('a record of the same epoch after the marker needs its partition added again', async () => {
    const running = await diskBroker(emptyDisk())
    const { broker } = running
    await createTopic(broker, 't', 2)
    const producer = await TestProducer.begin(broker, 'tx', 'plain')
    await producer.write('t', 0, 'one')
    await producer.end(true)
    await whenSettled(broker)
    assert.equal(await codeOf(producer.append('t', 0, 'late')), 'INVALID_TXN_STATE')
    await producer.write('t', 1, 'two')
    assert.equal(await codeOf(producer.append('t', 0, 'late')), 'INVALID_TXN_STATE')
    await producer.end(true)
    await whenSettled(broker)
    assert.deepEqual(await valuesOf(broker, 't', 0), ['one'])
    assert.equal(bounds(running, 't', 0).lastStableOffset, bounds(running, 't', 0).highWatermark)
    await running.close()
  })
})

interface Written {
  readonly offset: number
  readonly value: string
  readonly committed: boolean
}

/** Two producers whose transactions lie across each other; one aborts all of its own. */
async function interleave({ broker }: DiskBroker, rounds: number, random: SeededRandom): Promise<Written[]> {
  const written: Written[] = []
  const aborting = await TestProducer.begin(broker, 'aborting', 'bumping')
  const committing = await TestProducer.begin(broker, 'committing', 'bumping')
  for (let round = 0; round < rounds; round++) {
    for (let count = 1 + random.below(3); count > 0; count--) {
      const isAborting = random.below(2) === 0
      const value = `${isAborting ? 'aborted' : 'committed'}-${round}-${count}`
      const offset = await (isAborting ? aborting : committing).write('t', 0, value, 100)
      written.push({ offset, value, committed: !isAborting })
    }
    if (random.below(3) > 0) await aborting.end(false)
    if (random.below(3) > 0) await committing.end(true).catch(ofNothing)
  }
  await aborting.end(false)
  await committing.end(true).catch(ofNothing)
  await whenSettled(broker)
  return written
}

/** A commit of a transaction in which nothing was written. */
function ofNothing(error: unknown): void {
  if (!isCode(error, 'INVALID_TXN_STATE')) throw error
}

async function expectCommittedFromEverywhere({ broker }: DiskBroker, written: readonly Written[], maxBytes: number): Promise<void> {
  const end = broker.offsets.bounds(contextOf(), 't', 0).highWatermark
  const all = written.filter(({ committed }) => committed)
  for (let from = 0; from < end; from++) {
    const { records, nextOffset } = await fetchCommitted(broker, 't', 0, from, maxBytes)
    assert.ok(nextOffset > from, `nothing at offset ${from}`)
    const expected = all.filter(({ offset }) => offset >= from && offset < nextOffset).map(({ offset, value }) => ({ offset, value }))
    assert.deepEqual(records, expected, `from offset ${from}`)
  }
}

describe('O9, O10: what is aborted', () => {
  it('O9: is never read with read committed, from any offset, over rolls, a restart and compaction', async () => {
    const seed = seedOr(1)
    const settings = { 'log.segment.bytes': '4096' }
    let running = await diskBroker(emptyDisk(), settings)
    const config = { 'cleanup.policy': 'compact', 'segment.bytes': '4096', 'min.cleanable.dirty.ratio': '0' }
    await createTopic(running.broker, 't', 1, config)
    const written = await interleave(running, byLane({ quick: 50, ci: 200, full: 200 }), new SeededRandom(seed))
    const log = running.data.logs.get({ topic: 't', partition: 0 })
    assert.ok(log !== undefined && log.segmentCount > 3, 'the log did not roll')
    for (const maxBytes of [1, 700]) await expectCommittedFromEverywhere(running, written, maxBytes)
    await running.close()
    running = await diskBroker(running.disk, settings)
    await expectCommittedFromEverywhere(running, written, 700)
    await compact(running.data.logs)
    await expectCommittedFromEverywhere(running, written, 700)
    await running.close()
  })

  it('O10: is read with read uncommitted, also while it is open', async () => {
    const running = await diskBroker(emptyDisk())
    const { broker } = running
    await createTopic(broker, 't', 1)
    const aborting = await TestProducer.begin(broker, 'aborting', 'plain')
    await aborting.write('t', 0, 'aborted')
    await aborting.end(false)
    await whenSettled(broker)
    const open = await TestProducer.begin(broker, 'open', 'bumping')
    await open.write('t', 0, 'open')
    assert.deepEqual(await valuesOf(broker, 't', 0, 'read_uncommitted'), ['aborted', 'open'])
    assert.deepEqual(await valuesOf(broker, 't', 0), [])
    await running.close()
  })
})
