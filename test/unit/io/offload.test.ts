import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as zlib from 'node:zlib'
import type { Offload } from '../../../src/core/offload.ts'
import { InlineOffload, NodeOffload } from '../../../src/io/offload.ts'

const { gunzipSync, gzipSync } = zlib

const makers: Readonly<Record<string, () => Offload>> = {
  NodeOffload: () => new NodeOffload({ poolSize: 4 }),
  InlineOffload: () => new InlineOffload(),
}

for (const [name, make] of Object.entries(makers)) {
  describe(name, () => {
    const offload = make()
    const text = Buffer.from('the same words again and again, '.repeat(20_000))

    it('inflates what it or another deflated, up to the bound', async () => {
      assert.ok((await offload.gunzip(gzipSync(text), text.length)).equals(text))
      assert.ok(gunzipSync(await offload.gzip(text)).equals(text))
      assert.equal((await offload.gunzip(gzipSync(''), 0)).length, 0)
      assert.equal((await offload.gunzip(Buffer.concat([gzipSync('a'), gzipSync('b')]), 10)).toString(), 'ab')
    })

    it('refuses more than the bound', async () => {
      await assert.rejects(offload.gunzip(gzipSync(text), text.length - 1), {
        code: 'INFLATED_TOO_LARGE',
        message: /more than 639999 bytes/,
      })
      const bomb = gzipSync(Buffer.alloc(50 << 20))
      await assert.rejects(offload.gunzip(bomb, 1 << 20), { code: 'INFLATED_TOO_LARGE' })
    })

    it('refuses damaged and truncated bytes', async () => {
      const packed = gzipSync(text)
      await assert.rejects(offload.gunzip(packed.subarray(0, packed.length - 9), text.length), { code: 'CORRUPT_BATCH' })
      await assert.rejects(offload.gunzip(Buffer.from('no gzip at all'), 100), { code: 'CORRUPT_BATCH' })
      await assert.rejects(offload.gunzip(Buffer.alloc(0), 100), { code: 'CORRUPT_BATCH' })
    })

    it('runs many jobs and ends them all', async () => {
      const packed = gzipSync(text)
      const all = await Promise.all(Array.from({ length: 20 }, () => offload.gunzip(packed, text.length)))
      assert.ok(all.every((bytes) => bytes.length === text.length))
    })

    it('offers zstd exactly where the runtime has it', async () => {
      const has = 'zstdDecompress' in zlib
      assert.equal(offload.zstd !== null, has)
      if (offload.zstd === null) return
      const packed = await offload.zstd.compress(text)
      assert.ok((await offload.zstd.decompress(packed, text.length)).equals(text))
      await assert.rejects(offload.zstd.decompress(packed, text.length - 1), { code: 'INFLATED_TOO_LARGE' })
    })
  })
}
