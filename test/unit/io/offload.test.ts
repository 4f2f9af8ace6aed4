import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/logger.ts'
import type { Offload } from '../../../src/core/offload.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { NodeLoader } from '../../../src/io/loader.ts'
import { InlineOffload, ThreadOffload, type ThreadOffloadOptions } from '../../../src/io/offload.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { runBatchJob } from '../../../src/record/batch-jobs.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { CODEC, Codecs } from '../../../src/record/compression.ts'
import { codecThreadUrl } from '../../../src/server/codec-thread-url.ts'

const codecs = new Codecs({ loader: new NodeLoader() })
for (const codec of Object.values(CODEC)) await codecs.ready(codec)

function threaded(options: Partial<ThreadOffloadOptions> = {}, clock = new SystemClock() as SystemClock | VirtualClock): ThreadOffload {
  const threadUrl = codecThreadUrl()
  assert.ok(threadUrl !== null)
  return new ThreadOffload({ clock, log: SILENT }, { threadUrl, ...options })
}

/** A thread of a few lines, which does what no codec does. */
function scripted(text: string): URL {
  return new URL(`data:text/javascript,import { parentPort, threadId } from 'node:worker_threads'; ${encodeURIComponent(text)}`)
}

const text = Buffer.from('the same words again and again, '.repeat(20_000))
const job = (codec: number, bytes: Buffer, maxBytes: number) => ({ kind: 'inflate', codec, bytes, maxBytes }) as const
const makers: Readonly<Record<string, () => Offload>> = {
  ThreadOffload: () => threaded(),
  InlineOffload: () => new InlineOffload({ run: (each) => runBatchJob(codecs, each) }),
}

for (const [name, make] of Object.entries(makers)) {
  describe(name, () => {
    const offload = make()
    after(() => offload.close())

    for (const [codecName, codec] of Object.entries(CODEC)) {
      if (codec === CODEC.none) continue
      it(`${codecName}: inflates up to the bound, refuses more and what is damaged`, async () => {
        const packed = codecs.deflate(codec, text)
        assert.ok((await offload.run(job(codec, packed, text.length))).equals(text))
        await assert.rejects(offload.run(job(codec, packed, text.length - 1)), {
          code: 'INFLATED_TOO_LARGE',
          message: /more than 639999 bytes/,
        })
        await assert.rejects(offload.run(job(codec, packed.subarray(0, packed.length - 9), text.length)), { code: 'CORRUPT_BATCH' })
        await assert.rejects(offload.run(job(codec, Buffer.alloc(0), 100)), { code: 'CORRUPT_BATCH' })
        // The caller's bytes are its own as before: they may be a view of a frame that others read.
        assert.ok(codecs.inflate(codec, packed).equals(text))
      })
    }

    it('checks and finds records, and packs them anew', async () => {
      const records = Array.from({ length: 1000 }, (_, i) => ({
        key: Buffer.from(`k${i}`),
        value: text.subarray(0, 100),
        timestampMs: 5000 + i,
      }))
      const bytes = buildBatch(records, { codec: CODEC.lz4, compress: (codec, plain) => codecs.deflate(codec, plain) })
      const check = { kind: 'check', bytes, maxBytes: 1_000_000, keyed: true } as const
      assert.deepEqual(await offload.run({ ...check, to: null }), { maxTimestampMs: 5999, minTimestampMs: 5000, records: null })
      const anew = await offload.run({ ...check, to: { codec: CODEC.gzip, level: 1 } })
      const section = codecs.inflate(CODEC.lz4, bytes.subarray(61))
      assert.ok(anew.records !== null && codecs.inflate(CODEC.gzip, anew.records).equals(section))
      const find = { kind: 'find', bytes, maxBytes: 1_000_000, fromOffset: 3 } as const
      assert.deepEqual(await offload.run({ ...find, timestampMs: 0 }), { offset: 3, timestampMs: 5003 })
      assert.deepEqual(await offload.run({ ...find, timestampMs: 5500 }), { offset: 500, timestampMs: 5500 })
      assert.equal(await offload.run({ ...find, timestampMs: 6000 }), null)
      const { recordCount } = readBatchHeader(bytes)
      assert.equal(recordCount, 1000)
    })

    it('runs many jobs and ends them all', async () => {
      const packed = codecs.deflate(CODEC.gzip, text)
      const all = await Promise.all(Array.from({ length: 20 }, () => offload.run(job(CODEC.gzip, packed, text.length))))
      assert.ok(all.every((bytes) => bytes.length === text.length))
    })
  })
}

