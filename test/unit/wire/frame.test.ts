import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import test from 'node:test'
import { isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { encodeFrame, type Frame, FrameCutter, type PartialBudget } from '../../../src/wire/frame.ts'

const CORRELATION = Buffer.alloc(16, 5)

function frames(cutter: FrameCutter, chunks: readonly Buffer[]): Frame[] {
  const found: Frame[] = []
  for (const chunk of chunks) {
    cutter.push(chunk)
    for (let frame = cutter.next(); frame !== null; frame = cutter.next()) found.push(frame)
  }
  return found
}

/** Counts what is taken. */
class Counting implements PartialBudget {
  taken = 0
  most = 0
  readonly limit: number

  constructor(limit = Infinity) {
    this.limit = limit
  }

  take(bytes: number): boolean {
    if (this.taken + bytes > this.limit) return false
    this.taken += bytes
    this.most = Math.max(this.most, this.taken)
    return true
  }

  give(bytes: number): void {
    this.taken -= bytes
  }
}

test('a stream cut at any byte gives the same frames', () => {
  const payloads = [0, 1, 5000, 70_000, 3].map((size) => Buffer.alloc(size, size & 0xff))
  const stream = Buffer.concat(
    payloads.map((value) => encodeFrame('AUTH', CORRELATION, { username: 'u', password: value.subarray(0, 1000) }, 10)),
  )
  const whole = frames(new FrameCutter(1 << 20), [stream])
  equal(whole.length, payloads.length)
  const random = new SeededRandom(3)
  for (let round = 0; round < 100; round++) {
    const budget = new Counting()
    const chunks: Buffer[] = []
    for (let at = 0; at < stream.length; ) {
      const size = 1 + random.below(round < 10 ? 3 : 900)
      chunks.push(Buffer.from(stream.subarray(at, at + size)))
      at += size
    }
    const cutter = new FrameCutter(1 << 20, budget)
    deepEqual(frames(cutter, chunks), whole)
    equal(cutter.inFrame, false)
    equal(budget.taken, 0)
  }
})

test('a length is judged by its four bytes alone', () => {
  const refuses = (hex: string, code: 'BAD_FRAME' | 'FRAME_TOO_LARGE') =>
    throws(
      () => frames(new FrameCutter(1 << 20), [Buffer.from(hex, 'hex')]),
      (error) => isCode(error, code),
    )
  refuses('00000000', 'BAD_FRAME')
  refuses('00000010', 'BAD_FRAME')
  refuses('00100001', 'FRAME_TOO_LARGE')
  refuses('ffffffff', 'FRAME_TOO_LARGE')
  throws(
    () => frames(new FrameCutter(1 << 20), [Buffer.from('0010', 'hex'), Buffer.from('0001', 'hex')]),
    (error) => isCode(error, 'FRAME_TOO_LARGE'),
  )
  deepEqual(frames(new FrameCutter(1 << 20), [Buffer.from('00100000', 'hex')]), [])
})

test('memory for a frame grows with what has arrived, never ahead of it', () => {
  const budget = new Counting()
  const cutter = new FrameCutter(1 << 20, budget)
  frames(cutter, [Buffer.from('00100000', 'hex'), Buffer.alloc(10)])
  ok(cutter.inFrame)
  ok(budget.taken <= 4096, `${budget.taken}`)
  frames(
    cutter,
    Array.from({ length: 100 }, () => Buffer.alloc(100)),
  )
  ok(budget.taken <= 2 * 16_384, `${budget.taken}`)
  cutter.close()
  equal(budget.taken, 0)
})

test('without memory for it the stream is refused', () => {
  const cutter = new FrameCutter(1 << 20, new Counting(8192))
  throws(
    () => frames(cutter, [Buffer.from('00100000', 'hex'), Buffer.alloc(10_000)]),
    (error) => isCode(error, 'RATE_LIMITED'),
  )
})
