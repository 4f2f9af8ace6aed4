import assert from 'node:assert/strict'
import { test } from 'node:test'
import zlib from 'node:zlib'
import fc from 'fast-check'
import { SeededRandom } from '../../../src/core/random.ts'
import { NodeLoader, PreloadedLoader } from '../../../src/io/loader.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { CODEC, Codecs, codecByName, codecName } from '../../../src/record/compression.ts'
import { decodeLz4, encodeLz4 } from '../../../src/record/lz4.ts'
import { readRecords } from '../../../src/record/record.ts'
import { decodeSnappy } from '../../../src/record/snappy.ts'
import { xxh32 } from '../../../src/record/xxhash.ts'
import { readZstdFrames } from '../../../src/record/zstd-frames.ts'

const MIB = 1024 * 1024
const random = new SeededRandom(7)
/** Text that compresses, noise that does not, and the empty and tiny cases. */
const SAMPLES = [
  Buffer.alloc(0),
  Buffer.from('a'),
  Buffer.from('abcdabcdabcdabcd'),
  Buffer.from('the quick brown fox jumps over the lazy dog '.repeat(5000)),
  Buffer.alloc(300_000, 7),
  random.bytes(70_000),
  Buffer.concat([random.bytes(40_000), Buffer.alloc(200_000, 'xyz'), random.bytes(100)]),
]

/** As where no package is installed. */
const NOTHING = new PreloadedLoader({}, {})

async function readyCodecs(): Promise<Codecs> {
  const codecs = new Codecs({ loader: new NodeLoader() })
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
  return codecs
}

test('what each codec packs it unpacks, within exactly its size', async () => {
  const codecs = await readyCodecs()
  for (const codec of Object.values(CODEC)) {
    for (const sample of SAMPLES) {
      const packed = codecs.deflate(codec, sample)
      assert.deepEqual(codecs.inflate(codec, packed, Math.max(1, sample.length)), sample, `${codecName(codec)} of ${sample.length} bytes`)
    }
  }
})

test('one byte more than the bound is refused by each codec', async () => {
  const codecs = await readyCodecs()
  for (const codec of [CODEC.gzip, CODEC.snappy, CODEC.lz4, CODEC.zstd]) {
    for (const sample of SAMPLES) {
      if (sample.length < 2) continue
      const packed = codecs.deflate(codec, sample)
      assert.throws(
        () => codecs.inflate(codec, packed, sample.length - 1),
        { code: 'INFLATED_TOO_LARGE' },
        `${codecName(codec)} of ${sample.length}`,
      )
    }
  }
})

test('a bomb is refused at the bound', async () => {
  const codecs = await readyCodecs()
  const zeros = Buffer.alloc(32 * MIB)
  for (const codec of [CODEC.gzip, CODEC.lz4, CODEC.zstd, CODEC.snappy]) {
    const bomb = codecs.deflate(codec, zeros)
    assert.throws(() => codecs.inflate(codec, bomb, MIB), { code: 'INFLATED_TOO_LARGE' })
  }
})

test('sizes that lie are refused, whichever way they lie', async () => {
  const codecs = await readyCodecs()
  const refused = (codec: number, bytes: Buffer, code: string) => assert.throws(() => codecs.inflate(codec, bytes, MIB), { code })
  // Snappy: five bytes that say 900 KB, a block that says less than it has, one that says more.
  refused(CODEC.snappy, Buffer.from('a0f73600', 'hex'), 'CORRUPT_BATCH')
  refused(CODEC.snappy, Buffer.from('01086162' + '63', 'hex'), 'CORRUPT_BATCH')
  refused(CODEC.snappy, Buffer.from('05086162' + '63', 'hex'), 'CORRUPT_BATCH')
  refused(CODEC.snappy, Buffer.from('ffffffff0f00', 'hex'), 'CORRUPT_BATCH')
  // Zstd: a header that promises 2^40 bytes, and one that promises more than its blocks give.
  refused(CODEC.zstd, Buffer.from('28b52ffd' + 'e0' + '0000000000010000' + '010000', 'hex'), 'INFLATED_TOO_LARGE')
  refused(CODEC.zstd, Buffer.from('28b52ffd' + '20' + '05' + '090000' + '61', 'hex'), 'CORRUPT_BATCH')
  // Zstd: blocks of repeated bytes that add up to more than the bound although nothing is promised.
  const block = Buffer.from('02001061', 'hex')
  refused(
    CODEC.zstd,
    Buffer.concat([Buffer.from('28b52ffd' + '00' + '58', 'hex'), ...new Array<Buffer>(9).fill(block), Buffer.from('010000', 'hex')]),
    'INFLATED_TOO_LARGE',
  )
  // LZ4: a frame that says 2^40 bytes.
  const head = Buffer.from('04224d18' + '68' + '40' + '0000000000010000' + '00', 'hex')
  head[head.length - 1] = (xxh32(head, 4, head.length - 1) >>> 8) & 0xff
  refused(CODEC.lz4, Buffer.concat([head, Buffer.alloc(4)]), 'INFLATED_TOO_LARGE')
})

