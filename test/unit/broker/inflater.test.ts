import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Inflater } from '../../../src/broker/produce/inflater.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import type { Offload } from '../../../src/core/offload.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { batchOf, FakeCodecs } from '../../support/fake-broker.ts'

const codecs = new FakeCodecs()
codecs.loaded = true

function inflater(zstd = false) {
  const offLoop: number[] = []
  const unpack = async (bytes: Buffer, maxBytes: number) => {
    offLoop.push(maxBytes)
    if (bytes.length > maxBytes) throw new MoonMQError('INFLATED_TOO_LARGE', { limit: maxBytes })
    return Buffer.from(bytes).reverse()
  }
  const offload: Offload = {
    gunzip: unpack,
    gzip: async (bytes) => bytes,
    zstd: zstd ? { decompress: unpack, compress: async (bytes) => bytes } : null,
  }
  const options = { offLoopFromBytes: 5000, onLoopBytes: 1000, maxInflatedBytes: 20_000 }
  return { inflater: new Inflater({ codecs, offload }, options), offLoop }
}

function packed(codec: number, valueBytes: number) {
  const batch = batchOf(1, { codec, valueBytes, compress: (number, bytes) => codecs.deflate(number, bytes) })
  return { batch, header: readBatchHeader(batch), plain: batchOf(1, { valueBytes }).subarray(61) }
}

describe('inflater (O19)', () => {
  it('small batches inflate in the same turn, whatever the codec', () => {
    for (const codec of [1, 2, 3, 4]) {
      const { batch, header, plain } = packed(codec, 500)
      assert.deepEqual(inflater().inflater.section(batch, header), plain)
    }
  })

  it('a batch that grows beyond the bound of the loop leaves it', async () => {
    const { inflater: one, offLoop } = inflater()
    const { batch, header, plain } = packed(1, 2000)
    const section = one.section(batch, header)
    assert.ok(section instanceof Promise)
    assert.deepEqual(await section, plain)
    assert.deepEqual(offLoop, [20_000])
  })

  it('a large batch leaves the loop at once', async () => {
    const { inflater: one } = inflater()
    const { batch, header, plain } = packed(1, 6000)
    assert.deepEqual(await one.section(batch, header), plain)
  })

  it('zstd leaves the loop where the runtime has it', async () => {
    const { batch, header } = packed(4, 6000)
    assert.ok(inflater(true).inflater.section(batch, header) instanceof Promise)
    assert.ok(Buffer.isBuffer(inflater(false).inflater.section(batch, header)))
  })

  it('no batch grows beyond the limit, on or off the loop', async () => {
    const { inflater: one } = inflater(true)
    for (const codec of [1, 4]) {
      const { batch, header } = packed(codec, 30_000)
      await assert.rejects(async () => one.section(batch, header), /bytes/)
    }
    const lz4 = packed(3, 30_000)
    assert.throws(() => one.section(lz4.batch, lz4.header), /bytes/)
    assert.throws(() => one.section(lz4.batch, lz4.header, 10), /bytes/)
  })

  it('codecs of the event loop are held to sixteen times the largest batch', () => {
    const { header } = packed(3, 10)
    const one = new Inflater({ codecs, offload: { gunzip: async (b) => b, gzip: async (b) => b, zstd: null } })
    assert.equal(one.limitFor(header, 1_048_588), 16 * 1_048_588)
    assert.equal(one.limitFor(header, 100), 16 * 1024 * 1024)
    assert.equal(one.limitFor(header, 100_000_000), 64 * 1024 * 1024)
    assert.equal(one.limitFor(packed(1, 10).header, 100), 64 * 1024 * 1024)
  })
})
