import { malformed } from './inflate-errors.ts'

/**
 * The frames of a zstd stream (RFC 8878), told apart without inflating: where each begins and ends, and the most that can come out of
 * it. So memory can be bounded before the decoder, which trusts what a frame says, gets to see it.
 */
export interface ZstdFrame {
  readonly start: number
  readonly end: number
  /** What the header promises, or undefined. */
  readonly contentBytes: number | undefined
  /** No frame with these blocks inflates to more. */
  readonly mostBytes: number
  /** Stored and repeated bytes: no frame with these blocks inflates to less. */
  readonly leastBytes: number
}

const MAGIC = 0xfd2fb528
const SKIPPABLE_MAGIC = 0x184d2a50
const MAX_BLOCK_BYTES = 128 * 1024

function broken(reason: string): never {
  throw malformed('zstd', reason)
}

export function readZstdFrames(bytes: Buffer): ZstdFrame[] {
  const frames: ZstdFrame[] = []
  let at = 0
  if (bytes.length === 0) broken('there is no frame')
  while (at < bytes.length) {
    if (bytes.length - at < 8) broken('the frame is cut in its header')
    const magic = bytes.readUInt32LE(at)
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
      at += 8 + bytes.readUInt32LE(at + 4)
      if (at > bytes.length) broken('a skippable frame is cut')
      continue
    }
    if (magic !== MAGIC) broken(`magic ${magic.toString(16)} is not that of a frame`)
    const frame = readFrame(bytes, at)
    frames.push(frame)
    at = frame.end
  }
  return frames
}

/** What the first frame promises; undefined when it does not, or is none. */
export function zstdContentHint(bytes: Buffer): number | undefined {
  if (bytes.length < 18 || bytes.readUInt32LE(0) !== MAGIC) return undefined
  return readHeader(bytes, 0).contentBytes
}

function readFrame(bytes: Buffer, start: number): ZstdFrame {
  const header = readHeader(bytes, start)
  const { at, most, least } = walkBlocks(bytes, header.end, header.blockMaxBytes)
  const end = at + (header.checksum ? 4 : 0)
  if (end > bytes.length) broken('the frame is cut in its checksum')
  const { contentBytes } = header
  return { start, end, contentBytes, mostBytes: Math.min(most, contentBytes ?? most), leastBytes: least }
}

interface FrameHeader {
  readonly end: number
  readonly blockMaxBytes: number
  readonly contentBytes: number | undefined
  readonly checksum: boolean
}

function readHeader(bytes: Buffer, start: number): FrameHeader {
  const descriptor = bytes[start + 4] as number
  if ((descriptor & 0x08) !== 0) broken('a reserved bit is set')
  const single = (descriptor & 0x20) !== 0
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number
  const sizeCode = descriptor >>> 6
  const sizeBytes = sizeCode === 0 ? (single ? 1 : 0) : 1 << sizeCode
  let at = start + 5
  if (bytes.length - at < (single ? 0 : 1) + dictionaryBytes + sizeBytes) broken('the frame is cut in its header')
  let windowBytes = Number.POSITIVE_INFINITY
  if (!single) {
    const window = bytes[at++] as number
    const base = 2 ** (10 + (window >>> 3))
    windowBytes = base + (base / 8) * (window & 7)
  }
  if (dictionaryBytes > 0 && bytes.readUIntLE(at, dictionaryBytes) !== 0) broken('the frame needs a dictionary')
  at += dictionaryBytes
  let contentBytes: number | undefined
  if (sizeBytes === 1) contentBytes = bytes[at] as number
  else if (sizeBytes === 2) contentBytes = bytes.readUInt16LE(at) + 256
  else if (sizeBytes === 4) contentBytes = bytes.readUInt32LE(at)
  else if (sizeBytes === 8) contentBytes = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 4294967296
  at += sizeBytes
  if (single && contentBytes !== undefined) windowBytes = contentBytes
  return { end: at, blockMaxBytes: Math.min(windowBytes, MAX_BLOCK_BYTES), contentBytes, checksum: (descriptor & 0x04) !== 0 }
}

function walkBlocks(bytes: Buffer, start: number, blockMaxBytes: number): { at: number; most: number; least: number } {
  let at = start
  let most = 0
  let least = 0
  for (;;) {
    if (bytes.length - at < 3) broken('the frame is cut before its last block')
    const word = bytes.readUIntLE(at, 3)
    at += 3
    const size = word >>> 3
    const kind = (word >>> 1) & 3
    if (kind === 3) broken('a block is of the reserved kind')
    const stored = kind === 1 ? 1 : size
    if (stored > bytes.length - at) broken(`a block of ${stored} bytes with ${bytes.length - at} left`)
    if (kind !== 2 && size > blockMaxBytes) broken(`a block of ${size} bytes exceeds ${blockMaxBytes}`)
    at += stored
    most += kind === 2 ? blockMaxBytes : size
    least += kind === 2 ? 0 : size
    if ((word & 1) !== 0) return { at, most, least }
  }
}
