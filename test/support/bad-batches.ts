import { AT, BATCH_PREFIX_BYTES, sealBatch } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch, type NewRecord } from '../../src/record/builder.ts'
import type { Codecs } from '../../src/record/compression.ts'

/** A batch that a producer could send, and the code that it gets: Kafka 4.4's own, except where `kafka` says another one. */
export interface SentBatch {
  readonly what: string
  readonly topic: 'plain' | 'compacted'
  readonly bytes: Buffer
  readonly code: number
  /** What Kafka 4.4 answers where it differs, with the reason for the difference in `why`. */
  readonly kafka?: number
  readonly why?: string
}

const [UNKNOWN, NONE, CORRUPT, TOO_LARGE, TIMESTAMP, CODEC, INVALID] = [-1, 0, 2, 10, 32, 76, 87]
const INT64_MAX = 2n ** 63n - 1n

function recordsOf(count: number, nowMs: number, key: string | null = 'k'): NewRecord[] {
  const bytes = key === null ? null : Buffer.from(key)
  return Array.from({ length: count }, () => ({ key: bytes, value: Buffer.from('value'), timestampMs: nowMs }))
}

/** One record as its bytes, each part as the test wants it. */
function rawRecord(parts: readonly (number | string)[]): Buffer {
  return Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.from([part]) : Buffer.from(part, 'latin1'))))
}

function counts(batch: Buffer, count: number): void {
  batch.writeInt32BE(count, AT.recordCount)
  batch.writeInt32BE(count - 1, AT.lastOffsetDelta)
}

/** Zig-zag of small numbers. */
function zigzag(value: number): number {
  return value >= 0 ? value * 2 : -value * 2 - 1
}