test('every truncation of a compressed block is detected', async () => {
  const codecs = await readyCodecs()
  const sample = Buffer.from('the quick brown fox jumps over the lazy dog '.repeat(8))
  for (const codec of [CODEC.gzip, CODEC.snappy, CODEC.lz4, CODEC.zstd]) {
    const packed = codecs.deflate(codec, sample)
    for (let size = 0; size < packed.length; size++) {
      // Xerial's header alone is an empty stream.
      if (codec === CODEC.snappy && size === 16) continue
      assert.throws(() => codecs.inflate(codec, packed.subarray(0, size)), { code: 'CORRUPT_BATCH' }, `${codecName(codec)} cut at ${size}`)
    }
  }
})

test('damaged and random bytes end in a typed error or within the bound', async () => {
  const codecs = await readyCodecs()
  const sample = Buffer.concat([Buffer.alloc(3000, 'abc'), random.bytes(500), Buffer.alloc(3000, 'q')])
  const judge = (codec: number, bytes: Buffer) => {
    try {
      assert.ok(codecs.inflate(codec, bytes, 20_000).length <= 20_000)
    } catch (error) {
      assert.ok(['CORRUPT_BATCH', 'INFLATED_TOO_LARGE'].includes((error as { code: string }).code), String(error))
    }
  }
  for (const codec of [CODEC.gzip, CODEC.snappy, CODEC.lz4, CODEC.zstd]) {
    const packed = codecs.deflate(codec, sample)
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(packed.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }), (changes) => {
        const copy = Buffer.from(packed)
        for (const [at, value] of changes) copy[at] = value
        judge(codec, copy)
      }),
      { numRuns: 300, seed: 11 },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => judge(codec, Buffer.from(bytes))),
      { numRuns: 200, seed: 12 },
    )
  }
})

test('snappy is read raw and in xerial frames, with the versions in either order', async () => {
  const codecs = await readyCodecs()
  const text = Buffer.from('snappy '.repeat(20_000))
  const xerial = codecs.deflate(CODEC.snappy, text)
  assert.equal(xerial.toString('hex', 0, 16), '82534e4150505900' + '00000001' + '00000001')
  assert.deepEqual(decodeSnappy(xerial, MIB), text)
  const little = Buffer.from(xerial)
  little.writeInt32LE(1, 8)
  little.writeInt32LE(1, 12)
  assert.deepEqual(decodeSnappy(little, MIB), text)
  assert.deepEqual(decodeSnappy(xerial.subarray(0, 16), MIB), Buffer.alloc(0))
  assert.deepEqual(decodeSnappy(Buffer.from([0]), MIB), Buffer.alloc(0))
  // A raw block: 40 bytes of text as one literal with an extra length byte, then a copy of it all with a two-byte offset.
  const raw = Buffer.concat([Buffer.from([120, 60 << 2, 63]), Buffer.alloc(64, 'ab'), Buffer.from([(55 << 2) | 2, 64, 0])])
  assert.deepEqual(decodeSnappy(raw, MIB), Buffer.alloc(120, 'ab'))
})

test('an LZ4 frame may link its blocks, carry checksums and follow another', () => {
  const text = Buffer.alloc(1000, 'linked ')
  const blockOne = Buffer.concat([Buffer.from([0xf0, 255, 255, 255, 220]), text])
  // A match that reaches back into the first block: 5 literals, offset 1000, 40 bytes; then 5 literals.
  const blockTwo = Buffer.concat([Buffer.from([0x5f]), Buffer.from('abcde'), Buffer.from([0xed, 0x03, 21, 0x50]), Buffer.from('fghij')])
  const size = (bytes: Buffer) => {
    const out = Buffer.alloc(4)
    out.writeUInt32LE(bytes.length)
    return out
  }
  const check = (bytes: Buffer) => {
    const out = Buffer.alloc(4)
    out.writeUInt32LE(xxh32(bytes))
    return out
  }
  const expected = Buffer.concat([text, Buffer.from('abcde'), text.subarray(0, 40), Buffer.from('fghij')])
  const frame = (flags: number) => {
    const head = Buffer.from([0x04, 0x22, 0x4d, 0x18, flags, 0x40, 0])
    head[6] = (xxh32(head, 4, 6) >>> 8) & 0xff
    return Buffer.concat([
      head,
      size(blockOne),
      blockOne,
      check(blockOne),
      size(blockTwo),
      blockTwo,
      check(blockTwo),
      Buffer.alloc(4),
      check(expected),
    ])
  }
  const linked = frame(0x40 | 0x10 | 0x04)
  assert.deepEqual(decodeLz4(linked, MIB), expected)
  assert.deepEqual(decodeLz4(Buffer.concat([linked, encodeLz4(text)]), MIB), Buffer.concat([expected, text]))
  // The same blocks said to be independent: the match has nothing to reach back to.
  assert.throws(() => decodeLz4(frame(0x60 | 0x10 | 0x04), MIB), { code: 'CORRUPT_BATCH' })
  for (let at = 7; at < linked.length; at++) {
    const copy = Buffer.from(linked)
    copy[at] = (copy[at] as number) ^ 1
    assert.throws(() => decodeLz4(copy, MIB), { code: 'CORRUPT_BATCH' }, `flip at ${at}`)
  }
})

