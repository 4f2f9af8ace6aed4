import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isCode } from '../../../src/core/errors.ts'
import { FrameBudget, FrameReader } from '../../../src/kafka/frames.ts'
import { framed } from '../../support/kafka-frames.ts'

const MIB = 1024 * 1024

function readerOf(maxFrameBytes = MIB, budgetBytes = 64 * MIB): { reader: FrameReader; budget: FrameBudget } {
  const budget = new FrameBudget(budgetBytes)
  return { reader: new FrameReader(budget, maxFrameBytes), budget }
}

function all(reader: FrameReader): string[] {
  const found: string[] = []
  for (let frame = reader.next(); frame !== null; frame = reader.next()) found.push(frame.toString())
  return found
}

const THREE = Buffer.concat(['first frame', 'the second one', 'third of them'].map((text) => framed(Buffer.from(text))))
const TEXTS = ['first frame', 'the second one', 'third of them']

describe('kafka frames', () => {
  it('cuts frames wherever the chunks are split in two', () => {
    for (let cut = 0; cut <= THREE.length; cut++) {
      const { reader, budget } = readerOf()
      const found: string[] = []
      for (const chunk of [THREE.subarray(0, cut), THREE.subarray(cut)]) {
        reader.push(chunk)
        found.push(...all(reader))
      }
      assert.deepEqual(found, TEXTS, `cut at ${cut}`)
      assert.equal(reader.waitingBytes, 0)
      assert.equal(budget.takenBytes, 0)
      assert.equal(reader.inFrame, false)
    }
  })

  it('cuts frames out of single bytes, asked for at each byte or at the end', () => {
    for (const atEnd of [false, true]) {
      const { reader, budget } = readerOf()
      const found: string[] = []
      for (const byte of THREE) {
        reader.push(Buffer.from([byte]))
        if (!atEnd) found.push(...all(reader))
      }
      found.push(...all(reader))
      assert.deepEqual(found, TEXTS)
      assert.equal(budget.takenBytes, 0)
      assert.equal(reader.waitingBytes, 0)
    }
  })

  it('does not copy a frame that lies within one chunk', () => {
    const { reader } = readerOf()
    reader.push(THREE)
    const frame = reader.next()
    assert.equal(frame?.buffer, THREE.buffer)
    assert.equal(frame?.byteOffset, THREE.byteOffset + 4)
  })

  it('gives a frame over several chunks memory of its own, copied once when its size is near what arrived', () => {
    const payload = Buffer.alloc(130_000, 7)
    const { reader, budget } = readerOf()
    const bytes = framed(payload)
    reader.push(bytes.subarray(0, 65_536))
    assert.equal(reader.next(), null)
    assert.equal(budget.takenBytes, payload.length)
    reader.push(bytes.subarray(65_536))
    const frame = reader.next()
    assert.deepEqual(frame, payload)
    assert.equal(frame?.byteOffset, 0)
    assert.equal(frame?.buffer.byteLength, payload.length)
  })

  it('takes memory for what arrived, not for what a length announces', () => {
    const { reader, budget } = readerOf(100 * MIB, 1024 * MIB)
    const head = Buffer.alloc(5)
    head.writeInt32BE(100 * MIB)
    reader.push(head)
    assert.equal(reader.next(), null)
    assert.ok(budget.takenBytes <= 65_536, `${budget.takenBytes} bytes for one that arrived`)
    reader.close()
    assert.equal(budget.takenBytes, 0)
  })

  it('refuses lengths that no request can have as soon as their four bytes are there', () => {
    for (const [length, code] of [
      [-1, 'BAD_FRAME'],
      [-2147483648, 'BAD_FRAME'],
      [0, 'BAD_FRAME'],
      [7, 'BAD_FRAME'],
      [MIB + 1, 'FRAME_TOO_LARGE'],
      [2147483647, 'FRAME_TOO_LARGE'],
    ] as const) {
      const { reader } = readerOf()
      const head = Buffer.alloc(4)
      head.writeInt32BE(length)
      reader.push(head)
      assert.throws(
        () => reader.next(),
        (error) => isCode(error, code),
        `length ${length}`,
      )
    }
  })

  it('refuses to grow beyond the memory that all unfinished frames share', () => {
    const { reader, budget } = readerOf(MIB, 100_000)
    const other = new FrameReader(budget, MIB)
    const half = framed(Buffer.alloc(90_000)).subarray(0, 80_000)
    other.push(half)
    assert.equal(other.next(), null)
    reader.push(half)
    assert.throws(
      () => reader.next(),
      (error) => isCode(error, 'RATE_LIMITED'),
    )
    reader.close()
    other.close()
    assert.equal(budget.takenBytes, 0)
  })

  it('counts what waits, single bytes with their overhead', () => {
    const { reader } = readerOf()
    for (let i = 0; i < 1000; i++) reader.push(Buffer.from([0]))
    assert.ok(reader.waitingBytes > 100_000, String(reader.waitingBytes))
  })
})