const GOOD_RECORD = rawRecord([zigzag(9), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', 0])

const NO_NAME = { kafka: UNKNOWN, why: 'an error with a name, which is not tried again' }

/** Kafka does not look at the length of a compressed record, and has no name for some faults. */
function differs(what: string, codec: number): Partial<SentBatch> {
  const unseen = { kafka: NONE, why: 'no consumer could walk it' }
  if (what === 'a record longer than the batch' && codec > 0) return unseen
  if (what === 'an offset delta of 1') return codec === 0 ? { kafka: NONE, why: 'offsets have no gap' } : NO_NAME
  return what === 'a length without end' && codec === 0 ? NO_NAME : {}
}

/** Every case; `nowMs` is about the broker's clock. */
export function sentBatches(codecs: Codecs, nowMs: number): readonly SentBatch[] {
  const all: SentBatch[] = []
  const put = (what: string, code: number, bytes: Buffer, more: Partial<SentBatch> = {}) =>
    all.push({ what, topic: 'plain', code, bytes, ...more })
  const plain = (count = 2, options: BatchOptions = {}) => buildBatch(recordsOf(count, nowMs), options)
  /** A good batch with bytes changed and the checksum made right again. */
  const changed = (change: (bytes: Buffer) => void, bytes = plain()) => {
    change(bytes)
    sealBatch(bytes, 0, bytes.length)
    return bytes
  }
  const compressed = (section: Buffer, count: number, codec: number) => {
    const head = Buffer.from(plain(count).subarray(0, AT.records))
    const packed = codec === 0 ? section : codecs.deflate(codec, section)
    const bytes = Buffer.concat([head, packed])
    bytes.writeInt32BE(bytes.length - BATCH_PREFIX_BYTES, AT.batchLength)
    bytes.writeInt16BE(codec, AT.attributes)
    sealBatch(bytes, 0, bytes.length)
    return bytes
  }

  put('a good batch', NONE, plain())
  put('no bytes', INVALID, Buffer.alloc(0))
  put('fewer bytes than a magic', INVALID, plain().subarray(0, 16))
  put(
    'a batch length beyond the bytes',
    INVALID,
    changed((b) => b.writeInt32BE(b.length, AT.batchLength)),
  )
  put(
    'a negative batch length',
    CORRUPT,
    changed((b) => b.writeInt32BE(-1, AT.batchLength)),
  )
  put(
    'a batch length below the header',
    CORRUPT,
    changed((b) => b.writeInt32BE(20, AT.batchLength)),
  )
  put('two batches', INVALID, Buffer.concat([plain(), plain()]))
  for (const magic of [0, 1])
    put(
      `magic ${magic}`,
      INVALID,
      changed((b) => b.writeInt8(magic, AT.magic)),
    )
  for (const magic of [3, -1])
    put(
      `magic ${magic}`,
      CORRUPT,
      changed((b) => b.writeInt8(magic, AT.magic)),
    )
  const flipped = plain()
  flipped.writeUInt8(flipped.readUInt8(70) ^ 1, 70)
  put('a wrong checksum', CORRUPT, flipped)
  put(
    'a base offset',
    INVALID,
    changed((b) => b.writeBigInt64BE(5n, AT.baseOffset)),
  )
  put(
    'a count above the last offset delta',
    INVALID,
    changed((b) => b.writeInt32BE(3, AT.recordCount)),
  )
  put(
    'a count below the last offset delta',
    INVALID,
    changed((b) => b.writeInt32BE(1, AT.recordCount)),
  )
  put(
    'a count of 0',
    INVALID,
    changed((b) => b.writeInt32BE(0, AT.recordCount)),
  )
  put(
    'a count of -1',
    INVALID,
    changed((b) => b.writeInt32BE(-1, AT.recordCount)),
  )
  put(
    'a last offset delta of -1',
    INVALID,
    changed((b) => b.writeInt32BE(-1, AT.lastOffsetDelta)),
  )
  put(
    'count and delta beyond the records',
    INVALID,
    changed((b) => counts(b, 9)),
  )
  put(
    'count and delta short of the records',
    INVALID,
    changed((b) => counts(b, 1)),
  )
  put(
    'a control batch',
    INVALID,
    changed((b) => b.writeInt16BE(0x20, AT.attributes)),
  )
  const stamped = { kafka: NONE, why: 'a producer that claims the clock of the broker is told so instead of being corrected' }
  put(
    'log append time',
    TIMESTAMP,
    changed((b) => b.writeInt16BE(0x08, AT.attributes)),
    stamped,
  )
  put(
    'codec 5',
    CODEC,
    changed((b) => b.writeInt16BE(5, AT.attributes)),
    { kafka: UNKNOWN, why: 'an error with a name' },
  )
  const unknown = { kafka: NONE, why: 'what a bit means must be known before it is kept for ever' }
  put(
    'an unknown attribute',
    INVALID,
    changed((b) => b.writeInt16BE(0x80, AT.attributes)),
    unknown,
  )
  put(
    'a delete horizon',
    INVALID,
    changed((b) => b.writeInt16BE(0x40, AT.attributes)),
    unknown,
  )
  put(
    'a producer id without a sequence',
    INVALID,
    changed((b) => b.writeBigInt64BE(5n, AT.producerId)),
  )
  const wide = { kafka: NONE, why: 'times are whole numbers up to 2^53; Kafka corrects the field' }
  put(
    'a largest time beyond 2^53',
    TIMESTAMP,
    changed((b) => b.writeBigInt64BE(INT64_MAX, AT.maxTimestamp)),
    wide,
  )
  put('a time two hours ahead', TIMESTAMP, buildBatch(recordsOf(1, nowMs + 7_200_000)))
  put('no time', NONE, buildBatch(recordsOf(1, -1)))
  put('a batch above max.message.bytes', TOO_LARGE, buildBatch([{ key: null, value: Buffer.alloc(1_100_000), timestampMs: nowMs }]))
  put('no key on a compacted topic', INVALID, buildBatch(recordsOf(1, nowMs, null)), { topic: 'compacted' })
  put('an empty key on a compacted topic', NONE, buildBatch(recordsOf(1, nowMs, '')), { topic: 'compacted' })
  put('a key on a compacted topic', NONE, plain(), { topic: 'compacted' })

  const records: readonly (readonly [what: string, section: Buffer, code?: number])[] = [
    ['a good record', GOOD_RECORD, NONE],
    ['an attribute of a record', rawRecord([zigzag(9), 9, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', 0]), NONE],
    ['a record longer than the batch', rawRecord([zigzag(30), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', 0])],
    ['a record with bytes left over', rawRecord([zigzag(10), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', 0, 0])],
    ['bytes after the last record', rawRecord([zigzag(9), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', 0, 0])],
    ['a record of no length', rawRecord([zigzag(0)])],
    ['a negative length', rawRecord([zigzag(-1), 0, 0, 0, 1, 1, 0])],
    ['a key beyond its record', rawRecord([zigzag(9), 0, 0, 0, zigzag(60), 'k', zigzag(2), 'vv', 0])],
    ['a value beyond its record', rawRecord([zigzag(9), 0, 0, 0, zigzag(1), 'k', zigzag(60), 'vv', 0])],
    ['a key length of -2', rawRecord([zigzag(9), 0, 0, 0, zigzag(-2), 'k', zigzag(2), 'vv', 0])],
    ['a header count of -1', rawRecord([zigzag(9), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', zigzag(-1)])],
    ['headers that are not there', rawRecord([zigzag(9), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', zigzag(3)])],
    ['a header without a key', rawRecord([zigzag(11), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', zigzag(1), zigzag(-1), zigzag(-1)])],
    [
      'a header with an empty key and a null value',
      rawRecord([zigzag(11), 0, 0, 0, zigzag(1), 'k', zigzag(2), 'vv', zigzag(1), 0, zigzag(-1)]),
      NONE,
    ],
    ['an offset delta of 1', rawRecord([zigzag(9), 0, 0, zigzag(1), zigzag(1), 'k', zigzag(2), 'vv', 0])],
    ['a length without end', rawRecord([0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
    ['a time delta without end', rawRecord([zigzag(14), 0, ...new Array<number>(11).fill(0xff), 0, 1, 1, 0])],
    ['no record', Buffer.alloc(0)],
  ]
  for (const [what, section, code = INVALID] of records) {
    for (const codec of [0, 1, 2, 3, 4]) put(`${what}, codec ${codec}`, code, compressed(section, 1, codec), differs(what, codec))
  }
  for (const codec of [1, 2, 3, 4]) {
    const noise = compressed(GOOD_RECORD, 1, codec)
    noise.fill(0x5a, AT.records)
    sealBatch(noise, 0, noise.length)
    put(`noise, codec ${codec}`, CORRUPT, noise, NO_NAME)
    const whole = compressed(Buffer.concat(new Array<Buffer>(50).fill(GOOD_RECORD)), 50, codec)
    const cut = Buffer.from(whole.subarray(0, whole.length - 6))
    cut.writeInt32BE(cut.length - BATCH_PREFIX_BYTES, AT.batchLength)
    sealBatch(cut, 0, cut.length)
    put(`cut, codec ${codec}`, CORRUPT, cut, NO_NAME)
  }
  return all
}