test('our own LZ4 encoder and the native one read each other', async () => {
  const codecs = await readyCodecs()
  const without = new Codecs({ loader: NOTHING })
  await without.ready(CODEC.lz4)
  assert.equal(without.ready(CODEC.lz4), undefined)
  for (const sample of SAMPLES) {
    assert.deepEqual(without.deflate(CODEC.lz4, sample), encodeLz4(sample))
    assert.deepEqual(decodeLz4(encodeLz4(sample), MIB), sample)
    assert.deepEqual(decodeLz4(codecs.deflate(CODEC.lz4, sample), MIB), sample)
  }
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', 'b', 'ab', 'abcdefgh', 'xyzxyz'), { maxLength: 400 }), (words) => {
      const bytes = Buffer.from(words.join(''))
      assert.deepEqual(decodeLz4(encodeLz4(bytes), Math.max(1, bytes.length)), bytes)
    }),
    { numRuns: 300, seed: 5 },
  )
})

test('xxh32 gives the published values', () => {
  assert.equal(xxh32(Buffer.from('')), 0x02cc5d05)
  assert.equal(xxh32(Buffer.from('abc')), 0x32d153ff)
  assert.equal(xxh32(Buffer.from('Nobody inspects the spammish repetition')), 0xe2293b2f)
})

test('zstd frames are told apart and bounded without inflating', async () => {
  const codecs = await readyCodecs()
  const one = codecs.deflate(CODEC.zstd, Buffer.alloc(300_000, 1))
  const two = codecs.deflate(CODEC.zstd, Buffer.from('second'))
  const skippable = Buffer.from('502a4d18' + '03000000' + '010203', 'hex')
  const frames = readZstdFrames(Buffer.concat([one, skippable, two]))
  assert.deepEqual(
    frames.map((frame) => [frame.start, frame.end]),
    [
      [0, one.length],
      [one.length + skippable.length, one.length + skippable.length + two.length],
    ],
  )
  assert.deepEqual(
    codecs.inflate(CODEC.zstd, Buffer.concat([one, skippable, two])),
    Buffer.concat([Buffer.alloc(300_000, 1), Buffer.from('second')]),
  )
})

test('a compressed batch is built and read', async () => {
  const codecs = await readyCodecs()
  for (const codec of Object.values(CODEC)) {
    const records = Array.from({ length: 50 }, (_, index) => ({
      key: null,
      value: Buffer.from(`value ${index}`),
      timestampMs: 1000 + index,
    }))
    const batch = buildBatch(records, { codec, compress: (id, bytes) => codecs.deflate(id, bytes) })
    const header = readBatchHeader(batch)
    const section = codecs.inflateRecords(batch, 0, header)
    assert.deepEqual(
      [...readRecords(section, header)].map((record) => record.value?.toString()),
      records.map((record) => record.value.toString()),
    )
  }
})

test('a codec has a name, and a number that names none is refused', () => {
  const codecs = new Codecs({ loader: NOTHING })
  assert.equal(codecName(4), 'zstd')
  assert.equal(codecName(5), undefined)
  assert.equal(codecByName('lz4'), 3)
  assert.equal(codecByName('producer'), undefined)
  assert.throws(() => codecs.ready(6), { code: 'UNSUPPORTED_COMPRESSION' })
  assert.throws(() => codecs.inflate(7, Buffer.alloc(1)), { code: 'UNSUPPORTED_COMPRESSION' })
  assert.throws(() => codecs.deflate(7, Buffer.alloc(1)), { code: 'UNSUPPORTED_COMPRESSION' })
  assert.equal(codecs.ready(CODEC.gzip), undefined)
})

test('a package that is missing is told by name, and asked for again', async () => {
  const codecs = new Codecs({ loader: NOTHING })
  await assert.rejects(async () => codecs.ready(CODEC.snappy), { code: 'UNSUPPORTED_COMPRESSION' })
  await assert.rejects(async () => codecs.ready(CODEC.snappy), { code: 'UNSUPPORTED_COMPRESSION' })
  assert.throws(() => codecs.deflate(CODEC.snappy, Buffer.alloc(1)), { code: 'INTERNAL' })
  assert.deepEqual(codecs.inflate(CODEC.snappy, Buffer.from([1, 0, 97])), Buffer.from('a'))
})

test('two sets of codecs share the one instance of zstd', async () => {
  const [one, two] = await Promise.all([readyCodecs(), readyCodecs()])
  const text = Buffer.alloc(10_000, 'zstd ')
  for (let round = 0; round < 20; round++) assert.deepEqual(two.inflate(CODEC.zstd, one.deflate(CODEC.zstd, text)), text)
})

test('gzip of several members is one stream', () => {
  const codecs = new Codecs({ loader: NOTHING })
  const members = Buffer.concat([zlib.gzipSync('one '), zlib.gzipSync('two')])
  assert.equal(codecs.inflate(CODEC.gzip, members).toString(), 'one two')
})
