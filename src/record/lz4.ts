import { malformed, tooLarge } from './inflate-errors.ts'
import { xxh32 } from './xxhash.ts'

/**
 * LZ4 frames (LZ4 frame format 1.6.3), decoded under a bound and encoded without help. A library's decoder takes what the frame asks for:
 * two megabytes became five hundred. Here memory follows the input that is really there, and the bound is checked at each sequence.
 */
const MAGIC = 0x184d2204
const SKIPPABLE_MAGIC = 0x184d2a50
const MIN_MATCH = 4
/** An LZ4 block grows at most 255-fold: one byte more of a length says 255 bytes more. */
const MAX_RATIO = 255
const SHORT_COPY_BYTES = 24

const FLAG = {
  version: 0xc0,
  version1: 0x40,
  independent: 0x20,
  blockChecksum: 0x10,
  contentSize: 0x08,
  contentChecksum: 0x04,
  dictionary: 0x01,
} as const

function broken(reason: string): never {
  throw malformed('lz4', reason)
}

interface Frame {
  readonly flags: number
  readonly blockMaxBytes: number
  readonly contentBytes: number | undefined
  /** First byte after the descriptor. */
  readonly start: number
}

function readFrame(bytes: Buffer, at: number): Frame {
  if (bytes.length - at < 7) broken('the frame is cut in its descriptor')
  const flags = bytes[at + 4] as number
  const blockDescriptor = bytes[at + 5] as number
  if ((flags & FLAG.version) !== FLAG.version1 || (flags & 0x02) !== 0) broken(`frame flags ${flags} are not known`)
  if ((flags & FLAG.dictionary) !== 0) broken('the frame needs a dictionary')
  const sizeCode = (blockDescriptor >> 4) & 7
  if (sizeCode < 4 || (blockDescriptor & 0x8f) !== 0) broken(`block descriptor ${blockDescriptor} is not known`)
  let end = at + 6
  let contentBytes: number | undefined
  if ((flags & FLAG.contentSize) !== 0) {
    if (bytes.length - end < 9) broken('the frame is cut in its descriptor')
    contentBytes = bytes.readUInt32LE(end) + bytes.readUInt32LE(end + 4) * 4294967296
    end += 8
  }
  if (bytes[end] !== ((xxh32(bytes, at + 4, end) >>> 8) & 0xff)) broken('the checksum of the descriptor is wrong')
  return { flags, blockMaxBytes: 1 << (8 + 2 * sizeCode), contentBytes, start: end + 1 }
}

/** Output that grows with what is written, never beyond the bound. */
class Output {
  bytes: Buffer
  size = 0
  readonly #maxBytes: number

  constructor(firstBytes: number, maxBytes: number) {
    this.bytes = Buffer.allocUnsafe(Math.min(firstBytes, maxBytes))
    this.#maxBytes = maxBytes
  }

  /** Makes room for `more` bytes, as far as the bound goes. */
  reserve(more: number): void {
    const needed = Math.min(this.size + more, this.#maxBytes)
    if (needed <= this.bytes.length) return
    const next = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(needed, this.bytes.length * 2)))
    this.bytes.copy(next, 0, 0, this.size)
    this.bytes = next
  }

  get maxBytes(): number {
    return this.#maxBytes
  }
}

/** Inflates one or several frames. Throws CORRUPT_BATCH, or INFLATED_TOO_LARGE as soon as more than `maxBytes` would come out. */
export function decodeLz4(bytes: Buffer, maxBytes: number): Buffer {
  const output = new Output(Math.min(bytes.length * 4, bytes.length * MAX_RATIO), maxBytes)
  let at = 0
  if (bytes.length === 0) broken('there is no frame')
  while (at < bytes.length) {
    if (bytes.length - at < 8) broken('the frame is cut in its magic')
    const magic = bytes.readUInt32LE(at)
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
      at += 8 + bytes.readUInt32LE(at + 4)
      if (at > bytes.length) broken('a skippable frame is cut')
      continue
    }
    if (magic !== MAGIC) broken(`magic ${magic.toString(16)} is not that of a frame`)
    at = decodeFrame(bytes, at, output)
  }
  return output.bytes.subarray(0, output.size)
}