describe('ThreadOffload', () => {
  const echo = "parentPort.on('message', (job) => parentPort.postMessage({ result: job.bytes, error: null }))"

  it('has no thread before the first job and none after it was closed; the next job starts another', async () => {
    const offload = threaded()
    assert.equal(offload.hasThread, false)
    const packed = codecs.deflate(CODEC.gzip, text)
    await offload.run(job(CODEC.gzip, packed, text.length))
    assert.equal(offload.hasThread, true)
    await offload.close()
    assert.equal(offload.hasThread, false)
    await offload.run(job(CODEC.gzip, packed, text.length))
    await offload.close()
  })

  it('a thread that dies fails the job that it ran, and the others go on with a new one', async () => {
    const offload = threaded({
      threadUrl: scripted(
        "parentPort.on('message', (job) => { if (job.codec === 7) process.exit(3); parentPort.postMessage({ result: job.bytes, error: null }) })",
      ),
    })
    const [first, second, third] = await Promise.allSettled([1, 7, 2].map((codec) => offload.run(job(codec, Buffer.from('x'), 1))))
    assert.deepEqual([first?.status, second?.status, third?.status], ['fulfilled', 'rejected', 'fulfilled'])
    assert.match(String((second as PromiseRejectedResult).reason), /died: it ended with code 3/)
    await offload.close()
  })

  it('a thread that cannot start fails each job and keeps none waiting', async () => {
    const offload = threaded({ threadUrl: new URL('file:///nowhere/thread.js') })
    for (let i = 0; i < 3; i++) await assert.rejects(offload.run(job(1, Buffer.from('x'), 1)), { code: 'OFFLOAD_FAILED' })
    await offload.close()
  })

  it('a job beyond its deadline fails and the thread with it, also one that only waits; a wait takes nothing from the work', async () => {
    const clock = new VirtualClock()
    const offload = threaded({ threadUrl: scripted("parentPort.on('message', () => { for (;;); })"), deadlineMs: 1000 }, clock)
    const failures: string[] = []
    const begin = (name: string) =>
      offload
        .run(job(1, Buffer.from('x'), 1))
        .catch((error: Error) => failures.push(`${name}: ${/it (took|waited)/.exec(error.message)?.[1]}`))
    const all = [begin('first'), begin('second')]
    await clock.advance(500)
    all.push(begin('third'))
    await clock.advance(500)
    assert.deepEqual(failures, ['first: took'])
    await clock.advance(500)
    assert.deepEqual(failures, ['first: took', 'third: waited'])
    await clock.advance(500)
    await Promise.all(all)
    assert.deepEqual(failures, ['first: took', 'third: waited', 'second: took'])
    assert.equal(offload.hasThread, false)
    await offload.close()
  })

  it('is bounded in bytes', async () => {
    const offload = threaded({ threadUrl: scripted(echo), maxQueuedBytes: 100 })
    const jobs = [80, 60, 40].map((size) => offload.run(job(1, Buffer.alloc(size), 1)))
    await assert.rejects(offload.run(job(1, Buffer.alloc(1), 1)), /wait to be inflated already/)
    assert.deepEqual(
      (await Promise.all(jobs)).map((bytes) => bytes.length),
      [80, 60, 40],
    )
    await offload.close()
  })

  it('takes small jobs before large ones, and the oldest one after every eight that went before it', async () => {
    const offload = threaded({ threadUrl: scripted(echo) })
    const served: string[] = []
    const run = async (name: string, size: number) => {
      await offload.run(job(1, Buffer.alloc(size), 1))
      served.push(name)
    }
    const large = ['A', 'B', 'C'].map((name) => run(name, 300_000))
    const small = Array.from({ length: 10 }, (_, index) => run(`${index}`, 1000))
    await Promise.all([...large, ...small])
    // A runs before anything else is there.
    assert.equal(served.join(' '), 'A 0 1 2 3 4 5 6 7 B 8 9 C')
    await offload.close()
  })

  it('closing fails what waits', async () => {
    const offload = threaded({ threadUrl: scripted("parentPort.on('message', () => { for (;;); })") })
    const ended = Promise.allSettled([1, 2].map((codec) => offload.run(job(codec, Buffer.from('x'), 1))))
    await offload.close()
    assert.deepEqual(
      (await ended).map((each) => each.status),
      ['rejected', 'rejected'],
    )
  })

  it('an idle thread is ended with the memory of its codecs', async () => {
    const clock = new VirtualClock()
    const offload = threaded({ threadUrl: scripted(echo), idleMs: 500 }, clock)
    await offload.run(job(1, Buffer.from('x'), 1))
    await clock.advance(499)
    await offload.run(job(1, Buffer.from('x'), 1))
    await clock.advance(499)
    assert.equal(offload.hasThread, true)
    await clock.advance(1)
    assert.equal(offload.hasThread, false)
    await offload.close()
  })
})
