import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { OffloadJob } from '../../../src/core/offload.ts'
import { InlineOffload } from '../../../src/io/offload.ts'
import { type BatchHeader, readBatchHeader } from '../../../src/record/batch.ts'
import { runBatchJob } from '../../../src/record/batch-jobs.ts'
import { Inflater } from '../../../src/record/inflater.ts'
import { batchOf, FakeCodecs } from '../../support/fake-broker.ts'

const codecs = new FakeCodecs()
codecs.loaded = true

function inflater() {
  const jobs: OffloadJob[] = []
  const offload = new InlineOffload({
    run(job) {
      jobs.push(job)
      return runBatchJob(codecs, job)
    },
  })
  const options = { onLoopBytes: 1000, onLoopPlainBytes: 5000, maxInflatedBytes: 20_000 }
  return { inflater: new Inflater({ codecs, offload }, options), jobs }
}

function packed(codec: number, valueBytes: number, count = 1): { batch: Buffer; header: BatchHeader; plain: Buffer } {
  const batch = batchOf(count, { codec, valueBytes, compress: (number, bytes) => codecs.deflate(number, bytes) })
  return { batch, header: readBatchHeader(batch), plain: batchOf(count, { valueBytes }).subarray(61) }
}

const CHECK = { keyed: false, to: null, maxBytes: 20_000 }

describe('inflater (O19)', () => {
  it('small batches are worked on in the same turn, whatever the codec', () => {
    for (const codec of [1, 2, 3, 4]) {
      const { batch, header, plain } = packed(codec, 500)
      const { inflater: one, jobs } = inflater()
      assert.deepEqual(one.section(batch, header), plain)
      assert.equal((one.check(batch, header, CHECK) as { maxTimestampMs: number }).maxTimestampMs, header.maxTimestampMs)
      assert.equal((one.find(batch, header, 0, 0) as { offset: number }).offset, 0)
      assert.equal(jobs.length, 0)
    }
  })

  it('what grows beyond the bound of the loop leaves it, whatever the codec, whatever it says of itself', async () => {
    for (const codec of [1, 2, 3, 4]) {
      const { batch, header, plain } = packed(codec, 2000)
      const { inflater: one, jobs } = inflater()
      assert.deepEqual(await one.section(batch, header), plain)
      assert.equal((await one.check(batch, header, CHECK)).records, null)
      assert.deepEqual(await one.find(batch, header, 0, 1), null)
      assert.deepEqual(
        jobs.map(({ kind }) => kind),
        ['inflate', 'check', 'find'],
      )
    }
  })

  it('a batch that says that it is large is not tried on the loop', async () => {
    const { batch, header } = packed(1, 500)
    const { jobs } = inflater()
    const hinting = Object.assign(Object.create(codecs) as FakeCodecs, { sizeHint: () => 1001 })
    const offload = new InlineOffload({
      run(job) {
        jobs.push(job)
        return runBatchJob(codecs, job)
      },
    })
    await new Inflater({ codecs: hinting, offload }, { onLoopBytes: 1000, onLoopPlainBytes: 5000, maxInflatedBytes: 20_000 }).section(
      batch,
      header,
    )
    assert.equal(jobs.length, 1)
  })

  it('plain batches are walked on the loop up to a bound of their own', async () => {
    const { inflater: one, jobs } = inflater()
    const small = packed(0, 4000)
    assert.ok(!(one.check(small.batch, small.header, CHECK) instanceof Promise))
    const large = packed(0, 6000)
    await one.check(large.batch, large.header, CHECK)
    assert.deepEqual([jobs.length, one.section(large.batch, large.header) instanceof Promise], [1, false])
  })

  it('no batch grows beyond the limit, on or off the loop', async () => {
    for (const codec of [1, 2, 3, 4]) {
      const { inflater: one } = inflater()
      const { batch, header } = packed(codec, 30_000)
      await assert.rejects(async () => one.section(batch, header), { code: 'INFLATED_TOO_LARGE' })
      await assert.rejects(async () => one.section(batch, header, 10), { code: 'INFLATED_TOO_LARGE' })
      await assert.rejects(async () => one.check(batch, header, CHECK), { code: 'INFLATED_TOO_LARGE' })
      await assert.rejects(async () => one.find(batch, header, 0, 0), { code: 'INFLATED_TOO_LARGE' })
      const small = packed(codec, 500)
      assert.throws(() => one.section(small.batch, small.header, 10), { code: 'INFLATED_TOO_LARGE' })
    }
  })

  it('packs records anew by the codec that it is told', async () => {
    for (const valueBytes of [100, 2000]) {
      const { batch, header, plain } = packed(1, valueBytes, 3)
      const { records } = await inflater().inflater.check(batch, header, { ...CHECK, to: { codec: 3, level: undefined } })
      assert.deepEqual(records && codecs.inflate(3, records, 20_000), plain)
    }
  })

  it('a new batch is held to sixteen times the largest one', () => {
    const one = new Inflater({ codecs, offload: null })
    assert.equal(one.limitFor(1_048_588), 16 * 1_048_588)
    assert.equal(one.limitFor(100), 16 * 1024 * 1024)
    assert.equal(one.limitFor(100_000_000), 64 * 1024 * 1024)
  })

  it('without an offload everything is done where it is asked', () => {
    const one = new Inflater({ codecs, offload: null })
    const { batch, header, plain } = packed(2, 200_000)
    assert.deepEqual(one.section(batch, header), plain)
  })
})