function decodeFrame(bytes: Buffer, frameAt: number, output: Output): number {
  const frame = readFrame(bytes, frameAt)
  if (frame.contentBytes !== undefined && frame.contentBytes > output.maxBytes - output.size) throw tooLarge(output.maxBytes)
  if (frame.contentBytes !== undefined) output.reserve(Math.min(frame.contentBytes, (bytes.length - frame.start) * MAX_RATIO))
  const frameStart = output.size
  let at = frame.start
  for (;;) {
    if (bytes.length - at < 4) broken('the frame is cut before its end mark')
    const word = bytes.readUInt32LE(at)
    at += 4
    if (word === 0) break
    const size = word & 0x7fffffff
    const checked = (frame.flags & FLAG.blockChecksum) !== 0 ? 4 : 0
    if (size > frame.blockMaxBytes || size + checked > bytes.length - at) broken(`a block of ${size} bytes is too long`)
    if (checked > 0 && bytes.readUInt32LE(at + size) !== xxh32(bytes, at, at + size)) broken('the checksum of a block is wrong')
    if (word >= 0x80000000) copyStored(bytes, at, size, output)
    else {
      const history = (frame.flags & FLAG.independent) !== 0 ? output.size : frameStart
      output.reserve(Math.min(frame.blockMaxBytes, size * MAX_RATIO))
      decodeBlock(bytes, at, at + size, output, history, output.size + frame.blockMaxBytes)
    }
    at += size + checked
  }
  if (frame.contentBytes !== undefined && frame.contentBytes !== output.size - frameStart) broken('the content size is wrong')
  if ((frame.flags & FLAG.contentChecksum) === 0) return at
  if (bytes.length - at < 4) broken('the frame is cut before its checksum')
  if (bytes.readUInt32LE(at) !== xxh32(output.bytes, frameStart, output.size)) broken('the checksum of the content is wrong')
  return at + 4
}

function copyStored(bytes: Buffer, at: number, size: number, output: Output): void {
  if (size > output.maxBytes - output.size) throw tooLarge(output.maxBytes)
  output.reserve(size)
  bytes.copy(output.bytes, output.size, at, at + size)
  output.size += size
}

/** One block. Matches may reach back to `history`; the output of the block ends at `blockEnd` at the latest. */
function decodeBlock(src: Buffer, from: number, end: number, output: Output, history: number, blockEnd: number): void {
  const out = output.bytes
  const limit = Math.min(blockEnd, output.maxBytes)
  let at = from
  let pos = output.size
  for (;;) {
    if (at >= end) broken('a block ends before its last literals')
    const token = src[at++] as number
    let literals = token >>> 4
    if (literals === 15) {
      let more = 255
      while (more === 255) {
        if (at >= end) broken('a literal length is cut')
        more = src[at++] as number
        literals += more
      }
    }
    if (literals > end - at) broken('literals go beyond their block')
    if (literals > limit - pos)
      throw limit === output.maxBytes ? tooLarge(limit) : malformed('lz4', 'a block is longer than its frame allows')
    if (literals > SHORT_COPY_BYTES) src.copy(out, pos, at, at + literals)
    else for (let i = 0; i < literals; i++) out[pos + i] = src[at + i] as number
    at += literals
    pos += literals
    if (at === end) break
    if (end - at < 2) broken('a match is cut')
    const offset = (src[at] as number) | ((src[at + 1] as number) << 8)
    at += 2
    if (offset === 0 || offset > pos - history) broken('a match begins before the output')
    let length = token & 15
    if (length === 15) {
      let more = 255
      while (more === 255) {
        if (at >= end) broken('a match length is cut')
        more = src[at++] as number
        length += more
      }
    }
    length += MIN_MATCH
    if (length > limit - pos)
      throw limit === output.maxBytes ? tooLarge(limit) : malformed('lz4', 'a block is longer than its frame allows')
    pos = copyMatch(out, pos, offset, length)
  }
  output.size = pos
}

/** Repeats what lies `offset` bytes back; source and target may overlap. */
export function copyMatch(out: Buffer, pos: number, offset: number, length: number): number {
  const from = pos - offset
  if (offset >= length && length > SHORT_COPY_BYTES) out.copyWithin(pos, from, from + length)
  else if (offset === 1) out.fill(out[from] as number, pos, pos + length)
  else for (let i = 0; i < length; i++) out[pos + i] = out[from + i] as number
  return pos + length
}

// ---- encoder --------------------------------------------------------------------------------------------------------------

const BLOCK_BYTES = 64 * 1024
const HASH_BITS = 13
/** The format ends a block with at least five literals, and begins no match in its last twelve bytes. */
const LAST_LITERALS = 5
const MATCH_GUARD = 12

/** One frame of independent 64 KiB blocks, as Kafka's clients expect it. */
export function encodeLz4(bytes: Buffer): Buffer {
  const blocks = Math.ceil(bytes.length / BLOCK_BYTES)
  const out = Buffer.allocUnsafe(7 + bytes.length + blocks * (4 + 16 + Math.ceil(BLOCK_BYTES / 255)) + 4)
  out.writeUInt32LE(MAGIC, 0)
  out[4] = FLAG.version1 | FLAG.independent
  out[5] = 0x40
  out[6] = (xxh32(out, 4, 6) >>> 8) & 0xff
  let pos = 7
  const table = new Int32Array(1 << HASH_BITS)
  for (let start = 0; start < bytes.length; start += BLOCK_BYTES) {
    const end = Math.min(start + BLOCK_BYTES, bytes.length)
    table.fill(-1)
    const size = encodeBlock(bytes, start, end, out, pos + 4, table) - (pos + 4)
    if (size < end - start) {
      out.writeUInt32LE(size, pos)
      pos += 4 + size
    } else {
      out.writeUInt32LE((0x80000000 | (end - start)) >>> 0, pos)
      bytes.copy(out, pos + 4, start, end)
      pos += 4 + end - start
    }
  }
  out.writeUInt32LE(0, pos)
  return out.subarray(0, pos + 4)
}

function encodeBlock(src: Buffer, start: number, end: number, out: Buffer, outAt: number, table: Int32Array): number {
  let pos = outAt
  let anchor = start
  let at = start
  const matchLimit = end - MATCH_GUARD
  while (at < matchLimit) {
    const word = src.readInt32LE(at)
    const slot = Math.imul(word, 0x9e3779b1) >>> (32 - HASH_BITS)
    const candidate = table[slot] as number
    table[slot] = at
    if (candidate < 0 || at - candidate > 65535 || src.readInt32LE(candidate) !== word) {
      // The longer nothing matches, the larger the steps: noise costs little.
      at += 1 + ((at - anchor) >>> 6)
      continue
    }
    let length = MIN_MATCH
    const most = end - LAST_LITERALS - at
    while (length < most && src[candidate + length] === src[at + length]) length++
    pos = putSequence(src, anchor, at - anchor, out, pos, at - candidate, length)
    at += length
    anchor = at
  }
  return putSequence(src, anchor, end - anchor, out, pos, 0, 0)
}

function putLength(out: Buffer, at: number, length: number): number {
  let pos = at
  let rest = length - 15
  for (; rest >= 255; rest -= 255) out[pos++] = 255
  out[pos++] = rest
  return pos
}

/** Literals and the match after them; no match (`length` 0) at the end of a block. */
function putSequence(src: Buffer, from: number, literals: number, out: Buffer, at: number, offset: number, length: number): number {
  const matchCode = length === 0 ? 0 : length - MIN_MATCH
  let pos = at
  out[pos++] = (Math.min(literals, 15) << 4) | Math.min(matchCode, 15)
  if (literals >= 15) pos = putLength(out, pos, literals)
  src.copy(out, pos, from, from + literals)
  pos += literals
  if (length === 0) return pos
  out[pos++] = offset & 0xff
  out[pos++] = offset >>> 8
  return matchCode >= 15 ? putLength(out, pos, matchCode) : pos
}
